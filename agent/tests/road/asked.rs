//! What a node says when it is asked, and what is done to its configuration.

use std::{os::unix::process::CommandExt, process::Command, time::Duration};

use bc_protocol::digest::Pin;
use nix::unistd::geteuid;

use super::node::{BCD, NOBODY, Node, write};

impl Node {
    /// What `bcd doctor` finds, and its exit status.
    pub(crate) async fn doctor(&self) -> (serde_json::Value, i32) {
        let doctor = tokio::process::Command::new(BCD)
            .args(["doctor", "--output", "json", "--config"])
            .arg(self.config())
            .output()
            .await
            .unwrap();
        let found = serde_json::from_slice(&doctor.stdout).unwrap();
        (found, doctor.status.code().unwrap())
    }

    /// One of the doctor's findings.
    pub(crate) async fn finding(&self, check: &str) -> serde_json::Value {
        let (found, _) = self.doctor().await;
        let mut findings = found["findings"].as_array().unwrap().iter();
        let finding = findings.find(|finding| finding["check"] == check);
        finding.unwrap().clone()
    }

    /// Waits until the node itself says that it has a session.
    pub(crate) async fn connected(&self) {
        self.says(|session| session["connected"] == true).await;
    }

    /// Waits until the node says that of its session, and gives it.
    pub(crate) async fn says(
        &self,
        that: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        for _ in 0..600 {
            let session = self.status()["session"].take();
            if that(&session) {
                return session;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "expected another session, found {}",
            self.status()["session"]
        );
    }

    /// What a command says to somebody without rights: its exit status, its words and its complaint. None where this
    /// test has none to give up.
    pub(crate) fn as_nobody(&self, args: &[&str]) -> Option<(i32, String, String)> {
        if !geteuid().is_root() {
            return None;
        }
        let output = Command::new(BCD)
            .args(args)
            .arg("--config")
            .arg(self.config())
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (said, complaint) = (text(output.stdout), text(output.stderr));
        Some((output.status.code().unwrap(), said, complaint))
    }

    /// Pins a key more.
    pub(crate) fn pin_another(&self) {
        let config = std::fs::read_to_string(self.config()).unwrap();
        let another = format!("release_pins = [\"{}\", ", Pin::of_spki(b"another"));
        write(
            &self.config(),
            &config.replace("release_pins = [", &another),
        );
    }

    /// Leaves a typo in the configuration.
    pub(crate) fn spoil_config(&self) {
        write(&self.config(), "controll = \"x\"\n");
    }

    /// Waits until no attempt runs, and gives the last one.
    pub(crate) async fn ended_attempt(&self) -> serde_json::Value {
        for _ in 0..600 {
            let last = self.status()["lastAttempt"].clone();
            if !last.is_null() && last["outcome"] != "running" {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("expected the attempt to end");
    }
}
