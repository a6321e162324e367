//! One connection to a gateway, byte by byte: what no library would send can be sent here.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use bc_protocol::{
    digest::Sha256,
    id::NodeId,
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    session::{Facts, FromGateway, FromNode, Hello, ProtocolRange},
};
use rcgen::KeyPair;
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::load::authority::{Authority, node_id};

/// For an honest gateway to answer, on a machine that is busy with something else.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

const REQUEST: &str = "GET /session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Mints nodes: all have one key, and each a certificate of its own.
pub(super) struct Mint {
    key: KeyPair,
    roots: RootCertStore,
}

/// Who a node is.
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) id: NodeId,
    pub(super) tls: Arc<ClientConfig>,
}

impl Mint {
    /// Of an authority.
    pub(super) fn new(authority: &Authority) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(
            authority.own().certificate.as_bytes(),
        )?)?;
        Ok(Self {
            key: KeyPair::generate()?,
            roots,
        })
    }

    /// The node with this number.
    pub(super) fn node(&self, authority: &Authority, number: usize) -> Result<Credential> {
        let id = node_id(number);
        let leaf = authority.node(&id, &self.key)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(self.roots.clone())
            .with_client_auth_cert(vec![leaf.into()], key)?;
        tls.resumption = Resumption::disabled();
        Ok(Credential {
            id,
            tls: Arc::new(tls),
        })
    }
}

/// Connects from an address of loopback.
pub(super) async fn dial(gateway: SocketAddr, from: IpAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = timeout(PATIENCE, socket.connect(gateway)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection that TLS has secured.
pub(super) struct Raw {
    pub(super) stream: TlsStream<TcpStream>,
    read: Vec<u8>,
}

/// A frame as it came: its first byte and its payload.
pub(super) type Frame = (u8, Vec<u8>);

impl Raw {
    /// Secured, and nothing asked yet.
    pub(super) async fn secure(
        gateway: SocketAddr,
        from: IpAddr,
        tls: &Arc<ClientConfig>,
    ) -> Result<Self> {
        let stream = dial(gateway, from).await?;
        let connecting = TlsConnector::from(Arc::clone(tls)).connect(gateway.ip().into(), stream);
        let stream = timeout(PATIENCE, connecting).await?.context("tls")?;
        Ok(Self {
            stream,
            read: Vec::new(),
        })
    }

    /// A request for a session; none of it, all of it or a part.
    pub(super) fn request() -> &'static [u8] {
        REQUEST.as_bytes()
    }

    /// Asks for a session and takes the answer.
    pub(super) async fn upgrade(&mut self) -> Result<()> {
        self.send(Self::request()).await?;
        timeout(PATIENCE, self.switched()).await?
    }

    /// Takes the answer to a request for a session.
    pub(super) async fn switched(&mut self) -> Result<()> {
        loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.read.drain(..end + 4).collect();
                let head = String::from_utf8_lossy(&head);
                ensure!(head.starts_with("HTTP/1.1 101 "), "no session: {head}");
                return Ok(());
            }
            self.more().await?;
        }
    }

    /// Up to the end of the upgrade.
    pub(super) async fn upgraded(
        gateway: SocketAddr,
        from: IpAddr,
        tls: &Arc<ClientConfig>,
    ) -> Result<Self> {
        let mut raw = Self::secure(gateway, from, tls).await?;
        raw.upgrade().await?;
        Ok(raw)
    }

    /// Sends bytes as they are.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sending = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        Ok(timeout(PATIENCE, sending).await??)
    }

    /// Says something as a node does.
    pub(super) async fn say(&mut self, message: FromNode) -> Result<()> {
        self.send(&masked(0x82, &message.encode())).await
    }

    /// The gateway's next message; pings are answered.
    pub(super) async fn hear(&mut self) -> Result<FromGateway> {
        timeout(PATIENCE, async {
            loop {
                let (first, payload) = self.frame().await?;
                match first & 0x0f {
                    0x2 => return Ok(FromGateway::decode(&payload)?),
                    0x9 => self.stream.write_all(&masked(0x8a, &payload)).await?,
                    0xa => {}
                    _ => bail!("expected a message, found a frame that begins with {first:#x}"),
                }
            }
        })
        .await?
    }

    /// Hello and Welcome.
    pub(super) async fn greet(&mut self, hello: Hello) -> Result<()> {
        let nonce = hello.nonce;
        self.say(FromNode::Hello(hello)).await?;
        match self.hear().await? {
            FromGateway::Welcome(welcome) => {
                ensure!(welcome.nonce == nonce, "a Welcome to somebody else's Hello");
                Ok(())
            }
            other @ (FromGateway::Goodbye(_)
            | FromGateway::Spec(_)
            | FromGateway::Command(_)
            | FromGateway::Certificate(_)) => bail!("expected a Welcome, found {other:?}"),
        }
    }

    /// The next frame, whatever it is.
    pub(super) async fn frame(&mut self) -> Result<Frame> {
        loop {
            if let Some(frame) = taken(&mut self.read) {
                return Ok(frame);
            }
            self.more().await?;
        }
    }

    /// Reads until the other side has ended, and drops what comes.
    pub(super) async fn end(&mut self) {
        let mut drain = [0; 4096];
        while let Ok(1..) = self.stream.read(&mut drain).await {}
    }

    async fn more(&mut self) -> Result<()> {
        let before = self.read.len();
        let count = self.stream.read_buf(&mut self.read).await?;
        ensure!(count > 0, "the gateway left after {before} bytes");
        Ok(())
    }
}

/// A whole frame at the front of what was read.
fn taken(read: &mut Vec<u8>) -> Option<Frame> {
    let (first, second) = (*read.first()?, *read.get(1)?);
    let number = |range: std::ops::Range<usize>| {
        let bytes = read.get(range)?;
        let value = bytes
            .iter()
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        usize::try_from(value).ok()
    };
    let (head, length): (usize, usize) = match second {
        0..=125 => (2, usize::from(second)),
        126 => (4, number(2..4)?),
        127.. => (10, number(2..10)?),
    };
    let payload = read.get(head..head.checked_add(length)?)?.to_vec();
    read.drain(..head + length);
    Some((first, payload))
}

/// A frame as clients send it, under a mask of zeros.
pub(super) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, 0x80, payload.len() as u64);
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// A frame's head that says whatever length, with the bit for a mask or without.
pub(super) fn head(first: u8, mask: u8, length: u64) -> Vec<u8> {
    let mut frame = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..=125), _) => frame.push(mask | short),
        (_, Ok(length)) => {
            frame.push(mask | 126);
            frame.extend(length.to_be_bytes());
        }
        (_, Err(_)) => {
            frame.push(mask | 127);
            frame.extend(length.to_be_bytes());
        }
    }
    frame
}

/// A Hello of a node that has counted so far.
pub(super) fn hello(connect_seq: u64, generation: u64) -> Result<Hello> {
    Ok(Hello {
        nonce: rand::random(),
        protocols: ProtocolRange::CURRENT,
        connect_seq,
        facts: facts(generation)?,
        commands_in_flight: Vec::new(),
        labels: [("cpu.arch".to_owned(), std::env::consts::ARCH.to_owned())].into(),
    })
}

/// Facts that differ from others by their generation.
pub(super) fn facts(observed_generation: u64) -> Result<Facts> {
    Ok(Facts {
        version: "1.0.0".parse()?,
        platform: Platform::host(),
        boot_id: "simulated".to_owned(),
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b"simulated"),
        floor: ReleaseFloor::NONE,
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation,
        held: None,
        notice: None,
        helper: None,
        started: None,
    })
}
