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

/// Work that is done over and over, and can fail over and over.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Work {
    work: &'static str,
}

impl Work {
    /// To look which rollouts there is something to do for.
    pub(crate) const AGENDA: Self = Self { work: "agenda" };
    /// A pass over one rollout's waves.
    pub(crate) const PASS: Self = Self { work: "pass" };
    /// A pass over one rollout's late nodes.
    pub(crate) const LATE_PASS: Self = Self { work: "late-pass" };
    /// To compute one node's spec.
    pub(crate) const SPEC: Self = Self { work: "spec" };
    /// To keep what a gateway reports.
    pub(crate) const FACTS: Self = Self { work: "facts" };
    /// To end commands whose time is over.
    pub(crate) const COMMANDS: Self = Self { work: "commands" };
    /// To hand commands out.
    pub(crate) const DISPATCH: Self = Self { work: "dispatch" };
    /// To make deliveries of events.
    pub(crate) const WEBHOOKS: Self = Self { work: "webhooks" };
    /// To end the sessions of gateways that are gone.
    pub(crate) const LOST_GATEWAYS: Self = Self {
        work: "lost-gateways",
    };
    /// To tell nodes of today's gateways.
    pub(crate) const COMPANY: Self = Self { work: "company" };
    /// To show other processes that this one lives.
    pub(crate) const BEAT: Self = Self { work: "beat" };
    /// To hear other processes.
    pub(crate) const PEERS: Self = Self { work: "peers" };
    /// To renew a certificate of control's, a gateway's or a node's.
    pub(crate) const CERTIFICATE: Self = Self {
        work: "certificate",
    };

    const ALL: [Self; 13] = [
        Self::AGENDA,
        Self::PASS,
        Self::LATE_PASS,
        Self::SPEC,
        Self::FACTS,
        Self::COMMANDS,
        Self::DISPATCH,
        Self::WEBHOOKS,
        Self::LOST_GATEWAYS,
        Self::COMPANY,
        Self::BEAT,
        Self::PEERS,
        Self::CERTIFICATE,
    ];
}

/// Makes the series that exist before anything happens.
pub(super) fn at_zero(metrics: &Metrics) {
    for quota in [Quota::JOIN, Quota::TOKEN] {
        drop(metrics.quota_exceeded.get_or_create(&quota));
    }
    for outcome in [Delivered::DELIVERED, Delivered::RETRIED, Delivered::FAILED] {
        drop(metrics.deliveries.get_or_create(&outcome));
    }
    for work in Work::ALL {
        drop(metrics.work_failed.get_or_create(&work));
    }
    for decision in [Decision::YES, Decision::NO, Decision::UNDECIDED] {
        drop(metrics.decisions.get_or_create(&decision));
    }
}
