//! How long a node takes to go back from a release that proves to be no good.
//!
//! The gateway lets the new binary in and never welcomes it, or the new binary stands still before anybody could. Measured
//! is from the deadline, as the record has it, to the Welcome of the old binary.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bc_protocol::{
    session::{FromGateway, FromNode, Outcome},
    spec::NodeSpec,
};
use nix::{
    sys::signal::{Signal, kill},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

use super::{gateway::Session, update::Bench};
use crate::fleet::now;

/// How long a trial has: as short as a trial that is still let in can be.
pub(super) const DEADLINE: &str = "4s";

/// What is wrong with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ill {
    /// Nobody welcomes it.
    Unwelcome,
    /// It stands still.
    Hung,
}

/// Goes back that many times from either; gives the milliseconds of each.
pub(super) async fn measure(agent: &Path, folder: &Path, rounds: usize) -> Result<Vec<f64>> {
    let (mut bench, mut session) = Bench::with_deadline(agent, folder, DEADLINE).await?;
    let mut took = Vec::new();
    for _ in 0..rounds {
        for ill in [Ill::Unwelcome, Ill::Hung] {
            let back;
            (session, back) = go_back(&mut bench, session, folder, ill).await?;
            took.push(back.as_secs_f64() * 1000.0);
        }
    }
    Ok(took)
}

async fn go_back(
    bench: &mut Bench,
    mut session: Session,
    folder: &Path,
    ill: Ill,
) -> Result<(Session, Duration)> {
    let release = bench.node.next_release(bench.downloads.url(), 0)?;
    bench.downloads.serve(&release.bytes)?;
    let attempt = release.section.attempt.clone();
    let spec = NodeSpec {
        generation: bench.node.generation(),
        daemon: Some(release.section),
    };
    bench.gateway.welcomes_trials(false);
    session.say(FromGateway::Spec(Ok(spec))).await?;
    while let Some((said, _)) = session.next().await? {
        if matches!(said, FromNode::Goodbye(_)) {
            break;
        }
    }
    let ((), trial) = tokio::join!(session.end(), bench.gateway.trial());
    trial.with_context(|| bench.node.log())?;
    let deadline = deadline(folder)?;
    if ill == Ill::Hung {
        kill(Pid::from_raw(bench.node.pid()?), Signal::SIGSTOP)?;
    }
    let next = bench.gateway.session().await;
    let next = next.with_context(|| bench.node.log())?;
    let last = next.last_attempt().context("no attempt was reported")?;
    let outcome = last.outcome;
    ensure!(
        last.id == attempt && matches!(outcome, Outcome::NoWelcome | Outcome::Hung),
        "expected a release that was given up for itself, found {outcome:?}"
    );
    let back = next.welcomed_at.saturating_duration_since(deadline);
    ensure!(back > Duration::ZERO, "the old binary came back too early");
    Ok((next, back))
}

/// When the trial is over, as the record says.
fn deadline(folder: &Path) -> Result<Instant> {
    let text = fs::read_to_string(folder.join("state/update.json"))?;
    let record: serde_json::Value = serde_json::from_str(&text)?;
    let deadline = record
        .pointer("/record/trial/deadline")
        .and_then(serde_json::Value::as_u64)
        .context("no trial in the record")?;
    let boot = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    let left = Duration::from_millis(deadline).saturating_sub(boot);
    ensure!(left > Duration::ZERO, "the trial was over before it began");
    Ok(now() + left)
}
