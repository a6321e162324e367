//! What commands print that change something, for people and for programs: each line once, for each can be run only once.

use std::fmt::Write;

use super::stand::{Control, Home, seen};

/// What lines print, one after the other: one snapshot a command.
fn prints(control: &Control, name: &str, lines: &[&str]) {
    ends(control, name, 0, lines);
}

/// The same of lines that end with `code`.
fn ends(control: &Control, name: &str, code: i32, lines: &[&str]) {
    let mut shown = String::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = control.run(&words);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
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
    let gateways = ids(&control, "gateways list");
    let remove = [
        "gateways remove g1".to_owned(),
        format!("gateways remove {} -o json", gateways[1]),
    ];
    prints(
        &control,
        "gateways_remove",
        &remove.each_ref().map(String::as_str),
    );
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
    let show = [
        "release show next/1.2.0",
        "release show next/1.2.0 --output json",
    ];
    prints(&control, "release_show", &show);
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
fn keys_signatures_and_what_is_registered() {
    let control = Control::start();
    let keygen = [
        "release keygen --out two.pem",
        "release keygen --out three.pem -o json",
    ];
    prints(&control, "release_keygen", &keygen);
    control.home.write("next/bcd-linux-amd64", "an agent");
    let sign = "release sign next --product bcd --version 1.2.0 --sequence 2 --key key.pem --cosigners two.pub.pem";
    control.run(&sign.split(' ').collect::<Vec<_>>()).done();
    let cosign = ["release cosign next --key two.pem"];
    prints(&control, "release_cosign", &cosign);
    let pin = std::fs::read_to_string(control.home.path("pin")).unwrap();
    let verify = format!("release verify next --pins {pin} --threshold 1 --dir next");
    let verify = [verify.clone(), format!("{verify} -o json")];
    prints(
        &control,
        "release_verify",
        &verify.each_ref().map(String::as_str),
    );
    // The same one again is the same answer.
    let register = [
        "releases register next/manifest.json",
        "releases register next/manifest.json -o json",
    ];
    prints(&control, "releases_register", &register);
}

#[test]
fn a_freeze_is_said_wherever_a_rollout_is_shown() {
    let control = Control::start();
    control.ready_for_rollouts();
    let freeze = ["fleet", "freeze", "--reason", "incident-7"];
    control.run(&freeze).done();
    prints(
        &control,
        "frozen",
        &[
            "rollouts create --version 1.1.0 --key first",
            "rollouts list",
            "rollouts list -o name",
        ],
    );
    let rollout = ids(&control, "rollouts list").remove(0);
    let node = ids(&control, "nodes list").remove(0);
    let lines = [
        format!("rollouts get {rollout}"),
        format!("rollouts get {rollout} --query frozen.reason"),
        format!("rollouts explain {rollout} {node}"),
        format!("rollouts pause {rollout}"),
        format!("rollouts resume {rollout}"),
    ];
    prints(
        &control,
        "frozen_one",
        &lines.each_ref().map(String::as_str),
    );
    control.run(&["fleet", "unfreeze"]).done();
    let unset = control.run(&["rollouts", "get", &rollout, "--query", "frozen"]);
    assert_eq!(unset.done(), "\n");
}

#[test]
fn a_retry_with_nothing_to_try_says_so_and_one_of_an_aborted_rollout_what_to_do() {
    let control = Control::start();
    let rollout = control.rollout();
    for node in ids(&control, "nodes list") {
        control.run(&["nodes", "remove", &node, "--yes"]).done();
    }
    // Nobody is left to try it, so that every wave waits for somebody to say that this is well.
    while control.run(&["rollouts", "watch", &rollout]).code == 3 {
        control.run(&["rollouts", "resume", &rollout]).done();
    }
    let retry = [
        format!("rollouts retry {rollout}"),
        format!("rollouts retry {rollout} -o json"),
    ];
    prints(
        &control,
        "rollouts_retry",
        &retry.each_ref().map(String::as_str),
    );
}

#[test]
fn a_part_of_an_id_is_enough_where_it_is_one_things() {
    let control = Control::start();
    let rollout = control.rollout();
    let tail = rollout.strip_prefix("rollout_").unwrap();
    let (beginning, end) = (&rollout[..16], &tail[tail.len() - 6..]);
    for part in [beginning, end, &tail[..6]] {
        let found = control.json(&["rollouts", "get", part]);
        assert_eq!(found["id"], rollout.as_str(), "{part}");
    }
    // What the list shows is enough, too.
    let listed = control.run(&["rollouts", "list", "--no-headers"]).done();
    let shown = listed.split_whitespace().next().unwrap();
    assert!(shown.len() < rollout.len() && rollout.starts_with(shown));
    control.run(&["rollouts", "pause", shown]).done();
    let wide = control.run(&["rollouts", "list", "-o", "wide"]).done();
    assert!(wide.contains(&rollout), "{wide}");
    // Pools that are made one after the other begin alike.
    control.run(&["pools", "create", "rim"]).done();
    let pools = ids(&control, "pools list");
    let error = control.run(&["pools", "get", &pools[0][..9]]).refused(1);
    assert!(
        error.contains("expected one pool") && pools.iter().all(|id| error.contains(id)),
        "{error}"
    );
    let error = control.run(&["rollouts", "get", "zzzzzz"]).refused(1);
    assert!(
        error.contains("found \"zzzzzz\" for none that is listed"),
        "{error}"
    );
}

#[test]
fn work_and_webhooks() {
    // A receiver that nobody has to look up, and that is away.
    let allowed = "[webhooks]\nallow_networks = [\"127.0.0.0/8\"]\n";
    let control = Control::at(Home::new(), allowed);
    control.ready_for_rollouts();
    let node = ids(&control, "nodes list").remove(0);
    for key in ["a", "b"] {
        let create = format!("workflows create --node {node} --kind reboot --key {key}");
        let words: Vec<&str> = create.split(' ').collect();
        control.run(&words).done();
    }
    let command =
        format!("commands create --node {node} --kind daemon.restart --expires 1s --watch");
    let watch = [
        format!("{command} --key a"),
        format!("{command} --key b -o json"),
    ];
    ends(
        &control,
        "commands_watch",
        1,
        &watch.each_ref().map(String::as_str),
    );
    let workflows = ids(&control, "workflows list");
    let update = "workflows update --state running";
    both(&control, "workflows_update", update, &workflows);
    let create = [
        "webhooks create --url https://127.0.0.1:1/a --type node.*",
        "webhooks create --url https://127.0.0.1:1/b --type node.* -o json",
    ];
    prints(&control, "webhooks_create", &create);
    let webhooks = ids(&control, "webhooks list");
    let test = [
        format!("webhooks test {}", webhooks[0]),
        format!("webhooks test {} -o json", webhooks[1]),
    ];
    ends(
        &control,
        "webhooks_test",
        1,
        &test.each_ref().map(String::as_str),
    );
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
    // A copy goes on where there is nothing yet.
    let elsewhere = std::fs::read_to_string(control.home.path("control.toml")).unwrap();
    let data = control.home.text("data");
    let elsewhere = elsewhere.replace(&data, &control.home.text("elsewhere"));
    control.home.write("elsewhere.toml", &elsewhere);
    let restore = "restore --config elsewhere.toml --from copy";
    prints(&control, "restore", &[restore]);
}
