//! The nodes in scope of a new rollout, in its order.
//!
//! Takes pools and what narrows them, gives members. A fleet may be large: nodes come from an index that has all that is asked
//! of them, many in one row, and what they run is asked the other way round, for there are few that run a release which is new.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::id::{NodeId, PoolId, RolloutId};

use super::{Member, New, Reach};
use crate::{
    api::rollout::RowState,
    db::{
        Conn, Row,
        column::{json, parsed, undecodable},
        query, query_scalar,
    },
    rollout::{snapshot::Scope, waves},
};

/// Nodes in one row: some hundred kilobytes of text. While the next come, what came is made members.
const PACK: u32 = 2_500;

/// The nodes in scope, in the rollout's order.
pub(crate) async fn members<'p>(
    conn: &mut Conn,
    new: &New<'_>,
    pools: &'p BTreeSet<PoolId>,
) -> Result<Vec<Member<'p>>, sqlx::Error> {
    let done = already(conn, new).await?;
    let mut drawn = Drawn::default();
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
        scope.add_to(&mut drawn, conn).await?;
    }
    Ok(drawn.in_order())
}

/// Members, and what each is sorted by.
#[derive(Default)]
struct Drawn<'p> {
    members: Vec<Option<Member<'p>>>,
    keys: Vec<[u8; 32]>,
}

impl<'p> Drawn<'p> {
    fn add(&mut self, rollout: &RolloutId, member: Member<'p>) {
        self.keys.push(waves::sort_key(rollout, &member.node));
        self.members.push(Some(member));
    }

    fn in_order(mut self) -> Vec<Member<'p>> {
        // The first bytes tell nearly all apart.
        let first = |key: &[u8; 32]| {
            let bytes = key.first_chunk().copied();
            u64::from_be_bytes(bytes.unwrap_or_default())
        };
        let mut order: Vec<(u64, usize)> = self.keys.iter().map(first).zip(0..).collect();
        order.sort_unstable_by(|one, other| {
            let whole = || self.keys.get(one.1).cmp(&self.keys.get(other.1));
            one.0.cmp(&other.0).then_with(whole)
        });
        let members = order.iter();
        members
            .filter_map(|(_, place)| self.members.get_mut(*place)?.take())
            .collect()
    }
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

/// So many nodes of a pool, as the database gives them.
struct Page {
    row: Row,
    /// The last of them; behind it are others.
    last: String,
}

impl<'p> PoolScope<'_, 'p> {
    async fn add_to(&self, drawn: &mut Drawn<'p>, conn: &mut Conn) -> Result<(), sqlx::Error> {
        let mut page = self.page(conn, "").await?;
        while let Some(Page { row, last }) = page {
            let (next, added) =
                tokio::join!(self.page(conn, &last), async { self.add(drawn, &row) });
            added?;
            page = next?;
        }
        Ok(())
    }

    /// The next nodes behind one, if there are any.
    async fn page(&self, conn: &mut Conn, after: &str) -> Result<Option<Page>, sqlx::Error> {
        let leaves_out = match self.new.terms.scope {
            Scope::MaintenanceToo => false,
            Scope::NotInMaintenance => true,
        };
        let row = query(SCOPE)
            .bind(self.pool.as_str())
            .bind(after)
            .bind(PACK)
            .bind(leaves_out)
            .fetch_one(conn)
            .await?;
        let last: Option<String> = row.try_get("last")?;
        Ok(last.map(|last| Page { row, last }))
    }

    fn add(&self, drawn: &mut Drawn<'p>, row: &Row) -> Result<(), sqlx::Error> {
        let ids: Option<&str> = row.try_get("ids")?;
        let numbers: Option<&str> = row.try_get("numbers")?;
        if let Some((ids, numbers)) = ids.zip(numbers) {
            for entry in ids.split(' ').zip(numbers.split(' ')) {
                if let Some(member) = self.member(entry)? {
                    drawn.add(&self.new.terms.id, member);
                }
            }
        }
        Ok(())
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
