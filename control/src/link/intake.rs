//! Takes facts from one link.
//!
//! A batch, with those that have come behind it already, is one transaction of the fleet's. What follows from it, the acknowledgement, closings, pushes and the
//! controller's wake, follows after the commit. A batch that cannot be applied ends the link: the gateway sends it again
//! on the next.

use bc_protocol::{
    id::{GatewayId, NodeId},
    link::{
        Batch, CertificateIssued, CertificateWanted, CloseSession, Event, FromControl, FromGateway,
    },
    session::{FrameError, Goodbye, GoodbyeReason},
};
use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use thiserror::Error;
use tokio::{sync::mpsc, time::timeout};
use tokio_tungstenite::tungstenite::{self, Message};

use super::{
    Shared,
    limits::{GROUP_EVENTS_MAX, SILENCE_MAX},
    routes::LinkKey,
    wanted::Wanted,
};
use crate::{
    clock::Moment,
    command::settle,
    db::{Tx, contention::retried},
    fleet::authority::CertifiedKey,
    fleet::facts::{self, Applied, FactsError, Superseded},
    fleet::renew::{self, RenewError},
    metrics::{Metrics, Work},
    rollout::service::Services,
};

/// One link's intake.
pub(super) struct Intake<'a> {
    pub(super) shared: &'a Shared,
    pub(super) gateway: &'a GatewayId,
    /// The link's number in the database.
    pub(super) number: u64,
    pub(super) link: LinkKey,
    pub(super) wanted: &'a Wanted,
    /// Nodes whose commands are to be looked at.
    pub(super) to_command: &'a Wanted,
    pub(super) out: mpsc::Sender<Bytes>,
}

/// Why no more facts come.
#[derive(Debug, Error)]
pub(crate) enum IntakeError {
    #[error("it was closed")]
    Closed,
    #[error("expected a sign of life within {SILENCE_MAX:?}, found none")]
    Silent,
    #[error("the connection failed")]
    Socket(#[from] tungstenite::Error),
    #[error("cannot read a frame")]
    Frame(#[from] FrameError),
    #[error("expected {expected}")]
    OutOfTurn { expected: &'static str },
    #[error("cannot apply a batch")]
    Facts(#[from] FactsError),
    #[error("cannot commit a batch")]
    Commit(#[source] sqlx::Error),
}

impl IntakeError {
    /// Counts what control itself could not do.
    fn count(&self, metrics: &Metrics) {
        match self {
            Self::Facts(FactsError::Sql(_) | FactsError::Encoding { .. }) | Self::Commit(_) => {
                metrics.has_failed(&Work::FACTS);
            }
            // A newer link has taken over, or the gateway is silent, gone or odd.
            Self::Facts(FactsError::Replaced { .. })
            | Self::Closed
            | Self::Silent
            | Self::Socket(_)
            | Self::Frame(_)
            | Self::OutOfTurn { .. } => {}
        }
    }
}

impl Intake<'_> {
    /// Takes facts until there are no more.
    pub(super) async fn run(
        self,
        mut frames: impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin,
    ) -> IntakeError {
        // What came behind a group of batches, and is no batch.
        let mut kept = None;
        loop {
            let next = match kept.take() {
                Some(next) => Ok(next),
                None => timeout(SILENCE_MAX, next_frame(&mut frames)).await,
            };
            let taken = match next {
                Ok(Ok(Some(FromGateway::Batch(batch)))) => {
                    let batches;
                    (batches, kept) = group(batch, &mut frames);
                    self.apply(batches).await
                }
                Ok(Ok(Some(FromGateway::CertificateWanted(wanted)))) => self.renew(wanted).await,
                Ok(Ok(Some(FromGateway::OwnCertificateWanted(request)))) => {
                    self.renew_own(&request).await
                }
                Ok(Ok(Some(FromGateway::Hello(_)))) => Err(IntakeError::OutOfTurn {
                    expected: "one hello on a link",
                }),
                Ok(Ok(None)) => Ok(()),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(IntakeError::Silent),
            };
            if let Err(error) = taken {
                return error;
            }
        }
    }

    /// A group of batches, in their order: one transaction, and an acknowledgement for each.
    async fn apply(&self, batches: Vec<Batch>) -> Result<(), IntakeError> {
        let numbers: Vec<u64> = batches.iter().map(|batch| batch.number).collect();
        let events: Vec<Event> = batches.into_iter().flat_map(|batch| batch.events).collect();
        let services = &self.shared.services;
        let whose = (self.gateway, self.number);
        let taken = take(services, whose, &events).await;
        let (applied, free) = taken.inspect_err(|error| error.count(&services.metrics))?;
        if !applied.changed.is_empty() {
            let waker = &services.waker;
            waker.wake_for_nodes(applied.changed.iter().cloned());
        }
        self.to_command.news(free);
        for number in numbers {
            self.say(FromControl::Ack(number)).await?;
        }
        self.follow(&events, applied).await
    }

    async fn follow(&self, events: &[Event], applied: Applied) -> Result<(), IntakeError> {
        for event in events {
            match event {
                Event::Opened(opened) if applied.changed.contains(&opened.node) => {
                    if let Some(displaced) = self.shared.routes.opened(self.link, opened) {
                        let close = close(Superseded {
                            node: opened.node.clone(),
                            connect_seq: displaced.connect_seq,
                            winning: displaced.winning,
                        });
                        // If that link is too busy for it, its next report of the session is answered the same way.
                        drop(displaced.link.try_send(close.encode()));
                    }
                    self.wanted.listed([opened.node.clone()]);
                    self.to_command.listed([opened.node.clone()]);
                }
                Event::Closed(closed) => {
                    self.shared
                        .routes
                        .closed(self.link, &closed.node, &closed.session);
                }
                // One that was not applied is superseded, or a stranger's.
                Event::Opened(_) | Event::Report(_) | Event::Listed | Event::Ended(_) => {}
            }
        }
        self.shared.services.tell_overtaken(applied.moved);
        for superseded in applied.superseded {
            self.say(close(superseded)).await?;
        }
        for stranger in applied.strangers {
            self.say(removed(stranger)).await?;
        }
        Ok(())
    }

    /// Answers a node. Where the answer is no, or not now, the node asks again in its own time.
    async fn renew(&self, wanted: CertificateWanted) -> Result<(), IntakeError> {
        let CertificateWanted { node, request } = wanted;
        let Shared {
            services,
            authority,
            ..
        } = self.shared;
        let renewed = match CertifiedKey::from_request_der(&request) {
            Ok(key) => renew::node(&services.db, authority, &node, &key, Moment::now()).await,
            Err(error) => Err(error.into()),
        };
        match renewed {
            Ok(renewed) => {
                let company = authority.company(&renewed.gateways);
                self.shared.routes.informed(self.link, &node, company);
                let certificate = renew::certificate(renewed);
                self.say(FromControl::Certificate(CertificateIssued {
                    node,
                    certificate,
                }))
                .await
            }
            Err(RenewError::Removed) => self.say(removed(node)).await,
            Err(error) => {
                error.count(&services.metrics);
                let error: &dyn std::error::Error = &error;
                tracing::warn!(%node, error, "a node's certificate is not renewed");
                Ok(())
            }
        }
    }

    async fn renew_own(&self, request: &[u8]) -> Result<(), IntakeError> {
        let Shared {
            services,
            authority,
            ..
        } = self.shared;
        let gateway = self.gateway;
        let renewed = match CertifiedKey::from_request_der(request) {
            Ok(key) => renew::gateway(&services.db, authority, gateway, &key, Moment::now()).await,
            Err(error) => Err(error.into()),
        };
        match renewed {
            Ok(certificate) => self.say(FromControl::OwnCertificate(certificate)).await,
            Err(error) => {
                error.count(&services.metrics);
                let error: &dyn std::error::Error = &error;
                tracing::warn!(%gateway, error, "a gateway's certificate is not renewed");
                Ok(())
            }
        }
    }

    async fn say(&self, frame: FromControl) -> Result<(), IntakeError> {
        let sent = self.out.send(frame.encode()).await;
        sent.map_err(|_| IntakeError::Closed)
    }
}

/// What comes next on a link.
type Next = Result<Option<FromGateway>, IntakeError>;

/// A batch and those that have come behind it already, as many as one transaction takes; and what else was found there.
fn group(
    first: Batch,
    frames: &mut (impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin),
) -> (Vec<Batch>, Option<Next>) {
    let mut events = first.events.len();
    let mut batches = vec![first];
    while events < GROUP_EVENTS_MAX {
        match next_frame(frames).now_or_never() {
            None => return (batches, None),
            Some(Ok(Some(FromGateway::Batch(batch)))) => {
                events = events.saturating_add(batch.events.len());
                batches.push(batch);
            }
            Some(Ok(None)) => {}
            Some(other) => return (batches, Some(other)),
        }
    }
    (batches, None)
}

/// Applies facts of a gateway's link of that number, in one transaction. Gives what they did, and nodes whose lanes are free.
pub(crate) async fn take(
    services: &Services,
    whose: (&GatewayId, u64),
    events: &[Event],
) -> Result<(Applied, Vec<NodeId>), IntakeError> {
    retried(|| take_once(services, whose, events)).await
}

async fn take_once(
    services: &Services,
    (gateway, number): (&GatewayId, u64),
    events: &[Event],
) -> Result<(Applied, Vec<NodeId>), IntakeError> {
    let mut tx = services.db.begin().await.map_err(IntakeError::Commit)?;
    let newest = facts::require_newest(&mut tx, gateway, number).await?;
    let now = Moment::now();
    let applied = facts::apply_from(&mut tx, newest, events, now).await?;
    let free = settle(&mut tx, events, &applied, now).await;
    let free = free.map_err(FactsError::from)?;
    tx.commit().await.map_err(IntakeError::Commit)?;
    Ok((applied, free))
}

/// Ends the commands that a batch's answers and facts end. Gives the nodes whose lanes are free.
async fn settle(
    tx: &mut Tx,
    events: &[Event],
    applied: &Applied,
    now: Moment,
) -> Result<Vec<NodeId>, sqlx::Error> {
    let mut free = settle::facts(tx, &applied.changed, now).await?;
    // What waits for the end of a trial goes on with the report that tells of it.
    if settle::restarts_wait(tx).await? {
        free.extend(applied.changed.iter().cloned());
    }
    for event in events {
        match event {
            Event::Ended(ended) => {
                if settle::answer(tx, ended, now).await? {
                    free.push(ended.node.clone());
                }
            }
            Event::Opened(_) | Event::Closed(_) | Event::Report(_) | Event::Listed => {}
        }
    }
    Ok(free)
}

/// The next frame; none in a message that only shows that the gateway lives.
pub(super) async fn next_frame(
    messages: &mut (impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin),
) -> Result<Option<FromGateway>, IntakeError> {
    match messages.next().await {
        Some(Ok(Message::Binary(bytes))) => match FromGateway::decode(&bytes) {
            Ok(frame) => Ok(Some(frame)),
            // A newer gateway may say what this build has never heard of; it must not cost it its link.
            Err(error @ FrameError::Empty) => {
                tracing::debug!(%error, "a gateway's frame is passed over");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        },
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Ok(Message::Text(_))) => Err(IntakeError::OutOfTurn {
            expected: "binary messages",
        }),
        Some(Ok(Message::Close(_))) | None => Err(IntakeError::Closed),
        Some(Err(error)) => Err(error.into()),
    }
}

pub(super) fn close(superseded: Superseded) -> FromControl {
    let Superseded {
        node,
        connect_seq,
        winning,
    } = superseded;
    FromControl::Close(CloseSession {
        node,
        connect_seq,
        goodbye: Goodbye {
            reason: GoodbyeReason::Superseded {
                connect_seq: winning,
            },
            reconnect_after_ms: 0,
            message: format!("superseded by connection {winning}"),
        },
    })
}

fn removed(node: NodeId) -> FromControl {
    FromControl::Close(CloseSession {
        node,
        connect_seq: u64::MAX,
        goodbye: Goodbye {
            reason: GoodbyeReason::Removed,
            reconnect_after_ms: 0,
            message: "expected a node of this fleet, found none of that id".to_owned(),
        },
    })
}
