//! `nodes.*`

use axum::{Json, extract::State};
use bc_protocol::id::{NodeId, TenantId};

use super::{
    Shared,
    caller::{Caller, OneUse, Visitor},
    error::Refusal,
    input::Input,
    permit::{Permit, PoolAdmin, PoolRead},
};
use crate::{
    access::decide::Resource,
    api::fleet::{
        JoinNode, JoinedNode, ListNodes, Node, Nodes, OneNode, RemovedNode, RenewNode, UpdateNode,
    },
    clock::Moment,
    fleet::{
        authority::CertifiedKey,
        change, join, node,
        renew::{self, RenewError},
    },
};

pub(super) async fn join(
    State(app): State<Shared>,
    OneUse(bearer): OneUse,
    Input(request): Input<JoinNode>,
) -> Result<Json<JoinedNode>, Refusal> {
    let joined = join::join(
        &app.services.db,
        &app.authority,
        &bearer,
        &request,
        Moment::now(),
    )
    .await?;
    Ok(Json(joined))
}

/// For nodes whose certificate has expired while they were away: the request's own signature says who calls.
pub(super) async fn renew(
    State(app): State<Shared>,
    _visitor: Visitor,
    Input(request): Input<RenewNode>,
) -> Result<Json<JoinedNode>, Refusal> {
    let key = CertifiedKey::from_request(&request.csr).map_err(RenewError::from)?;
    let renewed = renew::node(
        &app.services.db,
        &app.authority,
        &request.node_id,
        &key,
        Moment::now(),
    )
    .await?;
    Ok(Json(renewed))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<PoolRead>,
    Input(request): Input<ListNodes>,
) -> Result<Json<Nodes>, Refusal> {
    let pools = Resource::Pool(&request.tenant_id, request.pool_id.as_ref());
    caller.may(pools).await?;
    Ok(Json(node::list(&app.services.db, &request).await?))
}

pub(super) async fn get(
    State(app): State<Shared>,
    caller: Caller<PoolRead>,
    Input(request): Input<OneNode>,
) -> Result<Json<Node>, Refusal> {
    may(&app, &caller, (&request.tenant_id, &request.node_id)).await?;
    let node = node::get(&app.services.db, &request.tenant_id, &request.node_id).await?;
    Ok(Json(node))
}

pub(super) async fn update(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<UpdateNode>,
) -> Result<Json<Node>, Refusal> {
    may(&app, &caller, (&request.tenant_id, &request.node_id)).await?;
    let db = &app.services.db;
    let node = change::update(db, caller.name(), &request, Moment::now()).await?;
    // A node that went into maintenance leaves the rollouts that it waits in.
    app.services.waker.wake();
    Ok(Json(node))
}

pub(super) async fn remove(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<OneNode>,
) -> Result<Json<RemovedNode>, Refusal> {
    may(&app, &caller, (&request.tenant_id, &request.node_id)).await?;
    let db = &app.services.db;
    let removed = change::remove(db, caller.name(), &request, Moment::now()).await?;
    app.services.tell_removed(&removed.id);
    // What it was to do ends with it.
    app.services.deadlines.wake_here();
    // Its rows settle, and its place is free for another.
    app.services.waker.wake();
    Ok(Json(removed))
}

/// Goes on only if the caller may do this to the node's pool; of a node that is not there, to all of them.
async fn may<P: Permit>(
    app: &Shared,
    caller: &Caller<P>,
    (tenant, node): (&TenantId, &NodeId),
) -> Result<(), Refusal> {
    let pool = node::pool_of(&app.services.db, tenant, node).await?;
    let pool = Resource::Pool(tenant, pool.as_ref());
    caller.may(pool).await
}
