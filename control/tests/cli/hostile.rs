//! What others wrote never reaches a terminal as it is: markup stays text, and nothing moves the cursor.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

use super::{screen::Terminal, stand::Home};

/// An escape sequence, the same in one character, a change of direction, lines, a bell, and markup.
const HOSTILE: &str = "<b>x</b>\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\r\nrm\u{200b} -rf\u{2028}$(id)";

/// What of it must not come through.
const BYTES: [&str; 6] = [
    "\u{1b}]0", "\u{7}", "\u{9b}", "\u{202e}", "\u{200b}", "\u{2028}",
];

/// A control that somebody else has filled.
fn answer(method: &str) -> Value {
    let id = |kind: &str| format!("{kind}_{:026}", 1);
    let at = "2026-11-29T21:00:00.000Z";
    let counts = json!({"pending": 0, "upgrading": 0, "succeeded": 0, "failed": 1, "skipped": 0,
                        "rolling-back": 0, "rolled-back": 0});
    let rollout = json!({
        "id": id("rollout"), "version": "1.4.0", "state": "paused", "reason": HOSTILE, "waves": [100],
        "wave": 0, "maxFailureRatio": 0.05, "soakSeconds": 0.0, "upgradeTimeoutSeconds": 60.0,
        "nodes": counts, "createdAt": at, "updatedAt": at, "createdBy": HOSTILE,
        "nodeList": [{"nodeId": id("node"), "poolId": id("pool"), "wave": 0, "state": "failed", "error": HOSTILE}],
    });
    match method {
        "rollouts/get" => rollout,
        "rollouts/list" => json!({ "rollouts": [rollout] }),
        "rollouts/explain" => {
            json!({"rolloutId": id("rollout"), "nodeId": id("node"), "code": HOSTILE,
                                     "sentence": HOSTILE})
        }
        "pools/list" => json!({"pools": [{
            "id": id("pool"), "name": HOSTILE, "policy": {"disruptionBudget": 0.05}, "nodes": 1,
            "disrupted": 0, "createdAt": at,
        }]}),
        "events/list" => json!({"next": 1, "events": [{
            "id": id("evt"), "position": 1, "at": at, "type": "x", "subject": HOSTILE, "actor": HOSTILE,
            "data": {"reason": HOSTILE},
        }]}),
        _ => {
            json!({"error": {"code": "CONFLICT", "message": HOSTILE, "details": {"rolloutId": HOSTILE}}})
        }
    }
}

fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _gone = reply(stream.unwrap());
        }
    });
    url
}

fn reply(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    request.take(length).read_to_end(&mut Vec::new())?;
    let path = first.split(' ').nth(1).unwrap_or_default();
    let body = answer(path.trim_start_matches("/api/compute/"));
    let status = if body["error"].is_null() {
        "200 OK"
    } else {
        "409 Conflict"
    };
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn nothing_that_others_wrote_reaches_the_terminal_as_it_is() {
    let url = serve();
    let home = Home::new();
    let (rollout, node) = (format!("rollout_{:026}", 1), format!("node_{:026}", 1));
    for words in [
        &["rollouts", "list"][..],
        &["rollouts", "get", &rollout],
        &["rollouts", "explain", &rollout, &node],
        &["rollouts", "watch", &rollout],
        &["pools", "list"],
        &["events", "list"],
        &["rollouts", "pause", &rollout],
    ] {
        for form in [
            &["-o", "table"][..],
            &["-o", "wide"],
            &["-o", "json"],
            &["-o", "yaml"],
            &["--query", "reason"],
        ] {
            let args = [words, form, &["--url", &url, "--token", "t"]].concat();
            let (_, screen, raw) = Terminal::start(home.command(&args), 200).ended();
            let raw = String::from_utf8_lossy(&raw);
            for bytes in BYTES {
                assert!(!raw.contains(bytes), "{args:?}: {bytes:?} in {screen}");
            }
        }
    }
}

#[test]
fn off_a_terminal_tables_and_errors_are_as_safe_and_json_is_the_same() {
    let url = serve();
    let home = Home::new();
    let rollout = format!("rollout_{:026}", 1);
    let common = ["--url", &url, "--token", "t"];
    let table = home.run(&[&["rollouts", "get", &rollout], &common[..]].concat());
    let refused = home.run(&[&["rollouts", "pause", &rollout], &common[..]].concat());
    for text in [&table.out, &refused.err] {
        for bytes in BYTES {
            assert!(!text.contains(bytes), "{bytes:?} in {text}");
        }
        assert!(text.contains("<b>x</b>\\u{1b}"), "markup is text: {text}");
    }
    let json = home.run(&[&["rollouts", "get", &rollout, "-o", "json"], &common[..]].concat());
    assert_eq!(json.json(), answer("rollouts/get"));
    let plain = home.run(
        &[
            &["rollouts", "get", &rollout, "--query", "reason"],
            &common[..],
        ]
        .concat(),
    );
    assert_eq!(
        plain.out,
        format!("{HOSTILE}\n"),
        "a program gets what there is"
    );
}
