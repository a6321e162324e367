//! One WebSocket to one gateway.
//!
//! Takes a gateway's address, gives a socket that carries frames. It knows nothing of sessions: what arrives goes to
//! the machine as it is, what the machine wants sent is sent or given up in time.

use std::sync::Arc;

use bc_protocol::{
    limits::SESSION_FRAME_BYTES_MAX,
    session::{FrameError, FromGateway, FromNode},
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use rustls::ClientConfig;
use tokio::{
    net::TcpStream,
    time::{Duration, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{Response, header::RETRY_AFTER},
        protocol::WebSocketConfig,
    },
};
use url::Url;

use super::{
    limits::{SEND_DEADLINE, SOCKET_READ_BUFFER_BYTES},
    session::{Ending, Input},
    throttle::Throttled,
};
use crate::{
    dial::{self, Reach},
    tls,
};

/// An open WebSocket.
pub(crate) struct Socket {
    stream: WebSocketStream<TlsStream<Throttled<TcpStream>>>,
}

/// Opens a WebSocket. The caller bounds the time that it may take.
pub(crate) async fn open(gateway: String, config: Arc<ClientConfig>) -> Result<Socket, Ending> {
    let stream = connect(&gateway, config).await?;
    let request = gateway.into_client_request().map_err(unreachable)?;
    let upgraded = client_async_with_config(request, stream, Some(buffers())).await;
    match upgraded {
        Ok((stream, _)) => Ok(Socket { stream }),
        Err(Error::Http(response)) => Err(refused(&response)),
        // With TLS 1.3 a server that refuses our certificate says so only behind the handshake, in our first read.
        Err(error) => Err(unreachable(error)),
    }
}

/// Opens a TLS connection to a gateway and says nothing. The caller bounds the time that it may take.
pub(crate) async fn connect(
    gateway: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<Throttled<TcpStream>>, Ending> {
    let url: Url = gateway.parse().map_err(unreachable)?;
    if url.scheme() != "wss" {
        let expected = format!("expected a wss address, found {gateway}");
        return Err(Ending::Unreachable(expected));
    }
    let host = url.host().ok_or("the address has no host");
    let host = host.map_err(unreachable)?.to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let name = tls::name_of(&host).map_err(unreachable)?;
    let stream = dial::tcp(&host, port, Reach::Anywhere)
        .await
        .map_err(unreachable)?;
    // Frames are small and answers are waited for.
    stream.set_nodelay(true).map_err(unreachable)?;
    TlsConnector::from(config)
        .connect(name, Throttled::new(stream))
        .await
        .map_err(unreachable)
}

/// What a server says that gives no session.
fn refused<B>(response: &Response<B>) -> Ending {
    let status = response.status().as_u16();
    let asked = response.headers().get(RETRY_AFTER);
    // A date would need a clock that both agree on: whoever sends one is asked again at the usual pace.
    let seconds = asked.and_then(|asked| asked.to_str().ok()?.trim().parse().ok());
    Ending::Refused {
        status,
        retry_after: match status {
            429 | 503 => seconds.map(Duration::from_secs),
            _ => None,
        },
    }
}

impl Socket {
    /// Sends a frame.
    pub(crate) async fn send(&mut self, frame: FromNode) -> Result<(), Ending> {
        self.put(Message::Binary(frame.encode())).await
    }

    /// Sends a ping.
    pub(crate) async fn ping(&mut self) -> Result<(), Ending> {
        self.put(Message::Ping(Bytes::new())).await
    }

    /// Begins a polite close; what the other side still sends can be read.
    pub(crate) async fn close(&mut self) -> Result<(), Ending> {
        within(SEND_DEADLINE, self.stream.close(None)).await
    }

    /// The next thing that happens on the socket. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Input {
        let message = match self.stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Input::Closed(closed(error)),
            None => return Input::Closed(Ending::Closed("end of stream".to_owned())),
        };
        match message {
            Message::Binary(bytes) => Input::Frame(FromGateway::decode(&bytes)),
            Message::Text(_) => Input::Frame(Err(FrameError::Undecodable(
                "a text message where only binary ones are spoken".to_owned(),
            ))),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Input::Traffic,
            Message::Close(None) => {
                Input::Closed(Ending::Closed("close without reason".to_owned()))
            }
            Message::Close(Some(close)) => Input::Closed(Ending::Closed(format!(
                "close {}: {}",
                close.code, close.reason
            ))),
        }
    }

    async fn put(&mut self, message: Message) -> Result<(), Ending> {
        within(SEND_DEADLINE, self.stream.send(message)).await
    }
}

async fn within(
    deadline: Duration,
    work: impl Future<Output = Result<(), Error>>,
) -> Result<(), Ending> {
    match timeout(deadline, work).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(closed(error)),
        Err(_) => {
            let stuck = format!("nothing was taken for {} ms", deadline.as_millis());
            Err(Ending::Closed(stuck))
        }
    }
}

fn closed(error: Error) -> Ending {
    if let Error::Capacity(error) = error {
        // The peer says more than a frame may hold: that is no accident of the line.
        return Ending::Broken(error.to_string());
    }
    Ending::Closed(error.to_string())
}

fn unreachable(error: impl ToString) -> Ending {
    Ending::Unreachable(error.to_string())
}

fn buffers() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(SOCKET_READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * SESSION_FRAME_BYTES_MAX)
        .max_message_size(Some(SESSION_FRAME_BYTES_MAX))
        .max_frame_size(Some(SESSION_FRAME_BYTES_MAX))
}
