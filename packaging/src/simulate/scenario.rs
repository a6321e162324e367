//! What a seed makes of a fleet.

use std::time::Duration;

use bc_protocol::{
    digest::Sha256,
    id::{GatewayId, NodeId, PoolId},
    sequence::Sequence,
    share::Share,
};
use bcd::simulation::{Behaviour, Release};
use rand::{RngExt as _, rngs::StdRng};

/// Pools, nodes and releases, and how long faults go on.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) pools: Vec<(PoolId, Share)>,
    pub(super) nodes: Vec<(NodeId, PoolId)>,
    pub(super) gateways: Vec<GatewayId>,
    pub(super) releases: Vec<Release>,
    /// From then on nobody interferes.
    pub(super) rests_at: Duration,
    pub(super) protocol_min: u32,
}

/// Virtual time begins on the second day, so that no clock that is set back shows less than nothing.
pub(super) const DAWN: Duration = Duration::from_secs(86_400);

/// Between pings: rare, since each is two events.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(60);

impl Scenario {
    pub(super) fn draw(random: &mut StdRng) -> Self {
        let budgets = [50_000, 250_000, 500_000, 1_000_000];
        let mut pools = Vec::new();
        let mut nodes = Vec::new();
        for pool in 0..random.random_range(1..=3_u8) {
            let id = PoolId::derived(&[&[pool]]);
            let budget = budgets
                .get(random.random_range(0..budgets.len()))
                .copied()
                .unwrap_or(50_000);
            pools.push((
                id.clone(),
                Share::from_millionths(budget).unwrap_or(Share::ONE),
            ));
            for number in 0..random.random_range(1..=5_u8) {
                nodes.push((NodeId::derived(&[&[pool, number]]), id.clone()));
            }
        }
        let old = random.random_bool(0.2);
        Self {
            pools,
            nodes,
            gateways: (0..2_u8)
                .map(|number| GatewayId::derived(&[&[number]]))
                .collect(),
            releases: releases(random, old),
            rests_at: DAWN + Duration::from_secs(random.random_range(120..1500)),
            protocol_min: 1,
        }
    }
}

fn releases(random: &mut StdRng, old: bool) -> Vec<Release> {
    let bad = [
        Behaviour::ExitsAtOnce,
        Behaviour::Hangs,
        Behaviour::NeverConnects,
        Behaviour::CrashesWelcomed,
        Behaviour::CrashesLater,
        Behaviour::FailsPreflight,
        Behaviour::Unsigned,
    ];
    (0..6_u32)
        .filter_map(|number| {
            let behaviour = if number == 0 {
                if old {
                    Behaviour::OldProtocol
                } else {
                    Behaviour::Good
                }
            } else if random.random_bool(0.4) {
                bad.get(random.random_range(0..bad.len())).copied()?
            } else {
                Behaviour::Good
            };
            let version = format!("1.{number}.0");
            Some(Release {
                sequence: Sequence::new(u64::from(number) + 1).ok()?,
                digest: Sha256::of(version.as_bytes()),
                version: version.parse().ok()?,
                behaviour,
            })
        })
        .collect()
}
