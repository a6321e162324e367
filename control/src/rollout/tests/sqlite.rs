//! The store beside the model: the same hands on both, and the same plans out of both.

use std::time::Duration;

use bc_protocol::{id::NodeId, share::Share};
use proptest::{prelude::*, test_runner::TestRunner};

use super::{
    driver::{Hand, act, hand},
    signed,
    world::{NEW, OLD, Setup, World},
};
use crate::{
    clock::Moment,
    db::{Db, Tx, query, tests::fresh},
    fleet::disruption,
    rollout::{
        operator::{self, Call},
        plan::{Follow, Plan, plan},
        snapshot::{Node, Presence, Snapshot},
        store::{
            StoreError,
            apply::apply,
            freeze,
            load::{Look, Surroundings, snapshot},
        },
    },
};

/// A world's rows in a database. Nothing is ever committed, so that a case costs no flush.
struct Mirror {
    tx: Tx,
}

impl Mirror {
    async fn of(db: &Db, world: &World) -> Self {
        let mut tx = db.begin().await.unwrap();
        for pool in &world.pools {
            let id = pool.id.as_str();
            query("INSERT INTO pools (id, tenant, name, budget_ppm, created_at) VALUES ($1, 'root', $1, $2, 0)")
                .bind(id)
                .bind(pool.share.millionths())
                .execute(&mut *tx)
                .await
                .unwrap();
            query(
                "INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
                 VALUES ($1, 'root', $1, cast('' AS BLOB), 1, 0, 0, 'x')",
            )
            .bind(id)
            .execute(&mut *tx)
            .await
            .unwrap();
        }
        query(
            "INSERT INTO gateways (id, name, url, token_sha256, token_expires_at, created_at, created_by)
             VALUES ('g', 'g', 'wss://x/session', cast('' AS BLOB), 0, 0, 'x')",
        )
        .execute(&mut *tx)
        .await
        .unwrap();
        let mut mirror = Self { tx };
        mirror.rollout(world).await;
        mirror.rows(world).await;
        mirror
    }

    async fn rollout(&mut self, world: &World) {
        query(
            "INSERT INTO rollouts (id, tenant, version, state, wave, max_failure_ppm, soak_ms, timeout_ms, narrowed,
                 maintenance, created_at, created_by, updated_at)
             VALUES ($1, 'root', $2, 'running', 0, $3, $4, $5, 0, 0, $6, 'x', $6)",
        )
        .bind(world.terms.id.as_str())
        .bind(world.terms.version.as_str())
        .bind(world.terms.max_failure_ratio.millionths())
        .bind(i64::try_from(world.terms.soak.as_millis()).unwrap())
        .bind(i64::try_from(world.terms.timeout.as_millis()).unwrap())
        .bind(world.now.millis())
        .execute(&mut *self.tx)
        .await
        .unwrap();
        for (wave, tally) in (0_u32..).zip(&world.tallies) {
            query(
                "INSERT INTO rollout_waves (rollout_id, wave, percent_ppm, pending) VALUES ($1, $2, 0, $3)",
            )
            .bind(world.terms.id.as_str())
            .bind(wave)
            .bind(tally.rows.pending)
            .execute(&mut *self.tx)
            .await
            .unwrap();
        }
        for pool in &world.pools {
            query("INSERT INTO rollout_pools (rollout_id, pool_id) VALUES ($1, $2)")
                .bind(world.terms.id.as_str())
                .bind(pool.id.as_str())
                .execute(&mut *self.tx)
                .await
                .unwrap();
        }
    }

    async fn rows(&mut self, world: &World) {
        for row in &world.rows {
            query(
                "INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)
                 VALUES ($1, 'root', $2, $2, cast($1 AS BLOB), '{\"cpu.arch\":\"x86_64\"}', 0)",
            )
            .bind(row.row.node.as_str())
            .bind(row.row.pool.as_str())
            .execute(&mut *self.tx)
            .await
            .unwrap();
            query(
                "INSERT INTO rollout_rows (rollout, place, node, pool, wave, state)
                 SELECT o.number, $2, n.number, p.number, $5, 'pending' FROM rollouts o, nodes n, pools p
                 WHERE o.id = $1 AND n.id = $3 AND p.id = $4",
            )
            .bind(world.terms.id.as_str())
            .bind(row.row.place)
            .bind(row.row.node.as_str())
            .bind(row.row.pool.as_str())
            .bind(row.row.wave)
            .execute(&mut *self.tx)
            .await
            .unwrap();
        }
    }

    /// Brings everything up to date that is not the planner's: facts, pools, links, other people's disruptions.
    async fn follow(&mut self, world: &World) {
        for (node, restarts) in world.nodes.iter().zip(&world.restarts) {
            self.node(node).await;
            self.facts(node).await;
            self.restarts(node, restarts).await;
        }
        for pool in &world.pools {
            query(
                "UPDATE pools SET archived_at = $2, nodes =
                     (SELECT count(*) FROM nodes WHERE pool_id = $1 AND removed_at IS NULL) WHERE id = $1",
            )
            .bind(pool.id.as_str())
            .bind(pool.archived.then_some(0_i64))
            .execute(&mut *self.tx)
            .await
            .unwrap();
        }
        query("UPDATE gateways SET linked = $1, linked_since = $2")
            .bind(world.context.links_since.is_some())
            .bind(world.context.links_since.map_or(0, |since| since.millis()))
            .execute(&mut *self.tx)
            .await
            .unwrap();
        let tenant = "root".parse().unwrap();
        freeze::write(&mut self.tx, &tenant, None).await.unwrap();
        freeze::write(&mut self.tx, &tenant, world.freeze.as_ref())
            .await
            .unwrap();
        self.others(world).await;
    }

    async fn node(&mut self, node: &Node) {
        query("UPDATE nodes SET removed_at = $2, maintenance = $3 WHERE id = $1")
            .bind(node.id.as_str())
            .bind(node.removed.then_some(0_i64))
            .bind(node.maintenance)
            .execute(&mut *self.tx)
            .await
            .unwrap();
    }

    async fn facts(&mut self, node: &Node) {
        let said = node.said.as_ref().unwrap();
        let (online, since) = match node.presence {
            Presence::Online => (true, 0),
            Presence::Offline(since) => (false, since.millis()),
        };
        let attempt = said.attempt.as_ref();
        let trouble = attempt.and_then(|attempt| attempt.trouble.as_ref());
        let progress = said
            .working_on
            .as_ref()
            .map(|id| serde_json::json!({ "attempt": id }));
        query("DELETE FROM node_facts WHERE node_id = $1")
            .bind(node.id.as_str())
            .execute(&mut *self.tx)
            .await
            .unwrap();
        query(
            "INSERT INTO node_facts (node_id, connect_seq, report, session_id, gateway_id, link, upgrade_only,
                 online, since, version, sequence, digest, floor, trial_attempt, attempt_id, attempt_outcome,
                 attempt_final, attempt_code, attempt_message, held, observed_generation, facts, reported_at)
             VALUES ($1, 1, 1, 's', 'g', 1, 0, $2, $3, $4, 0, '', $5, $6, $7, $8, $9, $10, $11, $12, 0, $13, 0)",
        )
        .bind(node.id.as_str())
        .bind(online)
        .bind(since)
        .bind(said.version.as_str())
        .bind(i64::try_from(said.floor.sequence().get()).unwrap())
        .bind(said.trial.as_ref().map(|id| id.as_str().to_owned()))
        .bind(attempt.map(|attempt| attempt.id.as_str().to_owned()))
        .bind(attempt.map(|attempt| word(&attempt.outcome)))
        .bind(attempt.map(|attempt| attempt.is_final))
        .bind(trouble.map(|trouble| trouble.code.clone()))
        .bind(trouble.map(|trouble| trouble.message.clone()))
        .bind(&said.held)
        .bind(serde_json::json!({ "progress": progress }).to_string())
        .execute(&mut *self.tx)
        .await
        .unwrap();
    }

    async fn restarts(&mut self, node: &Node, (last, before): &(Option<Moment>, Option<Moment>)) {
        query(
            "UPDATE node_facts SET restarted_at = $2, restarted_before_at = $3 WHERE node_id = $1",
        )
        .bind(node.id.as_str())
        .bind(last.map(Moment::millis))
        .bind(before.map(Moment::millis))
        .execute(&mut *self.tx)
        .await
        .unwrap();
    }

    async fn others(&mut self, world: &World) {
        // The rollout's own are alike already, but for those of nodes that were removed.
        let stored = query("SELECT node_id, reason FROM disruptions")
            .fetch_all(&mut *self.tx)
            .await
            .unwrap();
        for row in stored {
            let (node, reason): (String, String) = (row.get("node_id"), row.get("reason"));
            let node: NodeId = node.parse().unwrap();
            if !world.disruptions.contains(&(node.clone(), reason.clone())) {
                disruption::vacate(&mut self.tx, &node, &reason)
                    .await
                    .unwrap();
                if reason != world.terms.id.as_str() {
                    continue;
                }
                // The next pass finds out that a row of a removed node lingers for nothing; the model knows at once.
                query("UPDATE rollout_rows SET lingers = NULL WHERE lingers = 1 AND node = (SELECT number FROM nodes WHERE id = $1)")
                    .bind(node.as_str())
                    .execute(&mut *self.tx)
                    .await
                    .unwrap();
            }
        }
        for (node, reason) in &world.disruptions {
            if reason != world.terms.id.as_str() {
                let pool = &world.rows[world.place_of(node)].row.pool;
                disruption::occupy(&mut self.tx, node, pool, reason, world.now)
                    .await
                    .unwrap();
            }
        }
    }

    async fn load(&mut self, world: &World) -> Snapshot {
        let trust = signed::trust();
        let around = Surroundings {
            trust: &trust,
            started_at: world.context.started_at,
            offline_grace: world.context.offline_grace,
        };
        let loaded = snapshot(&mut self.tx, &world.terms.id, (Look::Everything, around)).await;
        loaded.unwrap().unwrap()
    }

    async fn call(&mut self, world: &mut World, call: &Call) {
        let stored = self.load(world).await;
        let made = operator::plan(&stored, call, "alice", world.now);
        let model = operator::plan(&world.snapshot(), call, "alice", world.now);
        let plans = [made.clone(), model].map(|made| made.map(Plan::unnumbered));
        assert_eq!(
            plans[0], plans[1],
            "store and model plan a call differently"
        );
        if let Ok(made) = made {
            apply(&mut self.tx, &stored, &made).await.unwrap();
            world.apply(&made).unwrap();
        }
    }

    /// A pass on both sides, plan by plan.
    async fn pass(&mut self, world: &mut World) {
        loop {
            let model = world.snapshot();
            let stored = self.load(world).await;
            let made = plan(&stored, world.now);
            assert_eq!(
                made.clone().unnumbered(),
                plan(&model, world.now).unnumbered(),
                "store and model plan differently"
            );
            if !made.is_idle(&stored) {
                apply(&mut self.tx, &stored, &made).await.unwrap();
                world.apply(&made).unwrap();
            }
            if made.follow == Follow::Rest {
                return;
            }
        }
    }
}

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

async fn run(db: &Db, pools: &[(u32, Share)], setup: &Setup, hands: &[Hand]) {
    let mut world = World::new(pools, setup);
    let mut mirror = Mirror::of(db, &world).await;
    for hand in hands {
        // Calls and passes are made on both sides; what others do goes through the model and is copied.
        mirror.follow(&world).await;
        match hand {
            Hand::Call(call) => mirror.call(&mut world, call).await,
            Hand::Pass | Hand::PlanThenPause => {}
            Hand::Wait(_)
            | Hand::Obey(_)
            | Hand::Report(..)
            | Hand::ReportAnother(_)
            | Hand::Trial(_)
            | Hand::Rest(_)
            | Hand::Offline(_)
            | Hand::Online(_)
            | Hand::Hold(_)
            | Hand::Restart(_)
            | Hand::Remove(_)
            | Hand::Maintenance(_)
            | Hand::Disrupt(_)
            | Hand::LeaveAlone(_)
            | Hand::Archive(_)
            | Hand::Freeze
            | Hand::Unfreeze
            | Hand::CutLinks
            | Hand::Link => act(&mut world, hand),
        }
        mirror.follow(&world).await;
        mirror.pass(&mut world).await;
    }
}

/// I21, I24, I25 on the real store.
#[test]
fn the_store_plans_what_the_model_plans() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (db, _dir) = runtime.block_on(async {
        let (db, dir) = fresh().await;
        signed::register(&db, OLD.0, OLD.1).await;
        signed::register(&db, NEW.0, NEW.1).await;
        (db, dir)
    });
    let share = prop_oneof![Just(50_000), Just(500_000), Just(1_000_000)];
    let strategy = (
        prop::collection::vec((1_u32..6, share), 1..4),
        prop::collection::vec(hand(), 0..60),
    );
    let mut runner = TestRunner::new(ProptestConfig::with_cases(48));
    runner
        .run(&strategy, |(pools, hands)| {
            let pools: Vec<_> = pools
                .into_iter()
                .map(|(nodes, ppm)| (nodes, Share::from_millionths(ppm).unwrap()))
                .collect();
            let setup = Setup {
                waves: ["10", "50", "100"]
                    .map(|text| text.parse().unwrap())
                    .to_vec(),
                ratio: "0.4".parse().unwrap(),
                soak: Duration::from_secs(60),
                timeout: Duration::from_secs(900),
            };
            runtime.block_on(run(&db, &pools, &setup, &hands));
            Ok(())
        })
        .unwrap();
}

/// I29: a process that was stopped between its snapshot and its write finds another revision, and writes nothing.
#[tokio::test]
async fn a_stale_plan_is_refused() {
    let (db, _dir) = fresh().await;
    signed::register(&db, OLD.0, OLD.1).await;
    signed::register(&db, NEW.0, NEW.1).await;
    let setup = Setup {
        waves: vec!["100".parse().unwrap()],
        ratio: "0.05".parse().unwrap(),
        soak: Duration::ZERO,
        timeout: Duration::from_secs(900),
    };
    let mut world = World::new(&[(3, Share::ONE)], &setup);
    let mut mirror = Mirror::of(&db, &world).await;
    mirror.follow(&world).await;
    let old = mirror.load(&world).await;
    let stale = plan(&old, world.now);
    assert_eq!(stale.rows.len(), 3);
    let call = Call::Pause {
        reason: Some("p".into()),
    };
    mirror.call(&mut world, &call).await;

    let refused = apply(&mut mirror.tx, &old, &stale).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Stale { expected: 0, .. }),
        "{refused}"
    );
    let after = mirror.load(&world).await;
    assert_eq!((after.waves, after.flights.len()), (old.waves, 0));
}
