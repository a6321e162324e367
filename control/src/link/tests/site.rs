//! A control with two gateways and three nodes in its database, and the gateways' ends of links.

use std::{io, sync::Arc, time::Duration};

use bc_protocol::{
    digest::Sha256,
    id::{GatewayId, NodeId, SessionId},
    link::{
        Batch, Event, FromControl, FromGateway, LinkHello, LinkWelcome, NodeReport, SessionClosed,
        SessionOpened,
    },
    release::Trust,
    sequence::{ReleaseFloor, Sequence},
    session::Facts,
};
use futures_util::{SinkExt as _, StreamExt as _};
use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore, crypto::ring, version::TLS13};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use tokio::{net::TcpStream, sync::Semaphore, task::JoinHandle, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};
use tokio_util::sync::CancellationToken;

use super::super::{Shared, routes::Routes, serve, tls_server, turns::Turns};
use crate::{
    clock::Moment,
    db::{Db, query, query_scalar, tests::fresh},
    fleet::authority::{Authority, CertifiedKey, Lifetimes},
    rollout::service::Services,
};

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// Waits, but not for ever.
pub(super) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), what)
        .await
        .expect("it should have happened by now")
}

pub(super) fn node(name: u8) -> NodeId {
    NodeId::derived(&[&[name]])
}

fn session(name: u8, connect_seq: u64) -> SessionId {
    SessionId::derived(&[&[name], &connect_seq.to_be_bytes()])
}

fn facts(report: u64) -> Facts {
    Facts {
        version: "1.0.0".parse().unwrap(),
        platform: "linux-amd64".parse().unwrap(),
        boot_id: "boot".to_owned(),
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b"x"),
        floor: ReleaseFloor::NONE,
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation: report,
        held: None,
        notice: None,
        helper: None,
        started: None,
    }
}

pub(super) fn opened(name: u8, connect_seq: u64) -> Event {
    Event::Opened(SessionOpened {
        node: node(name),
        session: session(name, connect_seq),
        connect_seq,
        protocol: 1,
        upgrade_only: false,
        report: 0,
        facts: facts(0),
        labels: [("cpu.arch".to_owned(), "x86_64".to_owned())].into(),
        company: None,
    })
}

pub(super) fn report(name: u8, connect_seq: u64, report: u64) -> Event {
    Event::Report(NodeReport {
        node: node(name),
        session: session(name, connect_seq),
        connect_seq,
        report,
        facts: facts(report),
    })
}

pub(super) fn closed(name: u8, connect_seq: u64) -> Event {
    Event::Closed(SessionClosed {
        node: node(name),
        session: session(name, connect_seq),
        connect_seq,
        reason: "test".to_owned(),
    })
}

pub(super) fn listed() -> Event {
    Event::Listed
}

pub(super) struct Site {
    pub(super) services: Services,
    pub(super) authority: Arc<Authority>,
    address: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<io::Result<()>>,
    dir: tempfile::TempDir,
}

/// A link that was welcomed.
pub(super) struct Dialled {
    pub(super) link: Link,
    pub(super) welcome: LinkWelcome,
}

/// A gateway's end of a link.
pub(super) struct Link(pub(super) Socket);

impl Site {
    pub(super) async fn new() -> Self {
        let (db, dir) = fresh().await;
        fill(&db).await;
        let now = Moment::now();
        let authority = Arc::new(Authority::open(dir.path(), Lifetimes::default(), now).unwrap());
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let trust = Trust::new([bc_protocol::digest::Pin::of_spki(b"nobody's")], 1).unwrap();
        let services = Services::new(db, trust, "https://x.example", Duration::from_secs(300));
        let tls = tls_server(
            &authority,
            &format!("wss://{address}/link"),
            (&services.metrics, now),
        )
        .unwrap();
        let stop = CancellationToken::new();
        let links = serve(
            socket,
            tls,
            services.clone(),
            Arc::clone(&authority),
            stop.clone(),
        );
        let task = tokio::spawn(links);
        Self {
            services,
            authority,
            address,
            stop,
            task,
            dir,
        }
    }

    /// As another process would share it: with links of its own, and the same database.
    pub(super) fn shared(&self) -> Shared {
        Shared {
            services: self.services.clone(),
            authority: Arc::clone(&self.authority),
            routes: Routes::default(),
            turns: Turns::new(self.stop.clone()),
            strangers: Arc::new(Semaphore::new(1)),
        }
    }

    pub(super) fn gateway(&self, name: &str) -> GatewayId {
        GatewayId::derived(&[name.as_bytes()])
    }

    /// A link of an enrolled gateway, welcomed.
    pub(super) async fn link(&self, name: &str) -> Link {
        self.dial(name).await.link
    }

    pub(super) async fn dial(&self, name: &str) -> Dialled {
        let tls = self.gateway_tls(&self.gateway(name));
        let mut link = Link(self.connect(tls).await.expect("it is let in"));
        link.hello().await;
        let first = link.next().await;
        let FromControl::Welcome(welcome) = first else {
            panic!("expected a welcome, found {first:?}")
        };
        Dialled { link, welcome }
    }

    /// A connection without a word on it, if control lets it in.
    pub(super) async fn connect(&self, tls: ClientConfig) -> Option<Socket> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::from(self.address.ip());
        let connector = TlsConnector::from(Arc::new(tls));
        let stream = soon(connector.connect(name, stream)).await.ok()?;
        let url = format!("wss://{}/link", self.address);
        Some(soon(client_async(url, stream)).await.ok()?.0)
    }

    pub(super) fn gateway_tls(&self, gateway: &GatewayId) -> ClientConfig {
        self.client(|authority, key, now| {
            authority
                .issue_gateway(key, gateway, "127.0.0.1", now)
                .unwrap()
        })
    }

    pub(super) fn node_tls(&self) -> ClientConfig {
        self.client(|authority, key, now| authority.issue_node(key, &node(0), &[], now).unwrap())
    }

    pub(super) fn nobody_tls(&self) -> ClientConfig {
        self.client_builder().with_no_client_auth()
    }

    fn client(
        &self,
        issue: impl FnOnce(&Authority, &CertifiedKey, Moment) -> String,
    ) -> ClientConfig {
        let key = KeyPair::generate().unwrap();
        let request = CertificateParams::default()
            .serialize_request(&key)
            .unwrap();
        let certified = CertifiedKey::from_request(&request.pem().unwrap()).unwrap();
        let pem = issue(&self.authority, &certified, Moment::now());
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = self
            .client_builder()
            .with_client_auth_cert(vec![certificate], key);
        config.unwrap()
    }

    fn client_builder(
        &self,
    ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.root().clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
    }

    /// The node's connection counter and whether it is online; none before its first fact.
    pub(super) async fn online(&self, name: u8) -> Option<(i64, bool)> {
        let row = query("SELECT connect_seq, online FROM node_facts WHERE node_id = $1")
            .bind(node(name).as_str())
            .fetch_optional(self.services.db.reader())
            .await
            .unwrap()?;
        Some((row.get("connect_seq"), row.get("online")))
    }

    pub(super) async fn linked(&self, name: &str) -> bool {
        query_scalar("SELECT linked FROM gateways WHERE id = $1")
            .bind(self.gateway(name).as_str())
            .fetch_one(self.services.db.reader())
            .await
            .unwrap()
    }

    /// Waits until control has noticed that a link is over.
    pub(super) async fn unlinked(&self, name: &str) {
        soon(async {
            while self.linked(name).await {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Gateways of these names can be reached, and no others.
    pub(super) async fn enrolled(&self, names: &[&str]) {
        let mut tx = self.services.db.begin().await.unwrap();
        for name in ["a", "b"] {
            query("UPDATE gateways SET url = $2, enrolled_at = $3 WHERE name = $1")
                .bind(name)
                .bind(format!("wss://{name}.example/session"))
                .bind(names.contains(&name).then_some(1_i64))
                .execute(&mut *tx)
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
    }

    /// Lets a node, or a gateway, have this key.
    pub(super) async fn has_key(&self, table: &'static str, id: &str, spki: &[u8]) {
        let mut tx = self.services.db.begin().await.unwrap();
        let statement = match table {
            "nodes" => "UPDATE nodes SET spki = $2 WHERE id = $1",
            _ => "UPDATE gateways SET spki = $2 WHERE id = $1",
        };
        query(statement)
            .bind(id)
            .bind(spki)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    pub(super) async fn remove(&self, name: u8) {
        let mut tx = self.services.db.begin().await.unwrap();
        query("UPDATE nodes SET removed_at = 1 WHERE id = $1")
            .bind(node(name).as_str())
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    /// The folder holds the database, and goes with the last value.
    pub(super) async fn stop(self) -> (Db, io::Result<()>, tempfile::TempDir) {
        self.stop.cancel();
        let done = soon(self.task).await.unwrap();
        (self.services.db, done, self.dir)
    }
}

impl Link {
    pub(super) async fn hello(&mut self) {
        self.hello_of([0; 16]).await;
    }

    /// As that process of the gateway.
    pub(super) async fn hello_of(&mut self, process: [u8; 16]) {
        let hello = FromGateway::Hello(LinkHello {
            version: "0".to_owned(),
            process,
        });
        self.say(hello).await;
    }

    pub(super) async fn batch(&mut self, number: u64, events: impl Into<Vec<Event>>) {
        let events = events.into();
        self.say(FromGateway::Batch(Batch { number, events })).await;
    }

    pub(super) async fn say(&mut self, frame: FromGateway) {
        let message = Message::Binary(frame.encode());
        soon(self.0.send(message)).await.unwrap();
    }

    pub(super) async fn next(&mut self) -> FromControl {
        loop {
            match soon(self.0.next()).await {
                Some(Ok(Message::Binary(bytes))) => return FromControl::decode(&bytes).unwrap(),
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("expected a frame, found {other:?}"),
            }
        }
    }

    /// Nothing but the end comes.
    pub(super) async fn ends(&mut self) {
        while let Some(Ok(message)) = soon(self.0.next()).await {
            if let Message::Binary(bytes) = message {
                let frame = FromControl::decode(&bytes).unwrap();
                assert!(matches!(frame, FromControl::Spec(_)), "{frame:?}");
            }
        }
    }
}

async fn fill(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    for statement in [
        "INSERT INTO pools (id, tenant, name, budget_ppm, nodes, created_at)
         VALUES ('pool_00000000000000000000000000', 'root', 'p', 0, 3, 0)",
        "INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
         VALUES ('t', 'root', 'pool_00000000000000000000000000', cast('' AS BLOB), 1, 0, 0, 'x')",
    ] {
        query(statement).execute(&mut *tx).await.unwrap();
    }
    for name in 0..3_u8 {
        query(
            "INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)
             VALUES ($1, 'root', 'pool_00000000000000000000000000', 't', $2, '{}', 0)",
        )
        .bind(node(name).as_str())
        .bind(vec![name])
        .execute(&mut *tx)
        .await
        .unwrap();
    }
    for name in ["a", "b"] {
        query(
            "INSERT INTO gateways (id, name, url, token_sha256, token_expires_at, created_at, created_by)
             VALUES ($1, $2, 'wss://x/session', cast('' AS BLOB), 0, 0, 'x')",
        )
        .bind(GatewayId::derived(&[name.as_bytes()]).as_str())
        .bind(name)
        .execute(&mut *tx)
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
}
