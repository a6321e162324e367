//! Pages of the guides that follow from the programs: which metrics they show, and which keys their files have.
//!
//! Takes programs that are built and the commented examples of their configurations, gives the part of a page that lists
//! them. What is above that part somebody wrote, and it is left as it is.

mod configuration;
mod metrics;

pub use configuration::configuration;
pub use metrics::metrics;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{build, fleet};

/// What the generated part begins with.
const FROM_HERE: &str = "## Control";

/// A page, as it should be.
#[derive(Debug)]
pub struct Generated {
    /// Where it is.
    pub path: PathBuf,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub wanted: String,
}

/// Every page of this kind.
pub async fn generated() -> Result<Vec<Generated>> {
    let programs = build::programs().await?;
    Ok(vec![
        page("metrics.md", &metrics(&programs).await?)?,
        page("configuration.md", &configuration()?)?,
    ])
}

/// Writes those that are out of date; gives their paths.
pub async fn renew() -> Result<Vec<PathBuf>> {
    let mut renewed = Vec::new();
    for page in generated().await? {
        if page.found != page.wanted {
            fleet::replace(&page.path, &page.wanted)?;
            renewed.push(page.path);
        }
    }
    Ok(renewed)
}

fn page(name: &str, list: &str) -> Result<Generated> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let path = folder.join(name);
    let found =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let written = found.split(FROM_HERE).next().unwrap_or_default();
    let wanted = format!("{written}{list}");
    Ok(Generated {
        path,
        found,
        wanted,
    })
}

/// A text that fits a cell of a table.
fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('<', "\\<")
}
