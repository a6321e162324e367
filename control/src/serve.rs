//! `better-compute serve`: everything that control does, in one process.
//!
//! Takes a configuration, opens what is behind it, and runs until it is told to stop: then it takes no new work, ends
//! what is under way and closes the database. It has no opinions of its own.

mod authority;
mod beside;
mod bounded;
mod journal;
mod listen;
pub(crate) mod logs;
mod manager;
mod renewed;

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use axum_server::{Handle, tls_rustls::RustlsConfig};
use sd_notify::NotifyState;
use thiserror::Error;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Semaphore,
    task::{JoinError, JoinHandle},
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{
        authzen::{AuthZen, AuthZenError},
        decide::{BuiltIn, Decide},
        token::{self, FirstToken, TokenError},
    },
    clock::Moment,
    command::due,
    config::{Config, ConfigError, PasswordError, Source},
    console,
    db::{
        Db, DbError,
        lock::{LockError, ServeLock},
    },
    downloads::{DownloadError, Downloads},
    event::webhook::{ClientsError, Reach, dispatch},
    fleet::{
        authority::{Authority, AuthorityError},
        process,
    },
    http::{self, App, Quotas},
    link::{self, LinkTlsError},
    metrics::{self, ListenerError},
    peers,
    rollout::{controller, service::Services},
};
use beside::Beside;
use listen::{Bound, ListenError};

/// Requests that are under way when the service is told to stop get this long.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Run the control service
#[derive(Clone, Debug, clap::Args)]
// The example is to be copied: a line of it that was broken would be none.
#[command(after_long_help = include_str!("config/example.toml"), term_width = 0)]
pub(crate) struct ServeArgs {
    /// The configuration
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/better-compute/control.toml"
    )]
    config: PathBuf,
    /// Check the configuration and stop
    #[arg(long)]
    check_config: bool,
    /// Make another administrator's token, and write it to admin.token in the data folder: for when nobody has kept one
    #[arg(long)]
    new_admin_token: bool,
    /// How log lines look on standard error
    #[arg(long, value_enum, default_value_t = logs::LogFormat::Text)]
    log_format: logs::LogFormat,
}

impl ServeArgs {
    fn first_token(&self) -> FirstToken {
        if self.new_admin_token {
            FirstToken::Anew
        } else {
            FirstToken::IfNone
        }
    }
}

/// Runs the service until it is told to stop. Failures are told on standard error.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logs::print_failure(&error);
            ExitCode::FAILURE
        }
    }
}

/// Why the service does not run.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// The configuration is no good.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The database's password.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The data folder cannot be used.
    #[error("cannot use the data folder {}", path.display())]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Releases are to be served from nowhere.
    #[error("downloads.dir: expected a folder at {}, found none", path.display())]
    Downloads {
        /// The path.
        path: PathBuf,
    },
    /// The store of releases cannot be set up.
    #[error(transparent)]
    Store(#[from] DownloadError),
    /// Another service has it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// A statement at start.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The fleet of the database believes another authority, or this process has none.
    #[error(
        "expected the authority that this database's fleet believes, found {found} in {}: {mend}",
        data_dir.display()
    )]
    OtherAuthority {
        /// What is there.
        found: &'static str,
        /// Where this process keeps its own.
        data_dir: PathBuf,
        /// What to do.
        mend: &'static str,
    },
    /// The first token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// An address or a certificate.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server for links.
    #[error(transparent)]
    Link(#[from] LinkTlsError),
    /// The decision service cannot be asked.
    #[error(transparent)]
    Access(#[from] AuthZenError),
    /// Webhooks cannot be sent.
    #[error(transparent)]
    Webhooks(#[from] ClientsError),
    /// The address for metrics.
    #[error(transparent)]
    Metrics(#[from] ListenerError),
    /// The operating system gave no threads or signals.
    #[error("the runtime cannot start")]
    Runtime(#[source] io::Error),
    /// A server ended by itself.
    #[error("the server at {address} ended")]
    Ended {
        /// Where it listened.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

fn serve(args: &ServeArgs) -> Result<(), ServeError> {
    let config = Config::load(&args.config)?;
    let tls = listen::tls(&config)?;
    let downloads = downloads_are_there(&config);
    if args.check_config {
        downloads?;
        logs::print_line(&format!("{} is good", args.config.display()));
        return Ok(());
    }
    logs::begin(args.log_format);
    // A folder that is not mounted yet is no reason to stop holding the fleet together.
    if let Err(error) = downloads {
        tracing::warn!(%error, "nodes cannot fetch releases from here until it is there");
    }
    make_private(&config.data_dir).map_err(|source| ServeError::DataDir {
        path: config.data_dir.clone(),
        source,
    })?;
    let locks = locks(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    let done = runtime.block_on(until_stopped(config, tls, args.first_token()));
    drop(locks);
    done
}

/// Of the data folder, and of the folder where the database's file is, if that is another one.
fn locks(config: &Config) -> Result<Vec<ServeLock>, LockError> {
    let elsewhere = config.database.folder();
    let elsewhere = elsewhere.filter(|folder| *folder != config.data_dir);
    let folders = [Some(config.data_dir.as_path()), elsewhere];
    folders.into_iter().flatten().map(ServeLock::take).collect()
}

fn downloads_are_there(config: &Config) -> Result<(), ServeError> {
    match &config.downloads.source {
        Some(Source::Folder(dir)) if !dir.is_dir() => {
            Err(ServeError::Downloads { path: dir.clone() })
        }
        Some(Source::Folder(_) | Source::Store(_)) | None => Ok(()),
    }
}

/// Makes a folder that others cannot look into; one that is there is left as its owner made it.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir)
}

/// The signals that ask for an end. Caught from before the service says that it listens: whoever reads that line may
/// stop it at once.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Result<Self, ServeError> {
        let catch = |kind| signal(kind).map_err(ServeError::Runtime);
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => tracing::info!("told to stop by SIGTERM"),
            _ = self.interrupt.recv() => tracing::info!("told to stop by SIGINT"),
        }
    }
}

async fn until_stopped(
    config: Config,
    tls: Option<Arc<rustls::ServerConfig>>,
    first_token: FirstToken,
) -> Result<(), ServeError> {
    let mut signals = Signals::catch()?;
    let (api, link) = (Bound::api(&config)?, Bound::link(&config)?);
    let measured = config
        .metrics_listen
        .map(metrics::Listener::bind)
        .transpose()?;
    let decider = decider(&config)?;
    let downloads = config.downloads.source.as_ref();
    let downloads = downloads.map(Downloads::new).transpose()?;
    let parts = Parts::open(&config, &api.url, first_token).await?;
    let stop = CancellationToken::new();
    let mut beside = Beside::default();
    let link_url = link.url.clone();
    beside.start("the server for links", parts.links(link, stop.clone())?);
    let services = &parts.services;
    let reach = Reach::new(config.webhook_networks);
    parts.work(&mut beside, &reach, &stop)?;
    let metrics = Arc::clone(&services.metrics);
    let measured_at = measured.as_ref().map(|listener| listener.address);
    if let Some(listener) = measured {
        let db = services.db.clone();
        let work = listener.serve(Arc::clone(&metrics), db, stop.clone());
        beside.start("the server for metrics", work);
    }
    let app = App {
        services: services.clone(),
        authority: Arc::clone(&parts.authority),
        decider,
        link_url: link_url.clone(),
        base_url: api.url.clone(),
        downloads,
        quotas: Quotas::new(config.limits),
        behind_proxy: config.behind_proxy,
        reach,
        watchers: Arc::new(Semaphore::new(http::WATCHERS_MAX)),
        stop: stop.clone(),
    };
    let tls = tls.map(RustlsConfig::from_config);
    let followed = renewed::follow(
        config.tls.zip(tls.clone()),
        Arc::clone(&metrics),
        stop.clone(),
    );
    let followed = followed.map_err(ServeError::Runtime)?;
    beside.start("what follows the certificate", followed);
    let handle = Handle::new();
    let router = http::router(app, console::routes());
    let server = listen::serve_api(api.socket, tls, router, (handle.clone(), metrics));
    let mut server = tokio::spawn(server);
    let metrics_at = measured_at.map_or(String::new(), |at| format!(" metrics {at}"));
    logs::print_line(&format!(
        "control listens: api {} link {link_url}{metrics_at}",
        api.url
    ));
    manager::tell(NotifyState::Ready);
    let ended = until_told(&mut server, &mut signals, (&stop, &handle)).await;
    beside.end().await;
    services.db.close().await;
    let address = api.address;
    ended
        .unwrap_or_else(|panic| Err(io::Error::other(panic)))
        .map_err(|source| ServeError::Ended { address, source })
}

/// Serves until a signal comes, or until the server ends by itself; then everything is told to stop.
async fn until_told(
    server: &mut JoinHandle<io::Result<()>>,
    signals: &mut Signals,
    (stop, handle): (&CancellationToken, &Handle<SocketAddr>),
) -> Result<io::Result<()>, JoinError> {
    let ended = tokio::select! {
        ended = &mut *server => Some(ended),
        () = signals.any() => None,
    };
    manager::tell(NotifyState::Stopping);
    // Watches end by themselves first: they would keep their connections open for the whole grace.
    stop.cancel();
    handle.graceful_shutdown(Some(STOP_GRACE));
    match ended {
        Some(ended) => ended,
        None => server.await,
    }
}

fn decider(config: &Config) -> Result<Arc<dyn Decide>, AuthZenError> {
    match &config.access {
        None => Ok(Arc::new(BuiltIn)),
        Some(service) => Ok(Arc::new(AuthZen::new(service)?)),
    }
}

/// What the service is made of.
struct Parts {
    services: Services,
    authority: Arc<Authority>,
}

impl Parts {
    /// The server for links, at an address that is bound.
    fn links(
        &self,
        link: Bound,
        stop: CancellationToken,
    ) -> Result<impl Future<Output = io::Result<()>> + Send + use<>, ServeError> {
        let tls = link::tls_server(
            &self.authority,
            &link.url,
            (&self.services.metrics, Moment::now()),
        )?;
        let (services, authority) = (self.services.clone(), Arc::clone(&self.authority));
        Ok(link::serve(link.socket, tls, services, authority, stop))
    }

    /// Starts what works beside the servers.
    fn work(
        &self,
        beside: &mut Beside,
        reach: &Reach,
        stop: &CancellationToken,
    ) -> Result<(), ServeError> {
        let services = || self.services.clone();
        let passes = controller::spawn(services(), stop.clone()).task;
        beside.add("the controller", passes);
        let ends = due::spawn(services(), stop.clone());
        beside.add("what ends commands in time", ends);
        let speaks = tokio::spawn(peers::run(services(), stop.clone()));
        beside.add("what speaks with other processes", speaks);
        let (db, metrics) = (self.services.db.clone(), Arc::clone(&self.services.metrics));
        let sends = dispatch::spawn(db, reach, metrics, stop.clone())?;
        beside.add("webhooks", sends);
        Ok(())
    }

    async fn open(
        config: &Config,
        base_url: &str,
        first_token: FirstToken,
    ) -> Result<Self, ServeError> {
        let now = Moment::now();
        let db = Db::open(&config.database.location()?).await?;
        process::begin(&db, now).await?;
        let authority = authority::open(&db, config, now).await?;
        token::ensure_first(&db, &config.data_dir, (first_token, now)).await?;
        let downloads_url = match &config.downloads.url {
            Some(url) => url.as_str().to_owned(),
            None => format!("{base_url}/api/compute/downloads"),
        };
        let trust = config.trust.clone();
        let services = Services::new(db, trust, &downloads_url, config.offline_grace);
        Ok(Self {
            services: Services {
                protocol_min: config.protocol_min,
                ..services
            },
            authority: Arc::new(authority),
        })
    }
}
