//! How often strangers may try.
//!
//! Takes where a request comes from and which token it shows, gives a place or the time until there is one. It counts
//! what is tried before anything is looked up for it; and of API tokens those that are not known. A token that is
//! known is never refused for what others do from the same address.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{HeaderMap, request::Parts},
};
use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};
use thiserror::Error;

use super::Shared;
use crate::{
    api::error::{Code, ErrorObject},
    config::Limits,
};

/// Joins that come at once: so many seconds' worth.
const BURST_SECONDS: u32 = 10;

/// Between clearings of who has not come for long.
const CHECKS_PER_CLEARING: u32 = 1024;

/// Of a token's text only what names it is kept, and no more than an id is long.
const TOKEN_BYTES_MAX: usize = 64;

/// Every count.
#[derive(Debug)]
pub(crate) struct Quotas {
    joins: Pair,
    wrong_tokens: Pair,
}

/// One thing, counted by address and by token.
#[derive(Debug)]
struct Pair {
    by_address: Keyed<IpAddr>,
    by_token: Keyed<(IpAddr, String)>,
}

#[derive(Debug)]
struct Keyed<K: Clone + std::hash::Hash + Eq> {
    limiter: DefaultKeyedRateLimiter<K>,
    checks: AtomicU32,
}

/// Too many, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected fewer calls from one address or with one token, found too many; the next may come in {} s", seconds(*.wait))]
pub(crate) struct Exceeded {
    wait: Duration,
}

impl Quotas {
    pub(crate) fn new(limits: Limits) -> Self {
        let burst = limits
            .joins_per_second
            .saturating_mul(NonZeroU32::MIN.saturating_add(BURST_SECONDS - 1));
        let joins = Quota::per_second(limits.joins_per_second).allow_burst(burst);
        let wrong = limits.wrong_tokens_per_minute;
        // Many people may sit behind one address, and each of them mistypes his own token.
        let many = wrong.saturating_mul(NonZeroU32::MIN.saturating_add(9));
        Self {
            joins: Pair {
                by_address: Keyed::new(joins),
                by_token: Keyed::new(joins),
            },
            wrong_tokens: Pair {
                by_address: Keyed::new(Quota::per_minute(many)),
                by_token: Keyed::new(Quota::per_minute(wrong)),
            },
        }
    }

    /// One try to join, or to renew after an absence.
    pub(super) fn join(&self, from: Origin, token: &str) -> Result<(), Exceeded> {
        self.joins.check(from, token)
    }

    /// One API token that is not known.
    pub(crate) fn wrong_token(&self, from: Origin, token: &str) -> Result<(), Exceeded> {
        self.wrong_tokens.check(from, token)
    }
}

impl Pair {
    fn check(&self, Origin(from): Origin, token: &str) -> Result<(), Exceeded> {
        self.by_address.check(&from)?;
        let name = token.split('.').next().unwrap_or_default();
        let name = name.chars().take(TOKEN_BYTES_MAX).collect();
        // With the address: nobody spends the quota of a token that he has only seen.
        self.by_token.check(&(from, name))
    }
}

impl<K: Clone + std::hash::Hash + Eq> Keyed<K> {
    fn new(quota: Quota) -> Self {
        Self {
            limiter: RateLimiter::hashmap(quota),
            checks: AtomicU32::new(0),
        }
    }

    fn check(&self, key: &K) -> Result<(), Exceeded> {
        let checks = self.checks.fetch_add(1, Ordering::Relaxed);
        if checks.is_multiple_of(CHECKS_PER_CLEARING) {
            self.limiter.retain_recent();
            self.limiter.shrink_to_fit();
        }
        self.limiter.check_key(key).map_err(|not_until| Exceeded {
            wait: not_until.wait_time_from(DefaultClock::default().now()),
        })
    }
}

/// Whole seconds, and not too few.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(1)
}

impl From<Exceeded> for ErrorObject {
    fn from(exceeded: Exceeded) -> Self {
        Self::new(Code::QuotaExceeded, exceeded).with("retryAfterSeconds", seconds(exceeded.wait))
    }
}

/// Where a request comes from, as far as quotas tell addresses apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(IpAddr);

impl Origin {
    fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(ip.into()),
            // Whoever has one of them has the whole network of 64 bits.
            IpAddr::V6(ip) => {
                let network = u128::from(ip) & !u128::from(u64::MAX);
                Self(Ipv6Addr::from(network).into())
            }
        }
    }
}

impl FromRequestParts<Shared> for Origin {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |ConnectInfo(peer)| peer.ip());
        let told = if app.behind_proxy {
            forwarded_for(&parts.headers)
        } else {
            None
        };
        Ok(Self::of(told.unwrap_or(peer)))
    }
}

/// The last address is what the proxy itself has seen; those before it are what the caller says.
fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all("x-forwarded-for").iter().next_back()?;
    last.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use axum::http::HeaderMap;

    use super::{Origin, Quotas, forwarded_for};
    use crate::config::Limits;

    fn from(ip: &str) -> Origin {
        Origin::of(ip.parse::<IpAddr>().unwrap())
    }

    fn quotas() -> Quotas {
        Quotas::new(Limits {
            joins_per_second: 1.try_into().unwrap(),
            wrong_tokens_per_minute: 2.try_into().unwrap(),
        })
    }

    #[test]
    fn one_address_cannot_join_for_ever_and_others_can() {
        let quotas = quotas();
        let tries = (0..100).filter(|n| quotas.join(from("192.0.2.1"), &format!("t{n}.x")).is_ok());
        assert_eq!(tries.count(), 10);
        assert!(quotas.join(from("192.0.2.2"), "t1.x").is_ok());
    }

    #[test]
    fn one_token_is_not_guessed_for_ever() {
        let quotas = quotas();
        let one = from("192.0.2.1");
        let tries = (0..10).filter(|n| quotas.wrong_token(one, &format!("tok_1.{n}")).is_ok());
        assert_eq!(tries.count(), 2);
        assert!(quotas.wrong_token(one, "tok_2.x").is_ok());
        assert!(quotas.wrong_token(from("192.0.2.2"), "tok_1.x").is_ok());
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff:1"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
    }

    #[test]
    fn only_what_the_proxy_has_seen_counts() {
        let mut headers = HeaderMap::new();
        headers.append(
            "x-forwarded-for",
            "198.51.100.1, 203.0.113.9".parse().unwrap(),
        );
        headers.append(
            "x-forwarded-for",
            "198.51.100.2, 192.0.2.7".parse().unwrap(),
        );
        assert_eq!(forwarded_for(&headers), Some("192.0.2.7".parse().unwrap()));
        headers.append("x-forwarded-for", "unknown".parse().unwrap());
        assert_eq!(forwarded_for(&headers), None);
    }
}
