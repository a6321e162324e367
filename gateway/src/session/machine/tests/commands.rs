//! Commands in a session, and a minimum that changes while it lives.

use super::*;
use bc_protocol::command::CommandError;

fn order(bench: &mut Bench, command: Command) -> Vec<Output> {
    bench.step(Input::Order(Order::Command(Box::new(Ok(command)))))
}

fn sent(outputs: &[Output]) -> &Command {
    let [Output::Send(message)] = outputs else {
        panic!("{outputs:?}");
    };
    match &**message {
        FromGateway::Command(Ok(command)) => command,
        other @ (FromGateway::Welcome(_)
        | FromGateway::Spec(_)
        | FromGateway::Command(Err(_))
        | FromGateway::Certificate(_)
        | FromGateway::Goodbye(_)) => panic!("{other:?}"),
    }
}

#[test]
fn a_command_goes_out_and_its_answer_comes_back_once() {
    let mut bench = Bench::open(CURRENT);
    assert_eq!(sent(&order(&mut bench, restart(1))), &restart(1));
    let answer = || FromNode::CommandResult(done(restart(1).id));
    let outputs = bench.message(answer());
    let [Output::Ended(ended)] = &*outputs else {
        panic!("{outputs:?}");
    };
    assert_eq!((&ended.node, ended.connect_seq), (&node(0), 3));
    assert_eq!(ended.result, done(restart(1).id));
    assert_eq!(bench.message(answer()), []);
}

#[test]
fn a_session_whose_minimum_rises_turns_and_turns_back() {
    let mut bench = Bench::new(ProtocolRange { min: 1, max: 4 });
    bench.message(speaking(1, 1));
    bench.step(Input::Claim(Claim::Granted));
    let raised = Input::Order(Order::Terms(terms(SERVER)));
    assert_eq!(bench.step(raised), [Output::Turned(Tier::UpgradeOnly)]);
    let outputs = order(&mut bench, restart(1));
    assert!(matches!(*outputs, [Output::NotSent { .. }]), "{outputs:?}");
    assert_eq!(sent(&order(&mut bench, upgrade(2))), &upgrade(2));
    let same = Input::Order(Order::Terms(terms(SERVER)));
    assert_eq!(bench.step(same), []);
    let lowered = Input::Order(Order::Terms(terms(ProtocolRange { min: 1, max: 4 })));
    assert_eq!(bench.step(lowered), [Output::Turned(Tier::Full)]);
    assert_eq!(sent(&order(&mut bench, restart(1))), &restart(1));
}

#[test]
fn what_a_gateway_cannot_read_it_answers_in_the_nodes_place() {
    let mut bench = Bench::open(CURRENT);
    let unreadable = Unreadable {
        id: Some(restart(1).id),
        problem: CommandError::Kind,
    };
    let outputs = bench.step(Input::Order(Order::Command(Box::new(Err(unreadable)))));
    let [Output::Ended(ended)] = &*outputs else {
        panic!("{outputs:?}");
    };
    assert_eq!(ended.result.code, "unknown-kind");
    assert!(!ended.result.succeeded);
}
