//! What changes while the gateway runs.
//!
//! Takes the configuration and the certificate as they lie there now; gives them to whatever begins from now on. No
//! session and no link is touched. What cannot be used changes nothing, and what takes a restart is said.

use std::path::Path;

use thiserror::Error;
use tracing::{info, warn};

use crate::{
    config::{Config, ConfigError},
    credentials::{Credentials, CredentialsError},
    files,
    gateway::Gateway,
};

/// Why what was read is not used.
#[derive(Debug, Error)]
pub(crate) enum ReloadError {
    /// The configuration does not hold.
    #[error("cannot use the configuration")]
    Config(#[from] ConfigError),
    /// The certificate does not serve.
    #[error("cannot use the certificate")]
    Credentials(#[from] CredentialsError),
}

/// Reads both, and uses both or none. Gives the configuration that counts from now on.
pub(crate) fn reload(
    path: &Path,
    running: &Config,
    credentials: &Credentials,
    gateway: &Gateway,
) -> Result<Config, ReloadError> {
    let read = Config::load(path)?;
    credentials.reload()?;
    gateway.certified_until(credentials.ends_at());
    gateway.set_limits(files::within(read.limits));
    let restart = needs_restart(running, &read);
    if !restart.is_empty() {
        warn!(
            keys = restart.join(", "),
            "changed, and used from the next start on"
        );
    }
    info!("configuration and certificate are read anew");
    Ok(Config {
        // As they are used: so that the next reload says again what waits.
        listen: running.listen,
        metrics_listen: running.metrics_listen,
        state_dir: running.state_dir.clone(),
        protocol_min: running.protocol_min,
        ..read
    })
}

/// The keys that this process does not look at again.
fn needs_restart(running: &Config, read: &Config) -> Vec<&'static str> {
    [
        ("listen", running.listen != read.listen),
        (
            "metrics_listen",
            running.metrics_listen != read.metrics_listen,
        ),
        ("state_dir", running.state_dir != read.state_dir),
        // Control has said otherwise, or is about to.
        ("protocol_min", running.protocol_min != read.protocol_min),
        (
            "limits.heartbeat_interval",
            running.limits.heartbeat_interval != read.limits.heartbeat_interval,
        ),
    ]
    .into_iter()
    .filter_map(|(key, changed)| changed.then_some(key))
    .collect()
}
