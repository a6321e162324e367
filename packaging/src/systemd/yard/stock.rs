//! What machines are given: programs, packages, and binaries of any number of versions.
//!
//! Two builds of the agent are enough: a version's text in a binary is replaced by another of its length. Either everything
//! is built now, or it comes out of a folder that `cargo xtask dist` has made; from there a package of that folder's version
//! is the folder's own, byte by byte.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::{
    super::{Origin, done},
    Kind,
    programs::{built, counted, renamed, shipping, strip, write},
};
use crate::{
    build::{self, Fault, Programs},
    dist::{self, Contents, Kind as PackageKind, Which},
};

/// What a package's own binary says of itself where it is built now.
pub(in crate::systemd) const PACKAGED: &str = "6.6.100";

/// Those that do as they are told.
const TOLD: &str = "7.7.100";

/// How far a package that is newer than every release has counted on.
const NEWER: u64 = 800;

/// Where binaries look for bcd-preflight.
const ROOM: &str = "/run/bcd/preflight.sock";

/// Where there is none.
const NO_ROOM: &str = "/run/bcd/preflight.none";

/// Everything that machines are given.
#[derive(Debug)]
pub(in crate::systemd) struct Stock {
    pub(in crate::systemd) programs: Programs,
    /// The version of the package's own binary; releases that are good count on from there.
    packaged: String,
    /// The folder of `dist`, where everything comes from one.
    shipped: Option<PathBuf>,
    manuals: PathBuf,
    good: Vec<u8>,
    /// Those that do as they are told, where somebody wants them.
    told: Option<Vec<u8>>,
    dir: TempDir,
}

impl Stock {
    /// Builds what is good, or takes what was built.
    pub(in crate::systemd) async fn of(origin: &Origin) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-stock-").tempdir()?;
        let (packaged, good) = match origin {
            Origin::Daily => (
                PACKAGED.to_owned(),
                built(PACKAGED, None, dir.path()).await?,
            ),
            Origin::Agent(agent) => (PACKAGED.to_owned(), std::fs::read(agent)?),
            Origin::Dist(folder) => {
                let agent = folder.join("bin/bcd");
                (version_of(&agent)?, std::fs::read(&agent)?)
            }
        };
        write(&dir.path().join("packaged"), &good)?;
        let (programs, shipped) = match origin {
            Origin::Daily | Origin::Agent(_) => (build::programs().await?, None),
            Origin::Dist(folder) => {
                let [control, gateway] =
                    ["better-compute", "bc-gateway"].map(|name| folder.join("bin").join(name));
                (Programs { control, gateway }, Some(folder.clone()))
            }
        };
        let stock = Self {
            programs,
            packaged,
            manuals: dir.path().join("manuals"),
            good,
            told: None,
            dir,
            shipped,
        };
        if stock.shipped.is_none() {
            build::manuals(&stock.programs.control, &stock.manuals).await?;
        }
        Ok(stock)
    }

    /// Builds what misbehaves too, and what packages of other versions than the shipped one are made of.
    pub(super) async fn with_all(mut self) -> Result<Self> {
        self.told = Some(built(TOLD, Some(Fault::AsTold), self.dir.path()).await?);
        if self.shipped.is_some() {
            build::manuals(&self.programs.control, &self.manuals).await?;
        }
        Ok(self)
    }

    /// The version of the package's own binary.
    pub(in crate::systemd) fn packaged(&self) -> &str {
        &self.packaged
    }

    /// A version above that of every release.
    pub(in crate::systemd) fn newer(&self) -> Result<String> {
        counted(&self.packaged, NEWER)
    }

    /// The folder of `dist`, where everything comes from one.
    pub(in crate::systemd) fn shipped(&self) -> Option<&Path> {
        self.shipped.as_deref()
    }

    /// The package's own binary.
    pub(in crate::systemd) fn own(&self) -> PathBuf {
        self.dir.path().join("packaged")
    }

    /// A good binary of a version.
    pub(super) fn binary(&self, version: &str) -> Result<PathBuf> {
        let binary = self.dir.path().join(format!("bcd-{version}"));
        if !binary.is_file() {
            write(&binary, &renamed(&self.good, &self.packaged, version)?)?;
            std::fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
            let says = version_of(&binary)?;
            ensure!(
                says == version,
                "a binary was renamed to {version}, and says {says}"
            );
        }
        Ok(binary)
    }

    /// The binary of the release with that number, and its version.
    pub(in crate::systemd) fn release(&self, kind: Kind, number: u64) -> Result<(String, PathBuf)> {
        let (version, bytes) = match kind {
            Kind::Good => {
                let version = counted(&self.packaged, number)?;
                let binary = self.binary(&version)?;
                return Ok((version, binary));
            }
            Kind::Older => {
                let version = counted(&self.packaged, number)?;
                let bytes = renamed(&self.good, &self.packaged, &version)?;
                (version, renamed(&bytes, ROOM, NO_ROOM)?)
            }
            Kind::Told => {
                let version = counted(TOLD, number)?;
                let told = self.told.as_ref();
                let told = told.context("nothing that does as it is told was built")?;
                let bytes = renamed(told, TOLD, &version)?;
                (version, bytes)
            }
        };
        let binary = self.dir.path().join("release");
        write(&binary, &bytes)?;
        Ok((version, binary))
    }

    /// The node's package of a version, made when it is first asked for.
    pub(in crate::systemd) fn package(&self, version: &str) -> Result<PathBuf> {
        self.packed((Which::Node, PackageKind::Deb), version)
    }

    /// The node's package for Fedora's kin.
    pub(in crate::systemd) fn rpm(&self, version: &str) -> Result<PathBuf> {
        self.packed((Which::Node, PackageKind::Rpm), version)
    }

    /// The packages of a whole fleet.
    pub(super) fn everything(&self, version: &str) -> Result<Vec<PathBuf>> {
        let each = [Which::Node, Which::Gateway, Which::Control].into_iter();
        each.map(|which| self.packed((which, PackageKind::Deb), version))
            .collect()
    }

    fn packed(&self, (which, kind): (Which, PackageKind), version: &str) -> Result<PathBuf> {
        if let Some(folder) = &self.shipped
            && version == self.packaged
        {
            return dist::package_in(folder, (which, kind));
        }
        let dir = self
            .dir
            .path()
            .join(format!("{which:?}-{kind:?}-{version}"));
        if let Some(Ok(made)) = std::fs::read_dir(&dir)
            .ok()
            .and_then(|mut files| files.next())
        {
            return Ok(made.path());
        }
        let program = match which {
            Which::Node => self.binary(version)?,
            Which::Gateway => self.stripped(&self.programs.gateway)?,
            Which::Control => self.stripped(&self.programs.control)?,
        };
        std::fs::create_dir_all(&dir)?;
        let contents = Contents {
            program: &program,
            manuals: &self.manuals,
        };
        dist::one_package((which, kind), &dir, contents, &shipping(version))
    }

    /// A program without what debuggers alone read.
    fn stripped(&self, program: &Path) -> Result<PathBuf> {
        let name = program.file_name().context("a program has no name")?;
        let to = self.dir.path().join(name);
        if !to.is_file() {
            std::fs::copy(program, &to)?;
            strip(&to)?;
        }
        Ok(to)
    }
}

/// What a binary says that it is.
fn version_of(binary: &Path) -> Result<String> {
    let said = done(Command::new(binary).arg("--version"))?;
    let version = said.split_whitespace().nth(1);
    Ok(version.context("a binary says no version")?.to_owned())
}
