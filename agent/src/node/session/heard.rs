//! What a session makes of what its gateway says.
//!
//! Takes frames and signs of life, gives what follows from them. Nothing is believed before the Welcome, and whoever says
//! too much is read again when it is his turn.

use std::time::Instant;

use bc_protocol::session::{FrameError, FromGateway, Goodbye, GoodbyeReason, Welcome};

use super::{Ending, Ignored, Live, Output, Session, State, goodbye};
use crate::node::limits::{CONNECT_SEQ_MAX, CONNECT_SEQ_STEP_MAX};

/// What a gateway costs the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something to do, perhaps with a write to the disk.
    Frame,
    /// A sign of life: a word of answer at most.
    Sign,
}

impl Session {
    pub(super) fn frame(
        &mut self,
        frame: Result<FromGateway, FrameError>,
        now: Instant,
    ) -> Vec<Output> {
        if matches!(self.state, State::Over) {
            return Vec::new();
        }
        self.heard(now);
        self.takes_in(Kind::Frame, now);
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return self.unreadable(error, now),
        };
        match frame {
            FromGateway::Welcome(welcome) => self.welcome(welcome, now),
            FromGateway::Goodbye(goodbye) => self.goodbye(goodbye, now),
            FromGateway::Spec(spec) => match self.state {
                State::Welcomed(_) => vec![Output::Spec(spec)],
                State::Introduced(_) => self.broken("a spec before the Welcome", now),
                State::Waiting { .. }
                | State::Opening { .. }
                | State::Leaving { .. }
                | State::Over => Vec::new(),
            },
            FromGateway::Command(command) => match self.state {
                State::Welcomed(_) => vec![Output::Command(command)],
                State::Introduced(_) => self.broken("a command before the Welcome", now),
                State::Waiting { .. }
                | State::Opening { .. }
                | State::Leaving { .. }
                | State::Over => Vec::new(),
            },
            // Also one that was not asked for: it tells of other gateways.
            FromGateway::Certificate(certificate) => match self.state {
                State::Welcomed(_) => vec![Output::Certificate(certificate)],
                State::Introduced(_) => self.broken("a certificate before the Welcome", now),
                State::Waiting { .. }
                | State::Opening { .. }
                | State::Leaving { .. }
                | State::Over => Vec::new(),
            },
        }
    }

    /// A frame with nothing in it that this build knows comes from a newer gateway: the rest of the session is still
    /// good. Anything else that cannot be read means that the two do not understand each other.
    fn unreadable(&mut self, error: FrameError, now: Instant) -> Vec<Output> {
        match error {
            FrameError::Empty => vec![Output::Ignored(Ignored::Unknown(error))],
            FrameError::TooLarge { .. } | FrameError::Undecodable(_) | FrameError::Field { .. } => {
                self.broken(error, now)
            }
        }
    }

    fn welcome(&mut self, welcome: Welcome, now: Instant) -> Vec<Output> {
        let State::Introduced(hello) = &self.state else {
            return vec![Output::Ignored(Ignored::Welcome)];
        };
        if welcome.nonce != hello.nonce {
            return vec![Output::Ignored(Ignored::WelcomeToAnother)];
        }
        let spoken = self.protocols.min..=self.protocols.max;
        if !spoken.contains(&welcome.protocol) {
            let found = format!("protocol {}, which was not offered", welcome.protocol);
            return self.broken(found, now);
        }
        let mut live = Live::new(&welcome, hello.facts.clone(), now);
        let gateway = hello.gateway.clone();
        let mut outputs = vec![Output::Welcomed {
            gateway,
            session: welcome.session,
            upgrade_required: welcome.upgrade_required,
            server_time_ms: welcome.server_time_ms,
        }];
        outputs.extend(live.report(&self.facts, now));
        self.state = State::Welcomed(live);
        outputs
    }

    fn goodbye(&mut self, goodbye: Goodbye, now: Instant) -> Vec<Output> {
        match &self.state {
            State::Introduced(_) | State::Welcomed(_) => {}
            State::Leaving { .. } => return self.over(),
            State::Waiting { .. } | State::Opening { .. } | State::Over => return Vec::new(),
        }
        match goodbye.reason {
            GoodbyeReason::Superseded { connect_seq } => {
                // A node whose numbers a liar has driven that high still gets above its own winner, in a step or two.
                let step = self.connect_seq.saturating_add(CONNECT_SEQ_STEP_MAX);
                let believed = connect_seq.min(step.max(CONNECT_SEQ_MAX));
                self.connect_seq = self.connect_seq.max(believed);
            }
            GoodbyeReason::Stopping
            | GoodbyeReason::Removed
            | GoodbyeReason::ProtocolTooNew
            | GoodbyeReason::Overloaded
            | GoodbyeReason::ProtocolError
            | GoodbyeReason::Updating => {}
        }
        self.hang_up(Ending::Goodbye(goodbye), now)
    }

    /// The gateway broke the protocol: it is told so, and left.
    fn broken(&mut self, found: impl ToString, now: Instant) -> Vec<Output> {
        match self.state {
            State::Introduced(_) | State::Welcomed(_) => {}
            State::Waiting { .. } | State::Opening { .. } | State::Leaving { .. } | State::Over => {
                return Vec::new();
            }
        }
        let found = found.to_string();
        let mut outputs = vec![Output::Send(goodbye(
            GoodbyeReason::ProtocolError,
            found.clone(),
        ))];
        outputs.extend(self.hang_up(Ending::Broken(found), now));
        outputs
    }

    pub(super) fn closed(&mut self, ending: Ending, now: Instant) -> Vec<Output> {
        match self.state {
            State::Introduced(_) | State::Welcomed(_) => self.lost(ending, now),
            State::Leaving { .. } => self.over(),
            State::Waiting { .. } | State::Opening { .. } | State::Over => Vec::new(),
        }
    }

    /// The gateway lives.
    pub(super) fn heard(&mut self, now: Instant) {
        if let State::Welcomed(live) = &mut self.state {
            live.heard(now);
        }
    }

    /// Who has said so much goes on later. Before the Welcome that holds as well: a gateway can put it off.
    pub(super) fn takes_in(&mut self, kind: Kind, now: Instant) {
        match self.state {
            State::Introduced(_) | State::Welcomed(_) => {}
            State::Waiting { .. } | State::Opening { .. } | State::Leaving { .. } | State::Over => {
                return;
            }
        }
        let until = match kind {
            Kind::Frame => self.frames.take(now),
            Kind::Sign => self.signs.take(now),
        };
        self.full_until = self.full_until.max(until);
    }
}
