//! The session machine under a clock that jumps.

mod always;
mod scenes;
mod waits;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bc_protocol::{
    digest::Sha256,
    id::{AttemptId, SessionId},
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    session::{
        Certificate, Facts, FromGateway, FromNode, Goodbye, GoodbyeReason, Nonce, Phase, Progress,
        Welcome,
    },
};

use super::*;
use crate::clock;

/// A machine, its clock, and the nonce of its latest Hello.
struct Stage {
    session: Session,
    now: Instant,
    nonce: Nonce,
}

impl Stage {
    fn new() -> Self {
        Self::with(&["wss://one/session"], [7; 32])
    }

    fn with(gateways: &[&str], seed: [u8; 32]) -> Self {
        let now = clock::instant();
        let beginning = Beginning {
            gateways: gateways.iter().map(ToString::to_string).collect(),
            connect_seq: 40,
            facts: facts(0),
            protocols: ProtocolRange::CURRENT,
            seed,
        };
        Self {
            session: Session::new(beginning, now),
            now,
            nonce: Nonce::default(),
        }
    }

    /// A machine that has just been welcomed.
    fn welcomed() -> Self {
        let mut stage = Self::new();
        stage.wake();
        stage.give(opened());
        stage.welcome();
        stage
    }

    fn give(&mut self, input: Input) -> Vec<Output> {
        let outputs = self.session.step(input, self.now);
        for output in &outputs {
            if let Output::Send(FromNode::Hello(hello)) = output {
                self.nonce = hello.nonce;
            }
        }
        outputs
    }

    fn frame(&mut self, frame: FromGateway) -> Vec<Output> {
        self.give(Input::Frame(Ok(frame)))
    }

    fn welcome(&mut self) -> Vec<Output> {
        let welcome = welcome(self.nonce);
        self.frame(welcome)
    }

    /// Jumps to the next wakeup.
    fn wake(&mut self) -> Vec<Output> {
        let (at, _) = self.session.next_wakeup().unwrap();
        self.now = self.now.max(at);
        self.give(Input::Tick)
    }

    fn wait(&mut self, span: Duration) -> Vec<Output> {
        self.now += span;
        self.give(Input::Tick)
    }

    /// How long until the next wakeup, and why.
    fn next(&self) -> (Duration, Wakeup) {
        let (at, why) = self.session.next_wakeup().unwrap();
        (at.saturating_duration_since(self.now), why)
    }
}

fn opened() -> Input {
    Input::Opened {
        labels: BTreeMap::new(),
        commands: Vec::new(),
        renewal: RenewalTimes {
            after: Duration::from_secs(20 * 86_400),
            again: Duration::from_secs(900),
        },
    }
}

fn welcome(nonce: Nonce) -> FromGateway {
    FromGateway::Welcome(Welcome {
        nonce,
        session: SessionId::random(0, 1),
        protocol: 1,
        server_proto_min: 1,
        upgrade_required: false,
        heartbeat_interval_ms: 10_000,
        server_time_ms: 0,
    })
}

fn goodbye_of(reason: GoodbyeReason, reconnect_after_ms: u32) -> FromGateway {
    FromGateway::Goodbye(Goodbye {
        reason,
        reconnect_after_ms,
        message: String::new(),
    })
}

/// Facts that differ from one generation to the next.
pub(crate) fn facts(observed_generation: u64) -> Facts {
    Facts {
        version: "1.0.0".parse().unwrap(),
        platform: Platform::host(),
        boot_id: "boot".to_owned(),
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b"bcd"),
        floor: ReleaseFloor::starting_at(Sequence::PACKAGED),
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation,
        held: None,
        notice: None,
        helper: None,
        started: None,
    }
}

fn downloading(percent: u8) -> Facts {
    Facts {
        progress: Some(Progress {
            attempt: AttemptId::derived(&[b"one"]),
            phase: Phase::Downloading,
            percent,
        }),
        ..facts(1)
    }
}

fn told(facts: Facts) -> Input {
    Input::Facts(Box::new(facts))
}

/// The report among outputs, if there is exactly one and nothing else.
fn report(outputs: &[Output]) -> Option<(u64, &Facts)> {
    match outputs {
        [Output::Send(FromNode::Report(report))] => Some((report.number, &report.facts)),
        _ => None,
    }
}

fn lost(outputs: &[Output]) -> Option<(&Ending, Duration)> {
    outputs.iter().find_map(|output| {
        let Output::Lost { ending, retry_in } = output else {
            return None;
        };
        Some((ending, *retry_in))
    })
}

#[test]
fn a_certificate_is_asked_for_when_it_is_due_and_again_until_it_comes() {
    let mut stage = Stage::new();
    stage.wake();
    let renewal = RenewalTimes {
        after: Duration::from_secs(7),
        again: Duration::from_secs(2),
    };
    let labels = BTreeMap::new();
    let commands = Vec::new();
    stage.give(Input::Opened {
        labels,
        commands,
        renewal,
    });
    stage.welcome();
    let certificate = Certificate {
        chain: vec![vec![1]],
        authorities: vec![vec![2]],
        gateways: vec!["wss://other/session".to_owned()],
    };
    // One that comes by itself is as good, once the other end is known to be a gateway.
    let unasked = stage.frame(FromGateway::Certificate(certificate.clone()));
    assert_eq!(unasked, [Output::Certificate(certificate.clone())]);
    assert_eq!(stage.next(), (Duration::from_secs(7), Wakeup::Renewal));
    assert_eq!(stage.wake(), [Output::AskCertificate]);
    assert_eq!(stage.next(), (Duration::from_secs(2), Wakeup::Renewal));
    assert_eq!(stage.wake(), [Output::AskCertificate]);
    let came = stage.frame(FromGateway::Certificate(certificate.clone()));
    assert_eq!(came, [Output::Certificate(certificate.clone())]);
    // By a clock that is far ahead it is due again already: nobody is asked without a pause.
    let due = RenewalTimes {
        after: Duration::ZERO,
        ..renewal
    };
    let gateways = certificate.gateways.clone();
    stage.give(Input::Renewed {
        gateways,
        renewal: due,
    });
    for (later, asks) in [(1_900, false), (100, true)] {
        let outputs = stage.wait(Duration::from_millis(later));
        assert_eq!(outputs.contains(&Output::AskCertificate), asks, "{later}");
    }
    let (gateways, renewal) = (
        certificate.gateways.clone(),
        RenewalTimes {
            after: Duration::from_secs(86_400),
            ..renewal
        },
    );
    assert!(stage.give(Input::Renewed { gateways, renewal }).is_empty());
    // The next connection goes where the new certificate's answer said.
    stage.give(Input::Closed(Ending::Closed(String::new())));
    let outputs = stage.wake();
    assert!(
        matches!(&outputs[..], [Output::Open { gateway, .. }] if gateway == "wss://other/session"),
        "{outputs:?}"
    );
}
