//! `cargo xtask pictures`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use packaging::{
    build,
    pictures::{self, Audience, terminal},
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
    /// How many simulated nodes the console shows.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = nodes)]
    nodes: usize,
}

fn nodes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number >= 500);
    number.ok_or_else(|| "expected at least 500: fewer fill no wave".to_owned())
}

/// A kind of picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// Pages of the console, for the README.
    Console,
    /// Every page of console and guides, by day and by night, on a phone, a desk and a wide one: for whoever changes
    /// them. Only when named.
    Gallery,
    /// A rollout that is watched at a terminal.
    Terminal,
}

/// Takes the pictures.
pub(crate) async fn run(order: &Order) -> Result<()> {
    let folder = &order.out;
    std::fs::create_dir_all(folder).context("make the folder for pictures")?;
    let usual = [Picture::Console, Picture::Terminal];
    let wanted = match order.only.as_slice() {
        [] => usual.as_slice(),
        only => only,
    };
    for picture in wanted {
        match picture {
            Picture::Console => {
                pictures::take(folder, (Audience::Readers, order.nodes), tell).await?;
            }
            Picture::Gallery => {
                pictures::take(folder, (Audience::Designers, order.nodes), tell).await?;
            }
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
