//! Events that are sent somewhere: by real receivers, good and bad.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
    routing::post,
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    rows,
    server::{Server, write_config},
};

const LOOPBACK: &str = "webhooks = { allow_networks = [\"127.0.0.0/8\"] }";

type Message = (HeaderMap, Bytes);

/// What a receiver does with a message, by how many came before.
type Answer = fn(usize) -> Option<Response>;

struct Receiver {
    got: Mutex<Vec<Message>>,
    came: Notify,
    answer: Answer,
    url: String,
}

impl Receiver {
    async fn start(answer: Answer) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Arc::new(Self {
            got: Mutex::default(),
            came: Notify::new(),
            answer,
            url: format!("http://{}/hook", listener.local_addr().unwrap()),
        });
        let router = Router::new()
            .route("/hook", post(take))
            .route("/elsewhere", post(take))
            .with_state(Arc::clone(&receiver));
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    /// Waits until so many messages have come.
    async fn wait(&self, count: usize) -> Vec<Message> {
        let enough = async {
            loop {
                let came = self.came.notified();
                let got = self.got.lock().unwrap().clone();
                if got.len() >= count {
                    return got;
                }
                came.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), enough)
            .await
            .unwrap()
    }
}

async fn take(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> Response {
    let before = {
        let mut got = receiver.got.lock().unwrap();
        got.push((headers, body));
        got.len() - 1
    };
    receiver.came.notify_one();
    match (receiver.answer)(before) {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}

fn good(_before: usize) -> Option<Response> {
    Some(StatusCode::NO_CONTENT.into_response())
}

fn start() -> Server {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), LOOPBACK);
    Server::start_in(dir)
}

async fn hook(server: &Server, url: &str, types: &[&str]) -> Value {
    let request = json!({ "tenantId": "root", "url": url, "types": types });
    server.call("webhooks/create", request).await
}

async fn deliveries(server: &Server, hook: &Value) -> Vec<Value> {
    let request = json!({ "tenantId": "root", "webhookId": hook["id"] });
    let answer = server.call("webhooks/deliveries", request).await;
    answer["deliveries"].as_array().unwrap().clone()
}

/// Asks until the newest delivery is as it should be.
async fn until(server: &Server, hook: &Value, holds: fn(&Value) -> bool) -> Value {
    for _ in 0..300 {
        let newest = deliveries(server, hook).await.into_iter().next();
        if let Some(newest) = newest.filter(holds) {
            return newest;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:#?}", deliveries(server, hook).await);
}

fn id((headers, _): &Message) -> String {
    headers["webhook-id"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_event_is_sent_signed_and_once_where_it_is_taken() {
    let (server, receiver) = (start(), Receiver::start(good).await);
    let hook = hook(&server, &receiver.url, &["pool.*"]).await;
    server.pool("edge").await;
    let got = receiver.wait(1).await;
    let (headers, body) = &got[0];
    let oracle = standardwebhooks::Webhook::new(hook["secret"].as_str().unwrap()).unwrap();
    let mut signed = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        signed.insert(name, headers[name].clone());
    }
    oracle.verify(body, &signed).unwrap();
    let body: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(body["type"], "pool.created");
    assert_eq!(body["data"]["id"], json!(id(&got[0])));
    assert_eq!(body["data"]["data"]["name"], "edge");
    let taken = until(&server, &hook, |newest| newest["state"] == "delivered").await;
    assert_eq!(
        (&taken["attempts"], &taken["lastStatus"]),
        (&json!(1), &json!(204))
    );
    // Tokens are not pools, and nothing is sent twice.
    server.token("root", &["compute:pool:read"]).await;
    server.pool("other").await;
    let got = receiver.wait(2).await;
    assert_ne!(id(&got[0]), id(&got[1]));
    assert_eq!(deliveries(&server, &hook).await.len(), 2);
    let list = server
        .call("webhooks/list", json!({ "tenantId": "root" }))
        .await;
    assert!(!list.to_string().contains("whsec_") && !list.to_string().contains("secret"));
    let one = json!({ "tenantId": "root", "webhookId": hook["id"] });
    let deleted = server.call("webhooks/delete", one.clone()).await;
    assert_eq!(server.call("webhooks/delete", one).await, deleted);
    let list = server
        .call("webhooks/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(list, json!({ "webhooks": [] }));
}

/// How a secret is changed: the new webhook beside the old one, then without it. What comes twice has one id, and each
/// message is signed with the secret of its own webhook alone.
#[tokio::test]
async fn a_secret_is_replaced_by_a_second_webhook_and_nothing_is_missed() {
    let (server, receiver) = (start(), Receiver::start(good).await);
    let old = hook(&server, &receiver.url, &["pool.*"]).await;
    server.pool("before").await;
    receiver.wait(1).await;
    let new = hook(&server, &receiver.url, &["pool.*"]).await;
    assert_ne!(old["secret"], new["secret"]);
    server.pool("between").await;
    receiver.wait(3).await;
    let delete = json!({ "tenantId": "root", "webhookId": old["id"] });
    server.call("webhooks/delete", delete).await;
    server.pool("after").await;
    let got = receiver.wait(4).await;
    let is_signed = |message: &Message, by: &Value| {
        let oracle = standardwebhooks::Webhook::new(by["secret"].as_str().unwrap()).unwrap();
        oracle.verify(&message.1, &message.0).is_ok()
    };
    let signers = |message: &Message| [is_signed(message, &old), is_signed(message, &new)];
    assert_eq!(signers(&got[0]), [true, false]);
    let mut both = [signers(&got[1]), signers(&got[2])];
    both.sort_unstable();
    assert_eq!(both, [[false, true], [true, false]]);
    assert_eq!(id(&got[1]), id(&got[2]));
    assert_eq!(signers(&got[3]), [false, true]);
    let body: Value = serde_json::from_slice(&got[3].1).unwrap();
    assert_eq!(body["data"]["data"]["name"], "after");
    // A receiver that looks at the clock takes it: the time of the attempt, not of the event.
    let at: i64 = got[3].0["webhook-timestamp"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    assert!((i64::try_from(now.unwrap().as_secs()).unwrap() - at).abs() < 120);
    assert_eq!(got[3].0["content-type"], "application/json");
    let fields: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["data", "timestamp", "type"]);
}

#[tokio::test]
async fn deliveries_are_listed_newest_first_and_no_more_than_asked_for() {
    let (server, receiver) = (start(), Receiver::start(good).await);
    let hook = hook(&server, &receiver.url, &["pool.*"]).await;
    for name in ["one", "two", "three"] {
        server.pool(name).await;
    }
    receiver.wait(3).await;
    let listed = deliveries(&server, &hook).await;
    let positions: Vec<u64> = listed
        .iter()
        .map(|one| one["position"].as_u64().unwrap())
        .collect();
    assert!(
        positions.is_sorted_by(|one, next| one > next),
        "{positions:?}"
    );
    assert_eq!(positions.len(), 3);
    let two = json!({ "tenantId": "root", "webhookId": hook["id"], "limit": 2 });
    let two = server.call("webhooks/deliveries", two).await;
    assert_eq!(two["deliveries"].as_array().unwrap().len(), 2);
    assert_eq!(two["deliveries"][0]["eventId"], listed[0]["eventId"]);
    let events = json!({ "tenantId": "root", "types": ["pool.*"] });
    let events = server.call("events/list", events).await;
    assert_eq!(events["events"][2]["id"], listed[0]["eventId"]);
}

// I30
#[tokio::test]
async fn a_failing_receiver_gets_it_again_under_the_same_id() {
    let answer: Answer = |before| {
        let status = if before == 0 {
            StatusCode::BAD_GATEWAY
        } else {
            StatusCode::OK
        };
        Some(status.into_response())
    };
    let (server, receiver) = (start(), Receiver::start(answer).await);
    let hook = hook(&server, &receiver.url, &["pool.*"]).await;
    server.pool("edge").await;
    let got = receiver.wait(2).await;
    assert_eq!(id(&got[0]), id(&got[1]));
    assert_eq!(got[0].1, got[1].1);
    let taken = until(&server, &hook, |newest| newest["state"] == "delivered").await;
    assert_eq!(taken["attempts"], 2);
}

#[tokio::test]
async fn one_that_never_answers_does_not_delay_the_others() {
    let server = start();
    let stuck = Receiver::start(|_| None).await;
    let prompt = Receiver::start(good).await;
    for _ in 0..3 {
        hook(&server, &stuck.url, &[]).await;
    }
    hook(&server, &prompt.url, &["pool.*"]).await;
    stuck.wait(3).await;
    for number in 0..10 {
        server.pool(&format!("p{number}")).await;
    }
    assert_eq!(prompt.wait(10).await.len(), 10);
}

#[tokio::test]
async fn a_type_that_no_event_has_makes_no_webhook() {
    let server = start();
    for kind in ["rolout.*", "rollout.pause"] {
        let request =
            json!({ "tenantId": "root", "url": "https://hooks.example/", "types": [kind] });
        let error = server.refused("webhooks/create", request).await;
        assert_eq!(error["details"]["field"], "types", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(kind), "{message}");
    }
}

/// Whoever has set a receiver up sends it something, whatever types it waits for; nobody else hears of it.
#[tokio::test]
async fn one_webhook_is_tried_and_no_other() {
    let (server, tried, other) = (
        start(),
        Receiver::start(good).await,
        Receiver::start(good).await,
    );
    let hook = hook(&server, &tried.url, &["pool.*"]).await;
    let all = self::hook(&server, &other.url, &[]).await;
    let this = json!({ "tenantId": "root", "webhookId": hook["id"] });
    let test = server.call("webhooks/test", this.clone()).await;
    let got = tried.wait(1).await;
    assert_eq!(json!(id(&got[0])), test["eventId"]);
    let body: Value = serde_json::from_slice(&got[0].1).unwrap();
    assert_eq!(body["type"], "webhook.test");
    until(&server, &hook, |newest| newest["state"] == "delivered").await;
    // What the other one gets next is what happens next.
    server.pool("edge").await;
    let got = other.wait(2).await;
    let kinds = got.iter().map(|(_, body)| {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["type"].as_str().unwrap().to_owned()
    });
    let kinds: Vec<String> = kinds.collect();
    assert_eq!(kinds, ["webhook.created", "pool.created"]);
    assert_eq!(deliveries(&server, &all).await.len(), 2);
    server.call("webhooks/delete", this.clone()).await;
    assert_eq!(
        server.refused("webhooks/test", this).await["code"],
        "NOT_FOUND"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let answer: Answer = |_| Some(Redirect::temporary("/elsewhere").into_response());
    let (server, receiver) = (start(), Receiver::start(answer).await);
    let hook = hook(&server, &receiver.url, &["pool.*"]).await;
    server.pool("edge").await;
    let failed = until(&server, &hook, |newest| newest["lastStatus"] == 307).await;
    assert_eq!(failed["state"], "pending");
    let path = |(headers, _): &Message| headers["host"].to_str().unwrap().to_owned();
    assert_eq!(
        path(&receiver.wait(1).await[0]),
        receiver.url[7..].trim_end_matches("/hook")
    );
}

// I30
#[tokio::test]
async fn killed_between_send_and_mark_it_is_sent_again_under_the_same_id() {
    let server = start();
    let receiver = Receiver::start(|before| if before == 0 { None } else { good(before) }).await;
    let hook = hook(&server, &receiver.url, &["pool.*"]).await;
    server.pool("edge").await;
    let first = receiver.wait(1).await;
    let dir = server.kill();
    // Nobody reports on that attempt any more: its time is over, as far as the row says.
    expire(dir.path());
    let server = Server::start_in(dir);
    let got = receiver.wait(2).await;
    assert_eq!(id(&first[0]), id(&got[1]));
    let taken = until(&server, &hook, |newest| newest["state"] == "delivered").await;
    assert_eq!(taken["attempts"], 2);
}

fn expire(dir: &std::path::Path) {
    let sql = "UPDATE webhook_deliveries SET due_at = 0 WHERE state = 'pending'";
    rows::say(dir, sql, sql);
}

#[tokio::test]
async fn nothing_is_sent_into_a_network_that_nobody_has_named() {
    let server = Server::start();
    for url in [
        "http://127.0.0.1:1/",
        "https://127.0.0.1:1/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://u:p@example.com/",
        "nonsense",
    ] {
        let request = json!({ "tenantId": "root", "url": url });
        let error = server.refused("webhooks/create", request).await;
        assert_eq!(error["details"]["field"], "url", "{url}: {error}");
    }
    // A name is judged when it is resolved.
    let request = json!({ "tenantId": "root", "url": "https://localhost:1/" });
    let hook = server.call("webhooks/create", request).await;
    let failed = until(&server, &hook, |newest| newest["lastError"].is_string()).await;
    let error = failed["lastError"].as_str().unwrap();
    // What failed, and what would admit it: not the story of the library that tried.
    assert_eq!(
        error,
        "expected a public address, found one of an internal network, which webhooks.allow_networks in control.toml admits"
    );
}

/// A webhook carries what its maker may see: by the types that he asks for, or else by all that he sees.
#[tokio::test]
async fn a_webhook_carries_what_its_maker_may_see() {
    let server = start();
    let receiver = Receiver::start(good).await;
    let clerk = server
        .token("root", &["compute:tenant:admin", "compute:pool:read"])
        .await;
    let wish = |types: Value| json!({ "tenantId": "root", "url": receiver.url, "types": types });
    for types in [json!(["rollout.*"]), json!(["node.*", "gateway.created"])] {
        let (status, error) = server.call_as(&clerk, "webhooks/create", wish(types)).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (403, &json!("ACCESS_DENIED")),
            "{error}"
        );
    }
    let (status, _) = server
        .call_as(&clerk, "webhooks/create", wish(json!([])))
        .await;
    assert_eq!(status, 200);
    let list = json!({ "tenantId": "root" });
    let listed = server.call("webhooks/list", list).await;
    assert_eq!(
        listed["webhooks"][0]["types"],
        json!(["command.*", "node.*", "pool.*", "token.*", "webhook.*"])
    );
    let freeze = json!({ "tenantId": "root", "reason": "a test" });
    server.call("fleet/freeze", freeze).await;
    server.pool("edge").await;
    let messages = receiver.wait(2).await;
    let kinds: Vec<Value> = messages
        .iter()
        .map(|(_, body)| serde_json::from_slice::<Value>(body).unwrap()["type"].clone())
        .collect();
    assert_eq!(kinds, ["webhook.created", "pool.created"]);
}
