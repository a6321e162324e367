use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

use bc_protocol::{
    id::{PoolId, RolloutId},
    share::Percent,
    version::Version,
};
use proptest::prelude::*;

use super::{Aborted, Order, Outlook, Prospect, Reachable, Work, forecast};
use crate::rollout::{budget::Budget, snapshot::Trouble};

static NEW: LazyLock<Version> = LazyLock::new(|| "1.4.0".parse().unwrap());

fn pool(letter: char) -> PoolId {
    PoolId::derived(&[letter.to_string().as_bytes()])
}

fn percents(texts: &[&str]) -> Vec<Percent> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Nodes by the letters of their pools: upper case is offline. Each pool's budget is that share of its nodes.
fn outlook<'a>(nodes: &str, share: &str, waves: &'a [Percent], timeout: u64) -> Outlook<'a> {
    let members: Vec<Prospect> = nodes
        .chars()
        .map(|letter| Prospect {
            pool: pool(letter.to_ascii_lowercase()),
            work: Work::Upgrade,
            reach: if letter.is_ascii_uppercase() {
                Reachable::Offline
            } else {
                Reachable::Online
            },
            bar: None,
            runs: Some("1.3.0".parse().unwrap()),
        })
        .collect();
    let mut sizes: BTreeMap<PoolId, u32> = BTreeMap::new();
    for member in &members {
        *sizes.entry(member.pool.clone()).or_default() += 1;
    }
    let pools = sizes
        .into_iter()
        .map(|(pool, nodes)| (pool, Budget::new(nodes, share.parse().unwrap(), 0)))
        .collect();
    Outlook {
        members,
        pools,
        waves,
        soak: Duration::from_secs(600),
        timeout: Duration::from_secs(timeout),
        per_node: Duration::from_secs(60),
        version: &NEW,
        order: Order::Drawn,
        left_out: 0,
        aborted: None,
        frozen: None,
    }
}

fn check(outlook: &Outlook<'_>, seconds: &[u64], warnings: &[&str]) {
    let made = forecast(outlook);
    let durations: Vec<u64> = made
        .waves
        .iter()
        .map(|wave| wave.duration.as_secs())
        .collect();
    let codes: Vec<&str> = made.warnings.iter().map(super::Warning::code).collect();
    assert_eq!(
        (durations.as_slice(), codes.as_slice()),
        (seconds, warnings)
    );
    assert_eq!(made.duration.as_secs(), seconds.iter().sum::<u64>());
}

#[test]
fn a_wave_takes_as_long_as_its_slowest_pool_and_its_soak() {
    let waves = percents(&["25", "100"]);
    // Wave 1 is "ab", wave 2 "aaabab": four of a and two of b, one at a time.
    check(&outlook("abaaabab", "0", &waves, 900), &[660, 240], &[]);
    // Two at a time of five, one at a time of three.
    check(&outlook("abaaabab", "0.4", &waves, 900), &[660, 120], &[]);
}

#[test]
fn the_last_wave_that_has_nodes_does_not_soak() {
    let waves = percents(&["1", "10", "50", "100"]);
    check(&outlook("aa", "1", &waves, 900), &[660, 60, 0, 0], &[]);
}

#[test]
fn what_its_author_may_not_have_meant() {
    let all = percents(&["100"]);
    check(
        &outlook("aab", "1", &all, 119),
        &[60],
        &["short-timeout", "first-wave-is-everything"],
    );
    check(&outlook("a", "1", &all, 120), &[60], &[]);
    let waves = percents(&["50", "100"]);
    check(
        &outlook("aaB", "1", &waves, 900),
        &[660, 60],
        &["nobody-online"],
    );
}

/// What a forecast says of warnings, each on its line.
fn warned(outlook: &Outlook<'_>) -> String {
    let warnings = forecast(outlook).warnings;
    let lines: Vec<String> = warnings
        .iter()
        .map(|warning| format!("{}: {warning}", warning.code()))
        .collect();
    lines.join("\n")
}

#[test]
fn nodes_that_would_be_passed_over_are_counted_by_their_cause() {
    let waves = percents(&["50", "100"]);
    let mut outlook = outlook("aaaa", "0", &waves, 900);
    let floor = Trouble::new(
        "floor",
        "expected a sequence of at least the node's floor 7, found 1",
    );
    outlook.members[0].bar = Some(Trouble::new("held", "its owner holds the node: a fair"));
    outlook.members[1].bar = Some(floor.clone());
    outlook.members[2].bar = Some(floor.clone());
    insta::assert_snapshot!(warned(&outlook), @r"
    floor: 2 nodes would be passed over: expected a sequence of at least the node's floor 7, found 1
    held: 1 node would be passed over: its owner holds the node: a fair
    ");
    outlook.members[3].bar = Some(floor.clone());
    assert!(warned(&outlook).contains("nobody-takes-it: no node in scope"));
    // One that has it already is not passed over.
    for member in &mut outlook.members {
        member.work = Work::Nothing;
    }
    assert_eq!(
        warned(&outlook),
        "nothing-to-do: every node in scope runs the release already"
    );
}

#[test]
fn a_first_wave_that_nobody_can_begin_is_known_where_the_order_is() {
    let waves = percents(&["50", "100"]);
    let mut outlook = outlook("Aa", "0", &waves, 900);
    assert_eq!(warned(&outlook), "");
    outlook.order = Order::Known;
    insta::assert_snapshot!(warned(&outlook), @"no-canary: no node of the first wave, which has 1, can begin now: all others wait until it is passed over");
}

#[test]
fn a_version_that_falls_and_a_release_that_was_given_up_are_worth_a_word() {
    let waves = percents(&["50", "100"]);
    let mut outlook = outlook("aa", "0", &waves, 900);
    outlook.members[1].runs = Some("1.10.0-rc.1".parse().unwrap());
    outlook.left_out = 2;
    outlook.aborted = Some(Aborted {
        rollout: RolloutId::derived(&[b"one"]),
        reason: "it never connects".to_owned(),
    });
    let said = warned(&outlook);
    let said = said.replace(&RolloutId::derived(&[b"one"]).to_string(), "ONE");
    insta::assert_snapshot!(said, @r"
    lower-version: 1 node would go from a version such as 1.10.0-rc.1 to 1.4.0: its sequence is the higher one, and that is what counts
    maintenance: 2 nodes in maintenance would be left out
    aborted-before: the last rollout of this version, ONE, was aborted: it never connects
    ");
}

#[test]
fn nodes_that_run_the_release_cost_no_time() {
    let waves = percents(&["50", "100"]);
    let mut outlook = outlook("aaaa", "0", &waves, 900);
    for member in &mut outlook.members[..2] {
        member.work = Work::Nothing;
    }
    check(&outlook, &[0, 120], &[]);
    for member in &mut outlook.members {
        member.work = Work::Nothing;
    }
    check(&outlook, &[0, 0], &["nothing-to-do"]);
}

proptest! {
    /// I20: the waves of the forecast are those of the rollout.
    #[test]
    fn every_node_is_in_one_wave_and_one_pool(letters in "[abcABC]{1,40}") {
        let waves = percents(&["1", "10", "50", "100"]);
        let made = forecast(&outlook(&letters, "0.3", &waves, 900));
        let nodes = u32::try_from(letters.len()).unwrap();
        let in_waves: u32 = made.waves.iter().map(super::Wave::nodes).sum();
        let in_pools: u32 = made.pools.values().map(|count| count.nodes).sum();
        prop_assert_eq!((in_waves, in_pools), (nodes, nodes));
    }
}
