//! `[downloads]`

use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use super::Wrong;
use crate::config::Source;

/// Stores that a build with the feature `blob` knows: S3 and what speaks like it, Google's, Azure's.
const STORES: [&str; 3] = ["s3", "gs", "az"];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DownloadsTable {
    dir: Option<PathBuf>,
    blob: Option<Url>,
}

impl DownloadsTable {
    pub(super) fn checked(self) -> Result<Option<Source>, Wrong> {
        match (self.dir, self.blob) {
            (None, None) => Ok(None),
            (Some(dir), None) => Ok(Some(Source::Folder(dir))),
            (None, Some(blob)) => source(blob).map(Some),
            (Some(_), Some(blob)) => Err(Wrong::value(
                "downloads.blob",
                "no downloads.dir beside it",
                blob,
            )),
        }
    }
}

/// A folder's address is the folder: nothing is gained by looking at it as at a store.
fn source(blob: Url) -> Result<Source, Wrong> {
    let key = "downloads.blob";
    if blob.scheme() == "file"
        && let Ok(dir) = blob.to_file_path()
    {
        return Ok(Source::Folder(dir));
    }
    if !STORES.contains(&blob.scheme()) || !is_plain(&blob) {
        let expected =
            "file:///FOLDER, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER";
        return Err(Wrong::value(key, expected, blob));
    }
    if cfg!(not(feature = "blob")) {
        let expected = "file:///FOLDER, since this build lacks the cargo feature blob";
        return Err(Wrong::value(key, expected, blob));
    }
    Ok(Source::Store(blob))
}

/// Keys of stores come from the environment: what stands in an address is shown.
fn is_plain(url: &Url) -> bool {
    url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}
