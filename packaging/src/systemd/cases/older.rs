//! Units that a package brought, over slots that hold a binary from before them.

use anyhow::{Result, ensure};

use super::{
    super::{
        node::at,
        yard::{Kind, Yard},
    },
    helper::release,
};

/// What leaves such a binary its rights.
const DROP_INS: &str = "ls -d /etc/systemd/system/bcd.service.d/older.conf \
                        /etc/systemd/system/bcd-helper.service.d 2>/dev/null || true";

/// A binary that tries the next one out by itself cannot, under these units; once a package has been installed over it, it
/// can, and the units take the rights back when no such binary is left.
pub(super) async fn slots(yard: &mut Yard) -> Result<()> {
    release(yard, Kind::Older).await?;
    let (version, rollout) = yard.roll_out(Kind::Good)?;
    let state = yard.ended(&rollout).await?;
    ensure!(state == "paused", "the rollout of {version} is {state}");
    for node in &yard.nodes {
        let attempt = at(&node.status()?, "/lastAttempt").clone();
        let code = at(&attempt, "/code").as_str();
        ensure!(
            code == Some("preflight"),
            "{:?}: expected a preflight that fails, found {attempt}",
            node.rights
        );
    }
    for node in &yard.nodes {
        yard.put_package(&node.machine, &yard.stock.newer()?)?;
        let left = node.machine.shell(DROP_INS)?;
        ensure!(left.lines().count() == 2, "expected two drop-ins: {left}");
    }
    started_anew(yard).await?;
    release(yard, Kind::Good).await?;
    // The other slot still holds the older one, which a trial would go back to.
    release(yard, Kind::Good).await?;
    started_anew(yard).await?;
    for node in &yard.nodes {
        let left = node.machine.shell(DROP_INS)?;
        ensure!(left.is_empty(), "expected no drop-in any more: {left}");
        yard.put_package(&node.machine, &yard.packaged())?;
    }
    yard.at_rest().await
}

/// As after a reboot.
async fn started_anew(yard: &Yard) -> Result<()> {
    for node in &yard.nodes {
        // A helper is started by the next request.
        node.machine
            .shell("systemctl stop bcd-helper.service; systemctl restart bcd.service")?;
    }
    yard.at_rest().await
}
