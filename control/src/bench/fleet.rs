//! A fleet of rows: ten pools of online nodes on one release, and a newer one that is registered.

use std::collections::BTreeMap;

use anyhow::Result;
use bc_protocol::{
    digest::Sha256,
    id::{GatewayId, NodeId, PoolId, RolloutId, SessionId, TenantId},
    link::{Event, NodeReport},
    release::{
        Artifact,
        sign::{ManifestDraft, sign},
    },
    sequence::{ReleaseFloor, Sequence},
    session::{AttemptFacts, Facts, Outcome},
    spec::NodeSpec,
};

use super::{COMPARED, key};
use crate::{
    api::rollout::{AbortRollout, CreateRollout, Rollout},
    clock::Moment,
    db::{Bind as _, bulk::insert_many, query, query_scalar},
    fleet::facts,
    release::{PRODUCT, store},
    rollout::service::{self, Services},
};

/// Pools, however many nodes there are.
pub(super) const POOLS: u32 = 10;

/// A hundredth of a pool may be disrupted at once.
const BUDGET_PPM: u32 = 10_000;

const RELEASES: [(&str, u64); 2] = [("1.0.0", 10), ("1.1.0", 11)];

/// What is brought to everybody.
pub(super) const NEW: &str = "1.1.0";

/// The fleet.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) services: Services,
    pub(super) tenant: TenantId,
    pub(super) pools: Vec<PoolId>,
    /// A pool of few nodes that takes one at a time.
    pub(super) narrow: PoolId,
    nodes: u32,
    /// The number of its gateway's link.
    pub(super) link: u64,
}

/// Nodes of the narrow pool.
pub(super) const NARROW: u32 = 200;

pub(super) fn gateway() -> GatewayId {
    GatewayId::derived(&[b"gateway"])
}

fn session() -> SessionId {
    SessionId::derived(&[b"session"])
}

impl Fleet {
    /// Of that many nodes, and the narrow pool's.
    pub(super) async fn of(services: Services, nodes: u32) -> Result<Self> {
        let tenant: TenantId = "root".parse()?;
        for (version, sequence) in RELEASES {
            register(&services, &tenant, (version, sequence)).await?;
        }
        let mut fleet = Self {
            link: link(&services).await?,
            pools: Vec::new(),
            narrow: PoolId::derived(&[b"narrow"]),
            nodes,
            services,
            tenant,
        };
        for number in 0..POOLS {
            let pool = PoolId::derived(&[&number.to_be_bytes()]);
            fleet.pool(&pool, nodes / POOLS, BUDGET_PPM).await?;
            fleet.pools.push(pool);
        }
        let narrow = fleet.narrow.clone();
        fleet.pool(&narrow, NARROW, 0).await?;
        fleet.facts().await?;
        Ok(fleet)
    }

    async fn pool(&self, pool: &PoolId, nodes: u32, budget: u32) -> Result<()> {
        let mut tx = self.services.db.begin().await?;
        query("INSERT INTO pools (id, tenant, name, budget_ppm, nodes, created_at) VALUES ($1, 'root', $1, $2, $3, 0)")
            .bind(pool.as_str())
            .bind(budget)
            .bind(nodes)
            .execute(&mut tx)
            .await?;
        query(
            "INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
             VALUES ($1, 'root', $1, $2, 1, 0, 0, 'x')",
        )
        .bind(pool.as_str())
        .bind(b"".as_slice())
        .execute(&mut tx)
        .await?;
        let rows: Vec<_> = (0..nodes)
            .map(|number| {
                let node = NodeId::derived(&[pool.as_str().as_bytes(), &number.to_be_bytes()]);
                [
                    node.as_str().value(),
                    "root".value(),
                    pool.as_str().value(),
                    pool.as_str().value(),
                    node.as_str().as_bytes().value(),
                    r#"{"cpu.arch":"x86_64"}"#.value(),
                    0_i64.value(),
                ]
            })
            .collect();
        let table = "nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)";
        insert_many(&mut tx, table, rows.into_iter()).await?;
        Ok(tx.commit().await?)
    }

    /// Everybody is online and runs the older release.
    async fn facts(&self) -> Result<()> {
        let mut tx = self.services.db.begin().await?;
        query(
            "INSERT INTO node_facts (node_id, connect_seq, report, session_id, gateway_id, link, upgrade_only, online,
                 since, version, sequence, digest, floor, observed_generation, facts, reported_at)
             SELECT id, 1, 1, $1, $2, $3, 0, 1, $4, '1.0.0', 10, 'x', 10, 1, '{}', $4 FROM nodes",
        )
        .bind(session().as_str())
        .bind(gateway().as_str())
        .bind(crate::db::column::signed(self.link))
        .bind(Moment::now().millis())
        .execute(&mut tx)
        .await?;
        tx.commit().await?;
        self.analyze().await
    }

    /// What PostgreSQL does by itself after a while, and SQLite does not need.
    pub(super) async fn analyze(&self) -> Result<()> {
        if self.services.db.is_shared() {
            let mut tx = self.services.db.begin().await?;
            query("ANALYZE").execute(&mut tx).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// A rollout over these pools.
    pub(super) async fn create(&self, pools: &[PoolId]) -> Result<Rollout> {
        let request = self.request(pools)?;
        Ok(service::create(&self.services, "bench", request).await?)
    }

    /// What asks for one.
    pub(super) fn request(&self, pools: &[PoolId]) -> Result<CreateRollout> {
        Ok(CreateRollout {
            tenant_id: self.tenant.clone(),
            version: NEW.parse()?,
            pool_ids: Some(pools.to_vec()),
            node_ids: None,
            selector: None,
            include_maintenance: false,
            waves: Some(vec!["100".parse()?]),
            max_failure_ratio: None,
            soak_seconds: Some(0.0),
            upgrade_timeout_seconds: None,
            idempotency_key: None,
        })
    }

    /// Ends it, so that its nodes are free; what they hold of budgets is given back.
    pub(super) async fn abort(&self, id: &RolloutId) -> Result<()> {
        let request = AbortRollout {
            tenant_id: self.tenant.clone(),
            rollout_id: id.clone(),
            reason: None,
            rollback: false,
        };
        service::abort(&self.services, "bench", request).await?;
        Ok(())
    }

    /// Nodes that a rollout has in flight.
    pub(super) async fn flying(&self, id: &RolloutId) -> Result<Vec<NodeId>> {
        let ids: Vec<String> = query_scalar(
            "SELECT n.id FROM rollouts o JOIN rollout_rows r ON r.rollout = o.number JOIN nodes n ON n.number = r.node
             WHERE o.id = $1 AND r.state = 'upgrading' AND r.deadline_at > 0 ORDER BY n.id",
        )
        .bind(id.as_str())
        .fetch_all(self.services.db.reader())
        .await?;
        ids.iter().map(|id| Ok(id.parse()?)).collect()
    }

    /// That these nodes run the release, as their reports would leave it.
    pub(super) async fn upgrade(&self, id: &RolloutId) -> Result<()> {
        let mut tx = self.services.db.begin().await?;
        query(
            "UPDATE node_facts SET version = $2, sequence = 11, attempt_outcome = 'confirmed', attempt_final = 1,
                 attempt_id = (SELECT h.attempt FROM rollout_notes h JOIN nodes n ON n.number = h.node
                               WHERE n.id = node_facts.node_id
                                 AND h.rollout = (SELECT number FROM rollouts WHERE id = $1))
             WHERE node_id IN (
                 SELECT n.id FROM rollout_rows r JOIN nodes n ON n.number = r.node
                 WHERE r.rollout = (SELECT number FROM rollouts WHERE id = $1)
                   AND r.state IN ('upgrading', 'rolling-back') AND r.deadline_at > 0)",
        )
        .bind(id.as_str())
        .bind(NEW)
        .execute(&mut tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// Pools of a hundred thousand nodes together, or all.
    pub(super) fn compared(&self) -> Vec<PoolId> {
        let pools = (COMPARED * POOLS).div_ceil(self.nodes.max(1));
        let pools = usize::try_from(pools).unwrap_or(usize::MAX);
        self.pools.iter().take(pools).cloned().collect()
    }

    /// The newest rollout.
    pub(super) async fn newest(&self) -> Result<RolloutId> {
        let id: String = query_scalar("SELECT id FROM rollouts ORDER BY number DESC LIMIT 1")
            .fetch_one(self.services.db.reader())
            .await?;
        Ok(id.parse()?)
    }

    pub(super) async fn close(&self) {
        self.services.db.close().await;
    }
}

async fn link(services: &Services) -> Result<u64> {
    let mut tx = services.db.begin().await?;
    query(
        "INSERT INTO gateways (id, name, url, token_sha256, token_expires_at, created_at, created_by)
         VALUES ($1, 'g', 'wss://x/session', $2, 0, 0, 'x')",
    )
    .bind(gateway().as_str())
    .bind(b"".as_slice())
    .execute(&mut tx)
    .await?;
    let link = facts::link_opened(&mut tx, &gateway(), Moment::now()).await?;
    tx.commit().await?;
    Ok(link.unwrap_or_default())
}

async fn register(
    services: &Services,
    tenant: &TenantId,
    (version, sequence): (&str, u64),
) -> Result<()> {
    let now = Moment::now();
    let binary = Artifact::new(
        "bcd-linux-amd64".to_owned(),
        Some("linux-amd64".parse()?),
        Sha256::of(version.as_bytes()),
        5,
    )?;
    let expires = now.plus(std::time::Duration::from_secs(86_400));
    let body = ManifestDraft {
        product: PRODUCT.to_owned(),
        version: version.parse()?,
        sequence: Sequence::new(sequence)?,
        issued_at: now.timestamp()?,
        expires_at: expires.timestamp()?,
        keys: vec![key()?.public().clone()],
        extensions: BTreeMap::new(),
        artifacts: vec![binary],
    }
    .into_body()?;
    let published = sign(body, &key()?)?;
    let by = store::Registrar {
        tenant,
        actor: "bench",
    };
    store::register(&services.db, &published, &services.trust, by, now).await?;
    Ok(())
}

/// What a node says of itself.
pub(super) fn facts_of(version: &str, sequence: u64) -> Result<Facts> {
    Ok(Facts {
        version: version.parse()?,
        platform: "linux-amd64".parse()?,
        boot_id: "boot".to_owned(),
        slot: None,
        sequence: Sequence::new(sequence)?,
        digest: Sha256::of(version.as_bytes()),
        floor: ReleaseFloor::starting_at(Sequence::new(sequence)?),
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation: 1,
        held: None,
        notice: None,
        helper: None,
        started: None,
    })
}

/// The report of a node that did what its spec says.
pub(super) fn obeyed(node: &NodeId, spec: &NodeSpec) -> Result<Option<Event>> {
    let Some(section) = &spec.daemon else {
        return Ok(None);
    };
    let mut facts = facts_of(section.version.as_str(), 11)?;
    facts.observed_generation = spec.generation;
    facts.last_attempt = Some(AttemptFacts {
        id: section.attempt.clone(),
        target: section.version.to_string(),
        outcome: Outcome::Confirmed,
        is_final: true,
        tries: 1,
        code: String::new(),
        message: String::new(),
        exit_status: None,
        signal: None,
        log: String::new(),
    });
    Ok(Some(report(node, 2, facts)))
}

/// A node's report.
pub(super) fn report(node: &NodeId, number: u64, facts: Facts) -> Event {
    Event::Report(NodeReport {
        node: node.clone(),
        session: session(),
        connect_seq: 1,
        report: number,
        facts,
    })
}
