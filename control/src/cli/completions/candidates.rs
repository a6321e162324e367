//! Ids and names that the shell offers.
//!
//! Takes the tree of commands, gives it with somebody to ask for each argument that names a thing of control. Never says
//! why there is nothing to offer: whoever presses a key wants no error in the middle of a line.

use std::time::Duration;

use clap::Command;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    cli::{
        contexts::Contexts,
        failure::Failure,
        globals::Globals,
        online::Online,
        settings::{Environment, config_path},
        sheet::printable,
    },
    event::kinds,
};

/// Longer than this nobody waits for a key.
const PATIENCE: Duration = Duration::from_secs(2);

/// What arguments are called that take a type of events.
const EVENT_TYPE: &str = "TYPE";

/// Things of one kind, and how they are found.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// What arguments of this kind are called.
    value_name: &'static str,
    /// Who lists them,
    method: &'static str,
    /// under this name,
    list: &'static str,
    /// each with this to say,
    value: &'static str,
    /// and this to tell it by.
    about: &'static [&'static str],
}

const SOURCES: [Source; 10] = [
    source(
        "ROLLOUT",
        ("rollouts/list", "rollouts"),
        ("id", &["version", "state"]),
    ),
    source(
        "NODE",
        ("nodes/list", "nodes"),
        ("id", &["labels.hostname"]),
    ),
    source("POOL", ("pools/list", "pools"), ("name", &["id"])),
    source(
        "VERSION",
        ("releases/list", "releases"),
        ("version", &["expiresAt"]),
    ),
    source(
        "WORKFLOW",
        ("workflows/list", "workflows"),
        ("id", &["kind", "state"]),
    ),
    source(
        "COMMAND",
        ("commands/list", "commands"),
        ("id", &["kind", "state"]),
    ),
    source("WEBHOOK", ("webhooks/list", "webhooks"), ("id", &["url"])),
    source("TOKEN_ID", ("tokens/list", "tokens"), ("id", &["subject"])),
    source(
        "JOIN_TOKEN",
        ("joinTokens/list", "joinTokens"),
        ("id", &["expiresAt"]),
    ),
    source("GATEWAY", ("gateways/list", "gateways"), ("name", &["url"])),
];

const fn source(
    value_name: &'static str,
    (method, list): (&'static str, &'static str),
    (value, about): (&'static str, &'static [&'static str]),
) -> Source {
    Source {
        value_name,
        method,
        list,
        value,
        about,
    }
}

/// The same tree, with candidates.
pub(super) fn add(tree: Command) -> Command {
    with_sources(tree).mut_subcommand("config", |config| {
        config.mut_subcommand("use-context", |command| {
            command.mut_arg("name", |arg| arg.add(ArgValueCandidates::new(contexts)))
        })
    })
}

fn with_sources(command: Command) -> Command {
    // Its versions are those that one makes.
    if command.get_name() == "release" {
        return command;
    }
    command
        .mut_args(|arg| {
            let names = arg.get_value_names().unwrap_or_default();
            let asked = SOURCES
                .into_iter()
                .find(|source| names.iter().any(|name| name.as_str() == source.value_name));
            match asked {
                Some(source) => arg.add(ArgValueCandidates::new(move || {
                    offer(source).unwrap_or_default()
                })),
                None if names.iter().any(|name| name.as_str() == EVENT_TYPE) => {
                    arg.add(ArgValueCandidates::new(event_types))
                }
                None => arg,
            }
        })
        .mut_subcommands(with_sources)
}

/// Every type of event, and before those of a kind, all of that kind.
fn event_types() -> Vec<CompletionCandidate> {
    let mut words: Vec<String> = Vec::new();
    for kind in kinds::all() {
        let (group, _) = kind.split_once('.').unwrap_or((kind, ""));
        let whole = format!("{group}.*");
        if !words.contains(&whole) {
            words.push(whole);
        }
        words.push(kind.to_owned());
    }
    words.into_iter().map(CompletionCandidate::new).collect()
}

fn contexts() -> Vec<CompletionCandidate> {
    let known = || -> Result<Contexts, Failure> {
        let path = config_path(&Globals::default(), &Environment::of_process()?)?;
        Ok(Contexts::load(&path)?)
    };
    let contexts = known().map(|known| known.contexts).unwrap_or_default();
    contexts.into_keys().map(CompletionCandidate::new).collect()
}

/// Asks the control of the variables and the config file.
fn offer(source: Source) -> Result<Vec<CompletionCandidate>, Failure> {
    let online = Online::open(&Globals::default(), &Environment::of_process()?)?;
    let request = json!({ "tenantId": online.client.tenant });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let answer = runtime.block_on(async {
        let asked = online.client.call::<Value>(source.method, &request);
        timeout(PATIENCE, asked).await
    });
    let Ok(Ok(answer)) = answer else {
        return Ok(Vec::new());
    };
    let listed = answer.value.get(source.list).and_then(Value::as_array);
    Ok(listed
        .into_iter()
        .flatten()
        .filter_map(|one| candidate(source, one))
        .collect())
}

fn candidate(source: Source, one: &Value) -> Option<CompletionCandidate> {
    let text = |path: &str| {
        let found = path.split('.').try_fold(one, |value, name| value.get(name));
        found.and_then(Value::as_str)
    };
    let value = text(source.value)
        .filter(|value| is_plain(value))
        // A name that a shell might take for more than a word: its id is none.
        .or_else(|| text("id").filter(|id| is_plain(id)))?;
    let about: Vec<String> = source
        .about
        .iter()
        .filter_map(|name| text(name).map(printable))
        .collect();
    let help = Some(about.join(" ")).filter(|about| !about.is_empty());
    Some(CompletionCandidate::new(value).help(help.map(Into::into)))
}

fn is_plain(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(source: usize, one: &Value) -> Option<String> {
        let found = candidate(SOURCES[source], one)?;
        Some(format!(
            "{} ({})",
            found.get_value().to_str().unwrap(),
            found.get_help().unwrap()
        ))
    }

    #[test]
    fn things_are_offered_with_what_one_knows_them_by() {
        let rollout = json!({"id": "rollout_1", "version": "1.4.0", "state": "paused"});
        assert_eq!(offered(0, &rollout).unwrap(), "rollout_1 (1.4.0 paused)");
        let node = json!({"id": "node_1", "labels": {"hostname": "a\u{1b}"}});
        assert_eq!(offered(1, &node).unwrap(), "node_1 (a\\u{1b})");
    }

    #[test]
    fn a_name_that_a_shell_would_run_is_not_offered() {
        let pool = json!({"id": "pool_1", "name": "$(reboot)"});
        assert_eq!(offered(2, &pool).unwrap(), "pool_1 (pool_1)");
        let nameless = json!({"id": "-x", "name": "a b"});
        assert!(offered(2, &nameless).is_none());
    }
}
