//! Reads rollouts as the API gives them. Counts come from the waves' counters: nothing here counts rows.

use std::collections::BTreeMap;

use bc_protocol::{
    id::{RolloutId, TenantId},
    share::Percent,
};

use super::{
    load::{counts, rollout_state, share},
    node,
};
use crate::{
    api::rollout::{Rollout, RolloutNode, RowCounts},
    db::{
        Conn, Row,
        column::{moment, moment_option, number, parsed, parsed_option, undecodable},
        query,
    },
    rollout::limits,
};

/// One rollout of a tenant.
pub(crate) async fn one(
    conn: &mut Conn,
    tenant: &TenantId,
    id: &RolloutId,
) -> Result<Option<Rollout>, sqlx::Error> {
    let row = query("SELECT * FROM rollouts WHERE tenant = $1 AND id = $2")
        .bind(tenant.as_str())
        .bind(id.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let waves = query("SELECT * FROM rollout_waves WHERE rollout_id = $1 ORDER BY wave")
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rollout(&row, Waves::default().with_all(&waves)?).map(Some)
}

/// The nodes of a rollout, in its order.
pub(crate) async fn nodes(
    conn: &mut Conn,
    id: &RolloutId,
) -> Result<Vec<RolloutNode>, sqlx::Error> {
    let rows = query("SELECT * FROM rollout_nodes WHERE rollout_id = $1 ORDER BY place")
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(RolloutNode {
                node_id: parsed(row, "node_id")?,
                pool_id: parsed(row, "pool_id")?,
                wave: number(row, "wave")?,
                state: node::state(row)?,
                from_version: parsed_option(row, "from_version")?,
                started_at: moment_option(row, "started_at")?,
                finished_at: moment_option(row, "finished_at")?,
                error: node::trouble(row)?.map(|trouble| trouble.to_string()),
            })
        })
        .collect()
}

/// The tenant's newest rollouts, newest first.
pub(crate) async fn newest(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<Vec<Rollout>, sqlx::Error> {
    let rows = query(
        "SELECT * FROM rollouts WHERE tenant = $1 ORDER BY created_at DESC, id DESC LIMIT $2",
    )
    .bind(tenant.as_str())
    .bind(limits::LISTED_MAX)
    .fetch_all(&mut *conn)
    .await?;
    let waves = query(
        "SELECT w.* FROM (SELECT id FROM rollouts WHERE tenant = $1 ORDER BY created_at DESC, id DESC LIMIT $2) r
         CROSS JOIN rollout_waves w WHERE w.rollout_id = r.id ORDER BY w.rollout_id, w.wave",
    )
    .bind(tenant.as_str())
    .bind(limits::LISTED_MAX)
    .fetch_all(conn)
    .await?;
    let mut by_rollout: BTreeMap<String, Waves> = BTreeMap::new();
    for wave in &waves {
        let id: String = wave.try_get("rollout_id")?;
        by_rollout.entry(id).or_default().add(wave)?;
    }
    rows.iter()
        .map(|row| {
            let id: &str = row.try_get("id")?;
            rollout(row, by_rollout.remove(id).unwrap_or_default())
        })
        .collect()
}

/// A rollout's waves, summed up.
#[derive(Default)]
struct Waves {
    percents: Vec<Percent>,
    nodes: RowCounts,
}

impl Waves {
    fn add(&mut self, row: &Row) -> Result<(), sqlx::Error> {
        self.percents.push(percent(number(row, "percent_ppm")?)?);
        self.nodes = self.nodes.plus(counts(row)?);
        Ok(())
    }

    fn with_all(mut self, rows: &[Row]) -> Result<Self, sqlx::Error> {
        for row in rows {
            self.add(row)?;
        }
        Ok(self)
    }
}

/// Through its text, which is the one grammar of percentages.
pub(super) fn percent(millionths: u32) -> Result<Percent, sqlx::Error> {
    let (whole, places) = (millionths / 10_000, millionths % 10_000);
    format!("{whole}.{places:04}")
        .parse()
        .map_err(|source| undecodable("percent_ppm", source))
}

fn rollout(row: &Row, waves: Waves) -> Result<Rollout, sqlx::Error> {
    Ok(Rollout {
        id: parsed(row, "id")?,
        version: parsed(row, "version")?,
        state: rollout_state(row)?,
        reason: row.try_get("reason")?,
        paused_reason: row.try_get("paused_reason")?,
        frozen: None,
        soaks_until: None,
        waves: waves.percents,
        wave: number(row, "wave")?,
        max_failure_ratio: share(row, "max_failure_ppm")?,
        soak_seconds: seconds(number(row, "soak_ms")?),
        upgrade_timeout_seconds: seconds(number(row, "timeout_ms")?),
        nodes: waves.nodes,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
        finished_at: moment_option(row, "finished_at")?,
        created_by: row.try_get("created_by")?,
        node_list: None,
        late_nodes: None,
    })
}

fn seconds(millis: u32) -> f64 {
    f64::from(millis) / 1000.0
}
