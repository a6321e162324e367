//! The whole road, as the quickstart shows it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use packaging::quickstart::{self, Audience, Ending, Quickstart};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn a_good_release_reaches_everybody_and_a_bad_one_stops_at_its_canary() {
    let shown = Quickstart {
        nodes: 6,
        ending: Ending::Leave,
        audience: Audience::Program,
    };
    let outcome = quickstart::run(shown).await.unwrap();
    let [good, bad] = outcome.rollouts.as_slice() else {
        panic!("two rollouts: {outcome:#?}")
    };

    assert_eq!(good["state"], "completed", "{good:#}");
    assert_eq!(good["nodes"]["succeeded"], 6, "{good:#}");

    assert_eq!(bad["state"], "aborted", "{bad:#}");
    assert_eq!(bad["nodes"]["failed"], 1, "{bad:#}");
    assert_eq!(bad["nodes"]["skipped"], 5, "{bad:#}");
    let canary = &bad["nodeList"][0];
    assert_eq!(canary["state"], "failed", "{bad:#}");
    assert!(
        canary["error"].as_str().unwrap().contains("no-welcome"),
        "{canary:#}"
    );

    assert_eq!(outcome.nodes.len(), 6);
    for node in &outcome.nodes {
        assert_eq!(node.version, "1.1.0", "{node:#?}");
        assert_eq!(node.floor, 2, "{node:#?}");
        let fell_back = node.id == canary["nodeId"];
        let last = if fell_back { "no-welcome" } else { "confirmed" };
        assert_eq!(node.last_attempt["outcome"], last, "{node:#?}");
        assert_ne!(node.slot, Value::Null, "{node:#?}");
    }
}
