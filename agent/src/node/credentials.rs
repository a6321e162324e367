//! The certificate that the node shows its gateways, which changes while it runs.
//!
//! Takes the identity's folder and what comes to renew it, over a session or from control's API; gives TLS for the next
//! connection. A new certificate is on the disk before it is used, and the key never changes.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bc_protocol::session::Certificate;
use rustls::ClientConfig;
use thiserror::Error;
use url::Url;

use super::session::RenewalTimes;
use crate::{
    http::Web,
    identity::{self, Identity, IdentityError, Membership},
    join::{self, JoinError},
    tls::{self, TlsError},
};

/// What the node shows its gateways, and where it finds them.
#[derive(Clone)]
pub(crate) struct Credentials {
    folder: PathBuf,
    identity: Arc<Identity>,
    tls: Arc<ClientConfig>,
    /// The owner's choice, before what control says.
    gateways: Vec<Url>,
    control: Option<Url>,
    web: Web,
}

/// Why a certificate is not renewed.
#[derive(Debug, Error)]
pub(crate) enum RenewError {
    /// It does not fit this node, or the disk does not take it.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No gateway would take it.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Control did not answer, or said no.
    #[error(transparent)]
    Control(#[from] JoinError),
    /// Nobody to ask.
    #[error(
        "expected control's address in the configuration to renew the certificate with, found none"
    )]
    NoControl,
}

impl Credentials {
    /// Of the identity in this folder. What the owner says of gateways and control goes before what joining said.
    pub(crate) fn new(
        folder: PathBuf,
        identity: Identity,
        gateways: &[Url],
        control: Option<&Url>,
        web: Web,
    ) -> Result<Self, TlsError> {
        Ok(Self {
            folder,
            tls: tls::session(&identity)?,
            gateways: gateways.to_vec(),
            control: control.or(identity.control()).cloned(),
            web,
            identity: Arc::new(identity),
        })
    }

    /// How to speak to the next gateway.
    pub(crate) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    /// The gateways to use: those that the owner names, or else those that control did.
    pub(crate) fn gateways(&self) -> Vec<String> {
        super::gateways(&self.gateways, &self.identity)
    }

    /// When the certificate is to be renewed.
    pub(crate) fn renewal(&self) -> RenewalTimes {
        let validity = self.identity.validity();
        let now = self.identity.now();
        let after = validity.renew_at().saturating_sub(now);
        RenewalTimes {
            after: Duration::from_secs(u64::try_from(after).unwrap_or(0)),
            again: validity.ask_again(),
        }
    }

    /// Whether gateways do not take the certificate any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.identity.validity().has_ended(self.identity.now())
    }

    /// A certificate request with the node's key, DER.
    pub(crate) fn request(&self) -> Result<Vec<u8>, RenewError> {
        let key = identity::key_or_new(&self.folder)?;
        Ok(join::request_of(&key)?.der().to_vec())
    }

    /// Keeps a certificate that came over a session, and shows it from the next connection on. The gateway only carries
    /// it, so it has to be good in the eyes of those whom the node trusts already.
    pub(crate) fn accept(&mut self, certificate: &Certificate) -> Result<(), RenewError> {
        let membership = Membership {
            node_id: self.identity.node_id().clone(),
            certificate: identity::pem_of(&certificate.chain),
            authorities: identity::pem_of(&certificate.authorities),
            gateways: certificate.gateways.clone(),
        };
        let offered = identity::Offered::read(&self.folder, &membership)?;
        let trusted = self.identity.authorities();
        tls::vouched(&offered.chain, trusted, self.identity.now())?;
        tls::vouched(&offered.chain, &offered.authorities, self.identity.now())?;
        self.keep(&membership)
    }

    /// Asks control's API for a new certificate: the way of a node whose own has ended while it was away.
    pub(crate) async fn renew_at_control(&mut self) -> Result<(), RenewError> {
        let control = self.control.as_ref().ok_or(RenewError::NoControl)?;
        let key = identity::key_or_new(&self.folder)?;
        let node_id = self.identity.node_id();
        let membership = join::renew(control, &self.web, node_id, &key).await?;
        self.keep(&membership)
    }

    fn keep(&mut self, membership: &Membership) -> Result<(), RenewError> {
        let key = identity::key_or_new(&self.folder)?;
        let control = self.identity.control().cloned();
        identity::save(&self.folder, &key, membership, control.as_ref())?;
        let identity = Identity::load(&self.folder)?;
        self.tls = tls::session(&identity)?;
        self.web.earliest = Some(identity.starts());
        self.identity = Arc::new(identity);
        Ok(())
    }
}
