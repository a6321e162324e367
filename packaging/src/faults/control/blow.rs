//! Who is struck, and how.
//!
//! Only processes that the campaign started are struck, by their ids. Whoever is struck comes back when its time is over,
//! whatever else happens meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rand::{RngExt as _, rngs::StdRng};

use super::{house::House, proxy::Cut};
use crate::fleet::now;

/// Longer than a transaction may rest, a link may be silent, and a process may give no sign.
const PAST_EVERYTHING: Duration = Duration::from_secs(25);

/// Of how many rounds one has a control that stands still past every time-out: it makes the round half a minute long.
const ROUNDS_PER_LONG_FREEZE: u64 = 8;

/// What is done to a control, its database or its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    Kill(usize),
    /// It stands still for that long, and goes on.
    Freeze(usize, Duration),
    /// Its next COMMIT is cut.
    Cut(usize, Cut),
    /// All its connections to the database are.
    HangUp(usize),
    /// The database ends as in a crash, and comes back.
    Database,
    /// All nodes lose their sessions and come back.
    Nodes,
}

/// Chooses the next blow.
pub(super) fn draw(rng: &mut StdRng) -> Blow {
    let control = rng.random_range(0..2);
    match rng.random_range(0..13) {
        0 | 1 => Blow::Kill(control),
        2 | 3 => Blow::Freeze(control, Duration::from_millis(rng.random_range(50..3000))),
        4..=6 => Blow::Cut(control, Cut::Before),
        7..=9 => Blow::Cut(control, Cut::Behind),
        10 => Blow::HangUp(control),
        11 => Blow::Database,
        _ => Blow::Nodes,
    }
}

/// What a round begins with: every so often, a control that stands still past every time-out.
pub(super) fn long_freeze(round: u64, rng: &mut StdRng) -> Option<Blow> {
    let control = rng.random_range(0..2);
    let freeze = Blow::Freeze(control, PAST_EVERYTHING);
    (round % ROUNDS_PER_LONG_FREEZE == 1).then_some(freeze)
}

/// How a control is away.
#[derive(Clone, Copy, Debug)]
enum Away {
    Dead,
    Frozen(i32),
}

/// Who is away, and until when.
#[derive(Debug, Default)]
pub(super) struct Absent([Option<(Instant, Away)>; 2]);

impl Absent {
    /// Strikes. Whoever is away already is left alone: then it is false.
    pub(super) fn strike(
        &mut self,
        house: &mut House,
        blow: Blow,
        rng: &mut StdRng,
    ) -> Result<bool> {
        match blow {
            Blow::Kill(number) => {
                let Some(place) = self.free(number) else {
                    return Ok(false);
                };
                house.control(number)?.service.kill()?;
                let back = now() + Duration::from_millis(rng.random_range(0..1500));
                *place = Some((back, Away::Dead));
            }
            Blow::Freeze(number, time) => {
                let Some(place) = self.free(number) else {
                    return Ok(false);
                };
                let pid = house.control(number)?.service.pid();
                let pid = i32::try_from(pid.context("a control that is not away runs")?)?;
                kill(Pid::from_raw(pid), Signal::SIGSTOP)?;
                *place = Some((now() + time, Away::Frozen(pid)));
            }
            Blow::Cut(number, cut) => house.proxy(number)?.cut_next(cut),
            Blow::HangUp(number) => house.proxy(number)?.hang_up(),
            Blow::Database => house.cluster.restart()?,
            Blow::Nodes => house.hang_up_nodes(),
        }
        Ok(true)
    }

    fn free(&mut self, number: usize) -> Option<&mut Option<(Instant, Away)>> {
        self.0.get_mut(number).filter(|place| place.is_none())
    }

    /// Brings back whose time is over, and whoever has ended by himself, as a service manager does: a control that finds
    /// no database when it starts says so and ends.
    pub(super) fn bring_back(&mut self, house: &mut House) -> Result<()> {
        for (number, place) in self.0.iter_mut().enumerate() {
            let Some((back, away)) = *place else {
                let service = &mut house.control(number)?.service;
                if service.check().is_err() {
                    service.start()?;
                }
                continue;
            };
            if now() < back {
                continue;
            }
            *place = None;
            match away {
                Away::Dead => house.control(number)?.service.start()?,
                Away::Frozen(pid) => kill(Pid::from_raw(pid), Signal::SIGCONT)?,
            }
        }
        Ok(())
    }

    /// Whether everybody is there.
    pub(super) fn is_nobody(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
