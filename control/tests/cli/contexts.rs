//! The config file and `login`.

use std::{io::Write, os::unix::fs::PermissionsExt, process::Stdio};

use serde_json::json;

use super::stand::{Control, Home, run};

const CONFIG: &str = ".config/better-compute/config.toml";

#[test]
fn a_typo_is_refused_with_its_line_and_key() {
    let home = Home::new();
    for (config, said) in [
        (
            "[contexts.a]\nurl = \"http://a\"\ntokn = \"x\"\n",
            &["line 3", "tokn"][..],
        ),
        ("curent_context = \"a\"\n", &["line 1", "curent_context"]),
        ("[contexts.a]\noutput = \"xml\"\n", &["line 2", "xml"]),
        ("[contexts.a]\nurl = 7\n", &["line 2", "7"]),
        ("[contexts.a\n", &["line 1"]),
    ] {
        home.write(CONFIG, config);
        let error = home.run(&["pools", "list"]).refused(2);
        for word in said {
            assert!(error.contains(word), "{config}: {error}");
        }
    }
}

#[test]
fn a_context_or_file_that_is_not_there_is_refused() {
    let home = Home::new();
    home.write(CONFIG, "[contexts.prod]\nurl = \"https://a\"\n");
    let error = home.run(&["--context", "prd", "pools", "list"]).refused(2);
    assert!(
        error.contains("expected one of the contexts prod, found \"prd\""),
        "{error}"
    );
    let error = home.run(&["config", "use-context", "prd"]).refused(2);
    assert!(error.contains("found \"prd\""), "{error}");
    let error = home
        .run(&["--config", "none.toml", "pools", "list"])
        .refused(2);
    assert!(
        error.contains("expected a file at none.toml, found none"),
        "{error}"
    );
}

#[test]
fn login_keeps_a_token_that_works_where_only_its_owner_reads_it() {
    let control = Control::start();
    let home = &control.home;
    let token = std::fs::read_to_string(home.path("data/admin.token")).unwrap();
    let login = ["login", "--url", &control.url, "--context", "prod"];

    let wrong = home.run(&[&login[..], &["--token", "tok_x.y"]].concat());
    wrong.refused(4);
    assert!(!home.path(CONFIG).exists(), "a wrong token was kept");

    let mut command = home.command(&login);
    let mut running = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    running
        .stdin
        .take()
        .unwrap()
        .write_all(token.as_bytes())
        .unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mode = home.path(CONFIG).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    home.run(&["pools", "list"]).done();
    let shown = home.run(&["config", "show", "-o", "json"]).json();
    assert_eq!(shown["url"]["from"], "context prod");
    let listed = home.run(&["config", "list"]).done();
    assert!(!listed.contains(token.trim()), "{listed}");
}

#[test]
fn contexts_are_chosen_by_name() {
    let control = Control::start();
    let home = &control.home;
    for (name, tenant) in [("one", "root"), ("two", "acme")] {
        home.run(&[
            "login",
            "--url",
            &control.url,
            "--context",
            name,
            "--tenant",
            tenant,
            "--token-file",
            "data/admin.token",
        ])
        .done();
    }
    let tenant = |args: &[&str]| {
        home.run(&[args, &["config", "show", "-o", "json"]].concat())
            .json()["tenant"]["value"]
            .clone()
    };
    assert_eq!(tenant(&[]), "acme", "the one that logged in last");
    assert_eq!(tenant(&["--context", "one"]), "root");
    home.run(&["config", "use-context", "one"]).done();
    assert_eq!(tenant(&[]), "root");
    let contexts = home.run(&["config", "list", "-o", "json"]).json();
    assert_eq!(contexts["contexts"][0]["current"], json!(true));
    // The file's path is kept so that it is found from elsewhere, too.
    let mut command = home.command(&["pools", "list"]);
    command.current_dir("/");
    run(command).done();
}

#[test]
fn flags_beat_variables_beat_contexts() {
    let home = Home::new();
    home.write(
        CONFIG,
        "current_context = \"a\"\n[contexts.a]\nurl = \"http://context\"\n",
    );
    let url = |args: &[&str], variable: Option<&str>| {
        let mut command =
            home.command(&[args, &["config", "show", "--query", "url.value"]].concat());
        command.envs(variable.map(|value| ("BETTER_COMPUTE_URL", value)));
        run(command).done().trim().to_owned()
    };
    assert_eq!(
        url(&["--url", "http://flag"], Some("http://variable")),
        "http://flag/"
    );
    assert_eq!(url(&[], Some("http://variable")), "http://variable/");
    assert_eq!(
        url(&[], Some("")),
        "http://context/",
        "an empty variable is none"
    );
    assert_eq!(url(&[], None), "http://context/");
}
