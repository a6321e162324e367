//! The planner under test: a model that applies plans the way the store does, scenarios in a small script, and a
//! random driver that checks what must never happen.

mod driver;
mod scenarios;
mod script;
pub(crate) mod signed;
mod sqlite;
mod world;

use crate::{clock::Moment, db::Tx};
use bc_protocol::id::TenantId;

/// An operator's word.
pub(crate) fn freeze(reason: &str) -> super::snapshot::Freeze {
    super::store::freeze::of(reason, Moment::now())
}

/// Keeps it, or takes it back.
pub(crate) async fn write_freeze(
    tx: &mut Tx,
    tenant: &TenantId,
    freeze: Option<&super::snapshot::Freeze>,
) {
    super::store::freeze::write(tx, tenant, freeze)
        .await
        .unwrap();
}
