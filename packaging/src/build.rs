//! Builds the programs, as cargo would for anybody.
//!
//! Takes what to build, gives paths of executables. Cargo says where it put them, so that no folder is guessed.

mod checkout;

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::process::Command;

pub use checkout::Checkout;

/// The servers and the command line.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `better-compute`: control and command line.
    pub control: PathBuf,
    /// `bc-gateway`.
    pub gateway: PathBuf,
}

/// A build of the agent that reports a version of its own.
#[derive(Clone, Copy, Debug)]
pub struct AgentBuild {
    /// The version that it reports.
    pub version: &'static str,
    /// What is wrong with it, if something is.
    pub fault: Option<Fault>,
}

/// What can be wrong with an agent on purpose.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It starts, and never opens a session.
    NeverConnects,
    /// Whatever its environment says when it is started, if that says anything.
    AsTold,
    /// It speaks protocol 1 and nothing newer.
    OldProtocol,
}

impl Fault {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::NeverConnects => Some("never-connects"),
            Self::OldProtocol => Some("old-protocol"),
            Self::AsTold => None,
        }
    }
}

/// Builds `better-compute` and `bc-gateway`.
pub async fn programs() -> Result<Programs> {
    let built = run(cargo()).await?;
    Ok(Programs {
        control: find(&built, "better-compute")?,
        gateway: find(&built, "bc-gateway")?,
    })
}

/// Builds `bc-gateway` alone.
pub async fn gateway() -> Result<PathBuf> {
    find(
        &run(cargo_with(&["--package", "bc-gateway", "--bins"])).await?,
        "bc-gateway",
    )
}

/// Builds an agent and copies it to `to`. Only its `main.rs` differs between versions, so that a second build is short.
pub async fn agent(build: AgentBuild, to: &Path) -> Result<()> {
    let mut cargo = cargo();
    cargo.env("BCD_VERSION", build.version);
    if build.fault.is_some() {
        cargo.args(["--features", "bcd/faults"]);
    }
    match build.fault.and_then(Fault::word) {
        Some(word) => cargo.env("BCD_FAULT", word),
        None => cargo.env_remove("BCD_FAULT"),
    };
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir)?;
    }
    // Every version is built to the same path: until it has been copied, nobody else may build.
    let turn = turn().await?;
    let built = run(cargo).await?;
    std::fs::copy(find(&built, "bcd")?, to)
        .with_context(|| format!("copy the agent to {}", to.display()))?;
    drop(turn);
    Ok(())
}

/// Builds an agent that makes whatever mistake its environment names, and copies it to `to`.
pub async fn agent_with_faults(to: &Path) -> Result<()> {
    // It alone: no server is needed for what it is used for.
    let mut cargo = cargo_with(&["--package", "bcd", "--features", "faults"]);
    cargo.env_remove("BCD_FAULT");
    let turn = turn().await?;
    let built = run(cargo).await?;
    std::fs::copy(find(&built, "bcd")?, to)
        .with_context(|| format!("copy the agent to {}", to.display()))?;
    drop(turn);
    Ok(())
}

/// What every build that is shipped says about itself.
#[derive(Clone, Debug)]
pub struct Shipping {
    /// The agent's version.
    pub version: String,
    /// Seconds since 1970 that count as the time of the build.
    pub epoch: u64,
}

/// Builds the simulator and runs it with these arguments, where this program's output goes. A build of its own: what it
/// links is in no program that is shipped.
pub async fn simulator(args: &[String]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let what = [
        "run",
        "--quiet",
        "--package",
        "packaging",
        "--features",
        "simulation",
        "--bin",
        "simulate",
        "--",
    ];
    let status = Command::new(cargo).args(what).args(args).status().await?;
    ensure!(status.success(), "the simulator ended with {status}");
    Ok(())
}

/// Builds the program that measures control from inside.
pub async fn control_bench() -> Result<PathBuf> {
    let program = "bc-bench-control";
    let what = ["--package", "better-compute", "--features", "bench"];
    let built = run(cargo_with(&[what.as_slice(), &["--bin", program]].concat())).await?;
    find(&built, program)
}

/// Programs that are to be quick.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// This program.
    pub own: PathBuf,
    /// `bc-gateway`.
    pub gateway: PathBuf,
}

/// Builds gateway and this program for measuring, in a folder of their own. Without the last optimisations of a release,
/// which take longer than the measuring.
pub async fn optimised_gateway() -> Result<Optimised> {
    let what = ["--package", "bc-gateway", "--package", "packaging"];
    let bins = ["--bin", "bc-gateway", "--bin", "xtask", "--release"];
    let mut cargo = cargo_with(&[what.as_slice(), &bins].concat());
    cargo
        .args(["--target-dir", "target/bench"])
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    let built = run(cargo).await?;
    Ok(Optimised {
        own: find(&built, "xtask")?,
        gateway: find(&built, "bc-gateway")?,
    })
}

/// Builds the agent as it is shipped, one static file, and copies it to `to`.
pub async fn shipped_agent(to: &Path) -> Result<()> {
    let cargo = shipped_with(
        &Checkout::here(),
        &["--package", "bcd", "--profile", "agent"],
        &agent_flags(),
    );
    copy_agent(cargo, to).await
}

/// The same, so that the bytes do not depend on the folder or on the time.
pub async fn shipped(from: &Checkout, shipping: &Shipping, to: &Path) -> Result<()> {
    let mut flags = agent_flags();
    flags.extend(remaps(from));
    let mut cargo = shipped_with(from, &["--package", "bcd", "--profile", "agent"], &flags);
    cargo.env("BCD_VERSION", &shipping.version);
    cargo.env("SOURCE_DATE_EPOCH", shipping.epoch.to_string());
    copy_agent(cargo, to).await
}

/// Builds control and gateway as they are shipped, each one static file without a symbol.
pub async fn shipped_servers(from: &Checkout, shipping: &Shipping) -> Result<Programs> {
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        "-Cstrip=symbols".to_owned(),
    ];
    flags.extend(remaps(from));
    let what = [
        "--package",
        "better-compute",
        "--package",
        "bc-gateway",
        "--release",
    ];
    let mut cargo = shipped_with(from, &what, &flags);
    cargo.env("SOURCE_DATE_EPOCH", shipping.epoch.to_string());
    let built = run(cargo).await?;
    Ok(Programs {
        control: find(&built, "better-compute")?,
        gateway: find(&built, "bc-gateway")?,
    })
}

async fn copy_agent(cargo: Command, to: &Path) -> Result<()> {
    let built = run(cargo).await?;
    std::fs::copy(find(&built, "bcd")?, to)
        .with_context(|| format!("copy the agent to {}", to.display()))?;
    Ok(())
}

fn shipped_with(from: &Checkout, what: &[&str], flags: &[String]) -> Command {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = cargo_with(what);
    cargo.args(["--target", &target]);
    cargo.current_dir(&from.root);
    if let Some(target) = &from.target {
        cargo.env("CARGO_TARGET_DIR", target);
    }
    // They are for the target alone, since one is named: what runs while building cannot be static.
    cargo
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CFLAGS", c_remaps(from))
        .env_remove("BCD_FAULT");
    cargo
}

/// Folders whose names must not get into a binary, and what stands for them there.
fn folders(from: &Checkout) -> Vec<(PathBuf, &'static str)> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut folders = Vec::new();
    if let Some(target) = &from.target {
        folders.push((target.clone(), "/bcd/target"));
    }
    folders.push((from.root.clone(), "/bcd"));
    folders.extend(home.map(|home| (home, "/cargo")));
    folders
}

fn remaps(from: &Checkout) -> Vec<String> {
    let remap = |(folder, name): (PathBuf, &str)| {
        format!("--remap-path-prefix={}={name}", folder.display())
    };
    folders(from).into_iter().map(remap).collect()
}

fn c_remaps(from: &Checkout) -> String {
    let remap =
        |(folder, name): (PathBuf, &str)| format!("-ffile-prefix-map={}={name}", folder.display());
    let all: Vec<String> = folders(from).into_iter().map(remap).collect();
    all.join(" ")
}

/// How the shipped agent is compiled and linked: static; and where the toolchain brings its own linker, equal functions
/// once, relocations packed, and no tables to unwind by.
fn agent_flags() -> Vec<String> {
    // What functions have in common becomes a function of its own: the last of many small things for the sake of size.
    let outline = "-Cllvm-args=--enable-machine-outliner=always";
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        outline.to_owned(),
    ];
    if cfg!(target_arch = "x86_64") {
        let options = "-Wl,-O2,--icf=all,--pack-dyn-relocs=relr,--no-eh-frame-hdr";
        // As seen from the workspace, where the compiler stands: the flags too are the same in every folder.
        let script = "packaging/link/agent.ld";
        let arguments = [options, "-T", script];
        flags.extend(arguments.map(|argument| format!("-Clink-arg={argument}")));
    }
    flags
}

/// Waits for the turn to build; it ends when the file is closed, also by a crash.
async fn turn() -> Result<File> {
    tokio::task::spawn_blocking(|| {
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))?;
        file.lock()?;
        Ok(file)
    })
    .await?
}

fn cargo() -> Command {
    // Always the whole workspace, so that features and with them third-party crates are the same each time.
    cargo_with(&["--workspace", "--bins"])
}

fn cargo_with(what: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Names, not paths, so that it works from any folder of the workspace.
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    cargo
        .arg("build")
        .args(what)
        .args(["--locked", "--message-format", "json-render-diagnostics"]);
    cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        if is_about_this_package(&name) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Whether the cargo that started this process set a variable to tell it about its own package. Build scripts of third
/// parties watch such variables: handed on, they would have those crates built again at every turn.
fn is_about_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

/// The part of cargo's messages that names an executable.
#[derive(Debug, Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
}

async fn run(mut cargo: Command) -> Result<Vec<PathBuf>> {
    // Not `output()`: it would keep what cargo tells people, errors too, to itself.
    let output = cargo
        .stdout(Stdio::piped())
        .spawn()
        .context("start cargo")?
        .wait_with_output()
        .await
        .context("wait for cargo")?;
    ensure!(
        output.status.success(),
        "cargo build ended with {}",
        output.status
    );
    let messages = String::from_utf8(output.stdout).context("cargo's messages")?;
    let executables = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok())
        .filter_map(|artifact| artifact.executable)
        .collect();
    Ok(executables)
}

fn find(built: &[PathBuf], name: &str) -> Result<PathBuf> {
    match built
        .iter()
        .find(|path| path.file_name().is_some_and(|file| file == name))
    {
        Some(path) => Ok(path.clone()),
        None => bail!("cargo built no {name}"),
    }
}
