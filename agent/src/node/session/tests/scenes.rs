//! What a session does, scene by scene.

use bc_protocol::session::FrameError;
use bc_protocol::spec::NodeSpec;

use super::*;
use crate::node::limits::FRAMES_AT_ONCE_MAX;

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
fn a_gateway_that_never_stops_is_read_once_a_second() {
    let mut stage = Stage::welcomed();
    let unknown = || Input::Frame(Err(FrameError::Empty));
    // The Welcome was the first.
    for _ in 1..FRAMES_AT_ONCE_MAX {
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
    for _ in 1..FRAMES_AT_ONCE_MAX {
        assert!(stage.session.listens());
        stage.give(unknown());
    }
}

#[test]
fn pings_without_end_are_answered_at_a_steady_pace() {
    for welcomed in [true, false] {
        let mut stage = Stage::new();
        stage.wake();
        stage.give(opened());
        if welcomed {
            stage.welcome();
        }
        for _ in 0..FRAMES_AT_ONCE_MAX {
            assert!(stage.session.listens());
            stage.give(Input::Traffic);
        }
        for _ in 0..10 {
            stage.give(Input::Traffic);
            assert!(!stage.session.listens());
            assert_eq!(stage.next(), (SIGN_INTERVAL, Wakeup::ReadOn));
            stage.wake();
            assert!(stage.session.listens());
        }
    }
}

#[test]
fn a_gateway_that_puts_its_welcome_off_is_read_once_a_second() {
    let mut stage = Stage::new();
    stage.wake();
    stage.give(opened());
    let mut other = stage.nonce;
    other[0] ^= 1;
    for _ in 0..FRAMES_AT_ONCE_MAX {
        assert!(stage.session.listens());
        stage.frame(welcome(other));
    }
    stage.frame(welcome(other));
    assert!(!stage.session.listens());
    stage.wait(FRAME_INTERVAL);
    assert!(stage.session.listens());
    let outputs = stage.welcome();
    assert!(matches!(outputs[..], [Output::Welcomed { .. }]));
}
