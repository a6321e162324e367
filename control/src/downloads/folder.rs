//! Binaries in a folder of release folders.
//!
//! Takes a version and what a release says of a file, gives the file, or puts it there: under a name of its own until
//! it is whole and on the disk.

use std::{fs::Permissions, io, os::unix::fs::PermissionsExt as _, path::PathBuf};

use bc_protocol::{release::Artifact, version::Version};
use tokio::io::AsyncWriteExt as _;

use super::{
    DownloadError,
    incoming::Incoming,
    verified::{FileError, Verified},
};

/// The folder that control serves.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    verified: Verified,
}

impl Folder {
    /// Serves `dir`, which holds a folder a version, each as `release sign` leaves it.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            verified: Verified::default(),
        }
    }

    pub(super) async fn open(
        &self,
        version: &Version,
        artifact: &Artifact,
    ) -> Result<tokio::fs::File, FileError> {
        let path = self.dir.join(version.as_str()).join(artifact.name());
        self.verified.open(&path, artifact).await
    }

    pub(super) async fn put(
        &self,
        version: &Version,
        mut incoming: Incoming,
    ) -> Result<(), DownloadError> {
        let dir = self.dir.join(version.as_str());
        tokio::fs::create_dir_all(&dir).await?;
        let path = dir.join(incoming.name());
        let staged = tempfile::Builder::new()
            .prefix(".upload-")
            .tempfile_in(&dir)?;
        let mut file = tokio::fs::File::from_std(staged.as_file().try_clone()?);
        while let Some(piece) = incoming.next().await? {
            file.write_all(&piece).await?;
        }
        incoming.finish()?;
        file.flush().await?;
        // Others serve the folder too.
        file.set_permissions(Permissions::from_mode(0o644)).await?;
        file.sync_all().await?;
        tokio::task::spawn_blocking(move || {
            staged.persist(&path)?;
            std::fs::File::open(&dir)?.sync_all()
        })
        .await
        .map_err(io::Error::other)??;
        Ok(())
    }
}
