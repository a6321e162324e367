//! What tells the series of one name apart. Every set of values is bounded: none comes from outside.

use prometheus_client::encoding::EncodeLabelSet;

use super::Metrics;

/// An answer of the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Call {
    method: String,
    code: String,
}

impl Call {
    /// The method is one that there is; the code is the error's, or `OK`.
    pub(crate) fn new(method: &str, code: &str) -> Self {
        Self {
            method: method.to_owned(),
            code: code.to_owned(),
        }
    }
}

/// How something stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct State {
    state: &'static str,
}

impl State {
    /// One of a fixed list.
    pub(super) fn new(state: &'static str) -> Self {
        Self { state }
    }
}

/// What strangers try.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Quota {
    of: &'static str,
}

impl Quota {
    /// To join, or to renew after an absence.
    pub(crate) const JOIN: Self = Self { of: "join" };
    /// To call with a token that is not known.
    pub(crate) const TOKEN: Self = Self { of: "token" };
}

/// What a caller may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Decision {
    answer: &'static str,
}

impl Decision {
    /// He may.
    pub(crate) const YES: Self = Self { answer: "yes" };
    /// He may not.
    pub(crate) const NO: Self = Self { answer: "no" };
    /// Whoever decides did not, which is a no.
    pub(crate) const UNDECIDED: Self = Self {
        answer: "undecided",
    };
}

/// An attempt to deliver an event to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Delivered {
    outcome: &'static str,
}

impl Delivered {
    /// The receiver took it.
    pub(crate) const DELIVERED: Self = Self {
        outcome: "delivered",
    };
    /// It is tried again.
    pub(crate) const RETRIED: Self = Self { outcome: "retried" };
    /// It was tried often enough.
    pub(crate) const FAILED: Self = Self { outcome: "failed" };
}

/// Makes the series that exist before anything happens.
pub(super) fn at_zero(metrics: &Metrics) {
    for quota in [Quota::JOIN, Quota::TOKEN] {
        drop(metrics.quota_exceeded.get_or_create(&quota));
    }
    for outcome in [Delivered::DELIVERED, Delivered::RETRIED, Delivered::FAILED] {
        drop(metrics.deliveries.get_or_create(&outcome));
    }
    for decision in [Decision::YES, Decision::NO, Decision::UNDECIDED] {
        drop(metrics.decisions.get_or_create(&decision));
    }
}
