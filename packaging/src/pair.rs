//! Two controls on one PostgreSQL, and two gateways whose links a balancer spreads over both: processes on loopback.
//!
//! Takes where each control finds the database, gives what runs. Whatever was started is ended, and the folder removed,
//! when it is dropped.

use std::{
    net::{Ipv4Addr, TcpListener as StdListener},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use crate::{
    build::Programs,
    fleet::{Keys, Operator, Release, Service, replace, text},
};

/// One control.
#[derive(Debug)]
pub struct Control {
    /// Its process.
    pub service: Service,
    /// Calls it as an administrator.
    pub operator: Operator,
    link: u16,
}

/// Everything that runs.
#[derive(Debug)]
pub struct Pair {
    /// Both controls.
    pub controls: [Control; 2],
    /// Both gateways.
    pub gateways: [Service; 2],
    /// What releases are signed with.
    pub keys: Keys,
    balancer: AbortHandle,
    // Last: processes are ended before their folder goes.
    dir: TempDir,
}

impl Pair {
    /// Starts both controls, each with its address of the database, and the gateways.
    pub async fn start(programs: &Programs, databases: [String; 2]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-pair-").tempdir()?;
        let root = dir.path();
        let keys = Keys::make(&programs.control, &root.join("keys"))?;
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let balanced = listener.local_addr()?.port();
        let [first, second] = databases;
        let one = start_control(programs, root, "one", (&first, balanced, &keys)).await?;
        // The authority is copied, as the documentation says.
        for file in ["authority.pem", "authority.key"] {
            std::fs::create_dir_all(root.join("two"))?;
            std::fs::copy(root.join("one").join(file), root.join("two").join(file))?;
        }
        let two = start_control(programs, root, "two", (&second, balanced, &keys)).await?;
        let balancer = tokio::spawn(balance(listener, [one.link, two.link])).abort_handle();
        let a = start_gateway(programs, root, "a", &one.operator).await?;
        let b = start_gateway(programs, root, "b", &two.operator).await?;
        Ok(Self {
            controls: [one, two],
            gateways: [a, b],
            keys,
            balancer,
            dir,
        })
    }

    /// The folder of all of it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The bearer token of the first administrator.
    pub fn token(&self) -> Result<String> {
        let [first, _] = &self.controls;
        let token = std::fs::read_to_string(first.operator.token_file())?;
        Ok(token.trim().to_owned())
    }

    /// Signs a release, whose binary nobody runs, and registers it at the first control.
    pub fn register(&self, version: &str, sequence: u64) -> Result<()> {
        let manifest = self.keys.sign(&Release {
            version: version.to_owned(),
            sequence,
            binary: PathBuf::from("/bin/true"),
        })?;
        let [first, _] = &self.controls;
        first
            .operator
            .run(&["releases", "register", &text(&manifest)?])?;
        Ok(())
    }

    /// Waits until one of the controls answers.
    pub async fn ready(&mut self, number: usize) -> Result<()> {
        let control = self.controls.get_mut(number).context("no such control")?;
        control.operator.ready(&mut control.service).await
    }

    /// What all of them have printed.
    pub fn logs(&self) -> String {
        let services = self.controls.iter().map(|control| &control.service);
        services
            .chain(&self.gateways)
            .map(|service| format!("--- {}\n{}", service.name(), service.log()))
            .collect()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.balancer.abort();
    }
}

async fn start_control(
    programs: &Programs,
    root: &Path,
    name: &str,
    (database, balanced, keys): (&str, u16, &Keys),
) -> Result<Control> {
    let (api, link) = (free_port()?, free_port()?);
    let config = root.join(format!("{name}.toml"));
    let toml = format!(
        "data_dir = {data:?}\ndatabase_url = {database:?}\nlisten = \"127.0.0.1:{api}\"\n\
         link_listen = \"127.0.0.1:{link}\"\nlink_url = \"wss://127.0.0.1:{balanced}/link\"\n\
         downloads_url = \"http://127.0.0.1:9\"\n\n[release]\npins = {pins:?}\nthreshold = 2\n",
        data = root.join(name),
        pins = keys.pins(),
    );
    replace(&config, &toml)?;
    let mut service = Service::new(name, &programs.control, &root.join("logs"));
    service.args(["serve", "--config"]).arg(&config);
    service.start()?;
    let url = format!("http://127.0.0.1:{api}");
    let operator = Operator::new(&programs.control, &url, &root.join("one/admin.token"));
    operator.ready(&mut service).await?;
    Ok(Control {
        service,
        operator,
        link,
    })
}

/// Resolves when it listens: whoever knows its address may come at once.
async fn start_gateway(
    programs: &Programs,
    root: &Path,
    name: &str,
    operator: &Operator,
) -> Result<Service> {
    let port = free_port()?;
    let token = root.join(format!("{name}.token"));
    let out = text(&token)?;
    let url = format!("wss://127.0.0.1:{port}/session");
    operator.run(&["gateways", "enrol", name, "--url", &url, "--out", &out])?;
    let config = root.join(format!("gateway-{name}.toml"));
    let toml = format!(
        "listen = \"127.0.0.1:{port}\"\ncontrol = {control:?}\nstate_dir = {state:?}\nenrol_token_file = {token:?}\n\
         drain = \"1s\"\n",
        control = operator.url(),
        state = root.join(format!("gateway-{name}")),
    );
    replace(&config, &toml)?;
    let mut gateway = Service::new(
        &format!("gateway-{name}"),
        &programs.gateway,
        &root.join("logs"),
    );
    gateway.arg("--config").arg(&config);
    gateway.start()?;
    let listens = format!("gateway {name} listens");
    let patience = std::time::Duration::from_secs(30);
    operator
        .until(&listens, patience, |_| {
            gateway.check()?;
            let there = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port));
            Ok(there.ok().map(drop))
        })
        .await?;
    Ok(gateway)
}

fn free_port() -> Result<u16> {
    let held = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(held.local_addr()?.port())
}

/// Stands before both links, as a balancer of connections does: each goes to the next control that takes it.
async fn balance(listener: StdListener, links: [u16; 2]) -> Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let turn = Arc::new(AtomicUsize::new(0));
    loop {
        let (mut from, _) = listener.accept().await?;
        let turn = Arc::clone(&turn);
        tokio::spawn(async move {
            let [one, two] = links;
            let order = match turn.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => [one, two],
                _ => [two, one],
            };
            for link in order {
                if let Ok(mut to) = TcpStream::connect((Ipv4Addr::LOCALHOST, link)).await {
                    copy_bidirectional(&mut from, &mut to).await.ok();
                    return;
                }
            }
        });
    }
}
