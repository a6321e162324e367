//! Every exit code, and bad input of every kind.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    thread,
};

use serde_json::Value;

mod nonsense;

use super::stand::{Control, Home, run, seen};

/// An address where nobody listens.
const NOBODY: &str = "http://127.0.0.1:1";

#[test]
fn what_makes_no_sense_is_refused_before_any_call() {
    let home = Home::new();
    let url = format!("--url={NOBODY}");
    for (line, said) in nonsense::NONSENSE {
        let mut args = vec![url.as_str(), "--token=t"];
        args.extend(line.split(' '));
        let ended = home.run(&args);
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (2, ""),
            "{line}: {ended:?}"
        );
        assert!(ended.err.contains(said), "{line}: {ended:?}");
    }
}

#[test]
fn a_reason_is_at_most_500_characters() {
    let home = Home::new();
    let id = format!("rollout_{}", "0".repeat(26));
    let reason = "x".repeat(501);
    let error = home
        .run(&["--token=t", "rollouts", "pause", &id, "--reason", &reason])
        .refused(2);
    assert!(
        error.contains("expected at most 500 characters, found 501"),
        "{error}"
    );
}

#[test]
fn a_wrong_token_or_none_is_4() {
    let control = Control::start();
    seen(
        "wrong_token",
        &control
            .run(&["--token", "tok_x.y", "pools", "list"])
            .refused(4),
    );
    let error = control
        .run(&["--token", "tok_x.y", "pools", "list", "-o", "json"])
        .refused(4);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], "UNAUTHENTICATED");
    seen(
        "no_token",
        &control
            .home
            .run(&["--url", &control.url, "pools", "list"])
            .refused(4),
    );
}

#[test]
fn nobody_there_is_6() {
    let home = Home::new();
    let args = ["--url", NOBODY, "--token", "t", "pools", "list"];
    seen("not_reached", &home.run(&args).refused(6));
    let error = home.run(&[&args[..], &["-o", "json"]].concat()).refused(6);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], "UNREACHABLE");
}

#[test]
fn a_server_that_is_no_control_is_told_apart() {
    for (answer, code, said) in [
        (
            "502 Bad Gateway\r\n\r\nno upstream",
            6,
            "found a server that says 502",
        ),
        (
            "200 OK\r\n\r\n<html>hello</html>",
            1,
            "found 200 OK and \"<html>hello</html>\"",
        ),
        (
            "404 Not Found\r\n\r\n",
            1,
            "found 404 Not Found and an empty body",
        ),
        ("500 Oops\r\n\r\n{\"error\": \"mine\"}", 1, "found 500"),
        (
            "200 OK\r\n\r\n{\"pools\": 7}",
            1,
            "that this version understands",
        ),
        (
            "200 OK\r\nContent-Length: 99\r\n\r\n{",
            6,
            "was lost on the way",
        ),
    ] {
        let error = ask_impostor(answer).refused(code);
        assert!(error.contains(said), "{answer}: {error}");
    }
}

#[test]
fn a_redirect_does_not_get_the_token() {
    let thief = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = thief.local_addr().unwrap();
    let error = ask_impostor(&format!(
        "307 Temporary Redirect\r\nLocation: http://{to}/\r\n\r\n"
    ))
    .refused(1);
    assert!(
        error.contains(&format!("a redirect to http://{to}/")),
        "{error}"
    );
    thief.set_nonblocking(true).unwrap();
    assert!(thief.accept().is_err(), "somebody followed the redirect");
}

#[test]
fn a_token_does_not_leave_this_machine_in_the_clear() {
    let home = Home::new();
    // An address that no packet leaves for: refused before, or not reached.
    let args = [
        "--url",
        "http://192.0.2.1:1",
        "--token",
        "t",
        "pools",
        "list",
    ];
    let error = home.run(&args).refused(2);
    assert!(error.contains("expected https"), "{error}");
    assert!(error.contains("--allow-http"), "{error}");
}

#[test]
fn what_the_server_refuses_is_1_with_its_words() {
    let control = Control::start();
    let id = format!("rollout_{}", "0".repeat(26));
    seen(
        "rollout_unknown",
        &control.run(&["rollouts", "get", &id]).refused(1),
    );
    let error = control
        .run(&["rollouts", "get", &id, "-o", "json"])
        .refused(1);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], "NOT_FOUND");
    let error = control
        .run(&["rollouts", "create", "--version", "9.9.9"])
        .refused(1);
    seen("version_unknown", &error);
}

#[test]
fn a_file_that_is_no_manifest_is_refused() {
    let control = Control::start();
    control.register("1.1.0", "1").done();
    control.home.write("empty", "");
    control.home.write("other", "{}");
    control.home.write("half", "{\"manifest\": \"");
    for (file, said) in [
        ("none", "cannot read none: No such file"),
        ("empty", "expected a signed manifest"),
        ("half", "expected a signed manifest"),
        ("other", "error[INVALID_INPUT]"),
    ] {
        let error = control.run(&["releases", "register", file]).refused(1);
        assert!(error.contains(said), "{file}: {error}");
    }
    assert_eq!(control.id(&["releases", "list"]), "1.1.0");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let control = Control::start();
    let mut command = control.command(&["completions", "bash"]);
    let mut running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(running.stdout.take());
    let mut said = String::new();
    running
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(0), "{said}");
    assert_eq!(said, "");
}

#[test]
fn help_explains_itself() {
    let home = Home::new();
    seen("help", &home.run(&["--help"]).done());
    seen("help_exit_codes", &home.run(&["help", "exit-codes"]).done());
    seen(
        "help_rollouts_create",
        &home.run(&["rollouts", "create", "-h"]).done(),
    );
    let long = home.run(&["help", "rollouts", "watch"]).done();
    assert!(
        long.contains("better-compute rollouts watch [OPTIONS] <ROLLOUT>"),
        "{long}"
    );
    let unknown = home.run(&["help", "nothing"]).refused(2);
    assert!(
        unknown.contains("expected a command or exit-codes"),
        "{unknown}"
    );
    let version = home.run(&["--version"]).done();
    assert!(version.starts_with("better-compute "), "{version}");
}

/// Calls a server that gives one answer, whatever it is asked.
fn ask_impostor(answer: &str) -> super::stand::Ended {
    let impostor = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", impostor.local_addr().unwrap());
    let answer = format!("HTTP/1.1 {answer}");
    let answering = thread::spawn(move || {
        let (mut stream, _) = impostor.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let home = Home::new();
    let ended = run(home.command(&["--url", &url, "--token", "t", "pools", "list"]));
    answering.join().unwrap();
    ended
}

/// A connection that is closed with unread bytes in it is reset, and the answer with it.
fn read_request(stream: &mut TcpStream) {
    let mut request = Vec::new();
    let mut byte = [0];
    let body = b"{\"tenantId\":\"root\"}";
    while !request.ends_with(body) {
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
}

#[test]
fn a_token_that_lies_there_is_not_overwritten() {
    let control = Control::start();
    control.run(&["pools", "create", "edge"]).done();
    let make = [
        "join-tokens",
        "create",
        "--pool",
        "edge",
        "--out",
        "join.token",
    ];
    control.run(&make).done();
    let kept = std::fs::read(control.home.path("join.token")).unwrap();
    let refused = control.run(&make).refused(1);
    assert!(
        refused.contains("a token is never overwritten"),
        "{refused}"
    );
    assert_eq!(
        std::fs::read(control.home.path("join.token")).unwrap(),
        kept
    );
    let made = control.json(&["join-tokens", "list"]);
    assert_eq!(made["joinTokens"].as_array().unwrap().len(), 1, "{made}");
}

#[test]
fn a_tenant_that_has_nothing_is_named() {
    let control = Control::start();
    let listed = control.run(&["--tenant", "nope", "nodes", "list"]);
    assert!(
        listed.err.contains("nothing found in tenant nope"),
        "{listed:?}"
    );
    assert_eq!(listed.code, 0);
    let quiet = control.run(&["--tenant", "nope", "nodes", "list", "-o", "json"]);
    assert_eq!(quiet.err, "");
}

#[test]
fn a_path_behind_the_address_is_told_apart_from_what_is_not_there() {
    let control = Control::start();
    let url = format!("{}/console", control.url);
    let refused = control.run(&["--url", &url, "pools", "list"]);
    assert!(refused.err.contains("before /console"), "{refused:?}");
    let secure = control.url.replace("http://", "https://");
    let refused = control.run(&["--url", &secure, "pools", "list"]);
    assert!(
        refused.err.contains("is it http:// and not https://"),
        "{refused:?}"
    );
}
