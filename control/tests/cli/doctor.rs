//! `doctor`: every finding says how to mend it, and what is wrong makes the exit code.

use std::{fs, os::unix::fs::PermissionsExt as _};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::Value;

use super::stand::{Control, Ended, Home, seen};

/// The finding of a check that stands so.
fn finding(ended: &Ended, check: &str, state: &str) -> Value {
    let shown: Value = serde_json::from_str(&ended.out).unwrap();
    let findings = shown["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["check"] == check)
        .find(|finding| finding["state"] == state)
        .unwrap_or_else(|| panic!("{check} is not {state}: {ended:?}"))
        .clone()
}

#[test]
fn a_new_control_lacks_a_gateway_and_nothing_else() {
    let control = Control::start();
    let ended = control.run(&["doctor"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let address = control.url.strip_prefix("http://").unwrap();
    let home = control.home.folder.path().to_str().unwrap();
    let shown = ended.out.replace(address, "HOST").replace(home, "~");
    seen("doctor_new", &shown);
    let ended = control.run(&["doctor", "-o", "json"]);
    finding(&ended, "gateways", "wrong");
    assert_eq!(control.run(&["doctor", "--query", "good"]).out, "false\n");
}

#[test]
fn nobody_there_ends_the_way_and_says_what_to_do() {
    let home = Home::new();
    let url = "http://127.0.0.1:9";
    let ended = home.run(&["doctor", "--url", url, "--token", "t", "-o", "json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let wrong = finding(&ended, "connection", "wrong");
    assert!(wrong["found"].as_str().unwrap().contains("refused"));
    assert!(wrong["mend"].as_str().unwrap().contains("start control"));
    let names = home.run(&["doctor", "--url", url, "--token", "t", "-o", "name"]);
    assert_eq!(
        names.out, "connection\n",
        "what follows from it is not told"
    );
}

#[test]
fn a_name_that_nobody_knows_is_told() {
    let home = Home::new();
    let url = "https://control.invalid";
    let ended = home.run(&["doctor", "--url", url, "--token", "t", "-o", "json"]);
    let wrong = finding(&ended, "name", "wrong");
    assert!(wrong["mend"].as_str().unwrap().contains("resolv.conf"));
}

#[test]
fn files_that_others_can_read_are_told_with_the_command_that_mends_them() {
    let home = Home::new();
    let config = home.write(
        ".config/better-compute/config.toml",
        "[contexts.a]\ntoken_file = \"token\"\n",
    );
    let token = home.write("token", "t");
    for path in [&config, &token] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let args = ["doctor", "--url", "http://127.0.0.1:9", "--context", "a"];
    let ended = home.run(&[&args[..], &["-o", "json"]].concat());
    for (check, path) in [("config", config.to_str().unwrap()), ("token", "token")] {
        let wrong = finding(&ended, check, "wrong");
        assert!(wrong["found"].as_str().unwrap().contains("644"), "{wrong}");
        assert_eq!(wrong["mend"], format!("chmod 600 {path}"));
        fs::set_permissions(home.path(path), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let ended = home.run(&[&args[..], &["-o", "name"]].concat());
    assert_eq!(ended.out, "connection\n");
}

#[test]
fn a_config_file_that_makes_no_sense_is_the_one_finding() {
    let home = Home::new();
    home.write(
        ".config/better-compute/config.toml",
        "[contexts.a]\ntokn = 7\n",
    );
    let ended = home.run(&["doctor", "-o", "json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let wrong = finding(&ended, "config", "wrong");
    assert!(wrong["found"].as_str().unwrap().contains("tokn"), "{wrong}");
}

#[test]
fn a_token_is_told_by_what_it_may_do() {
    let control = Control::start();
    let create = "tokens create --subject reader --permission compute:pool:read";
    let token = control
        .run(&create.split(' ').collect::<Vec<_>>())
        .done()
        .trim()
        .to_owned();
    let ended = control.run(&["doctor", "--token", &token, "-o", "json"]);
    let note = finding(&ended, "token", "note");
    let found = note["found"].as_str().unwrap();
    assert_eq!(
        found,
        "in root it may look at pools and nodes; not drive rollouts, make tokens"
    );
    assert_eq!(ended.code, 0, "a reader is no failure: {ended:?}");
    let unknown = control.run(&["doctor", "--token", "tok_x.y", "-o", "json"]);
    finding(&unknown, "token", "wrong");
    let none = control
        .home
        .run(&["doctor", "--url", &control.url, "-o", "json"]);
    let wrong = finding(&none, "token", "wrong");
    assert!(wrong["mend"].as_str().unwrap().contains("login"), "{wrong}");
}

#[test]
fn a_certificate_is_looked_at() {
    let home = Home::new();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    home.write("mine.pem", &cert.pem());
    home.write("mine.key", &signing_key.serialize_pem());
    let tls = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\n",
        home.text("mine.pem"),
        home.text("mine.key")
    );
    let control = Control::at(home, &tls);
    let trusted = control.run(&["doctor", "--ca-file", "mine.pem", "-o", "json"]);
    for check in ["tls", "certificate", "service", "clocks", "version"] {
        finding(&trusted, check, "good");
    }
    let strange = control.run(&["doctor", "-o", "json"]);
    let wrong = finding(&strange, "tls", "wrong");
    assert!(wrong["mend"].as_str().unwrap().contains("--ca-file"));
    let cleartext = control.url.replace("https", "http");
    let other = control.run(&["doctor", "--url", &cleartext, "-o", "json"]);
    finding(&other, "service", "wrong");
}

#[test]
fn the_manual_has_a_page_a_command() {
    let home = Home::new();
    home.run(&["man", "--out", "man"]).done();
    let page = |name: &str| fs::read_to_string(home.path("man").join(name)).unwrap();
    assert!(page("better-compute.1").contains("better\\-compute\\-rollouts(1)"));
    assert!(page("better-compute-rollouts-create.1").contains("\\-\\-max\\-failure\\-ratio"));
    assert!(home.path("man/better-compute-man.1").exists());
    let file = "man/better-compute.1";
    let error = home.run(&["man", "--out", file]).refused(1);
    assert!(error.contains(&format!("cannot write {file}")), "{error}");
}
