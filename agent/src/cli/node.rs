//! `bcd node`

use std::net::SocketAddr;

use clap::Args;

use super::{CommandError, Global};
use crate::Build;
use crate::node::{self, End, Start, handover, metrics};

/// Keep the session with a gateway, and this node up to date
///
/// Started by `bcd exec node`. Where the next start is to be another binary's, it ends with status 0, or, as root and as the
/// main process of a unit, becomes that binary.
#[derive(Debug, Args)]
pub(super) struct Node {
    /// Show metrics for Prometheus there, on loopback alone.
    // No key of bcd.toml: an older binary, to which the node may go back, would not know it.
    #[arg(long, env = "BCD_METRICS_LISTEN", value_name = "ADDR", value_parser = metrics::loopback)]
    metrics_listen: Option<SocketAddr>,
}

impl Node {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        crate::faults::binaries::misbehave(&paths);
        let (package, root) = (config.package_binary.clone(), paths.root().to_owned());
        let ended = node::run(Start {
            config,
            config_path: global.config.clone(),
            paths,
            build,
            metrics: self.metrics_listen,
        })?;
        match ended {
            End::Updated if handover::is_possible() => {
                let error = handover::hand_over(&package, &global.config, &root, &global.log);
                tracing::warn!(%error, "the next binary has to be started by the manager");
            }
            End::Updated | End::Stopped => {}
        }
        Ok(())
    }
}
