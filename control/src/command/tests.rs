//! Commands on a real database, between callers, sessions and nodes that answer.

mod upgrades;

use bc_protocol::{
    command::{CommandResult, Kind, Part},
    id::{AttemptId, CommandId, NodeId, SessionId},
    link::{CommandEnded, CommandPush, Event, SessionOpened},
    session::{Facts, Slot, StartId, TrialFacts},
};

use super::{
    dispatch, due, settle,
    store::{self, CommandError},
};
use crate::{
    api::{
        command::{Command, CommandState, CreateCommand, ListCommands, OneCommand, Payload},
        fleet::OneNode,
    },
    clock::Moment,
    fleet::{change, facts},
    spec::tests::fleet::{Fleet, gateway},
};

/// One node, and the number of its session.
struct Site {
    fleet: Fleet,
    node: NodeId,
    connect_seq: u64,
    facts: Facts,
}

impl Site {
    async fn new() -> Self {
        let fleet = Fleet::of(&[(1, 1_000_000)]).await;
        let node = fleet.nodes[0].clone();
        let facts = fleet.facts_of(&node);
        Self {
            fleet,
            node,
            connect_seq: 1,
            facts,
        }
    }

    fn session(&self) -> SessionId {
        SessionId::derived(&[&self.connect_seq.to_be_bytes()])
    }

    /// The node comes with another session of another start.
    async fn comes(&mut self, upgrade_only: bool) {
        self.connect_seq += 1;
        let mut start = [0; 16];
        start[..8].copy_from_slice(&self.connect_seq.to_be_bytes());
        self.facts.started = Some(StartId::from(start));
        self.turns(upgrade_only).await;
    }

    /// The session that it has is named, perhaps as another kind than before.
    async fn turns(&mut self, upgrade_only: bool) {
        let opened = Event::Opened(SessionOpened {
            node: self.node.clone(),
            session: self.session(),
            connect_seq: self.connect_seq,
            protocol: 1,
            upgrade_only,
            report: 0,
            facts: self.facts.clone(),
            labels: [("cpu.arch".to_owned(), "x86_64".to_owned())].into(),
            company: None,
        });
        self.say(opened).await;
    }

    async fn say(&self, event: Event) {
        let now = Moment::now();
        let mut tx = self.fleet.services.db.begin().await.unwrap();
        let events = [event];
        let applied = facts::apply(&mut tx, &gateway(), &events, now)
            .await
            .unwrap();
        settle::facts(&mut tx, &applied.changed, now).await.unwrap();
        for event in &events {
            if let Event::Ended(ended) = event {
                settle::answer(&mut tx, ended, now).await.unwrap();
            }
        }
        tx.commit().await.unwrap();
    }

    async fn answers(&self, id: &CommandId, code: &str) {
        let ended = self.ended(id, code);
        self.say(Event::Ended(ended)).await;
    }

    fn ended(&self, id: &CommandId, code: &str) -> CommandEnded {
        CommandEnded {
            node: self.node.clone(),
            session: self.session(),
            connect_seq: self.connect_seq,
            result: CommandResult {
                id: id.clone(),
                succeeded: code.is_empty(),
                message: "said so".to_owned(),
                report: b"report".to_vec(),
                code: code.to_owned(),
            },
        }
    }

    fn request(&self, kind: Kind, key: &str) -> CreateCommand {
        CreateCommand {
            tenant_id: "root".parse().unwrap(),
            node_id: self.node.clone(),
            kind,
            payload: Payload::default(),
            idempotency_key: Some(key.to_owned()),
            expires_in_seconds: None,
        }
    }

    async fn create(&self, kind: Kind, key: &str) -> CommandId {
        let request = self.request(kind, key);
        let db = &self.fleet.services.db;
        let made = store::create(db, "alice", &request, Moment::now()).await;
        made.unwrap().id
    }

    async fn sent(&self) -> Vec<CommandPush> {
        dispatch::for_session(&self.fleet.services, &self.node)
            .await
            .unwrap()
    }

    /// The ids of what the session is sent now.
    async fn ids(&self) -> Vec<CommandId> {
        let sent = self.sent().await;
        sent.into_iter()
            .map(|push| {
                assert_eq!(push.connect_seq, self.connect_seq);
                push.command.unwrap().id
            })
            .collect()
    }

    async fn get(&self, id: &CommandId) -> Command {
        let request = OneCommand {
            tenant_id: "root".parse().unwrap(),
            command_id: id.clone(),
        };
        store::get(&self.fleet.services.db, &request).await.unwrap()
    }

    async fn state(&self, id: &CommandId) -> CommandState {
        self.get(id).await.state
    }

    async fn time_passes(&self, seconds: u64) {
        let then = Moment::now().plus(std::time::Duration::from_secs(seconds));
        due::pass(&self.fleet.services, then).await.unwrap();
    }
}

/// I28
#[tokio::test]
async fn equal_calls_with_one_key_make_one_command() {
    let site = Site::new().await;
    let db = &site.fleet.services.db;
    let request = site.request(Kind::Restart, "once");
    let calls = (0..20).map(|_| store::create(db, "alice", &request, Moment::now()));
    let made = futures_util::future::join_all(calls).await;
    let first = made[0].as_ref().unwrap().clone();
    for command in made {
        assert_eq!(command.unwrap(), first);
    }
    let list = ListCommands {
        tenant_id: "root".parse().unwrap(),
        node_id: Some(site.node.clone()),
    };
    assert_eq!(store::list(db, &list).await.unwrap(), [first]);
    let other = site.request(Kind::Diagnostics, "once");
    let refused = store::create(db, "alice", &other, Moment::now()).await;
    assert!(matches!(refused, Err(CommandError::Taken { .. })));
}

#[tokio::test]
async fn what_a_removed_node_was_to_do_has_ended() {
    let site = Site::new().await;
    let waits = site.create(Kind::Restart, "a").await;
    let sent = site.create(Kind::Diagnostics, "b").await;
    site.ids().await;
    let request = OneNode {
        tenant_id: "root".parse().unwrap(),
        node_id: site.node.clone(),
    };
    change::remove(&site.fleet.services.db, "alice", &request, Moment::now())
        .await
        .unwrap();
    site.time_passes(0).await;
    for id in [&waits, &sent] {
        let ended = site.get(id).await;
        assert_eq!(
            (ended.state, ended.code.as_deref()),
            (CommandState::Failed, Some("removed"))
        );
        assert!(ended.finished_at.is_some(), "{ended:?}");
    }
    // Twice is once.
    site.time_passes(0).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let site = Site::new().await;
    let refuse = async |request: CreateCommand| {
        let db = &site.fleet.services.db;
        let made = store::create(db, "alice", &request, Moment::now()).await;
        made.unwrap_err().to_string()
    };
    let upgrade = refuse(site.request(Kind::Upgrade, "a")).await;
    assert!(upgrade.contains("only rollouts"), "{upgrade}");
    let mut request = site.request(Kind::Restart, "a");
    request.payload.collect.push(Part::Log);
    assert!(refuse(request).await.contains("no payload"));
    for key in ["", "a b", "rollout:x"] {
        assert!(
            refuse(site.request(Kind::Restart, key))
                .await
                .contains("key")
                || key != "rollout:x"
        );
    }
    for seconds in [0.0, -1.0, f64::NAN, 1e9] {
        let mut request = site.request(Kind::Restart, "a");
        request.expires_in_seconds = Some(seconds);
        assert!(refuse(request).await.contains("seconds"));
    }
    let mut request = site.request(Kind::Restart, "a");
    request.tenant_id = "other".parse().unwrap();
    assert!(refuse(request).await.contains("expected a node"));
}

#[tokio::test]
async fn a_node_has_so_many_open_commands_and_no_more() {
    let site = Site::new().await;
    for number in 0..64 {
        site.create(Kind::Diagnostics, &format!("n{number}")).await;
    }
    let db = &site.fleet.services.db;
    let more = store::create(db, "a", &site.request(Kind::Restart, "x"), Moment::now()).await;
    assert!(matches!(more, Err(CommandError::TooMany)));
}

/// I26
#[tokio::test]
async fn lanes_run_in_order_and_what_is_dispatched_is_replayed() {
    let mut site = Site::new().await;
    site.comes(false).await;
    let first = site.create(Kind::Diagnostics, "1").await;
    let second = site.create(Kind::Diagnostics, "2").await;
    let restart = site.create(Kind::Restart, "3").await;
    assert_eq!(site.ids().await, [first.clone(), restart.clone()]);
    assert_eq!(site.state(&second).await, CommandState::Pending);
    // Asked again, in this session or the next: the same.
    assert_eq!(site.ids().await, [first.clone(), restart.clone()]);
    let superseded = site.ended(&first, "");
    site.comes(false).await;
    assert_eq!(site.ids().await, [first.clone(), restart.clone()]);
    // What an older session says changes nothing.
    site.say(Event::Ended(superseded)).await;
    assert_eq!(site.state(&first).await, CommandState::Dispatched);
    site.answers(&first, "").await;
    site.answers(&first, "overdue").await;
    let ended = site.get(&first).await;
    assert_eq!(ended.state, CommandState::Succeeded);
    assert_eq!(ended.report.as_deref(), Some("report"));
    assert_eq!(site.ids().await, [restart, second.clone()]);
    site.answers(&second, "overdue").await;
    let ended = site.get(&second).await;
    assert_eq!(ended.state, CommandState::Failed);
    assert_eq!(ended.code.as_deref(), Some("overdue"));
}

#[tokio::test]
async fn a_restart_ends_by_another_start_and_not_by_a_word() {
    let mut site = Site::new().await;
    site.comes(false).await;
    let id = site.create(Kind::Restart, "1").await;
    assert_eq!(site.ids().await, std::slice::from_ref(&id));
    site.answers(&id, "").await;
    assert_eq!(site.state(&id).await, CommandState::Dispatched);
    site.comes(false).await;
    assert_eq!(site.ids().await, std::slice::from_ref(&id));
    site.answers(&id, "").await;
    assert_eq!(site.state(&id).await, CommandState::Succeeded);
}

#[tokio::test]
async fn a_restart_waits_for_the_end_of_a_trial() {
    let mut site = Site::new().await;
    site.facts.trial = Some(TrialFacts {
        slot: Slot::B,
        sequence: site.facts.sequence,
        digest: site.facts.digest,
        attempt: AttemptId::derived(&[]),
        starts: 1,
    });
    site.comes(false).await;
    let restart = site.create(Kind::Restart, "1").await;
    let work = site.create(Kind::Diagnostics, "2").await;
    assert_eq!(site.ids().await, std::slice::from_ref(&work));
    assert_eq!(site.state(&restart).await, CommandState::Pending);
    site.facts.trial = None;
    site.comes(false).await;
    assert_eq!(site.ids().await, [work, restart]);
}

#[tokio::test]
async fn a_node_may_refuse_a_restart() {
    let mut site = Site::new().await;
    site.comes(false).await;
    let id = site.create(Kind::Restart, "1").await;
    site.ids().await;
    site.answers(&id, "on-trial").await;
    assert_eq!(site.state(&id).await, CommandState::Failed);
}

/// I27
#[tokio::test]
async fn an_upgrade_only_session_gets_nothing_else_and_the_rest_comes_later_in_order() {
    let mut site = Site::new().await;
    site.comes(false).await;
    let restart = site.create(Kind::Restart, "1").await;
    let work = site.create(Kind::Diagnostics, "2").await;
    let more = site.create(Kind::Diagnostics, "3").await;
    assert_eq!(site.ids().await, [restart.clone(), work.clone()]);
    // Turned too old in the middle.
    site.turns(true).await;
    assert!(site.ids().await.is_empty());
    for id in [&restart, &work, &more] {
        assert_eq!(site.state(id).await, CommandState::Pending);
    }
    site.comes(true).await;
    assert!(site.ids().await.is_empty());
    site.comes(false).await;
    assert_eq!(site.ids().await, [restart.clone(), work.clone()]);
    // It was sent to a start before this one, and may have had its effect then.
    site.answers(&restart, "").await;
    site.answers(&work, "").await;
    assert_eq!(site.state(&restart).await, CommandState::Succeeded);
    assert_eq!(site.ids().await, [more]);
}

#[tokio::test]
async fn time_ends_what_nobody_begins_or_ends() {
    let mut site = Site::new().await;
    site.comes(false).await;
    let begun = site.create(Kind::Diagnostics, "1").await;
    let waits = site.create(Kind::Diagnostics, "2").await;
    site.ids().await;
    site.time_passes(299).await;
    assert_eq!(site.state(&begun).await, CommandState::Dispatched);
    site.time_passes(301).await;
    let ended = site.get(&begun).await;
    assert_eq!(ended.state, CommandState::TimedOut);
    assert_eq!(ended.code.as_deref(), Some("timeout"));
    // Its end is final, whatever the node says of it then; its lane is free.
    site.answers(&begun, "").await;
    assert_eq!(site.state(&begun).await, CommandState::TimedOut);
    site.time_passes(3601).await;
    assert_eq!(site.state(&waits).await, CommandState::Expired);
    assert!(site.ids().await.is_empty());
}

#[tokio::test]
async fn what_comes_too_late_at_the_node_has_expired() {
    let mut site = Site::new().await;
    site.comes(false).await;
    let id = site.create(Kind::Diagnostics, "1").await;
    site.ids().await;
    site.answers(&id, "expired").await;
    assert_eq!(site.state(&id).await, CommandState::Expired);
}
