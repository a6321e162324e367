//! `rollouts watch`, and `--watch` behind other commands.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use bc_protocol::id::RolloutId;
use clap::Args;
use serde_json::Value;

use super::{
    bars::Bars,
    changes::{Told, changes},
    follow::Follow,
    progress::{late_outcome, outcome, state_in_words},
};
use crate::{
    api::rollout::{Rollout, RolloutState},
    cli::{
        client::CallError,
        exit::Exit,
        failure::Failure,
        named::Named,
        online::Online,
        print::{Answer, Output, Printer, note, write_out},
        sheet::{printable, second},
        span,
    },
    clock::Moment,
};

/// Follow a rollout until it is completed, paused or aborted
///
/// On a terminal, a bar for every wave; off it, a line for every change; with --output json, every state as one line
/// of JSON, without its node list. Ends with 0 when the rollout has completed without a failed node and with 3 when it
/// was paused or aborted, or nodes have failed. A control that restarts is waited for.
#[derive(Debug, Args)]
pub(in crate::cli) struct Watch {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "ROLLOUT")]
    rollout: Named<RolloutId>,
    /// How long to watch; then end with 5
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span::patience)]
    timeout: Option<Duration>,
}

/// `--watch` behind commands that change a rollout.
#[derive(Clone, Debug, Args)]
pub(super) struct WatchFlags {
    /// Follow the rollout until it ends, as `rollouts watch` does
    #[arg(long)]
    watch: bool,
    /// How long to follow it; then end with 5
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "watch", value_parser = span::patience)]
    timeout: Option<Duration>,
}

impl Watch {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let rollout = online.id(&self.rollout).await?;
        watch(online, rollout, (Of::Waves, self.timeout)).await
    }
}

/// Shows a rollout that a command has changed, or follows it.
pub(super) async fn or_show(
    online: &Online,
    flags: WatchFlags,
    changed: Answer<Rollout>,
) -> Result<Exit, Failure> {
    if flags.watch {
        watch(online, changed.value.id, (Of::Waves, flags.timeout)).await
    } else {
        online.show_answer(&changed).await?;
        Ok(Exit::Done)
    }
}

/// The same, where it is about the nodes that have come too late for its waves, or are tried again.
pub(super) async fn or_show_late(
    online: &Online,
    flags: WatchFlags,
    changed: Answer<Rollout>,
) -> Result<Exit, Failure> {
    if flags.watch {
        watch(online, changed.value.id, (Of::Late, flags.timeout)).await
    } else {
        online.show_answer(&changed).await?;
        Ok(Exit::Done)
    }
}

/// What of a rollout is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// All its waves.
    Waves,
    /// Its late nodes.
    Late,
}

impl Of {
    fn outcome(self, rollout: &Rollout) -> Option<Exit> {
        match self {
            Self::Waves => outcome(rollout),
            Self::Late => late_outcome(rollout),
        }
    }
}

async fn watch(
    online: &Online,
    rollout: RolloutId,
    (of, patience): (Of, Option<Duration>),
) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        ended = within((of, patience), online, &rollout) => ended,
        Ok(()) = tokio::signal::ctrl_c() => {
            if !online.printer.is_for_programs() {
                note(&match of {
                    Of::Waves => format!(
                        "  hint: the rollout goes on; `better-compute rollouts pause {rollout}` would hold it"
                    ),
                    Of::Late => format!(
                        "  hint: its nodes go on; `better-compute rollouts get {rollout}` shows how"
                    ),
                });
            }
            Ok(Exit::Interrupted)
        }
    }
}

async fn within(
    (of, patience): (Of, Option<Duration>),
    online: &Online,
    rollout: &RolloutId,
) -> Result<Exit, Failure> {
    let mut shown = Shown::new(&online.printer);
    let followed = follow(online, (of, rollout.clone()), &mut shown);
    let Some(patience) = patience else {
        return followed.await;
    };
    match tokio::time::timeout(patience, followed).await {
        Ok(ended) => ended,
        Err(_) => Err(Failure::TimedOut {
            what: rollout.to_string(),
            waited: patience,
        }),
    }
}

async fn follow(
    online: &Online,
    (of, rollout): (Of, RolloutId),
    shown: &mut Shown<'_>,
) -> Result<Exit, Failure> {
    let mut follow = Follow::new(&online.client, rollout);
    loop {
        let state = follow.next(|error| shown.silent(error)).await?;
        shown.show(&state)?;
        if let Some(exit) = of.outcome(&state.value) {
            shown.end(&state.value)?;
            return Ok(exit);
        }
    }
}

/// How what is followed is shown.
#[derive(Debug)]
enum Shown<'a> {
    /// To somebody at a terminal.
    Bars(Box<Bars>),
    /// To a log.
    Lines(Option<Box<Rollout>>),
    /// To a program.
    Objects {
        printer: &'a Printer,
        last: Option<Value>,
    },
    /// The name at the end is all that was asked for.
    Name,
}

impl<'a> Shown<'a> {
    fn new(printer: &'a Printer) -> Self {
        if printer.is_for_programs() {
            return Self::Objects {
                printer,
                last: None,
            };
        }
        match printer.output {
            Output::Name => Self::Name,
            Output::Table | Output::Wide | Output::Json | Output::Yaml => {
                if has_bars() {
                    Self::Bars(Box::new(Bars::new()))
                } else {
                    Self::Lines(None)
                }
            }
        }
    }

    fn show(&mut self, state: &Answer<Rollout>) -> Result<(), Failure> {
        match self {
            Self::Bars(bars) => bars.show(&state.value),
            Self::Lines(last) => {
                for line in changes(last.as_deref(), &state.value) {
                    tell(&line)?;
                }
                *last = Some(Box::new(state.value.clone()));
            }
            Self::Objects { printer, last } => {
                let mut object = state.raw.clone();
                if let Value::Object(fields) = &mut object {
                    fields.remove("nodeList");
                }
                if last.as_ref() != Some(&object) {
                    printer.show_next(&object, "Rollout")?;
                    *last = Some(object);
                }
            }
            Self::Name => {}
        }
        Ok(())
    }

    fn silent(&mut self, error: &CallError) {
        match self {
            Self::Bars(bars) => bars.silent(&error.to_string()),
            Self::Lines(_) | Self::Name => {
                note(&format!("{}; trying again", printable(&error.to_string())));
            }
            // What programs read on standard error is an error, and there is none yet.
            Self::Objects { .. } => {}
        }
    }

    fn end(&self, rollout: &Rollout) -> Result<(), Failure> {
        match self {
            Self::Bars(bars) => {
                bars.finish();
                write_out(&format!("{}\n", printable(&state_in_words(rollout))))?;
                hint(rollout);
            }
            Self::Lines(_) => hint(rollout),
            Self::Objects { .. } => {}
            Self::Name => write_out(&format!("{}\n", rollout.id))?,
        }
        Ok(())
    }
}

/// What one may do now.
fn hint(rollout: &Rollout) {
    let id = &rollout.id;
    match rollout.state {
        RolloutState::Paused => {
            let resume = match rollout.nodes.failed {
                0 => "goes on",
                _ => "accepts the failures of its wave and goes on",
            };
            note(&format!(
                "  hint: `better-compute rollouts resume {id}` {resume}; `abort` ends it"
            ));
        }
        RolloutState::Aborted | RolloutState::Completed if rollout.nodes.failed > 0 => note(
            &format!("  hint: `better-compute rollouts get {id}` shows the nodes and their errors"),
        ),
        RolloutState::Running | RolloutState::Aborted | RolloutState::Completed => {}
    }
}

fn tell(told: &Told) -> Result<(), Failure> {
    let at = second(told.at.unwrap_or_else(Moment::now));
    Ok(write_out(&format!("{at} {}\n", printable(&told.text)))?)
}

/// Bars need a terminal that can move its cursor, for both outputs: lines of the one would break the bars of the
/// other.
fn has_bars() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && io::stderr().is_terminal() && !dumb
}
