//! Sessions from their first message to their last, with a clock that jumps.

mod commands;

use std::num::NonZeroU32;

use bc_protocol::session::{FrameError, Goodbye, GoodbyeReason, ProtocolRange};
use proptest::prelude::*;

use super::*;
use crate::{
    clock,
    fixture::{done, facts, hello, node, restart, session, upgrade},
};

const HEARTBEAT: Duration = Duration::from_secs(15);
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// A machine and the time.
struct Bench {
    machine: Machine,
    now: Instant,
}

impl Bench {
    fn new(protocols: ProtocolRange) -> Self {
        let now = clock::now();
        let many = NonZeroU32::new(1000).unwrap();
        let birth = Birth {
            node: node(0),
            company: None,
            session: session(1),
            at: now,
            unix_ms: 5_000,
            hello_timeout: HELLO_TIMEOUT,
            messages: Bucket::full(many, many, now),
        };
        Self {
            machine: Machine::new(birth, terms(protocols)),
            now,
        }
    }

    fn open(protocols: ProtocolRange) -> Self {
        let mut bench = Self::new(protocols);
        assert_eq!(
            bench.message(FromNode::Hello(hello(3))),
            [Output::Claim { connect_seq: 3 }]
        );
        let outputs = bench.step(Input::Claim(Claim::Granted));
        assert!(
            matches!(*outputs, [Output::Send(_), Output::Opened(_)]),
            "{outputs:?}"
        );
        bench
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        self.machine.step(input, self.now)
    }

    fn message(&mut self, message: FromNode) -> Vec<Output> {
        self.step(Input::Message(Box::new(message)))
    }

    fn report(&mut self, number: u64) -> Vec<Output> {
        self.message(FromNode::Report(StatusReport {
            number,
            facts: facts(number),
        }))
    }

    /// Jumps to the next wakeup, which is to be this one.
    fn wake(&mut self, expected: Wakeup) -> Vec<Output> {
        let (at, why) = self.machine.next_wakeup().unwrap();
        assert_eq!(why, expected);
        self.now = at;
        self.step(Input::Tick)
    }
}

fn terms(protocols: ProtocolRange) -> Terms {
    Terms {
        protocols,
        heartbeat: HEARTBEAT,
    }
}

fn ending(outputs: Vec<Output>) -> Ending {
    match <[Output; 1]>::try_from(outputs) {
        Ok([Output::End(ending)]) => ending,
        other => panic!("expected an end, found {other:?}"),
    }
}

fn speaking(min: u32, max: u32) -> FromNode {
    FromNode::Hello(Hello {
        protocols: ProtocolRange { min, max },
        ..hello(3)
    })
}

const SERVER: ProtocolRange = ProtocolRange { min: 2, max: 4 };
const CURRENT: ProtocolRange = ProtocolRange::CURRENT;

#[test]
fn the_welcome_repeats_the_nonce_and_goes_before_anything_else() {
    let mut bench = Bench::new(CURRENT);
    bench.message(FromNode::Hello(hello(3)));
    bench.now += Duration::from_millis(250);
    let outputs = bench.step(Input::Claim(Claim::Granted));
    let [Output::Send(message), Output::Opened(opened)] = &*outputs else {
        panic!("{outputs:?}");
    };
    let FromGateway::Welcome(welcome) = &**message else {
        panic!("{message:?}");
    };
    assert_eq!(welcome.nonce, hello(3).nonce);
    assert_eq!(welcome.session, session(1));
    assert_eq!((welcome.protocol, welcome.server_proto_min), (2, 1));
    assert!(!welcome.upgrade_required);
    assert_eq!(welcome.heartbeat_interval_ms, 15_000);
    assert_eq!(welcome.server_time_ms, 5_250);
    assert_eq!((opened.connect_seq, opened.report), (3, 0));
    assert_eq!(opened.labels, hello(3).labels);
}

#[test]
fn an_old_node_may_upgrade_and_gets_no_spec() {
    let mut bench = Bench::new(SERVER);
    bench.message(speaking(1, 1));
    let outputs = bench.step(Input::Claim(Claim::Granted));
    let [Output::Send(message), Output::Opened(opened)] = &*outputs else {
        panic!("{outputs:?}");
    };
    let FromGateway::Welcome(welcome) = &**message else {
        panic!("{message:?}");
    };
    assert!(welcome.upgrade_required && opened.upgrade_only);
    assert_eq!((welcome.protocol, welcome.server_proto_min), (1, 2));
    let spec = NodeSpec {
        generation: 1,
        daemon: None,
    };
    assert_eq!(bench.step(Input::Order(Order::Spec(spec))), []);
    assert!(matches!(*bench.report(1), [Output::Report(_)]));
}

#[test]
fn a_node_that_is_too_new_takes_nobodys_place() {
    let mut bench = Bench::new(SERVER);
    let ending = ending(bench.message(speaking(5, 6)));
    assert_eq!(
        ending.goodbye().unwrap().reason,
        GoodbyeReason::ProtocolTooNew
    );
}

#[test]
fn a_refused_claim_names_the_winner() {
    let mut bench = Bench::new(CURRENT);
    bench.message(FromNode::Hello(hello(3)));
    let refused = Claim::Refused(Ending::Superseded { winning: 9 });
    let ending = ending(bench.step(Input::Claim(refused)));
    assert_eq!(
        ending.goodbye().unwrap().reason,
        GoodbyeReason::Superseded { connect_seq: 9 }
    );
}

#[test]
fn a_silent_newcomer_is_sent_away_in_time() {
    let mut bench = Bench::new(CURRENT);
    let start = bench.now;
    bench.now += Duration::from_secs(9);
    assert_eq!(bench.step(Input::Alive), []);
    assert_eq!(bench.step(Input::Tick), []);
    let ending = ending(bench.wake(Wakeup::HelloOverdue));
    assert_eq!(bench.now, start + HELLO_TIMEOUT);
    assert_eq!(
        ending.goodbye().unwrap().reason,
        GoodbyeReason::ProtocolError
    );
}

#[test]
fn pings_go_out_and_silence_ends_it() {
    let mut bench = Bench::open(CURRENT);
    let start = bench.now;
    assert_eq!(bench.wake(Wakeup::Ping), [Output::Ping]);
    assert_eq!(bench.now, start + HEARTBEAT * 5 / 4);
    assert_eq!(bench.step(Input::Alive), []);
    assert_eq!(bench.wake(Wakeup::Ping), [Output::Ping]);
    assert_eq!(bench.wake(Wakeup::Ping), [Output::Ping]);
    let ending = ending(bench.wake(Wakeup::Silent));
    assert_eq!(bench.now, start + HEARTBEAT * 5 / 4 + 3 * HEARTBEAT);
    assert_eq!(ending.goodbye(), None);
}

#[test]
fn a_quicker_heartbeat_makes_nobody_silent_at_once() {
    let mut bench = Bench::open(CURRENT);
    bench.now += HEARTBEAT;
    let heartbeat = HEARTBEAT / 15;
    let quicker = Terms {
        heartbeat,
        ..terms(CURRENT)
    };
    let from = bench.now;
    assert_eq!(bench.step(Input::Order(Order::Terms(quicker))), []);
    assert_eq!(bench.wake(Wakeup::Ping), [Output::Ping]);
    assert_eq!(bench.now, from + heartbeat * 5 / 4);
}

#[test]
fn a_node_that_speaks_is_not_asked_whether_it_is_there() {
    let mut bench = Bench::open(CURRENT);
    for number in 1..10 {
        bench.now += HEARTBEAT;
        assert_eq!(bench.step(Input::Tick), []);
        match number % 2 {
            0 => assert_eq!(bench.step(Input::Alive), []),
            _ => assert_eq!(bench.report(number).len(), 1),
        }
    }
    assert_eq!(bench.wake(Wakeup::Ping), [Output::Ping]);
}

#[test]
fn only_newer_reports_say_something() {
    let mut bench = Bench::open(CURRENT);
    let outputs = bench.report(2);
    let [Output::Report(report)] = &*outputs else {
        panic!("{outputs:?}");
    };
    assert_eq!((report.connect_seq, report.report), (3, 2));
    assert_eq!(report.node, node(0));
    for old in [2, 1, 0] {
        assert_eq!(bench.report(old), []);
    }
    assert_eq!(bench.report(5).len(), 1);
}

#[test]
fn messages_out_of_turn_end_it() {
    let report = FromNode::Report(StatusReport {
        number: 1,
        facts: facts(0),
    });
    let ending_of = |mut bench: Bench, message: FromNode| ending(bench.message(message));
    for ending in [
        ending_of(Bench::new(CURRENT), report),
        ending_of(Bench::new(CURRENT), FromNode::CertificateRequest(vec![])),
        ending_of(Bench::open(CURRENT), FromNode::Hello(hello(4))),
    ] {
        assert!(matches!(ending, Ending::OutOfTurn { .. }), "{ending:?}");
        assert_eq!(
            ending.goodbye().unwrap().reason,
            GoodbyeReason::ProtocolError
        );
    }
}

#[test]
fn a_node_that_leaves_is_not_answered() {
    let goodbye = Goodbye {
        reason: GoodbyeReason::Updating,
        reconnect_after_ms: 0,
        message: String::new(),
    };
    let ending = ending(Bench::open(CURRENT).message(FromNode::Goodbye(goodbye)));
    assert_eq!(ending, Ending::Left(GoodbyeReason::Updating));
    assert_eq!(ending.goodbye(), None);
}

#[test]
fn a_flood_ends_it_and_says_so() {
    let mut bench = Bench::open(CURRENT);
    // One of the thousand was the Hello.
    for number in 1..1000 {
        assert_eq!(bench.report(number).len(), 1);
    }
    let ending = ending(bench.report(1000));
    assert!(ending.to_string().contains("1000 a second"), "{ending}");
    assert_eq!(ending.goodbye().unwrap().reason, GoodbyeReason::Overloaded);
}

fn inputs() -> impl Strategy<Value = (u8, u64)> {
    (0_u8..13, 0_u64..6)
}

fn input(kind: u8, number: u64) -> Input {
    let message = |message| Input::Message(Box::new(message));
    match kind {
        0 => message(FromNode::Hello(hello(number))),
        1 => message(speaking(1, 1)),
        2 => message(FromNode::Report(StatusReport {
            number,
            facts: facts(number),
        })),
        3 => Input::Alive,
        4 => Input::Claim(Claim::Granted),
        5 => Input::Claim(Claim::Refused(Ending::Removed)),
        6 => Input::Order(Order::Spec(NodeSpec {
            generation: number,
            daemon: None,
        })),
        7 => Input::Order(Order::Command(Box::new(Ok(upgrade(
            u8::try_from(number).unwrap(),
        ))))),
        8 => Input::Order(Order::Command(Box::new(Ok(restart(
            u8::try_from(number).unwrap(),
        ))))),
        9 => message(FromNode::CommandResult(done(
            restart(u8::try_from(number).unwrap()).id,
        ))),
        10 => Input::Order(Order::Terms(terms(if number < 3 {
            CURRENT
        } else {
            SERVER
        }))),
        11 => Input::Broken(Ending::BadFrame(FrameError::Empty)),
        _ => Input::Tick,
    }
}

proptest! {
    /// Whatever comes in whatever order: one Welcome at most, and before anything else that the node or control hears;
    /// reports in rising order only; no spec and no command but an upgrade in an upgrade-only session (I27); nothing
    /// after the end; and always a deadline, except while the registry is asked.
    #[test]
    fn never_out_of_order(
        old: bool,
        steps in prop::collection::vec((inputs(), 0_u64..20_000), 0..80),
    ) {
        let mut bench = Bench::new(if old { SERVER } else { CURRENT });
        let (mut welcomes, mut ended, mut newest, mut only) = (0, false, 0, false);
        for ((kind, number), wait_ms) in steps {
            bench.now += Duration::from_millis(wait_ms);
            let outputs = bench.step(input(kind, number));
            prop_assert!(!ended || outputs.is_empty());
            let asks = outputs.iter().any(|output| matches!(output, Output::Claim { .. }));
            for output in outputs {
                match output {
                    Output::Claim { .. } => prop_assert_eq!(welcomes, 0),
                    Output::Send(message) => match *message {
                        FromGateway::Welcome(welcome) => {
                            welcomes += 1;
                            only = welcome.upgrade_required;
                        }
                        FromGateway::Spec(_) => prop_assert!(welcomes == 1 && !only),
                        FromGateway::Command(command) => {
                            let is_upgrade = command.unwrap().into_upgrade().is_ok();
                            prop_assert!(welcomes == 1 && (is_upgrade || !only));
                        }
                        other @ (FromGateway::Certificate(_) | FromGateway::Goodbye(_)) => {
                            prop_assert!(false, "{:?}", other);
                        }
                    },
                    Output::Turned(tier) => {
                        prop_assert_eq!(welcomes, 1);
                        prop_assert_ne!(only, tier == Tier::UpgradeOnly);
                        only = tier == Tier::UpgradeOnly;
                    }
                    Output::Ended(_) | Output::NotSent { .. } => prop_assert_eq!(welcomes, 1),
                    Output::Opened(_) | Output::Ping => prop_assert_eq!(welcomes, 1),
                    Output::Report(report) => {
                        prop_assert!(welcomes == 1 && report.report > newest);
                        newest = report.report;
                    }
                    Output::CertificateWanted(_) => prop_assert_eq!(welcomes, 1),
                    Output::End(_) => ended = true,
                }
            }
            prop_assert!(welcomes <= 1);
            if ended {
                prop_assert!(bench.machine.next_wakeup().is_none());
            } else if asks {
                prop_assert!(bench.machine.next_wakeup().is_none());
            }
        }
        // Left alone, it ends.
        for _ in 0..10 {
            match bench.machine.next_wakeup() {
                Some((at, _)) => bench.now = bench.now.max(at),
                None => break,
            }
            bench.step(Input::Tick);
        }
        prop_assert!(bench.machine.next_wakeup().is_none());
    }
}
