//! The registry's rows.
//!
//! Takes published bytes, gives releases. A manifest is verified when it comes in and again whenever it is read: the
//! database is no proof. What was admitted stays good after its expiry, which only stops new installs.

use bc_protocol::{
    id::{ReleaseId, TenantId},
    release::{
        InstalledManifest, PublicKey, Refusal, SignedManifest, Trust, verify, verify_installed,
    },
    sequence::Sequence,
    version::Version,
};
use serde_json::json;
use thiserror::Error;

use super::{
    PRODUCT,
    admit::{self, AdmitRefusal, Known, Verdict},
    verified,
};
use crate::{
    access::action::ROOT_TENANT,
    api, chance,
    clock::Moment,
    db::{
        Conn, Db, Row, Tx,
        column::{moment, parsed, undecodable},
        contention::turn,
        query, query_scalar,
    },
    event::outbox::{Draft, publish},
};

/// A release as it is stored, verified under today's pins.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    /// Its id.
    pub id: ReleaseId,
    /// What was signed.
    pub manifest: InstalledManifest,
    /// When it was registered first.
    pub registered_at: Moment,
    /// By whom.
    pub registered_by: String,
}

/// Tells that a release's binary can be fetched from here.
pub(crate) async fn published(
    db: &Db,
    actor: &str,
    file: &api::release::Published,
    now: Moment,
) -> Result<(), ReleaseError> {
    let tenant: TenantId = ROOT_TENANT
        .parse()
        .map_err(|error| undecodable("tenant", error))?;
    let mut tx = db.begin().await?;
    let draft = Draft {
        kind: "release.published",
        subject: format!("release/{}", file.version),
        tenant: &tenant,
        actor,
        data: json!({ "name": file.name, "sha256": file.sha256, "size": file.size }),
    };
    publish(&mut tx, draft, now);
    Ok(tx.commit().await?)
}

/// The release of a version, if there is one.
pub(crate) async fn by_version(
    conn: &mut Conn,
    version: &Version,
    trust: &Trust,
) -> Result<Option<Registered>, ReleaseError> {
    let row = query("SELECT * FROM daemon_releases WHERE version = $1")
        .bind(version.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| read(&row, trust)).transpose()
}

/// Every release, highest sequence first. Those that today's pins do not cover are left out, with a line in the log.
pub(crate) async fn list(db: &Db, trust: &Trust) -> Result<Vec<Registered>, ReleaseError> {
    let rows = query("SELECT * FROM daemon_releases ORDER BY sequence DESC")
        .fetch_all(db.reader())
        .await?;
    let mut releases = Vec::with_capacity(rows.len());
    for row in rows {
        match read(&row, trust) {
            Ok(release) => releases.push(release),
            Err(ReleaseError::Distrusted { version, refusal }) => {
                tracing::warn!(%version, %refusal, "a registered release is not listed");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(releases)
}

/// The release of a version, for a caller who asked for it by name.
pub(crate) async fn get(
    db: &Db,
    version: &Version,
    trust: &Trust,
) -> Result<Registered, ReleaseError> {
    let mut conn = db.reader().begin().await?;
    by_version(&mut conn, version, trust)
        .await?
        .ok_or_else(|| ReleaseError::NotRegistered {
            version: version.clone(),
        })
}

/// Who registers, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registrar<'a> {
    /// The root tenant, whose releases are.
    pub tenant: &'a TenantId,
    /// The caller.
    pub actor: &'a str,
}

/// Judges published bytes and, if they are good, stores them: all in one transaction, or nothing. Whoever renews tells the
/// nodes that have the release as their target.
pub(crate) async fn register(
    db: &Db,
    published: &[u8],
    trust: &Trust,
    by: Registrar<'_>,
    now: Moment,
) -> Result<(Registered, Verdict), ReleaseError> {
    let at = now.timestamp().map_err(|_| ReleaseError::Clock { now })?;
    let candidate = verify(published, trust, PRODUCT, at)?;
    let mut tx = db.begin().await?;
    turn(&mut tx, "releases").await?;
    let stored = same_version(&mut tx, &candidate, trust).await?;
    let known = Known {
        same_version: stored.as_ref(),
        highest: highest(&mut tx).await?,
    };
    let verdict = admit::decide(&candidate, known).map_err(|refusal| ReleaseError::Admit {
        version: candidate.version().clone(),
        refusal,
    })?;
    match verdict {
        Verdict::Stored => {}
        Verdict::Renewal => {
            query("UPDATE daemon_releases SET published = $2 WHERE version = $1")
                .bind(candidate.version().as_str())
                .bind(published)
                .execute(&mut *tx)
                .await?;
            announce(&mut tx, "release.renewed", &candidate, by, now);
        }
        Verdict::New => {
            insert(&mut tx, &candidate, by, now).await?;
            announce(&mut tx, "release.registered", &candidate, by, now);
        }
    }
    // Read back before the commit: what was accepted is what will be served.
    let release = by_version(&mut tx, candidate.version(), trust).await?;
    tx.commit().await?;
    let release = release.ok_or_else(|| ReleaseError::NotRegistered {
        version: candidate.version().clone(),
    })?;
    Ok((release, verdict))
}

/// What is registered under the candidate's version. Where today's pins no longer cover it, a key that the candidate
/// vouches for does: so that a release can be renewed after its old keys have been retired.
async fn same_version(
    tx: &mut Tx,
    candidate: &SignedManifest,
    trust: &Trust,
) -> Result<Option<InstalledManifest>, ReleaseError> {
    let published: Option<Vec<u8>> =
        query_scalar("SELECT published FROM daemon_releases WHERE version = $1")
            .bind(candidate.version().as_str())
            .fetch_optional(&mut **tx)
            .await?;
    let Some(published) = published else {
        return Ok(None);
    };
    let listed = candidate.keys().iter().map(PublicKey::pin);
    verify_installed(&published, trust, PRODUCT)
        .or_else(|refusal| match Trust::new(listed, 1) {
            Ok(vouched) => verify_installed(&published, &vouched, PRODUCT),
            Err(_) => Err(refusal),
        })
        .map(Some)
        .map_err(|refusal| ReleaseError::Distrusted {
            version: candidate.version().clone(),
            refusal,
        })
}

async fn insert(
    tx: &mut Tx,
    candidate: &SignedManifest,
    by: Registrar<'_>,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let id = ReleaseId::random(now.unix_ms(), chance::bits());
    query(
        "INSERT INTO daemon_releases (id, version, sequence, published, registered_at, registered_by)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id.as_str())
    .bind(candidate.version().as_str())
    .bind(crate::db::column::signed(candidate.sequence().get()))
    .bind(candidate.published())
    .bind(now.millis())
    .bind(by.actor)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn announce(
    tx: &mut Tx,
    kind: &'static str,
    candidate: &SignedManifest,
    by: Registrar<'_>,
    now: Moment,
) {
    let draft = Draft {
        kind,
        subject: format!("release/{}", candidate.version()),
        tenant: by.tenant,
        actor: by.actor,
        data: serde_json::json!({
            "version": candidate.version(),
            "sequence": candidate.sequence(),
            "expiresAt": candidate.expires_at(),
            "signers": candidate.signers(),
        }),
    };
    publish(tx, draft, now);
}

async fn highest(tx: &mut Tx) -> Result<Option<Sequence>, sqlx::Error> {
    let highest: Option<i64> = query_scalar("SELECT max(sequence) FROM daemon_releases")
        .fetch_one(&mut **tx)
        .await?;
    let Some(highest) = highest.and_then(|highest| u64::try_from(highest).ok()) else {
        return Ok(None);
    };
    Sequence::new(highest)
        .map(Some)
        .map_err(|source| crate::db::column::undecodable("sequence", source))
}

fn read(row: &Row, trust: &Trust) -> Result<Registered, ReleaseError> {
    let published: &[u8] = row.try_get("published")?;
    let manifest = match verified::installed(published, trust) {
        Ok(manifest) => manifest,
        Err(refusal) => {
            let version = parsed(row, "version")?;
            return Err(ReleaseError::Distrusted { version, refusal });
        }
    };
    Ok(Registered {
        id: parsed(row, "id")?,
        manifest,
        registered_at: moment(row, "registered_at")?,
        registered_by: row.try_get("registered_by")?,
    })
}

impl From<Registered> for api::release::Release {
    fn from(release: Registered) -> Self {
        let manifest = &release.manifest;
        Self {
            id: release.id,
            version: manifest.version().clone(),
            sequence: manifest.sequence(),
            issued_at: manifest.issued_at(),
            expires_at: manifest.expires_at(),
            signers: manifest.signers().iter().copied().collect(),
            artifacts: manifest
                .artifacts()
                .iter()
                .map(|artifact| api::release::Artifact {
                    name: artifact.name().to_owned(),
                    platform: artifact.platform().cloned(),
                    sha256: artifact.sha256(),
                    size: artifact.size(),
                })
                .collect(),
            registered_at: release.registered_at,
            registered_by: release.registered_by,
        }
    }
}

/// Why a release was not registered or not found.
#[derive(Debug, Error)]
pub(crate) enum ReleaseError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The manifest is not believed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is believed, and does not fit into the registry.
    #[error("release {version}: {refusal}")]
    Admit {
        /// The manifest's version.
        version: Version,
        /// Why.
        refusal: AdmitRefusal,
    },
    /// What is stored is not covered by today's pins.
    #[error("registered release {version} is no longer trusted: {refusal}")]
    Distrusted {
        /// The release's version.
        version: Version,
        /// Why.
        refusal: Refusal,
    },
    /// Nothing of this version.
    #[error("expected a registered release, found none of version {version}")]
    NotRegistered {
        /// The version asked for.
        version: Version,
    },
    /// The clock is outside of the years that can be written.
    #[error("expected a clock between the years 1 and 9999, found {}", now.millis())]
    Clock {
        /// What it showed.
        now: Moment,
    },
}
