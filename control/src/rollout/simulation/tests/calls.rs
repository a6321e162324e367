//! What operators do, in both.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    share::Percent,
};
use rand::RngExt as _;

use super::{
    super::create::Wanted,
    house::{Both, RELEASES, Reads},
};
use crate::{
    api::{
        fleet::{OneNode, UpdateNode},
        rollout::CreateRollout,
    },
    clock::Moment,
    db::query_scalar,
    fleet::{change, disruption},
    rollout::{
        operator::{self, Call},
        plan::Plan,
        service,
        snapshot::{Freeze, Scope},
        store::{self, load::Look},
    },
};

impl Both {
    pub(super) async fn creates(&mut self) {
        let version = RELEASES[self.random.random_range(0..3)].0;
        let narrow = self.random.random_bool(0.2);
        let nodes: Vec<NodeId> = self
            .nodes
            .iter()
            .step_by(2)
            .map(|(node, _)| node.clone())
            .collect();
        let nodes: Vec<NodeId> = nodes
            .into_iter()
            .filter(|node| !self.removed.contains(node))
            .collect();
        let key = self.rollouts.len().to_string();
        let waves: &[&str] = match self.reads {
            Reads::Whole => &["10", "50", "100"],
            Reads::Part => &["100"],
        };
        let waves: Vec<Percent> = waves.iter().map(|wave| wave.parse().unwrap()).collect();
        let request = CreateRollout {
            tenant_id: "root".parse().unwrap(),
            version: version.parse().unwrap(),
            pool_ids: None,
            node_ids: narrow.then(|| nodes.clone()),
            selector: None,
            include_maintenance: false,
            waves: Some(waves.clone()),
            max_failure_ratio: Some("0.3".parse().unwrap()),
            soak_seconds: Some(60.0),
            upgrade_timeout_seconds: Some(300.0),
            idempotency_key: Some(key.clone()),
        };
        let made = service::create(&self.services, "alice", request).await;
        let id = RolloutId::derived(&[b"root", b"alice", key.as_bytes()]);
        let created_at: Option<i64> = query_scalar("SELECT created_at FROM rollouts WHERE id = $1")
            .bind(id.as_str())
            .fetch_optional(self.services.db.reader())
            .await
            .unwrap();
        let wanted = Wanted {
            id: id.clone(),
            version: version.parse().unwrap(),
            pools: None,
            nodes: narrow.then(|| nodes.into_iter().collect()),
            waves,
            ratio: "0.3".parse().unwrap(),
            soak: Duration::from_secs(60),
            timeout: Duration::from_secs(300),
            scope: Scope::NotInMaintenance,
        };
        let at = created_at.map_or(self.now, Moment::from_millis);
        let model = self.control.rows.create(&wanted, at);
        assert_eq!(made.is_ok(), model.is_ok(), "{made:?} {model:?}");
        if made.is_ok() {
            self.rollouts.push(id);
        }
    }

    pub(super) async fn calls(&mut self, call: &Call) {
        let Some(id) = self.rollouts.last().cloned() else {
            return;
        };
        let around = self.services.surroundings();
        let mut tx = self.services.db.begin().await.unwrap();
        store::lock(&mut tx, &id).await.unwrap();
        let look = match (self.reads, call) {
            (Reads::Whole, _) | (Reads::Part, Call::Abort { .. }) => Look::Everything,
            (Reads::Part, Call::Pause { .. } | Call::Resume) => Look::News {
                nodes: &BTreeSet::new(),
                now: self.now,
            },
        };
        let stored = store::load::snapshot(&mut tx, &id, (look, around))
            .await
            .unwrap()
            .unwrap();
        let made = operator::plan(&stored, call, "alice", self.now);
        if self.reads == Reads::Whole {
            let started_at = self.services.started_at;
            let model = self.control.rows.snapshot(&id, started_at).unwrap();
            let modelled = operator::plan(&model, call, "alice", self.now);
            let plans = [made.clone(), modelled].map(|made| made.map(Plan::unnumbered));
            assert_eq!(plans[0], plans[1]);
        }
        if let Ok(made) = made {
            store::apply::apply(&mut tx, &stored, &made).await.unwrap();
            tx.commit().await.unwrap();
            self.control.rows.apply(&made).unwrap();
        }
    }

    pub(super) async fn disrupts(&mut self, (node, pool): &(NodeId, PoolId), runs: bool) {
        let mut tx = self.services.db.begin().await.unwrap();
        if runs {
            disruption::occupy(&mut tx, node, pool, "wf_1", self.now)
                .await
                .unwrap();
        } else {
            disruption::vacate(&mut tx, node, "wf_1").await.unwrap();
        }
        tx.commit().await.unwrap();
        self.control.workflow(node, runs);
        self.news = None;
    }

    pub(super) async fn freezes(&mut self, frozen: bool) {
        let word = Freeze {
            reason: "incident".to_owned(),
            by: "alice".to_owned(),
            since: self.now,
        };
        let mut tx = self.services.db.begin().await.unwrap();
        let tenant = "root".parse().unwrap();
        store::freeze::write(&mut tx, &tenant, frozen.then_some(&word))
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.control.freeze(frozen, self.now.millis());
        self.news = None;
    }

    pub(super) async fn maintains(&mut self, node: &NodeId, maintenance: bool) {
        let request = UpdateNode {
            tenant_id: "root".parse().unwrap(),
            node_id: node.clone(),
            labels: BTreeMap::new(),
            maintenance: Some(maintenance),
        };
        change::update(&self.services.db, "alice", &request, self.now)
            .await
            .unwrap();
        self.control.maintain(node, maintenance);
        self.news = None;
    }

    pub(super) async fn removes(&mut self, node: &NodeId) {
        let request = OneNode {
            tenant_id: "root".parse().unwrap(),
            node_id: node.clone(),
        };
        change::remove(&self.services.db, "alice", &request, self.now)
            .await
            .unwrap();
        self.control.remove(node, self.now.millis());
        self.removed.insert(node.clone());
        self.news = None;
        self.sessions.get_mut(node).unwrap().2 = false;
    }
}
