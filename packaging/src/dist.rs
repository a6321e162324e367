//! `cargo xtask dist`: everything that is shipped, out of one checkout.
//!
//! Takes a checkout and perhaps keys, gives one folder: static binaries, packages, a list of what is inside of them, their
//! digests, and a release that control takes. The same checkout gives the same bytes, in whatever folder it lies.

mod deb;
mod layout;
mod rpm;
mod sbom;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use bc_protocol::{digest::Sha256, platform::Platform};

use crate::build::{self, AgentBuild, Shipping};
pub use layout::Sources;

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
    /// Who signs the release, and as which one.
    pub signing: Option<Signing>,
}

/// How programs are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builds {
    /// As they are shipped: static, optimized, stripped.
    Shipped,
    /// As they are tested every day: in a fraction of the time.
    Daily,
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
    };
    let bin = dist.out.join("bin");
    std::fs::create_dir_all(&bin)?;
    say("building the programs");
    let sources = Sources {
        agent: bin.join("bcd"),
        gateway: bin.join("bc-gateway"),
        control: bin.join("better-compute"),
    };
    compile(&dist, &shipping, &sources).await?;
    say("packing");
    let packages = packages(&dist.out, &sources, &shipping)?;
    let list = dist.out.join("sbom.cdx.json");
    sbom::write(&list, &shipping.version)?;
    release(&dist, &sources, &list)?;
    sums(&dist.out)?;
    let size = std::fs::metadata(&sources.agent)?.len();
    let node = packages
        .iter()
        .find(|file| file.extension().is_some_and(|end| end == "deb"))
        .context("no package was made")?;
    let kib = |bytes: u64| bytes.div_ceil(1024);
    Ok(format!(
        "packages={} agent_kib={} node_deb_kib={} version={version}",
        packages.len(),
        kib(size),
        kib(std::fs::metadata(node)?.len()),
    ))
}

/// Packs programs that were built before. The node's Debian package comes first.
pub fn packages(out: &Path, sources: &Sources, shipping: &Shipping) -> Result<Vec<PathBuf>> {
    let staged = tempfile::tempdir().context("a folder to pack in")?;
    let mut made = Vec::new();
    for package in Package::all() {
        let root = staged.path().join(package.name);
        package.stage(&root, package.program_of(sources), shipping)?;
        made.push(deb::pack(&package, &root, out, shipping)?);
        if has("rpmbuild") {
            made.push(rpm::pack(&package, &root, out, shipping)?);
        }
    }
    Ok(made)
}

/// Packs the node alone, for Debian.
pub fn node_package(out: &Path, agent: &Path, shipping: &Shipping) -> Result<PathBuf> {
    let staged = tempfile::tempdir().context("a folder to pack in")?;
    let root = staged.path().join("bcd");
    let node = Package::node();
    node.stage(&root, agent, shipping)?;
    deb::pack(&node, &root, out, shipping)
}

async fn compile(dist: &Dist, shipping: &Shipping, to: &Sources) -> Result<()> {
    let (gateway, control) = match dist.builds {
        Builds::Shipped => {
            build::shipped(shipping, &to.agent).await?;
            let servers = build::shipped_servers(shipping).await?;
            (servers.gateway, servers.control)
        }
        Builds::Daily => {
            let agent = AgentBuild {
                version: "0.1.0",
                fault: None,
            };
            build::agent(agent, &to.agent).await?;
            let servers = build::programs().await?;
            (servers.gateway, servers.control)
        }
    };
    for (from, to) in [(gateway, &to.gateway), (control, &to.control)] {
        std::fs::copy(&from, to).with_context(|| format!("copy {}", from.display()))?;
    }
    Ok(())
}

/// A folder that `releases register` takes once enough people have signed it.
fn release(dist: &Dist, sources: &Sources, list: &Path) -> Result<()> {
    let dir = dist.out.join("release");
    std::fs::create_dir_all(&dir)?;
    let binary = dir.join(format!("bcd-{}", Platform::host()));
    std::fs::copy(&sources.agent, &binary)?;
    std::fs::copy(list, dir.join("sbom.cdx.json"))?;
    let Some(signing) = &dist.signing else {
        return Ok(());
    };
    let [first, others @ ..] = signing.keys.as_slice() else {
        bail!("expected at least one key to sign with, found none")
    };
    let version = dist.version.clone().unwrap_or_else(workspace_version);
    let mut sign = Command::new(&sources.control);
    sign.args(["release", "sign"]).arg(&dir);
    sign.args(["--product", "bcd", "--version", &version]);
    sign.args(["--sequence", &signing.sequence.to_string(), "--key"]);
    sign.arg(first);
    if !others.is_empty() {
        sign.arg("--cosigners");
        sign.args(others.iter().map(|key| key.with_extension("pub.pem")));
    }
    run_to_end(&mut sign)?;
    for key in others {
        let mut cosign = Command::new(&sources.control);
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
