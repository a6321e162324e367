//! The command line of `bcd`: one file a command, whose doc comment is its help.

mod boot;
mod confine;
mod doctor;
mod exec;
mod helper;
mod join;
mod node;
mod preflight;
mod room;
mod status;
mod supervise;
mod update;
mod version;
mod watchdog;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use thiserror::Error;
use tokio::runtime::Runtime;

use crate::Build;
use crate::account::{Account, AccountError};
use crate::config::{Config, ConfigError};
use crate::confinement::ConfinementError;
use crate::helper::HelperError;
use crate::join::JoinError;
use crate::logs::{self, FilterError, LogFormat};
use crate::node::{LockError, NodeError};
use crate::paths::{DEFAULT_CONFIG, Paths};
use crate::shown::one_line;
use crate::supervise::SuperviseError;
use crate::updater::executor::BootError;
use crate::updater::host::{HostError, with_causes};
use crate::updater::watchdog::WatchError;
use crate::watchdog::WatchdogError;

/// The agent of one node of a fleet.
#[derive(Debug, Parser)]
#[command(name = "bcd", after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes:
    0  done
    1  failed; standard error says why
    2  the command line cannot be understood
    3  the configuration cannot be used
    4  another process holds this node's folder
  126  the slot's binary cannot be executed

`bcd join --help` shows every key of the configuration.";

/// What every command understands.
#[derive(Clone, Debug, Args)]
struct Global {
    /// The node's configuration
    #[arg(long, global = true, value_name = "FILE", default_value = DEFAULT_CONFIG, env = "BCD_CONFIG", hide_env_values = true)]
    config: PathBuf,
    /// The node's folder, instead of the configuration's state_dir
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// What to log, such as info or bcd=debug
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        default_value = "bcd=info",
        env = "BCD_LOG",
        hide_env_values = true
    )]
    log: String,
    /// How lines are logged
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "BCD_LOG_FORMAT", hide_env_values = true)]
    log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    Join(join::Join),
    Status(status::ShowStatus),
    Update(update::Update),
    Doctor(doctor::Doctor),
    Supervise(supervise::Supervise),
    Watchdog(watchdog::Watch),
    Boot(boot::Boot),
    Exec(exec::Exec),
    Helper(helper::ServeNode),
    Node(node::Node),
    Preflight(preflight::Preflight),
    #[command(hide = true)]
    Confine(confine::Confine),
    #[command(hide = true)]
    Room(room::Room),
    Version(version::ShowVersion),
}

/// What the command line understands: the words of `--help`, for whoever writes a manual of them.
pub(crate) fn tree() -> clap::Command {
    Cli::command()
}

/// Reads the command line and does what it says.
pub(crate) fn run(build: Build) -> ExitCode {
    // The version is the build's own, as `bcd version` prints it.
    let tree = Cli::command().version(build.version);
    let parsed = tree.try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match execute(cli, build) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            error.exit_code()
        }
    }
}

fn execute(cli: Cli, build: Build) -> Result<(), CommandError> {
    logs::start(&cli.global.log, cli.global.log_format)?;
    #[cfg(feature = "faults")]
    crate::faults::plant(build.fault)?;
    match cli.command {
        Command::Join(command) => command.run(&cli.global),
        Command::Status(command) => command.run(&cli.global, build),
        Command::Update(command) => command.run(&cli.global, build),
        Command::Doctor(command) => command.run(&cli.global),
        Command::Supervise(command) => command.run(&cli.global),
        Command::Watchdog(command) => command.run(&cli.global),
        Command::Boot(command) => command.run(&cli.global),
        Command::Exec(command) => command.run(&cli.global),
        Command::Helper(command) => command.run(&cli.global, build),
        Command::Node(command) => command.run(&cli.global, build),
        Command::Preflight(command) => command.run(&cli.global, build),
        Command::Confine(command) => command.run(),
        Command::Room(command) => command.run(),
        Command::Version(command) => command.run(build),
    }
}

impl Global {
    /// The configuration, and the folder that it or the command line names.
    fn load(&self) -> Result<(Config, Paths), CommandError> {
        let config = Config::load(&self.config)?;
        let root = self.state_dir.clone().unwrap_or(config.state_dir.clone());
        Ok((config, Paths::new(root)))
    }
}

/// The user that the configuration names for the node, with the node's own folders made that user's.
fn prepared(config: &Config, paths: &Paths) -> Result<Option<Account>, AccountError> {
    let Some(user) = &config.node.user else {
        return Ok(None);
    };
    let account = Account::named(user)?;
    account.prepare(paths)?;
    Ok(Some(account))
}

/// One thread is enough for everything that waits, and costs a small machine the least.
fn runtime() -> Result<Runtime, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CommandError::Runtime)
}

/// Why a command failed.
#[derive(Debug, Error)]
enum CommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[cfg(feature = "faults")]
    #[error(transparent)]
    Fault(#[from] crate::faults::UnknownFault),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error(transparent)]
    Confinement(#[from] ConfinementError),
    #[error(transparent)]
    Exec(#[from] exec::ExecError),
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Helper(#[from] HelperError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Preflight(#[from] preflight::PreflightError),
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    #[error(transparent)]
    Watchdog(#[from] WatchdogError),
    #[cfg(feature = "faults")]
    #[error(transparent)]
    ByHand(#[from] update::by_hand::ByHandError),
    #[error("expected --control or control in the configuration, found neither")]
    NoControl,
    #[error("expected to make the node's folder, found that it cannot be made")]
    Folder(#[source] io::Error),
    #[error("expected this program's own path, found none")]
    Image(#[source] io::Error),
    #[error("expected a runtime, found that none can be made")]
    Runtime(#[source] io::Error),
    #[error(
        "expected an order for a preflight on standard input, found none that can be carried out"
    )]
    Room(#[source] io::Error),
    #[error("expected every check to find all well, found {wrong} that did not")]
    Unwell { wrong: usize },
    #[error("expected to use {path}, found that this user may not: run as root", path = path.display())]
    Rights { path: PathBuf },
    #[error("expected to use {path}, found that it cannot be", path = path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected to write to standard output, found it closed")]
    Output(#[source] io::Error),
}

impl CommandError {
    /// What keeps a file of the node from being used.
    fn file(path: PathBuf, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::Rights { path };
        }
        Self::File { path, source }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            #[cfg(feature = "faults")]
            Self::Fault(_) => ExitCode::from(2),
            Self::Filter(_) | Self::NoControl => ExitCode::from(2),
            Self::Config(_) => ExitCode::from(3),
            Self::Node(NodeError::Lock(LockError::Held { .. }))
            | Self::Supervise(SuperviseError::Watch(WatchError::Held { .. }))
            | Self::Watchdog(WatchdogError::Watch(WatchError::Held { .. })) => ExitCode::from(4),
            Self::Exec(exec::ExecError::NotExecutable { .. })
            | Self::Confinement(ConfinementError::NotExecutable { .. }) => ExitCode::from(126),
            #[cfg(feature = "faults")]
            Self::ByHand(_) => ExitCode::FAILURE,
            Self::Boot(_)
            | Self::Confinement(_)
            | Self::Exec(_)
            | Self::Account(_)
            | Self::Helper(_)
            | Self::Host(_)
            | Self::Join(_)
            | Self::Node(_)
            | Self::Preflight(_)
            | Self::Supervise(_)
            | Self::Watchdog(_)
            | Self::Folder(_)
            | Self::Image(_)
            | Self::Runtime(_)
            | Self::Room(_)
            | Self::Rights { .. }
            | Self::File { .. }
            | Self::Unwell { .. }
            | Self::Output(_) => ExitCode::FAILURE,
        }
    }
}

/// Says on standard error what went wrong, cause by cause.
#[expect(
    clippy::print_stderr,
    reason = "this is what a person sees of a failed command, whatever the log filter says"
)]
fn complain(error: &dyn std::error::Error) {
    // Some of it is what control or a server said.
    let said = one_line(&with_causes(error));
    eprintln!("error: {said}");
}

#[cfg(test)]
mod tests {
    use super::tree;

    #[test]
    fn the_command_line_is_consistent() {
        tree().debug_assert();
    }
}
