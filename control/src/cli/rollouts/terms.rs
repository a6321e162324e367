//! Whether a rollout is the one that was asked for.
//!
//! A call with a key that was used before gets that first rollout, whatever else it asks for. Takes the request and the
//! answer, gives what differs. Pure.

use std::collections::BTreeSet;

use crate::{
    api::rollout::{CreateRollout, Rollout},
    cli::span::human_seconds,
};

/// What of the request the rollout does not have, as flag and values. What was not asked for is as control has it.
pub(super) fn differences(request: &CreateRollout, made: &Rollout) -> Vec<String> {
    let list = |texts: Vec<String>| texts.join(",");
    let percents = |waves: &[_]| list(waves.iter().map(ToString::to_string).collect());
    let waves = request.waves.as_deref().map(percents);
    let ratio = request.max_failure_ratio.map(|ratio| ratio.to_string());
    let seconds = |seconds: Option<f64>| seconds.map(human_seconds);
    let compared = [
        ("--waves", waves, percents(&made.waves)),
        (
            "--max-failure-ratio",
            ratio,
            made.max_failure_ratio.to_string(),
        ),
        (
            "--soak",
            seconds(request.soak_seconds),
            human_seconds(made.soak_seconds),
        ),
        (
            "--upgrade-timeout",
            seconds(request.upgrade_timeout_seconds),
            human_seconds(made.upgrade_timeout_seconds),
        ),
    ];
    let mut different: Vec<String> = compared
        .into_iter()
        .filter_map(|(flag, asked, has)| {
            let asked = asked.filter(|asked| *asked != has)?;
            Some(format!("{flag} {asked} (it has {has})"))
        })
        .collect();
    different.extend(scope(request, made));
    different
}

/// What of its scope can be seen by its nodes, where they are known.
fn scope(request: &CreateRollout, made: &Rollout) -> Vec<String> {
    let Some(nodes) = &made.node_list else {
        return Vec::new();
    };
    let has: BTreeSet<_> = nodes.iter().map(|node| &node.node_id).collect();
    let asked = request.node_ids.as_ref();
    let strangers = asked.map(|asked| {
        let asked: BTreeSet<_> = asked.iter().collect();
        asked.symmetric_difference(&has).count()
    });
    let pools = request.pool_ids.as_ref().map(|asked| {
        let outside = nodes.iter().filter(|node| !asked.contains(&node.pool_id));
        outside.count()
    });
    let mut different = Vec::new();
    if let Some(count) = strangers.filter(|count| *count > 0) {
        different.push(format!("--node ({count} nodes are in one of the two only)"));
    }
    if let Some(count) = pools.filter(|count| *count > 0) {
        different.push(format!("--pool ({count} of its nodes are in others)"));
    }
    different
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::rollouts::sample::rollout;

    fn request(terms: serde_json::Value) -> CreateRollout {
        let mut request = json!({"tenantId": "root", "version": "1.4.0"});
        let fields = request.as_object_mut().unwrap();
        fields.extend(terms.as_object().unwrap().clone());
        serde_json::from_value(request).unwrap()
    }

    fn check(terms: serde_json::Value, expected: &[&str]) {
        let made = rollout("running", 0, &[(0, "pending", None), (1, "pending", None)]);
        assert_eq!(differences(&request(terms), &made), expected);
    }

    #[test]
    fn what_was_not_asked_for_may_be_as_it_is() {
        check(json!({}), &[]);
    }

    #[test]
    fn what_is_as_it_was_asked_for_is_no_difference() {
        let terms = json!({"waves": [10, 50, 100], "maxFailureRatio": 0.05, "soakSeconds": 600.0,
                           "poolIds": [format!("pool_{:026}", 1)]});
        check(terms, &[]);
    }

    #[test]
    fn every_term_that_differs_is_named_with_both_values() {
        let terms = json!({"waves": [60, 100], "maxFailureRatio": 0.1, "soakSeconds": 60.0,
                           "upgradeTimeoutSeconds": 60.5, "poolIds": [format!("pool_{:026}", 2)]});
        check(
            terms,
            &[
                "--waves 60,100 (it has 10,50,100)",
                "--max-failure-ratio 0.1 (it has 0.05)",
                "--soak 1m (it has 10m)",
                "--upgrade-timeout 1m500ms (it has 15m)",
                "--pool (2 of its nodes are in others)",
            ],
        );
    }

    #[test]
    fn nodes_of_either_alone_are_counted() {
        let nodes = [format!("node_{:026}", 0), format!("node_{:026}", 7)];
        check(
            json!({ "nodeIds": nodes }),
            &["--node (2 nodes are in one of the two only)"],
        );
    }
}
