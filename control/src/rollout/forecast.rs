//! What a rollout would be like, before it exists.
//!
//! Takes the nodes in scope in the rollout's order, the pools' budgets and the terms; gives waves, how many nodes go at
//! once, how long it takes, and what its author may not have meant. It uses the planner's own waves and budgets. Reads
//! no clock and no database.

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::{id::PoolId, share::Percent};

use super::{budget::Budget, waves};

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
}

/// What the author of a rollout may not have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// Nodes may be called failed that are still deciding.
    ShortTimeout {
        /// What was asked for.
        timeout: Duration,
    },
    /// Nothing is tried out first.
    FirstWaveIsEverything {
        /// Its nodes.
        nodes: u32,
    },
    /// Nobody of the pool can be reached.
    NobodyOnline {
        /// The pool.
        pool: PoolId,
        /// Its nodes in scope.
        nodes: u32,
    },
    /// There is nothing to do.
    NothingToDo,
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
            Work::Upgrade => one_more(&mut wave.work, &prospect.pool),
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
    }
}

fn one_more(counts: &mut BTreeMap<PoolId, u32>, pool: &PoolId) {
    let count = counts.entry(pool.clone()).or_default();
    *count = count.saturating_add(1);
}

fn concurrency(outlook: &Outlook<'_>, pool: &PoolId) -> u32 {
    outlook.pools.get(pool).map_or(1, |budget| budget.max())
}

impl Warning {
    /// In one word.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::ShortTimeout { .. } => "short-timeout",
            Self::FirstWaveIsEverything { .. } => "first-wave-is-everything",
            Self::NobodyOnline { .. } => "nobody-online",
            Self::NothingToDo => "nothing-to-do",
        }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ShortTimeout { timeout } => write!(
                f,
                "a node may take {} s, but one on trial waits {} s for a Welcome before it goes back",
                timeout.as_secs(),
                WATCHDOG.as_secs()
            ),
            Self::FirstWaveIsEverything { nodes } => write!(
                f,
                "the first wave is all {nodes} nodes: nothing is tried out before"
            ),
            Self::NobodyOnline { pool, nodes } => write!(
                f,
                "none of the {nodes} nodes of {pool} is online: they are passed over, and late when they return"
            ),
            Self::NothingToDo => f.write_str("every node in scope runs the release already"),
        }
    }
}

#[cfg(test)]
mod tests;
