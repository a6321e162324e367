//! What a rollout would be like, before it exists.
//!
//! Takes the nodes in scope in the rollout's order, the pools' budgets and the terms; gives waves, how many nodes go at
//! once, how long it takes, and what its author may not have meant. It uses the planner's own waves and budgets. Reads
//! no clock and no database.

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::{
    id::{PoolId, RolloutId},
    share::Percent,
    version::Version,
};

use self::warning::PassedOver;
pub(crate) use self::warning::{NOBODY_TAKES_IT, Warning};
use super::{
    budget::Budget,
    snapshot::{Freeze, Trouble},
    waves,
};

mod warning;

/// What a node needs to be upgraded, where nothing is known: a download, and the wait for a session that holds.
pub(crate) const GUESS: Duration = Duration::from_secs(60);

/// How long nodes wait for a Welcome before they go back, unless their owners have said otherwise. A rollout that gives
/// up sooner calls nodes failed that may yet go back, or go on.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

/// What there is to forecast from.
#[derive(Clone, Debug)]
pub(crate) struct Outlook<'a> {
    /// The nodes in scope, in the rollout's order.
    pub members: Vec<Prospect>,
    /// The pools.
    pub pools: BTreeMap<PoolId, Budget>,
    /// Cumulative percentages.
    pub waves: &'a [Percent],
    /// Rest between waves.
    pub soak: Duration,
    /// How long one node may take.
    pub timeout: Duration,
    /// How long one node takes.
    pub per_node: Duration,
    /// The version that it brings.
    pub version: &'a Version,
    /// Whether nodes will stand in this order, or in one that the rollout's id will give.
    pub order: Order,
    /// Nodes that would be in scope, were they not in maintenance.
    pub left_out: u32,
    /// The newest rollout of the same version, if it was aborted.
    pub aborted: Option<Aborted>,
    /// Whether nothing starts in the tenant, by whose word.
    pub frozen: Option<Freeze>,
}

/// Whether the order of the nodes is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It is: the rollout's id follows from a key.
    Known,
    /// The rollout's id is drawn when it is created.
    Drawn,
}

/// A rollout that was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    /// Its id.
    pub rollout: RolloutId,
    /// Why.
    pub reason: String,
}

/// A node in scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prospect {
    /// Its pool.
    pub pool: PoolId,
    /// Whether it has anything to do.
    pub work: Work,
    /// Whether it can be reached now.
    pub reach: Reachable,
    /// Why it would be passed over, if it would.
    pub bar: Option<Trouble>,
    /// What it runs, as far as it has said.
    pub runs: Option<Version>,
}

/// Whether a node would be upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It would.
    Upgrade,
    /// It runs the release already.
    Nothing,
}

/// Whether a node holds a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reachable {
    /// It does.
    Online,
    /// It does not.
    Offline,
}

/// What a rollout would be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// Its waves.
    pub waves: Vec<Wave>,
    /// Nodes in scope by pool, and how many of them are online.
    pub pools: BTreeMap<PoolId, Count>,
    /// Nodes that run the release already.
    pub already: u32,
    /// All of it.
    pub duration: Duration,
    /// What its author may not have meant.
    pub warnings: Vec<Warning>,
}

/// Nodes of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// In scope.
    pub nodes: u32,
    /// Of these, online.
    pub online: u32,
}

/// A wave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wave {
    /// Its nodes by pool.
    pub pools: BTreeMap<PoolId, u32>,
    /// Its nodes that have work to do, by pool.
    pub work: BTreeMap<PoolId, u32>,
    /// How long it takes, its soak included.
    pub duration: Duration,
    /// Those with work to do that can be reached, and are not to be passed over.
    pub ready: u32,
}

impl Wave {
    /// All its nodes.
    pub(crate) fn nodes(&self) -> u32 {
        self.pools
            .values()
            .fold(0, |sum, nodes| sum.saturating_add(*nodes))
    }
}

/// Forecasts a rollout.
pub(crate) fn forecast(outlook: &Outlook<'_>) -> Forecast {
    let nodes = u32::try_from(outlook.members.len()).unwrap_or(u32::MAX);
    let ends = waves::ends(nodes, outlook.waves);
    let mut forecast = Forecast {
        waves: vec![Wave::default(); ends.len()],
        pools: BTreeMap::new(),
        already: 0,
        duration: Duration::ZERO,
        warnings: Vec::new(),
    };
    for (place, prospect) in (0_u32..).zip(&outlook.members) {
        forecast.count(prospect, waves::wave_at(place, &ends));
    }
    forecast.measure(outlook);
    forecast.warn(outlook);
    forecast
}

impl Forecast {
    fn count(&mut self, prospect: &Prospect, wave: u32) {
        let pool = self.pools.entry(prospect.pool.clone()).or_default();
        pool.nodes = pool.nodes.saturating_add(1);
        match prospect.reach {
            Reachable::Online => pool.online = pool.online.saturating_add(1),
            Reachable::Offline => {}
        }
        let wave = usize::try_from(wave)
            .ok()
            .and_then(|wave| self.waves.get_mut(wave));
        let Some(wave) = wave else {
            return;
        };
        one_more(&mut wave.pools, &prospect.pool);
        match prospect.work {
            Work::Upgrade => {
                one_more(&mut wave.work, &prospect.pool);
                if prospect.reach == Reachable::Online && prospect.bar.is_none() {
                    wave.ready = wave.ready.saturating_add(1);
                }
            }
            Work::Nothing => self.already = self.already.saturating_add(1),
        }
    }

    /// A wave takes as long as its slowest pool; the last does not soak, nor does one that starts nothing.
    fn measure(&mut self, outlook: &Outlook<'_>) {
        let last = self.waves.iter().rposition(|wave| !wave.pools.is_empty());
        for (number, wave) in self.waves.iter_mut().enumerate() {
            let slowest = wave
                .work
                .iter()
                .map(|(pool, nodes)| nodes.div_ceil(concurrency(outlook, pool)))
                .max()
                .unwrap_or(0);
            wave.duration = outlook.per_node.saturating_mul(slowest);
            if slowest > 0 && last.is_some_and(|last| number < last) {
                wave.duration = wave.duration.saturating_add(outlook.soak);
            }
            self.duration = self.duration.saturating_add(wave.duration);
        }
    }

    fn warn(&mut self, outlook: &Outlook<'_>) {
        self.warnings
            .extend(outlook.frozen.clone().map(Warning::Frozen));
        if outlook.timeout < WATCHDOG {
            self.warnings.push(Warning::ShortTimeout {
                timeout: outlook.timeout,
            });
        }
        let nodes = u32::try_from(outlook.members.len()).unwrap_or(u32::MAX);
        if self.waves.first().is_some_and(|wave| wave.nodes() == nodes) && nodes > 1 {
            self.warnings.push(Warning::FirstWaveIsEverything { nodes });
        }
        for (pool, count) in &self.pools {
            if count.online == 0 {
                self.warnings.push(Warning::NobodyOnline {
                    pool: pool.clone(),
                    nodes: count.nodes,
                });
            }
        }
        if self.already == nodes {
            self.warnings.push(Warning::NothingToDo);
        }
        self.warn_of_canaries(outlook.order);
        self.warn_of_nodes(outlook);
        if let Some(Aborted { rollout, reason }) = outlook.aborted.clone() {
            self.warnings
                .push(Warning::AbortedBefore { rollout, reason });
        }
    }

    /// A first wave that nobody can begin holds everybody up.
    fn warn_of_canaries(&mut self, order: Order) {
        let canaries = self.waves.iter().find(|wave| !wave.work.is_empty());
        let Some(canaries) = canaries.filter(|wave| wave.ready == 0) else {
            return;
        };
        let elsewhere = self.waves.iter().any(|wave| wave.ready > 0);
        match order {
            Order::Known if elsewhere => {
                let nodes = canaries.nodes();
                self.warnings.push(Warning::NoCanary { nodes });
            }
            Order::Known | Order::Drawn => {}
        }
    }

    fn warn_of_nodes(&mut self, outlook: &Outlook<'_>) {
        let at_work = || {
            let members = outlook.members.iter();
            members.filter(|member| member.work == Work::Upgrade)
        };
        let mut barred: BTreeMap<&str, PassedOver> = BTreeMap::new();
        for trouble in at_work().filter_map(|member| member.bar.as_ref()) {
            let entry = barred.entry(&trouble.code);
            let passed = entry.or_insert_with(|| PassedOver::new(trouble.clone()));
            passed.nodes = passed.nodes.saturating_add(1);
        }
        let everybody = at_work().next().is_some() && at_work().all(|member| member.bar.is_some());
        let passed = barred.into_values().map(Warning::PassedOver);
        self.warnings.extend(passed);
        if everybody {
            self.warnings.push(Warning::NobodyTakesIt);
        }
        let newer = at_work()
            .filter(|member| member.bar.is_none())
            .filter_map(|member| member.runs.as_ref())
            .filter(|runs| reads_as_newer(runs, outlook.version));
        let mut newer = newer.peekable();
        if let Some(runs) = newer.peek().map(|runs| (*runs).clone()) {
            self.warnings.push(Warning::LowerVersion {
                version: outlook.version.clone(),
                runs,
                nodes: u32::try_from(newer.count()).unwrap_or(u32::MAX),
            });
        }
        if outlook.left_out > 0 {
            let nodes = outlook.left_out;
            self.warnings.push(Warning::LeftOut { nodes });
        }
    }
}

/// Whether a version has the greater numbers. What stands behind them is not compared.
fn reads_as_newer(one: &Version, than: &Version) -> bool {
    numbers(one) > numbers(than)
}

fn numbers(version: &Version) -> Vec<u64> {
    let core = version
        .as_str()
        .split(['-', '+'])
        .next()
        .unwrap_or_default();
    core.split('.')
        .filter_map(|part| part.parse().ok())
        .collect()
}

fn one_more(counts: &mut BTreeMap<PoolId, u32>, pool: &PoolId) {
    let count = counts.entry(pool.clone()).or_default();
    *count = count.saturating_add(1);
}

fn concurrency(outlook: &Outlook<'_>, pool: &PoolId) -> u32 {
    outlook.pools.get(pool).map_or(1, |budget| budget.max())
}

#[cfg(test)]
mod tests;
