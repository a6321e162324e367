//! A fleet's authority, for tests: it signs nodes and gateways as control would.

use std::{ops::Range, path::Path, sync::Arc};

use bc_protocol::{
    certificate::{Holder, company},
    id::NodeId,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer,
    CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig, crypto::ring, server::WebPkiClientVerifier, version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::identity::{self, Identity, Membership};

/// A certificate authority with a key of its own.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "fleet");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// What control answers to a node's request.
    pub(crate) fn membership(&self, csr: &str, node_id: &NodeId, gateway: &str) -> Membership {
        self.answer(csr, node_id, &[self], &[gateway])
    }

    /// The same, with all whom the node is to trust, and every gateway.
    pub(crate) fn answer(
        &self,
        csr: &str,
        node_id: &NodeId,
        trusted: &[&Self],
        gateways: &[&str],
    ) -> Membership {
        let mut request = CertificateSigningRequestParams::from_pem(csr).unwrap();
        named(&mut request.params, node_id);
        request.params.not_before = date_time_ymd(2020, 1, 1);
        let ders = trusted.iter().map(|one| &one.issuer.der()[..]);
        let company = company::digest(ders, gateways.iter().copied());
        request.params.custom_extensions = vec![CustomExtension::from_oid_content(
            company::OBJECT,
            company::value(&company),
        )];
        Membership {
            node_id: node_id.clone(),
            certificate: request.signed_by(&self.issuer).unwrap().pem(),
            authorities: trusted.iter().map(|one| one.pem()).collect(),
            gateways: gateways.iter().map(ToString::to_string).collect(),
        }
    }

    /// Lets a node join without asking anybody, with a certificate from the one year to the other.
    pub(crate) fn enrol(&self, folder: &Path, gateway: &str, years: Range<i32>) -> Identity {
        let key = identity::key_or_new(folder).unwrap();
        let node_id = NodeId::derived(&[b"node"]);
        let mut params = CertificateParams::default();
        named(&mut params, &node_id);
        params.not_before = date_time_ymd(years.start, 1, 1);
        params.not_after = date_time_ymd(years.end, 1, 1);
        let membership = Membership {
            node_id,
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            authorities: self.pem(),
            gateways: vec![gateway.to_owned()],
        };
        identity::save(folder, &key, &membership, None).unwrap();
        Identity::load(folder).unwrap()
    }

    /// What a gateway of this name speaks: TLS 1.3, clients of this authority only.
    pub(crate) fn gateway(&self, name: &str) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .unwrap();
        let (chain, key) = self.server(name, 2020);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key.into())
            .unwrap();
        Arc::new(config)
    }

    /// What a server of this name speaks to anybody, with a certificate that starts in that year.
    pub(crate) fn web(&self, name: &str, year: i32) -> Arc<ServerConfig> {
        let (chain, key) = self.server(name, year);
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key.into())
            .unwrap();
        Arc::new(config)
    }

    fn server(
        &self,
        name: &str,
        year: i32,
    ) -> (Vec<CertificateDer<'static>>, PrivatePkcs8KeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = date_time_ymd(year, 1, 1);
        params.not_after = date_time_ymd(year + 100, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let chain = vec![certificate.der().clone()];
        (chain, PrivatePkcs8KeyDer::from(key.serialize_der()))
    }
}

fn named(params: &mut CertificateParams, node_id: &NodeId) {
    params.subject_alt_names = vec![SanType::URI(node_id.urn().try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
}
