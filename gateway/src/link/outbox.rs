//! What control has yet to hear.
//!
//! Takes what sessions did, gives numbered batches; keeps a batch until control has acknowledged it, and names every
//! live session anew on a new link. What waits is bounded by the nodes, not by how often they report: facts are whole,
//! so the newest of a node replaces what has not left; results of commands are few and have a bound of their own. No
//! socket, clock or lock.

mod changed;
mod events;
mod results;

use std::collections::{BTreeMap, VecDeque};

use bc_protocol::{
    id::{NodeId, SessionId},
    limits::BATCH_EVENTS_MAX,
    link::{Batch, CommandEnded, Event, FromGateway, SessionClosed, SessionOpened},
};
use bytes::Bytes;

use crate::limits::{
    BATCH_BYTES_MAX, BATCH_WORTH_NODES, ENDED_SESSIONS_MAX, LINK_WINDOW_BATCHES,
    RESULTS_PER_TURN_MAX,
};
pub(crate) use events::{AckError, Waits};
use events::{Due, bytes_about, event};
pub(crate) use results::Kept;
use results::{Results, Room};

/// What control has yet to hear.
#[derive(Debug)]
pub(crate) struct Outbox {
    nodes: BTreeMap<NodeId, Entry>,
    /// Nodes with something to tell, each once, the longest waiting first.
    fresh: VecDeque<NodeId>,
    listing: Listing,
    /// Batches that control has not acknowledged, in order.
    unacknowledged: VecDeque<Numbered>,
    /// How many of those have left on this link.
    sent: usize,
    last_number: u64,
    ended: usize,
    ended_max: usize,
    room: Room,
}

/// A session that nobody is told of: one with a higher number is known. It has to end, so that its node goes on above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overtaken {
    /// The number.
    pub(crate) winning: u64,
}

#[derive(Debug)]
struct Numbered {
    number: u64,
    frame: Bytes,
}

/// How far the naming of live sessions has come on this link.
#[derive(Debug, PartialEq, Eq)]
enum Listing {
    /// No link yet, or one that has to be made anew.
    Needed,
    /// These have not been named.
    Naming(VecDeque<NodeId>),
    Done,
}

#[derive(Debug)]
struct Entry {
    session: Session,
    results: Results,
    /// Whether it is in `fresh`.
    queue: Queue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    In,
    Out,
}

#[derive(Debug)]
enum Session {
    Live {
        /// With the newest report's facts.
        opened: Box<SessionOpened>,
        due: Due,
    },
    Ended {
        /// What it had to tell when it ended.
        last: Option<Box<Event>>,
        closed: SessionClosed,
    },
}

impl Default for Outbox {
    fn default() -> Self {
        Self::bounded(ENDED_SESSIONS_MAX)
    }
}

impl Outbox {
    fn bounded(ended_max: usize) -> Self {
        Self {
            nodes: BTreeMap::new(),
            fresh: VecDeque::new(),
            listing: Listing::Needed,
            unacknowledged: VecDeque::new(),
            sent: 0,
            last_number: 0,
            ended: 0,
            ended_max,
            room: Room::default(),
        }
    }

    /// A node was welcomed. Of two sessions of one node the one with the higher counter is told of, however late the
    /// other comes, and though it has ended: control would believe nothing of a lower one, and has not heard yet that
    /// the higher one ended.
    pub(crate) fn opened(&mut self, opened: SessionOpened) -> Result<(), Overtaken> {
        if let Some(known) = self.nodes.get(&opened.node).map(Entry::connect_seq)
            && opened.connect_seq <= known
        {
            return Err(Overtaken { winning: known });
        }
        let node = opened.node.clone();
        let live = Session::Live {
            opened: Box::new(opened),
            due: Due::Open,
        };
        self.put(node, live);
        Ok(())
    }

    /// A node said how a command ended. Only its live session counts: of another one nothing is kept.
    pub(crate) fn ended(&mut self, ended: CommandEnded) -> Option<Kept> {
        let node = ended.node.clone();
        self.live(&node, &ended.session)?;
        let kept = self
            .nodes
            .get_mut(&node)?
            .results
            .keep(ended, &mut self.room);
        self.enqueue(node);
        Some(kept)
    }

    /// A session ended. Nobody is told of the end of one that was superseded here. Gives how many ended ones had to be
    /// forgotten.
    pub(crate) fn closed(&mut self, closed: SessionClosed) -> usize {
        let node = closed.node.clone();
        let Some(Session::Live { opened, due }) = self.live(&node, &closed.session) else {
            return 0;
        };
        let last = event(opened, *due).map(Box::new);
        self.put(node, Session::Ended { last, closed });
        let forgotten = self.ended;
        if forgotten <= self.ended_max {
            return 0;
        }
        self.forget_ended();
        forgotten
    }

    /// A new link is there: what was not acknowledged leaves again, and all live sessions are named.
    pub(crate) fn linked(&mut self) {
        self.sent = 0;
        let mut live = VecDeque::new();
        for (node, entry) in &mut self.nodes {
            if let Session::Live { due, .. } = &mut entry.session {
                *due = Due::Open;
                live.push_back(node.clone());
            }
        }
        self.listing = Listing::Naming(live);
    }

    /// Whether control can learn the rest from a new link only.
    pub(crate) fn needs_link(&self) -> bool {
        self.listing == Listing::Needed
    }

    /// Whether what waits is so little, while something is under way, that it had better wait for the answer to that and
    /// for company. In a storm every batch would otherwise carry one node or two.
    pub(crate) fn is_worth_waiting(&self) -> bool {
        self.listing == Listing::Done
            && self.sent > 0
            && self.sent == self.unacknowledged.len()
            && self.fresh.len() < BATCH_WORTH_NODES
    }

    /// The next batch, as a frame, if there is one and the window has room.
    pub(crate) fn next_batch(&mut self) -> Option<Bytes> {
        if let Some(again) = self.unacknowledged.get(self.sent) {
            self.sent += 1;
            return Some(again.frame.clone());
        }
        if self.sent >= LINK_WINDOW_BATCHES || self.needs_link() {
            return None;
        }
        let events = self.gather();
        if events.is_empty() {
            return None;
        }
        self.last_number += 1;
        let number = self.last_number;
        let frame = FromGateway::Batch(Batch { number, events }).encode();
        self.unacknowledged.push_back(Numbered {
            number,
            frame: frame.clone(),
        });
        self.sent += 1;
        Some(frame)
    }

    /// Control has committed this batch and all before it.
    pub(crate) fn acknowledged(&mut self, number: u64) -> Result<(), AckError> {
        let committed = self
            .unacknowledged
            .iter()
            .take_while(|batch| batch.number <= number)
            .count();
        if number > self.last_number || committed > self.sent {
            return Err(AckError {
                last: self.last_number,
                found: number,
            });
        }
        self.unacknowledged.drain(..committed);
        self.sent -= committed;
        Ok(())
    }

    /// Whether control has acknowledged everything.
    pub(crate) fn is_idle(&self) -> bool {
        self.listing == Listing::Done && self.fresh.is_empty() && self.unacknowledged.is_empty()
    }

    /// How much control has yet to hear.
    pub(crate) fn waits(&self) -> Waits {
        Waits {
            nodes: self.fresh.len(),
            batches: self.unacknowledged.len(),
        }
    }

    fn live(&mut self, node: &NodeId, of: &SessionId) -> Option<&mut Session> {
        let session = &mut self.nodes.get_mut(node)?.session;
        match session {
            Session::Live { opened, .. } if opened.session == *of => Some(session),
            Session::Live { .. } | Session::Ended { .. } => None,
        }
    }

    fn put(&mut self, node: NodeId, session: Session) {
        self.ended += usize::from(matches!(session, Session::Ended { .. }));
        match self.nodes.get_mut(&node) {
            Some(entry) => {
                self.ended -= usize::from(matches!(entry.session, Session::Ended { .. }));
                // What an older session was told is replayed in the newer one.
                if matches!(session, Session::Live { .. }) {
                    entry.results.clear(&mut self.room);
                }
                entry.session = session;
            }
            None => {
                let entry = Entry {
                    session,
                    results: Results::default(),
                    queue: Queue::Out,
                };
                self.nodes.insert(node.clone(), entry);
            }
        }
        self.enqueue(node);
    }

    fn enqueue(&mut self, node: NodeId) {
        if let Some(entry) = self.nodes.get_mut(&node)
            && entry.queue == Queue::Out
        {
            entry.queue = Queue::In;
            self.fresh.push_back(node);
        }
    }

    /// Takes events for one batch: what is new before what is only named anew.
    fn gather(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut bytes = 0;
        // One node gives its facts, some results and its session's end at most.
        let node_max = 2 + RESULTS_PER_TURN_MAX;
        while events.len() + node_max <= BATCH_EVENTS_MAX && bytes < BATCH_BYTES_MAX {
            let from = events.len();
            if let Some(node) = self.fresh.pop_front() {
                self.take(&node, Queue::In, &mut events);
            } else if let Listing::Naming(unnamed) = &mut self.listing {
                match unnamed.pop_front() {
                    Some(node) => self.take(&node, Queue::Out, &mut events),
                    None => {
                        self.listing = Listing::Done;
                        events.push(Event::Listed);
                    }
                }
            } else {
                break;
            }
            bytes += events.iter().skip(from).map(bytes_about).sum::<usize>();
        }
        events
    }

    fn take(&mut self, node: &NodeId, from: Queue, into: &mut Vec<Event>) {
        let Some(entry) = self.nodes.get_mut(node) else {
            return;
        };
        if from == Queue::In {
            entry.queue = Queue::Out;
        }
        let closed = match &mut entry.session {
            Session::Live { opened, due } => {
                into.extend(event(opened, *due));
                *due = Due::Nothing;
                None
            }
            // It is in `fresh` too, and leaves from there: a listing names only who is there.
            Session::Ended { .. } if from == Queue::Out => return,
            Session::Ended { last, closed } => {
                into.extend(last.take().map(|last| *last));
                Some(closed.clone())
            }
        };
        let results = std::iter::from_fn(|| entry.results.take(&mut self.room));
        into.extend(results.take(RESULTS_PER_TURN_MAX).map(Event::Ended));
        if !entry.results.is_empty() {
            self.enqueue(node.clone());
        } else if let Some(closed) = closed {
            into.push(Event::Closed(closed));
            self.nodes.remove(node);
            self.ended -= 1;
        }
    }

    /// Drops what is known of ended sessions, and what was said of them but not acknowledged: the next listing tells
    /// control that they ended.
    fn forget_ended(&mut self) {
        self.nodes.retain(|_, entry| {
            let stays = matches!(entry.session, Session::Live { .. });
            if !stays {
                entry.results.clear(&mut self.room);
            }
            stays
        });
        self.fresh.retain(|node| self.nodes.contains_key(node));
        self.unacknowledged.clear();
        self.sent = 0;
        self.ended = 0;
        self.listing = Listing::Needed;
    }
}

impl Entry {
    fn connect_seq(&self) -> u64 {
        match &self.session {
            Session::Live { opened, .. } => opened.connect_seq,
            Session::Ended { closed, .. } => closed.connect_seq,
        }
    }
}

#[cfg(test)]
mod tests;
