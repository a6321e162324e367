//! A gateway's end of a session.

use bc_protocol::session::{Facts, FromGateway, FromNode, GoodbyeReason, Hello};
use futures_util::{SinkExt, StreamExt};
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use super::fleet::soon;

pub(crate) type Socket = WebSocketStream<TlsStream<tokio::net::TcpStream>>;

/// A gateway's end of a session.
pub(crate) struct Session {
    pub(crate) hello: Hello,
    pub(crate) socket: Socket,
}

impl Session {
    pub(crate) async fn say(&mut self, frame: FromGateway) {
        self.socket
            .send(Message::Binary(frame.encode()))
            .await
            .unwrap();
    }

    pub(crate) async fn read(&mut self) -> FromNode {
        read(&mut self.socket).await
    }

    pub(crate) async fn facts_until(&mut self, enough: impl Fn(&Facts) -> bool) -> Facts {
        loop {
            let frame = self.read().await;
            let FromNode::Report(report) = frame else {
                panic!("expected a report, found {frame:?}");
            };
            if enough(&report.facts) {
                return report.facts;
            }
        }
    }

    /// The reason of a goodbye; none where the next frame is a report.
    pub(crate) async fn read_until_goodbye_or_report(&mut self) -> Option<GoodbyeReason> {
        match self.read().await {
            FromNode::Goodbye(goodbye) => Some(goodbye.reason),
            FromNode::Report(_)
            | FromNode::Hello(_)
            | FromNode::CommandResult(_)
            | FromNode::CertificateRequest(_) => None,
        }
    }

    pub(crate) async fn read_until_goodbye(&mut self) -> GoodbyeReason {
        loop {
            if let FromNode::Goodbye(goodbye) = self.read().await {
                return goodbye.reason;
            }
        }
    }
}

pub(crate) async fn read(socket: &mut Socket) -> FromNode {
    loop {
        let message = soon(socket.next()).await.unwrap().unwrap();
        if let Message::Binary(bytes) = message {
            return FromNode::decode(&bytes).unwrap();
        }
        assert!(message.is_ping() || message.is_pong(), "{message:?}");
    }
}
