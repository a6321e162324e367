//! Certificates that are renewed, over a session and without one.

use std::os::unix::fs::MetadataExt;

use bc_protocol::{id::NodeId, session::Certificate};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use super::*;
use crate::identity::Membership;
use crate::node::credentials::RenewError;

/// A life that began so long ago is over two thirds gone.
const DUE: Range<i32> = 1980..2040;

/// A certificate of the last century.
const ENDED: Range<i32> = 1990..2000;

fn answer(authority: &Authority, csr: &str) -> Membership {
    let node_id = NodeId::derived(&[b"node"]);
    authority.membership(csr, &node_id, "wss://127.0.0.1:1/session")
}

fn ders(pem: &str) -> Vec<Vec<u8>> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    certificates.map(|der| der.unwrap().to_vec()).collect()
}

fn over_a_session(membership: &Membership) -> FromGateway {
    FromGateway::Certificate(carried(membership))
}

async fn request(peer: &mut Peer) -> String {
    loop {
        let Message::Binary(bytes) = soon(peer.next()).await.unwrap().unwrap() else {
            continue;
        };
        if let FromNode::CertificateRequest(der) = FromNode::decode(&bytes).unwrap() {
            return pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der));
        }
    }
}

fn kept(scene: &Scene) -> Vec<u8> {
    Identity::load(scene.folder.path()).unwrap().chain()[0].to_vec()
}

#[tokio::test]
async fn a_certificate_is_renewed_over_the_session_and_kept() {
    let authority = Authority::new();
    let mut scene = Scene::at(&authority, authority.gateway("127.0.0.1"), DUE, None).await;
    let mut peer = scene.session().await;
    let csr = request(&mut peer).await;
    let first = kept(&scene);
    // A gateway that slips in an authority of its own is not believed.
    let foreign = answer(&Authority::new(), &csr);
    say(&mut peer, over_a_session(&foreign)).await;
    let renewed = answer(&authority, &csr);
    say(&mut peer, over_a_session(&renewed)).await;
    let [expected] = &ders(&renewed.certificate)[..] else {
        panic!("expected one certificate");
    };
    // What comes behind the certificate is seen behind it.
    say(&mut peer, FromGateway::Spec(Ok(spec(1)))).await;
    assert!(matches!(scene.hear().await, News::Spec(_)));
    assert_ne!(first, *expected);
    assert_eq!(kept(&scene), *expected);
}

/// One answer of control, and what a gateway makes of it on its way.
struct Carried {
    authority: Authority,
    stranger: Authority,
    scene: Scene,
    peer: Peer,
    csr: String,
}

impl Carried {
    async fn new() -> Self {
        let authority = Authority::new();
        let mut scene = Scene::at(&authority, authority.gateway("127.0.0.1"), DUE, None).await;
        let mut peer = scene.session().await;
        let csr = request(&mut peer).await;
        Self {
            authority,
            stranger: Authority::new(),
            scene,
            peer,
            csr,
        }
    }

    /// What control answers where those are trusted.
    fn answer(&self, trusted: &[&Authority], gateways: &[&str]) -> Membership {
        let node_id = NodeId::derived(&[b"node"]);
        self.authority
            .answer(&self.csr, &node_id, trusted, gateways)
    }

    /// Says it, and gives what the node has kept then.
    async fn kept(&mut self, certificate: Certificate) -> Identity {
        say(&mut self.peer, FromGateway::Certificate(certificate)).await;
        say(&mut self.peer, FromGateway::Spec(Ok(spec(1)))).await;
        assert!(matches!(self.scene.hear().await, News::Spec(_)));
        Identity::load(self.scene.folder.path()).unwrap()
    }
}

fn carried(membership: &Membership) -> Certificate {
    Certificate {
        chain: ders(&membership.certificate),
        authorities: ders(&membership.authorities),
        gateways: membership.gateways.clone(),
    }
}

#[tokio::test]
async fn what_control_has_signed_beside_a_certificate_is_kept() {
    let mut carried_by = Carried::new().await;
    let trusted = [&carried_by.authority, &carried_by.stranger];
    let gateways = ["wss://one.example/session", "wss://two.example/session"];
    let answer = carried_by.answer(&trusted, &gateways);
    let identity = carried_by.kept(carried(&answer)).await;
    assert_eq!(identity.gateways(), gateways);
    let authorities: Vec<_> = identity
        .authorities()
        .iter()
        .map(|der| der.to_vec())
        .collect();
    assert_eq!(authorities, ders(&answer.authorities));
}

/// The certificate is genuine each time, and yet not taken with what a gateway has done to the rest: whoever shows it
/// is known to know the rest.
#[tokio::test]
async fn a_gateway_cannot_touch_whom_a_node_trusts_and_where_it_goes() {
    let evil = "wss://evil.example/session".to_owned();
    type Spoil = fn(&mut Certificate, Vec<u8>, String);
    let spoils: [(&str, Spoil); 6] = [
        ("adds an authority", |c, der, _| c.authorities.push(der)),
        ("adds a gateway", |c, _, url| c.gateways.push(url)),
        ("is the only gateway", |c, _, url| c.gateways = vec![url]),
        ("names no gateway", |c, _, _| c.gateways.clear()),
        ("puts its own first", |c, der, url| {
            c.authorities.insert(0, der);
            c.gateways.insert(0, url);
        }),
        ("sends as much as it can", |c, _, url| {
            c.chain.extend(vec![vec![0x30; 100_000]; 7]);
            c.gateways = vec![url; 200];
        }),
    ];
    for (what, spoil) in spoils {
        let mut carried_by = Carried::new().await;
        let own = carried_by.scene.url();
        let answer = carried_by.answer(&[&carried_by.authority], &["wss://two.example/session"]);
        let before = kept(&carried_by.scene);
        let mut certificate = carried(&answer);
        let stranger = ders(&carried_by.stranger.pem()).remove(0);
        spoil(&mut certificate, stranger, evil.clone());
        let identity = carried_by.kept(certificate).await;
        assert_eq!(identity.chain()[0].to_vec(), before, "{what}");
        let authorities: Vec<_> = identity
            .authorities()
            .iter()
            .map(|der| der.to_vec())
            .collect();
        assert_eq!(authorities, ders(&carried_by.authority.pem()), "{what}");
        assert_eq!(identity.gateways(), [own], "{what}");
        let identity = carried_by.kept(carried(&answer)).await;
        let chain: Vec<_> = identity.chain().iter().map(|der| der.to_vec()).collect();
        assert_eq!(chain, ders(&answer.certificate), "{what}");
        assert_eq!(identity.gateways(), answer.gateways, "{what}");
    }
}

#[tokio::test]
async fn a_certificate_that_somebody_has_kept_is_not_taken() {
    let carried_by = Carried::new().await;
    let first = carried_by.answer(&[&carried_by.authority], &["wss://old.example/session"]);
    let newer = carried_by.scene.folder.path().join("newer");
    let own = carried_by
        .authority
        .enrol(&newer, "wss://new.example/session", 2030..2060);
    for name in ["node.key", "node.pem", "node.json"] {
        std::fs::copy(newer.join(name), carried_by.scene.folder.path().join(name)).unwrap();
    }
    let mut credentials = credentials(carried_by.scene.folder.path(), own, None);
    let error = credentials.accept(&carried(&first)).unwrap_err();
    assert!(matches!(error, RenewError::Older { .. }), "{error}");
}

#[tokio::test]
async fn a_certificate_that_comes_again_is_not_written_again() {
    let mut carried_by = Carried::new().await;
    let answer = carried_by.answer(&[&carried_by.authority], &["wss://two.example/session"]);
    carried_by.kept(carried(&answer)).await;
    let file = carried_by.scene.folder.path().join("node.json");
    let written = || std::fs::metadata(&file).unwrap().ino();
    let before = written();
    carried_by.kept(carried(&answer)).await;
    assert_eq!(written(), before);
}

#[tokio::test]
async fn a_node_that_no_gateway_welcomes_asks_control_where_they_are() {
    let authority = Authority::new();
    let control = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", control.local_addr().unwrap());
    let mut scene = Scene::begun(
        Begun {
            authority: &authority,
            gateway: authority.gateway("127.0.0.1"),
            years: 2020..2120,
            control: Some(&url.parse().unwrap()),
            lonely_after: Duration::ZERO,
        },
        // Where nobody is any more.
        Some("wss://127.0.0.1:1/session"),
    )
    .await;
    // Control is away at first: that keeps the node from no gateway.
    drop(soon(control.accept()).await.unwrap());
    assert!(matches!(scene.lost().await, Ending::Unreachable(_)));
    let here = scene.url();
    let answering = async {
        loop {
            let (mut stream, _) = control.accept().await.unwrap();
            let asked = body(&mut stream).await;
            let renewed = Membership {
                gateways: vec![here.clone()],
                ..answer(&authority, asked["csr"].as_str().unwrap())
            };
            respond(&mut stream, &renewed).await;
        }
    };
    let found = async {
        let mut peer = scene.peer().await;
        let hello = hello(&mut peer).await;
        say(&mut peer, welcome(&hello)).await;
        // What it had chosen before it asked was still tried.
        while !matches!(scene.hear().await, News::Welcomed { .. }) {}
        peer
    };
    let peer = tokio::select! {
        () = answering => panic!("control answers for as long as it is asked"),
        peer = found => peer,
    };
    let shown = peer.get_ref().get_ref().1.peer_certificates().unwrap();
    assert_eq!(shown[0].to_vec(), kept(&scene));
}

#[tokio::test]
async fn a_node_whose_certificate_has_ended_gets_one_from_control_first() {
    let authority = Authority::new();
    let control = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", control.local_addr().unwrap());
    let mut scene = Scene::at(
        &authority,
        authority.gateway("127.0.0.1"),
        ENDED,
        Some(&url.parse().unwrap()),
    )
    .await;
    // Control is away at first; the node does not blame its gateways, and asks again.
    drop(soon(control.accept()).await.unwrap());
    assert!(matches!(scene.lost().await, Ending::Unreachable(_)));
    let (mut stream, _) = soon(control.accept()).await.unwrap();
    let asked = body(&mut stream).await;
    assert_eq!(asked["nodeId"], NodeId::derived(&[b"node"]).as_str());
    let renewed = Membership {
        gateways: vec![scene.url()],
        ..answer(&authority, asked["csr"].as_str().unwrap())
    };
    respond(&mut stream, &renewed).await;
    let peer = scene.session().await;
    let shown = peer.get_ref().get_ref().1.peer_certificates().unwrap();
    assert_eq!(shown[0].to_vec(), ders(&renewed.certificate)[0]);
    assert_eq!(kept(&scene), ders(&renewed.certificate)[0]);
}

async fn respond(stream: &mut TcpStream, renewed: &Membership) {
    let json = serde_json::to_string(renewed).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", json.len());
    stream.write_all((head + &json).as_bytes()).await.unwrap();
}

/// The JSON of one request.
async fn body(stream: &mut TcpStream) -> serde_json::Value {
    let mut heard = Vec::new();
    loop {
        let read = soon(stream.read_buf(&mut heard)).await.unwrap();
        assert!(read > 0, "expected a whole request");
        let text = String::from_utf8_lossy(&heard);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(json) = serde_json::from_str(body)
        {
            assert!(head.starts_with("POST /api/compute/nodes/renew"), "{head}");
            return json;
        }
    }
}
