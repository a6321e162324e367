//! `cargo xtask systemd-fleet --qemu`: machines with a kernel and a disk of their own, whose plug is really pulled.
//!
//! Takes Debian's own kernel and packages and ours, gives what was broken. Control and gateway are processes of this
//! machine; what they send to a machine goes through relays, which stop in the middle of something when they are told, so
//! that the power goes at that very point. The power goes by SIGKILL to the emulator: what the machine's kernel had in
//! memory is lost, and what it had written is there.

mod guest;
mod image;
mod plugs;
mod relay;

use anyhow::{Context, Result, ensure};

use super::{Campaign, Findings, node::Rights, tell};
use crate::fleet::now;

use guest::{Accelerator, Guest};
use plugs::{Plug, Site};

/// As whom nodes run, in turn.
const RIGHTS: [Rights; 2] = [Rights::Unprivileged, Rights::Root];

/// What this machine lacks for the campaign.
pub fn missing() -> Vec<&'static str> {
    super::lacking(&["qemu-system-x86_64", "debootstrap", "chroot", "mkfs.ext4"])
}

/// Runs the campaign; how much is done is the same in every form.
pub async fn run(campaign: &Campaign) -> Result<Findings> {
    let Campaign {
        extent: _,
        nodes,
        origin,
        only,
    } = campaign;
    let nodes = *nodes;
    let missing = missing();
    ensure!(missing.is_empty(), "this campaign needs {missing:?}");
    let image = image::made()?;
    let accelerator = Accelerator::found(&image)?;
    tell(&format!("accelerator: {accelerator:?}"));
    let mut site = Site::open(origin).await?;
    for (number, rights) in RIGHTS.into_iter().cycle().take(nodes).enumerate() {
        let began = now();
        let package = site.stock.package(site.stock.packaged())?;
        let mut guest = Guest::new(number, (&image, accelerator), &package)?;
        guest.boot().await.with_context(|| guest.console())?;
        tell(&format!("boot_s={:.1}", began.elapsed().as_secs_f64()));
        site.settle(guest, rights).await?;
        tell(&format!(
            "boot_to_welcome_s={:.1}",
            began.elapsed().as_secs_f64()
        ));
    }
    let mut findings = Findings {
        nodes,
        ..Findings::default()
    };
    for plug in Plug::ALL {
        let name = format!("{plug:?}").to_lowercase();
        let named = |part: &String| name.contains(&part.to_lowercase().replace('-', ""));
        if !only.is_empty() && !only.iter().any(named) {
            continue;
        }
        findings.cases += 1;
        tell(&format!("{plug:?}"));
        let began = now();
        let done = plug.pulled(&mut site).await;
        tell(&format!("{plug:?}: {:.1} s", began.elapsed().as_secs_f64()));
        if let Err(error) = done {
            let violation = format!("{plug:?}: {error:#}\n{}", site.logs());
            tell(&violation);
            findings.violations.push(violation);
        }
    }
    Ok(findings)
}
