//! `bcd version`

use std::io::Write as _;

use clap::Args;

use super::CommandError;
use crate::Build;

/// Print the version of this binary
#[derive(Debug, Args)]
pub(super) struct ShowVersion {}

impl ShowVersion {
    pub(super) fn run(self, build: Build) -> Result<(), CommandError> {
        let Self {} = self;
        writeln!(std::io::stdout(), "{}", build.version).map_err(CommandError::Output)
    }
}
