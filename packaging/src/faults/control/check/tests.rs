//! Histories that somebody made up: a sound one, and what is wrong with every other.

use super::*;

const ROLLOUT: &str = "rollout_a";

/// A history in the making. Times are its entries' numbers.
#[derive(Default)]
struct Forged {
    entries: Vec<Entry>,
    head: Option<Head>,
    position: i64,
    tx: i64,
}

impl Forged {
    /// Two nodes in two waves, of which the first is started, settles and soaks.
    fn sound() -> Self {
        let mut forged = Self::default();
        forged.commit(|f| {
            f.head("running", 0)
                .row("n1", 0, (None, "pending"))
                .row("n2", 1, (None, "pending"))
        });
        forged.event("rollout.started");
        forged.start("n1", 0, 1);
        forged
    }

    fn commit(&mut self, inside: impl FnOnce(&mut Self) -> &mut Self) -> &mut Self {
        self.tx += 1;
        inside(self)
    }

    fn push(&mut self, what: What) -> &mut Self {
        let number = i64::try_from(self.entries.len()).unwrap() + 1;
        self.entries.push(Entry {
            number,
            tx: self.tx,
            at: number,
            what,
        });
        self
    }

    fn head(&mut self, state: &str, wave: i64) -> &mut Self {
        let was = self.head.clone();
        let now = Head {
            state: state.to_owned(),
            wave,
            revision: was.as_ref().map_or(0, |was| was.revision + 1),
            soak: 2,
            settled: None,
        };
        self.head = Some(now.clone());
        let rollout = ROLLOUT.to_owned();
        self.push(What::Head { rollout, was, now })
    }

    fn row(&mut self, node: &str, wave: i64, (was, now): (Option<&str>, &str)) -> &mut Self {
        self.push(What::Row(moved(node, Some(wave), (was, now))))
    }

    fn event(&mut self, kind: &str) -> &mut Self {
        self.position += 1;
        self.push(What::Event {
            position: self.position,
            kind: kind.to_owned(),
            subject: format!("rollout/{ROLLOUT}"),
        })
    }

    fn places(&mut self, disrupted: i64, counted: i64) -> &mut Self {
        self.push(What::Places(Places {
            pool: "pool_a".to_owned(),
            disrupted,
            counted,
            nodes: 10,
            counted_nodes: 10,
            budget: 100_000,
        }))
    }

    /// As a pass does it, with so many disrupted afterwards.
    fn start(&mut self, node: &str, wave: i64, disrupted: i64) -> &mut Self {
        self.commit(|f| {
            let (state, at) = f
                .head
                .clone()
                .map_or(("running".to_owned(), wave), |h| (h.state, h.wave));
            f.head(&state, at)
                .row(node, wave, (Some("pending"), "upgrading"))
                .places(disrupted, disrupted)
        })
    }

    fn settle(&mut self, node: &str, wave: i64) -> &mut Self {
        self.commit(|f| {
            f.row(node, wave, (Some("upgrading"), "succeeded"))
                .places(0, 0)
        })
    }

    /// The time of the newest entry.
    fn now(&self) -> i64 {
        i64::try_from(self.entries.len()).unwrap()
    }

    fn found(&self, said: &[Said]) -> Vec<String> {
        Checker::default().look(&self.entries, said)
    }

    fn check(&self, said: &[Said], complaint: &str) {
        let found = self.found(said);
        let complains = found.iter().any(|wrong| wrong.starts_with(complaint));
        assert!(complains, "expected {complaint}, found {found:?}");
    }
}

fn moved(node: &str, wave: Option<i64>, (was, now): (Option<&str>, &str)) -> Move {
    Move {
        rollout: ROLLOUT.to_owned(),
        node: node.to_owned(),
        pool: "pool_a".to_owned(),
        wave,
        was: was.map(str::to_owned),
        now: now.to_owned(),
    }
}

fn said(method: &'static str, sent_at: i64, answered_at: i64) -> Said {
    Said {
        method,
        rollout: ROLLOUT.to_owned(),
        sent_at,
        answered_at,
        outcome: Outcome::Done,
    }
}

#[test]
fn a_sound_history_is_sound() {
    let mut forged = Forged::sound();
    forged.settle("n1", 0);
    let sent = forged.now();
    forged.commit(|f| f.head("paused", 0).event("rollout.paused"));
    let paused = said("pause", sent, forged.now());
    forged.commit(|f| f.head("running", 0).event("rollout.resumed"));
    forged.commit(|f| f.head("running", 1).event("rollout.wave"));
    forged.start("n2", 1, 1).settle("n2", 1);
    forged.commit(|f| f.head("completed", 1).event("rollout.completed"));
    assert_eq!(
        forged.found(&[paused, said("resume", sent + 3, sent + 4)]),
        Vec::<String>::new()
    );
}

// I19
#[test]
fn a_row_that_goes_back_jumps_or_moves_twice_is_seen() {
    for (was, now) in [
        ("upgrading", "pending"),
        ("upgrading", "rolled-back"),
        ("pending", "skipped"),
    ] {
        let mut forged = Forged::sound();
        forged.commit(|f| f.row("n1", 0, (Some(was), now)));
        forged.check(&[], "I19");
    }
    let mut forged = Forged::sound();
    forged.commit(|f| f.row("n3", 0, (None, "failed")));
    forged.check(&[], "I19");
}

// I19
#[test]
fn a_node_in_flight_twice_is_seen() {
    let mut forged = Forged::sound();
    let mut late = moved("n1", None, (None, "upgrading"));
    late.rollout = "rollout_b".to_owned();
    forged.commit(|f| f.push(What::Late(late)).places(1, 1));
    forged.check(&[], "I19: n1 is in flight");
}

// I21
#[test]
fn a_start_over_the_bound_without_a_place_or_with_a_wrong_count_is_seen() {
    let mut forged = Forged::sound();
    forged.commit(|f| f.row("n3", 0, (None, "pending")));
    let mut over = forged;
    over.start("n3", 0, 2);
    over.check(&[], "I21: 1 of pool_a started, and 2");
    let mut forged = Forged::sound();
    forged.commit(|f| f.row("n3", 0, (None, "pending")));
    forged.commit(|f| f.row("n3", 0, (Some("pending"), "upgrading")));
    forged.check(&[], "I21: 1 of pool_a started without");
    let mut forged = Forged::sound();
    forged.commit(|f| f.places(1, 2));
    forged.check(&[], "I21: pool_a says");
}

// I22
#[test]
fn a_wave_that_opens_early_is_seen() {
    let mut forged = Forged::sound();
    forged.commit(|f| f.head("running", 1).event("rollout.wave"));
    forged.start("n2", 1, 1);
    forged.check(&[], "I22: n2 of wave 1 started before");
    let mut forged = Forged::sound();
    forged.start("n2", 1, 1);
    forged.check(&[], "I22: n2 of wave 1 started in wave 0");
    let mut forged = Forged::sound();
    forged.settle("n1", 0);
    let settled = forged.now();
    forged.commit(|f| {
        let was = f.head.clone();
        let mut now = was.clone().unwrap();
        now.revision += 1;
        now.settled = Some(settled + 1);
        f.head = Some(now.clone());
        let rollout = ROLLOUT.to_owned();
        f.push(What::Head { rollout, was, now })
    });
    forged.commit(|f| f.head("running", 1).event("rollout.wave"));
    forged.check(&[], "I22: wave 1 of rollout_a opened before the soak");
}

// I23
#[test]
fn a_start_behind_a_pause_is_seen() {
    let mut forged = Forged::sound();
    forged.commit(|f| f.row("n3", 0, (None, "pending")));
    let sent = forged.now();
    forged.commit(|f| f.head("paused", 0).event("rollout.paused"));
    let paused = said("pause", sent, forged.now());
    forged.commit(|f| f.row("n1", 0, (Some("upgrading"), "failed")));
    forged.start("n3", 0, 1);
    forged.check(&[], "I23: n3 started in rollout_a, which is paused");
    forged.check(&[paused], "I23: entry");
}

// I10
#[test]
fn an_answer_that_nothing_was_done_for_is_seen() {
    let forged = Forged::sound();
    let paused = said("pause", forged.now(), forged.now() + 1);
    forged.check(&[paused], "I10");
}

// I24
#[test]
fn a_miscount_is_seen() {
    let mut forged = Forged::sound();
    let miscount = What::Miscount {
        rollout: ROLLOUT.to_owned(),
        wave: 0,
        said: "1 0".to_owned(),
        counted: "0 1".to_owned(),
    };
    forged.commit(|f| f.push(miscount));
    forged.check(&[], "I24");
}

// I28, I30
#[test]
fn an_event_too_few_or_too_many_is_seen() {
    let mut forged = Forged::sound();
    forged.commit(|f| f.head("paused", 0));
    forged.check(&[], "I30: rollout_a was paused");
    let mut forged = Forged::sound();
    forged.commit(|f| f.head("running", 0).event("rollout.started"));
    forged.check(&[], "I30: 1 times rollout.started");
    let mut forged = Forged::sound();
    forged.commit(|f| f.event("rollout.wave"));
    forged.check(&[], "I30: rollout.wave of rollout_a without");
    let mut forged = Forged::sound();
    forged.position += 1;
    forged.commit(|f| f.head("paused", 0).event("rollout.paused"));
    forged.check(&[], "I30: position 3");
}

// I29
#[test]
fn a_decision_by_an_old_revision_is_seen() {
    let mut forged = Forged::sound();
    let stale = forged.head.clone();
    forged.commit(|f| f.head("paused", 0).event("rollout.paused"));
    forged.head = stale;
    forged.commit(|f| f.head("running", 0));
    forged.check(&[], "I29");
}

#[test]
fn a_rollout_that_rises_again_is_seen() {
    let mut forged = Forged::sound();
    forged.commit(|f| f.head("aborted", 0).event("rollout.aborted"));
    forged.commit(|f| f.head("running", 0));
    forged.check(&[], "rollout_a was aborted");
}
