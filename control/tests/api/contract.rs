//! The API's description, held against what the service answers.

use std::cell::RefCell;

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::Value;

use crate::server::{Release, Server};

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
