//! What only the database knows, looked up when somebody reads the metrics.
//!
//! Takes committed rows, sets gauges. Every statement reads counters, or rows of which there are few; it changes
//! nothing, and where it fails the gauges stay as they were.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{add, labels::State};
use crate::{
    clock::Moment,
    db::{Conn, Db, query},
    rollout::refusing,
};

/// A rollout in which nothing has changed for so long beyond its own soak or time-out is stuck.
const STUCK_AFTER_MS: i64 = 30 * 60 * 1000;

/// A delivery that was tried so often has failed for some minutes.
const ATTEMPTS_LATE: u32 = 4;

/// States of rollouts that go on.
const ROLLOUTS: [&str; 2] = ["running", "paused"];

/// States of their nodes.
const NODES: [&str; 7] = [
    "pending",
    "upgrading",
    "succeeded",
    "failed",
    "skipped",
    "rolling-back",
    "rolled-back",
];

/// The gauges.
#[derive(Debug)]
pub(super) struct Looked {
    rollouts: Family<State, Gauge>,
    rollout_nodes: Family<State, Gauge>,
    paused_by_gate: Gauge,
    stuck: Gauge,
    pools_starving: Gauge,
    nodes: Gauge,
    nodes_online: Gauge,
    nodes_refusing: Gauge,
    gateways: Gauge,
    gateways_linked: Gauge,
    deliveries_pending: Gauge,
    deliveries_late: Gauge,
    looks_failed: Counter,
}

impl Looked {
    pub(super) fn new(to: &mut Registry) -> Self {
        let mut gauge = |name: &str, help: &str| add(to, name, help, Gauge::default());
        let looked = Self {
            paused_by_gate: gauge(
                "rollouts_paused_by_gate",
                "Rollouts that paused by themselves",
            ),
            stuck: gauge(
                "rollouts_stuck",
                "Running rollouts in which nothing has changed for too long",
            ),
            pools_starving: gauge(
                "pools_starving",
                "Pools whose budget is used up while a rollout waits and upgrades nothing",
            ),
            nodes: gauge("nodes", "Nodes that are not removed"),
            nodes_online: gauge("nodes_online", "Nodes that hold a session"),
            nodes_refusing: gauge(
                "nodes_refusing",
                "Nodes that refuse the release that a rollout wants them to run",
            ),
            gateways: gauge("gateways", "Gateways that have enrolled"),
            gateways_linked: gauge("gateways_linked", "Gateways that hold a link"),
            deliveries_pending: gauge(
                "webhook_deliveries_pending",
                "Deliveries to webhooks that nobody has taken yet",
            ),
            deliveries_late: gauge(
                "webhook_deliveries_late",
                "Deliveries to webhooks that have failed several times",
            ),
            rollouts: Family::default(),
            rollout_nodes: Family::default(),
            looks_failed: Counter::default(),
        };
        to.register(
            "rollouts",
            "Rollouts that go on, by state",
            looked.rollouts.clone(),
        );
        to.register(
            "rollout_nodes",
            "Nodes of rollouts that go on, by state",
            looked.rollout_nodes.clone(),
        );
        to.register(
            "looks_failed",
            "Times that the database did not say how things stand",
            looked.looks_failed.clone(),
        );
        for state in ROLLOUTS {
            drop(looked.rollouts.get_or_create(&State::new(state)));
        }
        for state in NODES {
            drop(looked.rollout_nodes.get_or_create(&State::new(state)));
        }
        looked
    }

    /// Looks.
    pub(super) async fn look(&self, db: &Db, now: Moment) {
        if let Err(error) = self.try_to(db, now).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "metrics stay as they were: the database failed");
            self.looks_failed.inc();
        }
    }

    async fn try_to(&self, db: &Db, now: Moment) -> Result<(), sqlx::Error> {
        let mut conn = db.reader().begin().await?;
        self.rollouts(&mut conn, now).await?;
        self.fleet(&mut conn).await?;
        self.deliveries(&mut conn).await
    }

    async fn rollouts(&self, conn: &mut Conn, now: Moment) -> Result<(), sqlx::Error> {
        let row = query(
            "SELECT count(CASE WHEN state = 'running' THEN 1 END) AS running,
                 count(CASE WHEN state = 'paused' THEN 1 END) AS paused,
                 count(CASE WHEN state = 'running' AND updated_at +
                     CASE WHEN soak_ms > timeout_ms THEN soak_ms ELSE timeout_ms END < $1
                     THEN 1 END) AS stuck,
                 count(CASE WHEN state = 'paused' AND (
                     SELECT e.actor FROM events e
                     WHERE e.subject = 'rollout/' || rollouts.id AND e.type = 'rollout.paused'
                     ORDER BY e.position DESC LIMIT 1) = 'control' THEN 1 END) AS by_gate
             FROM rollouts WHERE state IN ('running', 'paused')",
        )
        .bind(now.millis().saturating_sub(STUCK_AFTER_MS))
        .fetch_one(&mut *conn)
        .await?;
        for state in ROLLOUTS {
            let gauge = self.rollouts.get_or_create(&State::new(state));
            gauge.set(row.try_get(state)?);
        }
        self.stuck.set(row.try_get("stuck")?);
        self.paused_by_gate.set(row.try_get("by_gate")?);
        let row = query(
            "SELECT CAST(coalesce(sum(pending), 0) AS BIGINT) AS n0,
                 CAST(coalesce(sum(upgrading), 0) AS BIGINT) AS n1,
                 CAST(coalesce(sum(succeeded), 0) AS BIGINT) AS n2,
                 CAST(coalesce(sum(failed), 0) AS BIGINT) AS n3,
                 CAST(coalesce(sum(skipped), 0) AS BIGINT) AS n4,
                 CAST(coalesce(sum(rolling_back), 0) AS BIGINT) AS n5,
                 CAST(coalesce(sum(rolled_back), 0) AS BIGINT) AS n6
             FROM rollout_waves WHERE rollout_id IN (
                 SELECT id FROM rollouts WHERE state IN ('running', 'paused'))",
        )
        .fetch_one(&mut *conn)
        .await?;
        for (place, state) in NODES.into_iter().enumerate() {
            let gauge = self.rollout_nodes.get_or_create(&State::new(state));
            gauge.set(row.try_get(place)?);
        }
        let row = query(
            "SELECT count(DISTINCT p.id) AS starving FROM rollouts r
             JOIN rollout_waves w ON w.rollout_id = r.id AND w.wave = r.wave
             JOIN rollout_pools rp ON rp.rollout_id = r.id
             JOIN pools p ON p.id = rp.pool_id
             WHERE r.state = 'running' AND w.pending > 0 AND w.upgrading = 0
                 AND p.archived_at IS NULL AND p.disrupted > 0
                 AND p.disrupted >= CAST(p.nodes AS BIGINT) * p.budget_ppm / 1000000",
        )
        .fetch_one(conn)
        .await?;
        self.pools_starving.set(row.try_get("starving")?);
        Ok(())
    }

    async fn fleet(&self, conn: &mut Conn) -> Result<(), sqlx::Error> {
        const FLEET: &str = concat!(
            "SELECT (SELECT CAST(coalesce(sum(nodes), 0) AS BIGINT) FROM pools) AS nodes,
                 (SELECT count(*) FROM node_facts WHERE online = 1) AS online,
                 (SELECT count(*) FROM node_facts f JOIN nodes n ON n.id = f.node_id
                     WHERE n.removed_at IS NULL AND ",
            refusing!(),
            ") AS refusing,
                 (SELECT count(*) FROM gateways WHERE enrolled_at IS NOT NULL) AS gateways,
                 (SELECT count(*) FROM gateways
                     WHERE enrolled_at IS NOT NULL AND linked = 1) AS linked",
        );
        let row = query(FLEET).fetch_one(conn).await?;
        self.nodes.set(row.try_get("nodes")?);
        self.nodes_online.set(row.try_get("online")?);
        self.nodes_refusing.set(row.try_get("refusing")?);
        self.gateways.set(row.try_get("gateways")?);
        self.gateways_linked.set(row.try_get("linked")?);
        Ok(())
    }

    async fn deliveries(&self, conn: &mut Conn) -> Result<(), sqlx::Error> {
        let row = query(
            "SELECT count(*) AS pending, count(CASE WHEN attempts >= $1 THEN 1 END) AS late
             FROM webhook_deliveries WHERE state = 'pending'",
        )
        .bind(ATTEMPTS_LATE)
        .fetch_one(conn)
        .await?;
        self.deliveries_pending.set(row.try_get("pending")?);
        self.deliveries_late.set(row.try_get("late")?);
        Ok(())
    }
}
