//! Pumps one WebSocket into one session's machine.
//!
//! It has the socket, the clock and the locks; every decision is the machine's. One task a session, and whatever ends
//! it, the node's place is free again.

mod frames;
mod line;

use std::{collections::VecDeque, io, sync::Arc};

use bc_protocol::{
    id::{NodeId, SessionId},
    limits::SESSION_FRAME_BYTES_MAX,
    link::SessionClosed,
    session::{FrameError, FromGateway, FromNode, Goodbye},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info};

use frames::{Fault, Heard, Saying};
use line::{Line, Unheard};

use crate::{
    clock,
    door::Place,
    gateway::Gateway,
    limits::CLOSE_TIMEOUT,
    link::outbox::Overtaken,
    mailbox::Mailbox,
    rate::Bucket,
    session::{
        Ending,
        machine::{Birth, Claim, Input, Machine, Order, Output},
        peer::Peer,
    },
    upgrade::Upgraded,
};

/// One session's task.
pub(crate) struct Socket<S> {
    line: Line<S>,
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
    /// A session with `peer` whose Hello has yet to come.
    pub(crate) fn new(
        upgraded: Upgraded<S>,
        peer: Peer,
        place: Place,
        gateway: Arc<Gateway>,
    ) -> Self {
        let Peer { node, company } = peer;
        let (at, unix_ms) = (clock::now(), clock::unix_ms());
        let session = SessionId::random(unix_ms, rand::random());
        let limits = gateway.limits();
        let birth = Birth {
            node: node.clone(),
            company,
            session: session.clone(),
            at,
            unix_ms,
            hello_timeout: limits.hello_timeout,
            messages: Bucket::full(limits.messages_per_second, limits.messages_burst, at),
        };
        let machine = Machine::new(birth, *gateway.terms.borrow());
        let mailbox = Arc::default();
        gateway.registry.comes(&session, &mailbox);
        Self {
            line: Line::new(upgraded, SESSION_FRAME_BYTES_MAX),
            machine,
            mailbox,
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
            let input = match self.next().await {
                Next::Input(input) => input,
                // Answered before anything else is read: a peer that asks and does not read gets no second answer.
                Next::Ping(payload) => {
                    let answer = Box::pin(self.send(Saying::Pong, &payload)).await;
                    answer.err().unwrap_or(Input::Alive)
                }
            };
            if let Some(ending) = Box::pin(self.perform(input)).await {
                break ending;
            }
        };
        info!(node = %self.node, session = %self.session, reason = %ending, "session ended");
        self.gateway.metrics.session_ended(&ending);
        match self.held.take() {
            Some(mut held) => held.closed.reason = ending.to_string(),
            None => self.gateway.registry.left(&self.session),
        }
        // Only a courtesy: whether the node hears it changes nothing.
        let said = timeout(CLOSE_TIMEOUT, Box::pin(self.part(ending.goodbye()))).await;
        debug!(session = %self.session, ?said, "said goodbye");
    }

    async fn next(&mut self) -> Next {
        let wakeup = self.machine.next_wakeup();
        let tick = async {
            match wakeup {
                Some((at, _)) => sleep_until(Instant::from_std(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            heard = self.line.next() => received(heard),
            order = self.mailbox.next() => Next::Input(Input::Order(order)),
            () = tick => Next::Input(Input::Tick),
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
                        inputs.extend(self.send(Saying::Ping, &[]).await.err());
                    }
                    Output::Opened(opened) => {
                        self.place.welcomed();
                        let (node, session) = (&self.node, &self.session);
                        info!(%node, %session, connect_seq = opened.connect_seq,
                            version = %opened.facts.version, upgrade_only = opened.upgrade_only,
                            "session opened");
                        self.gateway.metrics.sessions_opened.inc();
                        if let Err(Overtaken { winning }) = self.gateway.upward.opened(*opened) {
                            inputs.push_back(Input::Order(Order::End(Ending::Superseded {
                                winning,
                            })));
                        }
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
        self.send(Saying::Message, &message.encode()).await
    }

    async fn send(&mut self, saying: Saying, payload: &[u8]) -> Result<(), Input> {
        let waited = self.gateway.limits().write_timeout;
        match timeout(waited, self.line.send(saying, payload)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Input::Broken(broken(&error))),
            Err(_) => Err(Input::Broken(Ending::WriteStalled { waited })),
        }
    }

    async fn part(&mut self, goodbye: Option<Goodbye>) -> io::Result<()> {
        if let Some(goodbye) = goodbye {
            let message = FromGateway::Goodbye(goodbye).encode();
            self.line.send(Saying::Message, &message).await?;
        }
        self.line.close().await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let SessionClosed { node, session, .. } = &self.closed;
        self.gateway.registry.release(node, session);
        self.gateway.upward.closed(self.closed.clone());
    }
}

/// What a session waits for.
enum Next {
    Input(Input),
    /// The peer asks whether anybody is there.
    Ping(Vec<u8>),
}

fn received(heard: Result<Heard, Unheard>) -> Next {
    Next::Input(match heard {
        Ok(Heard::Message(bytes)) => match FromNode::decode(&bytes) {
            Ok(message) => Input::Message(Box::new(message)),
            Err(error) => Input::Broken(Ending::BadFrame(error)),
        },
        Ok(Heard::Ping(payload)) => return Next::Ping(payload),
        Ok(Heard::Pong) => Input::Alive,
        Ok(Heard::Close) | Err(Unheard::End) => Input::Broken(Ending::Closed),
        Err(Unheard::Broken(error)) => Input::Broken(broken(&error)),
        Err(Unheard::Fault(fault)) => Input::Broken(faulty(fault)),
    })
}

fn faulty(fault: Fault) -> Ending {
    match fault {
        Fault::TooLong { found, max } => Ending::BadFrame(FrameError::TooLarge { found, max }),
        Fault::Text => Ending::Text,
        Fault::Frame { .. } => Ending::Failed(fault.to_string()),
    }
}

fn broken(error: &io::Error) -> Ending {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(too_fast) => Ending::TooManyBytes(*too_fast),
        None => Ending::Failed(error.to_string()),
    }
}
