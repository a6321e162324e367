//! The nodes in scope of a new rollout, in its order.
//!
//! Takes pools and what narrows them, gives members. A fleet may be large: nodes come from an index that has all that is asked
//! of them, many in one row, and what they run is asked the other way round, for there are few that run a release which is new.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::id::{NodeId, PoolId};

use super::{Member, New, Reach};
use crate::{
    api::rollout::RowState,
    db::{
        Conn,
        column::{json, parsed, undecodable},
        query, query_scalar,
    },
    rollout::{snapshot::Scope, waves},
};

/// Nodes in one row: some hundred kilobytes of text.
const PACK: u32 = 10_000;

/// The nodes in scope, in the rollout's order.
pub(crate) async fn members<'p>(
    conn: &mut Conn,
    new: &New<'_>,
    pools: &'p BTreeSet<PoolId>,
) -> Result<Vec<Member<'p>>, sqlx::Error> {
    let done = already(conn, new).await?;
    let mut members = Vec::new();
    for pool in pools {
        let selected = match &new.reach {
            Reach::Everything | Reach::Nodes(_) => None,
            Reach::Selector(wanted) => Some(selected(conn, pool, wanted).await?),
        };
        let number = query_scalar("SELECT number FROM pools WHERE id = $1")
            .bind(pool.as_str())
            .fetch_one(&mut *conn)
            .await?;
        let scope = PoolScope {
            new,
            pool,
            number,
            done: &done,
            selected: selected.as_ref(),
        };
        scope.add_to(&mut members, conn).await?;
    }
    members.sort_by_cached_key(|member| waves::sort_key(&new.terms.id, &member.node));
    Ok(members)
}

/// Nodes that already run the release, confirmed. The sequence tells it from a package's own binary of that name.
async fn already(conn: &mut Conn, new: &New<'_>) -> Result<BTreeSet<String>, sqlx::Error> {
    let ids: Vec<String> = query_scalar(
        "SELECT node_id FROM node_facts WHERE version = $1 AND sequence = $2 AND trial_attempt IS NULL",
    )
    .bind(new.terms.version.as_str())
    .bind(crate::db::column::signed(new.terms.sequence.get()))
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().collect())
}

/// Nodes of a pool with all these labels.
async fn selected(
    conn: &mut Conn,
    pool: &PoolId,
    wanted: &BTreeMap<String, String>,
) -> Result<BTreeSet<NodeId>, sqlx::Error> {
    let rows = query("SELECT id, labels FROM nodes WHERE pool_id = $1 AND removed_at IS NULL")
        .bind(pool.as_str())
        .fetch_all(conn)
        .await?;
    let mut nodes = BTreeSet::new();
    for row in &rows {
        let labels: BTreeMap<String, String> = json(row, "labels")?;
        if wanted
            .iter()
            .all(|(name, value)| labels.get(name) == Some(value))
        {
            nodes.insert(parsed(row, "id")?);
        }
    }
    Ok(nodes)
}

/// What is in scope of one pool.
struct PoolScope<'a, 'p> {
    new: &'a New<'a>,
    pool: &'p PoolId,
    number: i64,
    done: &'a BTreeSet<String>,
    selected: Option<&'a BTreeSet<NodeId>>,
}

/// Nodes behind $2 of a pool, as two lists in the same order. $4 is whether those in maintenance are left out.
const SCOPE: &str = "
    SELECT string_agg(n.id, ' ') FILTER (WHERE n.maintenance = 0 OR $4 = 0) AS ids,
           string_agg(CAST(n.number AS TEXT), ' ') FILTER (WHERE n.maintenance = 0 OR $4 = 0) AS numbers,
           max(n.id) AS last
    FROM (SELECT number, id, maintenance FROM nodes
          WHERE pool_id = $1 AND removed_at IS NULL AND generation > 0 AND id > $2 ORDER BY id LIMIT $3) n";

impl<'p> PoolScope<'_, 'p> {
    async fn add_to(
        &self,
        members: &mut Vec<Member<'p>>,
        conn: &mut Conn,
    ) -> Result<(), sqlx::Error> {
        let leaves_out = match self.new.terms.scope {
            Scope::MaintenanceToo => false,
            Scope::NotInMaintenance => true,
        };
        let mut after = String::new();
        loop {
            let row = query(SCOPE)
                .bind(self.pool.as_str())
                .bind(after)
                .bind(PACK)
                .bind(leaves_out)
                .fetch_one(&mut *conn)
                .await?;
            let Some(last) = row.try_get("last")? else {
                return Ok(());
            };
            after = last;
            let ids: Option<&str> = row.try_get("ids")?;
            let numbers: Option<&str> = row.try_get("numbers")?;
            if let Some((ids, numbers)) = ids.zip(numbers) {
                for entry in ids.split(' ').zip(numbers.split(' ')) {
                    members.extend(self.member(entry)?);
                }
            }
        }
    }

    fn member(&self, (id, number): (&str, &str)) -> Result<Option<Member<'p>>, sqlx::Error> {
        let number = number
            .parse()
            .map_err(|source| undecodable("number", source))?;
        let node: NodeId = id.parse().map_err(|source| undecodable("id", source))?;
        if !self.holds(&node) {
            return Ok(None);
        }
        let start = if self.done.contains(id) {
            RowState::Succeeded
        } else {
            RowState::Pending
        };
        Ok(Some(Member {
            node,
            number,
            pool: self.pool,
            pool_number: self.number,
            start,
        }))
    }

    fn holds(&self, node: &NodeId) -> bool {
        match &self.new.reach {
            Reach::Everything => true,
            Reach::Nodes(nodes) => nodes.contains(node),
            Reach::Selector(_) => self.selected.is_some_and(|nodes| nodes.contains(node)),
        }
    }
}
