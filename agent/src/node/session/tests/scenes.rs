//! What a session does, scene by scene.

use bc_protocol::limits::RECONNECT_AFTER_MAX;
use bc_protocol::session::FrameError;
use bc_protocol::spec::NodeSpec;

use super::*;
use crate::node::limits::{FRAME_INTERVAL, FRAMES_AT_ONCE_MAX};
use crate::updater::machine::Lost;

#[test]
fn from_nothing_to_a_session() {
    let mut stage = Stage::new();
    assert_eq!(stage.next(), (Duration::ZERO, Wakeup::Reconnect));
    assert_eq!(
        stage.wake(),
        [Output::Open {
            gateway: "wss://one/session".to_owned(),
            connect_seq: 41
        }]
    );
    assert_eq!(stage.next(), (OPEN_DEADLINE, Wakeup::OpenOverdue));
    let outputs = stage.give(opened());
    let [Output::Send(FromNode::Hello(hello))] = &outputs[..] else {
        panic!("expected one Hello, found {outputs:?}");
    };
    assert_eq!((hello.connect_seq, &hello.facts), (41, &facts(0)));
    assert_eq!(stage.next(), (WELCOME_DEADLINE, Wakeup::WelcomeOverdue));
    let outputs = stage.welcome();
    assert!(matches!(
        &outputs[..],
        [Output::Welcomed { gateway, upgrade_required: false, .. }] if gateway == "wss://one/session"
    ));
    assert_eq!(stage.next(), (Duration::from_secs(10), Wakeup::Heartbeat));
}

#[test]
fn nobody_answers() {
    let mut stage = Stage::new();
    stage.wake();
    let outputs = stage.wake();
    assert_eq!(outputs[0], Output::HangUp);
    assert_eq!(lost(&outputs).unwrap().0, &Ending::OpenOverdue);
    stage.wake();
    stage.give(opened());
    let outputs = stage.wake();
    assert_eq!(outputs[0], Output::HangUp);
    assert_eq!(lost(&outputs).unwrap().0, &Ending::WelcomeOverdue);
}

#[test]
fn a_welcome_for_somebody_else_changes_nothing() {
    let mut stage = Stage::new();
    let early = stage.frame(welcome([0; 16]));
    assert_eq!(early, [Output::Ignored(Ignored::Welcome)]);
    stage.wake();
    stage.frame(welcome([0; 16]));
    assert_eq!(stage.next(), (OPEN_DEADLINE, Wakeup::OpenOverdue));
    stage.give(opened());
    let mut other = stage.nonce;
    other[0] ^= 1;
    let wrong = stage.frame(welcome(other));
    assert_eq!(wrong, [Output::Ignored(Ignored::WelcomeToAnother)]);
    assert_eq!(stage.next(), (WELCOME_DEADLINE, Wakeup::WelcomeOverdue));
    assert_eq!(stage.give(told(facts(1))), [], "still no report");
    stage.welcome();
    let second = stage.welcome();
    assert_eq!(second, [Output::Ignored(Ignored::Welcome)]);
    let late = stage.nonce;
    stage.give(Input::Closed(Ending::Closed(String::new())));
    let before = stage.next();
    assert_eq!(
        stage.frame(welcome(late)),
        [Output::Ignored(Ignored::Welcome)]
    );
    assert_eq!(stage.next(), before);
}

#[test]
fn a_protocol_that_was_not_offered_is_refused() {
    let mut stage = Stage::new();
    stage.wake();
    stage.give(opened());
    let FromGateway::Welcome(mut strange) = welcome(stage.nonce) else {
        unreachable!()
    };
    strange.protocol = ProtocolRange::CURRENT.max + 1;
    let outputs = stage.frame(FromGateway::Welcome(strange));
    assert!(matches!(&outputs[..], [
        Output::Send(FromNode::Goodbye(goodbye)),
        Output::HangUp,
        Output::Lost { ending: Ending::Broken(_), .. },
    ] if goodbye.reason == GoodbyeReason::ProtocolError));
}

#[test]
fn facts_that_changed_behind_the_hello_follow_the_welcome() {
    let mut stage = Stage::new();
    stage.wake();
    stage.give(opened());
    assert_eq!(stage.give(told(facts(1))), []);
    assert_eq!(stage.give(told(facts(2))), []);
    let outputs = stage.welcome();
    assert_eq!(report(&outputs[1..]), Some((1, &facts(2))));
}

#[test]
fn reports_are_numbered_and_never_repeated() {
    let mut stage = Stage::welcomed();
    assert_eq!(stage.give(told(facts(0))), [], "the Hello said so");
    assert_eq!(report(&stage.give(told(facts(1)))), Some((1, &facts(1))));
    assert_eq!(stage.give(told(facts(1))), []);
    assert_eq!(report(&stage.give(told(facts(2)))), Some((2, &facts(2))));
}

#[test]
fn percents_come_twice_a_second_and_the_newest_wins() {
    let mut stage = Stage::welcomed();
    assert!(report(&stage.give(told(downloading(0)))).is_some());
    for percent in 1..50 {
        assert_eq!(stage.give(told(downloading(percent))), []);
    }
    assert_eq!(stage.next(), (Duration::from_millis(500), Wakeup::Report));
    assert_eq!(report(&stage.wake()), Some((2, &downloading(49))));
    assert_eq!(stage.next().1, Wakeup::Heartbeat, "nothing more to tell");
    stage.give(told(downloading(50)));
    let other = facts(9);
    assert_eq!(report(&stage.give(told(other.clone()))), Some((3, &other)));
    assert_eq!(stage.next().1, Wakeup::Heartbeat, "the percent is old news");
    assert_eq!(stage.give(told(other)), []);
}

#[test]
fn silence_for_three_heartbeats() {
    let mut stage = Stage::welcomed();
    assert_eq!(stage.wake(), [Output::Ping]);
    assert_eq!(stage.wake(), [Output::Ping]);
    let outputs = stage.wake();
    assert_eq!(outputs[0], Output::HangUp);
    let silence = Ending::Silent(Duration::from_secs(30));
    assert_eq!(lost(&outputs).unwrap().0, &silence);
}

#[test]
fn any_sign_of_life_counts() {
    let mut stage = Stage::welcomed();
    for sign in [
        Input::Traffic,
        Input::Frame(Err(FrameError::Empty)),
        Input::Frame(Ok(FromGateway::Spec(Ok(NodeSpec {
            generation: 1,
            daemon: None,
        })))),
    ] {
        stage.wait(Duration::from_secs(29));
        stage.give(sign);
        stage.wait(Duration::from_secs(29));
        assert_eq!(stage.next().1, Wakeup::Silence);
        stage.give(Input::Traffic);
    }
}

#[test]
fn a_heartbeat_stays_within_reason() {
    for (asked, used) in [(0, 500), (1, 500), (20_000, 20_000), (u32::MAX, 300_000)] {
        let mut stage = Stage::new();
        stage.wake();
        stage.give(opened());
        let FromGateway::Welcome(mut welcome) = welcome(stage.nonce) else {
            unreachable!()
        };
        welcome.heartbeat_interval_ms = asked;
        stage.frame(FromGateway::Welcome(welcome));
        let expected = (Duration::from_millis(used), Wakeup::Heartbeat);
        assert_eq!(stage.next(), expected, "{asked}");
    }
}

#[test]
fn specs_are_delivered_as_they_come_but_not_before_the_welcome() {
    let spec = NodeSpec {
        generation: 3,
        daemon: None,
    };
    let mut stage = Stage::welcomed();
    for _ in 0..2 {
        let outputs = stage.frame(FromGateway::Spec(Ok(spec.clone())));
        assert_eq!(outputs, [Output::Spec(Ok(spec.clone()))]);
    }
    let mut stage = Stage::new();
    stage.wake();
    stage.give(opened());
    let outputs = stage.frame(FromGateway::Spec(Ok(spec)));
    assert!(matches!(lost(&outputs), Some((Ending::Broken(_), _))));
}

#[test]
fn what_a_newer_gateway_says_does_no_harm_and_nonsense_does() {
    let mut stage = Stage::welcomed();
    let outputs = stage.give(Input::Frame(Err(FrameError::Empty)));
    assert!(matches!(
        &outputs[..],
        [Output::Ignored(Ignored::Unknown(_))]
    ));
    // A command of a later build is for the node to answer.
    let unreadable = bc_protocol::command::Unreadable {
        id: None,
        problem: bc_protocol::command::CommandError::Kind,
    };
    let outputs = stage.frame(FromGateway::Command(Err(unreadable.clone())));
    assert_eq!(outputs, [Output::Command(Err(unreadable))]);
    for nonsense in [
        FrameError::Undecodable(String::new()),
        FrameError::TooLarge { found: 2, max: 1 },
        FrameError::field("nonce", "16 bytes", "3 bytes"),
    ] {
        let mut stage = Stage::welcomed();
        let outputs = stage.give(Input::Frame(Err(nonsense)));
        assert!(matches!(lost(&outputs), Some((Ending::Broken(_), _))));
    }
}

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
fn a_gateway_that_never_stops_is_read_once_a_second() {
    let mut stage = Stage::welcomed();
    let unknown = || Input::Frame(Err(FrameError::Empty));
    for _ in 0..FRAMES_AT_ONCE_MAX {
        assert!(stage.session.listens());
        stage.give(unknown());
    }
    for _ in 0..10 {
        stage.give(unknown());
        assert!(!stage.session.listens());
        stage.wait(FRAME_INTERVAL - Duration::from_millis(1));
        assert!(!stage.session.listens());
        stage.wait(Duration::from_millis(1));
        assert!(stage.session.listens());
    }
    // A new session does not forget what the last one said, and hears its own Welcome.
    stage.give(unknown());
    stage.give(Input::Closed(Ending::Closed(String::new())));
    assert!(stage.session.listens());
    // Who was silent for as long has all of it again.
    stage.now += FRAME_INTERVAL * FRAMES_AT_ONCE_MAX;
    stage.wake();
    stage.give(opened());
    stage.welcome();
    for _ in 0..FRAMES_AT_ONCE_MAX {
        assert!(stage.session.listens());
        stage.give(unknown());
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
