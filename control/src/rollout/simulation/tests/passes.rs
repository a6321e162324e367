//! Passes over the store and the model: from the whole, and from what the store reads of it.

use std::collections::BTreeSet;

use bc_protocol::{
    id::{NodeId, RolloutId},
    session::Outcome,
};
use rand::RngExt as _;

use super::house::{Both, Reads};
use crate::api::rollout::RowState;
use crate::rollout::{
    late,
    plan::{Follow, RowChange, Step, plan},
    snapshot::Extent as Read,
    store::{self, load::Look},
    waker::{Extent, News},
};

impl Both {
    pub(super) async fn passes(&mut self) {
        let news = self.news.replace(BTreeSet::new());
        for id in self.control.active() {
            match self.reads {
                Reads::Whole => self.pass(&id).await,
                Reads::Part => self.pass_in_part(&id, news.as_ref()).await,
            }
        }
        let news = News {
            extent: Extent::Unknown,
            nodes: BTreeSet::new(),
            rollouts: BTreeSet::new(),
        };
        let due = store::late::due(&self.services.db, &news).await.unwrap();
        assert_eq!(due, self.control.rows.due_late());
        for id in due {
            match self.reads {
                Reads::Whole => self.pass_late(&id).await,
                Reads::Part => self.pass_late_in_part(&id).await,
            }
        }
    }

    async fn pass(&mut self, id: &RolloutId) {
        for _ in 0..32 {
            let around = self.services.surroundings();
            let mut tx = self.services.db.begin().await.unwrap();
            store::lock(&mut tx, id).await.unwrap();
            let stored = store::load::snapshot(&mut tx, id, (Look::Everything, around))
                .await
                .unwrap()
                .unwrap();
            let made = plan(&stored, self.now);
            let model = self
                .control
                .rows
                .snapshot(id, self.services.started_at)
                .unwrap();
            let modelled = plan(&model, self.now);
            assert_eq!(made.clone().unnumbered(), modelled.unnumbered());
            if made.is_idle(&stored) {
                return;
            }
            store::apply::apply(&mut tx, &stored, &made).await.unwrap();
            tx.commit().await.unwrap();
            self.control.rows.apply(&made).unwrap();
            if made.follow == Follow::Rest {
                return;
            }
        }
    }

    async fn pass_late(&mut self, id: &RolloutId) {
        for _ in 0..32 {
            let around = self.services.surroundings();
            let mut tx = self.services.db.begin().await.unwrap();
            store::lock(&mut tx, id).await.unwrap();
            let stored = store::late::snapshot(&mut tx, id, around).await.unwrap();
            let model = self
                .control
                .rows
                .late_snapshot(id, self.services.started_at);
            let made = stored.map(|stored| late::plan(&stored, self.now));
            assert_eq!(made, model.map(|model| late::plan(&model, self.now)));
            let Some(made) = made.filter(|made| !made.is_idle()) else {
                return;
            };
            store::late::apply(&mut tx, &made).await.unwrap();
            tx.commit().await.unwrap();
            self.control.rows.apply_late(&made).unwrap();
        }
    }

    /// Some of those that were told do as they were told.
    pub(super) async fn work(&mut self) {
        let rollouts = self.control.rows.rollouts.values();
        let flying: Vec<NodeId> = rollouts
            .flat_map(|rollout| &rollout.rows)
            .filter(|row| matches!(row.state, RowState::Upgrading | RowState::RollingBack))
            .map(|row| row.node.clone())
            .collect();
        for node in flying {
            if self.removed.contains(&node) || self.random.random_bool(0.5) {
                continue;
            }
            let outcome = match self.random.random_range(0..20) {
                0 => Outcome::Crashed,
                1 => Outcome::Running,
                _ => Outcome::Confirmed,
            };
            self.obeys(&node, outcome).await;
        }
    }

    async fn pass_in_part(&mut self, id: &RolloutId, news: Option<&BTreeSet<NodeId>>) {
        let started_at = self.services.started_at;
        for _ in 0..32 {
            let look = news.map_or(Look::Everything, |nodes| Look::News {
                nodes,
                now: self.now,
            });
            let around = self.services.surroundings();
            let mut tx = self.services.db.begin().await.unwrap();
            store::lock(&mut tx, id).await.unwrap();
            let stored = store::load::snapshot(&mut tx, id, (look, around))
                .await
                .unwrap()
                .unwrap();
            self.parts += u32::from(stored.extent != Read::Whole);
            let made = plan(&stored, self.now);
            if made.is_idle(&stored) {
                tx.give_up().await.unwrap();
                return self.rests(id);
            }
            let rows = &mut self.control.rows;
            assert_eq!(rows.check_before(&made, started_at), None, "{made:#?}");
            let before = rows.rollouts[id].head.clone();
            store::apply::apply(&mut tx, &stored, &made).await.unwrap();
            tx.commit().await.unwrap();
            rows.apply(&made).unwrap();
            assert_eq!(rows.check_after(&made, Some(&before)), None, "{made:#?}");
            if made.follow == Follow::Rest {
                return self.rests(id);
            }
        }
        panic!("expected a pass to come to rest");
    }

    /// What a look at the whole would do now is at most to pass somebody over whose turn has not come.
    fn rests(&self, id: &RolloutId) {
        let started_at = self.services.started_at;
        let Some(model) = self.control.rows.snapshot(id, started_at) else {
            return;
        };
        let left: Vec<RowChange> = plan(&model, self.now)
            .rows
            .into_iter()
            .filter(|change| !matches!(change.step, Step::Skip(_)))
            .collect();
        assert_eq!(left, [], "a pass rests and leaves this");
    }

    async fn pass_late_in_part(&mut self, id: &RolloutId) {
        let started_at = self.services.started_at;
        for _ in 0..32 {
            let around = self.services.surroundings();
            let mut tx = self.services.db.begin().await.unwrap();
            store::lock(&mut tx, id).await.unwrap();
            let stored = store::late::snapshot(&mut tx, id, around).await.unwrap();
            let made = stored.map(|stored| late::plan(&stored, self.now));
            let Some(made) = made.filter(|made| !made.is_idle()) else {
                tx.give_up().await.unwrap();
                let model = self.control.rows.late_snapshot(id, started_at);
                let left = model.map(|model| late::plan(&model, self.now).rows);
                assert_eq!(left.unwrap_or_default(), []);
                return;
            };
            let rows = &mut self.control.rows;
            assert_eq!(rows.check_late_before(&made), None, "{made:#?}");
            store::late::apply(&mut tx, &made).await.unwrap();
            tx.commit().await.unwrap();
            rows.apply_late(&made).unwrap();
        }
    }
}
