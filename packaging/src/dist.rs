//! `cargo xtask dist`: everything that is shipped, out of one checkout.
//!
//! Takes a checkout and perhaps keys, gives one folder: static binaries, packages, a list of what is inside of them, their
//! digests, and a release that control takes. The same checkout gives the same bytes, in whatever folder it lies.

mod deb;
mod layout;
mod rpm;
mod sbom;
mod twice;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use bc_protocol::digest::Sha256;

use crate::build::{self, AgentBuild, Checkout, Shipping, Target};
pub use layout::{Contents, Sources};

use layout::Package;

/// What to ship.
#[derive(Clone, Debug)]
pub struct Dist {
    /// Where everything goes.
    pub out: PathBuf,
    /// The agent's version, where it is not the workspace's.
    pub version: Option<String>,
    /// How the programs are compiled.
    pub builds: Builds,
    /// The machines that run them.
    pub target: Target,
    /// Who signs the release, and as which one.
    pub signing: Option<Signing>,
    /// Whether it is made a second time, to compare.
    pub proof: Proof,
}

/// Whether somebody looks that the same checkout gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nobody does.
    None,
    /// Everything is made again, elsewhere: packages, and what is shipped also from a copy of the checkout.
    Twice,
}

/// How programs are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builds {
    /// As they are shipped: static, optimized, stripped.
    Shipped,
    /// As they are tested every day: in a fraction of the time.
    Daily,
}

/// One of the packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The node's.
    Node,
    /// The gateway's.
    Gateway,
    /// Control's, with the command line.
    Control,
}

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Debian's.
    Deb,
    /// Fedora's.
    Rpm,
}

/// How hard a package is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As it is shipped.
    Best,
    /// For those that nobody downloads.
    None,
}

impl Builds {
    /// Programs with everything that debuggers read take minutes to compress, and nobody downloads them.
    fn compression(self) -> Compression {
        match self {
            Self::Shipped => Compression::Best,
            Self::Daily => Compression::None,
        }
    }
}

/// Who signs the release.
#[derive(Clone, Debug)]
pub struct Signing {
    /// Its place in the order of releases.
    pub sequence: u64,
    /// The private keys; the first signs, the others add theirs.
    pub keys: Vec<PathBuf>,
}

/// Builds and packs everything. Gives the figures.
pub async fn run(dist: Dist, say: impl Fn(&str)) -> Result<String> {
    let version = dist.version.clone().unwrap_or_else(workspace_version);
    let shipping = Shipping {
        version: version.clone(),
        epoch: epoch()?,
        target: dist.target,
    };
    ensure!(
        dist.builds == Builds::Shipped || dist.target == Target::here(),
        "daily builds are for this machine alone"
    );
    let here = Checkout::here();
    say("building the programs");
    let mut sources = compile((&here, dist.builds), &shipping, &dist.out).await?;
    // What signs, and writes the manual of itself, has to run here.
    let ours = if dist.target == Target::here() {
        sources.control.clone()
    } else {
        build::programs().await?.control
    };
    let manuals = tempfile::tempdir().context("a folder for manuals")?;
    build::manuals(&ours, manuals.path()).await?;
    sources.manuals = manuals.path().to_owned();
    say("packing");
    let how = (dist.builds.compression(), &shipping);
    let packages = packages(&dist.out, &sources, how)?;
    let signing = dist.signing.as_ref().map(|signing| (&*ours, signing));
    release(&dist.out, &sources.agent, &shipping, signing)?;
    sums(&dist.out)?;
    let size = std::fs::metadata(&sources.agent)?.len();
    let node = packages
        .iter()
        .find(|file| file.extension().is_some_and(|end| end == "deb"))
        .context("no package was made")?;
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let mut figures = format!(
        "packages={} agent_kib={} node_deb_kib={} version={version}",
        packages.len(),
        kib(size),
        kib(std::fs::metadata(node)?.len()),
    );
    if dist.proof == Proof::Twice {
        say("making everything again, elsewhere");
        let compared = twice::compare(&here, &dist, &shipping, &sources).await?;
        figures.push_str(&format!(" same={compared}"));
    }
    Ok(figures)
}

/// Packs programs that were built before. The node's Debian package comes first.
pub fn packages(
    out: &Path,
    sources: &Sources,
    (compression, shipping): (Compression, &Shipping),
) -> Result<Vec<PathBuf>> {
    let staged = tempfile::tempdir().context("a folder to pack in")?;
    let mut made = Vec::new();
    for package in Package::all() {
        let root = staged.path().join(package.name);
        package.stage(&root, package.contents(sources), shipping)?;
        let how = (compression, shipping);
        made.push(deb::pack(&package, &root, out, how)?);
        if has("rpmbuild") {
            made.push(rpm::pack(&package, &root, out, how)?);
        }
    }
    Ok(made)
}

/// Packs one program without compressing anything: for a machine that is gone within minutes.
pub fn one_package(
    (which, kind): (Which, Kind),
    out: &Path,
    contents: Contents<'_>,
    shipping: &Shipping,
) -> Result<PathBuf> {
    let staged = tempfile::tempdir().context("a folder to pack in")?;
    let package = Package::of(which);
    let root = staged.path().join(package.name);
    package.stage(&root, contents, shipping)?;
    let how = (Compression::None, shipping);
    match kind {
        Kind::Deb => deb::pack(&package, &root, out, how),
        Kind::Rpm => rpm::pack(&package, &root, out, how),
    }
}

/// The package of a kind that lies in a folder of `dist`.
pub fn package_in(folder: &Path, (which, kind): (Which, Kind)) -> Result<PathBuf> {
    let name = Package::of(which).name;
    let (begin, end) = match kind {
        Kind::Deb => (format!("{name}_"), ".deb"),
        Kind::Rpm => (format!("{name}-"), ".rpm"),
    };
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("read {}", folder.display()))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut found = entries.into_iter().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with(&begin) && name.ends_with(end)
    });
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only.path()),
        (None, _) => bail!("{} holds no {begin}…{end}", folder.display()),
        (Some(_), Some(_)) => bail!("{} holds {begin}…{end} twice", folder.display()),
    }
}

/// Builds the programs, and puts them where they are shipped from.
async fn compile(
    (from, builds): (&Checkout, Builds),
    shipping: &Shipping,
    out: &Path,
) -> Result<Sources> {
    let bin = out.join("bin");
    std::fs::create_dir_all(&bin)?;
    let to = Sources {
        agent: bin.join("bcd"),
        gateway: bin.join("bc-gateway"),
        control: bin.join("better-compute"),
        manuals: PathBuf::new(),
    };
    let servers = match builds {
        Builds::Shipped => {
            build::shipped(from, shipping, &to.agent).await?;
            build::shipped_servers(from, shipping).await?
        }
        Builds::Daily => {
            let agent = AgentBuild {
                version: "0.1.0",
                fault: None,
            };
            build::agent(agent, &to.agent).await?;
            build::programs().await?
        }
    };
    for (from, to) in [
        (servers.gateway, &to.gateway),
        (servers.control, &to.control),
    ] {
        std::fs::copy(&from, to).with_context(|| format!("copy {}", from.display()))?;
    }
    Ok(to)
}

/// Lays out the folder that people sign, and signs it for those whose keys are here: once enough have, `releases register`
/// takes it. Gives the folder. Whoever signs does it by a `better-compute` that runs here.
pub fn release(
    out: &Path,
    agent: &Path,
    shipping: &Shipping,
    signing: Option<(&Path, &Signing)>,
) -> Result<PathBuf> {
    let list = out.join("sbom.cdx.json");
    sbom::write(&list, &shipping.version)?;
    let dir = out.join("release");
    std::fs::create_dir_all(&dir)?;
    let platform = shipping.target.platform();
    let platform = platform.context("releases have no name for these machines")?;
    let binary = dir.join(format!("bcd-{platform}"));
    std::fs::copy(agent, &binary)?;
    std::fs::copy(list, dir.join("sbom.cdx.json"))?;
    let Some((control, signing)) = signing else {
        return Ok(dir);
    };
    sign(control, &dir, &shipping.version, signing)?;
    Ok(dir)
}

/// Signs a release's folder with every key, by a `better-compute` that runs here.
pub fn sign(control: &Path, dir: &Path, version: &str, signing: &Signing) -> Result<()> {
    let [first, others @ ..] = signing.keys.as_slice() else {
        bail!("expected at least one key to sign with, found none")
    };
    let mut sign = Command::new(control);
    sign.args(["release", "sign"]).arg(dir);
    sign.args(["--product", "bcd", "--version", version]);
    sign.args(["--sequence", &signing.sequence.to_string(), "--key"]);
    sign.arg(first);
    if !others.is_empty() {
        sign.arg("--cosigners");
        sign.args(others.iter().map(|key| key.with_extension("pub.pem")));
    }
    run_to_end(&mut sign)?;
    for key in others {
        let mut cosign = Command::new(control);
        cosign.args(["release", "cosign"]);
        cosign.arg(dir.join("manifest.json")).arg("--key").arg(key);
        run_to_end(&mut cosign)?;
    }
    Ok(())
}

/// The digests of everything in the folder, in the form that `sha256sum --check` reads.
fn sums(out: &Path) -> Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(out)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name != "SHA256SUMS" {
            files.push(name);
        }
    }
    files.sort();
    let mut text = String::new();
    for name in files {
        let bytes = std::fs::read(out.join(&name))?;
        text.push_str(&format!("{}  {name}\n", Sha256::of(&bytes)));
    }
    write(&out.join("SHA256SUMS"), &text)
}

/// The moment that every file of a package is dated by: the last change of the checkout.
pub fn epoch() -> Result<u64> {
    if let Ok(told) = std::env::var("SOURCE_DATE_EPOCH") {
        return told.parse().context("SOURCE_DATE_EPOCH");
    }
    let mut git = Command::new("git");
    git.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = git
        .args(["log", "-1", "--format=%ct"])
        .output()
        .context("start git")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .context("expected the last change's time of git, or SOURCE_DATE_EPOCH")
}

/// The workspace's version.
pub fn workspace_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Whether a program is here.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn run_to_end(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Writes a file that is packed at once.
#[expect(
    clippy::disallowed_methods,
    reason = "what is shipped is made anew after a power cut"
)]
fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
