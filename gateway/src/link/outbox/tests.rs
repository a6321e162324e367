//! What leaves, when, and what is left out.

mod truth;

use bc_protocol::{
    digest::Sha256,
    id::AttemptId,
    limits::{LINK_FRAME_BYTES_MAX, LOG_BYTES_MAX},
    link::NodeReport,
    session::{AttemptFacts, Facts, Outcome},
};

use super::*;
use crate::fixture::{facts, node, opened, session};

fn report(name: u8, connect_seq: u64, number: u64) -> NodeReport {
    NodeReport {
        node: node(name),
        session: session(connect_seq),
        connect_seq,
        report: number,
        facts: facts(number),
    }
}

fn closed(name: u8, connect_seq: u64) -> SessionClosed {
    SessionClosed {
        node: node(name),
        session: session(connect_seq),
        connect_seq,
        reason: String::new(),
    }
}

fn batch(outbox: &mut Outbox) -> Option<Batch> {
    let frame = outbox.next_batch()?;
    assert!(frame.len() <= LINK_FRAME_BYTES_MAX);
    match FromGateway::decode(&frame).unwrap() {
        FromGateway::Batch(batch) => Some(batch),
        other @ (FromGateway::Hello(_)
        | FromGateway::CertificateWanted(_)
        | FromGateway::OwnCertificateWanted(_)) => panic!("{other:?}"),
    }
}

/// A word for each event: kind, node's number, counter and report.
fn words(events: &[Event]) -> Vec<String> {
    let name = |of: &NodeId| (0..=u8::MAX).find(|name| node(*name) == *of).unwrap();
    events
        .iter()
        .map(|event| match event {
            Event::Opened(e) => format!("open {} {}.{}", name(&e.node), e.connect_seq, e.report),
            Event::Report(e) => format!("report {} {}.{}", name(&e.node), e.connect_seq, e.report),
            Event::Closed(e) => format!("close {} {}", name(&e.node), e.connect_seq),
            Event::Ended(e) => format!("ended {} {}", name(&e.node), e.connect_seq),
            Event::Listed => "listed".to_owned(),
        })
        .collect()
}

fn next(outbox: &mut Outbox) -> Vec<String> {
    batch(outbox).map_or_else(Vec::new, |batch| words(&batch.events))
}

fn linked() -> Outbox {
    let mut outbox = Outbox::default();
    outbox.linked();
    assert_eq!(next(&mut outbox), ["listed"]);
    outbox.acknowledged(1).unwrap();
    outbox
}

#[test]
fn nothing_leaves_without_a_link_and_then_the_newest_does() {
    let mut outbox = Outbox::default();
    outbox.opened(opened(0, 1)).unwrap();
    outbox.reported(report(0, 1, 1));
    outbox.reported(report(0, 1, 2));
    outbox.opened(opened(1, 1)).unwrap();
    outbox.reported(report(1, 1, 4));
    outbox.closed(closed(1, 1));
    assert_eq!(next(&mut outbox), [""; 0]);
    outbox.linked();
    assert_eq!(
        next(&mut outbox),
        ["open 0 1.2", "open 1 1.4", "close 1 1", "listed"]
    );
    assert!(!outbox.is_idle());
    outbox.acknowledged(1).unwrap();
    assert!(outbox.is_idle());
}

#[test]
fn a_listing_names_the_certificate_that_the_node_was_given_last() {
    let mut outbox = linked();
    outbox.opened(opened(0, 1)).unwrap();
    assert_eq!(next(&mut outbox), ["open 0 1.0"]);
    let given = Some(Sha256::of(b"today"));
    outbox.certified(&node(0), given);
    outbox.certified(&node(1), given);
    // Control has sent it: that is no news.
    assert_eq!(next(&mut outbox), [""; 0]);
    outbox.linked();
    let again = batch(&mut outbox).unwrap();
    assert_eq!(words(&again.events), ["open 0 1.0"]);
    let named = batch(&mut outbox).unwrap().events;
    let Some(Event::Opened(opened)) = named.first() else {
        panic!("{named:?}");
    };
    assert_eq!(opened.company, given);
}

#[test]
fn little_waits_for_company_while_something_is_under_way() {
    let mut outbox = linked();
    outbox.opened(opened(0, 1)).unwrap();
    // Nothing is under way, so it leaves at once.
    assert!(!outbox.is_worth_waiting());
    assert_eq!(next(&mut outbox), ["open 0 1.0"]);
    outbox.opened(opened(1, 1)).unwrap();
    assert!(outbox.is_worth_waiting());
    outbox.acknowledged(2).unwrap();
    assert!(!outbox.is_worth_waiting());
    // Nor does it where there is much, or where a new link has yet to hear what the last one may not have.
    assert_eq!(next(&mut outbox), ["open 1 1.0"]);
    for name in 0..u8::try_from(BATCH_WORTH_NODES).unwrap() {
        assert!(outbox.is_worth_waiting());
        outbox.opened(opened(name + 2, 1)).unwrap();
    }
    assert!(!outbox.is_worth_waiting());
    outbox.linked();
    assert!(!outbox.is_worth_waiting());
}

#[test]
fn reports_that_wait_become_one() {
    let mut outbox = linked();
    outbox.opened(opened(0, 1)).unwrap();
    assert_eq!(next(&mut outbox), ["open 0 1.0"]);
    for number in 1..9 {
        outbox.reported(report(0, 1, number));
    }
    assert_eq!(next(&mut outbox), ["report 0 1.8"]);
    outbox.reported(report(0, 1, 9));
    outbox.closed(closed(0, 1));
    assert_eq!(next(&mut outbox), ["report 0 1.9", "close 0 1"]);
}

/// A node whose counter was lost while the link was away: its session would be one that control never hears of.
#[test]
fn a_session_below_one_that_has_ended_is_told_the_winner() {
    let mut outbox = linked();
    outbox.opened(opened(0, 9)).unwrap();
    outbox.closed(closed(0, 9));
    for below in [9, 2] {
        let told = outbox.opened(opened(0, below));
        assert_eq!(told, Err(Overtaken { winning: 9 }));
        // Its end is none of what control hears.
        outbox.closed(closed(0, below));
    }
    assert_eq!(outbox.opened(opened(0, 10)), Ok(()));
    assert_eq!(next(&mut outbox), ["open 0 10.0"]);
}

#[test]
fn a_superseded_session_is_heard_no_more() {
    let mut outbox = linked();
    outbox.opened(opened(0, 1)).unwrap();
    outbox.opened(opened(0, 2)).unwrap();
    outbox.reported(report(0, 1, 7));
    outbox.closed(closed(0, 1));
    let late = outbox.opened(opened(0, 1));
    assert_eq!(late, Err(Overtaken { winning: 2 }));
    assert_eq!(next(&mut outbox), ["open 0 2.0"]);
    assert_eq!(next(&mut outbox), [""; 0]);
}

#[test]
fn the_window_bounds_what_is_under_way() {
    let mut outbox = linked();
    for connect_seq in 1..20 {
        outbox.opened(opened(0, connect_seq)).unwrap();
        let sent = batch(&mut outbox).is_some();
        assert_eq!(
            sent,
            connect_seq <= u64::try_from(LINK_WINDOW_BATCHES).unwrap()
        );
    }
    outbox.acknowledged(3).unwrap();
    assert_eq!(next(&mut outbox), ["open 0 19.0"]);
}

#[test]
fn a_cut_repeats_what_was_not_acknowledged_and_names_who_is_here() {
    let mut outbox = linked();
    outbox.opened(opened(0, 1)).unwrap();
    outbox.opened(opened(1, 1)).unwrap();
    let lost = batch(&mut outbox).unwrap();
    outbox.closed(closed(1, 1));
    outbox.reported(report(0, 1, 1));
    outbox.linked();
    assert_eq!(batch(&mut outbox).unwrap(), lost);
    assert_eq!(next(&mut outbox), ["close 1 1", "open 0 1.1", "listed"]);
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_is_a_fault() {
    let mut outbox = linked();
    outbox.opened(opened(0, 1)).unwrap();
    assert!(outbox.acknowledged(2).is_err());
    let _lost = batch(&mut outbox).unwrap();
    outbox.acknowledged(2).unwrap();
    outbox.acknowledged(2).unwrap();
    outbox.opened(opened(0, 2)).unwrap();
    let _lost = batch(&mut outbox).unwrap();
    outbox.linked();
    assert!(outbox.acknowledged(3).is_err());
}

#[test]
fn too_many_ended_sessions_are_left_to_the_next_listing() {
    let mut outbox = Outbox::bounded(2);
    outbox.linked();
    assert_eq!(next(&mut outbox), ["listed"]);
    outbox.opened(opened(9, 1)).unwrap();
    for name in 0..4 {
        outbox.opened(opened(name, 1)).unwrap();
        outbox.closed(closed(name, 1));
        assert!(outbox.nodes.len() <= 4);
    }
    assert!(outbox.needs_link());
    assert_eq!(next(&mut outbox), [""; 0]);
    outbox.linked();
    assert_eq!(
        next(&mut outbox),
        ["open 9 1.0", "open 3 1.0", "close 3 1", "listed"]
    );
}

#[test]
fn logs_that_fill_a_frame_go_in_several() {
    let mut outbox = linked();
    for name in 0..200 {
        let attempt = AttemptFacts {
            id: AttemptId::derived(&[]),
            target: String::new(),
            outcome: Outcome::Crashed,
            is_final: true,
            tries: 1,
            code: String::new(),
            message: String::new(),
            exit_status: None,
            signal: None,
            log: "x".repeat(LOG_BYTES_MAX),
        };
        let facts = Facts {
            last_attempt: Some(attempt),
            ..facts(0)
        };
        let opened = SessionOpened {
            facts,
            ..opened(name, 1)
        };
        outbox.opened(opened).unwrap();
    }
    let batches: Vec<usize> = std::iter::from_fn(|| batch(&mut outbox))
        .map(|batch| batch.events.len())
        .collect();
    assert_eq!(batches.len(), LINK_WINDOW_BATCHES);
    assert_eq!(batches.iter().sum::<usize>(), 4 * batches[0]);
}
