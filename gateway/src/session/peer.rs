//! Who a session is with.
//!
//! Takes a certificate that TLS has verified, gives what it says of its holder. What the peer itself says of who it is
//! is never asked.

use bc_protocol::{
    certificate::{HolderError, company, holder},
    digest::Sha256,
    id::NodeId,
};

/// A node, as its certificate shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Which.
    pub(crate) node: NodeId,
    /// The digest of the authorities and gateways that it was told of, if its certificate says one.
    pub(crate) company: Option<Sha256>,
}

impl Peer {
    /// The holder of a certificate in DER.
    pub(crate) fn of(der: &[u8]) -> Result<Self, HolderError> {
        Ok(Self {
            node: holder(der)?,
            company: company::of(der)?,
        })
    }
}
