//! Accepts connections, and lets one user in.
//!
//! Takes the socket; runs until it is told to end, or until it is not the confirmed binary any more. Whoever is not the node's user is told so and nothing else, before a
//! byte of his is read. What is under way has bounds in number and in time.

use std::sync::Arc;

use bc_protocol::digest::Sha256;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::frame;
use super::limits::{
    ACCEPT_AGAIN_AFTER, CONNECTIONS_MAX, REPLY_PATIENCE, REQUEST_BYTES_MAX, REQUEST_PATIENCE,
    STOP_PATIENCE,
};
use super::service::Service;
use super::socket::{self, Holder};
use super::wire::{Answer, Reply};
use super::{Helper, HelperError};
use crate::footprint;
use crate::updater::host::Host;
use crate::updater::running;

pub(super) async fn run(
    helper: Helper,
    renew: impl Fn(&Host) -> String,
) -> Result<(), HelperError> {
    let image = running::image_digest().map_err(HelperError::Image)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(HelperError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(HelperError::Signals)?;
    let socket = socket::listen(&helper.socket, &helper.account)?;
    tracing::info!(
        version = helper.version, user = %helper.account.uid, holder = ?socket.holder,
        "the helper listens"
    );
    let host = helper.host.clone();
    let service = Arc::new(Service::new(helper));
    let mut under_way = JoinSet::new();
    loop {
        if under_way.is_empty() {
            footprint::give_back_code();
        }
        tokio::select! {
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => greet(stream, &service, &mut under_way),
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(ACCEPT_AGAIN_AFTER).await;
                }
            },
            Some(_) = under_way.join_next() => {}
            () = stop(&mut terminate, &mut interrupt) => break,
            () = service.confirmed.notified() => if is_replaced(&host, image) {
                match socket.holder {
                    Holder::Manager => break,
                    Holder::Nobody => {
                        finish(&mut under_way).await;
                        // An old helper is better than none: it still listens.
                        let error = renew(&host);
                        tracing::error!(%error, "the confirmed binary cannot be the helper");
                    }
                }
            },
        }
    }
    drop(socket);
    finish(&mut under_way).await;
    Ok(())
}

/// What has begun ends: whoever asked gets his answer. A copy of half a GiB is not waited for.
async fn finish(under_way: &mut JoinSet<()>) {
    let finished = async { while under_way.join_next().await.is_some() {} };
    if timeout(STOP_PATIENCE, finished).await.is_err() {
        tracing::warn!("a request is broken off");
    }
}

/// Whether the confirmed binary is another one than that of this process.
fn is_replaced(host: &Host, image: Sha256) -> bool {
    let confirmed = host.status().map(|record| record.confirmed().digest);
    confirmed.is_ok_and(|confirmed| confirmed != image)
}

async fn stop(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Lets the peer in, or says why not.
fn greet(stream: UnixStream, service: &Arc<Service>, under_way: &mut JoinSet<()>) {
    match stream.peer_cred() {
        Ok(peer) if service.serves(peer.uid()) => {}
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), pid = ?peer.pid(), "another user is denied");
            return turn_away(&stream, service, Answer::Denied {});
        }
        Err(error) => {
            tracing::warn!(%error, "a peer that cannot be named is denied");
            return turn_away(&stream, service, Answer::Denied {});
        }
    }
    if under_way.len() >= CONNECTIONS_MAX {
        return turn_away(&stream, service, Answer::Busy {});
    }
    let service = Arc::clone(service);
    under_way.spawn(async move { serve(&stream, &service).await });
}

pub(super) async fn serve(stream: &UnixStream, service: &Service) {
    let answer = match timeout(REQUEST_PATIENCE, frame::read(stream, REQUEST_BYTES_MAX)).await {
        Ok(Ok(frame)) => service.answer(frame).await,
        Ok(Err(error)) => Answer::Malformed {
            problem: error.to_string(),
        },
        Err(_) => Answer::Malformed {
            problem: "expected a request, found none in time".to_owned(),
        },
    };
    let Some(reply) = reply(service, answer) else {
        return;
    };
    match timeout(REPLY_PATIENCE, frame::write(stream, &reply, None)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "nobody waits for the answer"),
        Err(_) => tracing::debug!("nobody reads the answer"),
    }
}

/// Says one word to somebody who will not be waited for.
fn turn_away(stream: &UnixStream, service: &Service, answer: Answer) {
    if let Some(reply) = reply(service, answer)
        && let Err(error) = frame::write_now(stream, &reply)
    {
        tracing::debug!(%error, "nobody waits for the answer");
    }
}

fn reply(service: &Service, answer: Answer) -> Option<Vec<u8>> {
    tracing::debug!(?answer, "answering");
    match Reply::new(service.version(), answer).encode() {
        Ok(reply) => Some(reply),
        Err(error) => {
            tracing::error!(%error, "the answer cannot be written");
            None
        }
    }
}
