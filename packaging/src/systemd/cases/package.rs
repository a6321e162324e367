//! What an owner does to a machine's package, and to the node's rights.

use anyhow::{Context, Result, bail, ensure};

use super::super::{
    node::{Rights, at},
    yard::Yard,
};
use super::script::nothing_is_left;

/// A node that gives up its rights, or takes them, stays who it is and keeps its floor.
pub(super) async fn rights(yard: &mut Yard) -> Result<()> {
    for _ in 0..2 {
        for node in &mut yard.nodes {
            let floor = at(&node.status()?, "/floor").clone();
            node.machine.run(&["systemctl", "stop", "bcd.service"])?;
            match node.rights {
                Rights::Root => node.take_rights()?,
                Rights::Unprivileged => node.give_rights()?,
            }
            node.machine.run(&["systemctl", "start", "bcd.service"])?;
            node.settled(&yard.confirmed).await?;
            let after = at(&node.status()?, "/floor").clone();
            ensure!(floor == after, "expected the floor {floor}, found {after}");
        }
        yard.at_rest().await?;
        super::good(yard).await?;
    }
    Ok(())
}

/// A newer package, and the older one again: what runs goes on, out of its slot.
pub(super) async fn replaced(yard: &mut Yard) -> Result<()> {
    for version in [yard.stock.newer()?, yard.packaged()] {
        for node in &yard.nodes {
            let before = node.machine.main_process("bcd.service")?;
            yard.put_package(&node.machine, &version)?;
            let after = node.machine.main_process("bcd.service")?;
            ensure!(
                before == after,
                "expected the node to go on, found it started anew"
            );
            let said = node.machine.run(&["/usr/lib/bcd/bcd", "version"])?;
            ensure!(
                said.contains(&version),
                "expected {version} installed, found {said}"
            );
        }
        yard.at_rest().await?;
        for node in &yard.nodes {
            node.machine.run(&["systemctl", "restart", "bcd.service"])?;
        }
        yard.at_rest().await?;
    }
    super::good(yard).await
}

/// Removed, everything of it stands still and its identity stays; purged, nothing is left.
pub(super) async fn removed(yard: &mut Yard) -> Result<()> {
    for node in &yard.nodes {
        node.machine
            .run(&["apt-get", "remove", "--yes", "--quiet", "bcd"])?;
        stands_still(&node.machine.shell("ps -e -o comm= | grep -x bcd || true")?)?;
        node.machine
            .shell("test -e /var/lib/bcd/identity/node.json; test -e /var/lib/bcd/update.json")?;
        yard.put_package(&node.machine, &yard.packaged())?;
        // The next boot starts it too.
        node.machine
            .run(&["systemctl", "is-enabled", "bcd.service"])?;
    }
    yard.at_rest().await?;
    while let Some(node) = yard.nodes.pop() {
        let rights = node.rights;
        node.machine
            .run(&["apt-get", "purge", "--yes", "--quiet", "bcd"])?;
        nothing_is_left(&node.machine).with_context(|| format!("{rights:?}"))?;
        yard.bare.push(node.machine);
    }
    Ok(())
}

fn stands_still(processes: &str) -> Result<()> {
    if processes.trim().is_empty() {
        return Ok(());
    }
    bail!("expected no process of a package that is gone, found {processes}")
}
