//! `releases publish`.

use std::path::{Path, PathBuf};

use bc_protocol::{platform::Platform, release::Artifact as Listed};
use clap::Args;

use super::register;
use crate::{
    api::release::{Artifact, RegisterRelease, Release},
    cli::{exit::Exit, failure::Failure, online::Online, print::note, sheet::printable},
};

/// Register a release and put its binaries where control serves them from
///
/// DIR is a folder as `release sign` leaves it. Control takes a binary only if it is the one that the manifest lists.
/// Binaries that it has already are left out, so that the command can be repeated. With downloads_url in its
/// configuration, and neither a folder nor a store, control takes none.
#[derive(Debug, Args)]
pub(in crate::cli) struct Publish {
    /// The folder with manifest.json and the files that it lists
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Publish {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let file = self.dir.join("manifest.json");
        let published = register::read(&file).map_err(|source| Failure::Read {
            path: file.clone(),
            source,
        })?;
        let manifest = serde_json::from_str(&published).map_err(|source| Failure::Content {
            path: file,
            expected: "a signed manifest, which is one JSON object of at most 128 KiB",
            source: Some(source),
        })?;
        let request = RegisterRelease {
            tenant_id: online.client.tenant.clone(),
            manifest,
        };
        let release = online
            .client
            .call::<Release>("releases/register", &request)
            .await?;
        for (artifact, platform) in binaries(&release.value) {
            upload(online, &release.value, (artifact, platform), &self.dir).await?;
        }
        online.printer.show(&release)?;
        Ok(Exit::Done)
    }
}

/// What nodes fetch: archives and signatures stay where they are.
fn binaries(release: &Release) -> impl Iterator<Item = (&Artifact, &Platform)> {
    release.artifacts.iter().filter_map(|artifact| {
        let platform = artifact.platform.as_ref()?;
        let (name, sha256) = (artifact.name.clone(), artifact.sha256);
        let listed = Listed::new(name, Some(platform.clone()), sha256, artifact.size).ok()?;
        listed.is_bare_binary().then_some((artifact, platform))
    })
}

async fn upload(
    online: &Online,
    release: &Release,
    (artifact, platform): (&Artifact, &Platform),
    dir: &Path,
) -> Result<(), Failure> {
    let path = dir.join(&artifact.name);
    let address = format!("downloads/bcd/{}/{platform}", release.version);
    let tells = !online.printer.is_for_programs();
    if online.client.has(&address, &artifact.sha256).await? {
        if tells {
            note(&format!("{} is there already", printable(&artifact.name)));
        }
        return Ok(());
    }
    let read = |source| Failure::Read {
        path: path.clone(),
        source,
    };
    let file = tokio::fs::File::open(&path).await.map_err(read)?;
    let size = file.metadata().await.map_err(read)?.len();
    online.client.put(&address, file, size).await?;
    if tells {
        note(&format!("{} is served now", printable(&artifact.name)));
    }
    Ok(())
}
