//! Clients that drip: a byte now and then, in TLS, in the request, in the Hello, thousands at once and again and again.
//!
//! Beside them honest nodes open sessions, and wait for their Welcome no longer than they do alone. Both are looked at in
//! turns, so that a machine that is slower for a while is so for both. Clients would be other machines: the gateway has a
//! processor to itself, and on theirs an honest node goes before all that drip. The gateway's memory stays within a bound that
//! is paid once.

mod crowd;
mod waits;

use std::{fmt, path::Path, process, time::Duration};

use anyhow::{Context, Result};

use self::{
    crowd::Dripping,
    waits::{Honest, Waits},
};
use super::{super::Extent, house::House, raw::Mint};
use crate::{fleet::now, load::processors::confine};

/// Memory for each connection that drips: TLS's own buffers, a task and a socket.
const EACH_BYTES_MAX: u64 = 64 << 10;

/// How much longer an honest node may wait beside them than alone, in the full form.
const WORSE_MAX: f64 = 1.2;

/// In the short form, beside a build or a test, waits of a millisecond differ by more than that by themselves.
const WORSE_MAX_SHORT: f64 = 8.0;

/// One node opens all honest sessions.
const LIMITS: &str = "sessions_per_node_burst = 1000000";

/// For how long they drip in one turn.
const TURN_MAX: Duration = Duration::from_secs(60);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    dripping: usize,
    connections: u64,
    grown: u64,
    alone: Waits,
    beside: Waits,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.grown.checked_div(self.dripping as u64).unwrap_or(0);
        write!(
            f,
            "dripping={} drips={} drip_kib={} welcome_alone={} welcome_beside={} p99_over_alone={:.2}",
            self.dripping,
            self.connections,
            each >> 10,
            self.alone,
            self.beside,
            self.beside.over(&self.alone),
        )
    }
}

/// Where gateway, honest nodes and those that drip run.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Wherever there is room.
    Anywhere,
    /// The gateway on one processor, all clients on another; the honest go first there.
    Apart,
}

impl Place {
    const OF_THE_GATEWAY: &str = "0";
    const OF_CLIENTS: &str = "1";

    /// Whatever is started from now on is where the gateway belongs, and has no more threads than fit there.
    fn of_the_gateway(self) -> Result<()> {
        match self {
            Self::Anywhere => Ok(()),
            Self::Apart => confine(process::id(), Self::OF_THE_GATEWAY),
        }
    }

    /// This process is where clients belong.
    fn of_clients(self) -> Result<()> {
        match self {
            Self::Anywhere => Ok(()),
            Self::Apart => confine(process::id(), Self::OF_CLIENTS),
        }
    }
}

/// How much is done.
struct Order {
    dripping: usize,
    turns: u32,
    /// For how long they drip in each turn.
    beside: Duration,
    /// For how long an honest node is alone in each.
    alone: Duration,
    place: Place,
    worse_max: f64,
}

impl Order {
    fn of(extent: Extent, span: Option<Duration>) -> Self {
        let (dripping, usual, place, worse_max) = match extent {
            Extent::Short => (
                300,
                Duration::from_secs(10),
                Place::Anywhere,
                WORSE_MAX_SHORT,
            ),
            Extent::Full => (10_000, Duration::from_secs(600), Place::Apart, WORSE_MAX),
        };
        let span = span.unwrap_or(usual);
        let turns = match extent {
            Extent::Short => 1,
            // Two at least, so that they are turns.
            Extent::Full => (span.as_secs() / TURN_MAX.as_secs()).clamp(2, 100),
        };
        let turns = u32::try_from(turns).unwrap_or(2);
        let beside = span / turns;
        Self {
            dripping,
            turns,
            beside,
            alone: beside / 2,
            place,
            worse_max,
        }
    }
}

/// Measures honest nodes alone and beside others that drip, in turns.
pub(super) async fn run(
    gateway: &Path,
    extent: Extent,
    span: Option<Duration>,
    tell: &impl Fn(&str),
) -> Result<(Figures, Vec<String>)> {
    let order = Order::of(extent, span);
    order.place.of_the_gateway()?;
    let mut house = House::start(gateway, 15_000, LIMITS).await?;
    order.place.of_clients()?;
    let mint = Mint::new(&house.authority)?;
    let honest = Honest::new(&house, mint.node(&house.authority, 0)?, order.place)?;
    let crowd = Dripping::gather(&house, order.dripping, order.place)?;
    let mut figures = Figures {
        dripping: order.dripping,
        ..Figures::default()
    };
    for turn in 1..=order.turns {
        let alone = honest.waits(now() + order.alone).await?;
        let before = house.resident()?;
        crowd.begin().await?;
        let until = now() + order.beside;
        let mut beside = Waits::default();
        while now() < until {
            let look = until.min(now() + Duration::from_secs(5));
            beside.add(honest.waits(look).await?);
            let grown = house.resident()?.saturating_sub(before);
            figures.grown = figures.grown.max(grown);
        }
        tell(&format!(
            "turn {turn} of {}: {} have dripped, a Welcome after {alone} alone and {beside} beside them",
            order.turns,
            crowd.connections()
        ));
        crowd
            .end(&house)
            .await
            .context("who dripped is not forgotten")?;
        figures.alone.add(alone);
        figures.beside.add(beside);
    }
    house.check()?;
    figures.connections = crowd.connections();
    Ok((figures.clone(), violations(&figures, &order)))
}

fn violations(figures: &Figures, order: &Order) -> Vec<String> {
    let mut violations = Vec::new();
    let dripping = figures.dripping;
    let bound = EACH_BYTES_MAX.saturating_mul(dripping as u64);
    if figures.grown > bound {
        violations.push(format!(
            "expected at most {bound} bytes for {dripping} that drip, found {}",
            figures.grown
        ));
    }
    let (worse, worse_max) = (figures.beside.over(&figures.alone), order.worse_max);
    if worse > worse_max {
        violations.push(format!(
            "expected honest nodes to wait at most {worse_max} times as long as alone, found {worse:.2}"
        ));
    }
    violations
}
