//! What may happen to a node, and how it has to stand afterwards.

mod container;
mod disk;
mod guides;
mod helper;
mod manual;
mod older;
mod package;
mod playbook;
mod rpm;
mod script;
mod servers;
mod shipped;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

pub use guides::pages as guides;
pub(super) use playbook::provide;

use super::{
    Origin,
    node::{Node, Rights, at},
    yard::{Kind, Yard},
};

/// One thing that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    GoodRelease,
    ReleaseAsShipped,
    CrashesAtOnce,
    HangsAtOnce,
    NeverConnects,
    CrashesWelcomed,
    GoodReleaseThroughReboot,
    BadReleaseThroughReboot,
    UnitsKilled,
    StoppedOnTrial,
    FullDisk,
    OlderHelper,
    OlderNode,
    RightsTakenAndGiven,
    PackageReplaced,
    UnitsNewerThanSlots,
    ServersPackaged,
    RpmPackaged,
    Container,
    AnsibleRole,
    Manual,
    InstallGuide,
    Guides,
    PackageRemoved,
    InstallScript,
}

impl Case {
    pub(super) const ALL: [Self; 25] = [
        Self::GoodRelease,
        Self::ReleaseAsShipped,
        Self::CrashesAtOnce,
        Self::HangsAtOnce,
        Self::NeverConnects,
        Self::CrashesWelcomed,
        Self::GoodReleaseThroughReboot,
        Self::BadReleaseThroughReboot,
        Self::UnitsKilled,
        Self::StoppedOnTrial,
        Self::FullDisk,
        Self::OlderHelper,
        Self::OlderNode,
        Self::RightsTakenAndGiven,
        Self::PackageReplaced,
        Self::UnitsNewerThanSlots,
        Self::ServersPackaged,
        Self::RpmPackaged,
        Self::Container,
        Self::AnsibleRole,
        Self::Manual,
        Self::InstallGuide,
        Self::Guides,
        Self::PackageRemoved,
        Self::InstallScript,
    ];

    /// Whether it takes more time than there is before every change.
    pub(super) fn is_for_the_full_form(self) -> bool {
        matches!(
            self,
            Self::AnsibleRole | Self::Manual | Self::Guides | Self::UnitsNewerThanSlots
        )
    }

    /// Whether it is one for what comes from there. Guides name versions that a folder of `dist` does not have.
    pub(super) fn is_for(self, origin: &Origin) -> bool {
        let is_shipped = matches!(origin, Origin::Dist(_));
        match self {
            Self::ReleaseAsShipped => is_shipped,
            Self::InstallGuide | Self::Guides => !is_shipped,
            Self::GoodRelease
            | Self::CrashesAtOnce
            | Self::HangsAtOnce
            | Self::NeverConnects
            | Self::CrashesWelcomed
            | Self::GoodReleaseThroughReboot
            | Self::BadReleaseThroughReboot
            | Self::UnitsKilled
            | Self::StoppedOnTrial
            | Self::FullDisk
            | Self::OlderHelper
            | Self::OlderNode
            | Self::RightsTakenAndGiven
            | Self::PackageReplaced
            | Self::UnitsNewerThanSlots
            | Self::ServersPackaged
            | Self::RpmPackaged
            | Self::Container
            | Self::AnsibleRole
            | Self::Manual
            | Self::PackageRemoved
            | Self::InstallScript => true,
        }
    }

    /// Whether no node is left afterwards.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::PackageRemoved | Self::InstallScript)
    }

    /// Lets it happen. `round` says which machine is rebooted and which one loses its power.
    pub(super) async fn run(self, yard: &mut Yard, round: usize) -> Result<()> {
        match self {
            Self::GoodRelease => good(yard).await,
            Self::ReleaseAsShipped => shipped::released(yard).await,
            Self::CrashesAtOnce => bad(yard, "crashes-at-once", &["crashed"]).await,
            Self::HangsAtOnce => bad(yard, "hangs-at-once", &["hung", "crashed"]).await,
            Self::NeverConnects => bad(yard, "never-connects", &["no-welcome"]).await,
            Self::CrashesWelcomed => bad(yard, "crashes-welcomed", &["crashed", "unstable"]).await,
            Self::GoodReleaseThroughReboot => good_through_reboot(yard, round).await,
            Self::BadReleaseThroughReboot => bad_through_reboot(yard, round).await,
            Self::UnitsKilled => units_killed(yard).await,
            Self::StoppedOnTrial => stopped(yard).await,
            Self::FullDisk => disk::full(yard).await,
            Self::OlderHelper => helper::older(yard).await,
            Self::OlderNode => helper::older_node(yard).await,
            Self::RightsTakenAndGiven => package::rights(yard).await,
            Self::PackageReplaced => package::replaced(yard).await,
            Self::UnitsNewerThanSlots => older::slots(yard).await,
            Self::ServersPackaged => servers::packaged(yard).await,
            Self::RpmPackaged => rpm::packaged(yard).await,
            Self::Container => container::supervised(yard).await,
            Self::AnsibleRole => playbook::played(yard).await,
            Self::Manual => manual::read(yard).await,
            Self::InstallGuide => guides::installed(yard).await,
            Self::Guides => guides::walked(yard).await,
            Self::PackageRemoved => package::removed(yard).await,
            Self::InstallScript => script::used(yard),
        }
    }
}

async fn good(yard: &mut Yard) -> Result<()> {
    let before = processes(yard)?;
    let (version, rollout) = yard.roll_out(Kind::Good)?;
    let state = yard.ended(&rollout).await?;
    ensure!(state == "completed", "the rollout of {version} is {state}");
    yard.confirmed = version;
    yard.at_rest().await?;
    let after = processes(yard)?;
    for (number, (before, after)) in before.iter().zip(&after).enumerate() {
        let Some(node) = yard.nodes.get(number) else {
            continue;
        };
        // A node with root's rights has become the next binary, in the process that it was.
        let expected = node.rights == Rights::Root;
        ensure!(
            (before == after) == expected,
            "{:?}: process {before} is process {after} now",
            node.rights
        );
        // The helper runs what is confirmed, from its next request on.
        if node.rights == Rights::Unprivileged {
            let helper = at(&node.status()?, "/helper").clone();
            ensure!(helper.is_string(), "expected a helper, found {helper}");
        }
        let figure = gap(node)?;
        yard.figure(&figure);
    }
    Ok(())
}

fn processes(yard: &Yard) -> Result<Vec<String>> {
    let each = yard.nodes.iter();
    each.map(|node| node.machine.main_process("bcd.service"))
        .collect()
}

/// From the decision to leave the old session to the Welcome of the new one, by the journal.
fn gap(node: &Node) -> Result<String> {
    let words = [
        "journalctl",
        "--unit",
        "bcd.service",
        "--output",
        "short-unix",
        "--no-pager",
        "--lines",
        "40",
    ];
    let log = node.machine.run(&words)?;
    let when = |line: &str| line.split_whitespace().next()?.parse::<f64>().ok();
    let lines: Vec<&str> = log.lines().collect();
    let welcomed = lines.iter().rposition(|line| line.contains("welcomed"));
    let (before, after) = lines.split_at(welcomed.unwrap_or_default());
    let left = before
        .iter()
        .rev()
        .find(|line| line.contains("leaving the session"));
    let gap = match (
        left.and_then(|line| when(line)),
        after.first().and_then(|line| when(line)),
    ) {
        (Some(left), Some(welcomed)) => welcomed - left,
        _ => f64::NAN,
    };
    let rights = format!("{:?}", node.rights).to_lowercase();
    Ok(format!("gap_ms_{rights}={:.0}", gap * 1000.0))
}

/// A release that is no good is given up by every node, by its units alone.
async fn bad(yard: &mut Yard, word: &str, outcomes: &[&str]) -> Result<()> {
    told(yard, word)?;
    let (version, rollout) = yard.roll_out(Kind::Told)?;
    let state = yard.ended(&rollout).await;
    told(yard, "")?;
    let state = state?;
    yard.at_rest().await?;
    ensure!(
        state == "paused",
        "the rollout of {version}, which {word}, is {state}"
    );
    for node in &yard.nodes {
        let attempt = at(&node.status()?, "/lastAttempt").clone();
        let outcome = at(&attempt, "/outcome").as_str().unwrap_or_default();
        ensure!(
            outcomes.contains(&outcome),
            "{:?}: expected {outcomes:?}, found {attempt}",
            node.rights
        );
    }
    Ok(())
}

fn told(yard: &Yard, word: &str) -> Result<()> {
    yard.nodes.iter().try_for_each(|node| node.tell(word))
}

/// One machine is rebooted, the other loses its power, as soon as they are on trial.
async fn disturbed(yard: &mut Yard, round: usize) -> Result<()> {
    for node in &yard.nodes {
        node.on_trial().await?;
    }
    for (number, node) in yard.nodes.iter_mut().enumerate() {
        if number % 2 == round % 2 {
            node.machine.reboot().await?;
        } else {
            node.machine.pull_the_plug()?;
            node.machine.boot().await?;
        }
    }
    Ok(())
}

async fn good_through_reboot(yard: &mut Yard, round: usize) -> Result<()> {
    let (version, rollout) = yard.roll_out(Kind::Good)?;
    disturbed(yard, round).await?;
    let state = yard.ended(&rollout).await?;
    ensure!(state == "completed", "the rollout of {version} is {state}");
    yard.confirmed = version;
    yard.at_rest().await
}

/// What it is told does not outlive a reboot; it is told so for good here.
async fn bad_through_reboot(yard: &mut Yard, round: usize) -> Result<()> {
    let drop_in = "/etc/systemd/system/bcd.service.d/fault.conf";
    for node in &yard.nodes {
        node.machine.shell(&format!(
            "mkdir -p /etc/systemd/system/bcd.service.d\n\
             printf '[Service]\\nEnvironment=BCD_FAULT=never-connects\\n' >{drop_in}\n\
             systemctl daemon-reload; systemctl restart bcd.service"
        ))?;
    }
    let (version, rollout) = yard.roll_out(Kind::Told)?;
    disturbed(yard, round).await?;
    let state = yard.ended(&rollout).await;
    for node in &yard.nodes {
        node.machine.shell(&format!(
            "rm {drop_in}\nsystemctl daemon-reload; systemctl restart bcd.service"
        ))?;
    }
    let state = state?;
    ensure!(state == "paused", "the rollout of {version} is {state}");
    yard.at_rest().await
}

/// Each in turn, the watchdog in the middle of its work.
async fn units_killed(yard: &mut Yard) -> Result<()> {
    for node in &yard.nodes {
        killed(node, "bcd.service")?;
        if node.rights == Rights::Unprivileged {
            // It may have nothing to do at the moment.
            drop(killed(node, "bcd-helper.service"));
        }
    }
    yard.at_rest().await?;
    told(yard, "never-connects")?;
    let (version, rollout) = yard.roll_out(Kind::Told)?;
    for node in &yard.nodes {
        node.on_trial().await?;
        killed(node, "bcd-watchdog.service")?;
        killed(node, "bcd.service")?;
    }
    let state = yard.ended(&rollout).await;
    told(yard, "")?;
    let state = state?;
    ensure!(state == "paused", "the rollout of {version} is {state}");
    yard.at_rest().await
}

fn killed(node: &Node, unit: &str) -> Result<()> {
    node.machine
        .run(&["systemctl", "kill", "--signal=KILL", unit])
        .map(drop)
}

/// Whoever stops a node on trial has it go back, and stay stopped.
async fn stopped(yard: &mut Yard) -> Result<()> {
    told(yard, "never-connects")?;
    let (version, rollout) = yard.roll_out(Kind::Told)?;
    for node in &yard.nodes {
        node.on_trial().await?;
        let started = |status: &Value| at(status, "/trial/starts").as_u64() >= Some(1);
        node.until("its trial has started", Duration::from_secs(10), started)
            .await?;
        node.machine.run(&["systemctl", "stop", "bcd.service"])?;
        let back = |status: &Value| at(status, "/trial").is_null();
        node.until("it has gone back", Duration::from_secs(5), back)
            .await?;
        let state = node.state_of("bcd.service")?;
        ensure!(
            state == "inactive",
            "{:?}: stopped, and {state}",
            node.rights
        );
    }
    // The watchdog's deadline passes, and nobody is started for it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    told(yard, "")?;
    for node in &yard.nodes {
        let state = node.state_of("bcd.service")?;
        ensure!(
            state == "inactive",
            "{:?}: stopped, and {state}",
            node.rights
        );
        node.machine.run(&["systemctl", "start", "bcd.service"])?;
    }
    // A stop is nobody's verdict: the same attempt is tried again, and nothing is wrong with its binary any more.
    let state = yard.ended(&rollout).await?;
    ensure!(state == "completed", "the rollout of {version} is {state}");
    yard.confirmed = version;
    yard.at_rest().await
}
