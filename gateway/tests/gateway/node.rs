//! A node that says what a test wants.

use std::{net::SocketAddr, sync::Arc};

use bc_protocol::{
    id::NodeId,
    session::{FromGateway, FromNode, Goodbye, StatusReport, Welcome},
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        self, Message,
        protocol::frame::{
            Frame,
            coding::{Data, OpCode},
        },
    },
};

use crate::{authority::Authority, soon};

#[path = "../../src/fixture/said.rs"]
mod said;

pub(crate) use said::{facts, hello};

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) tls: Arc<ClientConfig>,
}

/// The node's end of a session.
pub(crate) struct Session {
    pub(crate) socket: WebSocketStream<TlsStream<TcpStream>>,
}

impl Node {
    pub(crate) fn new(authority: &Authority, name: &str) -> Self {
        let id = NodeId::derived(&[name.as_bytes()]);
        let tls = authority.node(&id);
        Self { id, tls }
    }

    /// An upgraded connection on which nothing was said.
    pub(crate) async fn connect(&self, gateway: SocketAddr) -> Session {
        let stream = secure(gateway, &self.tls).await.unwrap();
        let url = format!("wss://{gateway}/session");
        let (socket, _) = soon(client_async(url, stream)).await.unwrap();
        Session { socket }
    }

    /// A session that was welcomed.
    pub(crate) async fn open(&self, gateway: SocketAddr, connect_seq: u64) -> Session {
        let mut session = self.connect(gateway).await;
        session.hello(connect_seq).await;
        session.welcome().await;
        session
    }
}

impl Session {
    pub(crate) async fn hello(&mut self, connect_seq: u64) {
        self.say(FromNode::Hello(hello(connect_seq))).await;
    }

    pub(crate) async fn report(&mut self, number: u64) {
        let facts = facts(number);
        self.say(FromNode::Report(StatusReport { number, facts }))
            .await;
    }

    /// The same to a gateway that may have left.
    pub(crate) async fn try_report(&mut self, number: u64) -> Result<(), tungstenite::Error> {
        let facts = facts(number);
        let report = FromNode::Report(StatusReport { number, facts });
        soon(self.socket.send(Message::Binary(report.encode()))).await
    }

    pub(crate) async fn say(&mut self, message: FromNode) {
        self.send(Message::Binary(message.encode())).await;
    }

    /// Sends fragments of one message until the gateway has enough, which is before the message is too large.
    pub(crate) async fn flood(&mut self) {
        let fragment = |what| {
            let part = Bytes::from_static(&[0; 300]);
            Message::Frame(Frame::message(part, OpCode::Data(what), false))
        };
        self.send(fragment(Data::Binary)).await;
        while soon(self.socket.send(fragment(Data::Continue)))
            .await
            .is_ok()
        {}
    }

    pub(crate) async fn send(&mut self, message: Message) {
        soon(self.socket.send(message)).await.unwrap();
    }

    /// The next message; none at the end.
    pub(crate) async fn next(&mut self) -> Option<FromGateway> {
        loop {
            match soon(self.socket.next()).await {
                Some(Ok(Message::Binary(bytes))) => {
                    return Some(FromGateway::decode(&bytes).unwrap());
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_))) => {}
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(_)) | None => return None,
            }
        }
    }

    pub(crate) async fn welcome(&mut self) -> Welcome {
        match self.next().await {
            Some(FromGateway::Welcome(welcome)) => welcome,
            other => panic!("expected a welcome, found {other:?}"),
        }
    }

    /// Why the gateway leaves; nothing comes after it.
    pub(crate) async fn goodbye(&mut self) -> Goodbye {
        match self.next().await {
            Some(FromGateway::Goodbye(goodbye)) => {
                assert_eq!(self.next().await, None);
                goodbye
            }
            other => panic!("expected a goodbye, found {other:?}"),
        }
    }

    /// Still there: the gateway answers.
    pub(crate) async fn is_alive(&mut self) {
        let payload = Bytes::from_static(b"there?");
        self.send(Message::Ping(payload.clone())).await;
        let answer = soon(self.socket.next()).await;
        assert_eq!(answer.unwrap().unwrap(), Message::Pong(payload));
    }
}

/// A TLS connection, as far as this end can tell.
pub(crate) async fn secure(
    gateway: SocketAddr,
    tls: &Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(gateway).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(gateway.ip());
    soon(TlsConnector::from(Arc::clone(tls)).connect(name, stream)).await
}
