//! `bcd helper`

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use super::exec::{self, ExecError};
use super::{CommandError, Global, runtime};
use crate::Build;
use crate::account::{Account, DEFAULT_USER};
use crate::config::Config;
use crate::helper::{self, DEFAULT_SOCKET, Helper};
use crate::updater::host::{Host, with_causes};

/// Write slots and record for a node that runs without the right to
///
/// Runs as root, from the confirmed slot by `bcd exec helper`. It serves the node's user and nobody else: it installs
/// releases that enough pinned keys signed, at or above this machine's floor, and confirms the one on trial when the
/// node says that it was welcomed. Takes its socket from the service manager where there is one. When another binary
/// than its own is confirmed, it becomes that one, or ends where the service manager will start it.
#[derive(Debug, Args)]
pub(super) struct ServeNode {
    /// Where to listen, instead of the configuration's helper_socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl ServeNode {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        let user = config.node.user.as_deref().unwrap_or(DEFAULT_USER);
        let configured = config.node.helper_socket.clone();
        let helper = Helper {
            account: Account::named(user)?,
            host: Host::new(paths, &config),
            config: global.config.clone(),
            socket: self
                .socket
                .or(configured)
                .unwrap_or_else(|| DEFAULT_SOCKET.into()),
            version: build.version,
        };
        let runtime = runtime()?;
        let ended = runtime.block_on(helper::run(helper, |host| {
            with_causes(&renew(host, &config))
        }));
        // A copy that goes on is not waited for.
        runtime.shutdown_background();
        Ok(ended?)
    }
}

/// Becomes the confirmed binary, with the words that this process was started with. Comes back where it cannot.
fn renew(host: &Host, config: &Config) -> ExecError {
    match exec::confirmed_binary(host, config) {
        Ok(path) => {
            let words = std::env::args_os().skip(1);
            let source = Command::new(&path).args(words).exec();
            ExecError::NotExecutable { path, source }
        }
        Err(error) => error,
    }
}
