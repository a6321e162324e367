//! The node's end: asks the helper for one thing, once.
//!
//! Takes a request, gives what came of it, within a time. Whoever listens at the socket has to be root, or whoever owns
//! the node's folder: another one could have nothing to say about the slots.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bc_protocol::digest::Sha256;
use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;
use bc_protocol::version::Version;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::frame::{self, FrameError};
use super::limits::{
    ANSWER_PATIENCE, CONNECT_PATIENCE, RECONNECT_AFTER, RECONNECTS_MAX, REPLY_BYTES_MAX,
    STAGE_PATIENCE,
};
use super::wire::{Activate, Answer, Binary, Cancel, Confirm, Reply, Request, Stage, WireError};
use crate::updater::attempt::{Attempt, Ending};
use crate::updater::host::with_causes;
use crate::updater::operations::Verdict;

/// Where the helper is, and whose it has to be.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    owner: u32,
    answered: Arc<watch::Sender<Option<Version>>>,
}

/// Why the helper did not do what it was asked for.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error("expected a helper at {socket}, found none", socket = socket.display())]
    Unreached {
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected a helper of user {owner} or root, found one of user {found}")]
    Impostor { owner: u32, found: u32 },
    #[error("expected an answer of the helper within {} s, found none", .0.as_secs())]
    Late(Duration),
    #[error("expected an answer of the helper, found that it cannot be read")]
    Broken(#[from] FrameError),
    #[error("expected an answer of the helper, found another text")]
    Garbled(#[source] WireError),
    #[error("expected a request that can be written, found one that cannot")]
    Encoding(#[from] serde_json::Error),
    #[error("expected a helper that knows this operation, found that it is too old")]
    Unsupported,
    #[error("expected to be the user that the helper serves, found that this is another one")]
    Denied,
    #[error("expected the helper to be free, found that it is busy")]
    Busy,
    #[error("expected the helper to understand its node, found that it does not: {problem}")]
    Malformed { problem: String },
    #[error("expected the helper to do it or to say why not, found another answer")]
    BesideThePoint,
    #[error("expected no trial, found one")]
    TrialWaits,
    #[error("expected the digest on trial, found another one")]
    NotOnTrial,
    #[error("{}", .0.message)]
    Ended(Ending),
}

impl ClientError {
    pub(crate) fn verdict(&self) -> Verdict {
        let code = match self {
            Self::TrialWaits => return Verdict::TrialWaits,
            Self::NotOnTrial => return Verdict::NotOnTrial,
            Self::Ended(ending) => return Verdict::Ended(ending.clone()),
            Self::Unsupported | Self::Garbled(WireError::Unsupported) => "helper-unsupported",
            Self::Denied | Self::Impostor { .. } => "helper-denied",
            Self::Unreached { .. }
            | Self::Late(_)
            | Self::Broken(_)
            | Self::Garbled(WireError::Malformed { .. })
            | Self::Encoding(_)
            | Self::Busy
            | Self::Malformed { .. }
            | Self::BesideThePoint => "helper",
        };
        Verdict::Ended(Ending::new(Outcome::Failed, code, with_causes(self)))
    }
}

impl Client {
    /// The helper at `socket`. It has to be root's, or `owner`'s.
    pub(crate) fn new(socket: PathBuf, owner: u32) -> Self {
        Self {
            socket,
            owner,
            answered: Arc::new(watch::channel(None).0),
        }
    }

    /// The version of the helper that answered last.
    pub(crate) fn answered(&self) -> watch::Receiver<Option<Version>> {
        self.answered.subscribe()
    }

    /// The helper's version, if the helper is there and does its work.
    pub(crate) async fn version(&self) -> Result<String, ClientError> {
        let reply = self.ask(&Request::Status, None, ANSWER_PATIENCE).await?;
        match reply.answer {
            Answer::Standing { .. } => Ok(reply.helper),
            answer @ (Answer::Done {}
            | Answer::TrialWaits {}
            | Answer::NotOnTrial {}
            | Answer::Ended { .. }
            | Answer::Denied {}
            | Answer::Unsupported {}
            | Answer::Malformed { .. }
            | Answer::Busy {}) => Err(done(answer).err().unwrap_or(ClientError::BesideThePoint)),
        }
    }

    /// Hands over a finished download; without one, the spare slot has to hold the binary.
    pub(crate) async fn stage(
        &self,
        section: DaemonSection,
        binary: Option<&File>,
    ) -> Result<(), ClientError> {
        let place = match binary {
            Some(_) => Binary::Descriptor,
            None => Binary::InPlace,
        };
        let request = Request::Stage(Stage {
            section,
            binary: place,
        });
        done(self.ask(&request, binary, STAGE_PATIENCE).await?.answer)
    }

    pub(crate) async fn activate(&self, section: DaemonSection) -> Result<(), ClientError> {
        self.order(&Request::Activate(Activate { section })).await
    }

    pub(crate) async fn confirm(&self, digest: Sha256) -> Result<(), ClientError> {
        self.order(&Request::Confirm(Confirm { digest })).await
    }

    pub(crate) async fn cancel(&self, attempt: Attempt) -> Result<(), ClientError> {
        self.order(&Request::Cancel(Cancel { attempt })).await
    }

    async fn order(&self, request: &Request) -> Result<(), ClientError> {
        done(self.ask(request, None, ANSWER_PATIENCE).await?.answer)
    }

    async fn ask(
        &self,
        request: &Request,
        binary: Option<&File>,
        patience: Duration,
    ) -> Result<Reply, ClientError> {
        let request = request.encode()?;
        let stream = timeout(CONNECT_PATIENCE, self.connect())
            .await
            .map_err(|_| ClientError::Late(CONNECT_PATIENCE))??;
        let exchange = async {
            let written = frame::write(&stream, &request, binary.map(File::as_fd)).await;
            // Whoever did not want to hear all of it may still have answered.
            match (frame::read(&stream, REPLY_BYTES_MAX).await, written) {
                (Ok(reply), _) => Ok(reply.bytes),
                (Err(_), Err(error)) => Err(FrameError::Socket(error)),
                (Err(error), Ok(())) => Err(error),
            }
        };
        let reply = timeout(patience, exchange)
            .await
            .map_err(|_| ClientError::Late(patience))??;
        let reply = Reply::decode(&reply).map_err(ClientError::Garbled)?;
        let version = reply.helper.parse().ok();
        self.answered.send_if_modified(|known| {
            let changed = *known != version;
            *known = version;
            changed
        });
        Ok(reply)
    }

    /// A helper that becomes the confirmed binary is away for a moment.
    async fn reach(&self) -> io::Result<UnixStream> {
        let mut tries = 0;
        loop {
            match UnixStream::connect(&self.socket).await {
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionRefused
                        && tries < RECONNECTS_MAX =>
                {
                    tries += 1;
                    sleep(RECONNECT_AFTER).await;
                }
                reached => return reached,
            }
        }
    }

    async fn connect(&self) -> Result<UnixStream, ClientError> {
        let unreached = |source| ClientError::Unreached {
            socket: self.socket.clone(),
            source,
        };
        let stream = self.reach().await.map_err(unreached)?;
        let found = stream.peer_cred().map_err(unreached)?.uid();
        if found != 0 && found != self.owner {
            let owner = self.owner;
            return Err(ClientError::Impostor { owner, found });
        }
        Ok(stream)
    }
}

fn done(answer: Answer) -> Result<(), ClientError> {
    Err(match answer {
        Answer::Done {} => return Ok(()),
        Answer::Standing { .. } => ClientError::BesideThePoint,
        Answer::TrialWaits {} => ClientError::TrialWaits,
        Answer::NotOnTrial {} => ClientError::NotOnTrial,
        Answer::Ended {
            outcome,
            code,
            message,
        } => ClientError::Ended(Ending::new(outcome, code, message)),
        Answer::Denied {} => ClientError::Denied,
        Answer::Unsupported {} => ClientError::Unsupported,
        Answer::Malformed { problem } => ClientError::Malformed { problem },
        Answer::Busy {} => ClientError::Busy,
    })
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_PATIENCE, Client, Verdict, frame};
    use bc_protocol::digest::Sha256;
    use std::os::unix::fs::MetadataExt as _;
    use tokio::net::UnixListener;

    /// What a node makes of a helper that answers so.
    async fn code(answer: &'static str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("helper.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            frame::write_now(&stream, answer.as_bytes()).unwrap();
        });
        let owner = folder.path().metadata().unwrap().uid();
        let client = Client::new(socket, owner);
        let asked = client.confirm(Sha256::of(b"one"));
        let error = tokio::time::timeout(ANSWER_PATIENCE, asked)
            .await
            .unwrap()
            .unwrap_err();
        match error.verdict() {
            Verdict::Ended(ending) => ending.code,
            other @ (Verdict::TrialWaits | Verdict::NotOnTrial) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn every_helper_that_does_not_help_has_its_word() {
        for (answer, expected) in [
            (
                r#"{"version":1,"helper":"1.0.0","answer":{"answer":"unsupported"}}"#,
                "helper-unsupported",
            ),
            (r#"{"version":2,"refusal":"too new"}"#, "helper-unsupported"),
            (
                r#"{"version":1,"helper":"1.0.0","answer":{"answer":"denied"}}"#,
                "helper-denied",
            ),
            (
                r#"{"version":1,"helper":"1.0.0","answer":{"answer":"busy"}}"#,
                "helper",
            ),
            (
                r#"{"version":1,"helper":"1.0.0","answer":{"answer":"else"}}"#,
                "helper",
            ),
            ("", "helper"),
        ] {
            assert_eq!(code(answer).await, expected, "{answer}");
        }
    }
}
