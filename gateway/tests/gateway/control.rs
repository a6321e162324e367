//! A control that enrols gateways and takes links, and for the rest does what a test says.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bc_protocol::{
    id::{GatewayId, NodeId},
    link::{
        Batch, CertificateWanted, Event, FromControl, FromGateway, LinkHello, LinkWelcome, Settings,
    },
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};

use crate::{authority::Authority, soon};

pub(crate) const TOKEN: &str = "one-use";

/// What happens to the next request for enrolment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Yes,
    /// Signed, but nobody hears of it.
    Lost,
    No,
}

pub(crate) struct Control {
    pub(crate) authority: Arc<Authority>,
    pub(crate) api: SocketAddr,
    pub(crate) links: TcpListener,
    /// The keys that asked, in order, PEM.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    pub(crate) answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Control {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let control = Self {
            authority: Arc::new(Authority::new()),
            api: listener.local_addr().unwrap(),
            links: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            asked: Arc::default(),
            answers: Arc::default(),
        };
        let (authority, asked, answers) = (
            Arc::clone(&control.authority),
            Arc::clone(&control.asked),
            Arc::clone(&control.answers),
        );
        let link = control.links.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service_fn(|request| {
                    let answer = answers.lock().unwrap().pop_front().unwrap_or(Answer::Yes);
                    join(request, answer, &authority, &asked, link)
                });
                // A lost answer is an error here.
                drop(
                    http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await,
                );
            }
        });
        control
    }

    /// Takes a link and welcomes it.
    pub(crate) async fn link(&self) -> Link {
        self.link_with(1, &[]).await
    }

    pub(crate) async fn link_with(&self, protocol_min: u32, removed: &[NodeId]) -> Link {
        let (stream, _) = soon(self.links.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let stream = TlsAcceptor::from(self.authority.link_server())
            .accept(stream)
            .await
            .unwrap();
        let mut link = Link {
            socket: accept_async(stream).await.unwrap(),
            hello: LinkHello {
                version: String::new(),
                process: [0; 16],
            },
        };
        match link.receive().await {
            FromGateway::Hello(hello) => link.hello = hello,
            other @ (FromGateway::Batch(_)
            | FromGateway::CertificateWanted(_)
            | FromGateway::OwnCertificateWanted(_)) => panic!("{other:?}"),
        }
        let welcome = LinkWelcome {
            settings: Settings {
                protocol_min,
                heartbeat_interval_ms: 15_000,
            },
            removed: removed.to_vec(),
        };
        link.send(FromControl::Welcome(welcome)).await;
        link
    }
}

/// Control's end of a link.
pub(crate) struct Link {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    pub(crate) hello: LinkHello,
}

impl Link {
    pub(crate) async fn send(&mut self, frame: FromControl) {
        let message = Message::Binary(frame.encode());
        soon(self.socket.send(message)).await.unwrap();
    }

    async fn receive(&mut self) -> FromGateway {
        loop {
            match soon(self.socket.next()).await.unwrap().unwrap() {
                Message::Binary(bytes) => return FromGateway::decode(&bytes).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other @ (Message::Text(_) | Message::Close(_) | Message::Frame(_)) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    /// The next batch, which is not acknowledged.
    pub(crate) async fn batch(&mut self) -> Batch {
        match self.receive().await {
            FromGateway::Batch(batch) => batch,
            other @ (FromGateway::Hello(_)
            | FromGateway::CertificateWanted(_)
            | FromGateway::OwnCertificateWanted(_)) => panic!("{other:?}"),
        }
    }

    /// What a node asks; batches before it are acknowledged.
    pub(crate) async fn wanted(&mut self) -> CertificateWanted {
        loop {
            match self.receive().await {
                FromGateway::CertificateWanted(wanted) => return wanted,
                FromGateway::Batch(batch) => self.send(FromControl::Ack(batch.number)).await,
                other @ (FromGateway::Hello(_) | FromGateway::OwnCertificateWanted(_)) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    /// Acknowledges batches up to and with one that has an event for which `is` gives something.
    pub(crate) async fn until<T>(&mut self, mut is: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            let batch = self.batch().await;
            self.send(FromControl::Ack(batch.number)).await;
            if let Some(found) = batch.events.iter().find_map(&mut is) {
                return found;
            }
        }
    }

    /// Takes what is named on a new link.
    pub(crate) async fn listed(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.until(|event| {
            events.push(event.clone());
            (*event == Event::Listed).then_some(())
        })
        .await;
        events
    }
}

async fn join(
    request: Request<Incoming>,
    answer: Answer,
    authority: &Authority,
    asked: &Mutex<Vec<String>>,
    link: SocketAddr,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.uri().path(), "/api/compute/gateways/join");
    assert_eq!(
        request.headers()["authorization"],
        format!("Bearer {TOKEN}")
    );
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let csr = body["csr"].as_str().unwrap();
    let id = GatewayId::derived(&[b"gateway"]);
    let certificate = authority.gateway(&id, csr);
    asked.lock().unwrap().push(csr.to_owned());
    let (status, body) = match answer {
        Answer::Yes => (
            StatusCode::OK,
            serde_json::json!({
                "gatewayId": id,
                "certificate": certificate,
                "authorities": authority.pem(),
                "linkUrl": format!("wss://{link}/link"),
            }),
        ),
        // As a proxy in between would put it.
        Answer::Lost => (StatusCode::BAD_GATEWAY, serde_json::Value::Null),
        Answer::No => (
            StatusCode::UNAUTHORIZED,
            serde_json::json!({"error": {"code": "UNAUTHENTICATED", "message": "no such token"}}),
        ),
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    Ok(response)
}
