//! What a handshake costs where nothing else is done: rustls alone, both ends in one thread, the server's share counted.

use std::{
    io::{Read as _, Write as _},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use rcgen::KeyPair;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    client::Resumption,
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject as _,
    },
    server::WebPkiClientVerifier,
    version::TLS13,
};

use crate::load::authority::{Authority, node_id};

/// Handshakes that are counted.
const HANDSHAKES: u32 = 1000;

/// Handshakes before that.
const WARM_UP: u32 = 100;

/// A server's processor time for one full TLS 1.3 handshake with a P-256 client certificate.
pub(super) fn handshake() -> Result<Duration> {
    let (server, client) = ends()?;
    let mut spent = Duration::ZERO;
    for number in 0..WARM_UP + HANDSHAKES {
        let once = shake(&server, &client)?;
        if number >= WARM_UP {
            spent += once;
        }
    }
    Ok(spent / HANDSHAKES)
}

fn shake(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> Result<Duration> {
    let mut spent = Duration::ZERO;
    let mut near = ClientConnection::new(
        Arc::clone(client),
        ServerName::from(IpAddr::from([127, 0, 0, 1])),
    )?;
    let mut far = counted(&mut spent, || {
        Ok(ServerConnection::new(Arc::clone(server))?)
    })?;
    let mut wire = Vec::new();
    while near.is_handshaking() || far.is_handshaking() {
        wire.clear();
        while near.wants_write() {
            near.write_tls(&mut wire)?;
        }
        let come = std::mem::take(&mut wire);
        let answer = counted(&mut spent, || {
            let mut rest = come.as_slice();
            while !rest.is_empty() {
                far.read_tls(&mut rest)?;
                far.process_new_packets()?;
            }
            let mut answer = Vec::new();
            while far.wants_write() {
                far.write_tls(&mut answer)?;
            }
            Ok(answer)
        })?;
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            near.read_tls(&mut rest)?;
            near.process_new_packets()?;
        }
    }
    // One byte, as proof that both have the same keys.
    near.writer().write_all(b"!")?;
    near.write_tls(&mut wire)?;
    let said = counted(&mut spent, || {
        far.read_tls(&mut wire.as_slice())?;
        far.process_new_packets()?;
        let mut said = [0];
        far.reader().read_exact(&mut said)?;
        Ok(said)
    })?;
    anyhow::ensure!(said == *b"!", "expected what was said, found {said:?}");
    Ok(spent)
}

fn counted<T>(spent: &mut Duration, what: impl FnOnce() -> Result<T>) -> Result<T> {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    let from = Duration::from(clock_gettime(clock)?);
    let done = what();
    *spent += Duration::from(clock_gettime(clock)?).saturating_sub(from);
    done
}

fn ends() -> Result<(Arc<ServerConfig>, Arc<ClientConfig>)> {
    let authority = Authority::new()?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(
        authority.own().certificate.as_bytes(),
    )?)?;
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let own = authority.server("urn:bettercompute:bare")?;
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider()).build()?;
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(own.certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(own.key.as_bytes())?,
        )?;
    server.send_tls13_tickets = 0;
    let key = KeyPair::generate()?;
    let leaf = authority
        .node(&node_id(0), &key)
        .context("a node's certificate")?;
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![leaf.into()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )?;
    client.resumption = Resumption::disabled();
    Ok((Arc::new(server), Arc::new(client)))
}
