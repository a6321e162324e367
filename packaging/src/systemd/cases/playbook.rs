//! The Ansible role of `packaging/ansible`, played on the machine that it is about.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::super::{
    done,
    machine::Machine,
    yard::{OTHERS, Yard},
};
use super::script::nothing_is_left;

/// Where the playbook lies on the machine.
const PLAYBOOK: &str = "/root/ansible/example.yml";

/// Checked, played twice, with other rights, taken back, played again, and purged.
pub(super) async fn played(yard: &mut Yard) -> Result<()> {
    let mut machine = yard.machine_that_is_off("ansible")?;
    provide(&machine.root(), &["ansible-core"])?;
    lay_role(&machine)?;
    machine.boot().await?;
    let token = std::fs::read_to_string(yard.fleet.join_token(OTHERS, 1)?)?;
    let play = Play {
        machine: &machine,
        control: yard.fleet.operator.url(),
        token: token.trim(),
    };
    play.run(&["--syntax-check"], "")?;
    play.run(&["--check"], "")?;
    machine.shell("test ! -e /usr/lib/bcd")?;
    ensure!(play.changes("")?, "the first play changed nothing");
    let who = identity(&machine)?;
    ensure!(!play.changes("")?, "the second play changed something");
    let with_rights = machine.main_process("bcd.service")?;
    ensure!(
        play.changes("bcd_unprivileged=true")?,
        "to take the rights changed nothing"
    );
    ensure!(
        machine.main_process("bcd.service")? != with_rights,
        "the node runs on with its rights"
    );
    ensure!(play.changes("bcd_state=absent")?, "the node stays");
    ensure!(!play.changes("bcd_state=absent")?, "the node goes twice");
    ensure!(play.changes("bcd_join_token=")?, "the node stays away");
    ensure!(identity(&machine)? == who, "the node is another one");
    ensure!(play.changes("bcd_state=purged")?, "the node stays");
    machine.shell("test ! -e /root/bcd-install.sh")?;
    nothing_is_left(&machine)
}

struct Play<'a> {
    machine: &'a Machine,
    control: &'a str,
    token: &'a str,
}

impl Play<'_> {
    /// Plays with further variables; gives what is said.
    fn run(&self, flags: &[&str], variables: &str) -> Result<String> {
        let (control, token) = (self.control, self.token);
        let given = format!("bcd_control={control} bcd_join_token={token} {variables}");
        // It refuses to play in an encoding that is not this one.
        let mut words = vec!["env", "HOME=/root", "LC_ALL=C.UTF-8", "ansible-playbook"];
        words.extend(["--inventory", "localhost,", "--connection", "local"]);
        words.extend(flags);
        words.extend(["--extra-vars", &given, PLAYBOOK]);
        self.machine.run(&words)
    }

    /// Plays; gives whether anything was changed.
    fn changes(&self, variables: &str) -> Result<bool> {
        let said = self.run(&[], variables)?;
        let recap = said.lines().find(|line| line.contains("changed="));
        Ok(!recap.context("no recap was printed")?.contains("changed=0"))
    }
}

fn identity(machine: &Machine) -> Result<String> {
    let file = machine.root().join("var/lib/bcd/identity/node.json");
    std::fs::read_to_string(file).context("the node's identity")
}

/// Debian's own packages, put on a machine that is not booted yet.
pub(in crate::systemd) fn provide(root: &Path, packages: &[&str]) -> Result<()> {
    let install = [
        "apt-get",
        "--quiet",
        "--yes",
        "--no-install-recommends",
        "install",
    ];
    // Names are resolved as this machine does it.
    std::fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf"))?;
    for words in [
        ["apt-get", "--quiet", "update"].as_slice(),
        &[install.as_slice(), packages].concat(),
    ] {
        let mut chroot = Command::new("chroot");
        chroot.arg(root).args(words);
        // A folder of this machine's is none of that one's.
        chroot.env_remove("TMPDIR");
        done(chroot.env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    Ok(())
}

/// The role and its example.
fn lay_role(machine: &Machine) -> Result<()> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("ansible");
    let to = machine.root().join("root/ansible");
    done(Command::new("cp").arg("-a").arg(ours).arg(to)).map(drop)
}
