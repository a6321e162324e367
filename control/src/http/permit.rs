//! What a method wants of its caller, as a type.
//!
//! A handler that takes [`Caller<FleetAdmin>`](super::caller::Caller) can ask for that permission only, and the API's
//! description reads it from the same type: what is decided and what is described cannot differ.

use crate::access::action::Action;

/// One or several permissions, each of which is enough.
pub(super) trait Permit: Send + Sync + 'static {
    /// They, in the order in which they are asked for.
    const ANY_OF: &'static [Action];
}

/// Releases, rollouts, gateways: what concerns the whole fleet.
pub(super) enum FleetAdmin {}

impl Permit for FleetAdmin {
    const ANY_OF: &'static [Action] = &[Action::FleetAdmin];
}

/// Looking at pools and nodes.
pub(super) enum PoolRead {}

impl Permit for PoolRead {
    const ANY_OF: &'static [Action] = &[Action::PoolRead];
}

/// Changing pools and nodes.
pub(super) enum PoolAdmin {}

impl Permit for PoolAdmin {
    const ANY_OF: &'static [Action] = &[Action::PoolAdmin];
}

/// Tokens and webhooks of a tenant.
pub(super) enum TenantAdmin {}

impl Permit for TenantAdmin {
    const ANY_OF: &'static [Action] = &[Action::TenantAdmin];
}

/// Looking at a tenant's events: each of these shows those about what it lets look at.
pub(super) enum EventRead {}

impl Permit for EventRead {
    const ANY_OF: &'static [Action] = &[Action::PoolRead, Action::FleetAdmin, Action::TenantAdmin];
}
