//! What the shell is offered while somebody types.

use super::stand::{Control, Home, run};

/// What the shell's script asks for the last of these words.
fn offered(mut command: std::process::Command, words: &[&str]) -> Vec<String> {
    command
        .arg("--")
        .args(words)
        .env("BETTER_COMPUTE_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true");
    let lines = run(command).done();
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn every_shell_has_a_script() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).done();
        assert!(
            script.contains("BETTER_COMPUTE_COMPLETE"),
            "{shell}: {script}"
        );
    }
    home.run(&["completions", "cmd"]).refused(2);
}

#[test]
fn commands_and_flags_are_offered_without_a_control() {
    let home = Home::new();
    let words = ["better-compute", "rollouts", "pau"];
    assert_eq!(offered(home.command(&[]), &words), ["pause"]);
    let words = ["better-compute", "rollouts", "create", "--max"];
    assert_eq!(offered(home.command(&[]), &words), ["--max-failure-ratio"]);
    for (line, offers) in [
        (
            "commands create --kind ",
            &["daemon.restart", "diagnostics.collect"][..],
        ),
        ("commands create --collect d", &["doctor", "disk"]),
        ("events list --type pool.a", &["pool.archived"]),
        (
            "events list --type fleet.",
            &["fleet.*", "fleet.frozen", "fleet.unfrozen"],
        ),
        (
            "webhooks create --type release.re",
            &["release.registered", "release.renewed"],
        ),
        ("workflows list --state p", &["pending", "paused"]),
        ("workflows update wf_x --state c", &["cancelled"]),
        (
            "tokens create --permission compute:t",
            &["compute:tenant:admin"],
        ),
        ("nodes update n --maintenance o", &["on", "off"]),
    ] {
        let words: Vec<&str> = ["better-compute"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        assert_eq!(offered(home.command(&[]), &words), offers, "{line}");
    }
    let words = ["better-compute", "rollouts", "get", ""];
    assert!(
        offered(home.command(&[]), &words)
            .iter()
            .all(|word| word.starts_with('-'))
    );
}

#[test]
fn ids_and_names_of_what_there_is_are_offered() {
    let control = Control::start();
    let id = control.rollout();
    for (words, offer) in [
        (
            &["better-compute", "rollouts", "get", "rol"][..],
            id.as_str(),
        ),
        (&["better-compute", "nodes", "list", "--pool", ""], "edge"),
        (
            &["better-compute", "rollouts", "create", "--version", ""],
            "1.1.0",
        ),
    ] {
        assert_eq!(offered(control.command(&[]), words), [offer], "{words:?}");
    }
}
