//! Hands that interfere at random: whatever they do, nobody who is late is forgotten, and everything heals.

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, PoolId, RolloutId};
use proptest::prelude::*;

use super::maintain;
use crate::{
    api::rollout::{AbortRollout, CreateRollout, OneRollout},
    clock::Moment,
    db::{query, query_scalar},
    fleet::{change, disruption},
    rollout::service,
    spec::tests::fleet::{Fleet, request},
};

#[derive(Clone, Debug)]
enum Hand {
    Join(usize),
    Leave(usize),
    Come(usize),
    Maintain(usize, bool),
    Hold(usize, bool),
    Disrupt(usize),
    LetGo(usize),
    Remove(usize),
    Create(bool),
    Abort,
    Resume,
    Pass,
    Obey(usize),
    Freeze(bool),
}

fn hand() -> impl Strategy<Value = Hand> {
    let node = 0_usize..64;
    prop_oneof![
        3 => (0_usize..2).prop_map(Hand::Join),
        3 => node.clone().prop_map(Hand::Leave),
        4 => node.clone().prop_map(Hand::Come),
        3 => (node.clone(), any::<bool>()).prop_map(|(node, on)| Hand::Maintain(node, on)),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, on)| Hand::Hold(node, on)),
        2 => node.clone().prop_map(Hand::Disrupt),
        2 => node.clone().prop_map(Hand::LetGo),
        1 => node.clone().prop_map(Hand::Remove),
        4 => any::<bool>().prop_map(Hand::Create),
        1 => Just(Hand::Abort),
        3 => Just(Hand::Resume),
        12 => Just(Hand::Pass),
        16 => node.prop_map(Hand::Obey),
        1 => any::<bool>().prop_map(Hand::Freeze),
    ]
}

/// A fleet, and what a test has to remember of it.
struct Play {
    fleet: Fleet,
    online: BTreeSet<NodeId>,
    removed: BTreeSet<NodeId>,
    rollouts: Vec<RolloutId>,
}

impl Play {
    fn node(&self, number: usize) -> NodeId {
        self.fleet.nodes[number % self.fleet.nodes.len()].clone()
    }

    fn is_there(&self, node: &NodeId) -> bool {
        !self.removed.contains(node) && self.online.contains(node)
    }

    async fn act(&mut self, hand: &Hand) {
        match hand {
            Hand::Join(pool) => {
                let pool = self.fleet.pools[*pool].clone();
                let node = self.fleet.joins(&pool).await;
                self.online.insert(node);
            }
            Hand::Leave(node) => {
                let node = self.node(*node);
                if self.is_there(&node) {
                    self.fleet.leave(&node).await;
                    self.online.remove(&node);
                }
            }
            Hand::Come(node) => self.come(&self.node(*node)).await,
            Hand::Maintain(node, on) => {
                let node = self.node(*node);
                if !self.removed.contains(&node) {
                    maintain(&self.fleet, &node, *on).await;
                }
            }
            Hand::Hold(node, on) => self.hold(&self.node(*node), *on).await,
            Hand::Disrupt(node) => self.disrupt(&self.node(*node), true).await,
            Hand::LetGo(node) => self.disrupt(&self.node(*node), false).await,
            Hand::Remove(node) => self.remove(&self.node(*node)).await,
            Hand::Create(all) => self.create(*all).await,
            Hand::Abort => self.abort().await,
            Hand::Resume => self.resume().await,
            Hand::Pass => self.pass().await,
            Hand::Obey(node) => self.obey(&self.node(*node)).await,
            Hand::Freeze(on) => freeze(&self.fleet, *on).await,
        }
    }

    async fn come(&mut self, node: &NodeId) {
        if !self.removed.contains(node) {
            self.fleet.comes(node).await;
            self.online.insert(node.clone());
        }
    }

    async fn hold(&mut self, node: &NodeId, on: bool) {
        if self.is_there(node) {
            let mut facts = self.fleet.facts_of(node);
            facts.held = on.then(|| "mine".to_owned());
            self.fleet.report(node, facts).await;
        }
    }

    async fn disrupt(&mut self, node: &NodeId, on: bool) {
        if self.removed.contains(node) {
            return;
        }
        let mut tx = self.fleet.services.db.begin().await.unwrap();
        let pool: String = query_scalar("SELECT pool_id FROM nodes WHERE id = $1")
            .bind(node.as_str())
            .fetch_one(&mut tx)
            .await
            .unwrap();
        if on {
            let pool: PoolId = pool.parse().unwrap();
            let occupied = disruption::occupy(&mut tx, node, &pool, "wf_1", Moment::now()).await;
            occupied.unwrap();
        } else {
            disruption::vacate(&mut tx, node, "wf_1").await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    async fn remove(&mut self, node: &NodeId) {
        let request = crate::api::fleet::OneNode {
            tenant_id: "root".parse().unwrap(),
            node_id: node.clone(),
        };
        let db = &self.fleet.services.db;
        change::remove(db, "alice", &request, Moment::now())
            .await
            .unwrap();
        self.removed.insert(node.clone());
        self.online.remove(node);
    }

    async fn create(&mut self, all: bool) {
        let pools = (!all).then(|| vec![self.fleet.pools[0].clone()]);
        let request = CreateRollout {
            pool_ids: pools,
            ..request("1.1.0")
        };
        if let Ok(made) = service::create(&self.fleet.services, "alice", request).await {
            self.rollouts.push(made.id);
        }
    }

    fn newest(&self) -> Option<OneRollout> {
        Some(OneRollout {
            tenant_id: "root".parse().unwrap(),
            rollout_id: self.rollouts.last()?.clone(),
        })
    }

    async fn abort(&self) {
        if let Some(OneRollout {
            tenant_id,
            rollout_id,
        }) = self.newest()
        {
            let request = AbortRollout {
                tenant_id,
                rollout_id,
                reason: None,
                rollback: true,
            };
            drop(service::abort(&self.fleet.services, "alice", request).await);
        }
    }

    async fn resume(&self) {
        if let Some(request) = self.newest() {
            drop(service::resume(&self.fleet.services, "alice", request).await);
        }
    }

    async fn obey(&mut self, node: &NodeId) {
        if self.is_there(node) {
            self.fleet.obeys(node).await;
        }
    }

    /// I21: a pass may find more disrupted than there may be, but it never adds to that.
    async fn pass(&mut self) {
        let before = flights(&self.fleet).await;
        self.fleet.pass().await;
        for (pool, room, flying) in flights(&self.fleet).await {
            let was = before.iter().find(|(known, ..)| *known == pool);
            let was = was.map_or(0, |(.., flying)| *flying);
            assert!(
                flying <= was || room >= 0,
                "I21: {pool}: {was} to {flying}, {room} over"
            );
        }
    }
}

async fn freeze(fleet: &Fleet, on: bool) {
    let tenant = "root".parse().unwrap();
    let mut tx = fleet.services.db.begin().await.unwrap();
    let word = crate::rollout::tests::freeze("incident");
    let word = on.then_some(&word);
    crate::rollout::tests::write_freeze(&mut tx, &tenant, word).await;
    tx.commit().await.unwrap();
}

/// Pools with the room that is left in them, and rows in flight.
async fn flights(fleet: &Fleet) -> Vec<(String, i64, i64)> {
    let rows = query(
        "SELECT p.id, (CASE WHEN p.nodes * p.budget_ppm < 1000000 THEN 1 ELSE p.nodes * p.budget_ppm / 1000000 END) - p.disrupted AS room,
             (SELECT count(*) FROM rollout_nodes r WHERE r.pool_id = p.id AND r.state = 'upgrading')
             + (SELECT count(*) FROM rollout_late r WHERE r.pool_id = p.id AND r.state = 'upgrading') AS flying
         FROM pools p",
    )
    .fetch_all(fleet.services.db.reader())
    .await
    .unwrap();
    rows.iter()
        .map(|row| (row.get("id"), row.get("room"), row.get("flying")))
        .collect()
}

/// Every node that rule 7.1 makes late, found the slow way.
async fn late_nodes(fleet: &Fleet) -> BTreeSet<NodeId> {
    let rows: Vec<String> = query_scalar(
        "WITH touched (node_id, created_at, id) AS (
             SELECT r.node_id, o.created_at, o.id FROM rollout_nodes r JOIN rollouts o ON o.id = r.rollout_id
             WHERE r.state NOT IN ('pending', 'skipped')
             UNION ALL
             SELECT r.node_id, o.created_at, o.id FROM rollout_late r JOIN rollouts o ON o.id = r.rollout_id
             WHERE r.state NOT IN ('pending', 'skipped'))
         SELECT DISTINCT n.id FROM nodes n JOIN rollout_pools p ON p.pool_id = n.pool_id
         JOIN rollouts b ON b.id = p.rollout_id AND b.state = 'completed' AND b.narrowed = 0
         WHERE n.removed_at IS NULL AND NOT EXISTS (
             SELECT 1 FROM touched t WHERE t.node_id = n.id
               AND (t.created_at > b.created_at OR (t.created_at = b.created_at AND t.id >= b.id)))",
    )
    .fetch_all(fleet.services.db.reader())
    .await
    .unwrap();
    rows.iter().map(|id| id.parse().unwrap()).collect()
}

/// Nodes of the list; those whose turn it is, or all.
async fn listed(fleet: &Fleet, at_least: i64) -> BTreeSet<NodeId> {
    let rows: Vec<String> = query_scalar("SELECT node_id FROM late_candidates WHERE ready >= $1")
        .bind(at_least)
        .fetch_all(fleet.services.db.reader())
        .await
        .unwrap();
    rows.iter().map(|id| id.parse().unwrap()).collect()
}

/// Nodes that could be started if there were room.
async fn startable(play: &Play) -> BTreeSet<NodeId> {
    let rows: Vec<String> = query_scalar(
        "SELECT n.id FROM nodes n JOIN node_facts f ON f.node_id = n.id
         WHERE n.removed_at IS NULL AND n.maintenance = 0 AND f.online = 1 AND f.held IS NULL
           AND NOT EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = n.id)",
    )
    .fetch_all(play.fleet.services.db.reader())
    .await
    .unwrap();
    rows.iter().map(|id| id.parse().unwrap()).collect()
}

/// What the list of candidates promises: nobody who is late is missing, and nobody who could go waits for something to
/// happen to him.
async fn nobody_is_forgotten(play: &Play) {
    let late = late_nodes(&play.fleet).await;
    let known = listed(&play.fleet, 0).await;
    assert!(
        late.is_subset(&known),
        "forgotten: {:?}",
        late.difference(&known)
    );
    let ready = listed(&play.fleet, 1).await;
    let startable = startable(play).await;
    let waits: Vec<_> = late
        .intersection(&startable)
        .filter(|node| !ready.contains(node))
        .collect();
    assert!(waits.is_empty(), "wait for nothing: {waits:?}");
}

/// I32: everything heals, and every node comes to run what its pool converges on.
async fn heal(play: &mut Play) {
    freeze(&play.fleet, false).await;
    for node in play.fleet.nodes.clone() {
        if play.removed.contains(&node) {
            continue;
        }
        maintain(&play.fleet, &node, false).await;
        play.come(&node).await;
        play.hold(&node, false).await;
        play.disrupt(&node, false).await;
    }
    for _ in 0..60 {
        play.pass().await;
        play.resume().await;
        play.fleet.pass().await;
        for node in play.fleet.nodes.clone() {
            play.obey(&node).await;
        }
    }
    assert_eq!(late_nodes(&play.fleet).await, BTreeSet::new(), "I32");
    assert_eq!(play.fleet.count("disruptions").await, 0);
}

async fn play(hands: &[Hand]) {
    let fleet = Fleet::of(&[(3, 0), (4, 500_000)]).await;
    let mut play = Play {
        online: fleet.nodes.iter().cloned().collect(),
        fleet,
        removed: BTreeSet::new(),
        rollouts: Vec::new(),
    };
    for hand in hands {
        play.act(hand).await;
        nobody_is_forgotten(&play).await;
    }
    heal(&mut play).await;
    for id in &play.rollouts {
        play.fleet.get(id).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// I21, I24, I32 with late nodes.
    #[test]
    fn whatever_happens_nobody_is_forgotten(hands in prop::collection::vec(hand(), 0..70)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(&hands));
    }
}
