//! What must hold of everything that happened, whoever did it.
//!
//! Takes the database's history in order, and what operators were answered; gives what was broken. It has rules of its
//! own: nothing here is what control decides by. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    calls::{Outcome, Said},
    history::{Entry, Head, Move, Places, What},
};

/// Which state may follow which.
const MOVES: [(&str, &str); 9] = [
    ("pending", "upgrading"),
    ("pending", "skipped"),
    ("upgrading", "succeeded"),
    ("upgrading", "failed"),
    ("upgrading", "skipped"),
    ("upgrading", "rolling-back"),
    ("rolling-back", "rolled-back"),
    ("rolling-back", "succeeded"),
    ("rolling-back", "failed"),
];

/// How a row may come: waiting, or running the release already.
const FIRST: [&str; 2] = ["pending", "succeeded"];

/// Remembers how things stand, over all rounds.
#[derive(Debug, Default)]
pub(super) struct Checker {
    rows: BTreeMap<(String, String), (String, i64)>,
    heads: BTreeMap<String, Head>,
    /// Waves of which something was started.
    tried: BTreeSet<(String, i64)>,
    /// What each node is in flight for.
    flights: BTreeMap<String, BTreeSet<String>>,
    /// The newest event's; none before the first, and what came before that is not known.
    position: Option<i64>,
}

impl Checker {
    /// Looks at what happened since the last time.
    pub(super) fn look(&mut self, history: &[Entry], said: &[Said]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut transactions: BTreeMap<i64, Vec<&Entry>> = BTreeMap::new();
        for entry in history {
            transactions.entry(entry.tx).or_default().push(entry);
            self.replay(entry, &mut wrong);
        }
        for entries in transactions.values() {
            starts_have_places(entries, &mut wrong);
            changes_have_events(entries, &mut wrong);
        }
        answers_hold(history, said, &mut wrong);
        wrong
    }

    fn replay(&mut self, entry: &Entry, wrong: &mut Vec<String>) {
        match &entry.what {
            What::Row(row) => self.row(row, wrong),
            What::Late(late) => self.late(late, wrong),
            What::Head { rollout, was, now } => {
                self.head(entry.at, rollout, (was.as_ref(), now), wrong)
            }
            What::Event { position, .. } => {
                // I30
                if let Some(before) = self.position.replace(*position)
                    && *position != before + 1
                {
                    wrong.push(format!("I30: position {position} came behind {before}"));
                }
            }
            What::Places(places) => count(places, wrong),
            What::Miscount {
                rollout,
                wave,
                said,
                counted,
            } => wrong.push(format!(
                "I24: wave {wave} of {rollout} says {said}, and has {counted}"
            )),
        }
    }

    fn row(&mut self, row: &Move, wrong: &mut Vec<String>) {
        let key = (row.rollout.clone(), row.node.clone());
        let wave = row.wave.unwrap_or_default();
        let before = self.rows.insert(key, (row.now.clone(), wave));
        let name = format!("the row of {} in {}", row.node, row.rollout);
        let before = before.as_ref().map(|(state, _)| state.as_str());
        // I19
        if before != row.was.as_deref() {
            wrong.push(format!(
                "I19: {name} was {before:?}, and moved from {:?}",
                row.was
            ));
        }
        let legal = match &row.was {
            None => FIRST.contains(&row.now.as_str()),
            Some(was) => MOVES.contains(&(was.as_str(), row.now.as_str())),
        };
        if !legal {
            wrong.push(format!(
                "I19: {name} went from {:?} to {}",
                row.was, row.now
            ));
        }
        if row.now == "upgrading" {
            self.may_start(row, wave, wrong);
            self.tried.insert((row.rollout.clone(), wave));
        }
        self.fly(row, wrong);
    }

    /// I22, I23
    fn may_start(&self, row: &Move, wave: i64, wrong: &mut Vec<String>) {
        let Some(head) = self.heads.get(&row.rollout) else {
            wrong.push(format!("{} started before its rollout came", row.node));
            return;
        };
        if head.state != "running" {
            wrong.push(format!(
                "I23: {} started in {}, which is {}",
                row.node, row.rollout, head.state
            ));
        }
        if head.wave != wave {
            wrong.push(format!(
                "I22: {} of wave {wave} started in wave {} of {}",
                row.node, head.wave, row.rollout
            ));
        }
        let open = |(state, before): &(String, i64)| {
            *before < wave && ["pending", "upgrading", "rolling-back"].contains(&state.as_str())
        };
        let mut others = self
            .rows
            .iter()
            .filter(|((rollout, _), _)| *rollout == row.rollout);
        if others.any(|(_, row)| open(row)) {
            wrong.push(format!(
                "I22: {} of wave {wave} started before what comes before it had settled",
                row.node
            ));
        }
    }

    fn late(&mut self, late: &Move, wrong: &mut Vec<String>) {
        // A row that somebody wants tried again waits, and starts anew.
        let (was, now) = (late.was.as_deref(), late.now.as_str());
        let legal = match (was, now) {
            (None, "upgrading" | "succeeded" | "pending") => true,
            (Some("failed" | "skipped"), "pending") => true,
            (Some("failed" | "skipped" | "succeeded"), "upgrading" | "succeeded") => true,
            (Some(was), now) => MOVES.contains(&(was, now)) || was == now,
            (None, _) => false,
        };
        if !legal {
            wrong.push(format!(
                "I19: the late row of {} in {} went from {was:?} to {now}",
                late.node, late.rollout
            ));
        }
        self.fly(late, wrong);
    }

    /// I19: a node is in flight in at most one rollout.
    fn fly(&mut self, row: &Move, wrong: &mut Vec<String>) {
        let flights = self.flights.entry(row.node.clone()).or_default();
        if !["upgrading", "rolling-back"].contains(&row.now.as_str()) {
            flights.remove(&row.rollout);
            return;
        }
        flights.insert(row.rollout.clone());
        if flights.len() > 1 {
            wrong.push(format!("I19: {} is in flight in {flights:?}", row.node));
        }
    }

    fn head(
        &mut self,
        at: i64,
        rollout: &str,
        (was, now): (Option<&Head>, &Head),
        wrong: &mut Vec<String>,
    ) {
        let before = self.heads.insert(rollout.to_owned(), now.clone());
        if before.as_ref() != was {
            wrong.push(format!(
                "I29: {rollout} was {before:?}, and was changed from {was:?}"
            ));
        }
        let Some(was) = was else { return };
        if now.revision != was.revision + 1 {
            let (was, now) = (was.revision, now.revision);
            wrong.push(format!("I29: {rollout} went from revision {was} to {now}"));
        }
        if ["completed", "aborted"].contains(&was.state.as_str()) && now.state != was.state {
            wrong.push(format!(
                "{rollout} was {}, and became {}",
                was.state, now.state
            ));
        }
        // I22. A wave of which nothing was started does not soak.
        let tried = self.tried.contains(&(rollout.to_owned(), was.wave));
        let soaks = was.settled.is_some_and(|settled| at < settled + was.soak);
        if now.wave > was.wave && tried && soaks {
            wrong.push(format!(
                "I22: wave {} of {rollout} opened before the soak was over",
                now.wave
            ));
        }
    }
}

/// I21: counters are what they count.
fn count(places: &Places, wrong: &mut Vec<String>) {
    let Places {
        pool,
        disrupted,
        counted,
        nodes,
        counted_nodes,
        ..
    } = places;
    if disrupted != counted || nodes != counted_nodes {
        wrong.push(format!(
            "I21: {pool} says {disrupted} of {nodes} nodes are disrupted, and has {counted} of {counted_nodes}"
        ));
    }
}

/// I21: whoever starts has a place, within the bound, in the same transaction.
fn starts_have_places(entries: &[&Entry], wrong: &mut Vec<String>) {
    let mut places: BTreeMap<&str, &Places> = BTreeMap::new();
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        match &entry.what {
            What::Places(found) => {
                places.insert(&found.pool, found);
            }
            What::Row(row) | What::Late(row) if row.now == "upgrading" => {
                *starts.entry(&row.pool).or_default() += 1;
            }
            What::Row(_)
            | What::Late(_)
            | What::Head { .. }
            | What::Event { .. }
            | What::Miscount { .. } => {}
        }
    }
    for (pool, started) in starts {
        let Some(found) = places.get(pool) else {
            wrong.push(format!("I21: {started} of {pool} started without a place"));
            continue;
        };
        let bound = (found.nodes * found.budget / 1_000_000).max(1);
        if found.counted > bound {
            wrong.push(format!(
                "I21: {started} of {pool} started, and {} are disrupted where {bound} may be",
                found.counted
            ));
        }
    }
}

/// I28, I30: one event a change, in its transaction.
fn changes_have_events(entries: &[&Entry], wrong: &mut Vec<String>) {
    let mut heads: BTreeMap<&str, Vec<(Option<&Head>, &Head)>> = BTreeMap::new();
    let mut told: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for entry in entries {
        match &entry.what {
            What::Head { rollout, was, now } => {
                let changes = heads.entry(rollout).or_default();
                changes.push((was.as_ref(), now));
            }
            What::Event { kind, subject, .. } => {
                if let Some(rollout) = subject.strip_prefix("rollout/") {
                    *told.entry((rollout, kind)).or_default() += 1;
                }
            }
            What::Row(_) | What::Late(_) | What::Places(_) | What::Miscount { .. } => {}
        }
    }
    for (rollout, changes) in &heads {
        let times = |kind| told.get(&(*rollout, kind)).copied().unwrap_or(0);
        let became = |state: &str| {
            let changed = |(was, now): &&(Option<&Head>, &Head)| {
                now.state == state && was.is_some_and(|was| was.state != state)
            };
            changes.iter().filter(changed).count()
        };
        let created = changes.iter().filter(|(was, _)| was.is_none()).count();
        let waves: i64 = changes
            .iter()
            .filter_map(|(was, now)| Some(now.wave - (*was)?.wave))
            .sum();
        let exactly = [
            ("rollout.started", created),
            ("rollout.wave", usize::try_from(waves).unwrap_or(0)),
            ("rollout.completed", became("completed")),
            ("rollout.aborted", became("aborted")),
        ];
        for (kind, wanted) in exactly {
            let found = times(kind);
            if found != wanted {
                wrong.push(format!(
                    "I30: {found} times {kind} of {rollout} for {wanted} changes"
                ));
            }
        }
        // An operator's call that changes nothing is told all the same.
        if times("rollout.paused") < became("paused") {
            wrong.push(format!("I30: {rollout} was paused, and nobody was told"));
        }
    }
    for (rollout, kind) in told.keys() {
        if !heads.contains_key(rollout) {
            wrong.push(format!("I30: {kind} of {rollout} without a change"));
        }
    }
}

/// I10, I23: what was answered is in the rows, and nothing starts behind it.
fn answers_hold(history: &[Entry], said: &[Said], wrong: &mut Vec<String>) {
    for (number, call) in said.iter().enumerate() {
        let state = match call.method {
            "pause" => "paused",
            "abort" => "aborted",
            _ => continue,
        };
        if call.outcome != Outcome::Done {
            continue;
        }
        let is_there = history.iter().any(|entry| match &entry.what {
            What::Head { rollout, now, .. } => {
                *rollout == call.rollout
                    && now.state == state
                    && (call.sent_at..=call.answered_at).contains(&entry.at)
            }
            What::Row(_)
            | What::Late(_)
            | What::Event { .. }
            | What::Places(_)
            | What::Miscount { .. } => false,
        });
        if !is_there {
            wrong.push(format!(
                "I10: {} of {} was answered, and never committed",
                call.method, call.rollout
            ));
        }
        // A call that nobody has heard the end of may still come through.
        let earlier = said.iter().take(number);
        let open = |other: &&Said| other.method == "resume" && other.outcome == Outcome::Unknown;
        if earlier.clone().any(|other| open(&other)) {
            continue;
        }
        let mut later = said.iter().skip(number + 1);
        let until = later.find(|other| other.method == "resume");
        let until = until.map_or(i64::MAX, |other| other.sent_at);
        let started = history.iter().filter(|entry| match &entry.what {
            What::Row(row) => {
                row.rollout == call.rollout
                    && row.now == "upgrading"
                    && entry.at > call.answered_at
                    && entry.at < until
            }
            What::Late(_)
            | What::Head { .. }
            | What::Event { .. }
            | What::Places(_)
            | What::Miscount { .. } => false,
        });
        for entry in started {
            wrong.push(format!(
                "I23: entry {} started a node of {} behind the answer to {}",
                entry.number, call.rollout, call.method
            ));
        }
    }
}

#[cfg(test)]
mod tests;
