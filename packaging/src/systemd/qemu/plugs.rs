//! When the power goes, and how a node has to stand after the next boot.

use std::time::Duration;

use super::{
    super::{
        Origin,
        node::{Node, Rights, at},
        yard::{Kind, Stock, begin, ended, node_config},
    },
    guest::Guest,
    relay::{Order, Relay},
};
use crate::fleet::{Fleet, Patience, Plan, PoolPlan, Release};
use anyhow::{Context, Result, ensure};

/// How patient nodes are: an emulated processor takes seconds for what others do in a blink.
const PATIENCE: Patience = Patience {
    watchdog: Duration::from_secs(60),
    stable: Duration::from_secs(10),
};

/// How long it may take until the power can go.
const REACHED: Duration = Duration::from_secs(180);

/// How long a rollout may take from there, two boots and a second try included.
const ROLLOUT: Duration = Duration::from_secs(400);

/// How long control gives each node for it.
const TIMEOUT: &str = "15m";

/// When the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plug {
    InTheDownload,
    InTheTrial,
    AfterTheWelcome,
    AfterTheEnd,
    TwiceInTheTrial,
}

/// Control, a gateway, and machines behind relays.
pub(super) struct Site {
    pub(super) stock: Stock,
    places: Vec<Place>,
    confirmed: String,
    sequence: u64,
    floor: u64,
    // Last: the machines go before those whom they speak with.
    fleet: Fleet,
}

impl Plug {
    pub(super) const ALL: [Self; 5] = [
        Self::InTheDownload,
        Self::InTheTrial,
        Self::AfterTheWelcome,
        Self::AfterTheEnd,
        Self::TwiceInTheTrial,
    ];

    /// A good release is on its way, and the power of every machine goes.
    pub(super) async fn pulled(self, site: &mut Site) -> Result<()> {
        site.prepare(self)?;
        let (version, rollout) = site.roll_out()?;
        let reached = self.reached(site, &version, &rollout).await;
        site.off()?;
        site.open_relays();
        reached?;
        site.on().await?;
        let state = ended(&site.fleet.operator, &rollout, ROLLOUT).await?;
        ensure!(state == "completed", "the rollout of {version} is {state}");
        site.confirmed = version;
        site.floor = site.sequence;
        site.at_rest().await
    }

    /// Waits for the moment.
    async fn reached(self, site: &mut Site, version: &str, rollout: &str) -> Result<()> {
        match self {
            Self::InTheDownload => site.every_is_held(Way::Api).await,
            Self::InTheTrial => site.every_is_held(Way::Session).await,
            Self::AfterTheWelcome => site.every_reports(version).await,
            Self::AfterTheEnd => {
                let state = ended(&site.fleet.operator, rollout, ROLLOUT).await?;
                ensure!(state == "completed", "the rollout of {version} is {state}");
                // What control was told is on the disks: the floor holds from here on.
                site.floor = site.sequence;
                Ok(())
            }
            Self::TwiceInTheTrial => {
                site.every_is_held(Way::Session).await?;
                site.off()?;
                site.prepare(self)?;
                site.start()?;
                site.every_is_held(Way::Session).await
            }
        }
    }
}

/// A machine and its ways to the servers.
struct Place {
    node: Node<Guest>,
    api: Relay,
    session: Relay,
}

/// On which way something has stopped.
#[derive(Clone, Copy, Debug)]
enum Way {
    Api,
    Session,
}

impl Site {
    /// Builds, and starts what nodes speak with.
    pub(super) async fn open(origin: &Origin) -> Result<Self> {
        let stock = Stock::of(origin).await?;
        let plan = Plan {
            pools: vec![PoolPlan {
                name: "machines",
                nodes: 0,
                budget: "1",
            }],
            patience: PATIENCE,
        };
        let fleet = Fleet::start(stock.programs.clone(), &stock.own(), &plan).await?;
        Ok(Self {
            places: Vec::new(),
            confirmed: stock.packaged().to_owned(),
            stock,
            sequence: 0,
            floor: 0,
            fleet,
        })
    }

    /// Makes a machine that is up a node: relays, the package, its configuration, joining, starting.
    pub(super) async fn settle(&mut self, guest: Guest, rights: Rights) -> Result<()> {
        let (_, session) = self.fleet.session_address();
        let api = self.fleet.operator.url();
        let api = api.rsplit(':').next().unwrap_or_default().parse()?;
        let ways = [
            (api, Relay::to(api).await?),
            (session, Relay::to(session).await?),
        ];
        let token = std::fs::read_to_string(self.fleet.join_token(0, 1)?)?;
        let config = node_config(&self.fleet, self.fleet.operator.url(), PATIENCE);
        for (port, relay) in &ways {
            guest.shell(&relayed(*port, relay.port()))?;
        }
        guest.shell(&format!(
            "{}\napt-get install --yes --quiet --no-install-recommends /root/bcd.deb\n\
             printf %s '{}' >/root/join.token\nchmod 0600 /root/join.token\n\
             cat >/etc/bcd/bcd.toml <<'END'\n{config}END\n",
            guest.take_package("/root/bcd.deb"),
            token.trim(),
        ))?;
        let mut node = Node {
            machine: guest,
            rights: Rights::Root,
            id: String::new(),
        };
        if rights == Rights::Unprivileged {
            node.take_rights()?;
        }
        node.machine
            .shell("bcd join --token-file /root/join.token; rm /root/join.token; systemctl start bcd.service")?;
        let status = node.settled(&self.confirmed).await?;
        // What the yard itself has written is not what is tried.
        node.machine.shell("sync")?;
        let id = at(&status, "/nodeId").as_str();
        node.id = id.context("the node has no id")?.to_owned();
        let [(_, api), (_, session)] = ways;
        self.places.push(Place { node, api, session });
        Ok(())
    }

    fn roll_out(&mut self) -> Result<(String, String)> {
        self.sequence += 1;
        let (version, binary) = self.stock.release(Kind::Good, self.sequence)?;
        self.fleet.publish(&Release {
            version: version.clone(),
            sequence: self.sequence,
            binary,
        })?;
        let pool = self.fleet.pools.first().context("no such pool")?;
        let rollout = begin(&self.fleet.operator, (pool, &version), TIMEOUT)?;
        Ok((version, rollout))
    }

    /// Tells the relays where to stop.
    fn prepare(&mut self, plug: Plug) -> Result<()> {
        let half = std::fs::metadata(self.stock.own())?.len() / 2;
        for place in &mut self.places {
            match plug {
                Plug::InTheDownload => place.api.order(Order::Beyond(half)),
                Plug::InTheTrial | Plug::TwiceInTheTrial => place.session.order(Order::NobodyNew),
                Plug::AfterTheWelcome | Plug::AfterTheEnd => {}
            }
        }
        Ok(())
    }

    fn open_relays(&mut self) {
        for place in &mut self.places {
            place.api.order(Order::Pass);
            place.session.order(Order::Pass);
        }
    }

    async fn every_is_held(&mut self, way: Way) -> Result<()> {
        for place in &mut self.places {
            let relay = match way {
                Way::Api => &mut place.api,
                Way::Session => &mut place.session,
            };
            relay.has_held(REACHED).await?;
        }
        Ok(())
    }

    /// Waits until control knows that every node runs a version, on trial.
    async fn every_reports(&self, version: &str) -> Result<()> {
        for place in &self.places {
            let what = format!("{} reports {version}", place.node.id);
            let operator = &self.fleet.operator;
            operator
                .until(&what, REACHED, |operator| {
                    let found = operator.json(&["nodes", "get", &place.node.id])?;
                    let runs = at(&found, "/version").as_str() == Some(version);
                    let on_trial = !at(&found, "/trial").is_null();
                    Ok((runs && on_trial).then_some(()))
                })
                .await?;
        }
        Ok(())
    }

    /// The power of every machine goes.
    fn off(&mut self) -> Result<()> {
        let places = &mut self.places;
        places
            .iter_mut()
            .try_for_each(|place| place.node.machine.pull_the_plug())
    }

    fn start(&mut self) -> Result<()> {
        let places = &mut self.places;
        places
            .iter_mut()
            .try_for_each(|place| place.node.machine.start())
    }

    async fn on(&mut self) -> Result<()> {
        self.start()?;
        for place in &mut self.places {
            place.node.machine.up().await?;
        }
        let mut places = self.places.iter();
        places.try_for_each(|place| self.floor_holds(&place.node))
    }

    /// Every node is who it was, runs what it has confirmed, and nothing is left to mend.
    async fn at_rest(&self) -> Result<()> {
        for place in &self.places {
            let node = &place.node;
            let status = node.settled(&self.confirmed).await?;
            ensure!(
                at(&status, "/nodeId").as_str() == Some(&node.id),
                "expected the node to be {}, found {status}",
                node.id
            );
            self.floor_holds(node)?;
            node.is_at_rest().await?;
        }
        Ok(())
    }

    fn floor_holds(&self, node: &Node<Guest>) -> Result<()> {
        let status = node.status()?;
        let floor = at(&status, "/floor").as_u64();
        ensure!(
            floor.is_some_and(|floor| (self.floor..=self.sequence).contains(&floor)),
            "{:?}: expected a floor from {} to {}, found {status}",
            node.rights,
            self.floor,
            self.sequence
        );
        Ok(())
    }

    /// The last of every node's log, and of every console.
    pub(super) fn logs(&self) -> String {
        let one = |place: &Place| {
            let (rights, log) = (place.node.rights, place.node.log());
            format!("== {rights:?}\n{log}\n{}\n", place.node.machine.console())
        };
        self.places.iter().map(one).collect()
    }
}

/// Lines of shell by which a port of the machine's loopback is a relay's of this one.
fn relayed(port: u16, relay: u16) -> String {
    format!(
        "cat >/etc/systemd/system/yard-{port}.socket <<'END'\n[Socket]\nListenStream=127.0.0.1:{port}\n\n\
         [Install]\nWantedBy=sockets.target\nEND\n\
         cat >/etc/systemd/system/yard-{port}.service <<'END'\n[Service]\n\
         ExecStart=/lib/systemd/systemd-socket-proxyd 10.0.2.2:{relay}\nEND\n\
         systemctl daemon-reload; systemctl enable --now yard-{port}.socket"
    )
}
