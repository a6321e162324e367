//! The certificate that the node shows its gateways, which changes while it runs.
//!
//! Takes the identity's folder and what comes to renew it, over a session or from control's API; gives TLS for the next
//! connection. A new certificate is on the disk before it is used, and the key never changes.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bc_protocol::{
    certificate::{HolderError, Validity, company},
    session::Certificate,
};
use rustls::ClientConfig;
use thiserror::Error;
use url::Url;

use super::{limits::CERTIFICATE_BACKDATED_MAX, session::RenewalTimes};
use crate::{
    http::Web,
    identity::{self, Identity, IdentityError, Membership, Offered},
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
    /// There is none, or the one that the node has.
    #[error("expected another certificate, found none")]
    Nothing,
    /// Somebody has changed what came with it, on the way or here.
    #[error(
        "expected the authorities and gateways that the certificate vouches for, found other ones"
    )]
    Company,
    /// It cannot be read.
    #[error(transparent)]
    Content(#[from] HolderError),
    /// Somebody has kept it.
    #[error("expected a certificate that begins after {own}, found one that begins at {offered}")]
    Older {
        /// When the node's own begins, in seconds since 1970.
        own: i64,
        /// When that one does.
        offered: i64,
    },
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
    /// it, so it has to be good in the eyes of those whom the node trusts already, and what comes with it has to be what
    /// it vouches for. One that vouches for nothing changes nothing of whom the node trusts and where it goes.
    pub(crate) fn accept(&mut self, certificate: &Certificate) -> Result<(), RenewError> {
        let Offered { chain, authorities } = Offered::of(certificate);
        let own = chain
            .first()
            .filter(|own| self.identity.chain().first() != Some(own))
            .ok_or(RenewError::Nothing)?;
        self.check_newer(Validity::of(own)?)?;
        let (trusted, now) = (self.identity.authorities(), self.identity.now());
        // What stands behind the certificate is kept only where it is needed: nobody has signed how much it is.
        let alone = std::slice::from_ref(own);
        let chain = match tls::vouched(alone, trusted, now) {
            Ok(()) => alone,
            Err(_) => chain.as_slice(),
        };
        tls::vouched(chain, trusted, now)?;
        let brought = company::digest(
            authorities.iter().map(|der| &der[..]),
            certificate.gateways.iter().map(String::as_str),
        );
        let (authorities, gateways) = match company::of(own)? {
            Some(said) if said == brought => (&authorities[..], &certificate.gateways[..]),
            // Kept without what belongs to it, it would tell control that the node knows that.
            Some(_) => return Err(RenewError::Company),
            // Of an older control.
            None => (trusted, self.identity.gateways()),
        };
        tls::vouched(chain, authorities, now)?;
        let membership = Membership {
            node_id: self.identity.node_id().clone(),
            certificate: identity::pem_of(chain),
            authorities: identity::pem_of(authorities),
            gateways: gateways.to_vec(),
        };
        self.keep(&membership)
    }

    /// An older certificate would come from somebody who has kept it, with whom the fleet has left since.
    fn check_newer(&self, offered: Validity) -> Result<(), RenewError> {
        let own = self.identity.validity();
        let backdated = CERTIFICATE_BACKDATED_MAX.as_secs().cast_signed();
        if offered.starts.saturating_add(backdated) < own.starts {
            return Err(RenewError::Older {
                own: own.starts,
                offered: offered.starts,
            });
        }
        Ok(())
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
