//! The node's side of a session, from choosing a gateway to leaving it.
//!
//! Takes what happened to the socket, to the node and to the clock; gives what to do about it. It opens no socket,
//! reads no clock and draws no random number that its seed did not bring: two machines with one seed and one history
//! do the same.

mod appetite;
mod backoff;
mod heard;
mod live;
mod renewal;
#[cfg(test)]
mod tests;
mod words;

use std::{collections::BTreeMap, time::Instant};

use bc_protocol::command::CommandResult;
use bc_protocol::id::CommandId;
use bc_protocol::session::{Facts, FromNode, Hello, Nonce, ProtocolRange};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

pub(crate) use renewal::RenewalTimes;
#[cfg(test)]
pub(crate) use tests::facts;
use words::goodbye;
pub(crate) use words::{Beginning, Ending, Ignored, Input, Leaving, Output, Wakeup};

use self::{
    appetite::Appetite,
    backoff::{Backoff, Others},
    heard::Kind,
    live::Live,
    renewal::Renewal,
};
use super::limits::{
    FRAME_INTERVAL, GOODBYE_DEADLINE, OPEN_DEADLINE, SESSION_HELD, SIGN_INTERVAL, WELCOME_DEADLINE,
};

/// The machine: at most one connection, and what it is waiting for.
pub(crate) struct Session {
    gateways: Vec<String>,
    /// The rest of this round, in random order; the next one is last.
    round: Vec<String>,
    random: StdRng,
    connect_seq: u64,
    facts: Facts,
    protocols: ProtocolRange,
    backoff: Backoff,
    renewal: Renewal,
    frames: Appetite,
    /// Pings, pongs and the like, which are no frames of a session.
    signs: Appetite,
    /// Until then nothing of the connection is read.
    full_until: Option<Instant>,
    state: State,
}

enum State {
    /// No connection until then.
    Waiting { until: Instant },
    /// A socket has been asked for.
    Opening {
        gateway: String,
        overdue_at: Instant,
    },
    /// The Hello is out.
    Introduced(Introduced),
    /// The gateway has answered.
    Welcomed(Live),
    /// The Goodbye is out; the other side may close.
    Leaving { over_at: Instant },
    /// Nothing happens any more.
    Over,
}

struct Introduced {
    gateway: String,
    nonce: Nonce,
    /// What the Hello said: later facts are a report.
    facts: Facts,
    overdue_at: Instant,
}

impl Session {
    /// A machine that opens its first connection at its first tick.
    pub(crate) fn new(beginning: Beginning, now: Instant) -> Self {
        Self {
            gateways: beginning.gateways,
            round: Vec::new(),
            random: StdRng::from_seed(beginning.seed),
            connect_seq: beginning.connect_seq,
            facts: beginning.facts,
            protocols: beginning.protocols,
            backoff: Backoff::default(),
            renewal: Renewal::Unknown,
            frames: Appetite::new(FRAME_INTERVAL, now),
            signs: Appetite::new(SIGN_INTERVAL, now),
            full_until: None,
            state: State::Waiting { until: now },
        }
    }

    /// Decides what to do about one thing that happened.
    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Vec<Output> {
        match input {
            Input::Facts(facts) => self.facts_changed(*facts, now),
            Input::Opened {
                labels,
                commands,
                renewal,
            } => {
                self.renewal = Renewal::new(renewal, now);
                self.opened(labels, commands, now)
            }
            Input::Renewed { gateways, renewal } => {
                self.renewal = Renewal::renewed(renewal, now);
                self.gateways = gateways;
                self.round.clear();
                Vec::new()
            }
            Input::NotOpened(ending) => match self.state {
                State::Opening { .. } => self.lost(ending, now),
                State::Waiting { .. }
                | State::Introduced(_)
                | State::Welcomed(_)
                | State::Leaving { .. }
                | State::Over => Vec::new(),
            },
            Input::Frame(frame) => self.frame(frame, now),
            Input::Result(result) => self.result(result),
            Input::Traffic => {
                self.heard(now);
                self.takes_in(Kind::Sign, now);
                Vec::new()
            }
            Input::Closed(ending) => self.closed(ending, now),
            Input::Leave(leaving) => self.leave(leaving, now),
            Input::Tick => self.tick(now),
        }
    }

    /// The next moment at which [`Input::Tick`] changes something, and what for. None only when all is over.
    pub(crate) fn next_wakeup(&self) -> Option<(Instant, Wakeup)> {
        match &self.state {
            State::Waiting { until } => Some((*until, Wakeup::Reconnect)),
            State::Opening { overdue_at, .. } => Some((*overdue_at, Wakeup::OpenOverdue)),
            State::Introduced(hello) => Some((hello.overdue_at, Wakeup::WelcomeOverdue))
                .into_iter()
                .chain(self.reads_on())
                .min(),
            State::Welcomed(live) => Some(live.next_wakeup())
                .into_iter()
                .chain(self.renewal.next_wakeup())
                .chain(self.reads_on())
                .min(),
            State::Leaving { over_at } => Some((*over_at, Wakeup::GoodbyeOverdue)),
            State::Over => None,
        }
    }

    /// Whether the socket is to be read: not while a gateway that says too much waits its turn.
    pub(crate) fn listens(&self) -> bool {
        match self.state {
            State::Introduced(_) | State::Welcomed(_) => self.full_until.is_none(),
            State::Waiting { .. } | State::Opening { .. } | State::Leaving { .. } | State::Over => {
                true
            }
        }
    }

    fn reads_on(&self) -> Option<(Instant, Wakeup)> {
        self.full_until.map(|at| (at, Wakeup::ReadOn))
    }

    fn tick(&mut self, now: Instant) -> Vec<Output> {
        self.full_until = self.full_until.filter(|until| now < *until);
        match &mut self.state {
            State::Waiting { until } if *until <= now => self.open(now),
            State::Opening { overdue_at, .. } if *overdue_at <= now => {
                self.hang_up(Ending::OpenOverdue, now)
            }
            State::Introduced(hello) if hello.overdue_at <= now => {
                self.hang_up(Ending::WelcomeOverdue, now)
            }
            State::Welcomed(live) => match live.silence(now) {
                Some(silence) => self.hang_up(Ending::Silent(silence), now),
                None => {
                    let mut outputs = live.tick(&self.facts, now);
                    outputs.extend(self.renewal.tick(now));
                    outputs
                }
            },
            State::Leaving { over_at } if *over_at <= now => self.over(),
            State::Waiting { .. }
            | State::Opening { .. }
            | State::Introduced(_)
            | State::Leaving { .. }
            | State::Over => Vec::new(),
        }
    }

    fn open(&mut self, now: Instant) -> Vec<Output> {
        if self.round.is_empty() {
            self.round.clone_from(&self.gateways);
            self.round.shuffle(&mut self.random);
        }
        let Some(gateway) = self.round.pop() else {
            // No gateway at all: whoever starts a session checks for one, so this only keeps the machine whole.
            let until = now + self.backoff.draw(&mut self.random);
            self.state = State::Waiting { until };
            return Vec::new();
        };
        self.connect_seq = self.connect_seq.saturating_add(1);
        self.state = State::Opening {
            gateway: gateway.clone(),
            overdue_at: now + OPEN_DEADLINE,
        };
        vec![Output::Open {
            gateway,
            connect_seq: self.connect_seq,
        }]
    }

    fn opened(
        &mut self,
        labels: BTreeMap<String, String>,
        commands_in_flight: Vec<CommandId>,
        now: Instant,
    ) -> Vec<Output> {
        let State::Opening { gateway, .. } = &self.state else {
            return Vec::new();
        };
        let nonce: Nonce = self.random.random();
        self.state = State::Introduced(Introduced {
            gateway: gateway.clone(),
            nonce,
            facts: self.facts.clone(),
            overdue_at: now + WELCOME_DEADLINE,
        });
        vec![Output::Send(FromNode::Hello(Hello {
            nonce,
            protocols: self.protocols,
            connect_seq: self.connect_seq,
            facts: self.facts.clone(),
            commands_in_flight,
            labels,
        }))]
    }

    /// Without a session nobody hears it: whoever waits for it asks again in the next one.
    fn result(&mut self, result: CommandResult) -> Vec<Output> {
        match self.state {
            State::Welcomed(_) => vec![Output::Send(FromNode::CommandResult(result))],
            State::Waiting { .. }
            | State::Opening { .. }
            | State::Introduced(_)
            | State::Leaving { .. }
            | State::Over => Vec::new(),
        }
    }

    fn facts_changed(&mut self, facts: Facts, now: Instant) -> Vec<Output> {
        self.facts = facts;
        match &mut self.state {
            State::Welcomed(live) => live.report(&self.facts, now),
            // The Hello, or the report behind the Welcome, will tell.
            State::Waiting { .. }
            | State::Opening { .. }
            | State::Introduced(_)
            | State::Leaving { .. }
            | State::Over => Vec::new(),
        }
    }

    fn leave(&mut self, leaving: Leaving, now: Instant) -> Vec<Output> {
        match self.state {
            State::Waiting { .. } => self.over(),
            State::Opening { .. } => {
                let mut outputs = vec![Output::HangUp];
                outputs.extend(self.over());
                outputs
            }
            State::Introduced(_) | State::Welcomed(_) => {
                self.state = State::Leaving {
                    over_at: now + GOODBYE_DEADLINE,
                };
                vec![
                    Output::Send(goodbye(leaving.reason(), String::new())),
                    Output::Close,
                ]
            }
            State::Leaving { .. } | State::Over => Vec::new(),
        }
    }

    fn hang_up(&mut self, ending: Ending, now: Instant) -> Vec<Output> {
        let mut outputs = vec![Output::HangUp];
        outputs.extend(self.lost(ending, now));
        outputs
    }

    /// The connection is gone: waits before the next one, longer each time that a whole round of gateways failed.
    fn lost(&mut self, ending: Ending, now: Instant) -> Vec<Output> {
        match &self.state {
            State::Welcomed(live) if live.age(now) >= SESSION_HELD => {
                self.backoff = Backoff::default();
                self.round.clear();
            }
            State::Welcomed(_)
            | State::Waiting { .. }
            | State::Opening { .. }
            | State::Introduced(_)
            | State::Leaving { .. }
            | State::Over => {}
        }
        let others = match self.round.is_empty() {
            true => Others::None,
            false => Others::Left,
        };
        let wait = self.backoff.after(&ending, others, &mut self.random);
        if others == Others::None {
            self.backoff.grow();
        }
        self.state = State::Waiting { until: now + wait };
        vec![Output::Lost {
            ending,
            retry_in: wait,
        }]
    }

    fn over(&mut self) -> Vec<Output> {
        self.state = State::Over;
        vec![Output::Over]
    }
}
