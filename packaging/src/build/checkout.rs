//! A checkout, or a copy of one, that programs are built from.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// A checkout that programs are built from.
#[derive(Clone, Debug)]
pub struct Checkout {
    pub(super) root: PathBuf,
    /// Where its builds go, if that is not where they always go.
    pub(super) target: Option<PathBuf>,
}

impl Checkout {
    /// The one that this program was built from.
    pub fn here() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Self {
            root: root.canonicalize().unwrap_or(root),
            target: std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from),
        }
    }

    /// A copy of this one's files below `dir`, with a target folder of its own.
    pub fn copied_to(&self, dir: &Path) -> Result<Self> {
        let copy = Self {
            root: dir.join("checkout"),
            target: Some(dir.join("built")),
        };
        for name in self.files()? {
            let to = copy.root.join(&name);
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::copy(self.root.join(&name), to)
                .with_context(|| format!("copy {}", name.display()))?;
        }
        Ok(copy)
    }

    /// What is in it, without what was built.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut git = Command::new("git");
        git.arg("-C").arg(&self.root);
        git.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let output = git.output().context("start git")?;
        ensure!(
            output.status.success(),
            "git ls-files ended with {}",
            output.status
        );
        let names = output.stdout.split(|byte| *byte == 0);
        let names = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
        // What was removed and not committed is listed all the same.
        Ok(names
            .filter(|name| self.root.join(name).is_file())
            .collect())
    }
}
