//! Control's end of the links to gateways.
//!
//! Takes connections that gateways open with their certificates. Facts that come up are handed to the fleet, one batch
//! one transaction, and acknowledged after the commit; specs that nodes are to have are computed when they are pushed.
//! It decides nothing, and what it keeps in memory, who is reached over which link, is made anew from every link's
//! listing.

mod commands;
mod company;
mod connection;
mod intake;
mod limits;
mod lost;
mod overtaken;
mod pulse;
mod push;
mod remove;
mod retire;
mod routes;
mod tls;
mod turns;
mod twin;
mod wanted;

use std::{io, sync::Arc};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use tls::{LinkTlsError, server as tls_server};

use crate::{fleet::authority::Authority, rollout::service::Services};
use routes::Routes;
use turns::Turns;

/// What all links share.
#[derive(Debug)]
struct Shared {
    services: Services,
    /// Who renews certificates.
    authority: Arc<Authority>,
    routes: Routes,
    turns: Turns,
    /// Places for connections that have not proven to be gateways.
    strangers: Arc<Semaphore>,
}

/// Takes links until it is told to stop, and ends them then.
pub(crate) async fn serve(
    socket: std::net::TcpListener,
    tls: Arc<rustls::ServerConfig>,
    services: Services,
    authority: Arc<Authority>,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    let shared = Arc::new(Shared {
        services,
        authority,
        routes: Routes::default(),
        turns: Turns::new(stop.clone()),
        strangers: Arc::new(Semaphore::new(limits::STRANGERS_MAX)),
    });
    let tasks = TaskTracker::new();
    tasks.spawn(lost::watch(Arc::clone(&shared), stop.clone()));
    tasks.spawn(overtaken::close(Arc::clone(&shared), stop.clone()));
    // Before the first link, so that no word of one is missed.
    let retired = shared.services.retired.subscribe();
    tasks.spawn(retire::watch(Arc::clone(&shared), retired, stop.clone()));
    let doubted = shared.services.doubted.subscribe();
    let doubts = twin::watch(Arc::clone(&shared), doubted, tasks.clone(), stop.clone());
    tasks.spawn(doubts);
    let acceptor = TlsAcceptor::from(tls);
    stop.run_until_cancelled(accept(&listener, &acceptor, &shared, &tasks))
        .await;
    tasks.close();
    tasks.wait().await;
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    tls: &TlsAcceptor,
    shared: &Arc<Shared>,
    tasks: &TaskTracker,
) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a link cannot be accepted");
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&shared.strangers).try_acquire_owned() else {
            tracing::warn!(%from, max = limits::STRANGERS_MAX, "too many connections that are no links yet");
            continue;
        };
        let (tls, shared) = (tls.clone(), Arc::clone(shared));
        tasks.spawn(async move {
            if let Err(error) = connection::run(stream, tls, &shared, place).await {
                let error: &dyn std::error::Error = &error;
                tracing::info!(%from, error, "a link ended");
            }
        });
    }
}

/// What measurements need of the inside.
#[cfg(feature = "bench")]
pub(crate) mod bench {
    pub(crate) use super::intake::take;
}

#[cfg(test)]
mod tests;
