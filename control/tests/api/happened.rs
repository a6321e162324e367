//! Every type of event that calls cause, with its subject, its actor and what it says; and that an event and its cause
//! are one: where the one cannot be written, the other is not either.

mod causes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    events::Watch,
    rows,
    server::{Release, Server},
};
use causes::{Cause, causes};

/// Types that only sessions and what nodes report cause; `fleet/facts`, `link` and `command` hold those.
const OF_SESSIONS: [&str; 7] = [
    "node.online",
    "node.offline",
    "node.upgraded",
    "node.upgrade-failed",
    "node.duplicate",
    "gateway.duplicate",
    "command.ended",
];

/// The console's own; its tests hold it.
const OF_THE_CONSOLE: [&str; 1] = ["token.signed-in"];

/// The ids that calls gave.
#[derive(Default)]
struct Names(BTreeMap<&'static str, String>);

impl Names {
    fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, id)| {
            text.replace(&format!("{{{name}}}"), id)
        })
    }

    fn call(&self, cause: &Cause) -> Value {
        let mut body: Value = serde_json::from_str(&self.fill(&cause.body.to_string())).unwrap();
        if cause.method != "nodes/join" {
            body["tenantId"] = json!("root");
        }
        body
    }

    /// What an id is of can be seen by its beginning, in logs and tables too.
    fn have_their_prefixes(&self) {
        for (name, prefix) in [
            ("pool", "pool_"),
            ("node", "node_"),
            ("token", "bcjt_"),
            ("gateway", "gw_"),
            ("api", "tok_"),
            ("hook", "whk_"),
            ("workflow", "wf_"),
            ("command", "cmd_"),
            ("rollout", "rollout_"),
        ] {
            let id = &self.0[name];
            assert!(id.starts_with(prefix), "{name}: {id}");
        }
    }

    fn keep(&mut self, cause: &Cause, answer: &Value) {
        let id = answer
            .get("nodeId")
            .filter(|_| cause.method == "nodes/join");
        let id = id.or_else(|| answer.get("id")).and_then(Value::as_str);
        if !cause.keeps.is_empty() {
            self.0.insert(cause.keeps, id.unwrap().to_owned());
        }
    }
}

/// Makes a call as whoever may: nodes join with the token that was made for them.
async fn made(server: &Server, cause: &Cause, body: Value, bearer: &str) -> (u16, Value) {
    let by = match cause.method {
        "nodes/join" => bearer,
        _ => server.admin.as_str(),
    };
    server.call_as(by, cause.method, body).await
}

/// The guide's table of types: what each one is about, and which fields it has.
fn documented() -> BTreeMap<String, (String, String)> {
    let guide =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/docs/events.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let mut types = BTreeMap::new();
    for line in guide.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let subject = cells[2].trim_matches('`').trim_end_matches('…').to_owned();
        for kind in cells[1].split(", ") {
            let row = (subject.clone(), cells[4].to_owned());
            types.insert(kind.trim_matches('`').to_owned(), row);
        }
    }
    types
}

fn is_documented(event: &Value, types: &BTreeMap<String, (String, String)>) {
    let kind = event["type"].as_str().unwrap();
    let (subject, said) = types
        .get(kind)
        .unwrap_or_else(|| panic!("{kind} is in no guide"));
    assert!(
        event["subject"].as_str().unwrap().starts_with(subject),
        "{event}"
    );
    let said: BTreeSet<&str> = said.split(", ").filter(|name| *name != "–").collect();
    let data = event["data"].as_object().unwrap();
    for name in data.keys() {
        assert!(
            said.contains(name.as_str()),
            "{kind}: the guide does not know {name}"
        );
    }
}

#[tokio::test]
async fn each_call_causes_its_event_and_the_guide_knows_it() {
    let server = Server::start();
    let types = documented();
    let mut names = Names::default();
    let (mut after, mut seen, mut bearer) = (0, BTreeSet::new(), String::new());
    for cause in causes() {
        let body = names.call(&cause);
        let (status, answer) = made(&server, &cause, body, &bearer).await;
        assert_eq!(status, 200, "{}: {answer}", cause.method);
        names.keep(&cause, &answer);
        if cause.method == "joinTokens/create" {
            answer["token"].as_str().unwrap().clone_into(&mut bearer);
        }
        let list = json!({ "tenantId": "root", "after": after });
        let found = server.call("events/list", list).await;
        after = found["next"].as_u64().unwrap();
        // What control does by itself meanwhile is not the call's.
        let events = found["events"].as_array().unwrap().iter();
        let events: Vec<&Value> = events.filter(|event| event["actor"] != "control").collect();
        assert_eq!(events.len(), 1, "{}: {found}", cause.method);
        let event = events[0];
        assert_eq!(event["type"], cause.kind, "{event}");
        assert_eq!(event["subject"], names.fill(cause.subject), "{event}");
        assert_eq!(event["tenantId"], "root", "{event}");
        let actor = match cause.method {
            // Whoever let the machine in is who made the token; the token itself is what joined it.
            "nodes/join" => names.0["token"].as_str(),
            _ => "admin",
        };
        assert_eq!(event["actor"], actor, "{event}");
        assert!(event["requestId"].is_string(), "{event}");
        assert!(event["id"].as_str().unwrap().starts_with("evt_"), "{event}");
        is_documented(event, &types);
        seen.insert(cause.kind.to_owned());
    }
    names.have_their_prefixes();
    seen.extend(OF_SESSIONS.map(str::to_owned));
    seen.extend(OF_THE_CONSOLE.map(str::to_owned));
    seen.extend(BY_ITSELF.map(str::to_owned));
    assert_eq!(types.into_keys().collect::<BTreeSet<_>>(), seen);
}

/// Types that the next test sees, and `downloads` sees published.
const BY_ITSELF: [&str; 4] = [
    "rollout.wave",
    "rollout.completed",
    "rollout.retried",
    "release.published",
];

/// A rollout whose nodes are removed under it: it stops by itself, goes on when it is told to, and ends.
#[tokio::test]
async fn what_control_does_by_itself_is_told_as_its_own() {
    let server = Server::start();
    let types = documented();
    server.register(&Release::new("1.0.0", 1).manifest()).await;
    let pool = server.pool("edge").await;
    let token = crate::joining::join_token(&server, &pool, 2, 60.0).await;
    for _ in 0..2 {
        crate::joining::joined(&server, &token).await;
    }
    let body = json!({ "tenantId": "root", "types": ["rollout.*"], "after": 0 });
    let mut watch = Watch::open(&server, &server.admin, body, None).await;
    let mut create = json!({ "tenantId": "root", "version": "1.0.0", "soakSeconds": 0 });
    create["waves"] = json!([50, 100]);
    let rollout = server.call("rollouts/create", create).await;
    let this = json!({ "tenantId": "root", "rolloutId": rollout["id"] });
    let first = server.call("rollouts/get", this.clone()).await;
    let mut told = Vec::new();
    let mut next = async |told: &mut Vec<(String, String)>| {
        let (_, event) = watch.next().await.unwrap();
        assert_eq!(
            event["subject"],
            format!("rollout/{}", rollout["id"].as_str().unwrap())
        );
        is_documented(&event, &types);
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        told.push((text("type"), text("actor")));
    };
    next(&mut told).await;
    for node in first["nodeList"].as_array().unwrap() {
        let remove = json!({ "tenantId": "root", "nodeId": node["nodeId"] });
        server.call("nodes/remove", remove).await;
        // Nobody has tried the release in this wave: it waits for an operator.
        next(&mut told).await;
        server.call("rollouts/resume", this.clone()).await;
        next(&mut told).await;
        next(&mut told).await;
    }
    server.call("rollouts/retry", this).await;
    next(&mut told).await;
    let told: Vec<(&str, &str)> = told
        .iter()
        .map(|(kind, actor)| (kind.as_str(), actor.as_str()))
        .collect();
    let expected = [
        ("rollout.started", "admin"),
        ("rollout.paused", "control"),
        ("rollout.resumed", "admin"),
        ("rollout.wave", "control"),
        ("rollout.paused", "control"),
        ("rollout.resumed", "admin"),
        ("rollout.completed", "control"),
        ("rollout.retried", "admin"),
    ];
    assert_eq!(told, expected);
}

/// What anybody can see of a tenant, and of the platform.
async fn sight(server: &Server) -> Vec<(&'static str, Value)> {
    let mut seen = Vec::new();
    for method in [
        "pools/list",
        "nodes/list",
        "joinTokens/list",
        "tokens/list",
        "webhooks/list",
        "commands/list",
        "workflows/list",
        "rollouts/list",
        "releases/list",
        "gateways/list",
        "fleet/summary",
        "events/list",
    ] {
        let body = json!({ "tenantId": "root" });
        let mut answer = server.call(method, body).await;
        // The pass behind a call touches its rollout once more, whenever that is.
        for rollout in answer["rollouts"].as_array_mut().into_iter().flatten() {
            rollout["updatedAt"].take();
        }
        seen.push((method, answer));
    }
    seen
}

/// The database refuses every event from now on.
fn refuse_events(server: &Server) {
    let sqlite = "CREATE TRIGGER no_events BEFORE INSERT ON events
         BEGIN SELECT RAISE(ABORT, 'no events in this test'); END";
    let postgresql = "CREATE FUNCTION no_events() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN RAISE EXCEPTION 'no events in this test'; END $$;
         CREATE TRIGGER no_events BEFORE INSERT ON events
             FOR EACH ROW EXECUTE FUNCTION no_events()";
    rows::say(server.dir.path(), sqlite, postgresql);
}

fn take_events(server: &Server) {
    let postgresql = "DROP TRIGGER no_events ON events; DROP FUNCTION no_events()";
    rows::say(server.dir.path(), "DROP TRIGGER no_events", postgresql);
}

// I30
#[tokio::test]
async fn where_the_event_cannot_be_written_nothing_is() {
    let server = Server::start();
    let mut names = Names::default();
    let mut bearer = String::new();
    for cause in causes() {
        let body = names.call(&cause);
        let before = sight(&server).await;
        refuse_events(&server);
        let (status, answer) = made(&server, &cause, body.clone(), &bearer).await;
        assert_eq!(status, 500, "{}: {answer}", cause.method);
        assert_eq!(answer["error"]["code"], "INTERNAL");
        assert_eq!(sight(&server).await, before, "{}", cause.method);
        take_events(&server);
        let (status, answer) = made(&server, &cause, body, &bearer).await;
        assert_eq!(status, 200, "{}: {answer}", cause.method);
        names.keep(&cause, &answer);
        if cause.method == "joinTokens/create" {
            answer["token"].as_str().unwrap().clone_into(&mut bearer);
        }
    }
}
