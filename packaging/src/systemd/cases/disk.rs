//! A disk without room.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::yard::{Kind, Yard};

/// How long a disk has no room.
const FULL: Duration = Duration::from_secs(8);

/// A disk without room costs an update time, not a node: with room, the same rollout goes on.
pub(super) async fn full(yard: &mut Yard) -> Result<()> {
    for node in &yard.nodes {
        node.machine.shell(
            "systemctl stop bcd.service bcd-helper.service\nmkdir -p /run/disk\n\
             mount -t tmpfs -o size=96m,mode=0755 disk /run/disk\ncp -a /var/lib/bcd/. /run/disk/\n\
             head -c 1G /dev/zero >/run/disk/filled 2>/dev/null || true\nmount --bind /run/disk /var/lib/bcd\n\
             systemctl start bcd.service",
        )?;
    }
    let (version, rollout) = yard.roll_out(Kind::Good)?;
    tokio::time::sleep(FULL).await;
    for node in &yard.nodes {
        let state = node.state_of("bcd.service")?;
        node.machine.run(&["rm", "/run/disk/filled"])?;
        ensure!(
            state == "active",
            "{:?}: the disk is full, and the node {state}",
            node.rights
        );
    }
    let state = yard.ended(&rollout).await?;
    ensure!(state == "completed", "the rollout of {version} is {state}");
    yard.confirmed = version;
    yard.at_rest().await?;
    for node in &yard.nodes {
        node.machine.shell(
            "systemctl stop bcd.service bcd-helper.service\numount /var/lib/bcd\n\
             rm -rf /var/lib/bcd/*\ncp -a /run/disk/. /var/lib/bcd/\numount /run/disk\nsystemctl start bcd.service",
        )?;
    }
    yard.at_rest().await
}
