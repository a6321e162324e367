//! That what every command prints has been looked at.

use std::{collections::BTreeMap, fs, path::Path};

use clap::Command;

/// Commands whose output no snapshot can hold, and why.
const NOT_SEEN: &[(&str, &str)] = &[
    (
        "serve",
        "runs until it is stopped; it prints where it listens",
    ),
    (
        "docs",
        "prints nothing: it writes files, which tests of the guides read",
    ),
    (
        "man",
        "prints nothing: it writes files, which a test here reads",
    ),
    (
        "completions",
        "prints a script, which tests run in each shell",
    ),
    (
        "events watch",
        "runs until it is stopped; a test reads its lines",
    ),
    (
        "rollouts watch",
        "runs until the rollout ends; snapshots of a terminal and a test hold its lines",
    ),
    ("daemon install-script", "prints a script, which tests run"),
];

/// Commands that people see in no snapshot of this kind, and why.
const NOT_SEEN_BY_PEOPLE: &[(&str, &str)] = &[
    (
        "config show",
        "its table is as wide as the name of a folder, which every run makes anew",
    ),
    (
        "doctor",
        "a snapshot without its own line, since what it finds is the machine's",
    ),
    ("help", "snapshots without its own line hold it"),
];

/// Commands that print JSON as no snapshot shows it, and why.
const NOT_SEEN_AS_JSON: &[(&str, &str)] = &[
    ("login", "prints nothing that programs read"),
    ("config use-context", "prints nothing that programs read"),
    (
        "doctor",
        "a test reads it, since what it finds is the machine's",
    ),
];

/// The lines that snapshots begin an output with, by command.
fn lines() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    let mut lines = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let commands = text
            .lines()
            .filter_map(|line| line.strip_prefix("$ better-compute "));
        lines.extend(commands.map(|line| format!("{line} ")));
    }
    lines
}

/// Every command that does something, by its whole name, and whether it prints JSON.
fn leaves(command: &Command, name: &str, found: &mut BTreeMap<String, bool>) {
    if !command.has_subcommands() {
        let json = command
            .get_arguments()
            .any(|argument| argument.get_long() == Some("output"));
        found.insert(name.trim().to_owned(), json);
    }
    for deeper in command.get_subcommands() {
        leaves(deeper, &format!("{name} {}", deeper.get_name()), found);
    }
}

#[test]
fn every_command_has_its_snapshot_for_people_and_for_programs() {
    let lines = lines();
    let mut commands = BTreeMap::new();
    leaves(&super::tree(), "", &mut commands);
    let excepted = |list: &[(&str, &str)], name: &str| list.iter().any(|(one, _)| *one == name);
    let mut unseen = Vec::new();
    for (name, json) in &commands {
        let mut mine = lines
            .iter()
            .filter(|line| line.starts_with(&format!("{name} ")));
        let is_json = |line: &String| line.contains(" json ");
        let people = mine.clone().any(|line| !is_json(line));
        let excused = excepted(NOT_SEEN, name) || excepted(NOT_SEEN_BY_PEOPLE, name);
        if people == excused {
            unseen.push(format!("{name}: seen by people: {people}"));
        }
        let programs = mine.any(is_json);
        let excused = excepted(NOT_SEEN, name) || excepted(NOT_SEEN_AS_JSON, name);
        if *json && programs == excused {
            unseen.push(format!("{name}: seen by programs: {programs}"));
        }
    }
    assert!(
        unseen.is_empty(),
        "add a snapshot under tests/cli, or take away an exception that is none:\n{}",
        unseen.join("\n")
    );
    let lists = [NOT_SEEN, NOT_SEEN_BY_PEOPLE, NOT_SEEN_AS_JSON];
    for (name, _) in lists.into_iter().flatten() {
        assert!(commands.contains_key(*name), "{name} is no command");
    }
}
