//! `bcd node`

use clap::Args;

use super::{CommandError, Global};
use crate::Build;
use crate::node::{self, Start};

/// Keep the session with a gateway, and this node up to date
///
/// Started by `bcd exec node`; it ends with status 0 when the next start is to be another binary's.
#[derive(Debug, Args)]
pub(super) struct Node {}

impl Node {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let Self {} = self;
        let (config, paths) = global.load()?;
        crate::faults::binaries::misbehave(&paths);
        node::run(Start {
            config,
            config_path: global.config.clone(),
            paths,
            build,
        })?;
        Ok(())
    }
}
