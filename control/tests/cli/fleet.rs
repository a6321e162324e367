//! Verbs about the whole fleet: plans, reasons, freezes, and work beside rollouts.

use crate::stand::Control;

#[test]
fn a_plan_stores_nothing_and_a_reason_is_given() {
    let control = Control::start();
    control.ready_for_rollouts();
    let plan = "rollouts plan --version 1.1.0 --waves 50,100 --upgrade-timeout 60s";
    let planned = control.json(&plan.split(' ').collect::<Vec<_>>());
    assert_eq!(planned["nodes"], 3);
    assert_eq!(planned["waves"][0]["nodes"], 2);
    assert_eq!(planned["warnings"][0]["code"], "short-timeout");
    assert_eq!(planned["warnings"][1]["code"], "nobody-online");
    let dry = control
        .run(&["rollouts", "create", "--version", "1.1.0", "--dry-run"])
        .done();
    assert!(dry.contains("takes about:"), "{dry}");
    let listed = control.json(&["rollouts", "list"]);
    assert_eq!(listed["rollouts"].as_array().unwrap().len(), 0);

    let id = control.id(&["rollouts", "create", "--version", "1.1.0"]);
    let rollout = control.json(&["rollouts", "get", &id]);
    let node = rollout["nodeList"][0]["nodeId"].as_str().unwrap();
    let said = control.json(&["rollouts", "explain", &id, node]);
    assert_eq!(
        (&said["state"], &said["code"]),
        (&"pending".into(), &"offline".into())
    );
    let early = control.run(&["rollouts", "retry", &id]).refused(1);
    assert!(early.contains("INVALID_STATE"), "{early}");
}

#[test]
fn a_fleet_is_frozen_counted_and_let_go() {
    let control = Control::start();
    control.ready_for_rollouts();
    let frozen = control.json(&["fleet", "freeze", "--reason", "incident 7"]);
    assert_eq!(frozen["frozen"]["reason"], "incident 7");
    let summary = control.json(&["fleet", "summary"]);
    assert_eq!(summary["frozen"]["reason"], "incident 7");
    assert_eq!(
        (&summary["total"]["nodes"], &summary["pools"][0]["name"]),
        (&3.into(), &"edge".into())
    );
    let table = control.run(&["fleet", "summary"]).done();
    assert!(
        table.contains("frozen") && table.contains("edge"),
        "{table}"
    );
    let open = control.json(&["fleet", "unfreeze"]);
    assert!(open["frozen"].is_null());
}

#[test]
fn work_beside_rollouts_takes_a_place_until_it_ends() {
    let control = Control::start();
    let id = control.rollout();
    let rollout = control.json(&["rollouts", "get", &id]);
    let node = rollout["nodeList"][0]["nodeId"].as_str().unwrap();
    let create = [
        "workflows",
        "create",
        "--node",
        node,
        "--kind",
        "reboot",
        "--key",
        "k",
    ];
    let made = control.json(&create);
    let workflow = made["id"].as_str().unwrap();
    assert_eq!(control.id(&create), workflow, "one key makes one workflow");
    let disrupted = || control.json(&["pools", "list"])["pools"][0]["disrupted"].clone();
    assert_eq!(disrupted(), 1);
    let wrong = control
        .run(&["workflows", "update", workflow, "--state", "succeeded"])
        .refused(1);
    let said = "one of running, failed, cancelled after pending";
    assert!(wrong.contains(said), "{wrong}");
    for state in ["running", "succeeded"] {
        control
            .run(&["workflows", "update", workflow, "--state", state])
            .done();
    }
    assert_eq!(disrupted(), 0);
    let listed = control.json(&["workflows", "list", "--state", "succeeded"]);
    assert_eq!(listed["workflows"][0]["id"], workflow);
    control
        .run(&["workflows", "list", "--state", "done"])
        .refused(2);
}

#[test]
fn a_node_is_named_by_its_hostname_or_the_end_of_its_id() {
    let control = Control::start();
    control.ready_for_rollouts();
    let listed = control.json(&["nodes", "list", "--selector", "hostname=host-2"]);
    assert_eq!(listed["nodes"].as_array().unwrap().len(), 1, "{listed}");
    let id = listed["nodes"][0]["id"].as_str().unwrap();
    for name in ["host-2", &id[id.len() - 10..], id] {
        assert_eq!(control.json(&["nodes", "get", name])["id"], id, "{name}");
    }
    let unknown = control.run(&["nodes", "get", "host-9"]).refused(1);
    assert!(unknown.contains("NOT_FOUND"), "{unknown}");
    let offline = control.json(&["nodes", "list", "--offline"]);
    assert_eq!(offline["nodes"].as_array().unwrap().len(), 3);
    let online = control.json(&["nodes", "list", "--online"]);
    assert_eq!(online["nodes"].as_array().unwrap().len(), 0);
    let names = control.run(&["nodes", "list", "--query", "nodes[].labels.cpu.arch"]);
    assert_eq!(names.done(), "x86_64\n".repeat(3));
}
