//! Programs as they are shipped: static, optimized, stripped, and the same bytes in whatever folder they are built.
//!
//! Takes a checkout and what the builds say about themselves, gives paths of executables.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::process::Command;

use super::{Checkout, Programs, Target, cargo_with, find, run};

/// What every build that is shipped says about itself, and which machines it is for.
#[derive(Clone, Debug)]
pub struct Shipping {
    /// The agent's version.
    pub version: String,
    /// Seconds since 1970 that count as the time of the build.
    pub epoch: u64,
    /// The machines that run it.
    pub target: Target,
}

/// Builds the agent as it is shipped, one static file, and copies it to `to`.
pub async fn shipped_agent(to: &Path) -> Result<()> {
    let here = Target::here();
    let cargo = shipped_with(
        (&Checkout::here(), here),
        &["--package", "bcd", "--profile", "agent"],
        &agent_flags(here),
    );
    copy_agent(cargo, to).await
}

/// The same, so that the bytes do not depend on the folder or on the time.
pub async fn shipped(from: &Checkout, shipping: &Shipping, to: &Path) -> Result<()> {
    let mut flags = agent_flags(shipping.target);
    flags.extend(remaps(from));
    let what = ["--package", "bcd", "--profile", "agent"];
    let mut cargo = shipped_with((from, shipping.target), &what, &flags);
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
    let mut cargo = shipped_with((from, shipping.target), &what, &flags);
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

fn shipped_with((from, target): (&Checkout, Target), what: &[&str], flags: &[String]) -> Command {
    let mut cargo = cargo_with(what);
    cargo.args(["--target", target.triple()]);
    cargo.current_dir(&from.root);
    if let Some(folder) = &from.target {
        cargo.env("CARGO_TARGET_DIR", folder);
    }
    if let Some((name, linker)) = target.linker()
        && std::env::var_os(name).is_none()
    {
        cargo.env(name, linker);
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
fn agent_flags(target: Target) -> Vec<String> {
    // What functions have in common becomes a function of its own: the last of many small things for the sake of size.
    let outline = "-Cllvm-args=--enable-machine-outliner=always";
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        outline.to_owned(),
    ];
    if target == Target::Amd64 {
        let options = "-Wl,-O2,--icf=all,--pack-dyn-relocs=relr,--no-eh-frame-hdr";
        // As seen from the workspace, where the compiler stands: the flags too are the same in every folder.
        let script = "packaging/link/agent.ld";
        let arguments = [options, "-T", script];
        flags.extend(arguments.map(|argument| format!("-Clink-arg={argument}")));
    }
    flags
}
