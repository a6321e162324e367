//! The program itself, started and ended by a test.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
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
    /// Where it shows how it goes, if it does.
    pub(crate) shown: Option<SocketAddr>,
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
    pub(crate) fn write(&self, name: &str, text: &str) {
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
        Self::started(self.command()).await
    }

    /// Starts a command of this home, and waits until it listens.
    pub(crate) async fn started(mut command: Command) -> Gateway {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut lines = BufReader::new(stdout).lines();
        let said = soon(lines.next_line()).await.unwrap();
        let said = said.expect("it says where it listens");
        let (address, shown) = said.split_once(", metrics ").unwrap();
        let address = address.strip_prefix("listening on ").unwrap();
        let shown = match shown {
            "nowhere" => None,
            somewhere => Some(somewhere.strip_prefix("on ").unwrap().parse().unwrap()),
        };
        Gateway {
            child,
            address: address.parse().unwrap(),
            shown,
        }
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

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// As a power cut would.
    pub(crate) async fn kill(mut self) {
        soon(self.child.kill()).await.unwrap();
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Asks it to read its configuration anew, and waits until it has.
    pub(crate) async fn reload(&self) {
        let before = self.reloads().await;
        self.signal("-HUP");
        self.until(async || self.reloads().await > before).await;
    }

    fn signal(&self, which: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        let status = std::process::Command::new("kill")
            .args([which, &pid])
            .status();
        assert!(status.unwrap().success());
    }

    async fn reloads(&self) -> u64 {
        let taken = self
            .series("bc_gateway_reloads_total{outcome=\"taken\"}")
            .await;
        taken
            + self
                .series("bc_gateway_reloads_total{outcome=\"refused\"}")
                .await
    }

    /// What it answers to a question about itself: status and body.
    pub(crate) async fn ask(&self, path: &str) -> (u16, String) {
        asked(self.shown.expect("it shows how it goes"), path)
            .await
            .unwrap()
    }

    /// One series' value.
    pub(crate) async fn series(&self, name: &str) -> u64 {
        let (status, text) = self.ask("/metrics").await;
        assert_eq!(status, 200);
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("{name}:\n{text}"))
            .parse()
            .unwrap()
    }

    /// Looks again and again until something is so.
    pub(crate) async fn until(&self, mut is: impl AsyncFnMut() -> bool) {
        soon(async {
            while !is().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        soon(self.child.wait()).await.unwrap()
    }
}

/// Asks one question in the clear.
pub(crate) async fn asked(of: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(of).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok((status, body.to_owned()))
}
