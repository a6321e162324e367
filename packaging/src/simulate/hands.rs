//! Whoever interferes: operators with their calls. Fate is in `strikes`.

use std::time::Duration;

use bc_protocol::{
    command::Kind,
    id::{NodeId, RolloutId},
    share::{Percent, Share},
};
use better_compute::simulation::{Order, Word};
use rand::RngExt as _;

use super::{
    parts::{Down, Event},
    world::World,
};

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// One more interference, and the next later.
    pub(super) fn hand(&mut self) {
        if self.rests {
            return;
        }
        match self.random.random_range(0..100) {
            0..18 => self.creates(),
            18..34 => self.says(),
            34..52 => self.operates(),
            52..70 => self.strikes_node(),
            70..84 => self.strikes_line(),
            _ => self.strikes_servers(),
        }
        self.check();
        let wait = self.span(500, 25_000);
        self.after(wait, Event::Hand);
    }

    pub(super) fn some_node(&mut self) -> Option<(usize, NodeId)> {
        let node = self.random.random_range(0..self.nodes.len().max(1));
        self.node(node).map(|known| (node, known.id.clone()))
    }

    fn creates(&mut self) {
        let Some(release) = self.drawn_release() else {
            return;
        };
        let waves: &[&str] = match self.random.random_range(0..3) {
            0 => &["100"],
            1 => &["10", "50", "100"],
            _ => &["1", "10", "50", "100"],
        };
        let ratio = [0, 50_000, 300_000, 1_000_000];
        let soaks = [0, 30, 120];
        let timeouts = [60, 180, 600];
        let (ratio, soak, timeout) = (
            self.one_of(&ratio),
            self.one_of(&soaks),
            self.one_of(&timeouts),
        );
        let nodes = self.chance(0.12).then(|| {
            self.nodes
                .iter()
                .step_by(2)
                .map(|node| node.id.clone())
                .collect()
        });
        let one = self.chance(0.3);
        let pools = self
            .scenario
            .pools
            .first()
            .filter(|_| one)
            .map(|(pool, _)| [pool.clone()].into());
        let again = self.chance(0.1);
        self.calls += u64::from(!again);
        let order = Order {
            key: self.calls.to_string(),
            version: release,
            pools,
            nodes,
            waves: waves
                .iter()
                .filter_map(|wave| wave.parse::<Percent>().ok())
                .collect(),
            ratio: Share::from_millionths(u32::try_from(ratio).unwrap_or(0)).unwrap_or(Share::ZERO),
            soak: SECOND * u32::try_from(soak).unwrap_or(0),
            timeout: SECOND * u32::try_from(timeout).unwrap_or(60),
            maintenance_too: self.chance(0.2),
        };
        let times = if self.chance(0.3) { 3 } else { 1 };
        let server = self.some_server();
        let at_ms = self.process(server).now_ms;
        let made = self.control.create(&order, times, at_ms);
        self.say(|| {
            format!(
                "create {} {:?}: {:?}",
                order.version,
                order.waves.len(),
                made.as_ref().map(|(id, _)| id)
            )
        });
        if let Ok((_, round)) = made {
            self.take(server, round);
            self.wakes(server);
        }
    }

    /// Newer ones more often: what is older than a floor is for nobody.
    fn drawn_release(&mut self) -> Option<bc_protocol::version::Version> {
        let releases = self.scenario.releases.len();
        let newest = self
            .random
            .random_range(0..releases.max(1))
            .max(self.random.random_range(0..releases.max(1)));
        self.scenario
            .releases
            .get(newest)
            .map(|release| release.version.clone())
    }

    fn one_of(&mut self, of: &[u64]) -> u64 {
        of.get(self.random.random_range(0..of.len().max(1)))
            .copied()
            .unwrap_or(0)
    }

    pub(super) fn some_server(&mut self) -> usize {
        self.random.random_range(0..self.servers.len().max(1))
    }

    fn says(&mut self) {
        let standing: Vec<(RolloutId, &str)> = self
            .control
            .rollouts()
            .into_iter()
            .map(|standing| (standing.rollout, standing.state))
            .collect();
        if standing.is_empty() {
            return self.creates();
        }
        let open: Vec<_> = standing
            .iter()
            .filter(|(_, state)| matches!(*state, "running" | "paused"))
            .collect();
        let rollout = match open.first() {
            Some((rollout, _)) if self.random.random_bool(0.8) => rollout.clone(),
            Some(_) | None => match standing.get(self.random.random_range(0..standing.len())) {
                Some((rollout, _)) => rollout.clone(),
                None => return,
            },
        };
        let word = match self.random.random_range(0..12) {
            0..3 => Word::Pause,
            3..8 => Word::Resume,
            8 => Word::Abort,
            9 => Word::AbortAndRollBack,
            _ => Word::Retry,
        };
        let server = self.some_server();
        let at_ms = self.process(server).now_ms;
        let round = self.control.say(&rollout, word, at_ms);
        self.say(|| {
            format!(
                "{word:?} {rollout}: {}",
                if round.is_some() { "done" } else { "refused" }
            )
        });
        if let Some(round) = round {
            self.take(server, round);
            self.wakes(server);
        }
    }

    fn operates(&mut self) {
        let server = self.some_server();
        let at_ms = self.process(server).now_ms;
        let Some((node, id)) = self.some_node() else {
            return;
        };
        let what = self.random.random_range(0..24);
        self.say(|| format!("operator's hand {what} on node {node}"));
        match what {
            0..2 => self.control.freeze(true, at_ms),
            2..6 => self.control.freeze(false, at_ms),
            6..8 => self.control.maintain(&id, true),
            8..11 => self.control.maintain(&id, false),
            11 => self.removes(node, &id),
            12..15 => {
                self.working.insert(node);
                self.control.workflow(&id, true);
            }
            15..18 => {
                self.working.remove(&node);
                self.control.workflow(&id, false);
            }
            18 => self.budgets(),
            19 => self.joins(),
            20..22 => self.asks(&id),
            22 => self.archives(),
            _ => {
                let release = self.scenario.releases.first().cloned();
                if let Some(release) = release {
                    self.control
                        .register(release.version, release.sequence, release.digest);
                }
            }
        }
        self.wakes(server);
    }

    fn removes(&mut self, node: usize, id: &NodeId) {
        if self.removed.len() >= 2 {
            return;
        }
        self.removed.insert(node);
        self.working.remove(&node);
        self.control.remove(id, self.unix_ms(0));
        let removed = self.control.removed();
        for gateway in 0..self.gateways.len() {
            self.sends_down(gateway, Down::Removed(removed.clone()));
        }
    }

    fn budgets(&mut self) {
        let ppm = self.one_of(&[0, 50_000, 300_000, 1_000_000]);
        let share = Share::from_millionths(u32::try_from(ppm).unwrap_or(0)).unwrap_or(Share::ZERO);
        let pool = self
            .random
            .random_range(0..self.scenario.pools.len().max(1));
        if let Some((pool, _)) = self.scenario.pools.get(pool) {
            self.control.set_budget(pool, share);
        }
    }

    fn archives(&mut self) {
        if self.scenario.pools.len() > 1
            && self.chance(0.3)
            && let Some((pool, _)) = self.scenario.pools.last()
        {
            self.control.archive(pool);
        }
    }

    fn joins(&mut self) {
        if self.nodes.len() < 16
            && let Some((pool, _)) = self.scenario.pools.first().cloned()
        {
            let number = self.nodes.len();
            self.join(NodeId::derived(&[b"late", &number.to_be_bytes()]), pool);
        }
    }

    fn asks(&mut self, node: &NodeId) {
        let kind = if self.chance(0.5) {
            Kind::Restart
        } else {
            Kind::Diagnostics
        };
        let at_ms = self.unix_ms(0);
        self.control.command(node, kind, at_ms);
        if self.chance(0.5) {
            self.control.command(node, kind, at_ms);
        }
        self.commands(node);
    }
}
