//! Pumps one WebSocket into one session's machine.
//!
//! It has the socket, the clock and the locks; every decision is the machine's. One task a session, and whatever ends
//! it, the node's place is free again.

use std::{collections::VecDeque, sync::Arc};

use bc_protocol::{
    id::{NodeId, SessionId},
    limits::SESSION_FRAME_BYTES_MAX,
    link::SessionClosed,
    session::{FrameError, FromGateway, FromNode, Goodbye},
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        error::CapacityError,
        protocol::{Role, WebSocketConfig},
    },
};
use tracing::{debug, info};

use crate::{
    clock,
    door::Place,
    gateway::Gateway,
    limits::{CLOSE_TIMEOUT, READ_BUFFER_BYTES},
    mailbox::Mailbox,
    rate::Bucket,
    session::{
        Ending,
        machine::{Birth, Claim, Input, Machine, Order, Output},
    },
    upgrade::Upgraded,
};

/// One session's task.
pub(crate) struct Socket<S> {
    socket: WebSocketStream<S>,
    machine: Machine,
    mailbox: Arc<Mailbox>,
    gateway: Arc<Gateway>,
    node: NodeId,
    session: SessionId,
    place: Place,
    held: Option<Held>,
}

/// The node's one session, given back when this is dropped.
struct Held {
    gateway: Arc<Gateway>,
    closed: SessionClosed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A session of `node` whose Hello has yet to come.
    pub(crate) async fn new(
        upgraded: Upgraded<S>,
        node: NodeId,
        place: Place,
        gateway: Arc<Gateway>,
    ) -> Self {
        let (at, unix_ms) = (clock::now(), clock::unix_ms());
        let session = SessionId::random(unix_ms, rand::random());
        let limits = gateway.limits();
        let birth = Birth {
            node: node.clone(),
            session: session.clone(),
            at,
            unix_ms,
            hello_timeout: limits.hello_timeout,
            messages: Bucket::full(limits.messages_per_second, limits.messages_burst, at),
        };
        let machine = Machine::new(birth, *gateway.terms.borrow());
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(2 * SESSION_FRAME_BYTES_MAX)
            .max_message_size(Some(SESSION_FRAME_BYTES_MAX))
            .max_frame_size(Some(SESSION_FRAME_BYTES_MAX));
        let Upgraded { stream, early } = upgraded;
        let socket =
            WebSocketStream::from_partially_read(stream, early, Role::Server, Some(config)).await;
        Self {
            socket,
            machine,
            mailbox: Arc::default(),
            gateway,
            node,
            session,
            place,
            held: None,
        }
    }

    /// Runs to the session's end. What is done now and then has a box of its own: room for it in the task would be
    /// paid for by every idle session.
    pub(crate) async fn run(mut self: Box<Self>) {
        let ending = loop {
            let input = self.next_input().await;
            if let Some(ending) = Box::pin(self.perform(input)).await {
                break ending;
            }
        };
        info!(node = %self.node, session = %self.session, reason = %ending, "session ended");
        self.gateway.metrics.session_ended(&ending);
        if let Some(mut held) = self.held.take() {
            held.closed.reason = ending.to_string();
        }
        // Only a courtesy: whether the node hears it changes nothing.
        let said = timeout(CLOSE_TIMEOUT, Box::pin(self.part(ending.goodbye()))).await;
        debug!(session = %self.session, ?said, "said goodbye");
    }

    async fn next_input(&mut self) -> Input {
        let wakeup = self.machine.next_wakeup();
        let tick = async {
            match wakeup {
                Some((at, _)) => sleep_until(Instant::from_std(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = self.socket.next() => received(message),
            order = self.mailbox.next() => Input::Order(order),
            () = tick => Input::Tick,
        }
    }

    /// Does what follows from an input, to its end. Gives the session's end if that follows.
    async fn perform(&mut self, input: Input) -> Option<Ending> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for output in self.machine.step(input, clock::now()) {
                match output {
                    Output::Claim { connect_seq } => {
                        inputs.push_back(Input::Claim(self.claim(connect_seq)));
                        // Those that it was born with may be older than the registry's last word to all.
                        let terms = *self.gateway.terms.borrow();
                        inputs.push_back(Input::Order(Order::Terms(terms)));
                    }
                    Output::Send(message) => inputs.extend(self.say(*message).await.err()),
                    Output::Ping => {
                        inputs.extend(self.send(Message::Ping(Bytes::new())).await.err());
                    }
                    Output::Opened(opened) => {
                        self.place.welcomed();
                        let (node, session) = (&self.node, &self.session);
                        info!(%node, %session, connect_seq = opened.connect_seq,
                            version = %opened.facts.version, upgrade_only = opened.upgrade_only,
                            "session opened");
                        self.gateway.metrics.sessions_opened.inc();
                        self.gateway.upward.opened(*opened);
                    }
                    Output::Report(report) => self.gateway.upward.reported(*report),
                    Output::Ended(ended) => {
                        let (command, succeeded) = (&ended.result.id, ended.result.succeeded);
                        info!(node = %self.node, session = %self.session, %command, succeeded,
                            "a command ended");
                        self.gateway.upward.ended(*ended);
                    }
                    Output::Turned(tier) => {
                        let (node, session) = (&self.node, &self.session);
                        info!(%node, %session, ?tier, "the session is good for something else now");
                        self.gateway.upward.turned(node, session, tier);
                    }
                    Output::NotSent { id, why } => {
                        let command = id.map(tracing::field::display);
                        info!(node = %self.node, session = %self.session, command, why,
                            "a command is not sent");
                    }
                    Output::CertificateWanted(request) => {
                        let node = self.node.clone();
                        self.gateway.upward.certificate_wanted(node, request);
                    }
                    Output::End(ending) => return Some(ending),
                }
            }
        }
        None
    }

    fn claim(&mut self, connect_seq: u64) -> Claim {
        let registry = &self.gateway.registry;
        let claim = registry.claim(&self.node, &self.session, connect_seq, &self.mailbox);
        if claim == Claim::Granted {
            self.held = Some(Held {
                gateway: Arc::clone(&self.gateway),
                closed: SessionClosed {
                    node: self.node.clone(),
                    session: self.session.clone(),
                    connect_seq,
                    reason: "the session's task failed".to_owned(),
                },
            });
        }
        claim
    }

    async fn say(&mut self, message: FromGateway) -> Result<(), Input> {
        self.send(Message::Binary(message.encode())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Input> {
        let waited = self.gateway.limits().write_timeout;
        match timeout(waited, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Input::Broken(failed(&error))),
            Err(_) => Err(Input::Broken(Ending::WriteStalled { waited })),
        }
    }

    async fn part(&mut self, goodbye: Option<Goodbye>) -> Result<(), tungstenite::Error> {
        if let Some(goodbye) = goodbye {
            let message = FromGateway::Goodbye(goodbye).encode();
            self.socket.send(Message::Binary(message)).await?;
        }
        self.socket.close(None).await?;
        // Read to the peer's own end, so that what is on its way does not turn the close into a reset, which would
        // take the Goodbye with it.
        while let Some(message) = self.socket.next().await {
            drop(message?);
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let SessionClosed { node, session, .. } = &self.closed;
        self.gateway.registry.release(node, session);
        self.gateway.upward.closed(self.closed.clone());
    }
}

fn received(message: Option<Result<Message, tungstenite::Error>>) -> Input {
    match message {
        Some(Ok(Message::Binary(bytes))) => match FromNode::decode(&bytes) {
            Ok(message) => Input::Message(Box::new(message)),
            Err(error) => Input::Broken(Ending::BadFrame(error)),
        },
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Input::Alive,
        Some(Ok(Message::Text(_))) => Input::Broken(Ending::Text),
        Some(Ok(Message::Close(_))) | None => Input::Broken(Ending::Closed),
        Some(Err(error)) => Input::Broken(failed(&error)),
    }
}

fn failed(error: &tungstenite::Error) -> Ending {
    if let tungstenite::Error::Capacity(CapacityError::MessageTooLong { size, max_size }) = error {
        return Ending::BadFrame(FrameError::TooLarge {
            found: *size,
            max: *max_size,
        });
    }
    if let tungstenite::Error::Io(error) = error
        && let Some(too_fast) = error.get_ref().and_then(|inner| inner.downcast_ref())
    {
        return Ending::TooManyBytes(*too_fast);
    }
    Ending::Failed(error.to_string())
}
