//! `bcd watchdog`

use clap::Args;

use super::{CommandError, Global, runtime};
use crate::updater::host::Host;
use crate::watchdog::{self, Restart, Watchdog};

/// Watch over a trial, and go back where a new binary does not prove itself: for machines with systemd
///
/// Started by the agent before a trial and by `bcd boot` during one, as a unit of its own; ends when there is none. It goes
/// back at the trial's deadline and restarts the node's unit, also from failed, but not one that an operator stopped. When
/// it is itself stopped on trial (which the node's unit sees to when somebody stops that), it goes back and starts nothing.
#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The node's unit
    #[arg(long, value_name = "UNIT", default_value = "bcd.service")]
    unit: String,
    /// What restarts the node, from whatever state it is in, where no unit does: a line of shell
    #[arg(long, value_name = "COMMAND", conflicts_with = "unit")]
    restart: Option<String>,
}

impl Watch {
    pub(super) fn run(self, global: &Global) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        let watchdog = Watchdog {
            host: Host::new(paths, &config),
            gateways: config.gateways,
            restart: match self.restart {
                Some(line) => Restart::Shell(line),
                None => Restart::Unit(self.unit),
            },
        };
        let runtime = runtime()?;
        let ended = runtime.block_on(watchdog::run(watchdog));
        // What still waits for somebody else's lock is not waited for.
        runtime.shutdown_background();
        Ok(ended?)
    }
}
