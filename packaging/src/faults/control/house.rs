//! What a campaign strikes at: a pair of controls, each with its own way to one PostgreSQL, and a crowd of nodes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use rand::{RngExt as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
};

use super::{
    calls::Caller,
    history::{self, DATABASE},
    proxy::Proxy,
};
use crate::{
    build::Programs,
    cluster::Cluster,
    pair::{Control, Pair},
    simulated::{Diary, Floor, Habits, SimulatedNode, Telling},
};

/// The longest time that a node takes for an upgrade.
const SLOW: std::time::Duration = std::time::Duration::from_millis(150);

/// Of a hundred attempts so many fail.
const FAILING: u8 = 2;

/// The pools that every round rolls out to: their nodes, and the share of them that may be disrupted.
const POOLS: [(&str, usize, f64); 2] = [("north", 30, 0.1), ("south", 16, 0.25)];

/// Everything that runs. Processes end before the database does.
pub(super) struct House {
    pub(super) pair: Pair,
    pub(super) caller: Caller,
    /// Pools by id, with their nodes.
    pub(super) pools: BTreeMap<String, Crowd>,
    /// Pools that no round has to do with.
    aside: Vec<Crowd>,
    proxies: [Proxy; 2],
    hang_up: watch::Sender<u64>,
    // Dropped after whoever is connected to it.
    pub(super) cluster: Cluster,
}

/// The nodes of one pool.
pub(super) struct Crowd {
    token: String,
    wanted: usize,
    pub(super) nodes: BTreeMap<String, Member>,
}

/// One node of it.
pub(super) struct Member {
    pub(super) diary: Diary,
    life: AbortHandle,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.life.abort();
    }
}

impl House {
    /// With two pools of nodes.
    pub(super) async fn build(programs: &Programs, cluster: Cluster) -> Result<Self> {
        cluster.create(DATABASE)?;
        let proxies = [
            Proxy::start(cluster.socket())?,
            Proxy::start(cluster.socket())?,
        ];
        let urls = proxies
            .each_ref()
            .map(|proxy| Cluster::url_by(proxy.port(), DATABASE));
        let pair = Pair::start(programs, urls).await?;
        history::begin(&cluster).await?;
        let [one, two] = &pair.controls;
        let urls = [one, two].map(|control| control.operator.url().to_owned());
        let caller = Caller::new(urls, pair.token()?)?;
        let mut house = Self {
            pair,
            caller,
            pools: BTreeMap::new(),
            aside: Vec::new(),
            proxies,
            hang_up: watch::channel(0).0,
            cluster,
        };
        for (name, nodes, budget) in POOLS {
            house.pool(name, nodes, budget).await?;
        }
        Ok(house)
    }

    pub(super) fn control(&mut self, number: usize) -> Result<&mut Control> {
        let control = self.pair.controls.get_mut(number);
        control.context("no such control")
    }

    pub(super) fn proxy(&self, number: usize) -> Result<&Proxy> {
        self.proxies.get(number).context("no such control")
    }

    /// COMMITs that were cut, and nothing that was ordered is cut any more.
    pub(super) fn spare(&self) -> usize {
        let cuts = self.proxies.iter().map(|proxy| {
            proxy.spare();
            proxy.cuts()
        });
        cuts.sum()
    }

    pub(super) fn hang_up_nodes(&self) {
        self.hang_up.send_modify(|times| *times += 1);
    }

    /// Makes a pool and has nodes join it; gives its id.
    pub(super) async fn pool(&mut self, name: &str, nodes: usize, budget: f64) -> Result<String> {
        let policy = json!({ "disruptionBudget": budget });
        let pool = json!({ "name": name, "policy": policy });
        let pool = self.caller.insist("pools/create", pool).await?;
        let id = text(&pool, "id")?;
        let token = json!({ "poolId": id, "uses": 10_000, "expiresInSeconds": 86_400 });
        let token = self.caller.insist("joinTokens/create", token).await?;
        let crowd = Crowd {
            token: text(&token, "token")?,
            wanted: nodes,
            nodes: BTreeMap::new(),
        };
        self.pools.insert(id.clone(), crowd);
        self.fill().await?;
        Ok(id)
    }

    /// From now on no round has to do with a pool; its nodes live on.
    pub(super) fn set_aside(&mut self, pool: &str) {
        self.aside.extend(self.pools.remove(pool));
    }

    /// Has nodes join for those that were removed.
    pub(super) async fn fill(&mut self) -> Result<()> {
        let [one, two] = &self.pair.controls;
        for crowd in self.pools.values_mut() {
            let mut joining = JoinSet::new();
            for number in crowd.nodes.len()..crowd.wanted {
                let at = [one, two].map(|control| control.operator.url().to_owned());
                let token = crowd.token.clone();
                let habits = Habits {
                    slow: SLOW,
                    telling: Telling::Result,
                    failing: watch::channel(FAILING).1,
                    floor: Floor::Rises,
                    hang_up: self.hang_up.subscribe(),
                };
                joining.spawn(async move {
                    let [one, two] = &at;
                    let url = if number % 2 == 0 { one } else { two };
                    let node = SimulatedNode::join(url, &token).await?;
                    anyhow::Ok(node.through(number).with(habits))
                });
            }
            while let Some(node) = joining.join_next().await {
                let node = node??;
                let (id, diary) = (node.id().to_owned(), node.diary());
                let (moments, _) = mpsc::unbounded_channel();
                let life = tokio::spawn(node.run(moments)).abort_handle();
                crowd.nodes.insert(id, Member { diary, life });
            }
        }
        Ok(())
    }

    /// Some node of some pool.
    pub(super) fn any_node(&self, rng: &mut StdRng) -> Result<String> {
        let mut nodes = self.pools.values().flat_map(|crowd| crowd.nodes.keys());
        let all = nodes.clone().count();
        let node = nodes.nth(rng.random_range(0..all.max(1)));
        node.cloned().context("there is a node")
    }

    /// A node that control knows no more.
    pub(super) fn forget(&mut self, node: &str) {
        for crowd in self.pools.values_mut() {
            crowd.nodes.remove(node);
        }
    }

    /// What nodes have seen that must not be.
    pub(super) fn complaints(&self) -> Vec<String> {
        let nodes = self.pools.values().flat_map(|crowd| &crowd.nodes);
        nodes
            .flat_map(|(id, member)| {
                let wrong = member.diary.wrong();
                wrong.into_iter().map(move |wrong| format!("{id}: {wrong}"))
            })
            .collect()
    }
}

/// A text in an answer.
pub(super) fn text(object: &Value, key: &str) -> Result<String> {
    let found = object.get(key).and_then(Value::as_str);
    let found = found.with_context(|| format!("expected {key} in {object}"))?;
    Ok(found.to_owned())
}
