//! `rollouts.plan`

use std::collections::BTreeMap;

use bc_protocol::id::PoolId;

use super::{RolloutError, Services, create};
use crate::{
    api::rollout::{CreateRollout, PlanWarning, PlannedPool, PlannedWave, RolloutPlan, RowState},
    clock::Moment,
    rollout::{
        budget::Budget,
        forecast::{self, Forecast, Outlook, Prospect, Reachable, Work},
        store::{self, create::New},
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
    let (new, pools) = create::intended(&mut conn, asked, (id, now), services).await?;
    let members = store::create::members(&mut conn, &new, &pools).await?;
    if members.is_empty() {
        return Err(RolloutError::NobodyInScope);
    }
    let busy = store::outlook::busy(&mut conn, new.tenant).await?;
    if let Some(rollout) = members.iter().find_map(|member| busy.get(&member.node)) {
        let rollout = rollout.clone();
        return Err(RolloutError::Busy { rollout });
    }
    let per_node = store::outlook::per_node(&mut conn, new.tenant).await?;
    let online = store::create::online(&mut conn, &pools).await?;
    let outlook = Outlook {
        members: members
            .into_iter()
            .map(|member| Prospect {
                pool: member.pool,
                work: work(member.start),
                reach: if online.contains(&member.node) {
                    Reachable::Online
                } else {
                    Reachable::Offline
                },
            })
            .collect(),
        pools: store::outlook::budgets(&mut conn, new.tenant).await?,
        waves: &new.waves,
        soak: new.terms.soak,
        timeout: new.terms.timeout,
        per_node: per_node.unwrap_or(forecast::GUESS),
    };
    let made = forecast::forecast(&outlook);
    Ok(answer(&new, &outlook, &made))
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
        warnings: made
            .warnings
            .iter()
            .map(|warning| PlanWarning {
                code: warning.code().to_owned(),
                message: warning.to_string(),
            })
            .collect(),
        estimated_seconds: made.duration.as_secs_f64(),
        seconds_per_node: outlook.per_node.as_secs_f64(),
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
