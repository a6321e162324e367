//! Reads the rows of the open wave whose turn it is, and no others: what a pass costs must not grow with who waits.
//!
//! Of every pool with room it takes as many nodes as may start and a few more, and of the whole wave the first few,
//! whatever they wait for. Only where nothing of the wave moves any more it takes all that are left: those are away, and
//! perhaps to be passed over.

use std::collections::BTreeMap;

use bc_protocol::id::{PoolId, RolloutId};

use super::{node, queries};
use crate::{
    db::{
        Conn, Row,
        column::{number, parsed},
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
    pub(super) id: &'a RolloutId,
    pub(super) wave: u32,
    pub(super) scope: Scope,
    /// Pending rows of the wave.
    pub(super) waiting: u32,
    pub(super) pools: &'a BTreeMap<PoolId, Pool>,
    pub(super) flights: &'a [Flight],
}

/// The rows, in order, and whether they are all of the open wave.
pub(super) async fn pending(
    conn: &mut Conn,
    turn: Turn<'_>,
) -> Result<(Vec<Waiting>, Extent), sqlx::Error> {
    let mut found = BTreeMap::new();
    turn.out_of_scope(conn, &mut found).await?;
    turn.first(conn, &mut found).await?;
    if turn.has_all(&found) {
        return Ok((found.into_values().collect(), Extent::Whole));
    }
    for (pool, room) in turn.pools_with_room(conn).await? {
        turn.of_pool(conn, (&pool, room), &mut found).await?;
    }
    let moves = turn.flights.iter().any(|flight| flight.node.is_online())
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
    fn has_all(self, found: &Found) -> bool {
        let of_wave = found
            .values()
            .filter(|waiting| waiting.row.wave == self.wave)
            .count();
        u32::try_from(of_wave).unwrap_or(u32::MAX) >= self.waiting
    }

    /// Of this wave and later ones.
    async fn out_of_scope(self, conn: &mut Conn, found: &mut Found) -> Result<(), sqlx::Error> {
        let passes_maintenance = match self.scope {
            Scope::NotInMaintenance => true,
            Scope::MaintenanceToo => false,
        };
        let rows = query(queries::OUT_OF_SCOPE)
            .bind(self.id.as_str())
            .bind(self.wave)
            .bind(passes_maintenance)
            .fetch_all(conn)
            .await?;
        take(&rows, found)
    }

    async fn first(self, conn: &mut Conn, found: &mut Found) -> Result<(), sqlx::Error> {
        let rows = query(queries::PENDING)
            .bind(self.id.as_str())
            .bind(self.wave)
            .bind(limits::PENDING_SAMPLE)
            .fetch_all(conn)
            .await?;
        take(&rows, found)
    }

    async fn all(self, conn: &mut Conn, found: &mut Found) -> Result<(), sqlx::Error> {
        let rows = query(queries::PENDING)
            .bind(self.id.as_str())
            .bind(self.wave)
            .bind(i64::MAX)
            .fetch_all(conn)
            .await?;
        take(&rows, found)
    }

    /// Pools of which nodes wait and may start. Where a pass gives places back, it plans again with what is read then.
    async fn pools_with_room(self, conn: &mut Conn) -> Result<Vec<(PoolId, u32)>, sqlx::Error> {
        let rows = query(queries::POOLS_WAITING)
            .bind(self.id.as_str())
            .bind(self.wave)
            .fetch_all(conn)
            .await?;
        let mut roomy = Vec::new();
        for row in &rows {
            let pool: PoolId = parsed(row, "pool_id")?;
            let Some(Pool { budget, .. }) = self.pools.get(&pool) else {
                continue;
            };
            let room = budget.max().saturating_sub(budget.disrupted());
            if room > 0 {
                roomy.push((pool, room));
            }
        }
        Ok(roomy)
    }

    async fn of_pool(
        self,
        conn: &mut Conn,
        (pool, room): (&PoolId, u32),
        found: &mut Found,
    ) -> Result<(), sqlx::Error> {
        let rows = query(queries::PENDING_OF_POOL)
            .bind(self.id.as_str())
            .bind(self.wave)
            .bind(pool.as_str())
            .bind(room.saturating_add(limits::PENDING_SPARE))
            .fetch_all(conn)
            .await?;
        take(&rows, found)
    }

    async fn somebody_is_online(self, conn: &mut Conn) -> Result<bool, sqlx::Error> {
        let row = query(queries::PENDING_ONLINE)
            .bind(self.id.as_str())
            .bind(self.wave)
            .fetch_optional(conn)
            .await?;
        Ok(row.is_some())
    }
}

fn take(rows: &[Row], found: &mut Found) -> Result<(), sqlx::Error> {
    for row in rows {
        let waiting = Waiting {
            row: node::row(row)?,
            disrupted_by: row.try_get("disrupted_by")?,
            node: node::node(row)?,
        };
        found.insert(number(row, "place")?, waiting);
    }
    Ok(())
}
