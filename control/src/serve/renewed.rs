//! A certificate that changes while it is shown.
//!
//! Takes the files and what is shown, and shows what the files hold whenever that has changed: looked at every minute, and
//! at once on SIGHUP. Connections that are there stay. Files that cannot be used change nothing, and are told.

use std::{error::Error, io, sync::Arc, time::Duration};

use axum_server::tls_rustls::RustlsConfig;
use bc_protocol::digest::Sha256;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::listen::shown;
use crate::{
    config::Tls,
    metrics::{Metrics, Work},
};

/// Whoever renews certificates does so weeks ahead.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Follows the files until the service stops. Where there is no certificate, SIGHUP is told and does nothing. The signal
/// is caught before this returns.
pub(super) fn follow(
    live: Option<(Tls, RustlsConfig)>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> io::Result<impl Future<Output = io::Result<()>> + Send + use<>> {
    let hangup = signal(SignalKind::hangup())?;
    Ok(until_stopped(live, (hangup, metrics), stop))
}

async fn until_stopped(
    live: Option<(Tls, RustlsConfig)>,
    (mut hangup, metrics): (Signal, Arc<Metrics>),
    stop: CancellationToken,
) -> io::Result<()> {
    let mut last = live.as_ref().and_then(|(files, _)| content(files));
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = hangup.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let Some((files, live)) = &live else {
            if asked {
                tracing::info!(
                    "told to reload by SIGHUP, and there is no certificate: the rest needs a restart"
                );
            }
            continue;
        };
        let found = content(files);
        if found == last && !asked {
            continue;
        }
        last = found;
        match shown(files) {
            Ok(config) => {
                live.reload_from_config(config);
                tracing::info!(certificate = %files.certificate.display(), "shown from now on");
            }
            Err(error) => {
                let error: &dyn Error = &error;
                tracing::error!(error, "the certificate that was read before is still shown");
                metrics.has_failed(&Work::CERTIFICATE);
            }
        }
    }
}

/// What both files hold; nothing where one cannot be read.
fn content(files: &Tls) -> Option<(Sha256, Sha256)> {
    let digest = |path| std::fs::read(path).ok().map(|bytes| Sha256::of(&bytes));
    digest(&files.certificate).zip(digest(&files.key))
}
