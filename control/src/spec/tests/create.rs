//! Creating rollouts on a real database: what is refused and stores nothing, and what equal calls lead to.

use bc_protocol::id::{NodeId, PoolId};

use super::fleet::{BAD, Fleet, request, states};
use crate::{
    api::{
        error::{Code, ErrorObject},
        rollout::{CreateRollout, RowState},
    },
    rollout::service,
};

fn percents(texts: &[&str]) -> Option<Vec<bc_protocol::share::Percent>> {
    Some(texts.iter().map(|text| text.parse().unwrap()).collect())
}

async fn refused(fleet: &Fleet, request: CreateRollout) -> (Code, String) {
    let error: ErrorObject = service::create(&fleet.services, "alice", request)
        .await
        .unwrap_err()
        .into();
    assert_eq!(
        fleet.count("rollouts").await,
        0,
        "I28: a refused call stores nothing"
    );
    assert_eq!(fleet.count("rollout_nodes").await, 0);
    assert_eq!(fleet.events().await.len(), 0);
    (
        error.code,
        error.details["field"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    )
}

/// The field that a refusal has to name, and a request that breaks its rule.
type Row = (&'static str, CreateRollout);

fn bad_waves() -> Vec<Row> {
    let good = || request("1.1.0");
    vec![
        (
            "waves",
            CreateRollout {
                waves: Some(vec![]),
                ..good()
            },
        ),
        (
            "waves",
            CreateRollout {
                waves: percents(&["50"]),
                ..good()
            },
        ),
        (
            "waves",
            CreateRollout {
                waves: percents(&["50", "50", "100"]),
                ..good()
            },
        ),
        (
            "waves",
            CreateRollout {
                waves: percents(&["60", "50", "100"]),
                ..good()
            },
        ),
        (
            "waves",
            CreateRollout {
                waves: percents(&["100", "100"]),
                ..good()
            },
        ),
        (
            "waves",
            CreateRollout {
                waves: percents(&["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "100"]),
                ..good()
            },
        ),
    ]
}

fn bad_numbers() -> Vec<Row> {
    let good = || request("1.1.0");
    vec![
        (
            "soakSeconds",
            CreateRollout {
                soak_seconds: Some(-0.001),
                ..good()
            },
        ),
        (
            "soakSeconds",
            CreateRollout {
                soak_seconds: Some(604_800.001),
                ..good()
            },
        ),
        (
            "soakSeconds",
            CreateRollout {
                soak_seconds: Some(f64::NAN),
                ..good()
            },
        ),
        (
            "upgradeTimeoutSeconds",
            CreateRollout {
                upgrade_timeout_seconds: Some(59.9),
                ..good()
            },
        ),
        (
            "upgradeTimeoutSeconds",
            CreateRollout {
                upgrade_timeout_seconds: Some(f64::INFINITY),
                ..good()
            },
        ),
        (
            "idempotencyKey",
            CreateRollout {
                idempotency_key: Some(String::new()),
                ..good()
            },
        ),
        (
            "idempotencyKey",
            CreateRollout {
                idempotency_key: Some("a b".into()),
                ..good()
            },
        ),
        (
            "idempotencyKey",
            CreateRollout {
                idempotency_key: Some("k".repeat(129)),
                ..good()
            },
        ),
    ]
}

fn bad_scopes() -> Vec<Row> {
    let good = || request("1.1.0");
    let nodes = |count: usize| {
        (0..count)
            .map(|n| NodeId::derived(&[&n.to_be_bytes()]))
            .collect::<Vec<_>>()
    };
    vec![
        (
            "poolIds",
            CreateRollout {
                pool_ids: Some(vec![]),
                ..good()
            },
        ),
        (
            "nodeIds",
            CreateRollout {
                node_ids: Some(vec![]),
                ..good()
            },
        ),
        (
            "nodeIds",
            CreateRollout {
                node_ids: Some(nodes(10_001)),
                ..good()
            },
        ),
        (
            "selector",
            CreateRollout {
                selector: Some([].into()),
                ..good()
            },
        ),
        (
            "selector",
            CreateRollout {
                node_ids: Some(nodes(1)),
                selector: Some([("a".to_owned(), "b".to_owned())].into()),
                ..good()
            },
        ),
    ]
}

#[tokio::test]
async fn requests_out_of_range_are_refused_by_field() {
    let fleet = Fleet::of(&[(2, 0)]).await;
    for (field, request) in [bad_waves(), bad_numbers(), bad_scopes()].concat() {
        assert_eq!(
            refused(&fleet, request).await,
            (Code::InvalidInput, field.to_owned())
        );
    }
}

#[tokio::test]
async fn requests_for_what_is_not_there_are_refused() {
    let fleet = Fleet::of(&[(2, 0)]).await;
    let unknown = PoolId::derived(&[b"unknown"]);
    let table = [
        (Code::NotFound, request("9.9.9")),
        (
            Code::NotFound,
            CreateRollout {
                pool_ids: Some(vec![unknown]),
                ..request("1.1.0")
            },
        ),
        (
            Code::NotFound,
            CreateRollout {
                node_ids: Some(vec![NodeId::derived(&[b"x"])]),
                ..request("1.1.0")
            },
        ),
        (
            Code::NotFound,
            CreateRollout {
                tenant_id: "other".parse().unwrap(),
                pool_ids: Some(fleet.pools.clone()),
                ..request("1.1.0")
            },
        ),
        (
            Code::InvalidState,
            CreateRollout {
                tenant_id: "other".parse().unwrap(),
                ..request("1.1.0")
            },
        ),
        (
            Code::InvalidState,
            CreateRollout {
                selector: Some([("cpu.arch".to_owned(), "s390x".to_owned())].into()),
                ..request("1.1.0")
            },
        ),
    ];
    for (code, request) in table {
        assert_eq!(refused(&fleet, request).await.0, code);
    }
}

#[tokio::test]
async fn nodes_and_selectors_narrow_the_scope() {
    let fleet = Fleet::of(&[(3, 0), (2, 0)]).await;
    let nodes = fleet.nodes[1..3].to_vec();
    let narrowed = CreateRollout {
        node_ids: Some(nodes.clone()),
        ..request("1.1.0")
    };
    let created = service::create(&fleet.services, "alice", narrowed)
        .await
        .unwrap();
    let mut listed = states(&fleet.get(&created.id).await, RowState::Pending);
    listed.sort();
    let mut expected = nodes;
    expected.sort();
    assert_eq!(listed, expected);

    let labels = [("cpu.arch".to_owned(), "x86_64".to_owned())].into();
    let selected = CreateRollout {
        selector: Some(labels),
        pool_ids: Some(vec![fleet.pools[1].clone()]),
        ..request("1.1.0")
    };
    let created = service::create(&fleet.services, "alice", selected)
        .await
        .unwrap();
    assert_eq!(created.nodes.pending, 2);
}

/// I28
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn equal_calls_with_one_key_make_one_rollout() {
    let fleet = Fleet::of(&[(3, 0)]).await;
    let keyed = || CreateRollout {
        idempotency_key: Some("k".into()),
        ..request("1.1.0")
    };
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let services = fleet.services.clone();
            tokio::spawn(async move { service::create(&services, "alice", keyed()).await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(
        (fleet.count("rollouts").await, fleet.events().await.len()),
        (1, 1)
    );

    let other = CreateRollout {
        version: BAD.parse().unwrap(),
        ..keyed()
    };
    let error: ErrorObject = service::create(&fleet.services, "alice", other)
        .await
        .unwrap_err()
        .into();
    assert_eq!(error.code, Code::Conflict);
    assert_eq!(error.details["rolloutId"], answers[0].id.as_str());
    // Another caller's key is another key; the nodes are taken all the same.
    let error: ErrorObject = service::create(&fleet.services, "bob", keyed())
        .await
        .unwrap_err()
        .into();
    assert_eq!(
        (error.code, fleet.count("rollouts").await),
        (Code::Conflict, 1)
    );
}

/// I19
#[tokio::test]
async fn a_node_is_in_one_rollout_at_a_time() {
    let fleet = Fleet::of(&[(2, 0)]).await;
    let first = fleet.create("1.1.0").await.unwrap();
    let error: ErrorObject = fleet.create(BAD).await.unwrap_err().into();
    assert_eq!(
        (error.code, &error.details["rolloutId"]),
        (Code::Conflict, &first.id.as_str().into())
    );
    assert_eq!(
        (
            fleet.count("rollouts").await,
            fleet.count("rollout_nodes").await
        ),
        (1, 2)
    );
}

/// Whoever runs the release already, confirmed, has nothing left to do: not even a place is taken for him.
#[tokio::test]
async fn nodes_that_run_the_release_already_start_as_succeeded() {
    let mut fleet = Fleet::of(&[(4, 1_000_000)]).await;
    let two = CreateRollout {
        node_ids: Some(fleet.nodes[..2].to_vec()),
        ..request("1.1.0")
    };
    service::create(&fleet.services, "alice", two)
        .await
        .unwrap();
    for _ in 0..4 {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    fleet.pass().await;
    let all = fleet.create("1.1.0").await.unwrap();
    let all = fleet.get(&all.id).await;
    let mut succeeded = states(&all, RowState::Succeeded);
    succeeded.sort_unstable();
    let mut expected = fleet.nodes[..2].to_vec();
    expected.sort_unstable();
    assert_eq!(succeeded, expected);
    assert_eq!(states(&all, RowState::Pending).len(), 2);
    assert_eq!(fleet.count("disruptions").await, 0);
}
