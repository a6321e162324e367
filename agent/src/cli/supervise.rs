//! `bcd supervise`

use clap::Args;
use nix::unistd::geteuid;

use super::{CommandError, Global, prepared, runtime};
use crate::supervise::{Supervision, supervise};
use crate::updater::host::Host;

/// Keep the node running, and go back where a new binary does not prove itself: for machines without systemd
///
/// Decides before every start, runs the node as a child that dies with it, and is its watchdog. Ends on SIGTERM or
/// SIGINT, after the node has.
#[derive(Debug, Args)]
// The example is to be copied: a line of it that was broken would be none.
#[command(after_long_help = include_str!("../config/example.toml"), term_width = 0)]
pub(super) struct Supervise {}

impl Supervise {
    pub(super) fn run(self, global: &Global) -> Result<(), CommandError> {
        let Self {} = self;
        let (config, paths) = global.load()?;
        let account = prepared(&config, &paths)?;
        let supervision = Supervision {
            account: account.filter(|_| geteuid().is_root()),
            host: Host::new(paths, &config),
            package: std::env::current_exe().map_err(CommandError::Image)?,
            config_path: global.config.clone(),
            config,
            log: global.log.clone(),
        };
        let runtime = runtime()?;
        let ended = runtime.block_on(supervise(supervision));
        // What still waits for somebody else's lock is not waited for.
        runtime.shutdown_background();
        Ok(ended?)
    }
}
