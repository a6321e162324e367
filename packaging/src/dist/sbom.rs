//! What the programs are made of, as a CycloneDX document.
//!
//! Takes the lock file's packages from `cargo metadata`, gives one file without a clock or a random number in it.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: About,
    components: Vec<Component>,
}

#[derive(Serialize)]
struct About {
    component: Component,
}

#[derive(Serialize)]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<License>,
}

#[derive(Serialize)]
struct License {
    expression: String,
}

/// Writes the list of what `version` is made of.
pub(super) fn write(to: &Path, version: &str) -> Result<()> {
    let mut components: Vec<Component> = locked()?.into_iter().map(component).collect();
    components.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    let document = Document {
        bom_format: "CycloneDX",
        spec_version: "1.5",
        version: 1,
        metadata: About {
            component: Component {
                kind: "application",
                name: "bcd fleet updates".to_owned(),
                version: version.to_owned(),
                purl: None,
                licenses: vec![License {
                    expression: "Apache-2.0".to_owned(),
                }],
            },
        },
        components,
    };
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    super::write(to, &text)
}

fn component(locked: Locked) -> Component {
    let Locked {
        name,
        version,
        license,
        source,
    } = locked;
    let licenses = license.map(|text| License {
        // An older way to write it.
        expression: text.replace('/', " OR "),
    });
    Component {
        kind: "library",
        purl: source.map(|_| format!("pkg:cargo/{name}@{version}")),
        licenses: licenses.into_iter().collect(),
        name,
        version,
    }
}

fn locked() -> Result<Vec<Locked>> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", &target])
        .output()
        .context("start cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.packages)
}
