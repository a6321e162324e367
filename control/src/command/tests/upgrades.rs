//! Upgrades of a node that is too old for specs.

use bc_protocol::{
    command::{Order, UpgradeCommand},
    session::{AttemptFacts, Outcome},
    spec::DaemonSection,
};

use super::*;
use crate::{
    api::rollout::{AbortRollout, RowState},
    rollout::service,
    spec::tests::fleet::{BAD, after, states},
};

impl Site {
    /// What an upgrade-only session is sent: one upgrade at most, and nothing else.
    async fn upgrade(&self) -> Option<UpgradeCommand> {
        let mut sent = self.sent().await;
        assert!(sent.len() <= 1, "{sent:?}");
        let command = sent.pop()?.command.unwrap();
        Some(command.into_upgrade().unwrap())
    }

    async fn reports(&mut self, facts: Facts) {
        self.facts = facts;
        self.connect_seq += 1;
        self.turns(true).await;
        self.fleet.pass().await;
    }

    async fn list(&self) -> Vec<Command> {
        let list = ListCommands {
            tenant_id: "root".parse().unwrap(),
            node_id: None,
        };
        store::list(&self.fleet.services.db, &list).await.unwrap()
    }
}

fn failed(section: &DaemonSection, before: &Facts) -> Facts {
    Facts {
        last_attempt: Some(AttemptFacts {
            id: section.attempt.clone(),
            target: section.version.to_string(),
            outcome: Outcome::Crashed,
            is_final: true,
            tries: 1,
            code: "crashed".to_owned(),
            message: "it crashed".to_owned(),
            exit_status: Some(1),
            signal: None,
            log: String::new(),
        }),
        ..before.clone()
    }
}

#[tokio::test]
async fn a_rollout_reaches_a_node_that_is_too_old_for_specs() {
    let mut site = Site::new().await;
    site.comes(true).await;
    assert_eq!(site.upgrade().await, None);
    let rollout = site.fleet.create("1.1.0").await.unwrap();
    site.fleet.pass().await;
    let first = site.upgrade().await.unwrap();
    assert_eq!(first.section.version.as_str(), "1.1.0");
    // However often it is asked for, also after an absence: the same one.
    assert_eq!(site.upgrade().await, Some(first.clone()));
    site.comes(true).await;
    assert_eq!(site.upgrade().await, Some(first.clone()));
    let listed = site.list().await;
    assert_eq!(listed.len(), 1);
    let key = format!("rollout:{}:{}", rollout.id, site.node);
    assert_eq!(listed[0].idempotency_key, key);
    // The node's word ends nothing; its facts do, and settle the row.
    site.answers(&first.id, "").await;
    assert_eq!(site.state(&first.id).await, CommandState::Dispatched);
    let upgraded = after(&site.facts, &first.section, 1).unwrap();
    site.reports(upgraded).await;
    assert_eq!(site.state(&first.id).await, CommandState::Succeeded);
    let row = site.fleet.get(&rollout.id).await;
    assert_eq!(states(&row, RowState::Succeeded), [site.node.clone()]);
    assert_eq!(site.upgrade().await, None);
}

#[tokio::test]
async fn a_failure_for_good_ends_it_and_it_is_not_sent_again() {
    let mut site = Site::new().await;
    site.comes(true).await;
    let rollout = site.fleet.create(BAD).await.unwrap();
    site.fleet.pass().await;
    let first = site.upgrade().await.unwrap();
    let facts = failed(&first.section, &site.facts);
    site.reports(facts).await;
    let ended = site.get(&first.id).await;
    assert_eq!(ended.state, CommandState::Failed);
    assert_eq!(ended.code.as_deref(), Some("crashed"));
    let row = site.fleet.get(&rollout.id).await;
    assert_eq!(states(&row, RowState::Failed), [site.node.clone()]);
    // It runs what it is to run by now.
    assert_eq!(site.upgrade().await, None);
    assert_eq!(site.list().await.len(), 1);
}

#[tokio::test]
async fn a_rollback_replaces_the_upgrade_under_a_name_of_its_own() {
    let mut site = Site::new().await;
    site.comes(true).await;
    let rollout = site.fleet.create("1.1.0").await.unwrap();
    site.fleet.pass().await;
    let there = site.upgrade().await.unwrap();
    let abort = AbortRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: rollout.id.clone(),
        reason: None,
        rollback: true,
    };
    service::abort(&site.fleet.services, "alice", abort)
        .await
        .unwrap();
    let back = site.upgrade().await.unwrap();
    assert_eq!(back.section.version.as_str(), "1.0.0");
    assert_eq!(site.state(&there.id).await, CommandState::Failed);
    let ended = site.get(&there.id).await;
    assert_eq!(ended.code.as_deref(), Some("replaced"));
    let key = format!("rollout:{}:{}:rollback", rollout.id, site.node);
    assert_eq!(site.get(&back.id).await.idempotency_key, key);
}

#[tokio::test]
async fn one_that_nobody_heard_of_any_more_is_made_anew() {
    let mut site = Site::new().await;
    site.comes(true).await;
    site.fleet.create("1.1.0").await.unwrap();
    site.fleet.pass().await;
    let first = site.upgrade().await.unwrap();
    site.time_passes(15 * 60 + 1).await;
    assert_eq!(site.state(&first.id).await, CommandState::TimedOut);
    let again = site.upgrade().await.unwrap();
    assert_ne!(again.id, first.id);
    assert_eq!(again.section, first.section);
    assert!(site.get(&again.id).await.idempotency_key.ends_with(":2"));
}

/// I27: it waits while the node is too old, and comes when it is not any more.
#[tokio::test]
async fn after_the_upgrade_the_rest_comes_in_order() {
    let mut site = Site::new().await;
    site.comes(true).await;
    let restart = site.create(Kind::Restart, "1").await;
    let work = site.create(Kind::Diagnostics, "2").await;
    site.fleet.create("1.1.0").await.unwrap();
    site.fleet.pass().await;
    let upgrade = site.upgrade().await.unwrap();
    let upgraded = after(&site.facts, &upgrade.section, 1).unwrap();
    site.reports(upgraded).await;
    assert_eq!(site.upgrade().await, None);
    site.comes(false).await;
    assert_eq!(site.ids().await, [restart, work]);
}

#[tokio::test]
async fn a_node_that_takes_specs_again_needs_no_upgrade() {
    let mut site = Site::new().await;
    site.comes(true).await;
    site.fleet.create("1.1.0").await.unwrap();
    site.fleet.pass().await;
    let upgrade = site.upgrade().await.unwrap();
    site.turns(false).await;
    assert!(site.ids().await.is_empty());
    let ended = site.get(&upgrade.id).await;
    assert_eq!(ended.code.as_deref(), Some("not-needed"));
    let Order::Upgrade(_) = bc_protocol::command::Command::from(upgrade).order else {
        panic!("no upgrade");
    };
}

/// A new binary that takes specs dies, and the old one comes back, which does not: the attempt has still to be brought.
#[tokio::test]
async fn one_that_was_not_needed_for_a_while_is_made_anew() {
    let mut site = Site::new().await;
    site.comes(true).await;
    site.fleet.create("1.1.0").await.unwrap();
    site.fleet.pass().await;
    let first = site.upgrade().await.unwrap();
    site.turns(false).await;
    assert!(site.ids().await.is_empty());
    site.turns(true).await;
    let again = site.upgrade().await.unwrap();
    assert_ne!(again.id, first.id);
    assert_eq!(again.section, first.section);
    // And only one.
    assert_eq!(site.upgrade().await.unwrap().id, again.id);
}
