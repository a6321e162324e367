//! What holds whatever happens: any inputs, in any order, with any gaps.

use bc_protocol::command::{Command, Order};
use bc_protocol::limits::{BACKOFF_MAX, BACKOFF_MIN, RECONNECT_AFTER_MAX};
use bc_protocol::session::FrameError;
use bc_protocol::spec::NodeSpec;
use proptest::prelude::*;

use super::*;
use crate::node::limits::PERCENT_REPORT_INTERVAL;

#[derive(Clone, Debug)]
enum Act {
    Wake,
    Jump(u64),
    Open,
    NotOpen,
    Welcome,
    WrongWelcome,
    Spec,
    Command,
    Result,
    Garbage,
    Unknown,
    Traffic,
    Close,
    Goodbye(GoodbyeReason, u32),
    Facts(u64),
    Percent(u8),
    Leave,
}

fn act() -> impl Strategy<Value = Act> {
    let reason = prop_oneof![
        Just(GoodbyeReason::Stopping),
        Just(GoodbyeReason::Removed),
        Just(GoodbyeReason::Overloaded),
        (0..=u64::MAX).prop_map(|connect_seq| GoodbyeReason::Superseded { connect_seq }),
    ];
    prop_oneof![
        8 => Just(Act::Wake),
        3 => (0..40_000_u64).prop_map(Act::Jump),
        6 => Just(Act::Open),
        1 => Just(Act::NotOpen),
        6 => Just(Act::Welcome),
        1 => Just(Act::WrongWelcome),
        2 => Just(Act::Spec),
        2 => Just(Act::Command),
        2 => Just(Act::Result),
        1 => Just(Act::Garbage),
        1 => Just(Act::Unknown),
        2 => Just(Act::Traffic),
        1 => Just(Act::Close),
        1 => (reason, any::<u32>()).prop_map(|(reason, after)| Act::Goodbye(reason, after)),
        3 => (0..4_u64).prop_map(Act::Facts),
        3 => (0..=100_u8).prop_map(Act::Percent),
        1 => prop_oneof![9 => Just(Act::Traffic), 1 => Just(Act::Leave)],
    ]
}

/// What an onlooker knows about the connection, from outputs and inputs alone.
#[derive(Default)]
struct Onlooker {
    asked: bool,
    open: bool,
    hellos: u32,
    welcomed: bool,
    number: u64,
    seq: u64,
    percent_at: Option<Instant>,
    over: bool,
}

impl Onlooker {
    fn input(&mut self, act: &Act) {
        match act {
            Act::Open if self.asked => {
                self.open = true;
                self.asked = false;
            }
            Act::NotOpen => self.asked = false,
            Act::Close => self.closed(),
            Act::Open
            | Act::Wake
            | Act::Jump(_)
            | Act::Welcome
            | Act::WrongWelcome
            | Act::Spec
            | Act::Command
            | Act::Result
            | Act::Garbage
            | Act::Unknown
            | Act::Traffic
            | Act::Goodbye(..)
            | Act::Facts(_)
            | Act::Percent(_)
            | Act::Leave => {}
        }
    }

    fn closed(&mut self) {
        let (seq, over) = (self.seq, self.over);
        *self = Self {
            seq,
            over,
            asked: self.asked,
            ..Self::default()
        };
    }

    fn output(&mut self, output: &Output, act: &Act, now: Instant) {
        assert!(!self.over, "nothing follows the end");
        match output {
            Output::Open { connect_seq, .. } => {
                assert!(*connect_seq > self.seq, "numbers grow");
                assert!(!self.open && !self.asked, "one connection at a time");
                self.seq = *connect_seq;
                self.asked = true;
            }
            Output::Send(frame) => self.sent(frame, now),
            Output::Ping | Output::Close => assert!(self.open),
            Output::HangUp => {
                self.closed();
                self.asked = false;
            }
            Output::AskCertificate | Output::Certificate(_) => assert!(self.welcomed),
            Output::Spec(_) => assert!(self.welcomed, "no spec before the Welcome"),
            Output::Command(_) => assert!(self.welcomed, "no command before the Welcome"),
            Output::Welcomed { .. } => {
                assert!(matches!(act, Act::Welcome) && self.hellos == 1 && !self.welcomed);
                self.welcomed = true;
            }
            Output::Lost { retry_in, ending } => {
                let most = if matches!(ending, Ending::Goodbye(_) | Ending::Refused { .. }) {
                    RECONNECT_AFTER_MAX * 3 / 2
                } else {
                    BACKOFF_MAX
                };
                assert!((BACKOFF_MIN..=most).contains(retry_in), "{retry_in:?}");
                self.closed();
            }
            Output::Ignored(_) => {}
            Output::Over => self.over = true,
        }
    }

    fn sent(&mut self, frame: &FromNode, now: Instant) {
        assert!(self.open, "nothing is said into the void");
        match frame {
            FromNode::Hello(hello) => {
                self.hellos += 1;
                assert_eq!(self.hellos, 1, "one Hello a connection");
                assert_eq!(hello.connect_seq, self.seq);
            }
            FromNode::Report(report) => {
                assert!(self.welcomed, "no report before the Welcome");
                self.number += 1;
                assert_eq!(report.number, self.number);
                if report.facts.progress.is_some() {
                    self.percent_at = Some(now);
                }
            }
            FromNode::Goodbye(_) => assert_eq!(self.hellos, 1),
            FromNode::CommandResult(_) => assert!(self.welcomed, "no result before the Welcome"),
            FromNode::CertificateRequest(_) => panic!("never asked for"),
        }
    }
}

fn perform(stage: &mut Stage, act: &Act) -> Vec<Output> {
    match act {
        Act::Wake => match stage.session.next_wakeup() {
            Some(_) => stage.wake(),
            None => Vec::new(),
        },
        Act::Jump(ms) => stage.wait(Duration::from_millis(*ms)),
        Act::Open => stage.give(opened()),
        Act::NotOpen => stage.give(Input::NotOpened(Ending::Unreachable(String::new()))),
        Act::Welcome => stage.welcome(),
        Act::WrongWelcome => stage.frame(welcome([0; 16])),
        Act::Spec => stage.frame(FromGateway::Spec(Ok(NodeSpec {
            generation: 1,
            daemon: None,
        }))),
        Act::Command => stage.frame(FromGateway::Command(Ok(Command {
            id: CommandId::derived(&[]),
            expires_at_ms: 0,
            order: Order::Restart,
        }))),
        Act::Result => stage.give(Input::Result(CommandResult {
            id: CommandId::derived(&[]),
            succeeded: true,
            message: String::new(),
            report: Vec::new(),
            code: String::new(),
        })),
        Act::Garbage => stage.give(Input::Frame(Err(FrameError::Undecodable(String::new())))),
        Act::Unknown => stage.give(Input::Frame(Err(FrameError::Empty))),
        Act::Traffic => stage.give(Input::Traffic),
        Act::Close => stage.give(Input::Closed(Ending::Closed(String::new()))),
        Act::Goodbye(reason, after) => stage.frame(goodbye_of(*reason, *after)),
        Act::Facts(generation) => stage.give(told(facts(*generation))),
        Act::Percent(percent) => stage.give(told(downloading(*percent))),
        Act::Leave => stage.give(Input::Leave(Leaving::Stopping)),
    }
}

proptest! {
    #[test]
    fn a_session_keeps_its_manners(
        seed: [u8; 32],
        acts in prop::collection::vec(act(), 1..200),
    ) {
        let mut stage = Stage::with(&["wss://a/", "wss://b/"], seed);
        let mut onlooker = Onlooker { seq: 40, ..Onlooker::default() };
        for act in &acts {
            onlooker.input(act);
            let outputs = perform(&mut stage, act);
            for output in &outputs {
                onlooker.output(output, act, stage.now);
            }
            prop_assert_eq!(stage.session.next_wakeup().is_none(), onlooker.over, "always a deadline");
        }
    }

    #[test]
    fn percents_never_crowd(
        steps in prop::collection::vec((0..300_u64, 1..=100_u8), 1..100),
    ) {
        let mut stage = Stage::welcomed();
        stage.give(told(downloading(0)));
        let mut sent_at = stage.now;
        for (gap, percent) in steps {
            let mut outputs = stage.wait(Duration::from_millis(gap));
            outputs.extend(stage.give(told(downloading(percent))));
            outputs.extend(stage.give(Input::Traffic));
            let reports = outputs.iter().filter(|output| matches!(output, Output::Send(_))).count();
            prop_assert!(reports <= 1);
            if reports == 1 {
                prop_assert!(stage.now - sent_at >= PERCENT_REPORT_INTERVAL);
                sent_at = stage.now;
            }
        }
    }

    #[test]
    fn a_node_left_alone_comes_back(seed: [u8; 32], acts in prop::collection::vec(act(), 1..60)) {
        let mut stage = Stage::with(&["wss://a/", "wss://b/"], seed);
        for act in acts.iter().filter(|act| !matches!(act, Act::Leave)) {
            perform(&mut stage, act);
        }
        // Whatever came before: whoever answers from now on gets a session, with three wakeups.
        for _ in 0..3 {
            for output in stage.give(Input::Closed(Ending::Closed(String::new()))) {
                prop_assert!(!matches!(output, Output::Over));
            }
            let woken = stage.wake();
            if woken.iter().any(|output| matches!(output, Output::Open { .. })) {
                stage.give(opened());
                let welcomed = stage.welcome();
                let is_welcomed = |output: &Output| matches!(output, Output::Welcomed { .. });
                prop_assert!(welcomed.iter().any(is_welcomed));
                return Ok(());
            }
        }
        prop_assert!(false, "no connection");
    }
}
