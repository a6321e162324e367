//! `bcd node`: a session with the fleet, and an updater beside it.
//!
//! Takes the owner's configuration and the node's folder; runs until it is told to stop, or until the next start is
//! another binary's. What the gateway says goes to the updater as it comes, what the updater has on disk goes to the
//! gateway. It decides nothing and installs nothing itself.

mod commands;
mod connect_seq;
mod credentials;
mod feed;
pub(crate) mod fetch;
pub(crate) mod handover;
pub(crate) mod limits;
mod line;
mod listener;
mod lock;
pub(crate) mod memory;
pub(crate) mod metrics;
mod report;
pub(crate) mod session;
mod signals;
pub(crate) mod socket;
mod throttle;
pub(crate) mod update;

use std::{io, net::SocketAddr, path::PathBuf, thread};

use bc_protocol::{
    command::CommandResult,
    id::CommandId,
    platform::Platform,
    session::{ProtocolRange, StartId},
    spec::NodeSpec,
    version::VersionError,
};
use sd_notify::NotifyState;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use url::Url;

use self::{
    commands::{Commands, Parts, Restart, diagnostics::Sources},
    connect_seq::ConnectSeq,
    credentials::Credentials,
    feed::{Feed, tell_manager},
    limits::{LEAVE_PATIENCE, NEWS_MAX, RESULTS_MAX},
    line::Setup,
    listener::Listener,
    memory::SessionNote,
    report::Reporter,
    session::Leaving,
    signals::{Signals, Stops},
    update::{Setting, UpdateState, Updates},
};
use crate::faults::{Fault, planted};
use crate::{
    Build,
    clock::{self, ClockError},
    config::Config,
    hangup, hold,
    http::Web,
    identity::{Identity, IdentityError},
    join::{self, JoinError},
    paths::Paths,
    tls::TlsError,
    updater::{
        executor::{self, BootError},
        host::{Host, with_causes},
        operations::Operations,
        running,
    },
};

pub(crate) use self::lock::LockError;

/// What a node is started with.
#[derive(Debug)]
pub(crate) struct Start {
    /// The owner's configuration.
    pub(crate) config: Config,
    /// The file that it came from: a new binary has to read it too.
    pub(crate) config_path: PathBuf,
    /// The node's folder.
    pub(crate) paths: Paths,
    /// What this program was built as.
    pub(crate) build: Build,
    /// Where to show metrics, if anywhere.
    pub(crate) metrics: Option<SocketAddr>,
}

/// Why a node does not run, or no longer.
#[derive(Debug, Error)]
pub(crate) enum NodeError {
    /// The folder is another node's.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The program was built with a version that is none.
    #[error("this program's own version is none")]
    Version(#[from] VersionError),
    /// The record.
    #[error(transparent)]
    Record(#[from] BootError),
    /// The image that runs.
    #[error("expected to read the binary that runs, found that it cannot be read")]
    Image(#[source] io::Error),
    /// The node's identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Control, asked for what is damaged of it.
    #[error(transparent)]
    Mend(#[from] JoinError),
    /// The sessions' TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The boot's name.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The runtime.
    #[error("expected a runtime and its signals, found none")]
    Runtime(#[source] io::Error),
    /// Neither the configuration nor the identity names a gateway.
    #[error("expected the address of a gateway, found none")]
    NoGateway,
    /// The updater's task has died.
    #[error("expected the updater to run as long as the node, found that it ended")]
    UpdaterEnded,
}

/// A clean end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody stopped it, or its manager is to start it again.
    Stopped,
    /// The next start is another binary's, and nobody has asked for anything else.
    Updated,
}

/// Runs the node.
pub(crate) fn run(start: Start) -> Result<End, NodeError> {
    let _lock = lock::take(&start.paths)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(NodeError::Runtime)?;
    let ended = runtime.block_on(Box::pin(live(start)));
    // A name that nobody resolves holds a thread for minutes; the process does not wait for it.
    runtime.shutdown_background();
    ended
}

async fn live(start: Start) -> Result<End, NodeError> {
    let signals = Signals::install()?;
    hangup::ignore().map_err(NodeError::Runtime)?;
    let identity = identity(&start).await?;
    let remembered = memory::spec(&start.paths);
    let (setting, reporter) = setting(&start, &identity, remembered.as_ref())?;
    let version = setting.running.version.clone();
    let updates = Updates::start(setting);
    tokio::spawn(end_by_force(updates.clone()));
    if let Some(listen) = start.metrics {
        let shown = metrics::show(listen, version.clone(), updates.clone());
        tokio::spawn(shown);
    }
    let owner = updates.clone();
    tokio::spawn(hold::follow(start.paths.clone(), move |held| {
        owner.held(held);
    }));
    let (restart, restarting) = watch::channel(Restart::No);
    let (under_way, told_under_way) = watch::channel(Vec::new());
    let (results, told_results) = mpsc::channel(RESULTS_MAX);
    let door = updates.clone();
    let commands = Commands::new(Parts {
        sources: Sources {
            config: start.config.clone(),
            paths: start.paths.clone(),
        },
        start: reporter.started,
        upgrade_to: Box::new(move |section| door.upgrade(section)),
        under_way,
        results,
        restart,
    });
    if let Some(spec) = &remembered {
        updates.spec(Ok(spec.clone()));
    }
    let (specs, arriving) = watch::channel(remembered);
    let seen = updates.clone();
    tokio::spawn(memory::keep_specs(
        start.paths.clone(),
        arriving,
        move |generation| seen.kept(generation),
    ));
    let node = Node {
        state: updates.state(),
        leaving: signals.or_updated(updates.clone(), restarting),
        updates,
        reporter,
        note: SessionNote::none(version, &start.config.update.trust),
        specs,
        paths: start.paths.clone(),
        commands,
    };
    node.note.save(&node.paths);
    tell_manager(&[NotifyState::Ready]);
    if planted(Fault::NeverConnects) {
        tracing::warn!("this build never connects");
        node.leaving.await;
        return Ok(End::Stopped);
    }
    let setup = setup(&start, identity, (told_under_way, told_results))?;
    node.keep(setup).await
}

/// A node that has handed over and cannot end must not keep the new binary from its start.
async fn end_by_force(updates: Updates) {
    updates.leave().await;
    thread::spawn(|| {
        thread::sleep(LEAVE_PATIENCE);
        tracing::warn!("the node did not end by itself: it is ended");
        std::process::exit(0);
    });
}

/// Everything of a node that lasts as long as its process.
struct Node<L> {
    updates: Updates,
    state: watch::Receiver<UpdateState>,
    leaving: L,
    reporter: Reporter,
    note: SessionNote,
    specs: watch::Sender<Option<NodeSpec>>,
    paths: Paths,
    commands: Commands,
}

impl<L: Future<Output = Leaving>> Node<L> {
    /// Keeps the session until it is time to leave.
    async fn keep(self, setup: Setup) -> Result<End, NodeError> {
        let Self {
            updates,
            mut state,
            leaving,
            reporter,
            note,
            specs,
            paths,
            commands,
        } = self;
        let (facts, told) = watch::channel(reporter.facts(&state.borrow_and_update()));
        let mut listener = Listener {
            updates,
            note,
            specs,
            paths,
            commands,
        };
        let (news_out, mut news) = mpsc::channel(NEWS_MAX);
        let mut line = Box::pin(line::keep(setup, told, leaving, news_out));
        let mut feed = Feed::new();
        let mut stops = Stops::install()?;
        let ended = loop {
            tokio::select! {
                () = &mut line => break Ok(stops.end(&listener.updates)),
                Some(heard) = news.recv() => {
                    listener.hear(heard, (&state.borrow(), &facts.borrow()));
                }
                collected = listener.commands.done() => {
                    listener.commands.collected(collected, &facts.borrow());
                }
                changed = state.changed() => match changed {
                    Ok(()) => {
                        let state = state.borrow_and_update().clone();
                        facts.send_replace(reporter.facts(&state));
                        listener.commands.look_at(&state);
                        listener.helper(state.helper);
                    }
                    Err(_) => break Err(NodeError::UpdaterEnded),
                },
                () = feed.due() => tell_manager(&[NotifyState::Watchdog]),
            }
        };
        match ended {
            // For the manager this process goes on, as another binary.
            Ok(End::Updated) if handover::is_possible() => {}
            Ok(End::Updated | End::Stopped) | Err(_) => tell_manager(&[NotifyState::Stopping]),
        }
        listener.ended(None);
        ended
    }
}

/// Who the node is. What is damaged of that, control gives anew to whoever still has the key.
async fn identity(start: &Start) -> Result<Identity, NodeError> {
    let folder = start.paths.identity();
    let damaged = match Identity::load(&folder) {
        Ok(identity) => return Ok(identity),
        Err(absent @ IdentityError::Absent(_)) => return Err(absent.into()),
        Err(damaged) => damaged,
    };
    tracing::warn!(error = %with_causes(&damaged), "the identity is damaged: control is asked for it");
    let web = Web {
        plain_http: start.config.plain_http,
        ca_file: start.config.ca_file.clone(),
        earliest: None,
    };
    match join::mend(&folder, start.config.control.as_ref(), &web).await? {
        Some(_) => Ok(Identity::load(&folder)?),
        None => Err(damaged.into()),
    }
}

fn setting(
    start: &Start,
    identity: &Identity,
    remembered: Option<&NodeSpec>,
) -> Result<(Setting, Reporter), NodeError> {
    let host = Host::new(start.paths.clone(), &start.config);
    let record = executor::to_run_by(&host, &start.config.package_binary)?;
    let version = start.build.version.parse()?;
    let running = running::identify(&start.paths, &record, version).map_err(NodeError::Image)?;
    tracing::info!(
        node = %identity.node_id(), version = %running.version, slot = running.slot.map(tracing::field::display),
        sequence = %running.sequence, floor = %record.floor(), "the node starts"
    );
    let reporter = Reporter {
        version: running.version.clone(),
        platform: Platform::host(),
        boot_id: clock::boot_time()?.boot.0,
        started: StartId::from(rand::random::<[u8; 16]>()),
    };
    let setting = Setting {
        operations: Operations::of(host, &start.config.node),
        running,
        record,
        stable_for: start.config.update.stable_for,
        web: web(&start.config, identity),
        config: start.config_path.clone(),
        observed_generation: remembered.map_or(0, |spec| spec.generation),
        held: hold::reason(&start.paths),
    };
    Ok((setting, reporter))
}

fn web(config: &Config, identity: &Identity) -> Web {
    Web {
        plain_http: config.plain_http,
        ca_file: config.ca_file.clone(),
        earliest: Some(identity.starts()),
    }
}

fn setup(
    start: &Start,
    identity: Identity,
    (under_way, results): (
        watch::Receiver<Vec<CommandId>>,
        mpsc::Receiver<CommandResult>,
    ),
) -> Result<Setup, NodeError> {
    let folder = start.paths.identity();
    let web = web(&start.config, &identity);
    let Config {
        gateways, control, ..
    } = &start.config;
    let credentials = Credentials::new(folder, identity, gateways, control.as_ref(), web)?;
    if credentials.gateways().is_empty() {
        return Err(NodeError::NoGateway);
    }
    let seed: [u8; 32] = rand::random();
    Ok(Setup {
        credentials,
        counter: ConnectSeq::load(&start.paths.connect_seq(), clock::wall().unix()),
        // A fleet that has lost its gateways in one moment does not come to control in one.
        lonely_after: limits::LONELY_MIN + limits::LONELY_SPREAD_STEP * seed[0].into(),
        seed,
        labels: start.config.labels.clone(),
        protocols: protocols(),
        under_way,
        results,
    })
}

/// What this build speaks.
fn protocols() -> ProtocolRange {
    if planted(Fault::OldProtocol) {
        return ProtocolRange { min: 1, max: 1 };
    }
    ProtocolRange::CURRENT
}

/// The gateways to use: those that the owner names, or else those that joining did.
pub(crate) fn gateways(owners: &[Url], identity: &Identity) -> Vec<String> {
    if owners.is_empty() {
        return identity.gateways().to_vec();
    }
    owners.iter().map(Url::to_string).collect()
}
