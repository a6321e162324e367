//! `bcd preflight`

use std::io::Write as _;

use clap::Args;

use super::{CommandError, Global};
use crate::Build;

/// Check that this binary can read the node's configuration, identity and state, and print its version
///
/// An agent that is about to hand over runs this of the binary that is to follow it. It opens no connection and changes
/// nothing.
#[derive(Debug, Args)]
pub(super) struct Preflight {}

impl Preflight {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let Self {} = self;
        global.load()?;
        writeln!(std::io::stdout(), "{}", build.version).map_err(CommandError::Output)
    }
}
