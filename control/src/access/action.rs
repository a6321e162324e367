//! What can be done, as permissions name it.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// The tenant of those who operate the platform.
pub(crate) const ROOT_TENANT: &str = "root";

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// Releases, rollouts, gateways: everything that concerns the whole fleet.
    FleetAdmin,
    /// Looking at pools and nodes.
    PoolRead,
    /// Changing pools and nodes.
    PoolAdmin,
    /// Tokens and webhooks of a tenant.
    TenantAdmin,
}

impl Action {
    /// Every action, as the first token may do them.
    pub(crate) const ALL: [Self; 4] = [
        Self::FleetAdmin,
        Self::PoolRead,
        Self::PoolAdmin,
        Self::TenantAdmin,
    ];

    /// The word in permissions and questions.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::FleetAdmin => "compute:fleet:admin",
            Self::PoolRead => "compute:pool:read",
            Self::PoolAdmin => "compute:pool:admin",
            Self::TenantAdmin => "compute:tenant:admin",
        }
    }

    /// What it is done to, as questions name it.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::FleetAdmin => "compute-fleet/global",
            Self::PoolRead | Self::PoolAdmin => "compute-pool/<id>",
            Self::TenantAdmin => "compute-tenant/<id>",
        }
    }

    /// Whether holding this action's permission is enough for `wanted`.
    pub(super) fn covers(self, wanted: Self) -> bool {
        self == wanted || (self, wanted) == (Self::PoolAdmin, Self::PoolRead)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a text is no action.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "expected one of compute:fleet:admin, compute:pool:read, compute:pool:admin, compute:tenant:admin"
)]
pub(crate) struct UnknownAction;

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        Self::ALL
            .into_iter()
            .find(|action| action.word() == text)
            .ok_or(UnknownAction)
    }
}
