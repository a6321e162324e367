//! The program itself, started and ended by a test.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    control::{Control, TOKEN},
    soon,
};

/// A folder with a gateway's configuration and state.
pub(crate) struct Home {
    dir: TempDir,
}

/// A gateway that runs. It is killed with the test.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// A gateway that ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new(control: &Control, more: &str) -> Self {
        let home = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        home.write("token", TOKEN);
        home.configure("127.0.0.1:0".parse().unwrap(), control.api, more);
        home
    }

    pub(crate) fn configure(&self, listen: SocketAddr, control: SocketAddr, more: &str) {
        let (state, token) = (self.path("state"), self.path("token"));
        self.write(
            "gateway.toml",
            &format!(
                "listen = \"{listen}\"\ncontrol = \"http://{control}\"\nstate_dir = {state:?}\n\
                 enrol_token_file = {token:?}\n{more}\n"
            ),
        );
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test's folder does not outlive a power cut"
    )]
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bc-gateway"));
        command
            .arg("--config")
            .arg(self.path("gateway.toml"))
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn start(&self) -> Gateway {
        let mut child = self.command().stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = soon(BufReader::new(stdout).lines().next_line()).await;
        let line = line.unwrap().expect("it says where it listens");
        let address = line.strip_prefix("listening on ").unwrap().parse().unwrap();
        Gateway { child, address }
    }

    /// Runs it to its end.
    pub(crate) async fn fails(&self, more: &[&str]) -> Ended {
        let mut child = self
            .command()
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = String::new();
        let mut pipe = child.stderr.take().unwrap();
        soon(pipe.read_to_string(&mut stderr)).await.unwrap();
        let status = soon(child.wait()).await.unwrap();
        Ended { status, stderr }
    }
}

impl Gateway {
    /// Bytes of memory that it has touched.
    pub(crate) fn resident(&self) -> usize {
        let pid = self.child.id().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<usize>().unwrap() << 10
    }

    /// As a power cut would.
    pub(crate) async fn kill(mut self) {
        soon(self.child.kill()).await.unwrap();
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().expect("it runs").to_string();
        let status = std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status();
        assert!(status.unwrap().success());
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        soon(self.child.wait()).await.unwrap()
    }
}
