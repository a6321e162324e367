//! `fleet.freeze`, `fleet.unfreeze`

use bc_protocol::id::TenantId;
use serde_json::json;

use super::{RolloutError, Services, board::has_ended, check};
use crate::{
    api::{
        freeze::{Fleet, FreezeFleet, Frozen, OneFleet},
        rollout::Rollout,
    },
    clock::Moment,
    db::{Conn, contention::retried},
    event::outbox::{Draft, publish},
    rollout::{snapshot::Freeze, store},
};

/// What an operator wants of a tenant.
enum Word {
    Freeze {
        reason: Option<String>,
        since: Moment,
    },
    Unfreeze,
}

/// Stops every start in a tenant, late nodes' too. What is in flight settles. Repeated, it takes the new reason, if there is
/// one, and stays frozen since it was.
pub(crate) async fn freeze(
    services: &Services,
    actor: &str,
    request: FreezeFleet,
) -> Result<Fleet, RolloutError> {
    let word = Word::Freeze {
        reason: request.reason.map(check::reason).transpose()?,
        since: Moment::now(),
    };
    change(services, actor, (&request.tenant_id, &word)).await
}

/// Lets nodes start again.
pub(crate) async fn unfreeze(
    services: &Services,
    actor: &str,
    request: OneFleet,
) -> Result<Fleet, RolloutError> {
    change(services, actor, (&request.tenant_id, &Word::Unfreeze)).await
}

async fn change(
    services: &Services,
    actor: &str,
    change: (&TenantId, &Word),
) -> Result<Fleet, RolloutError> {
    retried(|| change_once(services, actor, change)).await
}

async fn change_once(
    services: &Services,
    actor: &str,
    (tenant, word): (&TenantId, &Word),
) -> Result<Fleet, RolloutError> {
    let mut tx = services.db.begin().await?;
    let known = store::freeze::read(&mut tx, tenant).await?;
    store::freeze::write(&mut tx, tenant, word.after(known, actor).as_ref()).await?;
    let frozen = store::freeze::read(&mut tx, tenant).await?.map(frozen);
    let (kind, data) = match &frozen {
        Some(frozen) => ("fleet.frozen", json!({ "reason": frozen.reason })),
        None => ("fleet.unfrozen", json!({})),
    };
    let draft = Draft {
        kind,
        subject: format!("fleet/{tenant}"),
        tenant,
        actor,
        data,
    };
    publish(&mut tx, draft, Moment::now());
    tx.commit().await?;
    tracing::info!(%tenant, actor, "{kind}");
    services.waker.wake();
    Ok(Fleet { frozen })
}

impl Word {
    /// What stands after it. A reason that somebody gave stays until somebody gives another one.
    fn after(&self, known: Option<Freeze>, actor: &str) -> Option<Freeze> {
        let Self::Freeze { reason, since } = self else {
            return None;
        };
        let given = reason.clone().map(|reason| Freeze {
            reason,
            by: actor.to_owned(),
            since: *since,
        });
        Some(given.or(known).unwrap_or_else(|| Freeze {
            reason: "frozen by an operator".to_owned(),
            by: actor.to_owned(),
            since: *since,
        }))
    }
}

/// Says of a rollout that has not ended why nothing of it starts, if nothing in the tenant does.
pub(super) async fn mark(
    conn: &mut Conn,
    tenant: &TenantId,
    rollout: &mut Rollout,
) -> Result<(), sqlx::Error> {
    if !has_ended(rollout) {
        rollout.frozen = store::freeze::read(conn, tenant).await?.map(frozen);
    }
    Ok(())
}

/// As the API gives it.
pub(super) fn frozen(freeze: Freeze) -> Frozen {
    Frozen {
        reason: freeze.reason,
        by: freeze.by,
        since: freeze.since,
    }
}
