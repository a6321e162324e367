//! Signing keys, and releases that they sign: by the offline tools, as people would.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::text;

/// Two signing keys; both must sign.
#[derive(Clone, Debug)]
pub struct Keys {
    program: PathBuf,
    files: [PathBuf; 2],
    pins: [String; 2],
}

/// What a release is made of: one binary for this machine.
#[derive(Clone, Debug)]
pub struct Release {
    /// Its version.
    pub version: String,
    /// Its place in the order of releases.
    pub sequence: u64,
    /// The binary.
    pub binary: PathBuf,
}

impl Release {
    /// The name of the binary in the release.
    pub fn file_name(&self) -> String {
        format!("bcd-{}", bc_protocol::platform::Platform::host())
    }
}

impl Keys {
    /// Makes both keys in a folder.
    pub fn make(program: &Path, dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let files = ["alice.pem", "bob.pem"].map(|name| dir.join(name));
        let mut pins = [const { String::new() }; 2];
        for (file, pin) in files.iter().zip(&mut pins) {
            let printed = release(program, &["keygen", "--out", &text(file)?])?;
            *pin = printed
                .split_whitespace()
                .find(|word| word.starts_with("sha256/"))
                .context("keygen printed no pin")?
                .to_owned();
        }
        Ok(Self {
            program: program.to_owned(),
            files,
            pins,
        })
    }

    /// The keys' pins.
    pub fn pins(&self) -> &[String; 2] {
        &self.pins
    }

    /// The keys' files.
    pub fn files(&self) -> &[PathBuf; 2] {
        &self.files
    }

    /// Signs a release with both keys; gives the path of its manifest. The binary is copied beside it.
    pub fn sign(&self, what: &Release) -> Result<PathBuf> {
        let root = self.files[0]
            .parent()
            .and_then(Path::parent)
            .context("the keys have no folder")?;
        let dir = root.join("releases").join(&what.version);
        std::fs::create_dir_all(&dir)?;
        std::fs::copy(&what.binary, dir.join(what.file_name()))
            .with_context(|| format!("copy {}", what.binary.display()))?;
        let [first, second] = &self.files;
        let cosigner = second.with_extension("pub.pem");
        let sequence = what.sequence.to_string();
        release(
            &self.program,
            &[
                "sign",
                &text(&dir)?,
                "--product",
                "bcd",
                "--version",
                &what.version,
                "--sequence",
                &sequence,
                "--key",
                &text(first)?,
                "--cosigners",
                &text(&cosigner)?,
            ],
        )?;
        let manifest = dir.join("manifest.json");
        release(
            &self.program,
            &["cosign", &text(&manifest)?, "--key", &text(second)?],
        )?;
        Ok(manifest)
    }
}

fn release(program: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .arg("release")
        .args(args)
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    ensure!(
        output.status.success(),
        "better-compute release {} ended with {}: {}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
