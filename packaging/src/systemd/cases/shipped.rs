//! The release that `cargo xtask dist` lays out, taken from its folder to the machines by the command line that is shipped.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

use super::super::{
    done,
    yard::{MACHINES, Yard},
};
use crate::{
    dist::{self, Signing},
    fleet::text,
};

/// What an operator asks between a release and the next, in each form that answers have.
const ASKED: [&[&str]; 12] = [
    &["releases", "list"],
    &["rollouts", "list"],
    &["rollouts", "get", "ROLLOUT"],
    &["rollouts", "explain", "ROLLOUT", "NODE"],
    &["nodes", "list"],
    &["nodes", "get", "NODE"],
    &["pools", "list"],
    &["gateways", "list"],
    &["join-tokens", "list"],
    &["fleet", "summary"],
    &["events", "list"],
    &["doctor"],
];

/// Signed by two, checked, published, rolled out; its bytes are what runs in the end.
pub(super) async fn released(yard: &mut Yard) -> Result<()> {
    let from = yard.stock.shipped().context("nothing is shipped")?;
    let folder = yard.fleet.dir().join("as-shipped");
    let version = yard.packaged();
    lay(&from.join("release"), &folder)?;
    let sequence = yard.next_sequence();
    sign(yard, &folder, &version, sequence)?;
    let published = text(&folder)?;
    let operator = &yard.fleet.operator;
    operator.run(&["releases", "publish", &published])?;
    let pool = yard.fleet.pools.get(MACHINES).context("no such pool")?;
    let rollout = yard.begin(pool, &version)?;
    let state = yard.ended(&rollout).await?;
    ensure!(state == "completed", "the rollout of {version} is {state}");
    yard.confirmed = version;
    yard.at_rest().await?;
    runs_what_is_shipped(yard)?;
    asked(yard, &rollout)
}

/// A copy of the folder: whoever made it may sign it with keys of their own.
fn lay(release: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(release)? {
        let entry = entry?;
        if entry.file_name() != "manifest.json" {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn sign(yard: &Yard, folder: &Path, version: &str, sequence: u64) -> Result<()> {
    let control = &yard.fleet.programs().control;
    let signing = Signing {
        sequence,
        keys: yard.fleet.keys.files().to_vec(),
    };
    dist::sign(control, folder, version, &signing)?;
    let mut verify = Command::new(control);
    verify.args(["release", "verify"]);
    verify.arg(folder.join("manifest.json"));
    verify.args(["--pins", &yard.fleet.keys.pins().join(",")]);
    verify.args(["--threshold", "2", "--dir"]).arg(folder);
    done(&mut verify).map(drop)
}

/// The process of every node is the shipped file, byte by byte.
fn runs_what_is_shipped(yard: &Yard) -> Result<()> {
    let shipped = std::fs::read(yard.stock.own())?;
    for node in &yard.nodes {
        let process = node.machine.main_process("bcd.service")?;
        let runs = format!("/proc/{process}/exe");
        let sum = node.machine.run(&["sha256sum", &runs])?;
        let expected = bc_protocol::digest::Sha256::of(&shipped).to_string();
        ensure!(
            sum.starts_with(&expected),
            "{:?}: expected {expected} to run, found {sum}",
            node.rights
        );
    }
    Ok(())
}

fn asked(yard: &Yard, rollout: &str) -> Result<()> {
    let node = yard.nodes.first().context("no node is left")?;
    for words in ASKED {
        for form in ["table", "json"] {
            let mut words: Vec<&str> = words
                .iter()
                .map(|word| match *word {
                    "ROLLOUT" => rollout,
                    "NODE" => &node.id,
                    word => word,
                })
                .collect();
            words.extend(["--output", form]);
            let said = yard.fleet.operator.run(&words)?.stdout;
            if said.trim_ascii().is_empty() {
                bail!("better-compute {} says nothing", words.join(" "));
            }
        }
    }
    Ok(())
}
