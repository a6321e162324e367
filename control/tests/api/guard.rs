//! What keeps strangers and failures in bounds, and what can be seen of it.

use serde_json::{Value, json};

use crate::server::{Server, read, write_config};

fn start(more: &str) -> Server {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), more);
    Server::start_in(dir)
}

async fn metrics(server: &Server) -> String {
    let url = format!("http://{}/metrics", server.metrics.as_ref().unwrap());
    let answer = server.client().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.text().await.unwrap()
}

fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("{series} is not in\n{metrics}"));
    value.trim().parse().unwrap()
}

const METRICS: &str = "metrics_listen = \"127.0.0.1:0\"";

#[tokio::test]
async fn whoever_joins_too_often_is_told_when_to_come_again() {
    let server = start(&format!("{METRICS}\nlimits = {{ joins_per_second = 1 }}"));
    let mut refused = None;
    for _ in 0..20 {
        let join = server
            .post("nodes/join", "bcjt_x.y")
            .json(&json!({ "csr": "x" }));
        let answer = join.send().await.unwrap();
        if answer.status() == 429 {
            refused = Some(answer);
            break;
        }
        assert_eq!(read(answer).await.0, 401);
    }
    let refused = refused.unwrap();
    let wait: u64 = refused.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=2).contains(&wait), "{wait}");
    let (_, error) = read(refused).await;
    assert_eq!(error["error"]["code"], "QUOTA_EXCEEDED");
    assert_eq!(error["error"]["details"]["retryAfterSeconds"], wait);
    // Renewals are counted too, and whoever has an API token goes on.
    let renew = json!({ "nodeId": "node_00000000000000000000000000", "csr": "x" });
    let answer = server
        .post("nodes/renew", "")
        .json(&renew)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 429);
    server
        .call("pools/list", json!({ "tenantId": "root" }))
        .await;
    let metrics = metrics(&server).await;
    assert!(value(&metrics, "bc_control_quota_exceeded_total{of=\"join\"}") >= 2.0);
}

#[tokio::test]
async fn a_token_is_not_guessed_for_ever_and_the_right_one_still_works() {
    let server = start("limits = { wrong_tokens_per_minute = 3 }");
    let id = server.admin.split('.').next().unwrap();
    let list = json!({ "tenantId": "root" });
    let mut statuses = Vec::new();
    for guess in 0..5 {
        let token = format!("{id}.{guess}");
        statuses.push(server.call_as(&token, "pools/list", list.clone()).await.0);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    server.call("pools/list", list).await;
}

#[tokio::test]
async fn what_happens_is_counted() {
    let server = start(METRICS);
    let before = metrics(&server).await;
    let series = "bc_control_calls_total{method=\"pools/list\",code=\"OK\"}";
    assert_eq!(value(&before, series), 0.0);
    server
        .call("pools/list", json!({ "tenantId": "root" }))
        .await;
    server
        .refused("pools/list", json!({ "tenantId": "a b" }))
        .await;
    let after = metrics(&server).await;
    assert_eq!(value(&after, series), 1.0);
    let refused = "bc_control_calls_total{method=\"pools/list\",code=\"INVALID_INPUT\"}";
    assert_eq!(value(&after, refused), 1.0);
    assert_eq!(
        value(&after, "bc_control_decisions_total{answer=\"yes\"}"),
        1.0
    );
    assert!(value(&after, "bc_control_connections ") >= 1.0);
    let ready: Value = server
        .get("/readyz")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(ready["status"], "ready", "{ready}");
    assert!(ready["controllerAgeSeconds"].as_f64().unwrap() < 60.0);
}

/// The names of series in a text that asks for some.
fn names(text: &str) -> std::collections::BTreeSet<&str> {
    text.match_indices("bc_control_")
        .map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            &rest[..end.unwrap_or(rest.len())]
        })
        .collect()
}

#[tokio::test]
async fn every_series_that_alerts_and_the_dashboard_name_is_there_from_the_start() {
    let server = start(METRICS);
    let metrics = metrics(&server).await;
    let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    for file in [
        "alerts/better-compute.rules.yml",
        "alerts/better-compute.test.yml",
        "grafana/control.json",
    ] {
        let text = std::fs::read_to_string(packaging.join(file)).unwrap();
        let named = names(&text);
        assert!(named.len() > 5, "{file}");
        for name in named {
            let is_there = metrics.lines().any(|line| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            assert!(is_there, "{file}: {name}");
        }
    }
    let dashboard = std::fs::read(packaging.join("grafana/control.json")).unwrap();
    serde_json::from_slice::<Value>(&dashboard).unwrap();
}

/// Prometheus' own tool has the last word on what a rule says.
#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    let alerts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/alerts");
    let rules = std::fs::read_to_string(alerts.join("better-compute.rules.yml")).unwrap();
    let tests = std::fs::read_to_string(alerts.join("better-compute.test.yml")).unwrap();
    for line in rules.lines() {
        let Some(alert) = line.trim().strip_prefix("- alert: ") else {
            continue;
        };
        let quiet = format!("alertname: {alert}\n        exp_alerts: []");
        let fires = format!("alertname: {alert}\n        exp_alerts:\n");
        assert!(tests.contains(&quiet), "{alert} is never seen silent");
        assert!(tests.contains(&fires), "{alert} is never seen firing");
    }
    let run = std::process::Command::new("promtool")
        .args(["test", "rules", "better-compute.test.yml"])
        .current_dir(alerts)
        .output();
    let Ok(done) = run else {
        let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
        assert!(!required, "expected promtool, found none");
        eprintln!("passed over: there is no promtool");
        return;
    };
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
}

#[tokio::test]
async fn what_only_the_database_knows_is_looked_up() {
    let server = start(METRICS);
    let hook = json!({ "tenantId": "root", "url": "https://localhost:1/" });
    server.call("webhooks/create", hook).await;
    let metrics = metrics(&server).await;
    for (series, expected) in [
        ("bc_control_nodes ", 0.0),
        ("bc_control_gateways_linked ", 0.0),
        ("bc_control_rollouts{state=\"running\"}", 0.0),
        ("bc_control_looks_failed_total ", 0.0),
    ] {
        assert_eq!(value(&metrics, series), expected, "{series}");
    }
}

#[tokio::test]
async fn a_decision_service_that_is_away_means_no() {
    // Nothing listens at the port for discarding.
    let service = "access = { authzen_url = \"http://127.0.0.1:9\" }";
    let server = start(&format!("{METRICS}\n{service}"));
    let error = server
        .refused("pools/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(error["code"], "ACCESS_DENIED");
    let metrics = metrics(&server).await;
    assert_eq!(
        value(&metrics, "bc_control_decisions_total{answer=\"undecided\"}"),
        1.0
    );
}
