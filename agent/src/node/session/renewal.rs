//! When the node asks for a new certificate.
//!
//! Takes the times that belong to the certificate it shows, gives the moments to ask at. Who is given one in between
//! begins anew.

use std::time::{Duration, Instant};

use super::{Output, Wakeup};

/// What a certificate says about its own renewal, seen from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RenewalTimes {
    /// Until it is due.
    pub(crate) after: Duration,
    /// Between a request that nobody answered and the next.
    pub(crate) again: Duration,
}

/// The renewal of one certificate.
#[derive(Debug)]
pub(super) enum Renewal {
    /// Nothing is known of a certificate before the first connection.
    Unknown,
    /// It is good until then.
    Due { at: Instant, again: Duration },
    /// The gateway was asked, and is asked again then.
    Asked { next: Instant, again: Duration },
}

impl Renewal {
    pub(super) fn new(times: RenewalTimes, now: Instant) -> Self {
        Self::Due {
            at: now + times.after,
            again: times.again,
        }
    }

    /// Of a certificate that has just come. By a clock that is far ahead it is due again at once, and so is the next.
    pub(super) fn renewed(times: RenewalTimes, now: Instant) -> Self {
        let after = times.after.max(times.again);
        Self::new(RenewalTimes { after, ..times }, now)
    }

    pub(super) fn next_wakeup(&self) -> Option<(Instant, Wakeup)> {
        match self {
            Self::Unknown => None,
            Self::Due { at, .. } => Some((*at, Wakeup::Renewal)),
            Self::Asked { next, .. } => Some((*next, Wakeup::Renewal)),
        }
    }

    /// Asks, if it is time to.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Output> {
        let (at, again) = match *self {
            Self::Unknown => return None,
            Self::Due { at, again } => (at, again),
            Self::Asked { next, again } => (next, again),
        };
        if now < at {
            return None;
        }
        *self = Self::Asked {
            next: now + again,
            again,
        };
        Some(Output::AskCertificate)
    }
}
