//! Every verb, in the order in which an operator needs them.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use super::stand::{Control, seen};

#[test]
fn an_empty_control_gets_a_pool_nodes_and_a_release() {
    let control = Control::start();
    let pool = control.run(&["pools", "create", "edge", "--budget", "0.2"]);
    seen("pools_create", &pool.done());
    let token = control.home.path("join.token");
    let line = "join-tokens create --pool edge --uses 2 --expires 1h --out join.token";
    control.run(&line.split(' ').collect::<Vec<_>>()).done();
    let mode = token.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let nodes = control.join(fs::read_to_string(&token).unwrap().trim(), 2);
    seen("pools_list", &control.run(&["pools", "list"]).done());
    let list = control.run(&["nodes", "list", "--pool", "edge", "-o", "wide"]);
    seen("nodes_list_wide", &list.done());
    let node = control.run(&["nodes", "get", &nodes[0]]);
    seen("nodes_get", &node.done());

    seen("releases_register", &control.register("1.1.0", "1").done());
    seen("releases_list", &control.run(&["releases", "list"]).done());
    let name = control.id(&["releases", "get", "v1.1.0"]);
    assert_eq!(name, "1.1.0", "the name of a release is its version");
}

#[test]
fn a_rollout_is_made_looked_at_paused_resumed_and_aborted() {
    let control = Control::start();
    let other = control.rollout();
    control.run(&["rollouts", "abort", &other]).done();
    let create: Vec<&str> =
        "rollouts create --version 1.1.0 --waves 50,100 --max-failure-ratio 0.1 --soak 1h30m \
         --upgrade-timeout 60s --pool edge --selector cpu.arch=x86_64 --key bcd-1.1.0"
            .split(' ')
            .collect();
    let made = control.json(&create);
    assert_eq!(made["state"], "running");
    assert_eq!(made["waves"], json!([50, 100]));
    assert_eq!(made["maxFailureRatio"], 0.1);
    assert_eq!(made["soakSeconds"].as_f64(), Some(5400.0));
    let id = made["id"].as_str().unwrap();
    assert_eq!(control.id(&create), id, "one key makes one rollout");
    seen("rollouts_list", &control.run(&["rollouts", "list"]).done());
    seen(
        "rollouts_get",
        &control.run(&["rollouts", "get", id]).done(),
    );

    another_is_refused(&control, &create, id);
    let explained = control.json(&["rollouts", "explain", id]);
    let told = explained["explanations"].as_array().unwrap();
    assert_eq!(
        (told.len(), &explained["others"]),
        (2, &json!(0)),
        "{explained}"
    );
    let paused = control.json(&["rollouts", "pause", id, "--reason", "lunch"]);
    assert_eq!(paused["state"], "paused");
    assert_eq!(paused["reason"], "lunch");
    let resumed = control.json(&["rollouts", "resume", id]);
    assert_eq!(resumed["state"], "running");
    control.json(&["rollouts", "pause", id, "--reason", "it looks odd"]);
    let aborted = control.json(&["rollouts", "abort", id, "--yes", "--reason", "it is bad"]);
    assert_eq!(aborted["state"], "aborted");
    assert_eq!(
        (&aborted["reason"], &aborted["pausedReason"]),
        (&json!("it is bad"), &json!("it looks odd"))
    );
    let shown = control.run(&["rollouts", "get", id]).done();
    assert!(shown.contains("had paused:"), "{shown}");
    assert_eq!(aborted["nodes"]["skipped"], 3);
    let again = control.run(&["rollouts", "abort", id]).refused(1);
    assert!(again.starts_with("error[INVALID_STATE]: "), "{again}");
    the_next_is_warned(&control);
}

/// The same key with other flags would have its caller believe in them.
fn another_is_refused(control: &Control, create: &[&str], id: &str) {
    let mut other: Vec<&str> = create.to_vec();
    other[5] = "60,100";
    let error = control.run(&other).refused(1);
    assert!(
        error.contains("error[CONFLICT]: the key made rollout_"),
        "{error}"
    );
    assert!(error.contains("--waves 60,100 (it has 50,100)"), "{error}");
    let object = control
        .run(&[&other[..], &["-o", "json"]].concat())
        .refused(1);
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["error"]["details"]["rolloutId"], id);
}

/// Whoever plans a release that was given up learns of that.
fn the_next_is_warned(control: &Control) {
    let plan = control.json(&["rollouts", "plan", "--version", "1.1.0"]);
    let warnings = plan["warnings"].as_array().unwrap();
    let warned = warnings
        .iter()
        .find(|one| one["code"] == "aborted-before")
        .unwrap();
    assert!(
        warned["message"].as_str().unwrap().ends_with("it is bad"),
        "{plan}"
    );
    let made = control.run(&["rollouts", "create", "--version", "1.1.0"]);
    assert!(
        made.err
            .contains("warning: the last rollout of this version"),
        "{made:?}"
    );
    assert_eq!(made.code, 0, "{made:?}");
}

#[test]
fn without_a_key_every_create_is_a_new_rollout() {
    let control = Control::start();
    let first = control.rollout();
    let second = control
        .run(&["rollouts", "create", "--version", "1.1.0"])
        .refused(1);
    assert!(second.starts_with("error[CONFLICT]: "), "{second}");
    assert!(
        second.contains(&format!("rollouts get {first}")),
        "{second}"
    );
}

#[test]
fn a_token_is_printed_once_and_alone_or_goes_to_a_file() {
    let control = Control::start();
    control.run(&["pools", "create", "edge"]).done();
    for line in [
        "join-tokens create --pool edge",
        "gateways enrol g1 --url wss://127.0.0.1:9/session",
        "tokens create --subject me --permission compute:pool:read",
    ] {
        let printed = control.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(printed.out.lines().count(), 1, "{printed:?}");
        assert!(printed.out.contains('.'), "{printed:?}");

        let file = control.home.text(line.split_once(' ').unwrap().0);
        let line = format!("{line} --out {file}").replace("g1", "g2");
        let kept = control.json(&line.split(' ').collect::<Vec<_>>());
        let written = fs::read_to_string(&file).unwrap();
        let id = kept["id"].as_str().unwrap();
        assert!(written.starts_with(id), "{kept} {written}");
        assert_eq!(kept.get("token"), None);
        // A second call would lose the first one's token, and refuses before it makes another.
        let line = line.replace("g2", "g3");
        let refusal = control.run(&line.split(' ').collect::<Vec<_>>()).refused(1);
        assert!(refusal.contains("found one"), "{refusal}");
        assert_eq!(fs::read_to_string(&file).unwrap(), written);
    }
    let tokens = control.json(&["tokens", "list"]);
    assert_eq!(tokens["tokens"].as_array().unwrap().len(), 3, "{tokens}");
    let gateways = control.run(&["gateways", "list", "-o", "wide"]).done();
    assert!(gateways.contains("not enrolled yet"), "{gateways}");
}

#[test]
fn a_gateway_is_removed_by_its_name_or_its_id() {
    let control = Control::start();
    let enrol = [
        "gateways",
        "enrol",
        "g1",
        "--url",
        "wss://127.0.0.1:9/session",
        "--out",
    ];
    let enrol = |file: &str| {
        let file = control.home.text(file);
        let line = [&enrol[..], &[file.as_str()]].concat();
        control.json(&line)["id"].as_str().unwrap().to_owned()
    };
    let first = enrol("one");
    let removed = control.json(&["gateways", "remove", "g1", "--yes"]);
    assert_eq!(removed["id"], json!(first));
    let again = control.json(&["gateways", "remove", &first]);
    assert_eq!(again, removed);
    let second = enrol("two");
    let listed = control.run(&["gateways", "list", "-o", "name"]).done();
    assert_eq!(listed.trim(), second);
    let error = control.run(&["gateways", "remove", "g2"]).refused(1);
    assert!(error.contains("gateways list"), "{error}");
}

#[test]
fn a_token_is_not_made_where_its_file_cannot_be() {
    let control = Control::start();
    control.run(&["pools", "create", "edge"]).done();
    let error = control
        .run(&[
            "gateways",
            "enrol",
            "g1",
            "--url",
            "wss://127.0.0.1:9/session",
            "--out",
            "no/such/folder",
        ])
        .refused(1);
    assert!(error.contains("cannot write no/such/folder"), "{error}");
    assert_eq!(control.json(&["gateways", "list"])["gateways"], json!([]));
}

#[test]
fn a_token_may_do_what_it_says_and_no_more() {
    let control = Control::start();
    let token = control
        .run(&[
            "tokens",
            "create",
            "--subject",
            "reader",
            "--permission",
            "compute:pool:read",
        ])
        .done();
    control
        .run(&["--token", token.trim(), "pools", "list"])
        .done();
    let denied = control
        .run(&["--token", token.trim(), "pools", "create", "edge"])
        .refused(4);
    assert!(denied.starts_with("error[ACCESS_DENIED]: "), "{denied}");
}

#[test]
fn pools_are_found_by_name_changed_and_archived() {
    let control = Control::start();
    let id = control.id(&["pools", "create", "edge"]);
    assert_eq!(control.id(&["pools", "get", "edge"]), id);
    let updated = control.json(&[
        "pools", "update", "edge", "--name", "rim", "--budget", "0.5",
    ]);
    assert_eq!(updated["name"], "rim");
    assert_eq!(updated["policy"]["disruptionBudget"], 0.5);
    let archived = control.json(&["pools", "archive", &id]);
    assert!(archived["archivedAt"].is_string(), "{archived}");
    assert_eq!(control.id(&["pools", "get", "rim"]), id);
    let token = ["join-tokens", "create", "--pool", "rim"];
    let refusal = control.run(&token).refused(1);
    assert!(refusal.contains("pools unarchive rim"), "{refusal}");
    let back = control.json(&["pools", "unarchive", "rim"]);
    assert_eq!(back.get("archivedAt"), None);
    let gone = control.run(&["pools", "get", "edge"]).refused(1);
    seen("pools_get_unknown", &gone);
}

#[test]
fn an_archived_pool_with_nodes_says_so_wherever_it_stands() {
    let control = Control::start();
    control.ready_for_rollouts();
    control.run(&["pools", "archive", "edge"]).done();
    for listing in [&["nodes", "list"][..], &["fleet", "summary"]] {
        let shown = control.run(listing).done();
        assert!(shown.contains("edge (archived)"), "{shown}");
    }
    let refusal = control.run(&["pools", "create", "edge"]).refused(1);
    assert!(refusal.contains("archived pool pool_"), "{refusal}");
    control.run(&["pools", "unarchive", "edge"]).done();
    let shown = control.run(&["fleet", "summary"]).done();
    assert!(!shown.contains("archived"), "{shown}");
}

#[test]
fn answers_come_in_the_form_that_is_asked_for() {
    let control = Control::start();
    let id = control.id(&["pools", "create", "edge", "--budget", "0.29"]);
    for (args, printed) in [
        (
            &["pools", "get", "edge", "--query", "policy.disruptionBudget"][..],
            "0.29\n",
        ),
        (&["pools", "list", "--query", "pools.name"], "edge\n"),
        (
            &["pools", "list", "--query", "pools.0.name", "-o", "json"],
            "\"edge\"\n",
        ),
        (
            &["pools", "get", "edge", "-o", "yaml", "--query", "policy"],
            "disruptionBudget: 0.29\n",
        ),
        (&["pools", "list", "-o", "name"], &format!("{id}\n")),
    ] {
        assert_eq!(control.run(args).done(), printed, "{args:?}");
    }
    let bare = control.run(&["pools", "list", "--no-headers"]).done();
    assert_eq!(bare.lines().count(), 1, "{bare}");
    let wrong = control.run(&["pools", "get", "edge", "--query", "policy.budget"]);
    seen("query_unknown", &wrong.refused(1));
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let control = Control::start();
    control.run(&["pools", "create", "edge"]).done();
    let coloured = |args: &[&str]| control.run(args).done().contains('\u{1b}');
    assert!(!coloured(&["pools", "list"]));
    assert!(coloured(&["pools", "list", "--color", "always"]));
    assert!(!coloured(&["pools", "list", "--color", "never"]));
}
