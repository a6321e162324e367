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

use crate::clock::Moment;

/// `releases.register`
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RegisterRelease {
    /// Whose; releases belong to the root tenant.
    pub tenant_id: TenantId,
    /// The file `manifest.json` as it was signed; its exact text is what is stored and served.
    pub manifest: Box<RawValue>,
}

/// `releases.list`
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListReleases {
    /// Whose.
    pub tenant_id: TenantId,
}

/// `releases.get`
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetRelease {
    /// Whose.
    pub tenant_id: TenantId,
    /// Which.
    pub version: Version,
}

/// A registered release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Release {
    /// Its id.
    pub id: ReleaseId,
    /// Its version.
    pub version: Version,
    /// Its place in the order of releases.
    pub sequence: Sequence,
    /// When it was signed.
    pub issued_at: Timestamp,
    /// Until when nodes install it.
    pub expires_at: Timestamp,
    /// The pinned keys that signed it.
    pub signers: Vec<Pin>,
    /// Its files.
    pub artifacts: Vec<Artifact>,
    /// When it was registered.
    pub registered_at: Moment,
    /// By whom.
    pub registered_by: String,
}

/// A file of a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Artifact {
    /// The file's name.
    pub name: String,
    /// What it runs on; absent for files of no platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Its digest.
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: u64,
}

/// `releases.list`'s answer: every release, highest sequence first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Releases {
    /// The releases.
    pub releases: Vec<Release>,
}
