//! A node that only talks: it joins, holds real sessions and claims to have upgraded when it is told to.
//!
//! It simulates an agent, to see what carries specs, reports and commands. It comes back at a real agent's pace, keeps
//! what it said over its sessions, answers every attempt once and does every command once. It installs nothing and
//! proves nothing.

mod join;
mod life;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub(crate) use join::client;

use anyhow::Result;
use bc_protocol::{
    digest::Sha256,
    id::{AttemptId, CommandId},
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    session::Facts,
    version::Version,
};
use rustls::ClientConfig;
use tokio::sync::{mpsc, watch};

/// What happens to a simulated node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It was welcomed.
    Welcomed,
    /// A spec with another version arrived.
    Told(Instant),
    /// It has reported that it runs that version.
    Reported(Instant),
}

impl Moment {
    /// Whether the node was welcomed.
    pub fn is_welcome(self) -> bool {
        self == Self::Welcomed
    }
}

/// How a node takes what it is told.
#[derive(Clone, Debug)]
pub struct Habits {
    /// It takes up to so long to upgrade; exactly so long where it tells how far it has come.
    pub slow: Duration,
    /// Whether it says how far it has come meanwhile.
    pub telling: Telling,
    /// Of a hundred attempts so many fail for good, as this says now; which is the attempt's affair.
    pub failing: watch::Receiver<u8>,
    /// Whether its floor rises: then a release's sequence is its version's second number.
    pub floor: Floor,
    /// It hangs up when this changes, and comes back.
    pub hang_up: watch::Receiver<u64>,
}

/// What a node says while it upgrades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Nothing.
    Result,
    /// How much it has downloaded, percent by percent, and then that it is on trial.
    Progress,
}

/// What becomes of a node's floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// It stays where nothing is below it.
    Lies,
    /// It rises to what was confirmed.
    Rises,
}

impl Default for Habits {
    /// At once, always well, and with a floor that lies.
    fn default() -> Self {
        Self {
            slow: Duration::ZERO,
            telling: Telling::Result,
            failing: watch::channel(0).1,
            floor: Floor::Lies,
            hang_up: watch::channel(0).1,
        }
    }
}

/// What a node wants to be remembered of it: what it was told, and what it did.
#[derive(Clone, Debug, Default)]
pub struct Diary(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    /// What each generation of its spec said.
    told: BTreeMap<u64, Told>,
    /// The attempts that it has ended.
    ended: BTreeSet<AttemptId>,
    done: BTreeMap<CommandId, u32>,
    wrong: Vec<String>,
}

/// What a spec says that makes its generation.
type Told = Option<(Version, Sha256, AttemptId)>;

impl Diary {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What must not have happened to it, and did.
    pub fn wrong(&self) -> Vec<String> {
        self.pages().wrong.clone()
    }

    /// How often it was asked to do a command that it had done.
    pub fn asked_again(&self) -> u32 {
        let pages = self.pages();
        let again = pages.done.values().map(|asked| asked.saturating_sub(1));
        again.sum()
    }

    /// I25: one generation is one desired state, whoever computed it.
    fn told(&self, generation: u64, told: Told) {
        let mut pages = self.pages();
        let before = pages.told.entry(generation).or_insert_with(|| told.clone());
        if *before != told {
            let wrong =
                format!("I25: generation {generation} was {before:?}, and {told:?} the next time");
            pages.wrong.push(wrong);
        }
    }

    fn ends(&self, attempt: &AttemptId) -> bool {
        self.pages().ended.insert(attempt.clone())
    }

    fn has_ended(&self, attempt: &AttemptId) -> bool {
        self.pages().ended.contains(attempt)
    }

    fn asked(&self, command: &CommandId) {
        let mut pages = self.pages();
        *pages.done.entry(command.clone()).or_default() += 1;
    }
}

/// A node that has joined.
#[derive(Debug)]
pub struct SimulatedNode {
    id: String,
    gateways: Vec<String>,
    /// The gateway that it asks next, round and round.
    turn: usize,
    tls: Arc<ClientConfig>,
    facts: Facts,
    hostname: Option<String>,
    habits: Habits,
    diary: Diary,
}

impl SimulatedNode {
    /// Joins with a token's bearer form.
    pub async fn join(control: &str, token: &str) -> Result<Self> {
        let joined = join::join(control, token).await?;
        Ok(Self {
            id: joined.id,
            gateways: joined.gateways,
            turn: 0,
            tls: joined.tls,
            facts: facts()?,
            hostname: None,
            habits: Habits::default(),
            diary: Diary::default(),
        })
    }

    /// First through another gateway than the first: they are counted round and round.
    #[must_use]
    pub fn through(mut self, number: usize) -> Self {
        self.turn = number;
        self
    }

    /// On a machine of that name.
    #[must_use]
    pub fn named(mut self, hostname: String) -> Self {
        self.hostname = Some(hostname);
        self
    }

    /// Held by its owner.
    #[must_use]
    pub fn held(mut self, reason: &str) -> Self {
        self.facts.held = Some(reason.to_owned());
        self
    }

    /// With other habits.
    #[must_use]
    pub fn with(mut self, habits: Habits) -> Self {
        self.habits = habits;
        self
    }

    /// The id that control knows it by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it remembers; to be read while it lives.
    pub fn diary(&self) -> Diary {
        self.diary.clone()
    }

    /// Lives until it is removed, and tells what happens. That nobody listens is nothing to it.
    pub async fn run(self, moments: mpsc::UnboundedSender<Moment>) -> Result<()> {
        life::live(self, moments).await
    }
}

/// What a node says of itself that has just joined with the packaged release.
pub(crate) fn facts() -> Result<Facts> {
    Ok(Facts {
        version: "1.0.0".parse()?,
        platform: Platform::host(),
        boot_id: "simulated".to_owned(),
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b"simulated"),
        floor: ReleaseFloor::NONE,
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation: 0,
        held: None,
        notice: None,
        helper: None,
        started: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_that_says_two_things_is_wrong() {
        let told = |attempt: &str| -> Told {
            let attempt = AttemptId::derived(&[attempt.as_bytes()]);
            Some(("1.1.0".parse().unwrap(), Sha256::of(b"x"), attempt))
        };
        let diary = Diary::default();
        diary.told(1, None);
        diary.told(2, told("a"));
        diary.told(2, told("a"));
        assert_eq!(diary.wrong(), Vec::<String>::new());
        diary.told(2, told("b"));
        assert_eq!(diary.wrong().len(), 1);
        diary.told(1, told("a"));
        assert_eq!(diary.wrong().len(), 2);
    }
}
