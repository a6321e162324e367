//! `better-compute nodes`.

use bc_protocol::session::{AttemptFacts, Outcome, Phase, Progress};
use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, Tone, second},
};
use crate::api::fleet::{Node, Nodes, RemovedNode, Reported};

mod get;
mod list;
mod remove;
mod update;

/// Look at nodes, set their labels, keep them out of rollouts, remove them
#[derive(Debug, Subcommand)]
pub(super) enum NodesCommand {
    List(list::List),
    Get(get::Get),
    Update(update::Update),
    Remove(remove::Remove),
}

impl NodesCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(online).await,
            Self::Get(command) => command.run(online).await,
            Self::Update(command) => command.run(online).await,
            Self::Remove(command) => command.run(online).await,
        }
    }
}

/// A label, as in `tier=edge`.
fn pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "expected NAME=VALUE".to_owned())
}

impl View for Node {
    const SCHEMA: Option<&'static str> = Some("Node");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let mut fields = vec![
            ("id", Cell::new(&self.id)),
            ("pool", Cell::pool(&self.pool_id)),
            ("state", presence(self)),
            ("since", Cell::optional(self.since.map(second))),
            ("joined", Cell::new(second(self.joined_at))),
            ("generation", Cell::new(self.generation)),
        ];
        if let Some(reported) = &self.reported {
            fields.extend([
                ("version", Cell::new(&reported.version)),
                ("sequence", Cell::new(reported.sequence)),
                ("digest", Cell::new(reported.digest)),
                ("slot", Cell::optional(reported.slot)),
                ("floor", Cell::new(reported.floor.sequence())),
                ("update", update(reported)),
                (
                    "observed generation",
                    Cell::new(reported.observed_generation),
                ),
            ]);
            fields.extend(reported.last_attempt.as_ref().map(last_attempt));
            fields.extend(reported.last_attempt.as_ref().and_then(another_try));
            fields.extend(reported.last_attempt.as_ref().and_then(last_words));
        }
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| vec![Cell::new(key), Cell::new(value)])
            .collect();
        Sheet::fields(fields).above(Sheet::rows(&["LABEL", "VALUE"], labels))
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for RemovedNode {
    const SCHEMA: Option<&'static str> = Some("RemovedNode");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("pool", Cell::pool(&self.pool_id)),
            ("removed", Cell::new(second(self.removed_at))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Nodes {
    const SCHEMA: Option<&'static str> = Some("Nodes");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = ["ID", "HOSTNAME", "POOL", "VERSION", "STATE", "UPDATE"];
        let wide = ["SINCE", "SLOT", "FLOOR", "GENERATION"];
        let rows = self
            .nodes
            .iter()
            .map(|node| {
                let reported = node.reported.as_ref();
                let mut row = vec![
                    Cell::id(&node.id),
                    Cell::optional_prose(node.labels.get("hostname")),
                    Cell::pool(&node.pool_id),
                    Cell::optional(reported.map(|facts| &facts.version)),
                    presence(node),
                    reported.map_or_else(|| Cell::new("-"), update).into_prose(),
                ];
                if detail == Detail::Wide {
                    row.extend([
                        Cell::optional(node.since.map(second)),
                        Cell::optional(reported.and_then(|facts| facts.slot)),
                        Cell::optional(reported.map(|facts| facts.floor.sequence())),
                        Cell::new(node.generation),
                    ]);
                }
                row
            })
            .collect();
        Sheet::rows(&detail.columns(&brief, &wide), rows)
    }

    fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.id.to_string()).collect()
    }
}

fn presence(node: &Node) -> Cell {
    match (node.online, node.maintenance) {
        (true, false) => Cell::toned("online", Tone::Good),
        (true, true) => Cell::toned("online, maintenance", Tone::Busy),
        (false, false) => Cell::toned("offline", Tone::Bad),
        (false, true) => Cell::toned("offline, maintenance", Tone::Busy),
    }
}

/// What the node does about updates now: the most telling of what it said.
fn update(reported: &Reported) -> Cell {
    if let Some(reason) = &reported.held {
        return Cell::toned(format!("held: {reason}"), Tone::Busy);
    }
    if let Some(progress) = &reported.progress {
        return Cell::toned(progress_words(progress), Tone::Busy);
    }
    if let Some(trial) = &reported.trial {
        return Cell::toned(format!("on trial in slot {}", trial.slot), Tone::Busy);
    }
    match &reported.last_attempt {
        Some(attempt) => Cell::toned(attempt_words(attempt), attempt_tone(attempt)),
        None => Cell::new("-"),
    }
}

fn progress_words(progress: &Progress) -> String {
    match progress.phase {
        Phase::Downloading => format!("downloading {} %", progress.percent),
        Phase::Verifying => "verifying".to_owned(),
        Phase::Installing => "installing".to_owned(),
        Phase::Preflight => "preflight".to_owned(),
        Phase::Activating => "activating".to_owned(),
        Phase::OnTrial => "on trial".to_owned(),
        Phase::Confirming => "confirming".to_owned(),
    }
}

fn last_attempt(attempt: &AttemptFacts) -> (&'static str, Cell) {
    let mut text = attempt_words(attempt);
    if !attempt.message.is_empty() {
        text = format!("{text}: {}", attempt.message);
    }
    ("last attempt", Cell::toned(text, attempt_tone(attempt)))
}

/// A node tries nothing again by itself that it has given up for good.
fn another_try(attempt: &AttemptFacts) -> Option<(&'static str, Cell)> {
    let mended = "it is not tried again by itself: once the cause is mended, `rollouts retry` does, where the rollout has completed, or else another rollout";
    (attempt.is_final && attempt_tone(attempt) == Tone::Bad).then(|| ("hint", Cell::new(mended)))
}

/// Lines of a binary's log that are shown: what it said last is why it ended.
const LOG_LINES_SHOWN: usize = 15;

/// What a binary wrote last that did not work out.
fn last_words(attempt: &AttemptFacts) -> Option<(&'static str, Cell)> {
    if attempt_tone(attempt) != Tone::Bad || attempt.log.trim().is_empty() {
        return None;
    }
    let lines: Vec<&str> = attempt.log.trim_end().lines().collect();
    let left_out = lines.len().saturating_sub(LOG_LINES_SHOWN);
    let shown = lines.get(left_out..).unwrap_or_default().join("\n");
    let text = match left_out {
        0 => shown,
        _ => format!("({left_out} earlier lines: --query lastAttempt.log shows all)\n{shown}"),
    };
    Some(("its log", Cell::lines(&text)))
}

fn attempt_words(attempt: &AttemptFacts) -> String {
    let target = &attempt.target;
    match attempt.outcome {
        Outcome::Running => format!("{target} running"),
        Outcome::Confirmed => format!("{target} confirmed"),
        Outcome::Refused => format!("{target} refused: {}", attempt.code),
        Outcome::Failed => format!("{target} failed: {}", attempt.code),
        Outcome::Crashed => format!("{target} crashed"),
        Outcome::Hung => format!("{target} hung"),
        Outcome::NoWelcome => format!("{target} not welcomed"),
        Outcome::Unstable => format!("{target} unstable"),
        Outcome::Environment => format!("{target} without verdict"),
        Outcome::Cancelled => format!("{target} cancelled"),
    }
}

fn attempt_tone(attempt: &AttemptFacts) -> Tone {
    match attempt.outcome {
        Outcome::Confirmed => Tone::Good,
        Outcome::Running | Outcome::Environment | Outcome::Cancelled => Tone::Busy,
        Outcome::Refused
        | Outcome::Failed
        | Outcome::Crashed
        | Outcome::Hung
        | Outcome::NoWelcome
        | Outcome::Unstable => Tone::Bad,
    }
}
