use std::time::Duration;

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::{ClientConfig, RootCertStore, server::WebPkiClientVerifier, version::TLS13};
use rustls_pki_types::{PrivateKeyDer, ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::tls::{Greeting, Patience, provider};

impl Patience for DuplexStream {
    fn wake_for(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
}

struct Ends {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    stranger: Arc<ClientConfig>,
}

fn ends() -> Ends {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(authority.self_signed(&key).unwrap().der().clone())
        .unwrap();
    let issuer = Issuer::new(authority, key);
    let shown = || {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (vec![leaf.der().clone()], key)
    };
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider())
        .build()
        .unwrap();
    let (chain, key) = shown();
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .unwrap();
    // As the gateway has it.
    server.send_tls13_tickets = 0;
    let client = || {
        ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots.clone())
    };
    let (chain, key) = shown();
    Ends {
        server: Arc::new(server),
        client: Arc::new(client().with_client_auth_cert(chain, key).unwrap()),
        stranger: Arc::new(client().with_no_client_auth()),
    }
}

async fn connect(config: &Arc<ClientConfig>, stream: DuplexStream) -> TlsStream<DuplexStream> {
    let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, stream).await.unwrap()
}

async fn accept(
    stream: DuplexStream,
    config: Arc<ServerConfig>,
    place: Where,
) -> io::Result<Secured<DuplexStream>> {
    let greeting = Greeting::hear(stream).await?;
    let greeting = greeting.ok_or(io::ErrorKind::UnexpectedEof)?;
    greeting.answer(config, &Keying::default(), place).await
}

async fn pair(ends: &Ends, room: usize) -> (TlsStream<DuplexStream>, Secured<DuplexStream>) {
    pair_at(ends, room, Where::Here).await
}

async fn pair_at(
    ends: &Ends,
    room: usize,
    place: Where,
) -> (TlsStream<DuplexStream>, Secured<DuplexStream>) {
    let (near, far) = duplex(room);
    let (client, server) = tokio::join!(
        connect(&ends.client, near),
        accept(far, Arc::clone(&ends.server), place)
    );
    (client, server.unwrap())
}

fn holds_nothing(server: &Secured<DuplexStream>) -> bool {
    server.encrypted.capacity() + server.plain.bytes.capacity() + server.leaving.bytes.capacity()
        == 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is said arrives, both ways, through a wire of any width, and no buffer is left behind.
    #[test]
    fn both_ends_hear_each_other(
        // The other end's library waits for itself where not even the smallest record fits.
        room in prop_oneof![8usize..40, 100usize..40_000],
        sizes in proptest::collection::vec(0usize..40_000, 1..4),
        place in prop_oneof![Just(Where::Here), Just(Where::Aside)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, mut server) = pair_at(&ends(), room, place).await;
            assert!(server.peer().is_some() && holds_nothing(&server));
            let (mut hearing, mut saying) = tokio::io::split(client);
            for size in sizes {
                let said: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0]).collect();
                let echo = async {
                    let mut heard = vec![0; size];
                    server.read_exact(&mut heard).await.unwrap();
                    server.write_all(&heard).await.unwrap();
                    server.flush().await.unwrap();
                };
                let talk = async {
                    saying.write_all(&said).await.unwrap();
                    saying.flush().await.unwrap();
                };
                let mut heard = vec![0; size];
                let listen = async { hearing.read_exact(&mut heard).await.unwrap() };
                tokio::join!(echo, talk, listen);
                assert_eq!(heard, said);
                assert!(holds_nothing(&server));
            }
        });
    }
}

#[tokio::test]
async fn an_end_that_is_said_is_an_end_and_another_is_an_error() {
    let ends = ends();
    let (mut client, mut server) = pair(&ends, 4096).await;
    client.shutdown().await.unwrap();
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    let (client, mut server) = pair(&ends, 4096).await;
    drop(client);
    let error = server.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    let (mut client, mut server) = pair(&ends, 4096).await;
    server.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_peer_may_change_its_keys() {
    let (mut client, mut server) = pair(&ends(), 4096).await;
    for round in 0..3_u8 {
        client.get_mut().1.refresh_traffic_keys().unwrap();
        client.write_all(&[round]).await.unwrap();
        client.flush().await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), round);
        server.write_all(&[round]).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), round);
        assert!(holds_nothing(&server));
    }
}

#[tokio::test]
async fn a_stranger_is_told_and_left() {
    let ends = ends();
    let (near, far) = duplex(4096);
    let server = tokio::spawn(accept(far, Arc::clone(&ends.server), Where::Aside));
    let mut client = connect(&ends.stranger, near).await;
    let told = client.read(&mut [0]).await.unwrap_err().to_string();
    assert!(told.contains("CertificateRequired"), "{told}");
    assert!(server.await.unwrap().is_err());
}

#[tokio::test]
async fn whatever_is_no_tls_ends_with_little_read() {
    for junk in [
        b"GET / HTTP/1.1\r\n\r\n".repeat(10_000),
        vec![0x16; 200_000],
        [&[0x16, 3, 1, 0x40, 0][..], &[1; 100_000]].concat(),
        // A handshake message that says it has sixteen megabytes.
        [
            &[0x16, 3, 1, 0x40, 0, 1, 0xFF, 0xFF, 0xFF][..],
            &[0; 0x3FFC],
        ]
        .concat()
        .repeat(20),
    ] {
        let (mut near, far) = duplex(4096);
        let server = tokio::spawn(accept(far, Arc::clone(&ends().server), Where::Here));
        let mut sent = 0;
        for piece in junk.chunks(1000) {
            if near.write_all(piece).await.is_err() {
                break;
            }
            sent += piece.len();
        }
        drop(near);
        let ended = timeout(Duration::from_secs(10), server).await.unwrap();
        assert!(ended.unwrap().is_err());
        assert!(sent <= UNDONE_BYTES_MAX + 20_000, "{sent}");
    }
}

#[tokio::test]
async fn half_a_message_may_wait_while_others_are_said() {
    let (mut client, mut server) = pair(&ends(), 4096).await;
    client.get_mut().1.refresh_traffic_keys().unwrap();
    let mut record = Vec::new();
    while client.get_ref().1.wants_write() {
        client.get_mut().1.write_tls(&mut record).unwrap();
    }
    let (first, rest) = record.split_at(record.len() / 2);
    for part in [first, rest] {
        client.get_mut().0.write_all(part).await.unwrap();
        // It has read what there is, and found no whole record.
        let nothing = timeout(Duration::from_millis(50), server.read_u8()).await;
        assert!(nothing.is_err());
        server.write_all(b"meanwhile").await.unwrap();
        let mut heard = [0; 9];
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"meanwhile");
    }
    client.write_all(b"!").await.unwrap();
    client.flush().await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'!');
    assert!(holds_nothing(&server));
}
