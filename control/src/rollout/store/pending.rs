//! Reads the rows of the open wave whose turn it is, and no others: what a pass costs must not grow with who waits.
//!
//! Of every pool with room it takes as many nodes as may start and a few more: first those of packs that were opened,
//! which all stand before the others, then pack after pack. Where few are left in the wave, and where nothing of it moves
//! any more, it takes all that are left: those are away, and perhaps to be passed over.

use std::collections::BTreeMap;

use bc_protocol::id::PoolId;

use super::{load::Open, node, queries};
use crate::{
    db::{
        Conn, Row,
        column::{json, number, parsed},
        query,
    },
    rollout::{
        limits,
        snapshot::{Extent, Flight, Pool, Scope, Waiting},
    },
};

/// What decides whose turn it is.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) open: Open<'a>,
    pub(super) scope: Scope,
    /// Pending rows of the wave.
    pub(super) waiting: u32,
    /// Pending rows of all waves whose node may have left the rollout's scope.
    pub(super) in_question: u32,
    pub(super) pools: &'a BTreeMap<PoolId, Pool>,
    pub(super) flights: &'a [Flight],
    /// How many of them settle, by pool: so many places more may be free.
    pub(super) landing: &'a BTreeMap<PoolId, u32>,
    /// Whether a node in flight that is not among them can be reached.
    pub(super) reachable: bool,
}

/// The rows, in order, and whether they are all of the open wave.
pub(super) async fn pending(
    conn: &mut Conn,
    turn: Turn<'_>,
) -> Result<(Vec<Waiting>, Extent), sqlx::Error> {
    let mut found = BTreeMap::new();
    if turn.in_question > 0 {
        turn.out_of_scope(conn, &mut found).await?;
    }
    if turn.waiting <= limits::PENDING_SAMPLE {
        if turn.waiting > 0 {
            turn.all(conn, &mut found).await?;
        }
        return Ok((found.into_values().collect(), Extent::Whole));
    }
    for (pool, room) in turn.pools_with_room(conn).await? {
        turn.of_pool(conn, (&pool, room), &mut found).await?;
    }
    let moves = turn.reachable
        || turn.flights.iter().any(|flight| flight.node.is_online())
        || found.values().any(|waiting| waiting.node.is_online());
    if moves || turn.somebody_is_online(conn).await? {
        let extent = if moves {
            Extent::Part
        } else {
            Extent::PartAndOnline
        };
        return Ok((found.into_values().collect(), extent));
    }
    turn.all(conn, &mut found).await?;
    Ok((found.into_values().collect(), Extent::Whole))
}

type Found = BTreeMap<u32, Waiting>;

impl Turn<'_> {
    /// Of this wave and later ones.
    async fn out_of_scope(self, conn: &mut Conn, found: &mut Found) -> Result<(), sqlx::Error> {
        let passes_maintenance = match self.scope {
            Scope::NotInMaintenance => true,
            Scope::MaintenanceToo => false,
        };
        let rows = query(queries::OUT_OF_SCOPE)
            .bind(self.open.number)
            .bind(self.open.wave)
            .bind(self.open.id.as_str())
            .bind(passes_maintenance)
            .fetch_all(conn)
            .await?;
        take(&rows, found)
    }

    async fn all(self, conn: &mut Conn, found: &mut Found) -> Result<(), sqlx::Error> {
        let rows = query(queries::PENDING)
            .bind(self.open.number)
            .bind(self.open.wave)
            .fetch_all(conn)
            .await?;
        take(&rows, found)
    }

    /// How many nodes of a pool may start.
    fn room(self, (id, pool): (&PoolId, &Pool)) -> u32 {
        let landing = self.landing.get(id).copied().unwrap_or_default();
        let max = pool.budget.max().saturating_add(landing);
        max.saturating_sub(pool.budget.disrupted())
    }

    /// Pools of which nodes wait and may start. Where more places are given back than that, the pass plans again with what is
    /// read then.
    async fn pools_with_room(self, conn: &mut Conn) -> Result<Vec<(PoolId, u32)>, sqlx::Error> {
        let roomy: BTreeMap<&PoolId, u32> = self
            .pools
            .iter()
            .map(|pool| (pool.0, self.room(pool)))
            .filter(|(_, room)| *room > 0)
            .collect();
        // Where they are so few, each is asked for its nodes at once.
        if roomy.len() <= limits::POOLS_ASKED {
            let roomy = roomy.into_iter();
            return Ok(roomy.map(|(pool, room)| (pool.clone(), room)).collect());
        }
        let rows = query(queries::POOLS_WAITING)
            .bind(self.open.number)
            .bind(self.open.wave)
            .fetch_all(conn)
            .await?;
        let mut waiting = Vec::new();
        for row in &rows {
            let pool: PoolId = parsed(row, "pool_id")?;
            if let Some(room) = roomy.get(&pool) {
                waiting.push((pool, *room));
            }
        }
        Ok(waiting)
    }

    async fn of_pool(
        self,
        conn: &mut Conn,
        (pool, room): (&PoolId, u32),
        found: &mut Found,
    ) -> Result<(), sqlx::Error> {
        let wanted = room.saturating_add(limits::PENDING_SPARE);
        let rows = query(queries::PENDING_OF_POOL)
            .bind(self.open.number)
            .bind(self.open.wave)
            .bind(pool.as_str())
            .bind(wanted)
            .fetch_all(&mut *conn)
            .await?;
        take(&rows, found)?;
        let mut left = wanted.saturating_sub(count(&rows));
        let mut after = -1;
        while left > 0 {
            let Some((last, nodes)) = self.packed(conn, (pool, left), after).await? else {
                return Ok(());
            };
            let rows = query(queries::PENDING_OF)
                .bind(self.open.number)
                .bind(nodes)
                .bind(left)
                .fetch_all(&mut *conn)
                .await?;
            take(&rows, found)?;
            left = left.saturating_sub(count(&rows));
            after = last;
        }
        Ok(())
    }

    /// The nodes of the next packs, as many as may hold those that are wanted, and the place of the last pack.
    async fn packed(
        self,
        conn: &mut Conn,
        (pool, wanted): (&PoolId, u32),
        after: i64,
    ) -> Result<Option<(i64, String)>, sqlx::Error> {
        let nodes_each = u32::try_from(limits::PACK_NODES).unwrap_or(u32::MAX);
        let packs = query(queries::PACKS_OF_POOL)
            .bind(self.open.number)
            .bind(self.open.wave)
            .bind(pool.as_str())
            .bind(after)
            .bind(wanted.div_ceil(nodes_each))
            .fetch_all(conn)
            .await?;
        let Some(last) = packs.last() else {
            return Ok(None);
        };
        let mut nodes: Vec<i64> = Vec::new();
        for pack in &packs {
            nodes.extend(json::<Vec<i64>>(pack, "nodes")?);
        }
        let nodes =
            serde_json::to_string(&nodes).map_err(|error| sqlx::Error::Encode(error.into()))?;
        Ok(Some((last.try_get("place")?, nodes)))
    }

    async fn somebody_is_online(self, conn: &mut Conn) -> Result<bool, sqlx::Error> {
        let row = query(queries::PENDING_ONLINE)
            .bind(self.open.number)
            .bind(self.open.wave)
            .fetch_optional(conn)
            .await?;
        Ok(row.is_some())
    }
}

fn count(rows: &[Row]) -> u32 {
    u32::try_from(rows.len()).unwrap_or(u32::MAX)
}

fn take(rows: &[Row], found: &mut Found) -> Result<(), sqlx::Error> {
    for row in rows {
        let waiting = Waiting {
            row: node::row(row)?,
            packed: row.try_get("packed")?,
            disrupted_by: row.try_get("disrupted_by")?,
            node: node::node(row)?,
        };
        found.insert(number(row, "place")?, waiting);
    }
    Ok(())
}
