//! Events, webhooks and tokens, from the command line.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;

use super::stand::Control;

#[test]
fn a_watch_tells_what_happens_and_a_list_what_happened() {
    let control = Control::start();
    control.run(&["pools", "create", "one"]).done();
    let mut watch = control
        .command(&[
            "events", "watch", "--after", "0", "--type", "pool.*", "-o", "json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["data"]["name"], "one");
    control.run(&["pools", "create", "two"]).done();
    assert_eq!(next()["data"]["name"], "two");
    watch.kill().unwrap();
    watch.wait().unwrap();
    let listed = control
        .run(&["events", "list", "--type", "pool.created", "-o", "json"])
        .json();
    assert_eq!(listed["events"].as_array().unwrap().len(), 2);
    let table = control.run(&["events", "list"]).done();
    assert!(
        table.contains("pool.created") && table.contains("admin"),
        "{table}"
    );
    let late = control.run(&["events", "watch", "--timeout", "1s"]);
    assert_eq!(late.code, 5, "{late:?}");
}

#[test]
fn tokens_and_webhooks_are_made_listed_and_taken_back() {
    let control = Control::start();
    let made = control
        .run(&[
            "tokens",
            "create",
            "--subject",
            "bob",
            "--permission",
            "compute:pool:read",
            "-o",
            "json",
        ])
        .json();
    let id = made["id"].as_str().unwrap();
    let table = control.run(&["tokens", "list"]).done();
    assert!(table.contains(id) && table.contains("bob"), "{table}");
    let revoked = control.run(&["tokens", "revoke", id, "-o", "json"]).json();
    assert!(revoked["revokedAt"].is_string());
    control.run(&["pools", "create", "edge"]).done();
    control
        .run(&["join-tokens", "create", "--pool", "edge"])
        .done();
    let tokens = control
        .run(&["join-tokens", "list", "--pool", "edge", "-o", "json"])
        .json();
    let id = tokens["joinTokens"][0]["id"].as_str().unwrap();
    control.run(&["join-tokens", "revoke", id]).done();
    let url = "https://receiver.example/hook";
    let hook = control
        .run(&[
            "webhooks", "create", "--url", url, "--type", "node.*", "-o", "json",
        ])
        .json();
    assert!(hook["secret"].as_str().unwrap().starts_with("whsec_"));
    let id = hook["id"].as_str().unwrap();
    assert!(control.run(&["webhooks", "list"]).done().contains(url));
    control.run(&["webhooks", "deliveries", id]).done();
    control.run(&["webhooks", "delete", id]).done();
    let refused = control.run(&["webhooks", "create", "--url", "http://10.0.0.1/"]);
    assert_ne!(refused.code, 0);
}

#[test]
fn a_release_is_published_from_its_folder() {
    let control = Control::start();
    let home = &control.home;
    home.write("dist/bcd-linux-amd64", "a program");
    home.write("dist/bcd-linux-amd64.sha256", "a checksum");
    let dist = home.text("dist");
    home.run(&[
        "release",
        "sign",
        &dist,
        "--product",
        "bcd",
        "--version",
        "7.0.0",
        "--sequence",
        "700",
        "--key",
        &home.text("key.pem"),
    ])
    .done();
    let first = control.run(&["releases", "publish", &dist]);
    assert!(
        first.err.contains("bcd-linux-amd64 is served now"),
        "{first:?}"
    );
    let again = control.run(&["releases", "publish", &dist]);
    assert!(again.err.contains("is there already"), "{again:?}");
    assert!(again.done().contains("7.0.0"));
    home.write("dist/bcd-linux-amd64", "another program");
    home.run(&["release", "verify", &home.text("dist/manifest.json")]);
}
