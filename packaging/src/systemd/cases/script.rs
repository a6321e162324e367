//! What an owner does with the script of `/install.sh`, on machines without a package.

use anyhow::{Context, Result, ensure};

use super::super::{
    machine::Machine,
    yard::{OTHERS, Yard},
};
use crate::fleet::now;

/// Makes a machine look as Fedora's kin do to a script: `rpm` knows the packages and ours is none of them, nobody has heard
/// of `dpkg`, and files want labels.
const AS_ON_FEDORA: &str = "mv /usr/bin/dpkg-query /root/\n\
     printf '#!/bin/sh\\nexit 1\\n' >/usr/local/bin/rpm\n\
     printf '#!/bin/sh\\necho \"$@\" >>/root/labelled\\n' >/usr/local/sbin/restorecon\n\
     chmod 0755 /usr/local/bin/rpm /usr/local/sbin/restorecon";

/// Installed, again, with other rights, removed, installed again, purged; on a Debian, and on what looks as a Fedora.
pub(super) fn used(yard: &mut Yard) -> Result<()> {
    let machines = std::mem::take(&mut yard.bare);
    ensure!(!machines.is_empty(), "no machine is left to install on");
    for (machine, rights) in machines.iter().zip(["unprivileged", "privileged"]) {
        let is_as_fedora = rights == "privileged";
        if is_as_fedora {
            machine.shell(AS_ON_FEDORA)?;
        }
        let token = yard.fleet.join_token(OTHERS, 1)?;
        std::fs::copy(token, machine.root().join("root/join.token"))?;
        let began = now();
        machine.shell(&format!(
            "curl --fail --silent {}/install.sh >/root/install.sh\n\
             sh /root/install.sh --{rights} --token-file /root/join.token\nrm /root/join.token",
            yard.fleet.operator.url()
        ))?;
        let seconds = began.elapsed().as_secs_f64();
        yard.figure(&format!("script_to_welcome_s_{rights}={seconds:.1}"));
        if is_as_fedora {
            machine.shell("grep -x /usr/lib/bcd/bcd /root/labelled")?;
        }
        let who = identity(machine)?;
        let before = machine.main_process("bcd.service")?;
        machine.shell(&format!("sh /root/install.sh --{rights}"))?;
        ensure!(
            machine.main_process("bcd.service")? == before,
            "a second run started the node anew"
        );
        for other in ["privileged", "unprivileged", rights] {
            machine.shell(&format!("sh /root/install.sh --{other}"))?;
            let user = machine.shell(
                "stat -c %U /proc/$(systemctl show --property=MainPID --value bcd.service)",
            )?;
            let expected = if other == "unprivileged" {
                "bcd"
            } else {
                "root"
            };
            ensure!(
                user.trim() == expected,
                "--{other}: the node runs as {user}"
            );
        }
        machine.shell("sh /root/install.sh --uninstall; test ! -e /usr/lib/bcd")?;
        machine.shell(&format!("sh /root/install.sh --{rights}"))?;
        ensure!(
            identity(machine)? == who,
            "the node is another one after a removal"
        );
        let failed = machine.run(&["systemctl", "--failed", "--no-legend", "--plain"])?;
        ensure!(failed.trim().is_empty(), "failed units: {failed}");
        machine.shell("sh /root/install.sh --uninstall --purge")?;
        nothing_is_left(machine)?;
    }
    Ok(())
}

/// No process, no file, no failed unit.
pub(super) fn nothing_is_left(machine: &Machine) -> Result<()> {
    let left = machine.shell(
        "ps -e -o comm= | grep -x bcd || true\n\
         for left in /var/lib/bcd /etc/bcd /run/bcd /usr/lib/bcd /usr/bin/bcd /etc/systemd/system/bcd*; do\n\
         if [ -e $left ]; then echo $left; fi; done; systemctl --failed --no-legend --plain",
    )?;
    ensure!(left.trim().is_empty(), "left behind: {left}");
    Ok(())
}

fn identity(machine: &Machine) -> Result<String> {
    let file = machine.root().join("var/lib/bcd/identity/node.json");
    std::fs::read_to_string(file).context("the node's identity")
}
