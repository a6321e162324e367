//! The API's description, held against what the service answers.

mod edges;

use std::cell::RefCell;

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::Value;

use crate::{
    joining::{join_token, joined},
    server::{Release, Server},
};

const AT: &str = "https://control.example/openapi.json";

/// The description of one service, ready to judge by.
pub(crate) struct Contract {
    pub(crate) document: Value,
    compiled: RefCell<(Compiler, Schemas)>,
}

impl Contract {
    pub(crate) fn of(document: Value) -> Self {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.add_resource(AT, document.clone()).unwrap();
        Self {
            document,
            compiled: RefCell::new((compiler, Schemas::new())),
        }
    }

    /// Whether an answer is one that the description allows.
    pub(crate) fn check(&self, method: &str, status: u16, answer: &Value) {
        let path = format!("/api/compute/{method}");
        let operation = &self.document["paths"][&path]["post"];
        if operation.is_null() {
            assert_eq!(status, 404, "{method} is not described: {answer}");
            return;
        }
        let content = &operation["responses"][status.to_string()]["content"];
        assert!(
            !content.is_null(),
            "{method} may not answer {status}: {answer}"
        );
        if let Some(code) = answer["error"]["code"].as_str() {
            let codes = operation["responses"][status.to_string()]["description"].as_str();
            let known = codes.is_some_and(|codes| codes.split(", ").any(|known| known == code));
            assert!(known, "{method} may not answer {code}: {answer}");
        }
        let place = format!(
            "{AT}#/paths/{}/post/responses/{status}/content/application~1json/schema",
            path.replace('/', "~1")
        );
        self.holds(&place, answer, method);
    }

    /// Whether a request is one that the description allows.
    pub(crate) fn allows(&self, method: &str, request: &Value) -> bool {
        let place = format!(
            "{AT}#/paths/~1api~1compute~1{}/post/requestBody/content/application~1json/schema",
            method.replace('/', "~1")
        );
        let (compiler, schemas) = &mut *self.compiled.borrow_mut();
        let schema = compiler.compile(&place, schemas).unwrap();
        schemas.validate(request, schema).is_ok()
    }

    /// The permissions of which one is enough for a method.
    pub(crate) fn permissions(&self, method: &str) -> Vec<&str> {
        let security =
            &self.document["paths"][format!("/api/compute/{method}")]["post"]["security"];
        let any_of = security.as_array().unwrap().iter();
        any_of
            .flat_map(|one| one["bearer"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect()
    }

    /// What a method says that it may be refused with, beside what all of its kind are.
    pub(crate) fn refusals(&self, method: &str) -> Vec<&str> {
        let operation = &self.document["paths"][format!("/api/compute/{method}")]["post"];
        let answers = operation["responses"].as_object().unwrap().iter();
        answers
            .filter(|(status, _)| ["404", "409", "501"].contains(&status.as_str()))
            .flat_map(|(_, answer)| answer["description"].as_str().unwrap().split(", "))
            .collect()
    }

    fn holds(&self, place: &str, value: &Value, about: &str) {
        let (compiler, schemas) = &mut *self.compiled.borrow_mut();
        let schema: SchemaIndex = compiler.compile(place, schemas).unwrap();
        if let Err(problem) = schemas.validate(value, schema) {
            panic!("{about}: {problem:#}\n{value:#}");
        }
    }
}

#[tokio::test]
async fn what_is_described_is_served() {
    let server = Server::start();
    // A script for new machines needs something for them to run.
    let (status, answer) = server.register(&Release::new("1.0.0", 1).manifest()).await;
    assert_eq!(status, 200, "{answer}");
    let contract = server.contract().await;
    let paths = contract.document["paths"].as_object().unwrap();
    let mut methods = 0;
    for path in paths.keys() {
        let Some(method) = path.strip_prefix("/api/compute/") else {
            assert_eq!(
                server.get(path).send().await.unwrap().status(),
                200,
                "{path}"
            );
            continue;
        };
        if paths[path]["post"].is_null() {
            continue;
        }
        // No method takes an empty object: each of them is there to say so.
        let (status, answer) = server
            .call_as(&server.admin, method, serde_json::json!({ "no": "such" }))
            .await;
        assert!([400, 401].contains(&status), "{method}: {status} {answer}");
        assert!(paths[path]["post"]["summary"].is_string(), "{method}");
        methods += 1;
    }
    assert!(methods > 20, "{methods}");
}

#[tokio::test]
async fn the_description_refuses_what_the_service_refuses() {
    let server = Server::start();
    let contract = server.contract().await;
    let allowed = |body: Value| contract.allows("pools/create", &body);
    let pool = |more: Value| {
        let mut pool = serde_json::json!({ "tenantId": "root", "name": "x" });
        pool.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        pool
    };
    assert!(allowed(pool(serde_json::json!({}))));
    assert!(allowed(pool(
        serde_json::json!({ "policy": { "disruptionBudget": 0.2 } })
    )));
    for wrong in [
        serde_json::json!({ "unknown": 1 }),
        serde_json::json!({ "tenantId": "a b" }),
        serde_json::json!({ "name": 1 }),
        serde_json::json!({ "policy": { "disruptionBudget": 1.5 } }),
        serde_json::json!({ "policy": { "unknown": 1 } }),
    ] {
        let wrong = pool(wrong);
        assert!(!allowed(wrong.clone()), "{wrong}");
        let error = server.refused("pools/create", wrong).await;
        assert_eq!(error["code"], "INVALID_INPUT");
    }
}

/// Makers of clients name a function after each `operationId`, and lose the fields of a part that may be null.
#[tokio::test]
async fn makers_of_clients_find_what_they_need() {
    let server = Server::start();
    let contract = server.contract().await;
    let document = &contract.document;
    assert_eq!(document["servers"][0]["url"], server.url.as_str());
    let mut names = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (verb, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str();
            let name = name.unwrap_or_else(|| panic!("{verb} {path} has no name"));
            assert!(names.insert(name), "{name} is there twice");
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema.get("allOf").is_none(), "{name}: {schema:#}");
    }
    let node = &document["components"]["schemas"]["Node"];
    for field in ["id", "online", "version", "floor", "held", "lastAttempt"] {
        assert!(node["properties"][field].is_object(), "{field}: {node:#}");
    }
    let must = node["required"].as_array().unwrap();
    assert!(must.contains(&"id".into()) && !must.contains(&"version".into()));
    let watch = &document["paths"]["/api/compute/events/watch"]["post"]["parameters"][0];
    assert_eq!(
        (watch["name"].as_str(), watch["in"].as_str()),
        (Some("Last-Event-ID"), Some("header"))
    );
    let put = &document["paths"]["/api/compute/downloads/bcd/{version}/{platform}"]["put"];
    assert!(
        put["requestBody"]["content"]["application/octet-stream"].is_object(),
        "{put:#}"
    );
    for status in ["200", "400", "401", "403", "404", "501"] {
        assert!(put["responses"][status].is_object(), "{status}: {put:#}");
    }
}

/// The numbers that are described are those that decide.
#[tokio::test]
async fn the_description_and_the_service_draw_the_same_line() {
    let server = Server::start();
    let contract = server.contract().await;
    let pool = server.pool("edge").await;
    let node = joined(&server, &join_token(&server, &pool, 1, 60.0).await).await;
    for (method, body, field, good, bad) in edges::of(&node) {
        let call = |value: Value| {
            let mut body = body.clone();
            body["tenantId"] = "root".into();
            body[field] = value;
            body
        };
        let (good, bad) = (call(good), call(bad));
        assert!(contract.allows(method, &good), "{method} {field}");
        assert!(!contract.allows(method, &bad), "{method} {field}");
        let (_, answer) = server.call_as(&server.admin, method, good).await;
        assert_ne!(
            answer["error"]["details"]["field"], field,
            "{method}: {answer}"
        );
        let error = server.refused(method, bad).await;
        assert_eq!(error["code"], "INVALID_INPUT", "{method} {field}: {error}");
        let named = error["details"]["field"].as_str().unwrap();
        assert!(named.starts_with(field), "{method} {field}: {error}");
    }
}
