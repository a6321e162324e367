//! The tenant's rollouts, newest first.

use askama::Template;
use axum::response::Response;
use bc_protocol::id::TenantId;

use super::{
    bar::{self, Count, Piece, bars, counts},
    failure::Failure,
    operator::{Address, Asked, Operator},
    page::{Page, Section, html},
    paging,
    show::{At, Badge, at, count, number_text, seconds},
};
use crate::{
    api::{
        freeze::Frozen,
        rollout::{Rollout, RolloutState},
    },
    clock::Moment,
    rollout::{board::Wave, service},
};

/// Rollouts on a page.
const SHOWN: usize = 20;

#[derive(Template)]
#[template(path = "console/rollouts.html")]
struct RolloutsPage {
    page: Page,
    frozen: Option<FreezeNotice>,
    cards: Vec<Card>,
    newer: Option<String>,
    older: Option<String>,
}

/// Why nothing starts.
#[derive(Debug)]
pub(super) struct FreezeNotice {
    /// Why.
    pub reason: String,
    /// By whom.
    pub by: String,
    /// Since when.
    pub since: At,
}

impl FreezeNotice {
    /// As seen now.
    pub(super) fn new(frozen: Frozen, now: Moment) -> Self {
        Self {
            reason: frozen.reason,
            by: frozen.by,
            since: at(frozen.since, now),
        }
    }
}

/// One rollout at a glance.
#[derive(Debug)]
pub(super) struct Card {
    /// Its id.
    pub id: String,
    /// What it brings.
    pub version: String,
    /// Its state.
    pub state: Badge,
    /// Why it is paused or aborted.
    pub reason: Option<String>,
    /// Why it had paused before it was aborted.
    pub paused: Option<String>,
    /// What the reason is the reason of.
    pub why: &'static str,
    /// Its nodes by state.
    pub counts: Vec<Count>,
    /// All of them.
    pub total: String,
    /// Waves one behind the other.
    pub bar: Vec<Piece>,
    /// What the bar shows, for those who do not see it.
    pub spoken: String,
    /// The waves.
    pub waves: Vec<WaveView>,
    /// Which wave is open.
    pub place: String,
    /// When it was made.
    pub created: At,
    /// By whom.
    pub by: String,
    /// When it ended.
    pub finished: Option<At>,
    /// The share of a wave that may fail.
    pub tolerance: String,
    /// Rest between waves.
    pub soak: String,
    /// How long one node may take.
    pub patience: String,
}

/// One wave.
#[derive(Debug)]
pub(super) struct WaveView {
    /// From 1.
    pub number: usize,
    /// Cumulative percentage.
    pub percent: String,
    /// How it stands: `done`, `open`, `waiting`, `unopened` or `empty`.
    pub stage: &'static str,
    /// How many have settled, of all.
    pub settled: String,
    /// Its nodes as a bar.
    pub bar: Vec<Piece>,
    /// What the bar shows, for those who do not see it.
    pub spoken: String,
}

/// `rollouts`
pub(super) async fn page(
    operator: Operator,
    Address(tenant): Address<TenantId>,
    Asked(asked): Asked,
) -> Result<Response, Failure> {
    let page = Page::new(&operator, &tenant, Section::Rollouts, "Rollouts").await?;
    let (standings, frozen) = service::overview(&operator.app().services, &tenant).await?;
    let number = usize::try_from(paging::page(&asked)).unwrap_or(0);
    let all = standings.len();
    let start = number.saturating_mul(SHOWN);
    let cards: Vec<Card> = standings
        .into_iter()
        .skip(start)
        .take(SHOWN)
        .map(|one| Card::new(one.rollout, &one.waves, page.now))
        .collect();
    let to = |page: usize| format!("?page={page}");
    Ok(html(&RolloutsPage {
        frozen: frozen.map(|frozen| FreezeNotice::new(frozen, page.now)),
        newer: (number > 0).then(|| to(number)),
        older: (start.saturating_add(cards.len()) < all).then(|| to(number.saturating_add(2))),
        cards,
        page,
    }))
}

impl Card {
    /// A rollout as seen now.
    pub(super) fn new(rollout: Rollout, waves: &[Wave], now: Moment) -> Self {
        let by_wave: Vec<Vec<Count>> = waves.iter().map(|wave| counts(wave.rows)).collect();
        let total = rollout.nodes.total();
        let open = usize::try_from(rollout.wave).unwrap_or(usize::MAX);
        let views = waves.iter().enumerate();
        let views = views.map(|(index, wave)| WaveView::new(index, wave, (open, rollout.state)));
        let counts = counts(rollout.nodes);
        Self {
            spoken: spoken(&counts, total),
            bar: bars(&by_wave),
            waves: views.collect(),
            place: place(&rollout),
            counts,
            total: count(total, "node"),
            id: rollout.id.to_string(),
            version: rollout.version.to_string(),
            state: Badge(rollout.state.word()),
            reason: rollout.reason,
            paused: rollout.paused_reason,
            why: match rollout.state {
                RolloutState::Aborted => "Aborted:",
                RolloutState::Paused => "Paused:",
                RolloutState::Running | RolloutState::Completed => "",
            },
            created: at(rollout.created_at, now),
            by: rollout.created_by,
            finished: rollout.finished_at.map(|finished| at(finished, now)),
            tolerance: percent(&rollout.max_failure_ratio.to_string()),
            soak: seconds(rollout.soak_seconds),
            patience: seconds(rollout.upgrade_timeout_seconds),
        }
    }
}

impl WaveView {
    fn new(index: usize, wave: &Wave, (open, state): (usize, RolloutState)) -> Self {
        let counts = counts(wave.rows);
        let total = wave.rows.total();
        let waits = wave.rows.pending.saturating_add(wave.rows.in_flight());
        let stage = match state {
            RolloutState::Completed => "done",
            RolloutState::Aborted if index > open => "unopened",
            RolloutState::Aborted => "done",
            RolloutState::Running | RolloutState::Paused if index < open => "done",
            RolloutState::Running | RolloutState::Paused if index == open => "open",
            RolloutState::Running | RolloutState::Paused => "waiting",
        };
        Self {
            number: index.saturating_add(1),
            percent: format!("{} %", wave.percent),
            stage: if total == 0 { "empty" } else { stage },
            spoken: spoken(&counts, total),
            bar: bar::bar(&counts),
            settled: format!(
                "{} of {}",
                number_text(total.saturating_sub(waits)),
                number_text(total)
            ),
        }
    }
}

fn place(rollout: &Rollout) -> String {
    let waves = rollout.waves.len();
    match rollout.state {
        RolloutState::Running | RolloutState::Paused => {
            format!("Wave {} of {waves}", rollout.wave.saturating_add(1))
        }
        RolloutState::Completed | RolloutState::Aborted => match waves {
            1 => "1 wave".to_owned(),
            _ => format!("{waves} waves"),
        },
    }
}

/// A share from 0 to 1 as a percentage: its text with the point moved, so that no digit is lost.
fn percent(share: &str) -> String {
    let (whole, part) = share.split_once('.').unwrap_or((share, ""));
    let digits: String = part.chars().chain("00".chars()).take(2).collect();
    let rest: String = part.chars().skip(2).collect();
    let whole = format!("{whole}{digits}");
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if rest.is_empty() {
        format!("{whole} %")
    } else {
        format!("{whole}.{rest} %")
    }
}

fn spoken(counts: &[Count], total: u32) -> String {
    let parts: Vec<String> = counts
        .iter()
        .map(|count| format!("{} {}", count.number(), count.name()))
        .collect();
    match total {
        0 => "no nodes".to_owned(),
        _ => format!("{}: {}", count(total, "node"), parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_as_percentages_lose_no_digit() {
        for (share, text) in [
            ("0.05", "5 %"),
            ("0", "0 %"),
            ("1", "100 %"),
            ("0.125", "12.5 %"),
            ("0.000001", "0.0001 %"),
            ("0.5", "50 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }
}
