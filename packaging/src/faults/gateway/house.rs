//! One gateway on loopback, with a stand-in for control, in a temporary folder that goes with it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::records::{Control, Records};
use crate::{
    fleet::{Service, free_ports, now, replace},
    load::authority::Authority,
};

/// A gateway that runs.
pub(super) struct House {
    pub(super) authority: Arc<Authority>,
    /// What it has told its control.
    pub(super) records: Arc<Records>,
    /// Where nodes connect.
    pub(super) address: SocketAddr,
    shown: SocketAddr,
    gateway: Service,
    // Aborted before the folder goes.
    _control: Control,
    _dir: TempDir,
}

impl House {
    /// Starts one with these lines in its configuration's `[limits]`.
    pub(super) async fn start(program: &Path, heartbeat_ms: u32, limits: &str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-gateway-").tempdir()?;
        let authority = Arc::new(Authority::new()?);
        let control = Control::start(&authority, heartbeat_ms).await?;
        let state = dir.path().join("state");
        authority.enrol(&state, control.url())?;
        let [listen, shown] = free_ports()?;
        let config = dir.path().join("gateway.toml");
        replace(
            &config,
            &format!(
                "listen = \"127.0.0.1:{listen}\"\nmetrics_listen = \"127.0.0.1:{shown}\"\n\
                 control = \"http://127.0.0.1:1\"\nstate_dir = {state:?}\ndrain = \"2s\"\n[limits]\n{limits}\n"
            ),
        )?;
        let mut gateway = Service::new("gateway", program, dir.path());
        gateway.arg("--config").arg(&config);
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut house = Self {
            authority,
            records: control.records(),
            address: at(listen),
            shown: at(shown),
            gateway,
            _control: control,
            _dir: dir,
        };
        house.begin().await?;
        Ok(house)
    }

    /// Starts the gateway, and waits until it takes sessions.
    pub(super) async fn begin(&mut self) -> Result<()> {
        self.gateway.start()?;
        let deadline = now() + Duration::from_secs(20);
        loop {
            self.gateway.check()?;
            match self.ask("/readyz").await {
                Ok(answer) if answer.starts_with("HTTP/1.1 200") => return Ok(()),
                Ok(_) | Err(_) => {}
            }
            ensure!(
                now() < deadline,
                "the gateway is not ready:\n{}",
                self.gateway.log()
            );
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills it as a crash would.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.gateway.kill()
    }

    /// Fails if it has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        self.gateway.check()
    }

    /// Bytes of memory that it has touched and not given back.
    pub(super) fn resident(&self) -> Result<u64> {
        let pid = self.gateway.pid().context("the gateway does not run")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib << 10)
    }

    /// One series' value.
    pub(super) async fn series(&self, name: &str) -> Result<u64> {
        let text = self.ask("/metrics").await?;
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.with_context(|| format!("no series {name}"))?;
        Ok(value.trim().parse()?)
    }

    /// Waits until a series has a value.
    pub(super) async fn until(&self, name: &str, wanted: u64, patience: Duration) -> Result<()> {
        let deadline = now() + patience;
        loop {
            let found = self.series(name).await?;
            if found == wanted {
                return Ok(());
            }
            if now() > deadline {
                bail!("expected {name} {wanted} within {patience:?}, found {found}");
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn ask(&self, path: &str) -> Result<String> {
        let asking = async {
            let mut stream = TcpStream::connect(self.shown).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok(answer)
        };
        timeout(Duration::from_secs(10), asking).await?
    }
}
