//! The decision.
//!
//! Takes a question, gives an answer with its reason. Built-in: what the token says. Another service can take its
//! place by implementing [`Decide`]; its failing or being slow is a no.

use std::fmt;

use bc_protocol::id::{PoolId, TenantId};
use futures_util::future::{BoxFuture, ready};
use thiserror::Error;

use super::{
    action::{Action, ROOT_TENANT},
    token::Subject,
};

/// What it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    /// `compute-fleet/global`; it exists in the root tenant only.
    Fleet,
    /// `compute-pool/<id>`, or all pools of a tenant.
    Pool(&'a TenantId, Option<&'a PoolId>),
    /// `compute-tenant/<id>`.
    Tenant(&'a TenantId),
}

impl<'a> Resource<'a> {
    /// What of a tenant an action is done to: all of that kind.
    pub(crate) fn of_tenant(action: Action, tenant: &'a TenantId) -> Self {
        match action {
            Action::FleetAdmin => Self::Fleet,
            Action::PoolRead | Action::PoolAdmin => Self::Pool(tenant, None),
            Action::TenantAdmin => Self::Tenant(tenant),
        }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("compute-fleet/global"),
            Self::Pool(_, Some(pool)) => write!(f, "compute-pool/{pool}"),
            Self::Pool(tenant, None) => write!(f, "the pools of tenant {tenant}"),
            Self::Tenant(tenant) => write!(f, "compute-tenant/{tenant}"),
        }
    }
}

/// Somebody wants to do something to a thing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    /// Who.
    pub subject: &'a Subject,
    /// What.
    pub action: Action,
    /// To what.
    pub resource: Resource<'a>,
}

/// No, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Denied {
    /// The token does not say so.
    #[error("expected the permission {wanted} on {resource}, which {subject} does not have")]
    Permission {
        /// The permission.
        wanted: Action,
        /// On what.
        resource: String,
        /// Who asked.
        subject: String,
    },
    /// The token is for another tenant.
    #[error("expected a token that speaks for {resource}, found one of tenant {tenant}")]
    Tenant {
        /// What was asked for.
        resource: String,
        /// The token's tenant.
        tenant: TenantId,
    },
    /// Whoever decides did not.
    #[error(
        "expected a decision about this call, found none: the decision service does not answer"
    )]
    Undecided,
}

/// Whoever decides.
pub(crate) trait Decide: Send + Sync {
    /// Answers one question.
    fn decide<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Result<(), Denied>>;
}

/// Decides by what the token itself says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltIn;

impl Decide for BuiltIn {
    fn decide<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Result<(), Denied>> {
        Box::pin(ready(by_token(question)))
    }
}

fn by_token(question: Question<'_>) -> Result<(), Denied> {
    let Question {
        subject,
        action,
        resource,
    } = question;
    let is_root = subject.tenant.as_str() == ROOT_TENANT;
    // Operators of the platform look after every tenant's pools.
    let speaks_for_all = is_root && subject.may(Action::FleetAdmin);
    let in_reach = match resource {
        Resource::Fleet => is_root,
        Resource::Pool(tenant, _) | Resource::Tenant(tenant) => {
            speaks_for_all || subject.tenant == *tenant
        }
    };
    if !in_reach {
        return Err(Denied::Tenant {
            resource: resource.to_string(),
            tenant: subject.tenant.clone(),
        });
    }
    if subject.may(action) {
        return Ok(());
    }
    Err(Denied::Permission {
        wanted: action,
        resource: resource.to_string(),
        subject: subject.name.clone(),
    })
}

impl Subject {
    fn may(&self, wanted: Action) -> bool {
        self.permissions.iter().any(|held| held.covers(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Question, Resource, Subject, by_token};

    fn subject(tenant: &str, permissions: &[Action]) -> Subject {
        Subject {
            name: "alice".to_owned(),
            tenant: tenant.parse().unwrap(),
            permissions: permissions.iter().copied().collect(),
        }
    }

    fn check(tenant: &str, held: &[Action], action: Action, of: Option<&str>, allowed: bool) {
        let subject = subject(tenant, held);
        let of = of.map(|of| of.parse().unwrap());
        let resource = match (&of, action) {
            (None, _) => Resource::Fleet,
            (Some(of), Action::TenantAdmin) => Resource::Tenant(of),
            (Some(of), _) => Resource::Pool(of, None),
        };
        let question = Question {
            subject: &subject,
            action,
            resource,
        };
        assert_eq!(by_token(question).is_ok(), allowed, "{question:?}");
    }

    #[test]
    fn the_fleet_belongs_to_root() {
        check(
            "root",
            &[Action::FleetAdmin],
            Action::FleetAdmin,
            None,
            true,
        );
        check(
            "acme",
            &[Action::FleetAdmin],
            Action::FleetAdmin,
            None,
            false,
        );
        check(
            "root",
            &[Action::PoolAdmin],
            Action::FleetAdmin,
            None,
            false,
        );
        check("root", &[], Action::FleetAdmin, None, false);
    }

    #[test]
    fn pools_belong_to_their_tenant_and_to_platform_operators() {
        let (read, admin) = (Action::PoolRead, Action::PoolAdmin);
        check("acme", &[read], read, Some("acme"), true);
        check("acme", &[read], admin, Some("acme"), false);
        check("acme", &[admin], read, Some("acme"), true);
        check("acme", &[admin], admin, Some("other"), false);
        check(
            "acme",
            &[admin, Action::FleetAdmin],
            read,
            Some("other"),
            false,
        );
        check("root", &[admin], read, Some("acme"), false);
        check(
            "root",
            &[admin, Action::FleetAdmin],
            read,
            Some("acme"),
            true,
        );
    }

    #[test]
    fn a_fleet_permission_alone_opens_no_pool() {
        check(
            "root",
            &[Action::FleetAdmin],
            Action::PoolRead,
            Some("root"),
            false,
        );
        check(
            "root",
            &[Action::FleetAdmin],
            Action::TenantAdmin,
            Some("root"),
            false,
        );
    }

    #[test]
    fn actions_survive_their_text() {
        for action in Action::ALL {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
        assert!("compute:fleet:Admin".parse::<Action>().is_err());
    }
}
