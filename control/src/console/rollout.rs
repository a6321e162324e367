//! One rollout: what happens, why it waits, and how to stop it.

use askama::Template;
use axum::response::Response;
use bc_protocol::id::{RolloutId, TenantId};

use super::{
    failure::Failure,
    operator::{Address, Asked, Operator},
    page::{Page, Section, html},
    rollouts::{Card, FreezeNotice},
    show::{Badge, count, short},
};
use crate::{
    api::rollout::{LateNode, OneRollout, RolloutState, RowState},
    rollout::{
        board::{Cause, PoolBudget, User},
        service::{self, Waiting},
    },
};

#[derive(Template)]
#[template(path = "console/rollout.html")]
struct RolloutPage {
    page: Page,
    card: Card,
    said: Option<&'static str>,
    actions: [Offer; 3],
    frozen: Option<FreezeNotice>,
    /// The moment, as the script counts, until which the wave rests.
    soaks_until: Option<(i64, String)>,
    /// Whether what comes after the soak waits for an operator too.
    is_paused: bool,
    waiting: Vec<Reason>,
    failures: Vec<CauseView>,
    passed_over: Vec<CauseView>,
    retried: Vec<CauseView>,
    budgets: Vec<BudgetView>,
    late: Vec<(Badge, u32)>,
    has_ended: bool,
}

/// Something that an operator can do, or why not.
#[derive(Debug)]
struct Offer {
    /// What the button says.
    name: &'static str,
    /// Its path below the rollout's.
    path: &'static str,
    /// Why it cannot be done now.
    barred: Option<&'static str>,
}

/// Why something does not happen now.
#[derive(Debug)]
struct Reason {
    code: String,
    sentence: String,
    nodes: Option<String>,
    example: Option<String>,
}

/// What has happened to several nodes alike.
#[derive(Debug)]
struct CauseView {
    code: String,
    sentence: String,
    others: Option<String>,
    nodes: String,
    state: Badge,
    state_word: &'static str,
    example: String,
    example_short: String,
}

/// A pool's budget.
#[derive(Debug)]
struct BudgetView {
    name: String,
    id: String,
    nodes: String,
    disrupted: u32,
    max: u32,
    /// The part of the budget that is in use, of a thousand.
    width: u32,
    archived: bool,
    users: Vec<UserView>,
}

/// Who has places.
#[derive(Debug)]
struct UserView {
    what: String,
    /// The rollout's id, where it is another rollout.
    rollout: Option<String>,
    nodes: String,
    example: String,
    example_short: String,
}

/// `rollouts/{rollout}`
pub(super) async fn page(
    operator: Operator,
    Address((tenant_id, rollout_id)): Address<(TenantId, RolloutId)>,
    Asked(asked): Asked,
) -> Result<Response, Failure> {
    let request = OneRollout {
        tenant_id,
        rollout_id,
    };
    let tenant = &request.tenant_id;
    let mut page = Page::new(&operator, tenant, Section::Rollouts, "").await?;
    let board = service::board(&operator.app().services, &request).await?;
    let rollout = board.standing.rollout;
    page.title = format!("{} · rollout", rollout.version);
    let of = |state: fn(RowState) -> bool| -> Vec<CauseView> {
        let chosen = board.causes.iter().filter(|cause| state(cause.state));
        chosen.map(CauseView::new).collect()
    };
    let until = |at: crate::clock::Moment| (at.millis(), super::show::relative(at, page.now));
    Ok(html(&RolloutPage {
        said: said(asked.text("said")),
        actions: offers(rollout.state),
        frozen: board
            .frozen
            .map(|frozen| FreezeNotice::new(frozen, page.now)),
        soaks_until: board.soaks_until.map(until),
        is_paused: rollout.state == RolloutState::Paused,
        failures: of(|state| state == RowState::Failed),
        passed_over: of(|state| state == RowState::Skipped),
        retried: of(|state| matches!(state, RowState::Upgrading | RowState::RollingBack)),
        budgets: board
            .budgets
            .into_iter()
            .map(|budget| BudgetView::new(budget, &request.rollout_id))
            .collect(),
        late: late(&board.late),
        has_ended: has_ended(rollout.state),
        waiting: reasons(board.waiting, rollout.reason.is_some()),
        card: Card::new(rollout, &board.standing.waves, page.now),
        page,
    }))
}

fn has_ended(state: RolloutState) -> bool {
    match state {
        RolloutState::Running | RolloutState::Paused => false,
        RolloutState::Completed | RolloutState::Aborted => true,
    }
}

/// What was done a moment ago. The address names it by a word, and says nothing else.
fn said(word: &str) -> Option<&'static str> {
    match word {
        "paused" => Some("Paused: nothing starts any more. Nodes in flight still settle."),
        "resumed" => Some("Resumed: the failures of the open wave so far are accepted."),
        "aborted" => Some("Aborted: nothing starts any more, and it cannot be resumed."),
        _ => None,
    }
}

/// What can be done in a state. What the buttons offer is what the calls accept.
fn offers(state: RolloutState) -> [Offer; 3] {
    let ended = match state {
        RolloutState::Running | RolloutState::Paused => None,
        RolloutState::Completed => Some("It has completed."),
        RolloutState::Aborted => Some("It was aborted."),
    };
    let (pause, resume) = match state {
        RolloutState::Running => (None, Some("It is running: there is nothing to resume.")),
        RolloutState::Paused => (Some("It is paused already."), None),
        RolloutState::Completed | RolloutState::Aborted => (ended, ended),
    };
    [
        Offer {
            name: "Pause",
            path: "pause",
            barred: pause,
        },
        Offer {
            name: "Resume",
            path: "resume",
            barred: resume,
        },
        Offer {
            name: "Abort",
            path: "abort",
            barred: ended,
        },
    ]
}

fn late(rows: &[LateNode]) -> Vec<(Badge, u32)> {
    let counted = RowState::ALL.into_iter().map(|state| {
        let rows = rows.iter().filter(|row| row.state == state).count();
        (Badge(state.word()), u32::try_from(rows).unwrap_or(u32::MAX))
    });
    counted.filter(|(_, nodes)| *nodes > 0).collect()
}

/// Why nothing happens; that the rollout is paused, and why, is said above it already.
fn reasons(waiting: Vec<Waiting>, is_said: bool) -> Vec<Reason> {
    let paused = RolloutState::Paused.word();
    let reasons = waiting.into_iter();
    let reasons = reasons.filter(|reason| !(is_said && reason.code == paused));
    reasons.map(Reason::new).collect()
}

impl Reason {
    fn new(waiting: Waiting) -> Self {
        let mut letters = waiting.sentence.chars();
        let first: String = letters
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .collect();
        Self {
            code: waiting.code,
            sentence: format!("{first}{}.", letters.as_str().trim_end_matches('.')),
            nodes: (waiting.nodes > 0).then(|| count(waiting.nodes, "node")),
            example: waiting.example.map(|node| node.to_string()),
        }
    }
}

impl CauseView {
    fn new(cause: &Cause) -> Self {
        let others = cause.sentences.saturating_sub(1);
        Self {
            code: cause.code.clone(),
            sentence: cause.sentence.clone(),
            others: (others > 0).then(|| count(others, "other message")),
            nodes: count(cause.nodes, "node"),
            state: Badge(cause.state.word()),
            state_word: cause.state.word(),
            example: cause.example.to_string(),
            example_short: short(cause.example.as_str()),
        }
    }
}

impl BudgetView {
    fn new(budget: PoolBudget, here: &RolloutId) -> Self {
        let share = u64::from(budget.disrupted) * 1000 / u64::from(budget.max.max(1));
        let users = budget.users.into_iter();
        Self {
            id: budget.id.to_string(),
            nodes: count(budget.nodes, "node"),
            disrupted: budget.disrupted,
            max: budget.max,
            width: u32::try_from(share.min(1000)).unwrap_or(1000),
            archived: budget.archived,
            users: users.map(|user| UserView::new(&user, here)).collect(),
            name: budget.name,
        }
    }
}

impl UserView {
    fn new(user: &User, here: &RolloutId) -> Self {
        let is_rollout = user.reason.starts_with("rollout_");
        let is_this = user.reason == here.as_str();
        let what = match (is_this, is_rollout) {
            (true, _) => "this rollout".to_owned(),
            (false, true) => format!("rollout {}", short(&user.reason)),
            (false, false) => format!("workflow {}", short(&user.reason)),
        };
        Self {
            what,
            rollout: (is_rollout && !is_this).then(|| user.reason.clone()),
            nodes: count(user.nodes, "node"),
            example: user.example.to_string(),
            example_short: short(user.example.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RolloutState, offers};

    #[test]
    fn a_button_that_does_nothing_says_why() {
        for (state, open) in [
            (RolloutState::Running, vec!["pause", "abort"]),
            (RolloutState::Paused, vec!["resume", "abort"]),
            (RolloutState::Completed, vec![]),
            (RolloutState::Aborted, vec![]),
        ] {
            let offers = offers(state);
            let offered = offers.iter().filter(|offer| offer.barred.is_none());
            let offered: Vec<_> = offered.map(|offer| offer.path).collect();
            assert_eq!(offered, open, "{state:?}");
        }
    }
}
