//! Workflows on a real database, beside the rollouts that they share budgets with.

use crate::{
    api::{
        error::{Code, ErrorObject},
        rollout::RowState,
        workflow::{CreateWorkflow, ListWorkflows, UpdateWorkflow, Workflow, WorkflowState},
    },
    clock::Moment,
    spec::tests::fleet::{Fleet, states},
    workflow::{error::WorkflowError, store},
};
use bc_protocol::id::NodeId;

fn on(node: &NodeId) -> CreateWorkflow {
    CreateWorkflow {
        tenant_id: "root".parse().unwrap(),
        node_id: node.clone(),
        kind: "reboot".to_owned(),
        reason: None,
        idempotency_key: None,
    }
}

async fn create(fleet: &Fleet, request: &CreateWorkflow) -> Result<Workflow, WorkflowError> {
    store::create(&fleet.services.db, "alice", request, Moment::now()).await
}

async fn update(
    fleet: &Fleet,
    workflow: &Workflow,
    state: WorkflowState,
) -> Result<Workflow, WorkflowError> {
    let request = UpdateWorkflow {
        tenant_id: "root".parse().unwrap(),
        workflow_id: workflow.id.clone(),
        state,
        reason: None,
    };
    store::update(&fleet.services.db, "alice", &request, Moment::now()).await
}

fn code<T: std::fmt::Debug>(result: Result<T, WorkflowError>) -> Code {
    ErrorObject::from(result.unwrap_err()).code
}

/// I21: over the bound no rollout starts anything, and a node's two reasons take one place.
#[tokio::test]
async fn workflows_and_rollouts_share_the_budget() {
    let mut fleet = Fleet::of(&[(4, 0)]).await;
    let [a, b] = [fleet.nodes[0].clone(), fleet.nodes[1].clone()];
    let one = create(&fleet, &on(&a)).await.unwrap();
    let two = create(&fleet, &on(&a)).await.unwrap();
    assert_eq!(fleet.count("disrupted").await, 1, "one place a node");
    let three = create(&fleet, &on(&b)).await.unwrap();
    assert_eq!(
        fleet.count("disrupted").await,
        2,
        "over the bound, and it counts"
    );

    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.nodes.upgrading, 0);
    update(&fleet, &three, WorkflowState::Cancelled)
        .await
        .unwrap();
    fleet.pass().await;
    assert_eq!(
        fleet.get(&id).await.nodes.upgrading,
        0,
        "one place, and it is taken"
    );
    update(&fleet, &one, WorkflowState::Running).await.unwrap();
    update(&fleet, &one, WorkflowState::Succeeded)
        .await
        .unwrap();
    fleet.pass().await;
    assert_eq!(
        fleet.get(&id).await.nodes.upgrading,
        0,
        "the other reason holds it"
    );
    update(&fleet, &two, WorkflowState::Cancelled)
        .await
        .unwrap();
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.nodes.upgrading, 1);

    // A workflow on a node in flight takes no further place.
    let flying = states(&fleet.get(&id).await, RowState::Upgrading).remove(0);
    create(&fleet, &on(&flying)).await.unwrap();
    assert_eq!(fleet.count("disrupted").await, 1);
    fleet.nodes_obey().await;
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    assert_eq!((rollout.nodes.succeeded, rollout.nodes.upgrading), (1, 0));
    assert_eq!(fleet.count("disrupted").await, 1);
}

#[tokio::test]
async fn equal_calls_with_one_key_make_one_workflow() {
    let fleet = Fleet::of(&[(2, 0)]).await;
    let keyed = CreateWorkflow {
        idempotency_key: Some("k".to_owned()),
        ..on(&fleet.nodes[0])
    };
    let made = create(&fleet, &keyed).await.unwrap();
    assert_eq!(create(&fleet, &keyed).await.unwrap(), made);
    let other = CreateWorkflow {
        node_id: fleet.nodes[1].clone(),
        ..keyed
    };
    assert_eq!(code(create(&fleet, &other).await), Code::Conflict);
    let all = ListWorkflows {
        tenant_id: "root".parse().unwrap(),
        node_id: None,
        state: Some(WorkflowState::Pending),
    };
    let listed = store::list(&fleet.services.db, &all).await.unwrap();
    assert_eq!(listed, [made]);
}

#[tokio::test]
async fn what_is_no_workflow_is_refused() {
    let fleet = Fleet::of(&[(1, 0)]).await;
    let good = on(&fleet.nodes[0]);
    for kind in ["", "Re boot", "é", &"k".repeat(65)] {
        let bad = CreateWorkflow {
            kind: kind.to_owned(),
            ..good.clone()
        };
        assert_eq!(
            code(create(&fleet, &bad).await),
            Code::InvalidInput,
            "{kind}"
        );
    }
    let foreign = CreateWorkflow {
        tenant_id: "other".parse().unwrap(),
        ..good.clone()
    };
    assert_eq!(code(create(&fleet, &foreign).await), Code::NotFound);
    let bell = CreateWorkflow {
        reason: Some("\u{7}".to_owned()),
        ..good.clone()
    };
    assert_eq!(code(create(&fleet, &bell).await), Code::InvalidInput);
    assert_eq!(fleet.count("disruptions").await, 0, "nothing was stored");

    let made = create(&fleet, &good).await.unwrap();
    let moved = update(&fleet, &made, WorkflowState::Succeeded).await;
    assert_eq!(code(moved), Code::InvalidState);
    let failed = update(&fleet, &made, WorkflowState::Failed).await.unwrap();
    let again = update(&fleet, &made, WorkflowState::Failed).await.unwrap();
    assert_eq!(again.finished_at, failed.finished_at);
    assert_eq!(fleet.count("disruptions").await, 0);
}
