//! One machine as a node: what it says about itself, and how it has to be.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::machine::Machine;
use crate::fleet::now;

/// With what rights a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// As root.
    Root,
    /// As a user of its own, with a helper.
    Unprivileged,
}

/// What a status says at a pointer; nothing where it says nothing.
pub(super) fn at<'a>(status: &'a Value, pointer: &str) -> &'a Value {
    status.pointer(pointer).unwrap_or(&Value::Null)
}

/// A machine that takes commands.
pub(super) trait Commands {
    /// Runs a command on it that must succeed; gives what it says.
    fn run(&self, words: &[&str]) -> Result<String>;
}

impl Commands for Machine {
    fn run(&self, words: &[&str]) -> Result<String> {
        Self::run(self, words)
    }
}

/// A machine that joined.
#[derive(Debug)]
pub(super) struct Node<M = Machine> {
    pub(super) machine: M,
    pub(super) rights: Rights,
    pub(super) id: String,
}

impl<M: Commands> Node<M> {
    /// What `bcd status` says.
    pub(super) fn status(&self) -> Result<Value> {
        // Where packages, the script and the container's recipe put it.
        let words = ["/usr/lib/bcd/bcd", "status", "--output", "json"];
        let said = self.machine.run(&words)?;
        serde_json::from_str(&said).context("bcd status printed no JSON")
    }

    /// Waits until the status is as `is_so` wants it.
    pub(super) async fn until(
        &self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let deadline = now() + patience;
        loop {
            // A machine that is on its way up does not answer yet.
            let status = self.status();
            match &status {
                Ok(status) if is_so(status) => return Ok(status.clone()),
                Ok(_) | Err(_) if now() < deadline => {}
                Ok(status) => bail!("{:?}: waited in vain until {what}: {status}", self.rights),
                Err(error) => bail!("{:?}: waited in vain until {what}: {error:#}", self.rights),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until it is on trial with that version's binary, started once.
    pub(super) async fn on_trial(&self) -> Result<()> {
        let on_trial = |status: &Value| !at(status, "/trial").is_null();
        self.until("it is on trial", Duration::from_secs(60), on_trial)
            .await
            .map(drop)
    }

    /// Waits until it runs that version, confirmed, in a session.
    pub(super) async fn settled(&self, version: &str) -> Result<Value> {
        let settled = |status: &Value| {
            at(status, "/trial").is_null()
                && at(status, "/version").as_str() == Some(version)
                && at(status, "/session/connected").as_bool() == Some(true)
        };
        let what = format!("it runs {version} and is connected");
        self.until(&what, Duration::from_secs(75), settled).await
    }

    /// Nothing of it is in a state that somebody would have to mend, and nothing watches any more.
    pub(super) async fn is_at_rest(&self) -> Result<()> {
        let deadline = now() + Duration::from_secs(20);
        loop {
            let failed = self
                .machine
                .run(&["systemctl", "--failed", "--no-legend", "--plain"])?;
            ensure!(
                failed.trim().is_empty(),
                "{:?}: failed units: {failed}",
                self.rights
            );
            let watching = self.state_of("bcd-watchdog.service")?;
            if watching == "inactive" && self.state_of("bcd.service")? == "active" {
                return Ok(());
            }
            let node = self.state_of("bcd.service")?;
            ensure!(
                now() < deadline,
                "{:?}: the node is {node}, the watchdog {watching}",
                self.rights
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A unit's state.
    pub(super) fn state_of(&self, unit: &str) -> Result<String> {
        let words = [
            "systemctl",
            "show",
            "--property=ActiveState",
            "--value",
            unit,
        ];
        Ok(self.machine.run(&words)?.trim().to_owned())
    }

    /// Tells its binaries how to misbehave, if they do as they are told; nothing, with an empty word.
    pub(super) fn tell(&self, word: &str) -> Result<()> {
        let drop_in = "/run/systemd/system/bcd.service.d";
        let lines = if word.is_empty() {
            format!("rm -rf {drop_in}")
        } else {
            format!(
                "mkdir -p {drop_in}; printf '[Service]\\nEnvironment=BCD_FAULT={word}\\n' >{drop_in}/fault.conf"
            )
        };
        // A node with root's rights becomes the next binary with the environment that it has.
        let heard = match self.rights {
            Rights::Root => "systemctl try-restart bcd.service",
            Rights::Unprivileged => "",
        };
        self.shell(&format!("{lines}; systemctl daemon-reload; {heard}"))
            .map(drop)
    }

    /// The last of its log.
    pub(super) fn log(&self) -> String {
        let words = [
            "journalctl",
            "--unit",
            "bcd*",
            "--output",
            "short-precise",
            "--no-pager",
            "--lines",
            "60",
        ];
        self.machine
            .run(&words)
            .unwrap_or_else(|error| error.to_string())
    }
}

impl<M: Commands> Node<M> {
    fn shell(&self, lines: &str) -> Result<String> {
        self.machine.run(&["sh", "-ec", lines])
    }

    /// From root to a user without rights. The node is stopped, or has not started yet.
    pub(super) fn take_rights(&mut self) -> Result<()> {
        self.shell(
            "printf '\\n[node]\\nuser = \"bcd\"\\nhelper_socket = \"/run/bcd/helper.sock\"\\n' >>/etc/bcd/bcd.toml\n\
             mkdir -p /etc/systemd/system/bcd.service.d\n\
             ln -sfn /usr/lib/bcd/unprivileged.conf /etc/systemd/system/bcd.service.d/unprivileged.conf\n\
             systemctl daemon-reload",
        )?;
        self.rights = Rights::Unprivileged;
        Ok(())
    }

    /// Back to root.
    pub(super) fn give_rights(&mut self) -> Result<()> {
        self.shell(
            "systemctl stop bcd-helper.socket bcd-helper.service\n\
             sed -i '/^\\[node\\]/,/^helper_socket/d' /etc/bcd/bcd.toml\n\
             rm /etc/systemd/system/bcd.service.d/unprivileged.conf\n\
             chown -R --no-dereference root:root /var/lib/bcd/identity /var/lib/bcd/state\n\
             systemctl daemon-reload",
        )?;
        self.rights = Rights::Root;
        Ok(())
    }
}
