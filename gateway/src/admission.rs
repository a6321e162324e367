//! Who may begin a session now.
//!
//! Takes who comes and when, gives the moment for the handshake or the reason against it. A crowd is paced: who comes a
//! little early waits for a turn, so that a fleet that lost its gateway comes back in one go; only who would wait too long
//! is turned away. One address, or one node, that comes too often is turned away at once and takes nobody's turn. Pure:
//! the time comes in, and the memory of who came is bounded by who came lately.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    time::{Duration, Instant},
};

use bc_protocol::id::NodeId;
use thiserror::Error;

use crate::limits::{ARRIVALS_KEPT_MIN, Limits};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Until when the handshakes so far have used up the rate of all.
    all: Option<Instant>,
    sites: Arrivals<Site>,
    nodes: Arrivals<NodeId>,
}

/// One source of connections: an address, or the network that one customer is given of the newer kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site(IpAddr);

/// Why a session may not begin now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotNow {
    /// More come than this machine is to bear.
    #[error(
        "expected at most {per_second} handshakes a second, found so many that one more waits {wait:?} for its turn"
    )]
    Crowd {
        /// The rate.
        per_second: NonZeroU32,
        /// When there is room again.
        wait: Duration,
    },
    /// One source comes too often.
    #[error(
        "expected at most {per_second} handshakes a second of one address, found more of {site}"
    )]
    Site {
        /// Which.
        site: IpAddr,
        /// The rate.
        per_second: NonZeroU32,
        /// When there is room again.
        wait: Duration,
    },
    /// One node comes too often.
    #[error("expected at most {per_minute} sessions a minute of one node, found more of {node}")]
    Node {
        /// Which.
        node: NodeId,
        /// The rate.
        per_minute: NonZeroU32,
        /// When there is room again.
        wait: Duration,
    },
}

impl NotNow {
    /// Whole seconds after which it is worth another try.
    pub(crate) fn retry_after_seconds(&self) -> u64 {
        let (Self::Crowd { wait, .. } | Self::Site { wait, .. } | Self::Node { wait, .. }) = self;
        wait.as_secs() + 1
    }
}

impl Admission {
    /// Somebody connects. Gives the moment for the handshake.
    pub(crate) fn arrives(
        &mut self,
        site: Site,
        limits: &Limits,
        now: Instant,
    ) -> Result<Instant, NotNow> {
        let per_second = limits.handshakes_per_address_per_second;
        let pace = Pace::new(
            Duration::from_secs(1),
            per_second,
            limits.handshakes_per_address_burst,
        );
        self.sites
            .take(site, pace, now)
            .map_err(|wait| NotNow::Site {
                site: site.0,
                per_second,
                wait,
            })?;
        let per_second = limits.handshakes_per_second;
        let pace = Pace::new(Duration::from_secs(1), per_second, limits.handshakes_burst);
        let (used, turn) = pace.next(self.all, now);
        let wait = turn.saturating_duration_since(now);
        if wait > limits.handshakes_wait {
            return Err(NotNow::Crowd { per_second, wait });
        }
        self.all = Some(used);
        Ok(turn)
    }

    /// Forgets whoever came so long ago that it is as if he never had.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.sites.forget(now);
        self.nodes.forget(now);
    }

    /// A node has shown who it is.
    pub(crate) fn shows(
        &mut self,
        node: &NodeId,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), NotNow> {
        let per_minute = limits.sessions_per_node_per_minute;
        let pace = Pace::new(
            Duration::from_secs(60),
            per_minute,
            limits.sessions_per_node_burst,
        );
        self.nodes
            .take(node.clone(), pace, now)
            .map_err(|wait| NotNow::Node {
                node: node.clone(),
                per_minute,
                wait,
            })
    }
}

impl From<IpAddr> for Site {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                // Whoever has one of these addresses has 2^64 of them.
                let network = u128::from(address) & !u128::from(u64::MAX);
                Ipv6Addr::from(network).into()
            }
        })
    }
}

impl Site {
    /// The address, or the network's first.
    pub(crate) fn address(self) -> IpAddr {
        self.0
    }
}

/// So many in a time for long, and so many at once.
#[derive(Clone, Copy, Debug)]
struct Pace {
    each: Duration,
    at_once: Duration,
}

impl Pace {
    fn new(time: Duration, many: NonZeroU32, burst: NonZeroU32) -> Self {
        let each = time / many.get();
        Self {
            each,
            // The one that comes first pays for itself.
            at_once: each.saturating_mul(burst.get()),
        }
    }

    /// Until when the rate is used up after one more, and the first moment at which that one is in time.
    fn next(self, used: Option<Instant>, now: Instant) -> (Instant, Instant) {
        let used = used.map_or(now, |used| used.max(now)) + self.each;
        let turn = used.checked_sub(self.at_once).unwrap_or(now).max(now);
        (used, turn)
    }
}

/// Who came lately, and until when each has used up its rate. Whoever has not is as if he never came.
#[derive(Debug)]
struct Arrivals<K> {
    used: BTreeMap<K, Instant>,
    /// How many may be kept before those that do not count any more are looked for.
    look_at: usize,
}

impl<K> Default for Arrivals<K> {
    fn default() -> Self {
        Self {
            used: BTreeMap::new(),
            look_at: ARRIVALS_KEPT_MIN,
        }
    }
}

impl<K: Ord> Arrivals<K> {
    /// Takes one, or says how long it is too early.
    fn take(&mut self, who: K, pace: Pace, now: Instant) -> Result<(), Duration> {
        let (used, turn) = pace.next(self.used.get(&who).copied(), now);
        if turn > now {
            return Err(turn - now);
        }
        self.used.insert(who, used);
        if self.used.len() > self.look_at {
            self.forget(now);
        }
        Ok(())
    }

    fn forget(&mut self, now: Instant) {
        self.used.retain(|_, used| *used > now);
        // Twice what is left, so that looking costs each newcomer a constant.
        self.look_at = (self.used.len() * 2).max(ARRIVALS_KEPT_MIN);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{clock, fixture};

    fn number(of: u32) -> NonZeroU32 {
        NonZeroU32::new(of).unwrap()
    }

    /// A hundred a second and ten at once, in all; ten and five of one address; sixty a minute and three of one node.
    fn narrow() -> Limits {
        Limits {
            handshakes_per_second: number(100),
            handshakes_burst: number(10),
            handshakes_wait: Duration::from_secs(1),
            handshakes_per_address_per_second: number(10),
            handshakes_per_address_burst: number(5),
            sessions_per_node_per_minute: number(60),
            sessions_per_node_burst: number(3),
            ..Limits::default()
        }
    }

    fn site(number: u32) -> Site {
        IpAddr::from(number.to_be_bytes()).into()
    }

    #[test]
    fn a_crowd_is_paced_and_then_turned_away() {
        let (mut admission, now) = (Admission::default(), clock::now());
        let waits: Vec<_> = (0..200)
            .map(|name| admission.arrives(site(name), &narrow(), now))
            .collect();
        let admitted: Vec<_> = waits.iter().flatten().map(|turn| *turn - now).collect();
        // Ten at once, then one in ten milliseconds for a second.
        assert_eq!(admitted.len(), 110);
        assert!(admitted[..10].iter().all(Duration::is_zero));
        assert_eq!(admitted[10], Duration::from_millis(10));
        assert_eq!(admitted[109], Duration::from_secs(1));
        // Those that were turned away have taken nobody's turn.
        let later = now + Duration::from_millis(500);
        let turn = admission.arrives(site(500), &narrow(), later).unwrap();
        assert_eq!(turn - now, Duration::from_millis(1010));
        let refused = waits.last().unwrap().clone().unwrap_err();
        assert!(refused.to_string().contains("100 handshakes a second"));
        assert_eq!(refused.retry_after_seconds(), 2);
    }

    #[test]
    fn one_address_that_comes_too_often_takes_no_turn_of_others() {
        let (mut admission, now) = (Admission::default(), clock::now());
        let limits = narrow();
        let admitted = (0..1000)
            .filter(|_| admission.arrives(site(1), &limits, now).is_ok())
            .count();
        assert_eq!(admitted, 5);
        assert_eq!(admission.arrives(site(2), &limits, now), Ok(now));
        let later = now + Duration::from_millis(100);
        assert!(admission.arrives(site(1), &limits, later).is_ok());
        assert!(admission.arrives(site(1), &limits, later).is_err());
    }

    #[test]
    fn one_node_that_comes_too_often_is_told_when_to_come_again() {
        let (mut admission, now) = (Admission::default(), clock::now());
        let limits = narrow();
        for _ in 0..3 {
            admission.shows(&fixture::node(1), &limits, now).unwrap();
        }
        let refused = admission
            .shows(&fixture::node(1), &limits, now)
            .unwrap_err();
        assert_eq!(refused.retry_after_seconds(), 2);
        admission.shows(&fixture::node(2), &limits, now).unwrap();
        let later = now + Duration::from_secs(1);
        admission.shows(&fixture::node(1), &limits, later).unwrap();
    }

    #[test]
    fn an_address_of_the_newer_kind_counts_with_its_network() {
        let site = |text: &str| Site::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(site("2001:db8::1"), site("2001:db8::ffff:1"));
        assert_ne!(site("2001:db8::1"), site("2001:db8:0:1::1"));
        assert_eq!(site("::ffff:10.0.0.1"), site("10.0.0.1"));
        assert_ne!(site("10.0.0.1"), site("10.0.0.2"));
    }

    #[test]
    fn who_came_long_ago_is_forgotten() {
        let mut admission = Admission::default();
        let (start, limits) = (clock::now(), Limits::default());
        for name in 0..200_000 {
            let now = start + Duration::from_millis(u64::from(name));
            admission.arrives(site(name), &limits, now).unwrap();
        }
        assert!(admission.sites.used.len() <= 2 * ARRIVALS_KEPT_MIN);
        // The last one still counts a moment ago, and a second later nobody does.
        admission.forget(start + Duration::from_secs(200));
        assert!(admission.sites.used.len() <= 2);
        admission.forget(start + Duration::from_secs(201));
        assert!(admission.sites.used.is_empty());
    }

    proptest! {
        /// Over any span nobody is admitted oftener than burst and rate allow, and turns come in order.
        #[test]
        fn never_more_than_burst_and_rate(waits in prop::collection::vec(0_u64..40, 1..300)) {
            let mut admission = Admission::default();
            let limits = narrow();
            let start = clock::now();
            let (mut now, mut turns, mut of_one) = (start, Vec::new(), 0_u32);
            for (at, wait) in waits.into_iter().enumerate() {
                now += Duration::from_millis(wait);
                let one = at % 2 == 0;
                let name = if one { 0 } else { u32::try_from(at).unwrap() };
                if let Ok(turn) = admission.arrives(site(name), &limits, now) {
                    prop_assert!(turn >= now && turn - now <= limits.handshakes_wait);
                    prop_assert!(turns.last().is_none_or(|last| *last <= turn));
                    turns.push(turn);
                    of_one += u32::from(one);
                }
            }
            for (at, first) in turns.iter().enumerate() {
                for (many, turn) in turns[at..].iter().enumerate() {
                    let allowed = 10 + (*turn - *first).as_millis() / 10;
                    prop_assert!(many as u128 <= allowed);
                }
            }
            prop_assert!(u128::from(of_one) <= 5 + (now - start).as_millis() / 100);
        }
    }
}
