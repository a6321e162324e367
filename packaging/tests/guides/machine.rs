//! Commands for a machine with systemd. `cargo xtask systemd-fleet` runs them; what they name has to exist all the same, so
//! that a change of the programs is noticed by every test.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{LazyLock, Mutex},
};

/// What such a block may call beside our own programs: others' tools, whose flags are their own business.
const OTHERS: &[&str] = &[
    "apt",
    "apt-get",
    "cat",
    "chmod",
    "chown",
    "cp",
    "createdb",
    "createuser",
    "curl",
    "dnf",
    "dropdb",
    "echo",
    "export",
    "grep",
    "head",
    "id",
    "install",
    "journalctl",
    "kill",
    "ln",
    "mkdir",
    "mv",
    "openssl",
    "pg_dump",
    "pg_restore",
    "psql",
    "rm",
    "sed",
    "sh",
    "sleep",
    "systemctl",
    "tee",
    "update-ca-certificates",
];

/// Holds every command of a block.
pub(crate) fn hold(place: &str, block: &str) {
    let commands = commands(block);
    assert!(!commands.is_empty(), "{place}: no command");
    for words in commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["systemctl", rest @ ..] => units(place, rest),
            [
                program @ ("bcd" | "bc-gateway" | "better-compute"),
                rest @ ..,
            ] => flags(place, program, rest),
            ["/usr/lib/bcd/bcd" | "by-hand/bcd", rest @ ..] => flags(place, "bcd", rest),
            [program, ..] => assert!(OTHERS.contains(program), "{place}: nobody holds {program}"),
            [] => {}
        }
    }
}

/// A block that is only shown holds no command that somebody could copy.
pub(crate) fn is_no_command(place: &str, block: &str) {
    for words in commands(block) {
        let first = words.first().map(String::as_str).unwrap_or_default();
        let ours = ["bcd", "bc-gateway", "better-compute", "systemctl", "cargo"];
        assert!(
            !ours.contains(&first),
            "{place}: {} is a command: say where it is run",
            words.join(" ")
        );
    }
}

/// The simple commands of a script, each as its words, without what it is fed.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut joined = String::new();
    let mut feed: Option<String> = None;
    for line in script.lines() {
        if let Some(end) = &feed {
            if line == end {
                feed = None;
            }
            continue;
        }
        if let Some((_, end)) = line.split_once("<<") {
            let end = end.split_whitespace().next().unwrap_or_default();
            feed = Some(end.trim_matches(['\'', '"']).to_owned());
        }
        let line = line.split("<<").next().unwrap_or_default();
        match line.strip_suffix('\\') {
            Some(begun) => joined.push_str(begun),
            None => joined = joined + line + "\n",
        }
    }
    let joined = joined.replace("2>&1", "").replace("$(", ";");
    let parts = joined.split(['\n', '|', ';', '&']);
    let words = parts.map(|part| {
        part.split_whitespace()
            .map(|word| word.trim_matches(['"', ')']).to_owned())
    });
    let commands = words.map(|words| {
        let words = words.take_while(|word| !word.starts_with('#'));
        words
            .skip_while(|word| is_before_a_command(word) || is_assignment(word))
            .collect::<Vec<_>>()
    });
    commands.filter(|words| !words.is_empty()).collect()
}

/// The shell's own words, and what has somebody else run what follows.
fn is_before_a_command(word: &str) -> bool {
    ["sudo", "-u", "postgres", "until", "do", "done"].contains(&word)
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Every unit is one that a package brings.
fn units(place: &str, words: &[&str]) {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let verbs = [
        "start",
        "stop",
        "restart",
        "reload",
        "status",
        "enable",
        "disable",
        "is-active",
        "daemon-reload",
        "cat",
    ];
    let mut plain = words.iter().filter(|word| !word.starts_with('-'));
    let verb = plain.next().unwrap_or(&"");
    assert!(verbs.contains(verb), "{place}: systemctl {verb}");
    for unit in plain {
        let file = if unit.contains('.') {
            (*unit).to_owned()
        } else {
            format!("{unit}.service")
        };
        assert!(
            file == "postgresql.service" || shipped.join(&file).is_file(),
            "{place}: no package has {file}"
        );
    }
}

/// The program knows the command and every flag.
fn flags(place: &str, program: &str, words: &[&str]) {
    let command: Vec<&str> = words
        .iter()
        .copied()
        .take_while(|word| !word.starts_with('-') && !word.starts_with('$'))
        .take(2)
        .collect();
    let help = help(program, &command);
    for word in words.iter().filter(|word| word.starts_with("--")) {
        let flag = word.split('=').next().unwrap_or_default();
        let known = help
            .split(|letter: char| letter.is_whitespace() || [',', '=', '['].contains(&letter))
            .any(|other| other == flag);
        assert!(
            known,
            "{place}: {program} {} has no {flag}",
            command.join(" ")
        );
    }
}

fn help(program: &str, command: &[&str]) -> String {
    static SEEN: LazyLock<Mutex<BTreeMap<String, String>>> = LazyLock::new(Mutex::default);
    let key = format!("{program} {}", command.join(" "));
    let mut seen = SEEN.lock().unwrap();
    let text = seen.entry(key.clone()).or_insert_with(|| {
        let output = Command::new(built(program))
            .args(command)
            .arg("--help")
            .output()
            .unwrap();
        assert!(output.status.success(), "{key} --help: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    text.clone()
}

/// A program of this checkout, built if it is not.
pub(crate) fn built(program: &str) -> PathBuf {
    static BUILT: LazyLock<()> = LazyLock::new(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        crate::shell::without_cargos_own(|name| {
            command.env_remove(name);
        });
        command.args(["build", "--workspace", "--bins", "--locked", "--quiet"]);
        assert!(command.status().unwrap().success());
    });
    LazyLock::force(&BUILT);
    crate::shell::target().join(program)
}

#[test]
fn a_script_comes_apart() {
    let script = "sudo apt install ./bcd.deb\n# no\nA=1 B=2 bcd join --control \\\n  x # or y\ncat > f <<'END'\nbcd none\nEND\n\
                  curl -s x | sh && systemctl start bcd\nA=$(sudo bcd version) 2>&1 &\n";
    let commands: Vec<String> = commands(script)
        .iter()
        .map(|words| words.join(" "))
        .collect();
    assert_eq!(
        commands,
        [
            "apt install ./bcd.deb",
            "bcd join --control x",
            "cat > f",
            "curl -s x",
            "sh",
            "systemctl start bcd",
            "bcd version"
        ]
    );
}

#[test]
#[should_panic(expected = "bcd join has no --tokenfile")]
fn a_flag_that_the_program_does_not_know_is_noticed() {
    hold("x", "bcd join --tokenfile y\n");
}

#[test]
#[should_panic(expected = "no package has bcd-updater.service")]
fn a_unit_that_no_package_has_is_noticed() {
    hold("x", "systemctl start bcd-updater\n");
}

#[test]
#[should_panic(expected = "nobody holds make")]
fn a_program_that_nobody_knows_is_noticed() {
    hold("x", "make install\n");
}

#[test]
#[should_panic(expected = "is a command")]
fn a_command_in_a_block_that_is_only_shown_is_noticed() {
    is_no_command("x", "bcd status\n");
}
