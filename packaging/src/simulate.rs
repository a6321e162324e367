//! The whole product as one program, under one seeded scheduler and one virtual clock.
//!
//! It simulates: disks, sockets, processes and the database's statements are made up; the planner, the planner of late
//! nodes, operators' decisions, the computation of specs, the lives of commands, the gateway's session machine, registry
//! and outbox, the agent's session and updater machines, its record and its boot are those that are shipped. A seed
//! decides a fleet, its releases, what operators call, and every fault: lost, doubled and late messages, kills, power
//! cuts, jumping clocks, processes that stand still and go on. After every step it looks at what must hold; once the
//! faults stop, everybody has to arrive. Deliberate mistakes show that it would notice.

mod brief;
mod connections;
mod hands;
mod links;
mod parts;
mod passes;
mod planted;
mod scenario;
mod strikes;
mod verdict;
mod world;

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Result, ensure};

pub use planted::Mistake;
use world::World;

/// Seeds in which a mistake has to show at the latest.
const SEEDS_UNTIL_CAUGHT: u64 = 5_000;

/// After how many seeds somebody who waits hears of it.
const SEEDS_PER_WORD: u64 = 1_000;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Seeds that were run without a mistake.
    pub seeds: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Mistakes that were planted.
    pub planted: usize,
    /// Those that were noticed.
    pub caught: usize,
    /// What must never be, and was, with its seed.
    pub violations: Vec<String>,
    /// Mistakes that nobody noticed.
    pub missed: Vec<String>,
}

impl Figures {
    /// Whether nothing was broken, and every mistake was noticed.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.missed.is_empty()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seeds={} planted={} caught={} violations={}",
            self.seeds,
            self.planted,
            self.caught,
            self.violations.len()
        )
    }
}

/// Runs seeds on every core, then every mistake until it shows.
pub fn run(campaign: Campaign, tell: impl Fn(&str) + Sync) -> Result<Figures> {
    ensure!(campaign.seeds >= 1, "--seeds: expected at least 1");
    tell(
        "this is a simulation: disks, sockets, processes and SQL are made up, what decides is what is shipped",
    );
    let mut figures = without_mistakes(campaign, &tell);
    with_mistakes(campaign.first, &mut figures, &tell);
    Ok(figures)
}

/// Runs one seed and prints everything that happens. Gives what was broken.
pub fn replay(seed: u64, mistake: Option<Mistake>, tell: fn(&str)) -> Vec<String> {
    let mut world = World::new(seed, mistake);
    world.trace(tell);
    world.run()
}

fn without_mistakes(campaign: Campaign, tell: &(impl Fn(&str) + Sync)) -> Figures {
    let next = AtomicU64::new(0);
    let steps = AtomicU64::new(0);
    let violations = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= campaign.seeds {
                return;
            }
            if number > 0 && number.is_multiple_of(SEEDS_PER_WORD) {
                tell(&format!("{number} seeds"));
            }
            let seed = campaign.first.wrapping_add(number);
            let mut world = World::new(seed, None);
            let broken = world.run();
            steps.fetch_add(world.steps(), Ordering::Relaxed);
            for violation in broken {
                let line = format!("seed {seed}: {violation}");
                tell(&format!("VIOLATION {line}; again with --seed {seed}"));
                violations
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        }
    };
    on_every_core(work);
    Figures {
        seeds: campaign.seeds,
        steps: steps.into_inner(),
        violations: violations
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
        ..Figures::default()
    }
}

fn with_mistakes(first: u64, figures: &mut Figures, tell: &(impl Fn(&str) + Sync)) {
    let next = AtomicU64::new(0);
    let missed = Mutex::new(Vec::new());
    let caught = AtomicU64::new(0);
    let work = || {
        loop {
            let number =
                usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
            let Some(mistake) = Mistake::ALL.get(number) else {
                return;
            };
            match seeds_until_caught(first, *mistake) {
                Some((seeds, by)) => {
                    caught.fetch_add(1, Ordering::Relaxed);
                    tell(&format!("{mistake} is caught after {seeds} seeds by {by}"));
                }
                None => {
                    tell(&format!(
                        "MISSED {mistake}: {SEEDS_UNTIL_CAUGHT} seeds do not show it"
                    ));
                    missed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(mistake.to_string());
                }
            }
        }
    };
    on_every_core(work);
    figures.planted = Mistake::ALL.len();
    figures.caught = usize::try_from(caught.into_inner()).unwrap_or(usize::MAX);
    figures.missed = missed.into_inner().unwrap_or_else(PoisonError::into_inner);
}

fn seeds_until_caught(first: u64, mistake: Mistake) -> Option<(u64, String)> {
    (0..SEEDS_UNTIL_CAUGHT).find_map(|number| {
        let mut world = World::new(first.wrapping_add(number), Some(mistake));
        let broken = world.run().into_iter().next()?;
        let by = broken.split(':').next().unwrap_or_default().to_owned();
        Some((number.saturating_add(1), by))
    })
}

fn on_every_core(work: impl Fn() + Sync) {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(&work);
        }
    });
}
