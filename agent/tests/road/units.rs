//! The parts that a service manager puts together: boot before every start, the node, and a watchdog of its own. The
//! manager is a few lines of shell, which do what units would say.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use bc_protocol::session::Outcome;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::fleet::{Fleet, Release};
use super::node::{BCD, Node};
use super::{outcome, spec, upgrade};

/// Everything that the manager has started; it ends with this.
struct Manager(Child);

impl Manager {
    fn start(node: &Node) -> Self {
        let here = node.path("").display().to_string();
        let config = format!("--config '{here}/bcd.toml'");
        script(
            node,
            "systemctl",
            &format!(
                "case \"$1\" in\nstart) echo \"$3\" >> '{here}/started'; {BCD} watchdog {config} & ;;\n\
                 show) echo active ;;\n*) echo \"$*\" >> '{here}/ordered' ;;\nesac"
            ),
        );
        script(node, "journalctl", "true");
        script(
            node,
            "unit",
            &format!("while :; do {BCD} boot {config} && {BCD} exec node {config}; done"),
        );
        let path = std::env::var("PATH").unwrap();
        let unit = Command::new(node.path("unit"))
            .env("INVOCATION_ID", "0")
            .env("PATH", format!("{here}:{path}"))
            .process_group(0)
            .spawn();
        Self(unit.unwrap())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        killpg(group, Signal::SIGKILL).ok();
        self.0.wait().ok();
    }
}

fn script(node: &Node, name: &str, text: &str) {
    let mut file = std::fs::File::create(node.path(name)).unwrap();
    file.write_all(format!("#!/bin/sh\n{text}\n").as_bytes())
        .unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755))
        .unwrap();
}

#[tokio::test]
async fn a_node_of_three_units_upgrades_under_a_watchdog_that_ends_with_the_trial() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::packaged(&fleet);
    node.join();
    let _manager = Manager::start(&node);
    let mut first = fleet.session().await;
    first.say(spec(1, fleet.section(&release, "one"))).await;
    upgrade(&mut first).await;
    // It was started before the trial was written, and has its lock.
    let started = std::fs::read_to_string(node.path("started")).unwrap();
    assert_eq!(started, "bcd-watchdog.service\n");
    let mut second = fleet.session().await;
    let confirmed = second.facts_until(|facts| facts.trial.is_none()).await;
    assert_eq!(outcome(&confirmed), Some((Outcome::Confirmed, true)));
    assert_eq!(confirmed.floor.sequence(), release.sequence);
    // Nothing is left to watch, and nobody had to be restarted.
    node.unwatched().await;
    assert!(!node.path("ordered").exists());
}
