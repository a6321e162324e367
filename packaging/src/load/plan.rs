//! What a swarm is to do, and what it says that it did. Both travel between processes as JSON.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use super::authority::Pair;

/// What a swarm is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// What it speaks.
    pub speech: Speech,
    /// Where to connect, `HOST:PORT` each. Empty where control names them.
    pub gateways: Vec<String>,
    /// Who the nodes are.
    pub source: Source,
    /// The first node's number.
    pub first: usize,
    /// How many nodes there are.
    pub nodes: usize,
    /// The address to connect from; another one is another 28,000 ports. Minted nodes have one each instead.
    pub from: Option<IpAddr>,
    /// How many may be opening at once.
    pub opening_max: usize,
    /// Between pings, in milliseconds; what the Welcome says by default, and none for others' brokers.
    pub heartbeat_ms: Option<u64>,
    /// How they come back.
    pub manner: Manner,
}

/// What a node speaks, over TLS with a client certificate but for [`Speech::Raw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speech {
    /// A session with a gateway.
    Session,
    /// A client of a NATS server.
    Nats,
    /// A client of an MQTT broker.
    Mqtt,
    /// A bare TCP connection, on which anything that comes is counted.
    Raw,
}

/// Who the nodes are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Source {
    /// Anybody: certificates by an authority that the worker is given, key and all.
    Minted(Pair),
    /// Whoever joins with this token at this control.
    Joined {
        /// Control's API.
        control: String,
        /// The token's bearer form.
        token: String,
    },
}

/// How nodes come back after they lost their connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manner {
    /// At a real agent's pace.
    Agent,
    /// As soon as there is room among those that open: the fastest return there can be.
    Eager,
}

/// How things stand. All counts are since the swarm began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Nodes that can be asked for: they have certificates.
    pub ready: usize,
    /// Sessions that are open now.
    pub live: usize,
    /// Sessions that were opened.
    pub opened: u64,
    /// Connections that never became a session.
    pub failed: u64,
    /// Those of them that nobody listened for.
    pub refused: u64,
    /// Sessions that ended without having been asked to.
    pub lost: u64,
    /// Specs, or messages of others, that came.
    pub specs: u64,
    /// When the last of them came, by [`super::monotonic`].
    pub last_spec_ns: u64,
    /// When the last session was opened.
    pub last_opened_ns: u64,
    /// Answers to pings.
    pub pongs: u64,
    /// Pings of the other side.
    pub pings: u64,
    /// Reports that were sent.
    pub reports: u64,
    /// Commands that came.
    pub commands: u64,
    /// From the connection's first packet to the Welcome.
    pub open_us: Spread,
    /// From the Hello to the Welcome.
    pub welcome_us: Spread,
    /// From a ping to its answer.
    pub pong_us: Spread,
    /// Tries to connect in each second, by [`super::monotonic`].
    pub tries_by_second: BTreeMap<u64, u32>,
    /// Why connections never became a session, where somebody listened: the stage and the error, and how often. Of those
    /// that were tried since the spreads began anew.
    pub failures: BTreeMap<String, u64>,
    /// The last thing that went wrong, in words.
    pub trouble: Option<String>,
}

/// How long things took, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Half of them took no longer.
    pub p50: u32,
    /// Of a hundred, ninety-nine took no longer.
    pub p99: u32,
    /// The longest.
    pub max: u32,
}

impl Spread {
    /// Of samples in any order.
    pub(super) fn of(mut samples: Vec<u32>) -> Self {
        samples.sort_unstable();
        let last = samples.len().saturating_sub(1);
        let at = |percent: usize| samples.get(last * percent / 100).copied().unwrap_or(0);
        Self {
            count: samples.len() as u64,
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

impl Status {
    /// Two swarms' together. Of spreads the worse one, since their samples are gone.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.ready += other.ready;
        self.live += other.live;
        self.opened += other.opened;
        self.failed += other.failed;
        self.refused += other.refused;
        self.lost += other.lost;
        self.specs += other.specs;
        self.last_spec_ns = self.last_spec_ns.max(other.last_spec_ns);
        self.last_opened_ns = self.last_opened_ns.max(other.last_opened_ns);
        self.pongs += other.pongs;
        self.pings += other.pings;
        self.reports += other.reports;
        self.commands += other.commands;
        self.open_us = self.open_us.worse(other.open_us);
        self.welcome_us = self.welcome_us.worse(other.welcome_us);
        self.pong_us = self.pong_us.worse(other.pong_us);
        for (second, tries) in other.tries_by_second {
            *self.tries_by_second.entry(second).or_default() += tries;
        }
        for (why, times) in other.failures {
            *self.failures.entry(why).or_default() += times;
        }
        self.trouble = self.trouble.or(other.trouble);
        self
    }
}

impl Spread {
    fn worse(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            p50: self.p50.max(other.p50),
            p99: self.p99.max(other.p99),
            max: self.max.max(other.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_of_a_hundred_of_one_and_of_none() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!((spread.p50, spread.p99, spread.max), (50, 99, 100));
        let spread = Spread::of(vec![7]);
        assert_eq!((spread.p50, spread.p99, spread.max), (7, 7, 7));
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }

    #[test]
    fn two_swarms_are_one() {
        let status = |live, second, p99| Status {
            live,
            failures: BTreeMap::from([("tls".to_owned(), 1), (format!("at {p99}"), 1)]),
            tries_by_second: BTreeMap::from([(second, 2)]),
            open_us: Spread {
                count: 1,
                p50: 1,
                p99,
                max: p99,
            },
            ..Status::default()
        };
        let both = status(2, 7, 30).with(status(3, 7, 20));
        assert_eq!(
            (both.live, both.open_us.p99, both.open_us.count),
            (5, 30, 2)
        );
        assert_eq!(both.tries_by_second, BTreeMap::from([(7, 4)]));
        let why: Vec<_> = both.failures.into_iter().collect();
        assert_eq!(
            why,
            [("at 20", 1), ("at 30", 1), ("tls", 2)].map(|(why, times)| (why.to_owned(), times))
        );
    }
}
