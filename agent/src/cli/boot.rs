//! `bcd boot`

use std::thread;

use clap::Args;

use super::{CommandError, Global, prepared};
use crate::config::Config;
use crate::manager::{
    self,
    rest::{self, Starting},
};
use crate::paths::Paths;
use crate::updater::executor;
use crate::updater::host::Host;
use crate::updater::watchdog::Evidence;

/// Decide which binary the next start is to run, and make that the record
///
/// Runs before every start of the node, from the package's own binary. It goes back where a trial is over, counts the
/// start of one that goes on, and puts the package's binary into a slot on a new machine. Under systemd it starts the watchdog
/// of a trial (watchdog_unit in the configuration), and goes back where nobody watches; after a start that ended early it
/// waits, longer each time, as a supervisor does.
#[derive(Debug, Args)]
pub(super) struct Boot {}

impl Boot {
    pub(super) fn run(self, global: &Global) -> Result<(), CommandError> {
        let Self {} = self;
        let loaded = global.load();
        rest(loaded.as_ref().ok());
        let (config, paths) = loaded?;
        prepared(&config, &paths)?;
        let host = Host::new(paths, &config);
        let evidence = evidence(&host);
        executor::boot(&host, &config.package_binary, evidence)?;
        Ok(())
    }
}

/// What ends again and again must not eat the machine, not even where it is the configuration's fault.
fn rest(loaded: Option<&(Config, Paths)>) {
    let Some(unit) = manager::is_there().then(manager::own_unit).flatten() else {
        return;
    };
    let starting = match loaded {
        Some((config, paths)) if is_on_trial(&Host::new(paths.clone(), config)) => Starting::Trial,
        Some(_) | None => Starting::Settled,
    };
    let wait = rest::before_start_of(&unit, starting);
    if !wait.is_zero() {
        tracing::info!(wait = %humantime::format_duration(wait), "the last start ended early: waiting before the next");
        thread::sleep(wait);
    }
}

fn is_on_trial(host: &Host) -> bool {
    host.status().is_ok_and(|record| record.trial().is_some())
}

/// What the service manager knows of the last start of a binary on trial.
fn evidence(host: &Host) -> Evidence {
    let was_started = host
        .status()
        .is_ok_and(|record| record.trial().is_some_and(|trial| trial.starts > 0));
    let death = was_started
        .then(manager::own_unit)
        .flatten()
        .and_then(|unit| manager::last_death(&unit));
    Evidence {
        death,
        ..Evidence::none()
    }
}
