//! Binaries in an object store.
//!
//! Takes a version and what a release says of a file, gives the object, or puts it there: it appears whole or not at
//! all. An object is read through and hashed once for every state that the store tells of, before it is served; what is
//! sent afterwards is of that state or not at all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bc_protocol::{digest::Sha256, release::Artifact, version::Version};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, WriteMultipart, path::Path,
};
use thiserror::Error;
use tokio::sync::OnceCell;
use url::Url;

use super::{DownloadError, incoming::Incoming};

/// Parts of an upload that are under way at once: each of them is 5 MiB of memory.
const PARTS_MAX: usize = 4;

/// What variables of the environment begin with that stores are set up by: keys belong in no file that is shown.
const SETTINGS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

type Digest = Arc<OnceCell<Sha256>>;

/// The part of a store that control serves.
#[derive(Debug)]
pub(crate) struct Blob {
    store: Arc<dyn ObjectStore>,
    root: Path,
    digests: Mutex<BTreeMap<Path, (String, Digest)>>,
}

/// Why there is no store, or no object.
#[derive(Debug, Error)]
pub(crate) enum BlobError {
    /// The address, or what the environment says of it, makes no store.
    #[error("downloads.blob: expected a store at {url}, found none that can be set up")]
    Url {
        /// The address.
        url: String,
        /// Why.
        source: Box<object_store::Error>,
    },
    /// Nobody has put it there yet.
    #[error("expected an object at {path}, found none")]
    Absent {
        /// The object.
        path: Path,
    },
    /// It failed.
    #[error("the store of binaries failed")]
    Store(#[source] Box<object_store::Error>),
    /// Its bytes are not those that were signed.
    #[error("expected {path} to be {expected}, found {found}")]
    Differs {
        /// The object.
        path: Path,
        /// Digest or size in the manifest.
        expected: String,
        /// That of the object.
        found: String,
    },
}

impl From<object_store::Error> for BlobError {
    fn from(error: object_store::Error) -> Self {
        Self::Store(Box::new(error))
    }
}

/// An object that is what the release says, in the state in which it was looked at.
#[derive(Debug)]
pub(crate) struct Object {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
}

impl Blob {
    /// Serves what is below an address.
    pub(crate) fn new(url: &Url) -> Result<Self, BlobError> {
        // The store's client takes the process's provider. Where there is one already, it is the same.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let settings = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            let ours = SETTINGS.iter().any(|start| name.starts_with(start));
            ours.then(|| (name.to_ascii_lowercase(), value))
        });
        let parsed = object_store::parse_url_opts(url, settings);
        let (store, root) = parsed.map_err(|source| BlobError::Url {
            url: url.to_string(),
            source: Box::new(source),
        })?;
        Ok(Self {
            store: store.into(),
            root,
            digests: Mutex::default(),
        })
    }

    pub(super) async fn open(
        &self,
        version: &Version,
        artifact: &Artifact,
    ) -> Result<Object, BlobError> {
        let path = self.path(version, artifact.name());
        let meta = match self.store.head(&path).await {
            Ok(meta) => meta,
            Err(object_store::Error::NotFound { .. }) => return Err(BlobError::Absent { path }),
            Err(error) => return Err(error.into()),
        };
        let differs = |expected: String, found: String| BlobError::Differs {
            path: path.clone(),
            expected,
            found,
        };
        if meta.size != artifact.size() {
            return Err(differs(
                format!("{} bytes", artifact.size()),
                format!("{} bytes", meta.size),
            ));
        }
        let cell = self.cell(&meta);
        let (store, whole) = (Arc::clone(&self.store), meta.clone());
        // A task of its own: a caller who gives up must not make the next one begin anew with a large file.
        let hashed = tokio::spawn(async move {
            let hash = || hash_of(&*store, &whole);
            cell.get_or_try_init(hash).await.copied()
        });
        let hashed = hashed.await.map_err(object_store::Error::from)??;
        if hashed != artifact.sha256() {
            return Err(differs(artifact.sha256().to_string(), hashed.to_string()));
        }
        Ok(Object {
            store: Arc::clone(&self.store),
            meta,
        })
    }

    pub(super) async fn put(
        &self,
        version: &Version,
        mut incoming: Incoming,
    ) -> Result<(), DownloadError> {
        let path = self.path(version, incoming.name());
        let upload = self.store.put_multipart(&path).await;
        let mut parts = WriteMultipart::new(upload.map_err(BlobError::from)?);
        let taken = take(&mut parts, &mut incoming).await;
        match taken.and_then(|()| Ok(incoming.finish()?)) {
            Ok(()) => {
                parts.finish().await.map_err(BlobError::from)?;
                Ok(())
            }
            Err(error) => {
                if let Err(error) = parts.abort().await {
                    tracing::warn!(%error, %path, "parts of an upload stay in the store");
                }
                Err(error)
            }
        }
    }

    fn path(&self, version: &Version, name: &str) -> Path {
        self.root.clone().join(version.as_str()).join(name)
    }

    /// Where the digest of an object in this state is kept; callers who come at the same time share one computation.
    fn cell(&self, meta: &ObjectMeta) -> Digest {
        let state = meta
            .e_tag
            .clone()
            .unwrap_or_else(|| format!("{} {}", meta.last_modified, meta.size));
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, cell)) = digests.get(&meta.location)
            && *known == state
        {
            return Arc::clone(cell);
        }
        let cell = Digest::default();
        digests.insert(meta.location.clone(), (state, Arc::clone(&cell)));
        cell
    }
}

async fn take(parts: &mut WriteMultipart, incoming: &mut Incoming) -> Result<(), DownloadError> {
    while let Some(piece) = incoming.next().await? {
        parts
            .wait_for_capacity(PARTS_MAX)
            .await
            .map_err(BlobError::from)?;
        parts.put(piece);
    }
    Ok(())
}

async fn hash_of(
    store: &dyn ObjectStore,
    meta: &ObjectMeta,
) -> Result<Sha256, object_store::Error> {
    let found = store.get_opts(&meta.location, same(meta)).await?;
    let mut pieces = found.into_stream();
    let mut hasher = Sha256::hasher();
    while let Some(piece) = pieces.next().await {
        hasher.update(&piece?);
    }
    Ok(hasher.finish())
}

/// Of this state of the object or not at all.
fn same(meta: &ObjectMeta) -> GetOptions {
    GetOptions {
        if_match: meta.e_tag.clone(),
        ..GetOptions::default()
    }
}

impl Object {
    pub(super) async fn part(
        self,
        start: u64,
        length: u64,
    ) -> Result<impl Stream<Item = std::io::Result<Bytes>> + use<>, BlobError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(start..start.saturating_add(length))),
            ..same(&self.meta)
        };
        let found = self.store.get_opts(&self.meta.location, options).await?;
        Ok(found.into_stream().map_err(std::io::Error::other))
    }
}
