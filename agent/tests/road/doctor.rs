//! What `bcd doctor` finds beside a running node.

use super::{fleet::Fleet, node::Node};

#[tokio::test]
async fn the_doctor_names_what_is_wrong_and_how_to_mend_it() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    let wrong = |found: &serde_json::Value| -> Vec<String> {
        let findings = found["findings"].as_array().unwrap().iter();
        findings
            .filter(|finding| finding["good"] == false)
            .inspect(|finding| assert!(finding["mend"].is_string(), "{finding}"))
            .map(|finding| finding["check"].as_str().unwrap().to_owned())
            .collect()
    };
    let (found, status) = node.doctor().await;
    assert_eq!((status, &found["good"]), (1, &false.into()));
    assert!(wrong(&found).contains(&"identity".to_owned()), "{found}");
    node.join();
    let _supervise = node.supervise();
    let _session = fleet.session().await;
    node.connected().await;
    let gateway = tokio::spawn(fleet.upgrade_everybody());
    let (found, status) = node.doctor().await;
    gateway.abort();
    assert_eq!((status, wrong(&found)), (0, Vec::new()), "{found}");
    node.spoil_config();
    let (found, status) = node.doctor().await;
    assert_eq!((status, wrong(&found)), (1, vec!["config".to_owned()]));
}

#[tokio::test]
async fn the_doctor_notes_pins_that_changed_since_the_start() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    let _supervise = node.supervise();
    let _session = fleet.session().await;
    node.connected().await;
    let gateway = tokio::spawn(fleet.upgrade_everybody());
    assert_eq!(node.finding("pins").await["mend"], serde_json::Value::Null);
    node.pin_another();
    let finding = node.finding("pins").await;
    gateway.abort();
    assert_eq!(
        (&finding["good"], &finding["mend"]),
        (&true.into(), &"restart the node".into())
    );
}
