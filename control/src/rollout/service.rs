//! What callers can do with rollouts.
//!
//! Takes the API's requests, gives the API's answers. Everything that a call changes is one transaction with its
//! event; the controller is woken after the commit.

mod board;
mod check;
mod create;
mod dry_run;
mod error;
mod explain;
mod freeze;
mod proven;
mod retry;
mod summary;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bc_protocol::{
    id::{GatewayId, NodeId, RolloutId, TenantId},
    release::Trust,
    session::ProtocolRange,
};
use tokio::sync::broadcast;

pub(crate) use board::{Board, Waiting, board, overview};
pub(crate) use create::create;
pub(crate) use dry_run::{plan, unpublished};
pub(crate) use error::RolloutError;
pub(crate) use explain::explain;
pub(crate) use freeze::{freeze, unfreeze};
pub(crate) use proven::newest_completed;
pub(crate) use retry::retry;
pub(crate) use summary::summary;

use super::{
    limits,
    operator::{self, Call, Flights},
    plan::Event,
    store::{
        self,
        load::{Look, Surroundings},
    },
    waker::Waker,
};
use crate::{
    api::rollout::{AbortRollout, ListRollouts, OneRollout, PauseRollout, Rollout, Rollouts},
    clock::Moment,
    db::{Db, contention::retried},
    metrics::Metrics,
};

/// What rollouts need of the process. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    /// The database.
    pub db: Db,
    /// Whom to believe.
    pub trust: Arc<Trust>,
    /// Wakes the controller.
    pub waker: Waker,
    /// Where nodes come out whose desired state may have changed.
    pub stale: broadcast::Sender<Arc<[NodeId]>>,
    /// Where nodes come out whose commands may have changed.
    pub commanded: broadcast::Sender<Arc<[NodeId]>>,
    /// Wakes whoever waits for the next command's time to be over.
    pub deadlines: Waker,
    /// The oldest protocol for full sessions.
    pub protocol_min: u32,
    /// Where removed nodes come out, for gateways to refuse.
    pub removed: broadcast::Sender<NodeId>,
    /// Where removed gateways come out, whose links are to end.
    pub retired: broadcast::Sender<GatewayId>,
    /// Where gateways come out of which another process doubts that anybody is at their links.
    pub doubted: broadcast::Sender<GatewayId>,
    /// Where nodes come out that have a newer session at another process, with its counter.
    pub overtaken: broadcast::Sender<(NodeId, u64)>,
    /// What artifacts' addresses begin with.
    pub downloads_url: Arc<str>,
    /// How long a node may be offline before its wave goes on without it.
    pub offline_grace: Duration,
    /// When the process started.
    pub started_at: Moment,
    /// What Prometheus reads.
    pub metrics: Arc<Metrics>,
}

impl Services {
    /// Of a process that starts now.
    pub(crate) fn new(db: Db, trust: Trust, downloads_url: &str, offline_grace: Duration) -> Self {
        Self {
            waker: Waker::new(db.hints().clone()),
            deadlines: Waker::new(db.hints().clone()),
            db,
            trust: Arc::new(trust),
            stale: broadcast::Sender::new(limits::STALE_BATCHES_MAX),
            commanded: broadcast::Sender::new(limits::STALE_BATCHES_MAX),
            protocol_min: ProtocolRange::CURRENT.min,
            removed: broadcast::Sender::new(limits::STALE_BATCHES_MAX),
            retired: broadcast::Sender::new(limits::STALE_BATCHES_MAX),
            doubted: broadcast::Sender::new(limits::STALE_BATCHES_MAX),
            overtaken: broadcast::Sender::new(limits::STALE_BATCHES_MAX),
            downloads_url: downloads_url.trim_end_matches('/').into(),
            offline_grace,
            started_at: Moment::now(),
            metrics: Arc::default(),
        }
    }

    /// Tells whoever dispatches commands. Called after the commit only.
    pub(crate) fn tell_commanded(&self, nodes: Vec<NodeId>) {
        if nodes.is_empty() {
            return;
        }
        let hints = self.db.hints();
        hints.tell(|hint| hint.commanded.extend(nodes.iter().cloned()));
        if self.commanded.send(nodes.into()).is_err() {
            tracing::debug!("no gateway is linked: commands are dispatched when one is");
        }
    }

    /// Tells every gateway that is linked. Called after the commit only.
    pub(crate) fn tell_removed(&self, node: &NodeId) {
        self.db.hints().tell(|hint| {
            hint.removed.insert(node.clone());
        });
        if self.removed.send(node.clone()).is_err() {
            tracing::debug!("no gateway is linked: each gets the list when it is");
        }
    }

    /// Tells whichever process holds the link of a gateway that was removed. Called after the commit only.
    pub(crate) fn tell_retired(&self, gateway: &GatewayId) {
        self.db.hints().tell(|hint| {
            hint.retired.insert(gateway.clone());
        });
        if self.retired.send(gateway.clone()).is_err() {
            tracing::debug!("no links are taken here: there is none to end");
        }
    }

    /// Asks the other processes, one of which holds the gateway's link, whether anybody is there.
    pub(crate) fn tell_doubted(&self, gateway: &GatewayId) {
        self.db.hints().tell(|hint| {
            hint.doubted.insert(gateway.clone());
        });
    }

    /// Tells the other processes, one of which may hold the session that has lost. Called after the commit only.
    pub(crate) fn tell_overtaken(&self, nodes: BTreeMap<NodeId, u64>) {
        if !nodes.is_empty() {
            let hints = self.db.hints();
            hints.tell(|hint| hint.overtaken.extend(nodes));
        }
    }

    /// What a snapshot needs of the process.
    pub(super) fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            trust: &self.trust,
            started_at: self.started_at,
            offline_grace: self.offline_grace,
        }
    }

    /// Tells whoever pushes specs. Called after the commit only.
    pub(crate) fn tell_stale(&self, nodes: Vec<NodeId>) {
        if nodes.is_empty() {
            return;
        }
        let hints = self.db.hints();
        hints.tell(|hint| hint.stale.extend(nodes.iter().cloned()));
        if self.stale.send(nodes.into()).is_err() {
            tracing::debug!(
                "nobody listens for stale nodes: their specs are computed when they connect"
            );
        }
    }
}

/// One log line an event. Called after the commit only.
pub(super) fn tell(rollout: &RolloutId, events: &[Event]) {
    for Event { kind, actor, data } in events {
        tracing::info!(%rollout, actor, %data, "{kind}");
    }
}

/// `rollouts.list`
pub(crate) async fn list(
    services: &Services,
    request: ListRollouts,
) -> Result<Rollouts, RolloutError> {
    let mut tx = services.db.reader().begin().await?;
    let mut rollouts = store::read::newest(&mut tx, &request.tenant_id).await?;
    let word = store::freeze::read(&mut tx, &request.tenant_id).await?;
    if let Some(word) = word.map(freeze::frozen) {
        for rollout in rollouts.iter_mut().filter(|one| !board::has_ended(one)) {
            rollout.frozen = Some(word.clone());
        }
    }
    Ok(Rollouts { rollouts })
}

/// `rollouts.get`
pub(crate) async fn get(services: &Services, request: OneRollout) -> Result<Rollout, RolloutError> {
    // One transaction, so that the counts are those of the list.
    let mut tx = services.db.reader().begin().await?;
    let mut rollout = store::read::one(&mut tx, &request.tenant_id, &request.rollout_id)
        .await?
        .ok_or_else(|| RolloutError::no_rollout(&request.rollout_id))?;
    freeze::mark(&mut tx, &request.tenant_id, &mut rollout).await?;
    let settled_at = store::board::settled_at(&mut tx, &request.rollout_id).await?;
    let soaks_until = settled_at.and_then(|at| board::soaks_until(&rollout, at));
    rollout.soaks_until = soaks_until.filter(|until| *until > Moment::now());
    rollout.node_list = Some(store::read::nodes(&mut tx, &request.rollout_id).await?);
    rollout.late_nodes = Some(store::late::listed(&mut tx, &request.rollout_id).await?);
    Ok(rollout)
}

/// `rollouts.pause`
pub(crate) async fn pause(
    services: &Services,
    actor: &str,
    request: PauseRollout,
) -> Result<Rollout, RolloutError> {
    let reason = request.reason.map(check::reason).transpose()?;
    let target = (&request.tenant_id, &request.rollout_id);
    call(services, actor, target, &Call::Pause { reason }).await
}

/// `rollouts.resume`
pub(crate) async fn resume(
    services: &Services,
    actor: &str,
    request: OneRollout,
) -> Result<Rollout, RolloutError> {
    let target = (&request.tenant_id, &request.rollout_id);
    call(services, actor, target, &Call::Resume).await
}

/// `rollouts.abort`
pub(crate) async fn abort(
    services: &Services,
    actor: &str,
    request: AbortRollout,
) -> Result<Rollout, RolloutError> {
    let reason = request.reason.map(check::reason).transpose()?;
    let reason = reason.unwrap_or_else(|| "aborted by an operator".to_owned());
    let flights = if request.rollback {
        Flights::RollBack
    } else {
        Flights::Fail
    };
    let target = (&request.tenant_id, &request.rollout_id);
    call(services, actor, target, &Call::Abort { reason, flights }).await
}

/// Carries out an operator's call under the same lock as a pass, and answers with what it left.
async fn call(
    services: &Services,
    actor: &str,
    target: (&TenantId, &RolloutId),
    call: &Call,
) -> Result<Rollout, RolloutError> {
    retried(|| call_once(services, actor, target, call)).await
}

async fn call_once(
    services: &Services,
    actor: &str,
    (tenant, id): (&TenantId, &RolloutId),
    call: &Call,
) -> Result<Rollout, RolloutError> {
    let mut tx = services.db.begin().await?;
    store::lock(&mut tx, id).await?;
    // The time is taken under the lock: a call that had to wait is not older than the pass that it waited for.
    let now = Moment::now();
    if store::read::one(&mut tx, tenant, id).await?.is_none() {
        return Err(RolloutError::no_rollout(id));
    }
    let nobody = BTreeSet::new();
    let look = match call {
        // It ends every flight.
        Call::Abort { .. } => Look::Everything,
        Call::Pause { .. } | Call::Resume => Look::News {
            nodes: &nobody,
            now,
        },
    };
    let snapshot = store::load::snapshot(&mut tx, id, (look, services.surroundings()))
        .await?
        .ok_or_else(|| RolloutError::no_rollout(id))?;
    let plan =
        operator::plan(&snapshot, call, actor, now).map_err(|ended| RolloutError::Ended {
            rollout: id.clone(),
            state: ended.state,
        })?;
    store::apply::apply(&mut tx, &snapshot, &plan).await?;
    let mut rollout = store::read::one(&mut tx, tenant, id)
        .await?
        .ok_or_else(|| RolloutError::no_rollout(id))?;
    freeze::mark(&mut tx, tenant, &mut rollout).await?;
    tx.commit().await?;
    tell(id, &plan.events);
    services.tell_stale(plan.stale);
    services.waker.wake_for(id);
    Ok(rollout)
}
