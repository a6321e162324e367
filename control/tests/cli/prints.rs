//! What every command prints, for people and for programs.

use std::fmt::Write;

use super::stand::{Control, seen};

/// What a command prints in each form: one snapshot a command.
fn prints(control: &Control, name: &str, args: &[&str]) {
    let mut shown = String::new();
    for form in [&[][..], &["-o", "wide"], &["-o", "json"], &["-o", "name"]] {
        let args = [args, form].concat();
        let ended = control.run(&args);
        assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
        writeln!(shown, "$ better-compute {}\n{}", args.join(" "), ended.out).unwrap();
    }
    seen(&format!("prints_{name}"), &shown);
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn a_fleet_with_a_rollout() {
    let control = Control::start();
    let id = control.rollout();
    let rollout = control.json(&["rollouts", "get", &id]);
    let node = rollout["nodeList"][0]["nodeId"].as_str().unwrap();
    let label = ["nodes", "update", node, "--label", "tier=edge"];
    for (name, args) in [
        ("pools_list", &["pools", "list"][..]),
        ("pools_get", &["pools", "get", "edge"]),
        (
            "pools_update",
            &["pools", "update", "edge", "--budget", "0.3"],
        ),
        ("nodes_list", &["nodes", "list", "--pool", "edge"]),
        ("nodes_get", &["nodes", "get", node]),
        ("nodes_update", &label),
        ("releases_list", &["releases", "list"]),
        ("releases_get", &["releases", "get", "1.1.0"]),
        ("rollouts_list", &["rollouts", "list"]),
        ("rollouts_get", &["rollouts", "get", &id]),
        ("rollouts_explain", &["rollouts", "explain", &id, node]),
        (
            "rollouts_pause",
            &["rollouts", "pause", &id, "--reason", "lunch"],
        ),
        ("rollouts_resume", &["rollouts", "resume", &id]),
        ("fleet_summary", &["fleet", "summary"]),
        (
            "fleet_freeze",
            &["fleet", "freeze", "--reason", "incident 7"],
        ),
        ("fleet_unfreeze", &["fleet", "unfreeze"]),
        ("gateways_list", &["gateways", "list"]),
    ] {
        // Nodes stand in the order of their ids, which differ from run to run: so do the hosts in their lines.
        prints(&control, name, args);
    }
    control.run(&["rollouts", "abort", &id]).done();
    let plan = words("rollouts plan --version 1.1.0 --waves 50,100 --soak 1h30m");
    prints(&control, "rollouts_plan", &plan);
    let dry = [&plan[..], &["--pool", "edge"]].concat();
    prints(&control, "rollouts_plan_pool", &dry);
}

#[test]
fn work_tokens_webhooks_and_what_happened() {
    let control = Control::start();
    control.ready_for_rollouts();
    let node = control.json(&["nodes", "list"])["nodes"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let create = [
        "workflows",
        "create",
        "--node",
        &node,
        "--kind",
        "reboot",
        "--key",
        "k",
    ];
    prints(&control, "workflows_create", &create);
    prints(&control, "workflows_list", &["workflows", "list"]);
    let create = [
        "commands",
        "create",
        "--node",
        &node,
        "--kind",
        "daemon.restart",
        "--key",
        "k",
    ];
    prints(&control, "commands_create", &create);
    prints(&control, "commands_list", &["commands", "list"]);
    let command = control.id(&create);
    prints(&control, "commands_get", &["commands", "get", &command]);
    prints(&control, "join_tokens_list", &["join-tokens", "list"]);
    prints(&control, "tokens_list", &["tokens", "list"]);
    let hook = words("webhooks create --url https://receiver.example/hook --type node.*");
    let hook = control.json(&hook)["id"].as_str().unwrap().to_owned();
    prints(&control, "webhooks_list", &["webhooks", "list"]);
    let deliveries = ["webhooks", "deliveries", &hook];
    prints(&control, "webhooks_deliveries", &deliveries);
    let events = ["events", "list", "--type", "release.*"];
    prints(&control, "events_list", &events);
    prints(&control, "config_list", &["config", "list"]);
}

#[test]
fn a_dry_run_shows_the_call_and_creates_nothing() {
    let control = Control::start();
    control.ready_for_rollouts();
    let node = control.json(&["nodes", "list"])["nodes"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let restart = format!("commands create --node {node} --kind daemon.restart --key k");
    let reboot = format!("workflows create --node {node} --kind reboot --key k");
    for (name, line) in [
        ("pools", "pools create rim --budget 0.2"),
        (
            "join_tokens",
            "join-tokens create --pool edge --uses 2 --expires 1h",
        ),
        (
            "tokens",
            "tokens create --subject bob --permission compute:pool:read --out token",
        ),
        (
            "webhooks",
            "webhooks create --url https://receiver.example/hook --type node.*",
        ),
        (
            "gateways",
            "gateways enrol g1 --url wss://g1.example/session",
        ),
        ("commands", &restart),
        ("workflows", &reboot),
    ] {
        let line = format!("{line} --dry-run");
        prints(&control, &format!("dry_run_{name}"), &words(&line));
    }
    assert!(!control.home.path("token").exists());
    for (list, field, count) in [
        ("pools list", "pools", 1),
        ("join-tokens list", "joinTokens", 1),
        ("tokens list", "tokens", 1),
        ("webhooks list", "webhooks", 0),
        ("gateways list", "gateways", 0),
        ("commands list", "commands", 0),
        ("workflows list", "workflows", 0),
    ] {
        let listed = control.json(&words(list));
        assert_eq!(listed[field].as_array().unwrap().len(), count, "{list}");
    }
}
