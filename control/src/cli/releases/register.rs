//! `releases register`.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    api::release::{RegisterRelease, Release},
    cli::{exit::Exit, failure::Failure, limits::MANIFEST_BYTES_MAX, online::Online},
};

/// Register a signed release, so that rollouts can bring it
///
/// Control checks the signatures under its own pins. Registering the same file again changes nothing; the same release
/// signed anew, with a later expiry, takes the place of the old one.
#[derive(Debug, Args)]
pub(in crate::cli) struct Register {
    /// The manifest.json that `release sign` wrote and enough keys have signed; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Register {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let published = read(&self.file).map_err(|source| Failure::Read {
            path: self.file.clone(),
            source,
        })?;
        let manifest = serde_json::from_str(&published).map_err(|source| Failure::Content {
            path: self.file.clone(),
            expected: "a signed manifest, which is one JSON object of at most 128 KiB",
            source: Some(source),
        })?;
        let request = RegisterRelease {
            tenant_id: online.client.tenant.clone(),
            manifest,
        };
        online.show::<Release>("releases/register", &request).await
    }
}

/// One byte more than a manifest may have is enough for control to see that there are too many.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let bound = MANIFEST_BYTES_MAX.saturating_add(1);
    if path == Path::new("-") {
        io::stdin().lock().take(bound).read_to_string(&mut text)?;
    } else {
        File::open(path)?.take(bound).read_to_string(&mut text)?;
    }
    Ok(text)
}
