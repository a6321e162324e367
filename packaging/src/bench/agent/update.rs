//! Updates, one after the other, of one node; each timed from the gateway's side.
//!
//! A spec is sent; the node reports what it does as it does it, and says goodbye once the trial is in the record. The
//! preflight, which runs the new binary, is taken off: its time is the new binary's.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use bc_protocol::{
    session::{Facts, FromGateway, FromNode, Outcome, Phase},
    spec::NodeSpec,
};
use tokio::time::sleep;

use super::{
    downloads::Downloads,
    gateway::{Gateway, Session},
    kernel,
    node::{Node, Release},
};
use crate::fleet::{Service, now};

/// A user without rights.
const NOBODY: u32 = 65_534;

/// How long trials have where none is to fail.
pub(super) const DEADLINE: &str = "60s";

/// How long a helper may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// One node and what it talks to.
pub(super) struct Bench {
    pub(super) gateway: Gateway,
    pub(super) downloads: Downloads,
    pub(super) node: Node,
    /// Who writes for the node, where that may not.
    pub(super) helper: Option<Service>,
}

/// How one update went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    /// From the spec to the trial in the record, less the preflight.
    pub(super) took: Duration,
    /// The preflight.
    pub(super) preflight: Duration,
    /// From the old session's goodbye to the new one's Welcome.
    pub(super) gap: Duration,
    /// Bytes written to the disk.
    pub(super) written: u64,
    /// The most memory, beyond what it had before.
    pub(super) extra_kib: u64,
    /// What it kept processors busy for, all its threads together.
    pub(super) cpu: Duration,
    /// Calls that wait for the disk, where they were counted.
    pub(super) syncs: usize,
}

/// What is looked at beside the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing: nobody disturbs the node.
    Away,
    /// Memory and bytes written, while the old process waits for its session's end.
    Counters,
    /// Those, and the calls that wait for the disk; its times are of no use.
    Calls,
}

impl Bench {
    /// A node in `folder` that runs `agent`, and its first session.
    pub(super) async fn open(agent: &Path, folder: &Path) -> Result<(Self, Session)> {
        Self::with_deadline(agent, folder, DEADLINE).await
    }

    /// The same, whose trials have that long.
    pub(super) async fn with_deadline(
        agent: &Path,
        folder: &Path,
        deadline: &str,
    ) -> Result<(Self, Session)> {
        Self::with(agent, folder, ("", deadline)).await
    }

    /// The same with a node that runs as a user without rights, and its helper. Only root can have one.
    pub(super) async fn with_helper(agent: &Path, folder: &Path) -> Result<(Self, Session)> {
        let socket = folder.join("helper.sock");
        let keys = format!(
            "user = \"{NOBODY}\"\nhelper_socket = \"{}\"",
            socket.display()
        );
        let (mut bench, session) = Self::with(agent, folder, (&keys, DEADLINE)).await?;
        let mut helper = Service::new("helper", agent, folder);
        helper.args(["exec", "helper", "--config"]);
        helper.arg(folder.join("bcd.toml")).start()?;
        let deadline = now() + PATIENCE;
        while !socket.exists() {
            helper.check()?;
            ensure!(now() < deadline, "the helper does not listen");
            sleep(Duration::from_millis(5)).await;
        }
        bench.helper = Some(helper);
        Ok((bench, session))
    }

    async fn with(agent: &Path, folder: &Path, keys: (&str, &str)) -> Result<(Self, Session)> {
        fs::create_dir_all(folder)?;
        let mut gateway = Gateway::open().await?;
        let node = Node::start(&gateway, agent, folder, keys)?;
        let session = gateway.session().await.with_context(|| node.log())?;
        let bench = Self {
            gateway,
            downloads: Downloads::open()?,
            node,
            helper: None,
        };
        Ok((bench, session))
    }

    /// The helper's process.
    pub(super) fn helper_pid(&self) -> Result<Option<i32>> {
        let pid = self.helper.as_ref().and_then(Service::pid);
        Ok(pid.map(i32::try_from).transpose()?)
    }

    /// Bytes that node and helper have made the disk write.
    fn written(&self, node: i32) -> Result<u64> {
        let helper = self.helper_pid()?.map_or(Ok(0), kernel::written)?;
        Ok(kernel::written(node)? + helper)
    }

    /// Updates the node, in this session, to a release whose bytes are served already; gives the new one's session.
    pub(super) async fn update(
        &mut self,
        mut session: Session,
        release: Release,
        look: Look,
    ) -> Result<(Session, Update)> {
        let pid = self.node.pid()?;
        let counting = match look {
            Look::Calls => Some(self.node.count_syncs().await?),
            Look::Away | Look::Counters => None,
        };
        kernel::forget_peak(pid)?;
        let before = (kernel::peak_kib(pid)?, self.written(pid)?);
        let cpu_before = kernel::used(pid)?.cpu_ns;
        let spec = NodeSpec {
            generation: self.node.generation(),
            daemon: Some(release.section),
        };
        let sent = now();
        session.say(FromGateway::Spec(Ok(spec))).await?;
        let times = self.follow(&mut session).await?;
        let (extra_kib, written) = match look {
            Look::Away => (0, 0),
            Look::Counters | Look::Calls => (
                kernel::peak_kib(pid)?.saturating_sub(before.0),
                self.written(pid)?.saturating_sub(before.1),
            ),
        };
        let cpu_ns = kernel::used(pid)?.cpu_ns.saturating_sub(cpu_before);
        let syncs = counting.map_or(Ok(0), |counting| counting.so_far())?;
        let ((), next) = tokio::join!(session.end(), self.gateway.session());
        let mut next = next.with_context(|| self.node.log())?;
        self.confirmed(&mut next).await?;
        let update = Update {
            took: (times.recorded - sent).saturating_sub(times.preflight),
            preflight: times.preflight,
            gap: next.welcomed_at - times.recorded,
            written,
            extra_kib,
            cpu: Duration::from_nanos(cpu_ns),
            syncs,
        };
        Ok((next, update))
    }

    /// Follows an update until the node says goodbye for it.
    async fn follow(&self, session: &mut Session) -> Result<Times> {
        let (mut asked, mut passed) = (None, None);
        loop {
            let Some((frame, at)) = session.next().await? else {
                bail!("the session ended in the middle:\n{}", self.node.log());
            };
            match frame {
                FromNode::Report(report) => {
                    check(&report.facts)?;
                    match report.facts.progress.map(|progress| progress.phase) {
                        Some(Phase::Preflight) => asked = asked.or(Some(at)),
                        Some(Phase::Activating) => passed = passed.or(Some(at)),
                        Some(
                            Phase::Downloading
                            | Phase::Verifying
                            | Phase::Installing
                            | Phase::OnTrial
                            | Phase::Confirming,
                        )
                        | None => {}
                    }
                }
                FromNode::Goodbye(_) => {
                    return Ok(Times {
                        // A helper asks the new binary while it stages it, and nobody hears of it.
                        preflight: asked
                            .zip(passed)
                            .map_or(Duration::ZERO, |(asked, passed)| passed - asked),
                        recorded: at,
                    });
                }
                FromNode::Hello(_)
                | FromNode::CommandResult(_)
                | FromNode::CertificateRequest(_) => {}
            }
        }
    }

    /// Waits until the release that now runs is confirmed.
    async fn confirmed(&self, session: &mut Session) -> Result<()> {
        loop {
            let Some((frame, _)) = session.next().await? else {
                bail!("the new session ended:\n{}", self.node.log());
            };
            if let FromNode::Report(report) = frame {
                check(&report.facts)?;
                if report.facts.trial.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

/// When things came to be known.
struct Times {
    preflight: Duration,
    recorded: Instant,
}

/// An attempt that failed would be measured as nonsense.
fn check(facts: &Facts) -> Result<()> {
    let Some(last) = &facts.last_attempt else {
        return Ok(());
    };
    match last.outcome {
        Outcome::Running | Outcome::Confirmed => Ok(()),
        Outcome::Refused
        | Outcome::Failed
        | Outcome::Crashed
        | Outcome::Hung
        | Outcome::NoWelcome
        | Outcome::Unstable
        | Outcome::Environment
        | Outcome::Cancelled => bail!("the update failed: {}: {}", last.code, last.message),
    }
}
