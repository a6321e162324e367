//! What the controller looks at next, and when.
//!
//! Takes news and the deadlines that passes give, gives what is due. Reads no clock: the loop does.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::id::RolloutId;

use crate::{
    clock::Moment,
    rollout::{
        limits,
        waker::{Extent, News},
    },
};

/// Which passes a rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Queue {
    /// Over its waves.
    Waves,
    /// Over its late nodes.
    Late,
}

/// What comes next.
#[derive(Debug)]
pub(super) struct Agenda {
    now: Moment,
    /// When everything is looked at again.
    everything_at: Moment,
    /// When time alone will change something.
    deadlines: BTreeMap<(Queue, RolloutId), Moment>,
    /// What this round passes over.
    round: BTreeSet<(Queue, RolloutId)>,
    /// What a pass could not look at yet.
    kept: News,
}

impl Agenda {
    /// With everything to be looked at.
    pub(super) fn new() -> Self {
        let long_ago = Moment::from_millis(0);
        Self {
            now: long_ago,
            everything_at: long_ago,
            deadlines: BTreeMap::new(),
            round: BTreeSet::new(),
            kept: News::default(),
        }
    }

    /// Begins a round: everything is looked at in the first, and every half minute.
    pub(super) fn begin(&mut self, mut news: News, now: Moment) -> News {
        self.now = now;
        self.round.clear();
        let kept = std::mem::take(&mut self.kept);
        news.add_nodes(kept.nodes);
        if kept.extent == Extent::Unknown || self.everything_at <= now {
            news.extent = Extent::Unknown;
        }
        match news.extent {
            Extent::Unknown => {
                self.everything_at = now.plus(limits::SAFETY_NET);
                self.deadlines.clear();
            }
            Extent::Named => {}
        }
        news
    }

    /// Rollouts to pass over in this round, beside those whose time has come.
    pub(super) fn add(&mut self, queue: Queue, found: Vec<RolloutId>, news: &News) {
        let named = news.rollouts.iter().cloned();
        let all = found.into_iter().chain(named);
        self.round.extend(all.map(|id| (queue, id)));
    }

    /// What this round passes over, in order.
    pub(super) fn due(&self, queue: Queue) -> Vec<RolloutId> {
        let over = self.deadlines.iter().filter(|(_, at)| **at <= self.now);
        let mut due: BTreeSet<&(Queue, RolloutId)> = over.map(|(whose, _)| whose).collect();
        due.extend(&self.round);
        let due = due.into_iter().filter(|(of, _)| *of == queue);
        due.map(|(_, id)| id.clone()).collect()
    }

    /// When time alone will change something of a rollout.
    pub(super) fn note(&mut self, queue: Queue, id: &RolloutId, next: Option<Moment>) {
        let whose = (queue, id.clone());
        match next {
            Some(at) => self.deadlines.insert(whose, at),
            None => self.deadlines.remove(&whose),
        };
    }

    /// Somebody else had a rollout, or a pass failed: what this round was told of belongs to the next one too.
    pub(super) fn keep(&mut self, news: &News) {
        self.kept.add_nodes(news.nodes.iter().cloned());
        if news.extent == Extent::Unknown {
            self.kept.extent = Extent::Unknown;
        }
    }

    /// When the next round is due.
    pub(super) fn next(&self) -> Moment {
        let earliest = self.deadlines.values().min().copied();
        earliest.map_or(self.everything_at, |at| at.min(self.everything_at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bc_protocol::id::{NodeId, RolloutId};

    use super::{Agenda, Queue};
    use crate::{
        clock::Moment,
        rollout::{
            limits::SAFETY_NET,
            waker::{Extent, News},
        },
    };

    fn at(seconds: u64) -> Moment {
        Moment::from_millis(1_700_000_000_000).plus(Duration::from_secs(seconds))
    }

    fn rollout(name: &[u8]) -> RolloutId {
        RolloutId::derived(&[name])
    }

    #[test]
    fn a_round_passes_over_what_is_named_and_what_is_due() {
        let mut agenda = Agenda::new();
        assert_eq!(agenda.begin(News::default(), at(0)).extent, Extent::Unknown);
        agenda.note(Queue::Waves, &rollout(b"due"), Some(at(5)));
        agenda.note(Queue::Waves, &rollout(b"later"), Some(at(6)));
        agenda.note(Queue::Late, &rollout(b"late"), Some(at(5)));
        assert_eq!(agenda.next(), at(5));
        let mut news = News::default();
        news.rollouts.insert(rollout(b"called"));
        let news = agenda.begin(news, at(5));
        assert_eq!(news.extent, Extent::Named);
        agenda.add(Queue::Waves, vec![rollout(b"found")], &news);
        let mut expected = [b"due".as_slice(), b"called", b"found"]
            .map(rollout)
            .to_vec();
        expected.sort();
        assert_eq!(agenda.due(Queue::Waves), expected);
        assert_eq!(agenda.due(Queue::Late), [rollout(b"late")]);
    }

    #[test]
    fn everything_is_looked_at_again_after_a_while() {
        let mut agenda = Agenda::new();
        agenda.begin(News::default(), at(0));
        let later = at(0).plus(SAFETY_NET);
        assert_eq!(agenda.next(), later);
        assert_eq!(agenda.begin(News::default(), later).extent, Extent::Unknown);
    }

    #[test]
    fn what_could_not_be_looked_at_comes_again() {
        let mut agenda = Agenda::new();
        agenda.begin(News::default(), at(0));
        let node = NodeId::derived(&[b"n"]);
        let mut news = News::default();
        news.add_nodes([node.clone()]);
        agenda.keep(&news);
        let again = agenda.begin(News::default(), at(1));
        assert!(again.nodes.contains(&node) && again.extent == Extent::Named);
        assert!(agenda.begin(News::default(), at(2)).nodes.is_empty());
    }
}
