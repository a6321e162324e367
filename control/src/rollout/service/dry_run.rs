//! `rollouts.plan`

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bc_protocol::{id::PoolId, version::Version};

use super::{RolloutError, Services, create};
use crate::{
    api::rollout::{CreateRollout, PlanWarning, PlannedPool, PlannedWave, RolloutPlan, RowState},
    clock::Moment,
    db::Conn,
    rollout::{
        budget::Budget,
        forecast::{self, Forecast, Order, Outlook, Prospect, Reachable, Work},
        plan::barred,
        snapshot::{Offer, Scope, Trouble},
        store::{
            self,
            create::{Member, New, Reach},
            outlook::Kin,
        },
    },
};

/// Says what `rollouts.create` would begin with the same request, and refuses what that would refuse. It only reads.
/// Without a key, which of the nodes stand in which wave is decided when the rollout is created.
pub(crate) async fn plan(
    services: &Services,
    actor: &str,
    request: CreateRollout,
) -> Result<RolloutPlan, RolloutError> {
    let mut conn = services.db.reader().begin().await?;
    let now = Moment::now();
    let id = create::id(actor, &request, now);
    let asked = (actor, &request);
    let (new, pools, target) = create::offered(&mut conn, asked, (id, now), services).await?;
    let members = store::create::members(&mut conn, &new, &pools).await?;
    if members.is_empty() {
        return Err(RolloutError::NobodyInScope);
    }
    let busy = store::outlook::busy(&mut conn, new.tenant, &pools).await?;
    if let Some(rollout) = members.iter().find_map(|member| busy.get(&member.number)) {
        let rollout = rollout.clone();
        return Err(RolloutError::Busy { rollout });
    }
    let per_node = store::outlook::per_node(&mut conn, new.tenant).await?;
    let left_out = left_out(&mut conn, (&new, &pools), members.len()).await?;
    let outlook = Outlook {
        members: prospects(&mut conn, (&new, &pools, &target), members).await?,
        pools: store::outlook::budgets(&mut conn, new.tenant).await?,
        waves: &new.waves,
        soak: new.terms.soak,
        timeout: new.terms.timeout,
        per_node: per_node.unwrap_or(forecast::GUESS),
        version: &new.terms.version,
        order: match &request.idempotency_key {
            Some(_) => Order::Known,
            None => Order::Drawn,
        },
        left_out,
        aborted: store::outlook::aborted(&mut conn, new.tenant, &new.terms.version).await?,
        frozen: store::freeze::read(&mut conn, new.tenant).await?,
    };
    let made = forecast::forecast(&outlook);
    Ok(answer(&new, &outlook, &made))
}

/// How many nodes are not in scope for no other reason than that they are in maintenance.
async fn left_out(
    conn: &mut Conn,
    (new, pools): (&New<'_>, &BTreeSet<PoolId>),
    members: usize,
) -> Result<u32, RolloutError> {
    match (new.terms.scope, &new.reach) {
        (Scope::MaintenanceToo, _) => return Ok(0),
        (Scope::NotInMaintenance, Reach::Everything) => {
            return Ok(store::outlook::in_maintenance(conn, pools).await?);
        }
        (Scope::NotInMaintenance, Reach::Nodes(_) | Reach::Selector(_)) => {}
    }
    let mut all = new.clone();
    all.terms.scope = Scope::MaintenanceToo;
    let all = store::create::members(conn, &all, pools).await?.len();
    Ok(u32::try_from(all.saturating_sub(members)).unwrap_or(u32::MAX))
}

/// What the planner would make of nodes.
struct Prospects {
    reach: Reachable,
    bar: Option<Trouble>,
    runs: Option<Version>,
}

impl Prospects {
    fn of(kin: &Kin, bringing: (&Version, &Offer)) -> Self {
        let said = kin.said.as_ref();
        let bar = said.and_then(|said| {
            let held = said.held.as_deref();
            barred((kin.arch.as_deref(), held), said.floor, bringing)
        });
        Self {
            reach: kin.reach,
            bar,
            runs: said.map(|said| said.version.clone()),
        }
    }
}

/// What the planner would make of each node, in the rollout's order.
async fn prospects(
    conn: &mut Conn,
    (new, pools, target): (&New<'_>, &BTreeSet<PoolId>, &Offer),
    members: Vec<Member<'_>>,
) -> Result<Vec<Prospect>, RolloutError> {
    let mut kin = Vec::new();
    for pool in pools {
        kin.extend(store::outlook::nodes(conn, pool).await?);
    }
    let bringing = (&new.terms.version, target);
    let mut nodes: BTreeMap<i64, Arc<Prospects>> = BTreeMap::new();
    for kin in &kin {
        let prospects = Arc::new(Prospects::of(kin, bringing));
        nodes.extend(kin.nodes.iter().map(|node| (*node, Arc::clone(&prospects))));
    }
    let prospects = members.into_iter().map(|member| {
        let known = nodes.get(&member.number);
        Prospect {
            pool: member.pool.clone(),
            work: work(member.start),
            reach: known.map_or(Reachable::Offline, |known| known.reach),
            bar: known.and_then(|known| known.bar.clone()),
            runs: known.and_then(|known| known.runs.clone()),
        }
    });
    Ok(prospects.collect())
}

fn work(start: RowState) -> Work {
    match start {
        RowState::Succeeded => Work::Nothing,
        RowState::Pending
        | RowState::Upgrading
        | RowState::Failed
        | RowState::Skipped
        | RowState::RollingBack
        | RowState::RolledBack => Work::Upgrade,
    }
}

fn answer(new: &New<'_>, outlook: &Outlook<'_>, made: &Forecast) -> RolloutPlan {
    RolloutPlan {
        version: new.terms.version.clone(),
        nodes: u32::try_from(outlook.members.len()).unwrap_or(u32::MAX),
        already: made.already,
        waves: new.waves.iter().zip(&made.waves).map(wave).collect(),
        pools: pools(&outlook.pools, made),
        warnings: made.warnings.iter().map(shown).collect(),
        estimated_seconds: made.duration.as_secs_f64(),
        seconds_per_node: outlook.per_node.as_secs_f64(),
    }
}

/// That nobody has published binaries for these platforms where control serves them, which the registry does not know.
pub(crate) fn unpublished(platforms: Vec<String>) -> PlanWarning {
    shown(&forecast::Warning::Unpublished { platforms })
}

/// A warning as the API tells it.
fn shown(warning: &forecast::Warning) -> PlanWarning {
    PlanWarning {
        code: warning.code().to_owned(),
        message: warning.to_string(),
    }
}

fn wave((percent, wave): (&bc_protocol::share::Percent, &forecast::Wave)) -> PlannedWave {
    PlannedWave {
        percent: *percent,
        nodes: wave.nodes(),
        pools: wave.pools.clone(),
        estimated_seconds: wave.duration.as_secs_f64(),
    }
}

fn pools(budgets: &BTreeMap<PoolId, Budget>, made: &Forecast) -> Vec<PlannedPool> {
    made.pools
        .iter()
        .map(|(pool, count)| {
            let budget = budgets.get(pool);
            PlannedPool {
                pool_id: pool.clone(),
                nodes: count.nodes,
                online: count.online,
                concurrency: budget.map_or(1, |budget| budget.max()),
                disrupted: budget.map_or(0, |budget| budget.disrupted()),
            }
        })
        .collect()
}
