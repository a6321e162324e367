//! Registering releases: what is refused, and with which reason.

use serde_json::{Value, json};

use crate::server::{Release, Server, key};

fn reason(error: &Value) -> (&str, &str) {
    let error = &error["error"];
    (
        error["code"].as_str().unwrap(),
        error["details"]["reason"].as_str().unwrap_or(""),
    )
}

async fn versions(server: &Server) -> Vec<String> {
    let listed = server
        .call("releases/list", json!({ "tenantId": "root" }))
        .await;
    let version = |release: &Value| release["version"].as_str().unwrap().to_owned();
    listed["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(version)
        .collect()
}

#[tokio::test]
async fn a_release_is_registered_once_and_listed_by_its_sequence() {
    let server = Server::start();
    let (one, two) = (Release::new("1.9.0", 5), Release::new("1.2.0", 6));
    let (status, first) = server.register(&one.manifest()).await;
    assert_eq!(status, 200, "{first}");
    assert_eq!(first["registeredBy"], "admin");
    let (_, again) = server.register(&one.manifest()).await;
    assert_eq!(again, first);
    server.register(&two.manifest()).await;
    assert_eq!(versions(&server).await, ["1.2.0", "1.9.0"]);
    let get = json!({ "tenantId": "root", "version": "v1.9.0" });
    assert_eq!(server.call("releases/get", get).await, first);
    let unknown = json!({ "tenantId": "root", "version": "9.9.9" });
    assert_eq!(
        server.refused("releases/get", unknown).await["code"],
        "NOT_FOUND"
    );
}

// I9, I18
#[tokio::test]
async fn what_may_not_enter_is_refused_with_its_reason_and_not_stored() {
    let server = Server::start();
    let good = Release::new("1.0.0", 10);
    server.register(&good.manifest()).await;
    let next = Release::new("1.1.0", 11);
    for (release, expected) in [
        (
            Release {
                signers: vec![1],
                ..next.clone()
            },
            "threshold",
        ),
        (
            Release {
                signers: vec![1, 3],
                ..next.clone()
            },
            "threshold",
        ),
        (
            Release {
                product: "other",
                ..next.clone()
            },
            "product",
        ),
        (
            Release {
                expires: 1_700_000_001,
                ..next.clone()
            },
            "expired",
        ),
        (
            Release {
                sequence: 10,
                ..next.clone()
            },
            "rollback",
        ),
        (
            Release {
                sequence: 9,
                ..next.clone()
            },
            "rollback",
        ),
    ] {
        let (status, error) = server.register(&release.manifest()).await;
        assert_eq!((status, reason(&error)), (400, ("INVALID_INPUT", expected)));
    }
    assert_eq!(versions(&server).await, ["1.0.0"]);
}

#[tokio::test]
async fn a_flipped_byte_is_refused() {
    let server = Server::start();
    let manifest = Release::new("1.0.0", 1).manifest();
    let signed: Value = serde_json::from_slice(&manifest).unwrap();
    let body = signed["manifest"].as_str().unwrap();
    for at in [0, body.len() / 2, body.len() - 3] {
        let mut flipped = body.to_owned();
        let other = if &body[at..=at] == "A" { "B" } else { "A" };
        flipped.replace_range(at..=at, other);
        let mut signed = signed.clone();
        signed["manifest"] = flipped.into();
        let request = json!({ "tenantId": "root", "manifest": signed });
        let error = server.refused("releases/register", request).await;
        assert_eq!(error["code"], "INVALID_INPUT", "{error}");
        let reason = error["details"]["reason"].as_str().unwrap();
        assert!(["malformed", "threshold"].contains(&reason), "{error}");
    }
    assert!(versions(&server).await.is_empty());
}

#[tokio::test]
async fn a_renewal_keeps_the_release_and_other_content_conflicts() {
    let server = Server::start();
    let release = Release::new("1.0.0", 10);
    let (_, first) = server.register(&release.manifest()).await;
    let newer = Release {
        issued: 1_700_000_009,
        expires: 4_000_000_009,
        ..release.clone()
    };
    let (status, renewed) = server.register(&newer.manifest()).await;
    assert_eq!((status, &renewed["id"]), (200, &first["id"]));
    assert_ne!(renewed["issuedAt"], first["issuedAt"]);
    for other in [
        release.clone(),
        Release {
            sequence: 11,
            ..newer.clone()
        },
        Release {
            bytes: b"other".to_vec(),
            ..newer
        },
    ] {
        let (status, error) = server.register(&other.manifest()).await;
        assert_eq!((status, reason(&error).0), (409, "CONFLICT"));
    }
    let get = json!({ "tenantId": "root", "version": "1.0.0" });
    assert_eq!(server.call("releases/get", get).await, renewed);
}

#[tokio::test]
async fn equal_calls_at_once_make_one_release() {
    let server = Server::start();
    let manifest = Release::new("1.0.0", 1).manifest();
    let calls = (0..20).map(|_| server.register(&manifest));
    let answers = futures_util::future::join_all(calls).await;
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    assert_eq!(versions(&server).await.len(), 1);
}

// I10
#[tokio::test]
async fn a_registered_release_survives_a_kill() {
    let server = Server::start();
    let (status, first) = server.register(&Release::new("1.0.0", 1).manifest()).await;
    assert_eq!(status, 200);
    let again = Server::start_in(server.kill());
    let get = json!({ "tenantId": "root", "version": "1.0.0" });
    assert_eq!(again.call("releases/get", get).await, first);
}

#[tokio::test]
async fn releases_outlive_the_keys_that_signed_them() {
    let server = Server::start();
    let old = Release::new("1.0.0", 1);
    let (_, first) = server.register(&old.manifest()).await;
    let dir = server.kill();
    // Keys 1 and 2 are retired, 3 takes over.
    let config = std::fs::read_to_string(dir.path().join("control.toml")).unwrap();
    let pins = config
        .lines()
        .find(|line| line.starts_with("release"))
        .unwrap();
    let pin = key(3).pin();
    let only = format!("release = {{ pins = [\"{pin}\"], threshold = 1 }}");
    std::fs::write(dir.path().join("control.toml"), config.replace(pins, &only)).unwrap();
    let server = Server::start_in(dir);
    assert!(
        versions(&server).await.is_empty(),
        "nobody vouches for it today"
    );
    let get = json!({ "tenantId": "root", "version": "1.0.0" });
    let error = server.refused("releases/get", get).await;
    assert_eq!(error["code"], "CONFLICT");
    assert_eq!(error["details"]["reason"], "distrusted");
    let renewal = Release {
        issued: 1_700_000_009,
        signers: vec![3],
        ..old.clone()
    };
    let (status, renewed) = server.register(&renewal.manifest()).await;
    assert_eq!((status, &renewed["id"]), (200, &first["id"]), "{renewed}");
    assert_eq!(versions(&server).await, ["1.0.0"]);
    // The old order still holds.
    let (_, error) = server
        .register(
            &Release {
                signers: vec![3],
                ..Release::new("0.9.0", 1)
            }
            .manifest(),
        )
        .await;
    assert_eq!(reason(&error), ("INVALID_INPUT", "rollback"));
}
