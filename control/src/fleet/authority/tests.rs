use std::os::unix::fs::PermissionsExt as _;

use bc_protocol::certificate::company;
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::{Authority, AuthorityError, CertifiedKey, Lifetimes, RequestError};
use crate::clock::Moment;

const NOW: Moment = Moment::from_millis(1_790_000_000_000);

fn request(key: &KeyPair) -> String {
    CertificateParams::new(vec!["evil.example".to_owned()])
        .unwrap()
        .serialize_request(key)
        .unwrap()
        .pem()
        .unwrap()
}

fn with_certificate(pem: &str, look: impl FnOnce(&X509Certificate<'_>)) {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    look(&X509Certificate::from_der(&der).unwrap().1);
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => format!("dns:{name}"),
        GeneralName::URI(name) => format!("uri:{name}"),
        GeneralName::IPAddress(bytes) => format!("ip:{bytes:?}"),
        GeneralName::OtherName(..)
        | GeneralName::RFC822Name(_)
        | GeneralName::X400Address(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EDIPartyName(_)
        | GeneralName::RegisteredID(_)
        | GeneralName::Invalid(..) => format!("{name:?}"),
    };
    names.value.general_names.iter().map(text).collect()
}

#[test]
fn it_is_made_once_and_its_key_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let first = Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
    let again = Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
    assert_eq!(first.pem(), again.pem());
    let mode = std::fs::metadata(dir.path().join("authority.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_first_start_that_was_cut_short_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
    std::fs::remove_file(dir.path().join("authority.pem")).unwrap();
    Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
}

#[test]
fn a_lost_key_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
    std::fs::remove_file(dir.path().join("authority.key")).unwrap();
    let refused = Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap_err();
    assert!(matches!(refused, AuthorityError::KeyMissing { .. }));
}

#[test]
fn what_is_no_key_or_no_certificate_is_named_by_its_file() {
    for (name, content) in [
        ("authority.key", "junk"),
        (
            "authority.key",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        ),
        ("authority.pem", "junk"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
        let path = dir.path().join(name);
        crate::files::replace_private(&path, content.as_bytes()).unwrap();
        let refused = Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap_err();
        let said = refused.to_string();
        let path = path.display().to_string();
        assert!(said.contains(&path) && said.contains("backup"), "{said}");
    }
}

#[test]
fn of_a_request_only_the_key_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let proven = CertifiedKey::from_request(&request(&key)).unwrap();
    let node = bc_protocol::id::NodeId::random(1, 2);
    let gateway = "wss://one.example/session";
    let pem = authority
        .issue_node(&proven, &node, &[gateway.to_owned()], NOW)
        .unwrap();
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let told = company::digest([&authority.root()[..]], [gateway]);
    assert_eq!(company::of(&der), Ok(Some(told)));
    with_certificate(&pem, |certificate| {
        assert_eq!(
            names(certificate),
            [format!("uri:urn:bettercompute:node:{node}")]
        );
        assert_eq!(certificate.public_key().raw, proven.spki());
        let uses = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(uses.client_auth && !uses.server_auth && !certificate.is_ca());
        let days = certificate.validity().not_after.timestamp() - NOW.millis() / 1000;
        assert_eq!(days, 30 * 24 * 60 * 60);
        with_certificate(authority.pem(), |root| {
            certificate
                .verify_signature(Some(root.public_key()))
                .unwrap();
        });
    });
}

#[test]
fn a_gateway_is_named_by_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let proven = CertifiedKey::from_request(&request(&key)).unwrap();
    let gateway = bc_protocol::id::GatewayId::random(1, 2);
    for (host, name) in [
        ("gw1.example", "dns:gw1.example"),
        ("127.0.0.1", "ip:[127, 0, 0, 1]"),
        (
            "[::1]",
            "ip:[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]",
        ),
    ] {
        let pem = authority
            .issue_gateway(&proven, &gateway, host, NOW)
            .unwrap();
        with_certificate(&pem, |certificate| {
            assert_eq!(names(certificate)[0], name);
            let uses = certificate.extended_key_usage().unwrap().unwrap().value;
            assert!(uses.client_auth && uses.server_auth);
        });
    }
}

#[test]
fn a_request_that_its_key_did_not_sign_is_refused() {
    let (mine, theirs) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let der = |key: &KeyPair| {
        let request = CertificateParams::default().serialize_request(key).unwrap();
        request.der().to_vec()
    };
    // My signature under a request for their key.
    let (own, mut forged) = (der(&mine), der(&theirs));
    let at = forged.len() - 40;
    let end = own.len();
    let len = forged.len();
    forged[at..].copy_from_slice(&own[end - (len - at)..]);
    let pem = pem_of(&forged);
    assert!(matches!(
        CertifiedKey::from_request(&pem),
        Err(RequestError::Form(_))
    ));
}

#[test]
fn other_keys_are_refused() {
    for algorithm in [&rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        assert!(matches!(
            CertifiedKey::from_request(&request(&key)),
            Err(RequestError::Key)
        ));
    }
    for text in ["", "nonsense", "-----BEGIN CERTIFICATE REQUEST-----\n"] {
        assert!(matches!(
            CertifiedKey::from_request(text),
            Err(RequestError::Form(_))
        ));
    }
    assert!(matches!(
        CertifiedKey::from_request(&"x".repeat(9000)),
        Err(RequestError::TooLarge { .. })
    ));
}

fn pem_of(der: &[u8]) -> String {
    use base64::Engine as _;
    format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        base64::engine::general_purpose::STANDARD.encode(der)
    )
}
