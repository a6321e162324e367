//! Late nodes on a real database: who is late, when he is started, and that nobody is forgotten.

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, PoolId, RolloutId};
use proptest::prelude::*;

use super::fleet::{BAD, Fleet, request};
use crate::{
    api::{
        fleet::UpdateNode,
        rollout::{AbortRollout, CreateRollout, LateNode, OneRollout, RolloutState, RowState},
    },
    clock::Moment,
    db::{query, query_scalar},
    fleet::{change, disruption},
    rollout::service,
};

async fn pass_and_obey(fleet: &mut Fleet, times: usize) {
    for _ in 0..times {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    fleet.pass().await;
}

async fn late_of(fleet: &Fleet, id: &RolloutId) -> Vec<LateNode> {
    fleet.get(id).await.late_nodes.unwrap()
}

async fn completed(fleet: &mut Fleet, version: &str) -> RolloutId {
    let id = fleet.create(version).await.unwrap().id;
    pass_and_obey(fleet, 8).await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);
    id
}

async fn maintain(fleet: &Fleet, node: &NodeId, maintenance: bool) {
    let update = UpdateNode {
        tenant_id: "root".parse().unwrap(),
        node_id: node.clone(),
        labels: [].into(),
        maintenance: Some(maintenance),
    };
    change::update(&fleet.services.db, "alice", &update, Moment::now())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_that_joined_later_converges() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    let id = completed(&mut fleet, "1.1.0").await;
    let before = fleet.get(&id).await;
    let pool = fleet.pools[0].clone();
    let (one, two) = (fleet.joins(&pool).await, fleet.joins(&pool).await);
    fleet.pass().await;
    let started = late_of(&fleet, &id).await;
    assert_eq!(started.len(), 1, "one place in the pool");
    assert_eq!(started[0].state, RowState::Upgrading);
    pass_and_obey(&mut fleet, 3).await;

    let after = fleet.get(&id).await;
    let late = after.late_nodes.clone().unwrap();
    assert!(late.iter().all(|row| row.state == RowState::Succeeded));
    let nodes: BTreeSet<_> = late.iter().map(|row| row.node_id.clone()).collect();
    assert_eq!(nodes, BTreeSet::from([one.clone(), two.clone()]));
    assert_eq!(
        (after.nodes, after.node_list),
        (before.nodes, before.node_list)
    );
    assert_eq!(after.updated_at, before.updated_at);
    for node in [one, two] {
        assert_eq!(fleet.runs(&node), ("1.1.0".to_owned(), 11));
        assert!(fleet.spec(&node).await.daemon.is_some());
    }
    assert_eq!(fleet.count("disruptions").await, 0);
}

#[tokio::test]
async fn a_node_that_was_passed_over_converges_when_it_returns() {
    let mut fleet = Fleet::of(&[(3, 1_000_000)]).await;
    let first = completed(&mut fleet, "1.1.0").await;
    let away = fleet.nodes[1].clone();
    maintain(&fleet, &away, true).await;
    // It is left out of this one, and what an older one brought it has no say any more.
    let second = fleet.create("1.1.0").await.unwrap().id;
    pass_and_obey(&mut fleet, 3).await;
    assert_eq!(fleet.get(&second).await.state, RolloutState::Completed);
    assert!(
        late_of(&fleet, &second).await.is_empty(),
        "maintenance waits"
    );
    assert_eq!(fleet.spec(&away).await.daemon, None);
    maintain(&fleet, &away, false).await;
    pass_and_obey(&mut fleet, 2).await;
    let late = late_of(&fleet, &second).await;
    assert_eq!((late.len(), late[0].state), (1, RowState::Succeeded));
    assert_eq!(late[0].from_version, None, "it ran it already");
    assert!(late_of(&fleet, &first).await.is_empty());
}

#[tokio::test]
async fn a_late_node_that_failed_is_not_tried_again_before_somebody_asks() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    // A rollout of the bad release that an operator lets complete.
    let lenient = CreateRollout {
        max_failure_ratio: Some("1".parse().unwrap()),
        waves: Some(vec!["100".parse().unwrap()]),
        ..request(BAD)
    };
    let id = service::create(&fleet.services, "alice", lenient)
        .await
        .unwrap()
        .id;
    pass_and_obey(&mut fleet, 4).await;
    let resume = OneRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
    };
    service::resume(&fleet.services, "alice", resume)
        .await
        .unwrap();
    pass_and_obey(&mut fleet, 2).await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);

    let pool = fleet.pools[0].clone();
    let node = fleet.joins(&pool).await;
    pass_and_obey(&mut fleet, 4).await;
    let late = late_of(&fleet, &id).await;
    assert_eq!((late.len(), late[0].state), (1, RowState::Failed));
    let section = fleet.spec(&node).await.daemon.unwrap();
    assert_eq!(section.version.as_str(), "1.0.0", "what it ran before");
    fleet.leave(&node).await;
    fleet.comes(&node).await;
    pass_and_obey(&mut fleet, 2).await;
    assert_eq!(late_of(&fleet, &id).await, late);

    let newer = completed(&mut fleet, "1.1.0").await;
    assert_eq!(fleet.get(&newer).await.nodes.succeeded, 3);
}

#[tokio::test]
async fn an_archived_pool_and_a_narrowed_rollout_have_no_late_nodes() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    let narrowed = CreateRollout {
        node_ids: Some(fleet.nodes[..1].to_vec()),
        ..request("1.1.0")
    };
    let id = service::create(&fleet.services, "alice", narrowed)
        .await
        .unwrap()
        .id;
    pass_and_obey(&mut fleet, 3).await;
    let rollout = fleet.get(&id).await;
    assert_eq!(rollout.state, RolloutState::Completed);
    assert_eq!(rollout.late_nodes, Some(vec![]));
    assert_eq!(fleet.spec(&fleet.nodes[1].clone()).await.daemon, None);

    let all = completed(&mut fleet, "1.1.0").await;
    let pool = fleet.pools[0].clone();
    let node = fleet.joins(&pool).await;
    let mut tx = fleet.services.db.begin().await.unwrap();
    query("UPDATE pools SET archived_at = 1")
        .execute(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    pass_and_obey(&mut fleet, 2).await;
    assert!(late_of(&fleet, &all).await.is_empty());
    assert_eq!(fleet.runs(&node).0, "1.0.0");
}

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
