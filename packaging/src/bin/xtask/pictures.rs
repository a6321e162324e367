//! `cargo xtask pictures`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use packaging::{
    build,
    pictures::{self, terminal},
};

use crate::tell;

/// Which pictures to take.
#[derive(Debug, Args)]
pub(crate) struct Order {
    /// Where they go.
    #[arg(long, value_name = "DIR", default_value = "packaging/docs/pictures")]
    out: PathBuf,
    /// Only these.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Picture>,
}

/// A kind of picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// Pages of the console.
    Console,
    /// A rollout that is watched at a terminal.
    Terminal,
}

/// Takes the pictures.
pub(crate) async fn run(order: &Order) -> Result<()> {
    let folder = &order.out;
    std::fs::create_dir_all(folder).context("make the folder for pictures")?;
    for picture in Picture::value_variants() {
        if !order.only.is_empty() && !order.only.contains(picture) {
            continue;
        }
        match picture {
            Picture::Console => pictures::take(folder, tell).await?,
            Picture::Terminal => {
                let drawn = terminal::rollout(&build::programs().await?).await?;
                keep(&folder.join("rollout.svg"), drawn.as_bytes())?;
            }
        }
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a picture that a power cut took is taken again"
)]
fn keep(file: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(file, bytes).with_context(|| format!("write {}", file.display()))?;
    tell(&format!("{} ({} KiB)", file.display(), bytes.len() / 1024));
    Ok(())
}
