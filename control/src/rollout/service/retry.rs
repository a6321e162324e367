//! `rollouts.retry`

use std::collections::BTreeSet;

use bc_protocol::id::NodeId;
use serde_json::json;

use super::{RolloutError, Services};
use crate::{
    api::rollout::{RetryRollout, Rollout, RolloutState},
    clock::Moment,
    db::contention::retried,
    event::outbox::{Draft, publish},
    rollout::{limits, store},
};

/// Has nodes that failed in a completed rollout tried again, as late ones: their rows of its waves stay as they ended.
pub(crate) async fn retry(
    services: &Services,
    actor: &str,
    request: RetryRollout,
) -> Result<Rollout, RolloutError> {
    let wanted = wanted(request.node_ids.clone())?;
    retried(|| retry_once(services, actor, &request, wanted.as_ref())).await
}

async fn retry_once(
    services: &Services,
    actor: &str,
    request: &RetryRollout,
    wanted: Option<&BTreeSet<NodeId>>,
) -> Result<Rollout, RolloutError> {
    let (tenant, id) = (&request.tenant_id, &request.rollout_id);
    let mut tx = services.db.begin().await?;
    store::lock(&mut tx, id).await?;
    let now = Moment::now();
    let rollout = store::read::one(&mut tx, tenant, id)
        .await?
        .ok_or_else(|| RolloutError::no_rollout(id))?;
    if rollout.state != RolloutState::Completed || store::retry::is_narrowed(&mut tx, id).await? {
        return Err(RolloutError::NoRetry {
            rollout: id.clone(),
            state: rollout.state,
        });
    }
    let failed = store::retry::failed(&mut tx, id).await?;
    if let Some(node) = wanted
        .into_iter()
        .flatten()
        .find(|node| !failed.contains_key(*node))
    {
        return Err(RolloutError::NotFailed { node: node.clone() });
    }
    let again: Vec<_> = failed
        .iter()
        .filter(|(node, _)| wanted.is_none_or(|wanted| wanted.contains(*node)))
        .collect();
    for (node, pool) in &again {
        store::retry::ask(&mut tx, id, (node, pool)).await?;
    }
    let draft = Draft {
        kind: "rollout.retried",
        subject: format!("rollout/{id}"),
        tenant,
        actor,
        data: json!({ "version": rollout.version, "nodes": again.len() }),
    };
    publish(&mut tx, draft, now);
    let mut rollout = rollout;
    rollout.late_nodes = Some(store::late::listed(&mut tx, id).await?);
    tx.commit().await?;
    tracing::info!(rollout = %id, actor, nodes = again.len(), "rollout.retried");
    services.waker.wake();
    Ok(rollout)
}

fn wanted(listed: Option<Vec<NodeId>>) -> Result<Option<BTreeSet<NodeId>>, RolloutError> {
    let Some(nodes) = listed else {
        return Ok(None);
    };
    if !(1..=limits::NODES_MAX).contains(&nodes.len()) {
        return Err(RolloutError::Invalid {
            field: "nodeIds",
            rule: "1 to 10000 nodes",
            found: nodes.len().to_string(),
        });
    }
    Ok(Some(nodes.into_iter().collect()))
}
