//! What happens in a session.
//!
//! Takes what the node sent, what the registry answered and what control ordered, with the time; gives what to do
//! about it. No socket, clock or lock: `socket` has them.

use std::time::{Duration, Instant};

mod commands;

use bc_protocol::{
    command::{Command, Unreadable},
    digest::Sha256,
    id::{CommandId, NodeId, SessionId},
    link::{CommandEnded, NodeReport, SessionOpened},
    session::{Agreement, Certificate, FromGateway, FromNode, Hello, StatusReport},
    spec::NodeSpec,
};

use super::{
    Ending,
    dispatch::{Dispatch, Tier},
    hello::{Terms, agree, tier, welcome},
};
use crate::{
    limits::{PING_AFTER_QUARTERS, SILENT_HEARTBEATS_MAX},
    rate::Bucket,
};

/// What a session is asked to do from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The node's desired state.
    Spec(NodeSpec),
    /// A certificate for the node.
    Certificate(Box<Certificate>),
    /// Something for the node to do.
    Command(Box<Result<Command, Unreadable>>),
    /// What nodes are offered has changed.
    Terms(Terms),
    /// End, for this reason.
    End(Ending),
}

/// What the registry says to a node that wants its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is the node's one session now.
    Granted,
    /// It is not to be.
    Refused(Ending),
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A message came.
    Message(Box<FromNode>),
    /// Only a sign of life: a ping, or the answer to one.
    Alive,
    /// What came, or did not, ends the session.
    Broken(Ending),
    /// The registry's answer.
    Claim(Claim),
    /// Somebody wants something.
    Order(Order),
    /// The wait that [`Machine::next_wakeup`] named is over.
    Tick,
}

/// Something to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Output {
    /// Ask the registry for the node's session, and give its answer back at once.
    Claim {
        /// The Hello's number.
        connect_seq: u64,
    },
    /// Send a message.
    Send(Box<FromGateway>),
    /// Send a ping.
    Ping,
    /// Tell control of the session.
    Opened(Box<SessionOpened>),
    /// Tell control of the node's state.
    Report(Box<NodeReport>),
    /// Tell control how a command ended.
    Ended(Box<CommandEnded>),
    /// Tell control that the session is good for something else now.
    Turned(Tier),
    /// A command is not sent; worth a line in the log.
    NotSent {
        /// Which, if that could be read.
        id: Option<CommandId>,
        /// Why not.
        why: &'static str,
    },
    /// Ask control to renew the node's certificate; the request, DER.
    CertificateWanted(Vec<u8>),
    /// Say the Goodbye, close, and forget the session.
    End(Ending),
}

/// Why the machine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wakeup {
    /// No Hello came.
    HelloOverdue,
    /// No sign of life came.
    Silent,
    /// It is time for a ping.
    Ping,
}

/// What a session has from its connection.
#[derive(Clone, Debug)]
pub(crate) struct Birth {
    /// From the certificate.
    pub(crate) node: NodeId,
    /// What that certificate says of authorities and gateways.
    pub(crate) company: Option<Sha256>,
    /// Made for this session.
    pub(crate) session: SessionId,
    /// When the upgrade was done.
    pub(crate) at: Instant,
    /// The same by the wall clock.
    pub(crate) unix_ms: u64,
    /// From then to the Hello.
    pub(crate) hello_timeout: Duration,
    /// What the node may send.
    pub(crate) messages: Bucket,
}

impl Birth {
    fn unix_ms_at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.at).as_millis();
        self.unix_ms
            .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// One session.
pub(crate) struct Machine {
    birth: Birth,
    terms: Terms,
    state: State,
}

enum State {
    AwaitingHello,
    /// Between the question to the registry and its answer.
    Claiming {
        hello: Box<Hello>,
        agreement: Agreement,
    },
    Open(Open),
    Ended,
}

struct Open {
    connect_seq: u64,
    protocol: u32,
    dispatch: Dispatch,
    /// The newest report's number.
    report: u64,
    heard_at: Instant,
    /// When it was last asked whether it is there.
    pinged_at: Instant,
}

impl Machine {
    /// A session whose Hello has yet to come.
    pub(crate) fn new(birth: Birth, terms: Terms) -> Self {
        Self {
            birth,
            terms,
            state: State::AwaitingHello,
        }
    }

    /// Decides what follows from what happened. After an [`Output::End`] nothing follows any more.
    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Vec<Output> {
        if let State::Ended = self.state {
            return Vec::new();
        }
        match input {
            Input::Message(message) => self.heard(now, |machine| machine.message(*message)),
            Input::Alive => self.heard(now, |_| Vec::new()),
            Input::Broken(ending) => self.end(ending),
            Input::Claim(Claim::Granted) => self.open(now),
            Input::Claim(Claim::Refused(ending)) => self.end(ending),
            Input::Order(Order::End(ending)) => self.end(ending),
            Input::Order(Order::Spec(spec)) => self.deliver(spec),
            Input::Order(Order::Certificate(certificate)) => self.certify(*certificate),
            Input::Order(Order::Command(command)) => self.command(*command),
            Input::Order(Order::Terms(terms)) => self.offer(terms, now),
            Input::Tick => self.tick(now),
        }
    }

    /// When the machine wants a [`Input::Tick`], and why.
    pub(crate) fn next_wakeup(&self) -> Option<(Instant, Wakeup)> {
        match &self.state {
            State::AwaitingHello => Some((
                self.birth.at + self.birth.hello_timeout,
                Wakeup::HelloOverdue,
            )),
            State::Open(open) => [
                (open.heard_at + self.patience(), Wakeup::Silent),
                (
                    open.pinged_at.max(open.heard_at) + self.pause(),
                    Wakeup::Ping,
                ),
            ]
            .into_iter()
            .min(),
            State::Claiming { .. } | State::Ended => None,
        }
    }

    fn patience(&self) -> Duration {
        self.terms.heartbeat.saturating_mul(SILENT_HEARTBEATS_MAX)
    }

    /// How long the node may say nothing before it is asked.
    fn pause(&self) -> Duration {
        self.terms.heartbeat.saturating_mul(PING_AFTER_QUARTERS) / 4
    }

    fn heard(&mut self, now: Instant, then: impl FnOnce(&mut Self) -> Vec<Output>) -> Vec<Output> {
        if let Err(too_fast) = self.birth.messages.take(1, now) {
            return self.end(Ending::TooFast(too_fast));
        }
        if let State::Open(open) = &mut self.state {
            open.heard_at = now;
        }
        then(self)
    }

    fn message(&mut self, message: FromNode) -> Vec<Output> {
        match (&mut self.state, message) {
            (State::AwaitingHello, FromNode::Hello(hello)) => self.claim(hello),
            (State::AwaitingHello | State::Claiming { .. }, other) => self.end(Ending::OutOfTurn {
                expected: "a hello first, and once",
                found: name(&other),
            }),
            (State::Open(open), FromNode::Report(report)) => {
                open.report(&self.birth, report).into_iter().collect()
            }
            (State::Open(_), FromNode::Goodbye(goodbye)) => self.end(Ending::Left(goodbye.reason)),
            (State::Open(_), other @ FromNode::Hello(_)) => self.end(Ending::OutOfTurn {
                expected: "one hello in a session",
                found: name(&other),
            }),
            (State::Open(_), FromNode::CertificateRequest(request)) => {
                vec![Output::CertificateWanted(request)]
            }
            (State::Open(open), FromNode::CommandResult(result)) => {
                open.answered(&self.birth, result).into_iter().collect()
            }
            (State::Ended, _) => Vec::new(),
        }
    }

    fn claim(&mut self, hello: Hello) -> Vec<Output> {
        match agree(&hello, &self.terms) {
            Ok(agreement) => {
                let connect_seq = hello.connect_seq;
                let hello = Box::new(hello);
                self.state = State::Claiming { hello, agreement };
                vec![Output::Claim { connect_seq }]
            }
            Err(ending) => self.end(ending),
        }
    }

    fn open(&mut self, now: Instant) -> Vec<Output> {
        let State::Claiming { hello, agreement } = std::mem::replace(&mut self.state, State::Ended)
        else {
            return Vec::new();
        };
        let Birth { node, session, .. } = &self.birth;
        let unix_ms = self.birth.unix_ms_at(now);
        let welcome = welcome(&hello, agreement, &self.terms, session.clone(), unix_ms);
        let tier = match agreement {
            Agreement::Full { .. } => Tier::Full,
            Agreement::UpgradeOnly { .. } => Tier::UpgradeOnly,
        };
        self.state = State::Open(Open {
            connect_seq: hello.connect_seq,
            protocol: welcome.protocol,
            dispatch: Dispatch::new(tier, hello.commands_in_flight),
            report: 0,
            heard_at: now,
            pinged_at: now,
        });
        let opened = SessionOpened {
            node: node.clone(),
            session: session.clone(),
            connect_seq: hello.connect_seq,
            protocol: welcome.protocol,
            upgrade_only: welcome.upgrade_required,
            report: 0,
            facts: hello.facts,
            labels: hello.labels,
            company: self.birth.company,
        };
        // The Welcome goes first: a node on trial waits for it, control does not.
        vec![
            Output::Send(Box::new(FromGateway::Welcome(welcome))),
            Output::Opened(Box::new(opened)),
        ]
    }

    fn deliver(&self, spec: NodeSpec) -> Vec<Output> {
        match &self.state {
            State::Open(open) => open.deliver(spec).into_iter().collect(),
            State::AwaitingHello | State::Claiming { .. } | State::Ended => Vec::new(),
        }
    }

    /// In upgrade-only sessions too: a node that is too old to talk must not be locked out besides.
    fn certify(&self, certificate: Certificate) -> Vec<Output> {
        match &self.state {
            State::Open(_) => {
                vec![Output::Send(Box::new(FromGateway::Certificate(
                    certificate,
                )))]
            }
            State::AwaitingHello | State::Claiming { .. } | State::Ended => Vec::new(),
        }
    }

    fn tick(&mut self, now: Instant) -> Vec<Output> {
        match self.next_wakeup() {
            Some((at, Wakeup::HelloOverdue)) if at <= now => {
                let waited = self.birth.hello_timeout;
                self.end(Ending::HelloOverdue { waited })
            }
            Some((at, Wakeup::Silent)) if at <= now => {
                let lasted = self.patience();
                self.end(Ending::Silent { lasted })
            }
            Some((at, Wakeup::Ping)) if at <= now => {
                if let State::Open(open) = &mut self.state {
                    open.pinged_at = now;
                }
                vec![Output::Ping]
            }
            Some(_) | None => Vec::new(),
        }
    }

    fn end(&mut self, ending: Ending) -> Vec<Output> {
        self.state = State::Ended;
        vec![Output::End(ending)]
    }
}

impl Open {
    /// A report that is not newer than the last says nothing new.
    fn report(&mut self, birth: &Birth, report: StatusReport) -> Option<Output> {
        if report.number <= self.report {
            return None;
        }
        self.report = report.number;
        Some(Output::Report(Box::new(NodeReport {
            node: birth.node.clone(),
            session: birth.session.clone(),
            connect_seq: self.connect_seq,
            report: report.number,
            facts: report.facts,
        })))
    }

    fn deliver(&self, spec: NodeSpec) -> Option<Output> {
        match self.dispatch.tier() {
            Tier::Full => Some(Output::Send(Box::new(FromGateway::Spec(Ok(spec))))),
            // Its daemon may not understand today's spec: it gets upgrades as commands.
            Tier::UpgradeOnly => None,
        }
    }
}

fn name(message: &FromNode) -> &'static str {
    match message {
        FromNode::Hello(_) => "a hello",
        FromNode::Report(_) => "a report",
        FromNode::CommandResult(_) => "a command's result",
        FromNode::CertificateRequest(_) => "a certificate request",
        FromNode::Goodbye(_) => "a goodbye",
    }
}

#[cfg(test)]
mod tests;
