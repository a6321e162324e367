//! A real server on loopback that decides, well and badly.

use std::{
    io::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
    routing::post,
};
use serde_json::{Value, json};

use super::AuthZen;
use crate::{
    access::{
        action::Action,
        decide::{Decide as _, Denied, Question, Resource},
        token::Subject,
    },
    config::DecisionService,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Yes,
    No,
    NoneOfThem(&'static str),
    Typed(&'static str),
    Fails,
    Elsewhere,
    Silent,
    Endless,
}

struct Service {
    mood: Mood,
    asked: Mutex<Vec<(Option<String>, Value)>>,
}

async fn evaluate(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    Json(question): Json<Value>,
) -> Response {
    let token = headers.get("authorization");
    let token = token.map(|token| token.to_str().unwrap().to_owned());
    service.asked.lock().unwrap().push((token, question));
    match service.mood {
        Mood::Yes => Json(json!({ "decision": true, "context": { "id": "1" } })).into_response(),
        Mood::No => Json(json!({ "decision": false })).into_response(),
        Mood::NoneOfThem(text) => typed("application/json; charset=utf-8", text),
        Mood::Typed(kind) => typed(kind, "{\"decision\": true}"),
        Mood::Fails => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Elsewhere => Redirect::temporary("/yes/access/v1/evaluation").into_response(),
        Mood::Silent => std::future::pending().await,
        Mood::Endless => {
            Json(json!({ "decision": true, "x": "x".repeat(1 << 20) })).into_response()
        }
    }
}

fn typed(kind: &'static str, text: &'static str) -> Response {
    ([("content-type", kind)], text).into_response()
}

async fn yes() -> Json<Value> {
    Json(json!({ "decision": true }))
}

async fn service(mood: Mood) -> (AuthZen, Arc<Service>) {
    let service = Arc::new(Service {
        mood,
        asked: Mutex::default(),
    });
    let router = Router::new()
        .route("/base/access/v1/evaluation", post(evaluate))
        .route("/yes/access/v1/evaluation", post(yes))
        .with_state(Arc::clone(&service));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    let mut file = std::fs::File::create(&token).unwrap();
    file.write_all(b"s3cret\n").unwrap();
    let authzen = AuthZen::new(&DecisionService {
        url: url.parse().unwrap(),
        token_file: Some(token),
        timeout: Duration::from_millis(if mood == Mood::Silent { 50 } else { 5000 }),
    });
    (authzen.unwrap(), service)
}

fn subject(tenant: &str) -> Subject {
    Subject {
        name: "alice".to_owned(),
        tenant: tenant.parse().unwrap(),
        permissions: [Action::PoolRead].into(),
    }
}

async fn decide(authzen: &AuthZen, tenant: &str, resource: Resource<'_>) -> Result<(), Denied> {
    let question = Question {
        subject: &subject(tenant),
        action: Action::PoolAdmin,
        resource,
    };
    authzen.decide(question).await
}

#[tokio::test]
async fn the_service_decides_whatever_the_token_says() {
    let tenant = "acme".parse().unwrap();
    let (authzen, service) = service(Mood::Yes).await;
    decide(&authzen, "acme", Resource::Pool(&tenant, None))
        .await
        .unwrap();
    decide(&authzen, "acme", Resource::Pool(&tenant, None))
        .await
        .unwrap();
    let asked = service.asked.lock().unwrap();
    // Twice the same question: nothing is kept from the first.
    assert_eq!(asked.len(), 2);
    let (token, question) = &asked[0];
    assert_eq!(token.as_deref(), Some("Bearer s3cret"));
    let expected = json!({
        "subject": {
            "type": "user",
            "id": "alice",
            "properties": { "tenant": "acme", "permissions": ["compute:pool:read"] },
        },
        "action": { "name": "compute:pool:admin" },
        "resource": { "type": "compute-pool", "id": "*", "properties": { "tenant": "acme" } },
    });
    assert_eq!(question, &expected);
}

/// What is refused above is refused for what is in it.
#[tokio::test]
async fn a_yes_may_be_written_in_any_way_that_json_allows() {
    for text in [
        "{\"decision\": true}",
        "\n {\"x\": [], \"decision\":true }\n",
    ] {
        let (authzen, _) = service(Mood::NoneOfThem(text)).await;
        let decided = decide(&authzen, "root", Resource::Fleet).await;
        assert_eq!(decided, Ok(()), "{text}");
    }
    let (authzen, _) = service(Mood::Typed("Application/JSON ;charset=utf-8")).await;
    assert_eq!(decide(&authzen, "root", Resource::Fleet).await, Ok(()));
}

#[tokio::test]
async fn its_no_is_a_no() {
    let (authzen, _) = service(Mood::No).await;
    let denied = decide(&authzen, "root", Resource::Fleet).await;
    assert!(
        matches!(denied, Err(Denied::Permission { .. })),
        "{denied:?}"
    );
}

#[tokio::test]
async fn whatever_is_no_answer_is_a_no() {
    let moods = [
        Mood::NoneOfThem(""),
        Mood::NoneOfThem("true"),
        Mood::NoneOfThem("{\"decision\": \"true\"}"),
        Mood::NoneOfThem("{\"decision\": 1}"),
        Mood::NoneOfThem("{}"),
        Mood::NoneOfThem("[true]"),
        Mood::NoneOfThem(" [[true]]"),
        Mood::NoneOfThem("{\"decision\": true, \"decision\": true}"),
        Mood::Typed("text/html"),
        Mood::Typed("application/jsonp"),
        Mood::Typed(""),
        Mood::Fails,
        Mood::Elsewhere,
        Mood::Silent,
        Mood::Endless,
    ];
    for mood in moods {
        let (authzen, _) = service(mood).await;
        let denied = decide(&authzen, "root", Resource::Fleet).await;
        assert_eq!(denied, Err(Denied::Undecided), "{mood:?}");
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_means_no() {
    let authzen = AuthZen::new(&DecisionService {
        // Nothing listens at the port for discarding.
        url: "http://127.0.0.1:9".parse().unwrap(),
        token_file: None,
        timeout: Duration::from_secs(5),
    });
    let denied = decide(&authzen.unwrap(), "root", Resource::Fleet).await;
    assert_eq!(denied, Err(Denied::Undecided));
}

#[tokio::test]
async fn the_fleet_is_roots_whatever_the_service_says() {
    let (authzen, service) = service(Mood::Yes).await;
    let denied = decide(&authzen, "acme", Resource::Fleet).await;
    assert!(matches!(denied, Err(Denied::Tenant { .. })), "{denied:?}");
    assert!(service.asked.lock().unwrap().is_empty());
}
