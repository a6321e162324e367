//! `bcd boot`

use clap::Args;

use super::{CommandError, Global, prepared};
use crate::updater::executor;
use crate::updater::host::Host;
use crate::updater::watchdog::Evidence;

/// Decide which binary the next start is to run, and make that the record
///
/// Runs before every start of the node, from the package's own binary. It goes back where a trial is over, counts the
/// start of one that goes on, and puts the package's binary into a slot on a new machine.
#[derive(Debug, Args)]
pub(super) struct Boot {}

impl Boot {
    pub(super) fn run(self, global: &Global) -> Result<(), CommandError> {
        let Self {} = self;
        let (config, paths) = global.load()?;
        prepared(&config, &paths)?;
        let host = Host::new(paths, &config);
        executor::boot(&host, &config.package_binary, Evidence::none())?;
        Ok(())
    }
}
