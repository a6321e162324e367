//! What commands print that change something, for people and for programs: each line once, for each can be run only once.

use std::fmt::Write;

use super::stand::{Control, seen};

/// What lines print, one after the other: one snapshot a command.
fn prints(control: &Control, name: &str, lines: &[&str]) {
    let mut shown = String::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = control.run(&words);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        let (out, err) = (ended.out, ended.err);
        writeln!(shown, "$ better-compute {line}\n{out}{err}").unwrap();
    }
    // Somebody's home is another folder in every run.
    let home = control.home.folder.path().to_str().unwrap();
    seen(&format!("changes_{name}"), &shown.replace(home, "HOME"));
}

/// The ids of a list.
fn ids(control: &Control, list: &str) -> Vec<String> {
    let words: Vec<&str> = list.split(' ').chain(["-o", "name"]).collect();
    let listed = control.run(&words).done();
    listed.lines().map(str::to_owned).collect()
}

/// The same command for the first two of these, in either form.
fn both(control: &Control, name: &str, command: &str, ids: &[String]) {
    let lines = [
        format!("{command} {}", ids[0]),
        format!("{command} {} -o json", ids[1]),
    ];
    prints(control, name, &lines.each_ref().map(String::as_str));
}

#[test]
fn pools_nodes_and_what_lets_in() {
    let control = Control::start();
    control.ready_for_rollouts();
    let create = ["pools create one", "pools create two -o json"];
    prints(&control, "pools_create", &create);
    for verb in ["archive", "unarchive"] {
        let lines = [
            format!("pools {verb} one"),
            format!("pools {verb} two -o json"),
        ];
        let name = format!("pools_{verb}");
        prints(&control, &name, &lines.each_ref().map(String::as_str));
    }
    let nodes = ids(&control, "nodes list");
    both(&control, "nodes_remove", "nodes remove", &nodes);
    let create = [
        "join-tokens create --pool one",
        "join-tokens create --pool one -o json",
    ];
    prints(&control, "join_tokens_create", &create);
    let tokens = ids(&control, "join-tokens list");
    both(
        &control,
        "join_tokens_revoke",
        "join-tokens revoke",
        &tokens,
    );
    let create = [
        "tokens create --subject bob --permission compute:pool:read",
        "tokens create --subject eve --permission compute:pool:read -o json",
    ];
    prints(&control, "tokens_create", &create);
    let others = ["bob", "eve"].map(|subject| {
        let listed = control.json(&["tokens", "list"]);
        let listed = listed["tokens"].as_array().unwrap().clone();
        let token = listed.iter().find(|token| token["subject"] == subject);
        token.unwrap()["id"].as_str().unwrap().to_owned()
    });
    both(&control, "tokens_revoke", "tokens revoke", &others);
    let enrol = [
        "gateways enrol g1 --url wss://g1.example/session",
        "gateways enrol g2 --url wss://g2.example/session -o json",
    ];
    prints(&control, "gateways_enrol", &enrol);
}

#[test]
fn releases_and_rollouts() {
    let control = Control::start();
    control.ready_for_rollouts();
    for (version, sequence) in [("1.2.0", "2"), ("1.3.0", "3")] {
        let file = format!("next/{version}/bcd-linux-amd64");
        control.home.write(&file, "an agent");
        let sign = format!(
            "release sign next/{version} --product bcd --version {version} --sequence {sequence} --key key.pem"
        );
        if version == "1.2.0" {
            prints(&control, "release_sign", &[&sign]);
        } else {
            let words: Vec<&str> = sign.split(' ').collect();
            control.run(&words).done();
        }
    }
    prints(&control, "release_show", &["release show next/1.2.0"]);
    let publish = [
        "releases publish next/1.2.0",
        "releases publish next/1.3.0 -o json",
    ];
    prints(&control, "releases_publish", &publish);
    let create = [
        "rollouts create --version 1.2.0 --key first",
        // The same one again.
        "rollouts create --version 1.2.0 --key first -o json",
    ];
    prints(&control, "rollouts_create", &create);
    let first = ids(&control, "rollouts list").remove(0);
    let abort = format!("rollouts abort {first} --reason lunch");
    prints(&control, "rollouts_abort", &[&abort]);
    let second = control.id(&["rollouts", "create", "--version", "1.3.0"]);
    let abort = format!("rollouts abort {second} -o json");
    prints(&control, "rollouts_abort_json", &[&abort]);
}

#[test]
fn work_and_webhooks() {
    let control = Control::start();
    control.ready_for_rollouts();
    let node = ids(&control, "nodes list").remove(0);
    for key in ["a", "b"] {
        let create = format!("workflows create --node {node} --kind reboot --key {key}");
        let words: Vec<&str> = create.split(' ').collect();
        control.run(&words).done();
    }
    let workflows = ids(&control, "workflows list");
    let update = "workflows update --state running";
    both(&control, "workflows_update", update, &workflows);
    let create = [
        "webhooks create --url https://receiver.example/a --type node.*",
        "webhooks create --url https://receiver.example/b --type node.* -o json",
    ];
    prints(&control, "webhooks_create", &create);
    let webhooks = ids(&control, "webhooks list");
    both(&control, "webhooks_delete", "webhooks delete", &webhooks);
}

#[test]
fn contexts_and_copies() {
    let control = Control::start();
    let login = format!(
        "login --context prod --url {} --token-file data/admin.token",
        control.url
    );
    prints(&control, "login", &[&login]);
    // A table of it is as wide as the folder's name.
    prints(&control, "config_show", &["config show -o json"]);
    prints(&control, "config_use_context", &["config use-context prod"]);
    let backup = "backup --config control.toml --out copy";
    prints(&control, "backup", &[backup]);
}
