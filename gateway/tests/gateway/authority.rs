//! A certificate authority, and TLS as control and nodes set it up.

use std::{net::IpAddr, ops::Range, sync::Arc};

use bc_protocol::id::{GatewayId, NodeId};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateSigningRequestParams,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, crypto::ring, server::WebPkiClientVerifier,
    version::TLS13,
};
use rustls_pki_types::PrivateKeyDer;

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// As control answers a gateway's request.
    pub(crate) fn gateway(&self, id: &GatewayId, csr: &str) -> String {
        self.gateway_between(id, csr, 2000..4000)
    }

    /// The same, good from the beginning of one year to that of another.
    pub(crate) fn gateway_between(&self, id: &GatewayId, csr: &str, years: Range<i32>) -> String {
        let mut request = CertificateSigningRequestParams::from_pem(csr).unwrap();
        request.params = both_uses(&format!("urn:bettercompute:gateway:{id}"));
        request.params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        request.params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        request.signed_by(&self.issuer).unwrap().pem()
    }

    /// A node's way to a gateway that this authority vouches for.
    pub(crate) fn node(&self, id: &NodeId) -> Arc<ClientConfig> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![uri(&format!("urn:bettercompute:node:{id}"))];
        self.client(&params)
    }

    /// Somebody with a proper certificate who is no node.
    pub(crate) fn other(&self) -> Arc<ClientConfig> {
        self.client(&both_uses("urn:bettercompute:gateway:gw_0"))
    }

    pub(crate) fn client(&self, params: &CertificateParams) -> Arc<ClientConfig> {
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        let config = self
            .client_builder()
            .with_client_auth_cert(vec![leaf.der().clone()], private(&key));
        Arc::new(config.unwrap())
    }

    /// Somebody who trusts this authority and has no certificate.
    pub(crate) fn nobody(&self) -> Arc<ClientConfig> {
        Arc::new(self.client_builder().with_no_client_auth())
    }

    fn client_builder(
        &self,
    ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(self.roots())
    }

    /// Control's own side of links.
    pub(crate) fn link_server(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let key = KeyPair::generate().unwrap();
        let leaf = both_uses("urn:bettercompute:control")
            .signed_by(&key, &self.issuer)
            .unwrap();
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()), provider.clone())
                .build()
                .unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![leaf.der().clone()], private(&key));
        Arc::new(config.unwrap())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        roots
    }
}

fn both_uses(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    params.subject_alt_names = vec![SanType::IpAddress(IpAddr::from([127, 0, 0, 1])), uri(name)];
    params
}

fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(key.serialize_der().into())
}
