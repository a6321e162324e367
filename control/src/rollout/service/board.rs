//! Rollouts as people look at them: waves, budgets, what went wrong, and what the next pass would hold back.
//!
//! Takes a tenant or a rollout, gives one moment of it. It asks the planner what it would do and writes nothing; the
//! nodes themselves are listed elsewhere, a page at a time.

use std::collections::BTreeMap;

use bc_protocol::id::{NodeId, TenantId};

use super::{RolloutError, Services, freeze::frozen};
use crate::{
    api::{
        freeze::Frozen,
        rollout::{LateNode, OneRollout, Rollout, RolloutState},
    },
    clock::Moment,
    db::Conn,
    rollout::{
        hold::Hold,
        plan::{Held, plan},
        store::{
            self,
            board::{Cause, PoolBudget, Wave},
            load::Look,
        },
    },
};

/// A rollout with its waves.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// The rollout, without its nodes.
    pub rollout: Rollout,
    /// Its waves, in order.
    pub waves: Vec<Wave>,
}

/// Everything that one look at a rollout shows.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    /// The rollout and its waves.
    pub standing: Standing,
    /// Why nothing starts in the whole tenant, if nothing does.
    pub frozen: Option<Frozen>,
    /// Until when the open wave rests, if it does.
    pub soaks_until: Option<Moment>,
    /// What does not happen now, and why.
    pub waiting: Vec<Waiting>,
    /// The budgets of its pools, by name.
    pub budgets: Vec<PoolBudget>,
    /// What went wrong, most nodes first.
    pub causes: Vec<Cause>,
    /// Nodes that converge on it after it has completed.
    pub late: Vec<LateNode>,
}

/// Something that does not happen now.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The reason in one word.
    pub code: String,
    /// The reason with its numbers: that of the first node.
    pub sentence: String,
    /// How many nodes of those whose turn it is; none where the whole rollout waits.
    pub nodes: u32,
    /// The first of them.
    pub example: Option<NodeId>,
}

/// The tenant's newest rollouts with their waves, newest first; and why nothing starts, if nothing does.
pub(crate) async fn overview(
    services: &Services,
    tenant: &TenantId,
) -> Result<(Vec<Standing>, Option<Frozen>), RolloutError> {
    let mut conn = services.db.reader().begin().await?;
    let rollouts = store::read::newest(&mut conn, tenant).await?;
    let mut waves = store::board::newest_waves(&mut conn, tenant).await?;
    let freeze = store::freeze::read(&mut conn, tenant).await?;
    let standings = rollouts.into_iter().map(|rollout| Standing {
        waves: waves.remove(&rollout.id).unwrap_or_default(),
        rollout,
    });
    Ok((standings.collect(), freeze.map(frozen)))
}

/// One rollout.
pub(crate) async fn board(
    services: &Services,
    request: &OneRollout,
) -> Result<Board, RolloutError> {
    let (tenant, id) = (&request.tenant_id, &request.rollout_id);
    let mut conn = services.db.reader().begin().await?;
    let rollout = store::read::one(&mut conn, tenant, id)
        .await?
        .ok_or_else(|| RolloutError::no_rollout(id))?;
    let waves = store::board::waves(&mut conn, id).await?;
    let settled_at = store::board::settled_at(&mut conn, id).await?;
    let waiting = match rollout.state {
        RolloutState::Running | RolloutState::Paused => {
            waiting(services, &mut conn, request).await?
        }
        RolloutState::Completed | RolloutState::Aborted => Vec::new(),
    };
    let freeze = store::freeze::read(&mut conn, tenant).await?;
    Ok(Board {
        frozen: freeze.map(frozen),
        soaks_until: settled_at.and_then(|at| soaks_until(&rollout, at)),
        waiting,
        budgets: store::board::budgets(&mut conn, id).await?,
        causes: store::board::causes(&mut conn, id).await?,
        late: store::late::listed(&mut conn, id).await?,
        standing: Standing { rollout, waves },
    })
}

/// The last wave does not rest, and a rollout that has ended neither.
pub(super) fn soaks_until(rollout: &Rollout, settled_at: Moment) -> Option<Moment> {
    let is_last = usize::try_from(rollout.wave).ok()?.saturating_add(1) >= rollout.waves.len();
    let soak = std::time::Duration::try_from_secs_f64(rollout.soak_seconds).ok()?;
    (!is_last && !has_ended(rollout)).then(|| settled_at.plus(soak))
}

/// Whether nothing more starts in it, whatever happens.
pub(super) fn has_ended(rollout: &Rollout) -> bool {
    match rollout.state {
        RolloutState::Running | RolloutState::Paused => false,
        RolloutState::Completed | RolloutState::Aborted => true,
    }
}

/// What the next pass would hold back, by reason: first what holds for the whole rollout.
async fn waiting(
    services: &Services,
    conn: &mut Conn,
    request: &OneRollout,
) -> Result<Vec<Waiting>, RolloutError> {
    let look = (Look::Everything, services.surroundings());
    let snapshot = store::load::snapshot(conn, &request.rollout_id, look)
        .await?
        .ok_or_else(|| RolloutError::no_rollout(&request.rollout_id))?;
    Ok(grouped(plan(&snapshot, Moment::now()).held))
}

fn grouped(held: Vec<Held>) -> Vec<Waiting> {
    let mut whole = Vec::new();
    let mut nodes: BTreeMap<String, Waiting> = BTreeMap::new();
    for Held { node, hold } in held {
        match node {
            None => whole.push(first(&hold, None)),
            Some(node) => {
                let one = nodes
                    .entry(hold.code().to_owned())
                    .or_insert_with(|| first(&hold, Some(node)));
                one.nodes = one.nodes.saturating_add(1);
            }
        }
    }
    whole.extend(nodes.into_values());
    whole
}

fn first(hold: &Hold, example: Option<NodeId>) -> Waiting {
    Waiting {
        code: hold.code().to_owned(),
        sentence: hold.to_string(),
        nodes: 0,
        example,
    }
}

#[cfg(test)]
mod tests {
    use bc_protocol::id::NodeId;

    use super::{Held, Hold, grouped};

    #[test]
    fn what_holds_for_all_comes_first_and_nodes_are_counted_by_reason() {
        let node = |name: &str| Some(NodeId::derived(&[name.as_bytes()]));
        let budget = Hold::Budget {
            disrupted: 1,
            max: 1,
        };
        let soaking = Hold::Soaking {
            until: crate::clock::Moment::from_millis(0),
        };
        let held = [
            (node("a"), budget.clone()),
            (node("b"), Hold::Maintenance),
            (node("c"), budget),
            (None, soaking),
        ];
        let held = held.map(|(node, hold)| Held { node, hold });
        let waiting = grouped(held.into());
        let told: Vec<_> = waiting
            .iter()
            .map(|one| (one.code.as_str(), one.nodes))
            .collect();
        assert_eq!(told, [("soaking", 0), ("budget", 2), ("maintenance", 1)]);
        assert_eq!(waiting[1].example, node("a"));
    }
}
