//! What operators do here: the API's own calls, with their checks, their locks and their events.

use axum::response::Redirect;
use bc_protocol::id::{RolloutId, TenantId};

use super::{
    failure::Failure,
    fields::Fields,
    operator::{Address, Signed},
};
use crate::{
    api::{
        freeze::{FreezeFleet, OneFleet},
        rollout::{AbortRollout, OneRollout, PauseRollout},
    },
    rollout::service,
};

type Named = Address<(TenantId, RolloutId)>;

/// `rollouts/{rollout}/pause`
pub(super) async fn pause(
    Address((tenant_id, rollout_id)): Named,
    Signed { operator, fields }: Signed,
) -> Result<Redirect, Failure> {
    let back = back(&tenant_id, &rollout_id, "paused");
    let request = PauseRollout {
        tenant_id,
        rollout_id,
        reason: reason(&fields),
    };
    service::pause(&operator.app().services, operator.name(), request).await?;
    Ok(back)
}

/// `rollouts/{rollout}/resume`
pub(super) async fn resume(
    Address((tenant_id, rollout_id)): Named,
    Signed { operator, .. }: Signed,
) -> Result<Redirect, Failure> {
    let back = back(&tenant_id, &rollout_id, "resumed");
    let request = OneRollout {
        tenant_id,
        rollout_id,
    };
    service::resume(&operator.app().services, operator.name(), request).await?;
    Ok(back)
}

/// `rollouts/{rollout}/abort`
pub(super) async fn abort(
    Address((tenant_id, rollout_id)): Named,
    Signed { operator, fields }: Signed,
) -> Result<Redirect, Failure> {
    let back = back(&tenant_id, &rollout_id, "aborted");
    let request = AbortRollout {
        tenant_id,
        rollout_id,
        reason: reason(&fields),
        rollback: fields.text("rollback") == "yes",
    };
    service::abort(&operator.app().services, operator.name(), request).await?;
    Ok(back)
}

/// `fleet/freeze`
pub(super) async fn freeze(
    Address(tenant_id): Address<TenantId>,
    Signed { operator, fields }: Signed,
) -> Result<Redirect, Failure> {
    let back = Redirect::to(&format!("/console/t/{tenant_id}/fleet?said=frozen"));
    let request = FreezeFleet {
        tenant_id,
        reason: reason(&fields),
    };
    service::freeze(&operator.app().services, operator.name(), request).await?;
    Ok(back)
}

/// `fleet/unfreeze`
pub(super) async fn unfreeze(
    Address(tenant_id): Address<TenantId>,
    Signed { operator, .. }: Signed,
) -> Result<Redirect, Failure> {
    let back = Redirect::to(&format!("/console/t/{tenant_id}/fleet?said=unfrozen"));
    let request = OneFleet { tenant_id };
    service::unfreeze(&operator.app().services, operator.name(), request).await?;
    Ok(back)
}

fn back(tenant: &TenantId, rollout: &RolloutId, said: &str) -> Redirect {
    Redirect::to(&format!(
        "/console/t/{tenant}/rollouts/{rollout}?said={said}"
    ))
}

/// Forms end lines as typewriters do; reasons have plain ones.
fn reason(fields: &Fields) -> Option<String> {
    let reason = fields.text("reason").replace("\r\n", "\n");
    (!reason.is_empty()).then_some(reason)
}
