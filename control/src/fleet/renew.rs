//! Renewal: a key that is known gets a fresh certificate.
//!
//! Takes a request that its own key has signed, or word that nodes are to have one unasked, gives what a join gives:
//! certificate, authorities, gateways. Whoever carried the request is not asked who he is, and cannot gain by it: a
//! certificate is of use to its key's holder only. Changes nothing.

use bc_protocol::{
    id::{GatewayId, NodeId},
    session::Certificate,
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use thiserror::Error;

use super::{
    authority::{Authority, AuthorityError, CertifiedKey, RequestError},
    gateway::{GatewayError, host_of},
    join::gateway_urls,
};
use crate::{
    api::fleet::JoinedNode,
    clock::Moment,
    db::{Db, column::parsed, query},
    metrics::{Metrics, Work},
};

/// Why a certificate is not renewed.
#[derive(Debug, Error)]
pub(crate) enum RenewError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The certificate cannot be made.
    #[error("the certificate cannot be made")]
    Authority(#[from] AuthorityError),
    /// The gateway's address cannot be read.
    #[error("the gateway's address cannot be read")]
    Gateway(#[from] GatewayError),
    /// The request is no good.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No such node or gateway, or one with another key. Which of the two is nobody's business.
    #[error("expected the key that the id was given to, found another key or an unknown id")]
    Unknown,
    /// The node was removed.
    #[error(
        "expected a node of this fleet, found one that was removed: join it anew with a new key"
    )]
    Removed,
}

impl RenewError {
    /// Counts what control itself could not do; who asks in vain is no failure of anything.
    pub(crate) fn count(&self, metrics: &Metrics) {
        match self {
            Self::Sql(_) | Self::Authority(_) | Self::Gateway(_) => {
                metrics.has_failed(&Work::CERTIFICATE);
            }
            Self::Request(_) | Self::Unknown | Self::Removed => {}
        }
    }
}

/// A fresh certificate for a node that shows the key it joined with.
pub(crate) async fn node(
    db: &Db,
    authority: &Authority,
    node: &NodeId,
    key: &CertifiedKey,
    now: Moment,
) -> Result<JoinedNode, RenewError> {
    let mut tx = db.reader().begin().await?;
    let row = query("SELECT spki, removed_at FROM nodes WHERE id = $1")
        .bind(node.as_str())
        .fetch_optional(&mut tx)
        .await?
        .ok_or(RenewError::Unknown)?;
    if row.try_get::<&[u8]>("spki")? != key.spki() {
        return Err(RenewError::Unknown);
    }
    if row.try_get::<Option<i64>>("removed_at")?.is_some() {
        return Err(RenewError::Removed);
    }
    let gateways = gateway_urls(&mut tx).await?;
    tracing::info!(%node, key = %key.pin(), "a node's certificate is renewed");
    Ok(JoinedNode {
        node_id: node.clone(),
        certificate: authority.issue_node(key, node, &gateways, now)?,
        authorities: authority.pem().to_owned(),
        gateways,
    })
}

/// Where gateways are today, as nodes are told.
pub(crate) async fn gateways(db: &Db) -> Result<Vec<String>, RenewError> {
    let mut conn = db.reader().begin().await?;
    Ok(gateway_urls(&mut conn).await?)
}

/// Fresh certificates for the keys that these nodes joined with, beside these gateways. None for a node that is not known
/// any more.
pub(crate) async fn unasked(
    db: &Db,
    authority: &Authority,
    (nodes, gateways): (&[NodeId], &[String]),
    now: Moment,
) -> Result<Vec<JoinedNode>, RenewError> {
    let rows = query(
        "SELECT id, spki FROM nodes
         WHERE removed_at IS NULL AND id IN (SELECT value FROM json_each($1)) ORDER BY id",
    )
    .bind(serde_json::json!(nodes).to_string())
    .fetch_all(db.reader())
    .await?;
    let mut renewed = Vec::new();
    for row in &rows {
        let node_id: NodeId = parsed(row, "id")?;
        let key = match CertifiedKey::recorded(row.try_get("spki")?) {
            Ok(key) => key,
            // Nobody else is to go without for that.
            Err(error) => {
                tracing::error!(node = %node_id, %error, "a node's key is none");
                continue;
            }
        };
        tracing::info!(node = %node_id, key = %key.pin(), "a node's certificate is renewed, unasked");
        renewed.push(JoinedNode {
            certificate: authority.issue_node(&key, &node_id, gateways, now)?,
            authorities: authority.pem().to_owned(),
            gateways: gateways.to_vec(),
            node_id,
        });
    }
    Ok(renewed)
}

/// A fresh certificate for a gateway that shows the key it enrolled with.
pub(crate) async fn gateway(
    db: &Db,
    authority: &Authority,
    gateway: &GatewayId,
    key: &CertifiedKey,
    now: Moment,
) -> Result<Certificate, RenewError> {
    let row = query("SELECT spki, url FROM gateways WHERE id = $1")
        .bind(gateway.as_str())
        .fetch_optional(db.reader())
        .await?
        .ok_or(RenewError::Unknown)?;
    if row.try_get::<Option<&[u8]>>("spki")? != Some(key.spki()) {
        return Err(RenewError::Unknown);
    }
    let host = host_of(row.try_get("url")?)?;
    let certificate = authority.issue_gateway(key, gateway, &host, now)?;
    tracing::info!(%gateway, key = %key.pin(), "a gateway's certificate is renewed");
    Ok(Certificate {
        chain: ders(&certificate),
        authorities: ders(authority.pem()),
        gateways: Vec::new(),
    })
}

/// As it travels over a link.
pub(crate) fn certificate(renewed: JoinedNode) -> Certificate {
    Certificate {
        chain: ders(&renewed.certificate),
        authorities: ders(&renewed.authorities),
        gateways: renewed.gateways,
    }
}

/// Of PEM that the authority wrote itself.
fn ders(pem: &str) -> Vec<Vec<u8>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .filter_map(Result::ok)
        .map(|der| der.to_vec())
        .collect()
}
