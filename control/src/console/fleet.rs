//! The fleet's numbers: who runs what, who is away, and whether anything may start.

use std::collections::BTreeMap;

use askama::Template;
use axum::response::Response;
use bc_protocol::{id::TenantId, version::Version};

use super::{
    bar::{self, Count, Piece},
    failure::Failure,
    operator::{Address, Asked, Operator},
    page::{Page, Section, html},
    rollouts::FreezeNotice,
    show::{At, Badge, at, called, count, number_text},
};
use crate::{
    api::{
        freeze::{Census, OneFleet, PoolSummary},
        gateway::Gateway,
    },
    clock::Moment,
    fleet::gateway,
    rollout::service,
};

/// Versions that have a colour of their own; the others share one.
const COLOURS: usize = 6;

#[derive(Template)]
#[template(path = "console/fleet.html")]
struct FleetPage {
    page: Page,
    said: Option<&'static str>,
    frozen: Option<FreezeNotice>,
    tiles: Vec<Tile>,
    legend: Vec<Legend>,
    pools: Vec<PoolView>,
    gateways: Vec<GatewayView>,
    /// How many of them are linked.
    linked: String,
    /// Whether some that have enrolled are not.
    is_cut_off: bool,
    total: String,
    /// How many pools there are.
    among: String,
}

/// One number of the whole fleet.
#[derive(Debug)]
struct Tile {
    name: &'static str,
    word: &'static str,
    number: String,
    is_none: bool,
}

/// What a colour stands for.
#[derive(Debug)]
struct Legend {
    /// The colour's class.
    word: String,
    /// The version.
    version: String,
    /// Whether it is one version.
    is_one: bool,
    nodes: String,
}

/// One pool.
#[derive(Debug)]
struct PoolView {
    id: String,
    name: String,
    nodes: String,
    concurrency: u32,
    disrupted: u32,
    bar: Vec<Piece>,
    spoken: String,
    notes: Vec<Note>,
}

/// One gateway.
#[derive(Debug)]
struct GatewayView {
    name: String,
    url: String,
    standing: Badge,
    since: Option<At>,
}

/// Some of a pool's nodes that are not as all are.
#[derive(Debug)]
struct Note {
    word: &'static str,
    text: String,
}

/// `fleet`
pub(super) async fn page(
    operator: Operator,
    Address(tenant_id): Address<TenantId>,
    Asked(asked): Asked,
) -> Result<Response, Failure> {
    let page = Page::new(&operator, &tenant_id, Section::Fleet, "Fleet").await?;
    let request = OneFleet { tenant_id };
    let summary = service::summary(&operator.app().services, request).await?;
    let gateways = gateway::list(&operator.app().services.db).await?;
    let colours = colours(&summary.total);
    let pools = u32::try_from(summary.pools.len()).unwrap_or(u32::MAX);
    let among = count(pools, "pool");
    Ok(html(&FleetPage {
        said: match asked.text("said") {
            "frozen" => Some("Frozen: nothing starts in this tenant until somebody unfreezes it."),
            "unfrozen" => Some("Unfrozen: nodes may start again."),
            _ => None,
        },
        frozen: summary
            .frozen
            .map(|frozen| FreezeNotice::new(frozen, page.now)),
        tiles: tiles(&summary.total),
        legend: legend(&summary.total, &colours),
        pools: summary
            .pools
            .into_iter()
            .map(|pool| PoolView::new(pool, &colours))
            .collect(),
        linked: linked(&gateways),
        is_cut_off: gateways.iter().any(|one| one.enrolled && !one.linked),
        gateways: gateways
            .into_iter()
            .map(|one| GatewayView::new(one, page.now))
            .collect(),
        total: count(summary.total.nodes, "node"),
        among,
        page,
    }))
}

/// A removed one is in no list, and one that has not enrolled yet is still to come.
fn linked(gateways: &[Gateway]) -> String {
    let linked = gateways.iter().filter(|one| one.linked).count();
    format!("{linked} of {} linked", gateways.len())
}

impl GatewayView {
    fn new(gateway: Gateway, now: Moment) -> Self {
        Self {
            name: gateway.name,
            url: gateway.url,
            standing: Badge(match (gateway.linked, gateway.enrolled) {
                (true, _) => "linked",
                (false, true) => "not-linked",
                (false, false) => "not-enrolled-yet",
            }),
            since: gateway.since.map(|since| at(since, now)),
        }
    }
}

/// A colour for each of the commonest versions.
fn colours(total: &Census) -> BTreeMap<Version, String> {
    let mut versions: Vec<_> = total.versions.iter().collect();
    versions.sort_by_key(|(_, nodes)| std::cmp::Reverse(**nodes));
    let coloured = (1..).zip(versions).take(COLOURS);
    coloured
        .map(|(number, (version, _))| (version.clone(), format!("v{number}")))
        .collect()
}

fn unheard(census: &Census) -> u32 {
    let heard = census
        .versions
        .values()
        .fold(0_u32, |sum, nodes| sum.saturating_add(*nodes));
    census.nodes.saturating_sub(heard)
}

/// A pool's nodes by colour, in the order of the legend.
fn by_colour(census: &Census, colours: &BTreeMap<Version, String>) -> Vec<Count> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for (version, nodes) in &census.versions {
        let word = colours.get(version).map_or("v-other", String::as_str);
        let sum = counts.entry(word).or_default();
        *sum = sum.saturating_add(*nodes);
    }
    counts.insert("v-unheard", unheard(census));
    let mut counts: Vec<Count> = counts
        .into_iter()
        .filter(|(_, nodes)| *nodes > 0)
        .map(|(word, nodes)| Count {
            word: word.to_owned(),
            nodes,
        })
        .collect();
    // "v1" to "v6" come before the words.
    counts.sort_by_key(|count| (count.word.contains('-'), count.word.clone()));
    counts
}

fn legend(total: &Census, colours: &BTreeMap<Version, String>) -> Vec<Legend> {
    by_colour(total, colours)
        .into_iter()
        .map(|Count { word, nodes }| {
            let version = colours.iter().find(|(_, colour)| **colour == word);
            let name = match word.as_str() {
                "v-other" => "others".to_owned(),
                "v-unheard" => "not heard of yet".to_owned(),
                _ => version.map_or_else(String::new, |(version, _)| version.to_string()),
            };
            Legend {
                is_one: version.is_some(),
                version: name,
                nodes: number_text(nodes),
                word,
            }
        })
        .collect()
}

fn offline(census: &Census) -> u32 {
    census.nodes.saturating_sub(census.online)
}

fn tiles(total: &Census) -> Vec<Tile> {
    [
        ("Nodes", "", total.nodes),
        ("Online", "online", total.online),
        ("Offline", "offline", offline(total)),
        ("On trial", "on-trial", total.on_trial),
        ("Refusing", "refusing", total.refusing),
        ("Late", "late", total.late),
        ("Held", "held", total.held),
        ("Maintenance", "maintenance", total.maintenance),
        ("Disrupted", "disrupted", total.disrupted),
    ]
    .into_iter()
    .map(|(name, word, number)| Tile {
        name,
        word,
        number: number_text(number),
        is_none: number == 0,
    })
    .collect()
}

impl PoolView {
    fn new(pool: PoolSummary, colours: &BTreeMap<Version, String>) -> Self {
        let census = &pool.census;
        let notes = [
            ("offline", "offline", offline(census)),
            ("on-trial", "on trial", census.on_trial),
            ("refusing", "refusing", census.refusing),
            ("late", "late", census.late),
            ("held", "held", census.held),
            ("maintenance", "in maintenance", census.maintenance),
        ];
        let notes = notes.into_iter().filter(|(_, _, nodes)| *nodes > 0);
        let versions = census.versions.iter();
        let mut spoken: Vec<String> = versions
            .map(|(version, nodes)| format!("{nodes} run {version}"))
            .collect();
        if unheard(census) > 0 {
            spoken.push(format!("{} were not heard of yet", unheard(census)));
        }
        Self {
            id: pool.pool_id.to_string(),
            nodes: count(census.nodes, "node"),
            concurrency: pool.concurrency,
            disrupted: census.disrupted,
            bar: bar::bar(&by_colour(census, colours)),
            spoken: format!("{}: {}", pool.name, spoken.join(", ")),
            notes: notes
                .map(|(word, name, nodes)| Note {
                    word,
                    text: format!("{} {name}", number_text(nodes)),
                })
                .collect(),
            name: called(&pool.name, pool.archived_at.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Census, by_colour, colours, unheard};

    #[test]
    fn the_commonest_versions_have_colours_and_nobody_is_lost() {
        let versions = (1..=9).map(|n| (format!("1.{n}.0").parse().unwrap(), n));
        let census = Census {
            nodes: 50,
            versions: versions.collect(),
            ..Census::default()
        };
        assert_eq!(unheard(&census), 5);
        let colours = colours(&census);
        assert_eq!(colours[&"1.9.0".parse().unwrap()], "v1");
        let counts = by_colour(&census, &colours);
        let words: Vec<_> = counts.iter().map(|count| count.word.as_str()).collect();
        assert_eq!(
            words,
            ["v1", "v2", "v3", "v4", "v5", "v6", "v-other", "v-unheard"]
        );
        assert_eq!(counts.iter().map(|count| count.nodes).sum::<u32>(), 50);
    }
}
