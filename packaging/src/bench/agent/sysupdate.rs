//! systemd-sysupdate, which brings releases to many machines too, out of a folder that debootstrap made.
//!
//! It is given what it understands: a server with a list of digests, and a folder that keeps two versions. Signatures of
//! that list are not checked, since it would only take longer.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::fleet::now;

/// Where the program lies in Debian.
const PROGRAM: &str = "/usr/lib/systemd/systemd-sysupdate";

/// Where its definitions go, and what it keeps, in the folder.
const DEFINITIONS: &str = "/etc/sysupdate-bench";
const KEPT: &str = "/var/lib/sysupdate-bench";

/// A Debian with systemd-sysupdate in it.
pub(super) struct Sysupdate {
    root: PathBuf,
    version: u64,
}

impl Sysupdate {
    /// Makes the folder where it is not there yet; that takes a minute, a network and root.
    pub(super) fn open(root: &Path) -> Result<Self> {
        let program = root.join(PROGRAM.trim_start_matches('/'));
        if !program.exists() {
            // debootstrap makes the folder, and none above it.
            fs::create_dir_all(root)?;
            let status = Command::new("debootstrap")
                .args([
                    "--variant=minbase",
                    "--include=systemd,systemd-container",
                    "trixie",
                ])
                .arg(root)
                .status()
                .context("start debootstrap")?;
            // Some of its packages cannot be set up in a container; it is enough that they are there.
            ensure!(program.exists(), "debootstrap: {status}");
        }
        let sysupdate = Self {
            root: root.to_owned(),
            version: 0,
        };
        let kept = sysupdate.inside(KEPT);
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        Ok(sysupdate)
    }

    /// The name of the next release's file.
    pub(super) fn next_name(&mut self, size: &str) -> String {
        self.version += 1;
        format!("{size}_{}", self.version)
    }

    /// Updates to the newest release of that size.
    pub(super) fn update(&self, server: &str, size: &str) -> Result<Duration> {
        let kept = format!("{KEPT}/{size}");
        fs::create_dir_all(self.inside(&kept))?;
        fs::create_dir_all(self.inside(DEFINITIONS))?;
        let definition = format!(
            "[Transfer]\nVerify=no\n[Source]\nType=url-file\nPath={server}/\nMatchPattern={size}_@v\n\
             [Target]\nType=regular-file\nPath={kept}\nMatchPattern={size}_@v\nMode=0755\nInstancesMax=2\n"
        );
        let transfer = self.inside(DEFINITIONS).join("bench.transfer");
        super::write(&transfer, definition.as_bytes())?;
        let begun = now();
        let output = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--mount-proc", "--root"])
            .arg(&self.root)
            .args([PROGRAM, "update"])
            .arg(format!("--definitions={DEFINITIONS}"))
            .output()
            .context("start unshare")?;
        let took = now() - begun;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "systemd-sysupdate: {}: {said}",
            output.status
        );
        let newest = format!("{size}_{}", self.version);
        ensure!(
            self.inside(&kept).join(&newest).exists(),
            "systemd-sysupdate brought no {newest}: {said}"
        );
        Ok(took)
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}
