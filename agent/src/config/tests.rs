//! What people write into `bcd.toml`, and what they are told.

use std::time::Duration;

use bc_protocol::digest::Pin;

use super::{Config, PlainHttp};

fn pins(count: u8) -> String {
    let pins: Vec<_> = (0..count)
        .map(|number| format!("\"{}\"", Pin::of_spki(&[number])))
        .collect();
    format!("[{}]", pins.join(", "))
}

fn with_update(top: &str, update: &str) -> String {
    format!(
        "{top}\n[update]\nrelease_pins = {}\nthreshold = 2\n{update}",
        pins(2)
    )
}

fn refusal(text: &str) -> String {
    let problem = Config::parse(text).unwrap_err();
    problem.in_file("bcd.toml".as_ref()).to_string()
}

#[test]
fn the_least_configuration_has_the_documented_defaults() {
    let config = Config::parse(&with_update("", "")).unwrap();
    assert_eq!(config.state_dir.to_str(), Some("/var/lib/bcd"));
    assert_eq!(config.package_binary.to_str(), Some("/usr/lib/bcd/bcd"));
    assert_eq!(config.plain_http, PlainHttp::Loopback);
    assert_eq!(config.update.watchdog_deadline, Duration::from_secs(120));
    assert_eq!(config.update.stable_for, Duration::from_secs(10));
    assert_eq!(config.update.trust.pins().len(), 2);
}

#[test]
fn the_example_that_help_shows_holds_and_has_every_default() {
    let example = Config::parse(include_str!("example.toml")).unwrap();
    let least = Config::parse(&with_update("", "")).unwrap();
    assert_eq!(example.state_dir, least.state_dir);
    assert_eq!(example.package_binary, least.package_binary);
    assert_eq!(example.gateways, least.gateways);
    assert_eq!(example.plain_http, least.plain_http);
    let waits = |config: &Config| (config.update.watchdog_deadline, config.update.stable_for);
    assert_eq!(waits(&example), waits(&least));
    assert!(example.control.is_some() && example.ca_file.is_some());
}

#[test]
fn a_typo_is_named_with_its_line_and_key() {
    let text = with_update(
        "state_dir = \"/x\"\ncontrl = \"https://control.example\"",
        "",
    );
    let said = refusal(&text);
    assert!(
        said.starts_with("bcd.toml:2: contrl: unknown field `contrl`, expected one of"),
        "{said}"
    );
    let said = refusal(&with_update("", "watchdog = \"1s\""));
    assert!(
        said.starts_with("bcd.toml:5: watchdog: unknown field"),
        "{said}"
    );
}

#[test]
fn a_wrong_value_is_named_with_what_was_expected_and_found() {
    for (text, said) in [
        (
            with_update("", "stable_for = \"soon\""),
            "bcd.toml:5: stable_for: expected a duration such as \"120s\" or \"2m\", found \"soon\"",
        ),
        (
            with_update("", "stable_for = \"2m\""),
            "bcd.toml:5: stable_for: expected stable_for to be shorter than watchdog_deadline, found 2m within 2m",
        ),
        (
            with_update("", "watchdog_deadline = \"9999years\""),
            "bcd.toml:5: watchdog_deadline: expected watchdog_deadline to be from 1s to 1day, found 9999years",
        ),
        (
            with_update("", "watchdog_deadline = \"2ns\"\nstable_for = \"1ns\""),
            "bcd.toml:5: watchdog_deadline: expected watchdog_deadline to be from 1s to 1day, found 2ns",
        ),
        (
            with_update("state_dir = \"state\"", ""),
            "bcd.toml:1: state_dir: expected a path that begins with /, found state",
        ),
        (
            with_update("package_binary = \"\"", ""),
            "bcd.toml:1: package_binary: expected a path that begins with /, found ",
        ),
        (
            with_update("gateways = [\"wss://me:word@g.example/session\"]", ""),
            "bcd.toml:1: gateways: expected an address without name and password, found wss://%E2%80%A6@g.example/session",
        ),
        (
            with_update("labels = { rack = \"7\\n8\" }", ""),
            "bcd.toml:1: labels: expected labels of 1 to 256 bytes on one line, found \"rack\" = \"7\\n8\"",
        ),
        (
            with_update("control = \"http://control.example\"", ""),
            "bcd.toml:1: control: expected https, or http to this machine, or allow_http = true, found http://control.example/",
        ),
        (
            with_update(
                "gateways = [\n  \"wss://ok.example/session\",\n  \"https://no.example\",\n]",
                "",
            ),
            "bcd.toml:3: gateways: expected a gateway such as wss://gateway.example:443/session, found https://no.example/",
        ),
        (
            format!("[update]\nrelease_pins = {}\nthreshold = 3\n", pins(2)),
            "bcd.toml:3: threshold: expected a threshold from 1 to the number of pins, which is 2, found 3",
        ),
        (
            format!("[update]\nrelease_pins = {}\nthreshold = 0\n", pins(2)),
            "bcd.toml:3: threshold: expected a threshold from 1 to the number of pins, which is 2, found 0",
        ),
        (
            "[update]\nthreshold = 1\nrelease_pins = []\n".to_owned(),
            "bcd.toml:3: release_pins: expected at least one pin, found none",
        ),
    ] {
        assert_eq!(refusal(&text), said);
    }
}

#[test]
fn one_key_cannot_be_pinned_twice() {
    let pin = Pin::of_spki(b"one");
    let said = refusal(&format!(
        "[update]\nrelease_pins = [\"{pin}\", \"{pin}\"]\nthreshold = 1\n"
    ));
    assert_eq!(
        said,
        format!("bcd.toml:2: release_pins: expected each pin once, found {pin} twice")
    );
}

#[test]
fn http_is_good_enough_for_this_machine_only() {
    for (url, loopback, anywhere) in [
        ("https://control.example", true, true),
        ("http://127.0.0.1:8080", true, true),
        ("http://127.9.9.9", true, true),
        ("http://[::1]:1", true, true),
        ("http://localhost", true, true),
        ("http://127.0.0.1.example", false, true),
        ("http://localhost.example", false, true),
        ("http://192.168.0.1", false, true),
        ("http://[::ffff:7f00:1]", false, true),
        ("ftp://127.0.0.1", false, false),
        ("file:///etc/passwd", false, false),
    ] {
        let parsed = url.parse().unwrap();
        assert_eq!(PlainHttp::Loopback.admits(&parsed), loopback, "{url}");
        assert_eq!(PlainHttp::Anywhere.admits(&parsed), anywhere, "{url}");
    }
}

#[test]
fn a_file_that_is_none_is_said_to_be_none() {
    let error = Config::load("/nonexistent/bcd.toml".as_ref()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read the configuration /nonexistent/bcd.toml")
    );
}
