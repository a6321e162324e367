//! How long a node stays away, for whom, and how it leaves.

use bc_protocol::limits::RECONNECT_AFTER_MAX;

use super::*;
use crate::node::limits::CONNECT_SEQ_MAX;
use crate::updater::machine::Lost;

#[test]
fn a_goodbye_is_honoured_with_jitter() {
    for (reason, after_ms, least_ms, most_ms) in [
        (GoodbyeReason::Stopping, 0, 500, 1_000),
        (GoodbyeReason::Stopping, 8_000, 8_000, 12_000),
        (GoodbyeReason::Overloaded, 100, 500, 1_000),
        (GoodbyeReason::Removed, 0, 30_000, 60_000),
        (GoodbyeReason::ProtocolTooNew, 0, 30_000, 60_000),
        (GoodbyeReason::Stopping, u32::MAX, 600_000, 900_000),
    ] {
        for seed in 0..20 {
            let mut stage = Stage::with(&["wss://one/session"], [seed; 32]);
            stage.wake();
            stage.give(opened());
            stage.welcome();
            let outputs = stage.frame(goodbye_of(reason, after_ms));
            assert_eq!(outputs[0], Output::HangUp);
            let (_, wait) = lost(&outputs).unwrap();
            let range = Duration::from_millis(least_ms)..=Duration::from_millis(most_ms);
            assert!(range.contains(&wait), "{reason:?} {after_ms}: {wait:?}");
            assert_eq!(stage.next(), (wait, Wakeup::Reconnect));
        }
    }
    assert!(RECONNECT_AFTER_MAX * 3 / 2 == Duration::from_secs(900));
}

#[test]
fn a_superseded_node_goes_on_above_the_winner() {
    for (winner, expected) in [
        (3, 42),
        (41, 42),
        (5_000, 5_001),
        (u64::MAX, CONNECT_SEQ_MAX + 1),
    ] {
        let mut stage = Stage::new();
        stage.wake();
        stage.give(opened());
        let superseded = GoodbyeReason::Superseded {
            connect_seq: winner,
        };
        stage.frame(goodbye_of(superseded, 0));
        let outputs = stage.wake();
        assert!(
            matches!(&outputs[..], [Output::Open { connect_seq, .. }] if *connect_seq == expected),
            "{winner}: {outputs:?}"
        );
    }
}

/// A gateway that lied may have driven the number above what is believed, and the node's own file may be lost since.
#[test]
fn a_node_comes_back_though_the_winner_is_higher_than_is_believed() {
    let mut stage = Stage::new();
    let winner = CONNECT_SEQ_MAX + 100;
    let mut rounds = 0;
    loop {
        let outputs = stage.wake();
        let [Output::Open { connect_seq, .. }] = outputs[..] else {
            panic!("{outputs:?}");
        };
        if connect_seq > winner {
            break;
        }
        stage.give(opened());
        let superseded = GoodbyeReason::Superseded {
            connect_seq: winner,
        };
        stage.frame(goodbye_of(superseded, 0));
        rounds += 1;
        assert!(rounds < 3);
    }
}

#[test]
fn waits_grow_until_a_session_holds() {
    let mut stage = Stage::new();
    let mut ceiling = Duration::from_secs(1);
    for _ in 0..25 {
        stage.wake();
        let outputs = stage.give(Input::NotOpened(Ending::Unreachable(String::new())));
        let (_, wait) = lost(&outputs).unwrap();
        assert!(wait <= ceiling, "{wait:?} above {ceiling:?}");
        ceiling = (ceiling * 5 / 4).min(Duration::from_secs(60));
    }
    let short = |stage: &mut Stage, held: Duration| {
        stage.wake();
        stage.give(opened());
        stage.welcome();
        stage.now += held;
        stage.give(Input::Closed(Ending::Closed(String::new())));
        let ceiling = stage.session.backoff;
        format!("{ceiling:?}")
    };
    assert!(short(&mut stage, Duration::from_secs(1)).contains("60s"));
    assert!(short(&mut stage, SESSION_HELD).contains("1.25s"));
}

fn refused(status: u16) -> Ending {
    Ending::Refused {
        status,
        retry_after: None,
    }
}

fn busy(seconds: u64) -> Ending {
    Ending::Refused {
        status: 429,
        retry_after: Some(Duration::from_secs(seconds)),
    }
}

/// How long a node waits after each of these, one after the other.
fn waits(stage: &mut Stage, endings: &[Ending]) -> Vec<Duration> {
    let mut waits = Vec::new();
    for ending in endings {
        stage.wake();
        for output in stage.give(Input::NotOpened(ending.clone())) {
            if let Output::Lost { retry_in, .. } = output {
                waits.push(retry_in);
            }
        }
    }
    waits
}

#[test]
fn a_gateway_without_time_is_asked_again_when_it_said() {
    for seed in 0..20 {
        let mut stage = Stage::with(&["wss://a/"], [seed; 32]);
        let waited = waits(&mut stage, &[busy(30), busy(u64::MAX)]);
        let [first, second] = waited[..] else {
            panic!("{waited:?}");
        };
        let secs = Duration::from_secs;
        assert!((secs(30)..=secs(45)).contains(&first), "{first:?}");
        // Nobody is sent away for ever.
        assert!(second <= secs(1350), "{second:?}");
    }
}

#[test]
fn who_has_other_gateways_does_not_wait_for_the_one_without_time() {
    let mut stage = Stage::with(&["wss://a/", "wss://b/"], [1; 32]);
    let waited = waits(&mut stage, &[busy(30), busy(30)]);
    assert!(waited[0] <= Duration::from_secs(1), "{waited:?}");
    assert!(waited[1] >= Duration::from_secs(30), "{waited:?}");
}

#[test]
fn every_gateway_is_tried_before_any_is_tried_again() {
    let gateways = ["wss://a/", "wss://b/", "wss://c/"];
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..30 {
        let mut stage = Stage::with(&gateways, [seed; 32]);
        let mut round = Vec::new();
        for _ in 0..3 {
            for output in stage.wake() {
                if let Output::Open { gateway, .. } = output {
                    round.push(gateway);
                }
            }
            stage.give(Input::NotOpened(refused(503)));
        }
        orders.insert(round.clone());
        round.sort();
        assert_eq!(round, gateways);
    }
    assert_eq!(orders.len(), 6, "in every order, by chance");
}

#[test]
fn leaving_says_goodbye_and_ends() {
    for (leaving, reason) in [
        (Leaving::Stopping, GoodbyeReason::Stopping),
        (Leaving::Updating, GoodbyeReason::Updating),
    ] {
        let mut stage = Stage::welcomed();
        let outputs = stage.give(Input::Leave(leaving));
        assert!(matches!(&outputs[..], [
            Output::Send(FromNode::Goodbye(goodbye)),
            Output::Close,
        ] if goodbye.reason == reason));
        assert_eq!(stage.next(), (GOODBYE_DEADLINE, Wakeup::GoodbyeOverdue));
        assert_eq!(stage.give(told(facts(5))), []);
        assert_eq!(stage.wake(), [Output::Over]);
        assert_eq!(stage.session.next_wakeup(), None);
    }
}

#[test]
fn leaving_ends_with_the_other_sides_close() {
    let mut stage = Stage::welcomed();
    stage.give(Input::Leave(Leaving::Stopping));
    let closed = Input::Closed(Ending::Closed(String::new()));
    assert_eq!(stage.give(closed), [Output::Over]);
}

#[test]
fn leaving_without_a_session_is_at_once() {
    let mut stage = Stage::new();
    assert_eq!(stage.give(Input::Leave(Leaving::Stopping)), [Output::Over]);
    let mut stage = Stage::new();
    stage.wake();
    let outputs = stage.give(Input::Leave(Leaving::Updating));
    assert_eq!(outputs, [Output::HangUp, Output::Over]);
}

#[test]
fn who_is_to_blame() {
    let said = |reason| {
        let FromGateway::Goodbye(goodbye) = goodbye_of(reason, 0) else {
            unreachable!()
        };
        Ending::Goodbye(goodbye)
    };
    for (ending, lost) in [
        (Ending::Unreachable(String::new()), Lost::Unreachable),
        (Ending::OpenOverdue, Lost::Unreachable),
        (refused(429), Lost::NotNow),
        (refused(503), Lost::NotNow),
        (refused(404), Lost::Closed),
        (said(GoodbyeReason::Stopping), Lost::NotNow),
        (said(GoodbyeReason::Overloaded), Lost::NotNow),
        (said(GoodbyeReason::ProtocolTooNew), Lost::Closed),
        (said(GoodbyeReason::ProtocolError), Lost::Closed),
        (Ending::WelcomeOverdue, Lost::Closed),
        (Ending::Broken(String::new()), Lost::Closed),
    ] {
        assert_eq!(ending.lost(), lost, "{ending}");
    }
}
