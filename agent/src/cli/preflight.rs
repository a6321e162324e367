//! `bcd preflight`

use std::io::Write as _;

use clap::Args;
use thiserror::Error;

use super::{CommandError, Global};
use crate::Build;
use crate::durable;
use crate::identity::{Identity, IdentityError};
use crate::node::limits::STATE_FILE_BYTES_MAX;
use crate::paths::Paths;
use crate::updater::record::{Found, Store, StoreError};

/// Check that this binary can read the node's configuration, identity and state, and print its version
///
/// An agent that is about to hand over runs this of the binary that is to follow it. It opens no connection and changes
/// nothing.
#[derive(Debug, Args)]
pub(super) struct Preflight {}

/// What this binary could not work with.
#[derive(Debug, Error)]
pub(super) enum PreflightError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Record(#[from] StoreError),
    #[error("expected to read the node's last spec, found that it cannot be")]
    Spec(#[source] std::io::Error),
}

impl Preflight {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let Self {} = self;
        let (_, paths) = global.load()?;
        look(&paths)?;
        writeln!(std::io::stdout(), "{}", build.version).map_err(CommandError::Output)
    }
}

fn look(paths: &Paths) -> Result<(), PreflightError> {
    Identity::load(&paths.identity())?;
    match Store::new(paths.clone()).read() {
        Found::Record(_) => {}
        Found::Nothing | Found::Unreadable => return Err(StoreError::NoRecord.into()),
    }
    // What it says is no matter: a node starts from any bytes there, and the gateway sends the spec anew.
    durable::read_unlinked(&paths.node_spec(), STATE_FILE_BYTES_MAX)
        .map_err(PreflightError::Spec)?;
    Ok(())
}
