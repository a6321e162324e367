//! One connection of a gateway, from its handshake to its end.

use std::io;

use bc_protocol::{
    certificate::{HolderError, holder},
    id::GatewayId,
    limits::LINK_FRAME_BYTES_MAX,
    link::{FromControl, FromGateway, LinkHello, LinkWelcome, Settings},
};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, StreamExt as _};
use thiserror::Error;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, mpsc},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async_with_config,
    tungstenite::{
        self, Message,
        handshake::server::{ErrorResponse, Request, Response},
        http::StatusCode,
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    Shared,
    commands::Commander,
    company::Informer,
    intake::{Intake, IntakeError, next_frame},
    limits::{HANDSHAKE_TIMEOUT, HEARTBEAT, QUEUE_FRAMES_MAX, SESSION_HEARTBEAT_MS, WRITE_TIMEOUT},
    pulse,
    push::{Closed, Pusher},
    remove::Remover,
    turns::{self, Process, Turn},
    twin,
    wanted::Wanted,
};
use crate::{
    clock::Moment,
    fleet::{facts, node, process},
};

/// The one path.
const LINK: &str = "/link";

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// Why a link ended, or never was.
#[derive(Debug, Error)]
pub(super) enum LinkError {
    #[error("expected tls, a request and a hello within {HANDSHAKE_TIMEOUT:?}")]
    Overdue,
    #[error("no tls")]
    Tls(#[source] io::Error),
    #[error("expected a client certificate, found none")]
    NoCertificate,
    #[error("no gateway")]
    Holder(#[from] HolderError),
    #[error("no websocket")]
    Socket(#[from] tungstenite::Error),
    #[error("expected a hello first")]
    NoHello,
    #[error("{gateway}: expected a gateway that has enrolled here, found one that is not known")]
    Unknown { gateway: GatewayId },
    #[error("{gateway}: {}", turns::Occupied)]
    Twin { gateway: GatewayId },
    #[error("{gateway}: the database failed")]
    Sql {
        gateway: GatewayId,
        #[source]
        source: sqlx::Error,
    },
    #[error("{gateway}: no more facts")]
    Intake {
        gateway: GatewayId,
        #[source]
        source: IntakeError,
    },
    #[error("no hello")]
    Hello(#[source] IntakeError),
    #[error("{gateway}: expected a frame to leave within {WRITE_TIMEOUT:?}, it did not")]
    Stalled { gateway: GatewayId },
}

/// What a gateway hears that was removed, or never enrolled here. It has to fit into a closing frame.
const UNKNOWN: &str = "this gateway was removed, or has not enrolled here: stop it, or empty its state_dir and enrol it anew";

/// Runs a connection to its end.
pub(super) async fn run(
    stream: TcpStream,
    tls: TlsAcceptor,
    shared: &Shared,
    stranger: OwnedSemaphorePermit,
) -> Result<(), LinkError> {
    let greeting = timeout(HANDSHAKE_TIMEOUT, Box::pin(greet(stream, tls)));
    let (socket, gateway, hello) = greeting.await.map_err(|_| LinkError::Overdue)??;
    drop(stranger);
    let sql = |source| LinkError::Sql {
        gateway: gateway.clone(),
        source,
    };
    let Some(turn) = turn(shared, &gateway, &hello).await.map_err(sql)? else {
        refuse(socket, twin::REASON).await;
        twin::tell(shared, &gateway, &hello).await.map_err(sql)?;
        return Err(LinkError::Twin { gateway });
    };
    let Some(number) = begin(shared, &gateway, &hello.process).await.map_err(sql)? else {
        refuse(socket, UNKNOWN).await;
        return Err(LinkError::Unknown { gateway });
    };
    // Since when nodes can be seen has changed.
    shared.services.waker.wake();
    let LinkHello { version, .. } = hello;
    tracing::info!(%gateway, version, link = number, "linked");
    let ended = hold(socket, (&gateway, number), &turn, shared).await;
    end(shared, &gateway, number).await.map_err(sql)?;
    shared.services.waker.wake();
    ended
}

async fn greet(
    stream: TcpStream,
    tls: TlsAcceptor,
) -> Result<(Socket, GatewayId, LinkHello), LinkError> {
    stream.set_nodelay(true).map_err(LinkError::Tls)?;
    let stream = tls.accept(stream).await.map_err(LinkError::Tls)?;
    let chain = stream.get_ref().1.peer_certificates();
    let leaf = chain.and_then(<[_]>::first);
    let gateway = holder(leaf.ok_or(LinkError::NoCertificate)?)?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(LINK_FRAME_BYTES_MAX))
        .max_frame_size(Some(LINK_FRAME_BYTES_MAX))
        .write_buffer_size(0)
        .max_write_buffer_size(2 * LINK_FRAME_BYTES_MAX);
    let mut socket = accept_hdr_async_with_config(stream, only_links, Some(config)).await?;
    loop {
        match next_frame(&mut socket).await.map_err(LinkError::Hello)? {
            Some(FromGateway::Hello(hello)) => return Ok((socket, gateway, hello)),
            Some(
                FromGateway::Batch(_)
                | FromGateway::CertificateWanted(_)
                | FromGateway::OwnCertificateWanted(_),
            ) => return Err(LinkError::NoHello),
            None => {}
        }
    }
}

#[expect(
    clippy::result_large_err,
    reason = "the library's callback has this form"
)]
fn only_links(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    if request.uri().path() == LINK {
        return Ok(response);
    }
    let mut refusal = ErrorResponse::new(Some(format!("expected {LINK}\n")));
    *refusal.status_mut() = StatusCode::NOT_FOUND;
    Err(refusal)
}

/// The right to act for the gateway; none where another process of it has that and answers.
async fn turn(
    shared: &Shared,
    gateway: &GatewayId,
    hello: &LinkHello,
) -> Result<Option<Turn>, sqlx::Error> {
    let process = hello.process;
    let Ok(turn) = shared.turns.take(gateway, process).await else {
        return Ok(None);
    };
    let free = twin::is_free_elsewhere(shared, gateway, &process).await?;
    Ok(free.then_some(turn))
}

/// Says why, as far as the other end reads it.
async fn refuse(mut socket: Socket, reason: &'static str) {
    let close = CloseFrame {
        code: CloseCode::Policy,
        reason: reason.into(),
    };
    let said = timeout(WRITE_TIMEOUT, socket.close(Some(close))).await;
    tracing::debug!(?said, "a link is refused");
}

async fn begin(
    shared: &Shared,
    gateway: &GatewayId,
    process: &Process,
) -> Result<Option<u64>, sqlx::Error> {
    let mut tx = shared.services.db.begin().await?;
    let number = facts::link_opened(&mut tx, gateway, Moment::now()).await?;
    process::takes(&mut tx, (shared.services.db.process(), process), gateway).await?;
    tx.commit().await?;
    Ok(number)
}

async fn end(shared: &Shared, gateway: &GatewayId, number: u64) -> Result<(), sqlx::Error> {
    let mut tx = shared.services.db.begin().await?;
    facts::link_closed(&mut tx, gateway, number, Moment::now()).await?;
    tx.commit().await
}

async fn welcome(shared: &Shared, gateway: &GatewayId) -> Result<LinkWelcome, LinkError> {
    let removed = node::removed(&shared.services.db).await;
    let removed = removed.map_err(|source| LinkError::Sql {
        gateway: gateway.clone(),
        source,
    })?;
    Ok(LinkWelcome {
        settings: Settings {
            protocol_min: shared.services.protocol_min,
            heartbeat_interval_ms: SESSION_HEARTBEAT_MS,
        },
        removed,
    })
}

/// Does everything that a link is for, until it ends.
async fn hold(
    socket: Socket,
    (gateway, number): (&GatewayId, u64),
    turn: &Turn,
    shared: &Shared,
) -> Result<(), LinkError> {
    // Before the first node is named, so that no news of one is missed.
    let stale = shared.services.stale.subscribe();
    let news = shared.services.removed.subscribe();
    let commanded = shared.services.commanded.subscribe();
    let turned = shared.services.stale.subscribe();
    let (out, queue) = mpsc::channel(QUEUE_FRAMES_MAX);
    let welcome = welcome(shared, gateway).await?;
    // The first in an empty queue.
    drop(out.try_send(FromControl::Welcome(welcome).encode()));
    let link = shared.routes.begin(out.clone());
    let wanted = Wanted::default();
    let to_command = Wanted::default();
    let (sink, frames) = socket.split();
    let frames = frames.inspect(|message| {
        if let Ok(Message::Pong(payload)) = message {
            turn.pulse.answered(payload);
        }
    });
    let intake = Intake {
        shared,
        gateway,
        number,
        link,
        wanted: &wanted,
        to_command: &to_command,
        out: out.clone(),
    };
    let commander = Commander {
        shared,
        link,
        wanted: &to_command,
        commanded,
        stale: turned,
        out: out.clone(),
    };
    let pusher = Pusher {
        shared,
        link,
        wanted: &wanted,
        stale,
        out: out.clone(),
    };
    let informer = Informer {
        shared,
        link,
        out: out.clone(),
    };
    let remover = Remover {
        shared,
        gateway,
        news,
        out,
    };
    let ended = tokio::select! {
        source = intake.run(frames) => Err(LinkError::Intake { gateway: gateway.clone(), source }),
        ended = write(sink, queue, (gateway, turn)) => ended,
        Closed = pusher.run() => Ok(()),
        Closed = commander.run() => Ok(()),
        Closed = informer.run() => Ok(()),
        ended = remover.run() => ended,
        () = turn.end.cancelled() => Ok(()),
    };
    shared.routes.end(link);
    ended
}

/// Sends what waits, and a sign of life now and then: while a batch is being applied nothing is read, and nothing that
/// the gateway asks is answered.
async fn write(
    mut sink: impl Sink<Message, Error = tungstenite::Error> + Unpin,
    mut queue: mpsc::Receiver<Bytes>,
    (gateway, turn): (&GatewayId, &Turn),
) -> Result<(), LinkError> {
    let mut questions = turn.pulse.questions();
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            frame = queue.recv() => match frame {
                Some(frame) => Message::Binary(frame),
                None => return Ok(()),
            },
            Ok(()) = questions.changed() => {
                let question = *questions.borrow_and_update();
                Message::Ping(Bytes::copy_from_slice(&pulse::payload(question)))
            }
            _ = heartbeat.tick() => Message::Ping(Bytes::new()),
        };
        let sent = timeout(WRITE_TIMEOUT, sink.send(message)).await;
        sent.map_err(|_| LinkError::Stalled {
            gateway: gateway.clone(),
        })??;
    }
}
