//! `docs`.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{exit::Exit, failure::Failure};
use crate::{docs::Site, http};

/// Write the guides that control shows at /docs into a folder: a site of plain files
///
/// Each page is there as HTML and as Markdown. Nothing is fetched, and no server is needed to read them.
#[derive(Debug, Args)]
pub(super) struct Docs {
    /// The folder; it is made where there is none, and files of the same names are replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Docs {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let site = Site::of(http::description().as_bytes());
        std::fs::create_dir_all(&self.out).map_err(|source| cannot(&self.out, source))?;
        for (name, file) in site.files() {
            let path = self.out.join(name);
            write(&path, &file.bytes).map_err(|source| cannot(&path, source))?;
        }
        Ok(Exit::Done)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what a power cut leaves half is written again by the same command"
)]
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

fn cannot(path: &Path, source: io::Error) -> Failure {
    Failure::Write {
        path: path.to_owned(),
        source,
    }
}
