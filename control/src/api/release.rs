//! `releases.*`

use bc_protocol::{
    digest::{Pin, Sha256},
    id::{ReleaseId, TenantId},
    platform::Platform,
    sequence::Sequence,
    time::Timestamp,
    version::Version,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::words;
use crate::clock::Moment;

/// `releases.register`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RegisterRelease {
    /// Whose; releases belong to the root tenant.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// The file `manifest.json` as it was signed; its exact text is what is stored and served.
    #[schema(value_type = words::SignedManifest)]
    pub manifest: Box<RawValue>,
}

/// `releases.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListReleases {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
}

/// `releases.get`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetRelease {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::Version)]
    pub version: Version,
}

/// A registered release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Release {
    /// Its id.
    #[schema(value_type = words::ReleaseId)]
    pub id: ReleaseId,
    /// Its version.
    #[schema(value_type = words::Version)]
    pub version: Version,
    /// Its place in the order of releases.
    #[schema(value_type = words::Sequence)]
    pub sequence: Sequence,
    /// When it was signed.
    #[schema(value_type = words::Timestamp)]
    pub issued_at: Timestamp,
    /// Until when nodes install it.
    #[schema(value_type = words::Timestamp)]
    pub expires_at: Timestamp,
    /// The pinned keys that signed it.
    #[schema(value_type = Vec<words::Pin>)]
    pub signers: Vec<Pin>,
    /// Its files.
    pub artifacts: Vec<Artifact>,
    /// When it was registered.
    pub registered_at: Moment,
    /// By whom.
    pub registered_by: String,
}

/// A file of a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Artifact {
    /// The file's name.
    pub name: String,
    /// What it runs on; absent for files of no platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Platform>)]
    pub platform: Option<Platform>,
    /// Its digest.
    #[schema(value_type = words::Sha256)]
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: u64,
}

/// `releases.list`'s answer: every release, highest sequence first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Releases {
    /// The releases.
    pub releases: Vec<Release>,
}

/// A binary that control has taken, and serves from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Published {
    /// The release's version.
    #[schema(value_type = words::Version)]
    pub version: Version,
    /// The file's name.
    pub name: String,
    /// Its digest.
    #[schema(value_type = words::Sha256)]
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: u64,
}
