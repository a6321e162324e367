//! What lies where on a machine with a package: one list for every kind of package.
//!
//! Takes the programs and the texts of this folder, gives a folder that looks as the machine will.

use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{Which, run_to_end};
use crate::build::Shipping;

/// The programs that are packed.
#[derive(Clone, Debug)]
pub struct Sources {
    /// `bcd`.
    pub agent: PathBuf,
    /// `bc-gateway`.
    pub gateway: PathBuf,
    /// `better-compute`.
    pub control: PathBuf,
    /// Their manual: a folder of pages for each package.
    pub manuals: PathBuf,
}

/// What one package is made of.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// Its program.
    pub program: &'a Path,
    /// Where the folders of manual pages are.
    pub manuals: &'a Path,
}

/// One package.
#[derive(Clone, Copy, Debug)]
pub(super) struct Package {
    /// Its name, and its program's.
    pub(super) name: &'static str,
    /// One line.
    pub(super) summary: &'static str,
    /// A paragraph.
    pub(super) description: &'static str,
    /// Where its program lies.
    program: &'static str,
    /// The files beside it: below `packaging`, and on the machine.
    files: &'static [(&'static str, &'static str)],
    /// Where the guides lie, if it brings them.
    guides: Option<&'static str>,
    /// Links: where, and what they name.
    links: &'static [(&'static str, &'static str)],
    /// The commented configuration, below the workspace.
    example: &'static str,
    /// The name of that configuration.
    config: &'static str,
}

const NODE: Package = Package {
    name: "bcd",
    summary: "Agent of one node of a fleet",
    description: "Keeps a session with a gateway, and this machine's agent up to date: releases are believed only \
                  with enough pinned signatures, and one that does not work goes back by itself.",
    program: "usr/lib/bcd/bcd",
    files: &[
        ("systemd/bcd.service", "usr/lib/systemd/system/bcd.service"),
        (
            "systemd/bcd-watchdog.service",
            "usr/lib/systemd/system/bcd-watchdog.service",
        ),
        (
            "systemd/bcd-helper.service",
            "usr/lib/systemd/system/bcd-helper.service",
        ),
        (
            "systemd/bcd-helper.socket",
            "usr/lib/systemd/system/bcd-helper.socket",
        ),
        (
            "systemd/bcd-preflight.socket",
            "usr/lib/systemd/system/bcd-preflight.socket",
        ),
        (
            "systemd/bcd-preflight@.service",
            "usr/lib/systemd/system/bcd-preflight@.service",
        ),
        ("systemd/unprivileged.conf", "usr/lib/bcd/unprivileged.conf"),
        ("systemd/older-bcd.conf", "usr/lib/bcd/older-bcd.conf"),
        (
            "systemd/older-bcd-helper.conf",
            "usr/lib/bcd/older-bcd-helper.conf",
        ),
        ("systemd/older.sh", "usr/lib/bcd/older.sh"),
        ("systemd/bcd.sysusers", "usr/lib/sysusers.d/bcd.conf"),
        ("systemd/bcd.tmpfiles", "usr/lib/tmpfiles.d/bcd.conf"),
    ],
    guides: None,
    links: &[("usr/bin/bcd", "../lib/bcd/bcd")],
    example: "agent/src/config/example.toml",
    config: "bcd.toml",
};

const GATEWAY: Package = Package {
    name: "bc-gateway",
    summary: "Gateway of a fleet of bcd nodes",
    description: "Holds the sessions of a fleet's nodes; carries what they should run down, and what they do run up.",
    program: "usr/bin/bc-gateway",
    files: &[
        (
            "systemd/bc-gateway.service",
            "usr/lib/systemd/system/bc-gateway.service",
        ),
        (
            "systemd/bc-gateway.sysusers",
            "usr/lib/sysusers.d/bc-gateway.conf",
        ),
        (
            "systemd/bc-gateway.tmpfiles",
            "usr/lib/tmpfiles.d/bc-gateway.conf",
        ),
    ],
    guides: None,
    links: &[],
    example: "gateway/src/config/example.toml",
    config: "gateway.toml",
};

const CONTROL: Package = Package {
    name: "better-compute",
    summary: "Control service and command line of a fleet of bcd nodes",
    description: "Plans rollouts of signed releases in waves, within every pool's disruption budget; and the command \
                  line that signs releases offline and drives rollouts.",
    program: "usr/bin/better-compute",
    files: &[
        (
            "systemd/better-compute.service",
            "usr/lib/systemd/system/better-compute.service",
        ),
        (
            "systemd/better-compute.sysusers",
            "usr/lib/sysusers.d/better-compute.conf",
        ),
        (
            "systemd/better-compute.tmpfiles",
            "usr/lib/tmpfiles.d/better-compute.conf",
        ),
    ],
    guides: Some("usr/share/doc/better-compute/guides"),
    links: &[],
    example: "control/src/config/example.toml",
    config: "control.toml",
};

impl Package {
    /// All of them; the node's comes first.
    pub(super) fn all() -> [Self; 3] {
        [NODE, GATEWAY, CONTROL]
    }

    /// One of them.
    pub(super) fn of(which: Which) -> Self {
        match which {
            Which::Node => NODE,
            Which::Gateway => GATEWAY,
            Which::Control => CONTROL,
        }
    }

    /// Its own, of what was built.
    pub(super) fn contents<'a>(&self, sources: &'a Sources) -> Contents<'a> {
        let program = match self.name {
            "bcd" => &sources.agent,
            "bc-gateway" => &sources.gateway,
            _ => &sources.control,
        };
        Contents {
            program,
            manuals: &sources.manuals,
        }
    }

    /// Lays everything out below `root`, dated as it is shipped.
    pub(super) fn stage(
        &self,
        root: &Path,
        contents: Contents<'_>,
        shipping: &Shipping,
    ) -> Result<()> {
        place(contents.program, &root.join(self.program), 0o755)?;
        for (from, to) in self.files {
            place(&packaging(from), &root.join(to), 0o644)?;
        }
        let pages = contents.manuals.join(self.name);
        lay_pages(&pages, &root.join("usr/share/man/man1"))?;
        if let Some(guides) = self.guides {
            lay_guides(&root.join(guides))?;
        }
        let docs = root.join("usr/share/doc").join(self.name);
        let workspace = packaging("..");
        place(&workspace.join("LICENSE"), &docs.join("copyright"), 0o644)?;
        let example = docs.join(format!("{}.example", self.config));
        place(&workspace.join(self.example), &example, 0o644)?;
        for (at, what) in self.links {
            let at = root.join(at);
            folder_of(&at)?;
            symlink(what, &at)?;
        }
        date(root, shipping.epoch)
    }
}

/// A file of this folder of the workspace.
pub(super) fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Everything in a folder is as old as the checkout, whoever packs it when.
pub(super) fn date(root: &Path, epoch: u64) -> Result<()> {
    let mut find = Command::new("find");
    find.arg(root);
    find.args(["-exec", "touch", "--no-dereference", "--date"]);
    find.arg(format!("@{epoch}")).args(["{}", "+"]);
    run_to_end(&mut find)
}

/// Every page that somebody wrote; `better-compute docs` makes the site of them, with the API's.
fn lay_guides(to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(packaging("docs"))? {
        let page = entry?.path();
        let name = page.file_name().context("a page without a name")?;
        if page.extension().is_some_and(|end| end == "md") {
            place(&page, &to.join(name), 0o644)?;
        }
    }
    Ok(())
}

/// Every page of a manual, packed as `man` reads it, without a name or a time in it.
fn lay_pages(from: &Path, to: &Path) -> Result<()> {
    let pages = std::fs::read_dir(from)
        .with_context(|| format!("expected pages of a manual in {}", from.display()))?;
    for page in pages {
        let page = page?;
        let laid = to.join(page.file_name());
        place(&page.path(), &laid, 0o644)?;
        run_to_end(Command::new("gzip").args(["-9", "-n"]).arg(&laid))?;
    }
    Ok(())
}

fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    folder_of(to)?;
    std::fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    std::fs::set_permissions(to, Permissions::from_mode(mode))?;
    Ok(())
}

/// Folders are for everybody to enter, whatever the umask of who packs them.
fn folder_of(file: &Path) -> Result<()> {
    let Some(dir) = file.parent() else {
        return Ok(());
    };
    if !dir.is_dir() {
        folder_of(dir)?;
        std::fs::create_dir(dir)?;
        std::fs::set_permissions(dir, Permissions::from_mode(0o755))?;
    }
    Ok(())
}
