//! What the quickstart tells while it runs.
//!
//! For people it goes to standard output; where a program reads, all of it goes to standard error and leaves standard
//! output to the result.

use std::{io::Write, process::Stdio};

use serde_json::Value;

use super::{NodeOutcome, inherit_stderr};
use crate::fleet::Fleet;

/// Who looks on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person.
    People,
    /// A program, which reads the last line of standard output.
    Program,
}

/// Tells what happens.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    audience: Audience,
}

impl Story {
    /// A story for an audience.
    pub fn new(audience: Audience) -> Self {
        Self { audience }
    }

    /// Begins a part.
    pub fn chapter(&self, title: &str) {
        self.tell(&format!("\n== {title}"));
    }

    /// Says one thing.
    pub fn line(&self, text: &str) {
        self.tell(&format!("   {text}"));
    }

    /// Where a program that shows progress prints.
    pub(super) fn progress(&self) -> Stdio {
        match self.audience {
            Audience::People => Stdio::inherit(),
            Audience::Program => inherit_stderr(),
        }
    }

    /// Lists the nodes.
    pub(super) fn nodes(&self, nodes: &[NodeOutcome]) {
        self.chapter("Every node, as control knows it");
        for node in nodes {
            let attempt = &node.last_attempt;
            let outcome = attempt
                .get("outcome")
                .and_then(Value::as_str)
                .unwrap_or("none");
            let target = attempt
                .get("target")
                .and_then(Value::as_str)
                .unwrap_or("nothing");
            self.line(&format!(
                "{}  runs {} from slot {}, floor {}; last attempt: {target}, {outcome}",
                plain(&node.id),
                plain(&node.version),
                plain(&node.slot),
                plain(&node.floor),
            ));
        }
    }

    /// Says how to look further while the fleet runs on.
    pub(super) fn how_to_go_on(&self, fleet: &Fleet) {
        self.chapter("The fleet runs on; Ctrl-C ends it and removes everything");
        let operator = &fleet.operator;
        self.line(&format!("export BETTER_COMPUTE_URL={}", operator.url()));
        self.line(&format!(
            "export BETTER_COMPUTE_TOKEN_FILE={} BETTER_COMPUTE_TENANT=root",
            operator.token_file().display()
        ));
        self.line(&format!(
            "in a browser: {}/console, with the token in that file",
            operator.url()
        ));
        let program = fleet.programs().control.display();
        self.line("in another terminal:");
        for verbs in ["rollouts list", "nodes list", "pools list", "releases list"] {
            self.line(&format!("{program} {verbs}"));
        }
        if let Some(node) = fleet.nodes.first() {
            self.line(&format!("logs: {}", fleet.dir().join("logs").display()));
            self.line(&format!("a node's folder: {}", node.dir.display()));
        }
    }

    fn tell(&self, text: &str) {
        // A closed pipe ends the telling, not the show.
        drop(match self.audience {
            Audience::People => writeln!(std::io::stdout(), "{text}"),
            Audience::Program => writeln!(std::io::stderr(), "{text}"),
        });
    }
}

/// A JSON value as a person writes it.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}
