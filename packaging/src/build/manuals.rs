//! The manual of every program, made of the same words as its `--help`.
//!
//! Takes a control that runs here, gives a folder of pages for each package. What `bcd` and `bc-gateway` bring for it is in
//! programs of their own, so that those that are shipped stay small.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::{cargo_with, find, run};

/// Writes the pages below `to`: those of a package into the folder of its name.
pub async fn manuals(control: &Path, to: &Path) -> Result<()> {
    // The whole workspace's, so that what its tests have built already is not built again.
    let built = run(cargo_with(&["--workspace", "--examples"])).await?;
    for name in ["bcd", "bc-gateway"] {
        let mut write = Command::new(find(&built, &format!("{name}-manual"))?);
        into(write.arg(folder(to, name)?)).await?;
    }
    let mut write = Command::new(control);
    write
        .args(["man", "--out"])
        .arg(folder(to, "better-compute")?);
    into(&mut write).await
}

fn folder(to: &Path, name: &str) -> Result<std::path::PathBuf> {
    let folder = to.join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

async fn into(write: &mut Command) -> Result<()> {
    let status = write.status().await.context("start what writes a manual")?;
    ensure!(status.success(), "what writes a manual ended with {status}");
    Ok(())
}
