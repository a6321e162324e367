//! A gateway in a stranger's hands, which carries a genuine renewal.

use std::{fs, time::Duration};

use bc_protocol::{
    certificate::{Holder, company},
    id::NodeId,
    session::{Certificate, FromGateway, FromNode},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CustomExtension, IsCa,
    KeyPair, SanType, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use super::{
    fleet::Fleet,
    node::{Node, write},
    session::Session,
};

fn name() -> SanType {
    let node = NodeId::derived(&[b"node"]);
    SanType::URI(node.urn().try_into().unwrap())
}

/// Gives the node a certificate of which two thirds are over.
fn age(fleet: &Fleet, node: &Node) {
    let key = fs::read_to_string(node.path("state/identity/node.key")).unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![name()];
    params.not_before = date_time_ymd(1980, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    let key = KeyPair::from_pem(&key).unwrap();
    let aged = params.signed_by(&key, &*fleet.issuer).unwrap().pem();
    write(&node.path("state/identity/node.pem"), &aged);
}

async fn request(session: &mut Session) -> Vec<u8> {
    loop {
        if let FromNode::CertificateRequest(der) = session.read().await {
            return der;
        }
    }
}

fn ders(node: &Node, name: &str) -> Vec<Vec<u8>> {
    let pem = fs::read(node.path(&format!("state/identity/{name}"))).unwrap();
    let found = CertificateDer::pem_slice_iter(&pem);
    found.map(|der| der.unwrap().to_vec()).collect()
}

#[tokio::test]
async fn a_gateway_that_carries_a_renewal_gains_nothing_by_it() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    age(&fleet, &node);
    let told = fs::read(node.path("state/identity/node.json")).unwrap();
    let trusted = ders(&node, "ca.pem");
    let _supervise = node.supervise();
    let mut session = fleet.session().await;
    let der = request(&mut session).await.into();
    let mut csr = CertificateSigningRequestParams::from_der(&der).unwrap();
    csr.params.subject_alt_names = vec![name()];
    csr.params.not_before = date_time_ymd(2024, 1, 1);
    let json: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let here = json["gateways"][0].as_str().unwrap();
    let gateways = [here, "wss://two.example/session"];
    let signed = company::digest([&trusted[0][..]], gateways);
    let signed = CustomExtension::from_oid_content(company::OBJECT, company::value(&signed));
    csr.params.custom_extensions = vec![signed];
    let renewed = csr.signed_by(&*fleet.issuer).unwrap().der().to_vec();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let stranger = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let stranger = stranger.der().to_vec();
    let spoilt = Certificate {
        chain: vec![renewed.clone(), stranger.clone()],
        authorities: vec![stranger, trusted[0].clone()],
        gateways: vec!["wss://evil.example/session".to_owned()],
    };
    session.say(FromGateway::Certificate(spoilt)).await;
    let genuine = Certificate {
        chain: vec![renewed.clone()],
        authorities: trusted.clone(),
        gateways: gateways.map(str::to_owned).to_vec(),
    };
    session.say(FromGateway::Certificate(genuine)).await;
    // The names of the files are changed one after the other, this one's last but one.
    let mut tries = 0;
    while ders(&node, "node.pem") != [renewed.clone()] {
        tries += 1;
        assert!(tries < 1200, "expected the genuine certificate to be kept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ders(&node, "ca.pem"), trusted);
    drop(session);
    // It comes back with its new certificate, to where it was told.
    fleet.session().await;
    let after = fs::read(node.path("state/identity/node.json")).unwrap();
    let after: serde_json::Value = serde_json::from_slice(&after).unwrap();
    assert_eq!(after["gateways"], serde_json::json!(gateways));
}
