//! Fedora's kind of package, put into a root file system by the `rpm` of this machine.
//!
//! The machine is a Debian all the same: its database of packages starts empty, so that what the package requires is not
//! looked for. Everything else is as on a Fedora: files, owners, scripts, and what systemd makes of them.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{
    super::{
        done,
        machine::Machine,
        node::Rights,
        yard::{OTHERS, Yard},
    },
    script::nothing_is_left,
};

/// Installed into an image, booted, joined, upgraded, downgraded, erased, installed again, erased for good.
pub(super) async fn packaged(yard: &mut Yard) -> Result<()> {
    let versions = [yard.packaged(), yard.stock.newer()?];
    let [older, newer] = [yard.stock.rpm(&versions[0])?, yard.stock.rpm(&versions[1])?];
    let mut machine = yard.machine_that_is_off("rpm")?;
    let mut install = std::process::Command::new("rpm");
    install.arg("--root").arg(machine.root());
    done(install.args(WORDS).arg("--install").arg(&older))?;
    let enabled = "etc/systemd/system/multi-user.target.wants/bcd.service";
    machine
        .root()
        .join(enabled)
        .symlink_metadata()
        .context("the unit is not enabled in an image")?;
    machine.boot().await?;
    machine
        .shell("id bcd; test -d /var/lib/bcd/slots; test ! -e /var/lib/bcd/identity/node.json")?;
    let node = yard.join(OTHERS, machine, Rights::Unprivileged)?;
    node.settled(&versions[0]).await?;
    let before = node.machine.main_process("bcd.service")?;
    for (package, version) in [(&newer, &versions[1]), (&older, &versions[0])] {
        rpm(&node.machine, &["--upgrade", "--oldpackage"], Some(package))?;
        let said = node.machine.run(&["/usr/lib/bcd/bcd", "version"])?;
        ensure!(
            said.contains(version),
            "expected {version} installed, found {said}"
        );
        ensure!(
            node.machine.main_process("bcd.service")? == before,
            "expected the node to go on, found it started anew"
        );
    }
    rpm(&node.machine, &["--verify", "bcd"], None)?;
    rpm(&node.machine, &["--erase", "bcd"], None)?;
    let left = node.machine.shell(
        "ps -e -o comm= | grep -x bcd || true\nif [ -e /usr/lib/bcd ]; then echo /usr/lib/bcd; fi\n\
         test -e /var/lib/bcd/identity/node.json; test -e /var/lib/bcd/update.json\n\
         systemctl --failed --no-legend --plain",
    )?;
    ensure!(left.trim().is_empty(), "erased, and left behind: {left}");
    rpm(&node.machine, &["--install"], Some(&older))?;
    node.settled(&versions[0]).await?;
    node.is_at_rest().await?;
    rpm(&node.machine, &["--erase", "bcd"], None)?;
    // What an owner does who wants nothing left.
    node.machine.shell(
        "rm -r /var/lib/bcd /etc/bcd /run/bcd /etc/systemd/system/bcd.service.d; systemctl daemon-reload",
    )?;
    nothing_is_left(&node.machine)
}

/// Debian's rpm would keep its database with the user; nothing that a package requires is in it.
const WORDS: [&str; 3] = ["--dbpath", "/var/lib/rpm", "--nodeps"];

/// On a machine that runs: the scripts meet its systemd.
fn rpm(machine: &Machine, words: &[&str], package: Option<&Path>) -> Result<()> {
    let (mut rpm, root) = machine.program_of_ours("rpm")?;
    rpm.arg("--root").arg(root).args(WORDS).args(words);
    done(rpm.args(package)).map(drop)
}
