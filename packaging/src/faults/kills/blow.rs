//! Who is struck, and how.
//!
//! Only processes that the fleet started are struck, by their ids, and each is up again when a blow comes back.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rand::{RngExt as _, rngs::StdRng};

use crate::fleet::{Fleet, Node, Service};

/// Kills that a node has to bear within one rollout. A trial has three starts, and each kill may cost it one.
const DEATHS_MAX: usize = 2;

/// The longest time that something stays away.
const AWAY_MILLIS: u64 = 1000;

/// What is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Control,
    Gateway,
    /// A node's supervisor; the node dies with it.
    Supervisor(usize),
    /// A node; its supervisor starts it again.
    Node(usize),
}

/// How it is struck.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    /// It stands still, and goes on.
    Freeze,
}

/// The blows of one rollout.
#[derive(Debug, Default)]
pub(super) struct Blows {
    deaths: BTreeMap<usize, usize>,
}

impl Blows {
    /// Strikes one or two at once; gives how many blows were dealt.
    pub(super) async fn strike(&mut self, fleet: &mut Fleet, rng: &mut StdRng) -> Result<usize> {
        let mut blows: Vec<(Victim, Blow)> = Vec::new();
        for _ in 0..rng.random_range(1..=2) {
            let (victim, blow) = (victim(fleet.nodes.len(), rng), blow(rng));
            if blows.iter().all(|(other, _)| *other != victim) && self.may(victim, blow) {
                blows.push((victim, blow));
            }
        }
        let mut frozen = Vec::new();
        for (victim, blow) in &blows {
            frozen.extend(deal(fleet, *victim, *blow)?);
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..AWAY_MILLIS))).await;
        for pid in frozen {
            signal(pid, Signal::SIGCONT);
        }
        for (victim, _) in &blows {
            if let Some(service) = service(fleet, *victim)?
                && service.pid().is_none()
            {
                service.start()?;
            }
        }
        Ok(blows.len())
    }

    /// Whether a good release would survive it.
    fn may(&mut self, victim: Victim, blow: Blow) -> bool {
        match (victim, blow) {
            (Victim::Supervisor(node) | Victim::Node(node), Blow::Kill) => {
                let deaths = self.deaths.entry(node).or_default();
                *deaths += 1;
                *deaths <= DEATHS_MAX
            }
            (Victim::Control | Victim::Gateway, Blow::Kill | Blow::Freeze)
            | (Victim::Supervisor(_) | Victim::Node(_), Blow::Freeze) => true,
        }
    }
}

fn victim(nodes: usize, rng: &mut StdRng) -> Victim {
    let node = rng.random_range(0..nodes);
    match rng.random_range(0..6) {
        0 => Victim::Control,
        1 => Victim::Gateway,
        2 | 3 => Victim::Supervisor(node),
        _ => Victim::Node(node),
    }
}

fn blow(rng: &mut StdRng) -> Blow {
    if rng.random_range(0..3) == 0 {
        Blow::Freeze
    } else {
        Blow::Kill
    }
}

/// Strikes; gives the processes that stand still.
fn deal(fleet: &mut Fleet, victim: Victim, blow: Blow) -> Result<Vec<i32>> {
    let pids = match (service(fleet, victim)?, victim) {
        (Some(service), _) => {
            if let Blow::Kill = blow {
                service.kill()?;
                return Ok(Vec::new());
            }
            let pid = service.pid().map(i32::try_from).transpose()?;
            pid.into_iter().collect()
        }
        // None where its supervisor was struck just now, and it died with it.
        (None, Victim::Node(node)) => node_of(fleet, node)?
            .supervisor
            .children()
            .unwrap_or_default(),
        (None, Victim::Control | Victim::Gateway | Victim::Supervisor(_)) => Vec::new(),
    };
    let with = match blow {
        Blow::Kill => Signal::SIGKILL,
        Blow::Freeze => Signal::SIGSTOP,
    };
    for pid in &pids {
        signal(*pid, with);
    }
    match blow {
        Blow::Kill => Ok(Vec::new()),
        Blow::Freeze => Ok(pids),
    }
}

fn signal(pid: i32, signal: Signal) {
    // It may have ended just now, to restart into its new slot or because its parent was struck too.
    kill(Pid::from_raw(pid), signal).ok();
}

/// The victim, where it is a process that the fleet itself started.
fn service(fleet: &mut Fleet, victim: Victim) -> Result<Option<&mut Service>> {
    Ok(match victim {
        Victim::Control => Some(&mut fleet.control),
        Victim::Gateway => Some(&mut fleet.gateway),
        Victim::Supervisor(node) => Some(&mut node_of(fleet, node)?.supervisor),
        Victim::Node(_) => None,
    })
}

fn node_of(fleet: &mut Fleet, node: usize) -> Result<&mut Node> {
    fleet.nodes.get_mut(node).context("no such node")
}
