//! The line against a real gateway's end: TLS, WebSocket and all.

mod renewal;
mod trust;

use std::{net::SocketAddr, ops::Range, path::Path, sync::Arc, time::Duration};

use bc_protocol::{
    id::SessionId,
    session::{FromGateway, FromNode, Goodbye, GoodbyeReason, Hello, ProtocolRange, Welcome},
};
use futures_util::{SinkExt, StreamExt};
use rustls::ServerConfig;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};

use super::*;
use crate::{
    authority::Authority,
    config::PlainHttp,
    http::Web,
    identity::Identity,
    node::session::{Ending, facts},
};

type Peer = WebSocketStream<TlsStream<TcpStream>>;

/// How long a test waits for what must come: a bound, not a measure.
const SOON: Duration = Duration::from_secs(10);

/// One gateway that the test plays, and one node that is real.
struct Scene {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    facts: watch::Sender<Facts>,
    news: mpsc::Receiver<News>,
    leave: Option<oneshot::Sender<Leaving>>,
    node: JoinHandle<()>,
    folder: TempDir,
}

/// What a scene begins with.
struct Begun<'a> {
    authority: &'a Authority,
    gateway: Arc<ServerConfig>,
    /// Of the node's certificate.
    years: Range<i32>,
    control: Option<&'a url::Url>,
    lonely_after: Duration,
}

impl Scene {
    async fn new() -> Self {
        let authority = Authority::new();
        Self::between(&authority, authority.gateway("127.0.0.1"), 2020).await
    }

    /// A node of `authority`, with a certificate that starts in that year, and a gateway.
    async fn between(authority: &Authority, gateway: Arc<ServerConfig>, year: i32) -> Self {
        Self::at(authority, gateway, year..year + 100, None).await
    }

    /// The same, with a control.
    async fn at(
        authority: &Authority,
        gateway: Arc<ServerConfig>,
        years: Range<i32>,
        control: Option<&url::Url>,
    ) -> Self {
        let begun = Begun {
            authority,
            gateway,
            years,
            control,
            lonely_after: SOON * 60,
        };
        Self::begun(begun, None).await
    }

    /// A node that was told of another gateway than the one that is there.
    async fn begun(begun: Begun<'_>, told: Option<&str>) -> Self {
        let Begun {
            authority,
            gateway,
            years,
            control,
            lonely_after,
        } = begun;
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("wss://{}/session", listener.local_addr().unwrap());
        let identity = authority.enrol(folder.path(), told.unwrap_or(&url), years);
        let (facts, facts_seen) = watch::channel(facts(0));
        let (news_out, news) = mpsc::channel(16);
        let (leave, leaving) = oneshot::channel();
        let setup = Setup {
            credentials: credentials(folder.path(), identity, control),
            counter: ConnectSeq::load(&folder.path().join("connect-seq"), 0),
            seed: [1; 32],
            lonely_after,
            labels: BTreeMap::from([("rack".to_owned(), "7".to_owned())]),
            protocols: ProtocolRange::CURRENT,
            under_way: watch::channel(Vec::new()).1,
            results: mpsc::channel(1).1,
        };
        let leaving = async { leaving.await.unwrap_or(Leaving::Stopping) };
        let node = tokio::spawn(keep(setup, facts_seen, leaving, news_out));
        Self {
            listener,
            acceptor: TlsAcceptor::from(gateway),
            facts,
            news,
            leave: Some(leave),
            node,
            folder,
        }
    }

    fn url(&self) -> String {
        format!("wss://{}/session", self.listener.local_addr().unwrap())
    }

    async fn tcp(&self) -> TcpStream {
        let (stream, _): (_, SocketAddr) = soon(self.listener.accept()).await.unwrap();
        stream
    }

    async fn peer(&self) -> Peer {
        let stream = self.acceptor.accept(self.tcp().await).await.unwrap();
        soon(accept_async(stream)).await.unwrap()
    }

    /// A session up to its Welcome.
    async fn session(&mut self) -> Peer {
        let mut peer = self.peer().await;
        let hello = hello(&mut peer).await;
        say(&mut peer, welcome(&hello)).await;
        assert!(matches!(self.hear().await, News::Welcomed { .. }));
        peer
    }

    async fn hear(&mut self) -> News {
        soon(self.news.recv()).await.unwrap()
    }

    async fn lost(&mut self) -> Ending {
        match self.hear().await {
            News::Lost(ending) => ending,
            other @ (News::Welcomed { .. } | News::Spec(_) | News::Command(_)) => {
                panic!("expected a loss, found {other:?}")
            }
        }
    }

    fn leave(&mut self, why: Leaving) {
        self.leave.take().unwrap().send(why).unwrap();
    }
}

fn credentials(folder: &Path, identity: Identity, control: Option<&url::Url>) -> Credentials {
    let web = Web {
        plain_http: PlainHttp::Loopback,
        ca_file: None,
        earliest: None,
    };
    Credentials::new(folder.to_owned(), identity, &[], control, web).unwrap()
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(SOON, work).await.unwrap()
}

async fn read(peer: &mut Peer) -> FromNode {
    loop {
        let message = soon(peer.next()).await.unwrap().unwrap();
        if let Message::Binary(bytes) = message {
            return FromNode::decode(&bytes).unwrap();
        }
        assert!(message.is_ping() || message.is_pong(), "{message:?}");
    }
}

async fn hello(peer: &mut Peer) -> Hello {
    let frame = read(peer).await;
    let FromNode::Hello(hello) = frame else {
        panic!("expected a Hello, found {frame:?}");
    };
    hello
}

async fn say(peer: &mut Peer, frame: FromGateway) {
    peer.send(Message::Binary(frame.encode())).await.unwrap();
}

fn welcome(hello: &Hello) -> FromGateway {
    FromGateway::Welcome(Welcome {
        nonce: hello.nonce,
        session: SessionId::random(0, 1),
        protocol: 1,
        server_proto_min: 1,
        upgrade_required: false,
        heartbeat_interval_ms: 10_000,
        server_time_ms: 0,
    })
}

fn spec(generation: u64) -> NodeSpec {
    NodeSpec {
        generation,
        daemon: None,
    }
}

#[tokio::test]
async fn hello_welcome_spec_report_and_goodbye() {
    let mut scene = Scene::new().await;
    let mut peer = scene.peer().await;
    let hello = hello(&mut peer).await;
    assert_eq!((hello.connect_seq, &hello.facts), (1, &facts(0)));
    assert_eq!(hello.labels["rack"], "7");
    assert_eq!(hello.labels["cpu.arch"], std::env::consts::ARCH);
    say(&mut peer, welcome(&hello)).await;
    assert!(matches!(scene.hear().await, News::Welcomed { .. }));
    say(&mut peer, FromGateway::Spec(Ok(spec(4)))).await;
    assert_eq!(scene.hear().await, News::Spec(Ok(spec(4))));
    scene.facts.send_replace(facts(4));
    let FromNode::Report(report) = read(&mut peer).await else {
        panic!("expected a report");
    };
    assert_eq!((report.number, report.facts), (1, facts(4)));
    scene.leave(Leaving::Updating);
    let FromNode::Goodbye(goodbye) = read(&mut peer).await else {
        panic!("expected a Goodbye");
    };
    assert_eq!(goodbye.reason, GoodbyeReason::Updating);
    assert!(matches!(
        soon(peer.next()).await,
        Some(Ok(Message::Close(_)))
    ));
    // Reading on answers the close, and the node has nothing left to wait for.
    assert!(soon(peer.next()).await.is_none());
    soon(scene.node).await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_does_not_close_keeps_nobody() {
    let mut scene = Scene::new().await;
    let _peer = scene.session().await;
    scene.leave(Leaving::Stopping);
    timeout(Duration::from_secs(5), scene.node)
        .await
        .expect("a stop within five seconds")
        .unwrap();
}

#[tokio::test]
async fn a_node_without_a_session_leaves_at_once() {
    let mut scene = Scene::new().await;
    let _silent = scene.tcp().await;
    scene.leave(Leaving::Stopping);
    soon(scene.node).await.unwrap();
}

#[tokio::test]
async fn a_lost_session_comes_back_under_a_higher_number() {
    let mut scene = Scene::new().await;
    let peer = scene.session().await;
    drop(peer);
    assert!(matches!(scene.lost().await, Ending::Closed(_)));
    let mut peer = scene.peer().await;
    assert_eq!(hello(&mut peer).await.connect_seq, 2);
    let kept = std::fs::read_to_string(scene.folder.path().join("connect-seq")).unwrap();
    assert!(kept.trim().parse::<u64>().unwrap() >= 2);
}

#[tokio::test]
async fn a_goodbye_from_the_gateway() {
    let mut scene = Scene::new().await;
    let mut peer = scene.session().await;
    let superseded = Goodbye {
        reason: GoodbyeReason::Superseded { connect_seq: 900 },
        reconnect_after_ms: 0,
        message: "another".to_owned(),
    };
    say(&mut peer, FromGateway::Goodbye(superseded)).await;
    assert!(matches!(scene.lost().await, Ending::Goodbye(_)));
    let mut peer = scene.peer().await;
    assert_eq!(hello(&mut peer).await.connect_seq, 901);
}

#[tokio::test]
async fn pings_are_answered() {
    let mut scene = Scene::new().await;
    let mut peer = scene.session().await;
    peer.send(Message::Ping("are you there".into()))
        .await
        .unwrap();
    let answer = soon(peer.next()).await.unwrap().unwrap();
    assert_eq!(answer, Message::Pong("are you there".into()));
}

#[tokio::test]
async fn a_server_that_has_no_time_is_no_verdict() {
    let mut scene = Scene::new().await;
    let mut stream = scene.acceptor.accept(scene.tcp().await).await.unwrap();
    let mut request = vec![0; 2048];
    let count = stream.read(&mut request).await.unwrap();
    assert!(request[..count].starts_with(b"GET /session HTTP/1.1\r\n"));
    let busy = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(busy).await.unwrap();
    let refused = Ending::Refused {
        status: 503,
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(scene.lost().await, refused);
}

#[tokio::test]
async fn a_giant_message_ends_the_session() {
    let mut scene = Scene::new().await;
    let mut peer = scene.session().await;
    let giant = vec![0; (1 << 20) + 1];
    // The node may hang up before all of it is out.
    drop(peer.send(Message::Binary(giant.into())).await);
    assert!(matches!(scene.lost().await, Ending::Broken(_)));
}

#[tokio::test]
async fn text_is_not_spoken() {
    let mut scene = Scene::new().await;
    let mut peer = scene.session().await;
    peer.send(Message::Text("hello".into())).await.unwrap();
    let FromNode::Goodbye(goodbye) = read(&mut peer).await else {
        panic!("expected a Goodbye");
    };
    assert_eq!(goodbye.reason, GoodbyeReason::ProtocolError);
    assert!(matches!(scene.lost().await, Ending::Broken(_)));
}

#[tokio::test]
async fn the_newest_facts_win_while_nobody_reads() {
    let mut scene = Scene::new().await;
    let mut peer = scene.session().await;
    for generation in 1..=1000 {
        scene.facts.send_replace(facts(generation));
    }
    let mut numbers = 0;
    loop {
        let FromNode::Report(report) = read(&mut peer).await else {
            panic!("expected a report");
        };
        numbers += 1;
        assert_eq!(report.number, numbers);
        if report.facts == facts(1000) {
            break;
        }
    }
    assert!(numbers < 1000, "what was never sent needs no report");
}
