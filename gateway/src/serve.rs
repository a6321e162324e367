//! The process from its start to its end: what begins when, and what signals change.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
};

use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    RunError,
    causes::with_causes,
    config::Config,
    credentials::Credentials,
    enrol::{self, EnrolError},
    files,
    gateway::{Gateway, Phase},
    identity::Folder,
    limits::FLUSH_TIMEOUT,
    link::client::Client,
    manager::Manager,
    memory,
    metrics::Reloaded,
    reload::reload,
    server::{self, Server},
    status,
};

/// Serves until it is told to stop. `path` is where the configuration was read, and is read again.
pub(crate) async fn run(mut config: Config, path: &Path) -> Result<(), RunError> {
    let (mut signals, mut manager) = (Signals::new()?, Manager::new());
    files::take_all();
    config.limits = files::within(config.limits);
    let gateway = Arc::new(Gateway::new(config.limits, config.protocol_min));
    // First of all, so that it shows what the rest waits for.
    let shown = show(&config, &gateway).await?;
    manager.does("waiting for a certificate");
    let enrolled = enrolled(&config);
    let Some(credentials) = unless_stopped(enrolled, &mut manager, &mut signals).await else {
        return Ok(());
    };
    let credentials = Arc::new(credentials?);
    let listener = server::listen(config.listen)?;
    announce(&credentials, &listener, shown)?;
    // It ends with the process.
    tokio::spawn(memory::watch(Arc::clone(&gateway)));
    let unlink = CancellationToken::new();
    let client = Client {
        credentials: Arc::clone(&credentials),
        process: rand::random(),
        config: config.clone(),
        gateway: Arc::clone(&gateway),
    };
    let mut running = Running {
        link: tokio::spawn(client.run(unlink.clone())),
        server: Server::new(Arc::clone(&credentials), Arc::clone(&gateway)),
        path: path.to_owned(),
        config,
        credentials,
        gateway,
        unlink,
    };
    running.accept(&listener, &mut manager, &mut signals).await;
    running.leave(listener, &mut manager, &mut signals).await;
    Ok(())
}

/// A gateway that takes sessions, or sends them away.
struct Running {
    path: PathBuf,
    config: Config,
    credentials: Arc<Credentials>,
    gateway: Arc<Gateway>,
    server: Server,
    link: tokio::task::JoinHandle<()>,
    unlink: CancellationToken,
}

impl Running {
    /// Takes sessions until it is told to stop.
    async fn accept(
        &mut self,
        listener: &TcpListener,
        manager: &mut Manager,
        signals: &mut Signals,
    ) {
        self.gateway.phase.send_replace(Phase::Serving);
        manager.serves();
        loop {
            tokio::select! {
                () = self.server.accept(listener) => {}
                () = manager.lives() => {}
                event = signals.next() => match event {
                    Event::Stop => return,
                    Event::Reload => {
                        manager.reloads();
                        self.reload();
                        manager.serves();
                    }
                },
            }
        }
    }

    fn reload(&mut self) {
        let (path, config) = (&self.path, &self.config);
        match reload(path, config, &self.credentials, &self.gateway) {
            Ok(read) => {
                self.config = read;
                self.gateway.metrics.reloaded(Reloaded::TAKEN);
            }
            Err(error) => {
                self.gateway.metrics.reloaded(Reloaded::REFUSED);
                warn!(
                    error = with_causes(&error),
                    "nothing of it is used: what was read before goes on"
                );
            }
        }
    }

    /// Sends the nodes away and tells control what they did last, within the drain time.
    async fn leave(self, listener: TcpListener, manager: &mut Manager, signals: &mut Signals) {
        let end = Instant::now() + self.config.drain;
        // Whoever asks hears it before the door is shut.
        self.gateway.phase.send_replace(Phase::Draining);
        self.gateway.metrics.draining.set(1);
        manager.stops();
        drop(listener);
        let told = unless_stopped(self.drain(end), manager, signals).await;
        if told.is_none() {
            warn!("told to stop twice: leaving at once");
        }
        self.unlink.cancel();
        if self.link.await.is_err() {
            warn!("the link's task failed");
        }
    }

    async fn drain(&self, end: Instant) {
        let drained = timeout_at(end, self.server.drain(self.config.drain)).await;
        if drained.is_err() {
            warn!(
                sessions = self.gateway.registry.len(),
                "connections outlived the drain time"
            );
        }
        let flushed = end.min(Instant::now() + FLUSH_TIMEOUT);
        let told = timeout_at(flushed, self.gateway.upward.told()).await;
        if told.is_err() {
            warn!("control has not acknowledged everything: it learns the rest from the nodes");
        }
    }
}

/// Does something to its end, or until it is told to stop: then it gives nothing. Reloads find nothing to change here.
async fn unless_stopped<T>(
    what: impl Future<Output = T>,
    manager: &mut Manager,
    signals: &mut Signals,
) -> Option<T> {
    let mut what = pin!(what);
    loop {
        tokio::select! {
            done = &mut what => return Some(done),
            () = manager.lives() => {}
            event = signals.next() => match event {
                Event::Stop => return None,
                Event::Reload => info!("nothing is read anew now"),
            },
        }
    }
}

/// Begins to show metrics and health, where they are wanted.
async fn show(config: &Config, gateway: &Arc<Gateway>) -> Result<Option<SocketAddr>, RunError> {
    let Some(address) = config.metrics_listen else {
        return Ok(None);
    };
    let listener = listen(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(status::serve(listener, Arc::clone(gateway)));
    Ok(Some(address))
}

async fn enrolled(config: &Config) -> Result<Credentials, RunError> {
    let folder = Folder::open(&config.state_dir).map_err(EnrolError::from)?;
    let identity = enrol::identity(&folder, config).await?;
    Ok(Credentials::new(folder, &identity)?)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, RunError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| RunError::Listen { address, source })
}

/// A line for whoever started it; with port 0 nobody else knows where it listens.
fn announce(
    credentials: &Credentials,
    listener: &TcpListener,
    shown: Option<SocketAddr>,
) -> io::Result<()> {
    let listen = listener.local_addr()?;
    let mut out = io::stdout();
    // One line, so that whoever reads it need not wait for another that may never come.
    match shown {
        Some(shown) => writeln!(out, "listening on {listen}, metrics on {shown}")?,
        None => writeln!(out, "listening on {listen}, metrics nowhere")?,
    }
    info!(gateway = %credentials.gateway(), %listen, "serving");
    Ok(())
}

/// What signals ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Stop,
    Reload,
}

/// The signals that a service takes.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.terminate.recv() => Event::Stop,
            _ = self.interrupt.recv() => Event::Stop,
            _ = self.hangup.recv() => Event::Reload,
        }
    }
}
