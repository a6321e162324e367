//! Whoever holds the sessions: a gateway with a stand-in for control, or somebody else's broker, each on loopback, over
//! TLS 1.3, for clients that show a certificate of our authority.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bc_protocol::session::FromGateway;
use tempfile::TempDir;
use tokio::{net::TcpStream, time::sleep};

use crate::{
    fleet::{Service, free_ports, now, replace},
    load::{
        Speech,
        authority::Authority,
        publisher::Publisher,
        worker::{Role, Worker, spec},
    },
};

/// Who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Ours,
    Nats,
    Mosquitto,
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Nats => "nats",
            Self::Mosquitto => "mosquitto",
        }
    }

    pub(super) fn speech(self) -> Speech {
        match self {
            Self::Ours => Speech::Session,
            Self::Nats => Speech::Nats,
            Self::Mosquitto => Speech::Mqtt,
        }
    }
}

/// One that runs.
pub(super) struct Server {
    pub(super) subject: Subject,
    /// `HOST:PORT`.
    pub(super) address: String,
    service: Service,
    publishes: Publishes,
    generation: u64,
    authority: Authority,
    _dir: TempDir,
}

/// By what messages come to all.
enum Publishes {
    Link(Box<Worker>),
    Broker(Option<Box<Publisher>>),
}

/// What it takes to start one.
pub(super) struct Programs {
    /// This program, which is a worker too.
    pub(super) own: PathBuf,
    /// `bc-gateway`.
    pub(super) gateway: PathBuf,
}

impl Server {
    /// Starts one whose sessions beat at this pace, where it has a say in that.
    pub(super) async fn start(
        subject: Subject,
        programs: &Programs,
        heartbeat: Duration,
    ) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-bench-").tempdir()?;
        let authority = Authority::new()?;
        let [port] = free_ports()?;
        let (service, publishes) = match subject {
            Subject::Ours => {
                let link = stand_in(&authority, programs, heartbeat).await?;
                gateway(&authority, programs, dir.path(), (port, link)).await?
            }
            Subject::Nats => (nats(&authority, dir.path(), port)?, Publishes::Broker(None)),
            Subject::Mosquitto => (
                mosquitto(&authority, dir.path(), port)?,
                Publishes::Broker(None),
            ),
        };
        let mut server = Self {
            subject,
            address: format!("127.0.0.1:{port}"),
            service,
            publishes,
            generation: 0,
            authority,
            _dir: dir,
        };
        server.begin().await?;
        Ok(server)
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Starts it, and waits until it takes connections.
    pub(super) async fn begin(&mut self) -> Result<()> {
        self.service.start()?;
        let deadline = now() + Duration::from_secs(20);
        while TcpStream::connect(&self.address).await.is_err() {
            self.service.check()?;
            ensure!(now() < deadline, "{} does not listen", self.subject.name());
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Ends it as a crash would.
    pub(super) fn kill(&mut self) -> Result<()> {
        if let Publishes::Broker(publisher) = &mut self.publishes {
            *publisher = None;
        }
        self.service.kill()
    }

    pub(super) fn pid(&self) -> Result<i32> {
        let pid = self.service.pid().context("it does not run")?;
        Ok(pid.try_into()?)
    }

    /// Sends something new to each of so many; gives when that began.
    pub(super) async fn push(&mut self, nodes: usize) -> Result<Duration> {
        self.generation += 1;
        match &mut self.publishes {
            Publishes::Link(stand_in) => stand_in.push(nodes, self.generation).await,
            Publishes::Broker(publisher) => {
                let publisher = match publisher {
                    Some(publisher) => publisher,
                    None => {
                        let speech = self.subject.speech();
                        let own = self.authority.own();
                        let connected = Publisher::connect(speech, &self.address, own).await?;
                        publisher.insert(Box::new(connected))
                    }
                };
                publisher.publish(&payload(self.generation)?).await
            }
        }
    }
}

/// What a node gets when its spec has changed.
pub(super) fn payload(generation: u64) -> Result<Vec<u8>> {
    Ok(FromGateway::Spec(Ok(spec(generation)?)).encode().to_vec())
}

async fn stand_in(
    authority: &Authority,
    programs: &Programs,
    heartbeat: Duration,
) -> Result<Worker> {
    let role = Role::StandIn {
        authority: authority.own().clone(),
        heartbeat_ms: u32::try_from(heartbeat.as_millis())?,
    };
    Worker::start(&programs.own, &role).await
}

async fn gateway(
    authority: &Authority,
    programs: &Programs,
    dir: &Path,
    (port, mut link): (u16, Worker),
) -> Result<(Service, Publishes)> {
    let state = dir.join("state");
    authority.enrol(&state, &link.url().await?)?;
    let config = dir.join("gateway.toml");
    // Whatever bounds a gateway is as it is shipped.
    replace(
        &config,
        &format!(
            "listen = \"127.0.0.1:{port}\"\ncontrol = \"http://127.0.0.1:1\"\nstate_dir = {state:?}\n"
        ),
    )?;
    let mut service = Service::new("gateway", &programs.gateway, dir);
    service.arg("--config").arg(&config);
    Ok((service, Publishes::Link(Box::new(link))))
}

fn nats(authority: &Authority, dir: &Path, port: u16) -> Result<Service> {
    shown(authority, dir)?;
    let path = |name: &str| dir.join(name);
    let config = dir.join("nats.conf");
    replace(
        &config,
        &format!(
            "host: \"{}\"\nport: {port}\nmax_connections: 100000\nping_interval: \"1h\"\n\
             tls {{\n cert_file: {:?}\n key_file: {:?}\n ca_file: {:?}\n verify: true\n timeout: 20\n}}\n",
            Ipv4Addr::LOCALHOST,
            path("server.pem"),
            path("server.key"),
            path("authority.pem"),
        ),
    )?;
    let mut service = Service::new("nats", Path::new("nats-server"), dir);
    service.arg("--config").arg(&config);
    Ok(service)
}

fn mosquitto(authority: &Authority, dir: &Path, port: u16) -> Result<Service> {
    shown(authority, dir)?;
    let path = |name: &str| dir.join(name).display().to_string();
    let config = dir.join("mosquitto.conf");
    // As root it would become somebody who may not read the folder.
    replace(
        &config,
        &format!(
            "user root\nlistener {port} 127.0.0.1\nallow_anonymous true\nmax_connections -1\nset_tcp_nodelay true\n\
             cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\ntls_version tlsv1.3\n",
            path("authority.pem"),
            path("server.pem"),
            path("server.key"),
        ),
    )?;
    let program = match Path::new("/usr/sbin/mosquitto") {
        installed if installed.exists() => installed,
        _ => Path::new("mosquitto"),
    };
    let mut service = Service::new("mosquitto", program, dir);
    service.arg("-c").arg(&config);
    Ok(service)
}

/// What a broker shows, as files.
fn shown(authority: &Authority, dir: &Path) -> Result<()> {
    let own = authority.server("urn:bettercompute:broker")?;
    replace(&dir.join("server.pem"), &own.certificate)?;
    replace(&dir.join("server.key"), &own.key)?;
    replace(&dir.join("authority.pem"), &authority.own().certificate)
}
