//! What happened: listed, watched, and for the right eyes.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::server::Server;

/// One watch, read event by event.
pub(crate) struct Watch {
    body: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
}

impl Watch {
    pub(crate) async fn open(
        server: &Server,
        token: &str,
        body: Value,
        last: Option<&str>,
    ) -> Self {
        let mut request = server.post("events/watch", token).json(&body);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self {
            body: answer.bytes_stream().boxed(),
            text: String::new(),
        }
    }

    /// The next event's id and object; nothing where the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|line| line.trim().to_owned())
                };
                let found = field("id:").map(|id| {
                    let data: Value = serde_json::from_str(&field("data:").unwrap()).unwrap();
                    assert_eq!(field("event:").unwrap(), data["type"].as_str().unwrap());
                    (id, data)
                });
                self.text = rest.to_owned();
                if found.is_some() {
                    return found;
                }
                continue;
            }
            let piece = tokio::time::timeout(Duration::from_secs(120), self.body.next());
            match piece.await.unwrap() {
                Some(Ok(piece)) => self.text.push_str(std::str::from_utf8(&piece).unwrap()),
                Some(Err(_)) | None => return None,
            }
        }
    }
}

fn kinds(events: &Value) -> Vec<&str> {
    let events = events["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn what_operators_do_is_listed_with_who_did_it() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let request = json!({ "tenantId": "root", "poolId": pool, "uses": 2, "expiresInSeconds": 60 });
    let join = server.call("joinTokens/create", request).await;
    let revoke = json!({ "tenantId": "root", "joinTokenId": join["id"] });
    let revoked = server.call("joinTokens/revoke", revoke.clone()).await;
    assert_eq!(server.call("joinTokens/revoke", revoke).await, revoked);
    server
        .call(
            "pools/archive",
            json!({ "tenantId": "root", "poolId": pool }),
        )
        .await;
    let list = json!({ "tenantId": "root" });
    let events = server.call("events/list", list.clone()).await;
    let expected = [
        "pool.created",
        "join-token.created",
        "join-token.revoked",
        "pool.archived",
    ];
    assert_eq!(kinds(&events), expected);
    assert!(
        events["events"]
            .as_array()
            .unwrap()
            .iter()
            .all(|event| event["actor"] == "admin")
    );
    assert_eq!(events["events"][0]["subject"], format!("pool/{pool}"));
    // From a position on, and only some of them.
    let request = json!({ "tenantId": "root", "after": 1, "limit": 2, "types": ["pool.*"] });
    let some = server.call("events/list", request).await;
    assert_eq!(
        (kinds(&some), some["next"].as_u64()),
        (vec!["pool.archived"], Some(4))
    );
    for (wrong, field) in [
        (json!({ "limit": 0 }), "limit"),
        (json!({ "limit": 1001 }), "limit"),
        (json!({ "types": ["x"] }), "types"),
        (json!({ "after": -1 }), "after"),
    ] {
        let mut request = list.clone();
        request
            .as_object_mut()
            .unwrap()
            .extend(wrong.as_object().unwrap().clone());
        let error = server.refused("events/list", request).await;
        assert_eq!(error["details"]["field"], field, "{error}");
    }
}

#[tokio::test]
async fn everybody_sees_what_happens_to_what_he_may_look_at() {
    let server = Server::start();
    let freeze = json!({ "tenantId": "root", "reason": "a test" });
    server.call("fleet/freeze", freeze).await;
    server.pool("edge").await;
    let list = json!({ "tenantId": "root" });
    let (mut tokens, mut expected) = (Vec::new(), Vec::new());
    for (permission, kinds) in [
        ("compute:pool:read", vec!["pool.created"]),
        ("compute:fleet:admin", vec!["fleet.frozen"]),
        ("compute:tenant:admin", vec!["token.created"; 3]),
    ] {
        tokens.push(server.token("root", &[permission]).await);
        expected.push(kinds);
    }
    for (token, expected) in tokens.iter().zip(expected) {
        let (status, seen) = server.call_as(token, "events/list", list.clone()).await;
        assert_eq!((status, kinds(&seen)), (200, expected), "{seen}");
    }
    let all = server.call("events/list", list).await;
    let mut whole = vec!["fleet.frozen", "pool.created"];
    whole.extend(["token.created"; 3]);
    assert_eq!(kinds(&all), whole);
    // What he may see nothing of he is refused, by type and by subject, with the permission that it takes.
    let reader = &tokens[0];
    for wish in [
        json!({ "types": ["rollout.*", "release.registered"] }),
        json!({ "subject": "fleet/root" }),
        json!({ "subject": "rollout/x", "types": ["pool.*"] }),
        json!({ "types": ["token.*"] }),
        json!({ "types": ["join-token.*"] }),
    ] {
        let mut request = wish;
        request["tenantId"] = json!("root");
        for method in ["events/list", "events/watch"] {
            let (status, error) = server.call_as(reader, method, request.clone()).await;
            assert_eq!(
                (status, &error["error"]["code"]),
                (403, &json!("ACCESS_DENIED")),
                "{request}: {error}"
            );
        }
    }
    // As many as he asks for, and positions that go on behind what is hidden from him.
    let one = json!({ "tenantId": "root", "after": 0, "limit": 1 });
    let (_, page) = server.call_as(reader, "events/list", one).await;
    assert_eq!(
        (kinds(&page), &page["next"]),
        (vec!["pool.created"], &json!(2))
    );
    let rest = json!({ "tenantId": "root", "after": 2 });
    let (_, page) = server.call_as(reader, "events/list", rest).await;
    assert_eq!((kinds(&page), &page["next"]), (vec![], &json!(5)));
    let acme = server.token("acme", &["compute:pool:read"]).await;
    let (_, none) = server
        .call_as(&acme, "events/list", json!({ "tenantId": "acme" }))
        .await;
    assert_eq!(none["events"], json!([]));
    let (status, _) = server
        .call_as(&acme, "events/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn a_watch_passes_over_what_its_reader_may_not_look_at() {
    let server = Server::start();
    let reader = server.token("root", &["compute:pool:read"]).await;
    let all = json!({ "tenantId": "root", "after": 0 });
    let mut watch = Watch::open(&server, &reader, all.clone(), None).await;
    server.pool("one").await;
    let freeze = json!({ "tenantId": "root", "reason": "a test" });
    server.call("fleet/freeze", freeze).await;
    server.pool("two").await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (id, event) = watch.next().await.unwrap();
        assert_eq!(event["type"], "pool.created");
        ids.push(id);
    }
    assert_eq!(ids, ["2", "4"]);
    // Whoever comes again gets what he has not had.
    let mut again = Watch::open(&server, &reader, all, Some("2")).await;
    assert_eq!(again.next().await.unwrap().0, "4");
}

#[tokio::test]
async fn a_watch_goes_on_where_it_was_cut_and_misses_nothing() {
    let server = Server::start();
    let body = json!({ "tenantId": "root", "types": ["pool.*"] });
    let mut first = Watch::open(&server, &server.admin, body.clone(), None).await;
    server.pool("one").await;
    let (id, event) = first.next().await.unwrap();
    assert_eq!(
        (event["type"].as_str(), event["data"]["name"].as_str()),
        (Some("pool.created"), Some("one"))
    );
    drop(first);
    for name in ["two", "three", "four"] {
        server.pool(name).await;
        server.token("root", &["compute:pool:read"]).await;
    }
    let mut again = Watch::open(&server, &server.admin, body, Some(&id)).await;
    let mut names = Vec::new();
    for _ in 0..3 {
        names.push(again.next().await.unwrap().1["data"]["name"].clone());
    }
    assert_eq!(names, ["two", "three", "four"]);
    // A service that stops does not wait for its watchers, and they hear that it ends.
    assert!(server.stop().success());
    assert_eq!(again.next().await, None);
}

#[tokio::test]
async fn a_watch_ends_with_its_token() {
    let server = Server::start();
    let request =
        json!({ "tenantId": "root", "subject": "bob", "permissions": ["compute:pool:read"] });
    let token = server.call("tokens/create", request).await;
    let bearer = token["token"].as_str().unwrap();
    let mut watch = Watch::open(&server, bearer, json!({ "tenantId": "root" }), None).await;
    server.pool("one").await;
    assert!(watch.next().await.is_some());
    let revoke = json!({ "tenantId": "root", "tokenId": token["id"] });
    server.call("tokens/revoke", revoke).await;
    server.pool("two").await;
    assert_eq!(watch.next().await, None);
    assert_eq!(
        server
            .call_as(bearer, "pools/list", json!({ "tenantId": "root" }))
            .await
            .0,
        401
    );
    let tokens = server
        .call("tokens/list", json!({ "tenantId": "root" }))
        .await;
    assert!(tokens["tokens"][1]["revokedAt"].is_string(), "{tokens}");
    assert!(
        !tokens
            .to_string()
            .contains(bearer.split_once('.').unwrap().1)
    );
}

/// Whoever reads of a change finds the call that made it, in its own answer and in the log.
#[tokio::test]
async fn an_event_names_the_call_that_caused_it() {
    let server = Server::start();
    let made = server
        .post("pools/create", &server.admin)
        .json(&json!({ "tenantId": "root", "name": "edge" }))
        .send()
        .await
        .unwrap();
    let request = made.headers()["x-request-id"].to_str().unwrap().to_owned();
    let list = json!({ "tenantId": "root", "types": ["pool.created"] });
    let events = server.call("events/list", list).await;
    assert_eq!(events["events"][0]["requestId"], request);
    assert_eq!(events["events"][0]["actor"], "admin");
}

/// The header says where a watcher stopped, and counts more than where he once began.
#[tokio::test]
async fn a_watch_resumes_by_its_header_and_filters_by_type_and_subject() {
    let server = Server::start();
    let mut pools = Vec::new();
    for name in ["one", "two", "three"] {
        pools.push(server.pool(name).await);
    }
    let open = async |body: Value, last: Option<&str>| {
        let mut body = body;
        body["tenantId"] = json!("root");
        Watch::open(&server, &server.admin, body, last).await
    };
    let name = |event: &(String, Value)| event.1["data"]["name"].as_str().unwrap().to_owned();
    let mut all = open(json!({ "after": 0 }), None).await;
    let first = all.next().await.unwrap();
    assert_eq!((name(&first).as_str(), first.0.as_str()), ("one", "1"));
    assert_eq!(first.1["position"], 1);
    let mut later = open(json!({ "after": 0 }), Some("2")).await;
    assert_eq!(name(&later.next().await.unwrap()), "three");
    let subject = format!("pool/{}", pools[1]);
    let mut about = open(json!({ "after": 0, "subject": subject }), None).await;
    assert_eq!(name(&about.next().await.unwrap()), "two");
    // Without a word, from now on.
    let mut new = open(json!({ "types": ["pool.archived"] }), None).await;
    for pool in &pools {
        let archive = json!({ "tenantId": "root", "poolId": pool });
        server.call("pools/archive", archive).await;
    }
    assert_eq!(name(&new.next().await.unwrap()), "one");
    let archived = about.next().await.unwrap();
    assert_eq!(
        (name(&archived).as_str(), &archived.1["type"]),
        ("two", &json!("pool.archived"))
    );
}

#[tokio::test]
async fn a_watch_says_what_it_is_and_refuses_what_no_event_has() {
    let server = Server::start();
    let watch = |last: Option<&'static str>| {
        let watch = server.post("events/watch", &server.admin);
        let watch = watch.json(&json!({ "tenantId": "root" }));
        match last {
            Some(last) => watch.header("last-event-id", last),
            None => watch,
        }
    };
    let answer = watch(None).send().await.unwrap();
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.headers()[name], value, "{name}");
    }
    for last in ["x", "-1", "1.5", "", "18446744073709551616"] {
        let answer = watch(Some(last)).send().await.unwrap();
        let (status, error) = crate::server::read(answer).await;
        assert_eq!(status, 400, "{last}");
        assert_eq!(
            error["error"]["details"]["field"], "Last-Event-ID",
            "{last}: {error}"
        );
    }
}

/// A page is so many rows of the sequence, wanted or not: whoever goes on behind it meets every event once.
#[tokio::test]
async fn pages_follow_one_another_without_a_gap_and_without_a_repetition() {
    let server = Server::start();
    for number in 0..7 {
        server.pool(&format!("p{number}")).await;
        server.token("root", &["compute:pool:read"]).await;
    }
    for types in [
        json!([]),
        json!(["pool.*"]),
        json!(["token.created", "pool.created"]),
    ] {
        let whole = json!({ "tenantId": "root", "after": 0, "limit": 1000, "types": types });
        let whole = server.call("events/list", whole).await;
        let (mut after, mut met) = (0, Vec::new());
        loop {
            let page = json!({ "tenantId": "root", "after": after, "limit": 3, "types": types });
            let page = server.call("events/list", page).await;
            met.extend(page["events"].as_array().unwrap().clone());
            let next = page["next"].as_u64().unwrap();
            if next == after {
                break;
            }
            after = next;
        }
        assert_eq!(json!(met), whole["events"], "{types}");
        assert_eq!(json!(after), whole["next"], "{types}");
    }
    // Behind the last there is nothing yet, and the place to go on is the same.
    for after in [14, 15, u64::from(u32::MAX)] {
        let page = json!({ "tenantId": "root", "after": after });
        let page = server.call("events/list", page).await;
        assert_eq!(page, json!({ "events": [], "next": after }));
    }
}
