//! The HTTP that comes before a session.
//!
//! Takes a secured connection, gives it back as a raw one once the peer has asked for a session. Everything else gets
//! its answer here and the connection is closed. Requests are read and answered by tungstenite's code.

use std::io;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::{
    self,
    handshake::{
        machine::TryParse,
        server::{Request, create_response, write_response},
    },
    http::StatusCode,
};

use crate::limits::REQUEST_HEAD_BYTES_MAX;

/// The one path.
const SESSION: &str = "/session";

/// Room for a node's request, so that it is read at once.
const HEAD_BYTES_USUAL: usize = 512;

/// A connection whose peer was told that a session may begin.
#[derive(Debug)]
pub(crate) struct Upgraded<S> {
    /// The connection.
    pub(crate) stream: S,
    /// What the peer sent in the meantime.
    pub(crate) early: Vec<u8>,
}

/// Why no session may begin on a connection now, as the peer is told.
#[derive(Clone, Debug)]
pub(crate) struct NoSession {
    /// The answer's status.
    pub(crate) status: StatusCode,
    /// In a sentence.
    pub(crate) why: String,
    /// Seconds after which it is worth another try.
    pub(crate) retry_after: u64,
}

/// Why there is neither a session nor an answer.
#[derive(Debug, Error)]
pub(crate) enum UpgradeError {
    /// The connection broke.
    #[error("expected a request, found a broken connection")]
    Broken(#[from] io::Error),
    /// It ended before the request did.
    #[error("expected a request, found the end")]
    Ended,
}

/// Answers one request; gives the connection if it was for a session, and one may begin.
pub(crate) async fn upgrade<S>(
    mut stream: S,
    may: Result<(), NoSession>,
) -> Result<Option<Upgraded<S>>, UpgradeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
    let (answer, size) = loop {
        let from = head.len();
        if stream.read_buf(&mut head).await? == 0 {
            return Err(UpgradeError::Ended);
        }
        // Looked at only where it may have ended: a head that drips must not be read again with every byte.
        if has_end(&head, from)
            && let Some(answered) = answer(&head, &may)
        {
            break answered;
        }
        if head.len() >= REQUEST_HEAD_BYTES_MAX {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            break (Answer::plain(status, "expected a shorter request"), 0);
        }
    };
    match answer {
        Answer::Session(response) => {
            stream.write_all(&response).await?;
            stream.flush().await?;
            // What came with the request; the request itself takes no more room.
            let early = head.get(size..).unwrap_or_default().to_vec();
            Ok(Some(Upgraded { stream, early }))
        }
        Answer::Plain(response) => {
            stream.write_all(&response).await?;
            // The answer has left; whether the peer heard the end of it is its own affair.
            drop(stream.shutdown().await);
            Ok(None)
        }
    }
}

enum Answer {
    Session(Vec<u8>),
    Plain(Vec<u8>),
}

impl Answer {
    fn plain(status: StatusCode, text: &str) -> Self {
        Self::with(status, text, "")
    }

    fn with(status: StatusCode, text: &str, headers: &str) -> Self {
        let bytes = text.len() + 1;
        Self::Plain(
            format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: text/plain\r\n\
                 content-length: {bytes}\r\n{headers}\r\n{text}\n"
            )
            .into_bytes(),
        )
    }

    fn not_now(reason: &NoSession) -> Self {
        let NoSession {
            status,
            why,
            retry_after,
        } = reason;
        Self::with(*status, why, &format!("retry-after: {retry_after}\r\n"))
    }

    fn bad(error: &tungstenite::Error) -> Self {
        Self::plain(StatusCode::BAD_REQUEST, &error.to_string())
    }
}

/// Whether an empty line ends in what came behind `from`.
fn has_end(head: &[u8], from: usize) -> bool {
    let fresh = head.get(from.saturating_sub(3)..).unwrap_or_default();
    let ends = |end: &[u8]| fresh.windows(end.len()).any(|window| window == end);
    ends(b"\n\r\n") || ends(b"\n\n")
}

/// The answer to a whole request and the request's size; nothing if it is not whole.
fn answer(head: &[u8], may: &Result<(), NoSession>) -> Option<(Answer, usize)> {
    let (size, request) = match Request::try_parse(head) {
        Ok(parsed) => parsed?,
        Err(error) => return Some((Answer::bad(&error), 0)),
    };
    if let Err(reason) = may {
        return Some((Answer::not_now(reason), size));
    }
    if request.uri().path() != SESSION {
        let answer = Answer::plain(StatusCode::NOT_FOUND, "expected /session");
        return Some((answer, size));
    }
    let mut written = Vec::with_capacity(HEAD_BYTES_USUAL);
    let answer = create_response(&request)
        .and_then(|response| write_response(&mut written, &response))
        .map_or_else(|error| Answer::bad(&error), |()| Answer::Session(written));
    Some((answer, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET /session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    #[tokio::test]
    async fn what_came_with_the_request_is_kept_however_it_is_cut() {
        for piece in [1, 7, 4096] {
            let (mut peer, own) = tokio::io::duplex(64);
            let said = [GET, b"early"].concat();
            let saying = async {
                for bytes in said.chunks(piece) {
                    peer.write_all(bytes).await.unwrap();
                }
                let mut answer = Vec::new();
                while !answer.ends_with(b"\r\n\r\n") {
                    peer.read_buf(&mut answer).await.unwrap();
                }
                (answer, peer)
            };
            let (upgraded, (answer, mut peer)) = tokio::join!(upgrade(own, Ok(())), saying);
            let mut upgraded = upgraded.unwrap().unwrap();
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
            assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
            // What did not come in time comes by the stream.
            let missing = 5 - upgraded.early.len();
            let mut rest = vec![0; missing];
            upgraded.stream.read_exact(&mut rest).await.unwrap();
            assert_eq!([upgraded.early, rest].concat(), b"early");
            peer.shutdown().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_head_without_an_end_is_not_read_for_ever() {
        let (mut peer, own) = tokio::io::duplex(64);
        let saying = async {
            while peer
                .write_all(b"GET /session HTTP/1.1\r\nA: b\r")
                .await
                .is_ok()
            {}
        };
        let (upgraded, ()) = tokio::join!(
            async {
                let upgraded = upgrade(Half(own), Ok(())).await;
                upgraded.unwrap().is_none()
            },
            saying
        );
        assert!(upgraded);
    }

    #[tokio::test]
    async fn who_comes_at_a_bad_time_hears_when_to_come_again() {
        let (mut peer, own) = tokio::io::duplex(4096);
        let may = Err(NoSession {
            status: StatusCode::TOO_MANY_REQUESTS,
            why: "not now".to_owned(),
            retry_after: 7,
        });
        peer.write_all(GET).await.unwrap();
        assert!(upgrade(own, may).await.unwrap().is_none());
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        assert!(answer.contains("\r\nretry-after: 7\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nnot now\n"), "{answer}");
    }

    /// Takes whatever is written.
    struct Half(tokio::io::DuplexStream);

    impl AsyncRead for Half {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            into: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_read(cx, into)
        }
    }

    impl AsyncWrite for Half {
        fn poll_write(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            std::task::Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn poll_shutdown(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
    }
}
