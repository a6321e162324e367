//! The node's line to its fleet: one session machine and the socket that it asks for.
//!
//! Takes the node's facts and the wish to leave; gives news of the session. It carries out what the machine decides,
//! one output after the other, and has no opinion of its own.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use bc_protocol::{
    command::{Command, CommandResult, Unreadable},
    id::CommandId,
    session::{Facts, FromNode, ProtocolRange},
    spec::{NodeSpec, SpecError},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    connect_seq::ConnectSeq,
    credentials::Credentials,
    session::{Beginning, Ending, Input, Leaving, Output, Session},
    socket::{self, Socket},
};
use crate::clock;

/// What the rest of the node learns.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// A gateway welcomed this process.
    Welcomed {
        /// Which.
        gateway: String,
        /// Its clock, milliseconds since 1970.
        server_time_ms: i64,
    },
    /// There is no session, or no longer.
    Lost(Ending),
    /// The node's desired state came.
    Spec(Result<NodeSpec, SpecError>),
    /// Something to do came.
    Command(Result<Command, Unreadable>),
}

/// What a line is made of.
pub(crate) struct Setup {
    /// Where gateways can be reached, one at least, and how to speak to them.
    pub(crate) credentials: Credentials,
    /// The number of the latest connection.
    pub(crate) counter: ConnectSeq,
    /// Randomness, for as long as the line lives.
    pub(crate) seed: [u8; 32],
    /// Without a Welcome for so long, the node asks control where gateways are.
    pub(crate) lonely_after: Duration,
    /// The owner's labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// What this build speaks.
    pub(crate) protocols: ProtocolRange,
    /// The commands that this process works on.
    pub(crate) under_way: watch::Receiver<Vec<CommandId>>,
    /// How commands ended.
    pub(crate) results: mpsc::Receiver<CommandResult>,
}

/// Keeps a session until `leaving` says to leave, and the Goodbye is out.
pub(crate) async fn keep(
    setup: Setup,
    facts: watch::Receiver<Facts>,
    leaving: impl Future<Output = Leaving>,
    news: mpsc::Sender<News>,
) {
    let mut facts = facts;
    let beginning = Beginning {
        gateways: setup.credentials.gateways(),
        connect_seq: setup.counter.latest(),
        facts: facts.borrow_and_update().clone(),
        protocols: setup.protocols,
        seed: setup.seed,
    };
    let mut results = setup.results;
    let mut line = Line {
        session: Session::new(beginning, clock::instant()),
        link: Link::None,
        credentials: setup.credentials,
        renewed: None,
        lonely_after: setup.lonely_after,
        lonely_at: clock::instant() + setup.lonely_after,
        counter: setup.counter,
        labels: setup.labels,
        under_way: setup.under_way,
        news,
    };
    let mut leaving = std::pin::pin!(leaving);
    let mut stays = true;
    while let Some((at, _)) = line.session.next_wakeup() {
        let input = tokio::select! {
            // The gateway comes last: one that talks without a pause must not keep us from anything.
            biased;
            why = &mut leaving, if stays => {
                stays = false;
                Input::Leave(why)
            }
            () = sleep_until(Instant::from_std(at)) => Input::Tick,
            changed = facts.changed(), if stays => match changed {
                Ok(()) => Input::Facts(Box::new(facts.borrow_and_update().clone())),
                Err(_) => {
                    stays = false;
                    Input::Leave(Leaving::Stopping)
                }
            },
            Some(result) = results.recv() => Input::Result(result),
            said = line.link.next(), if line.session.listens() => line.opened(said),
        };
        line.take(input).await;
    }
}

struct Line {
    session: Session,
    link: Link,
    credentials: Credentials,
    /// What the session is to hear of a new certificate.
    renewed: Option<Input>,
    lonely_after: Duration,
    /// When control is asked where gateways are, unless one welcomes the node before.
    lonely_at: std::time::Instant,
    counter: ConnectSeq,
    labels: BTreeMap<String, String>,
    under_way: watch::Receiver<Vec<CommandId>>,
    news: mpsc::Sender<News>,
}

enum Link {
    None,
    Opening(Pin<Box<dyn Future<Output = Opened> + Send>>),
    Open(Box<Socket>),
}

/// What came of a try to open a socket, and the certificate that control has given before, if it was asked.
struct Opened {
    socket: Result<Box<Socket>, Ending>,
    renewed: Option<Box<Credentials>>,
}

/// Why control is asked for a certificate before a socket is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    /// No gateway has welcomed the node for long: all may have gone elsewhere while it was away.
    Gateways,
    /// No gateway would let it in with the one that has ended.
    Certificate,
}

impl Need {
    fn why(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Gateways => Some("the certificate's gateways are not there"),
            Self::Certificate => Some("the certificate has ended"),
        }
    }
}

/// What a link has to say.
enum Said {
    Opened(Box<Opened>),
    Input(Input),
}

impl Link {
    /// The next thing that happens; nothing ever does without a link. Dropping the future loses nothing.
    async fn next(&mut self) -> Said {
        match self {
            Self::None => std::future::pending().await,
            Self::Opening(opening) => Said::Opened(Box::new(opening.await)),
            Self::Open(socket) => Said::Input(socket.next().await),
        }
    }
}

impl Line {
    fn opened(&mut self, said: Said) -> Input {
        match said {
            Said::Opened(opened) => {
                let Opened { socket, renewed } = *opened;
                if let Some(renewed) = renewed {
                    self.credentials = *renewed;
                    self.renewed = Some(self.renewal());
                }
                self.link = match socket {
                    Ok(socket) => Link::Open(socket),
                    Err(ending) => {
                        self.link = Link::None;
                        return Input::NotOpened(ending);
                    }
                };
                let labels = crate::labels::current(&self.labels);
                let renewal = self.credentials.renewal();
                let commands = self.under_way.borrow().clone();
                Input::Opened {
                    labels,
                    commands,
                    renewal,
                }
            }
            Said::Input(input) => {
                if matches!(input, Input::Closed(_)) {
                    self.link = Link::None;
                }
                input
            }
        }
    }

    async fn take(&mut self, input: Input) {
        let mut input = Some(input);
        while let Some(next) = input.take() {
            for output in self.session.step(next, clock::instant()) {
                if let Err(ending) = self.carry_out(output).await {
                    // The rest of the list still holds: without a socket its frames go nowhere.
                    self.link = Link::None;
                    input = Some(Input::Closed(ending));
                }
            }
            input = input.or_else(|| self.renewed.take());
        }
    }

    async fn carry_out(&mut self, output: Output) -> Result<(), Ending> {
        match output {
            Output::Open {
                gateway,
                connect_seq,
            } => self.open(gateway, connect_seq),
            Output::Send(frame) => {
                if let Link::Open(socket) = &mut self.link {
                    socket.send(frame).await?;
                }
            }
            Output::Ping => {
                if let Link::Open(socket) = &mut self.link {
                    socket.ping().await?;
                }
            }
            Output::Close => {
                if let Link::Open(socket) = &mut self.link {
                    socket.close().await?;
                }
            }
            Output::HangUp => self.link = Link::None,
            Output::AskCertificate => self.ask_certificate().await?,
            Output::Certificate(certificate) => match self.credentials.accept(&certificate) {
                Ok(()) => {
                    tracing::info!("the certificate is renewed");
                    self.renewed = Some(self.renewal());
                }
                Err(error) => tracing::warn!(%error, "a renewed certificate is not used"),
            },
            Output::Command(command) => self.tell(News::Command(command)).await,
            Output::Spec(spec) => self.tell(News::Spec(spec)).await,
            Output::Welcomed {
                gateway,
                session,
                upgrade_required,
                server_time_ms,
            } => {
                tracing::info!(%gateway, %session, upgrade_required, "welcomed");
                self.lonely_at = clock::instant() + self.lonely_after;
                self.tell(News::Welcomed {
                    gateway,
                    server_time_ms,
                })
                .await;
            }
            Output::Lost { ending, retry_in } => {
                let retry_in_ms = retry_in.as_millis();
                tracing::warn!(%ending, retry_in_ms, "no session");
                self.tell(News::Lost(ending)).await;
            }
            Output::Ignored(ignored) => tracing::info!(%ignored, "ignored"),
            Output::Over => tracing::debug!("the session is over"),
        }
        Ok(())
    }

    fn open(&mut self, gateway: String, connect_seq: u64) {
        // A full disk must not keep a node from its gateway. Should the number be used twice after a restart, the
        // gateway names the higher one.
        if let Err(error) = self.counter.reserve(connect_seq) {
            tracing::warn!(%error, connect_seq, "the connection's number cannot be kept");
        }
        tracing::debug!(%gateway, connect_seq, "connecting");
        let need = self.need();
        self.link = Link::Opening(Box::pin(open(gateway, self.credentials.clone(), need)));
    }

    fn need(&mut self) -> Need {
        if self.credentials.has_ended() {
            return Need::Certificate;
        }
        let now = clock::instant();
        if now < self.lonely_at {
            return Need::Nothing;
        }
        self.lonely_at = now + self.lonely_after;
        Need::Gateways
    }

    async fn ask_certificate(&mut self) -> Result<(), Ending> {
        match self.credentials.request() {
            Ok(request) => {
                if let Link::Open(socket) = &mut self.link {
                    socket.send(FromNode::CertificateRequest(request)).await?;
                }
            }
            Err(error) => tracing::warn!(%error, "a new certificate cannot be asked for"),
        }
        Ok(())
    }

    fn renewal(&self) -> Input {
        Input::Renewed {
            gateways: self.credentials.gateways(),
            renewal: self.credentials.renewal(),
        }
    }

    async fn tell(&mut self, news: News) {
        // Nobody listens once the node ends.
        drop(self.news.send(news).await);
    }
}

/// Opens a socket, once control has given a certificate where one is needed. Where it gives none, only a node whose own
/// has ended gives up.
async fn open(gateway: String, mut credentials: Credentials, need: Need) -> Opened {
    let mut renewed = None;
    if let Some(why) = need.why() {
        tracing::info!("{why}: control is asked for a new one");
        match credentials.renew_at_control().await {
            Ok(()) => renewed = Some(Box::new(credentials.clone())),
            Err(error) => {
                let ending = Ending::Unreachable(error.to_string());
                if need == Need::Certificate {
                    return Opened {
                        socket: Err(ending),
                        renewed,
                    };
                }
                tracing::warn!(%ending, "no certificate");
            }
        }
    }
    let socket = socket::open(gateway, credentials.tls()).await;
    Opened {
        socket: socket.map(Box::new),
        renewed,
    }
}

#[cfg(test)]
mod tests;
