//! Messages in a few words, for whoever reads a replay.

use bc_protocol::session::{FromGateway, FromNode};

/// What a node says.
pub(super) fn brief_up(message: &FromNode) -> String {
    match message {
        FromNode::Hello(hello) => format!("hello {} of {}", hello.connect_seq, brief(&hello.facts)),
        FromNode::Report(report) => format!("report {} of {}", report.number, brief(&report.facts)),
        FromNode::CommandResult(result) => format!(
            "result of {}: {} {}",
            result.id, result.succeeded, result.code
        ),
        FromNode::CertificateRequest(_) => "certificate request".to_owned(),
        FromNode::Goodbye(goodbye) => format!("goodbye {:?}", goodbye.reason),
    }
}

fn brief(facts: &bc_protocol::session::Facts) -> String {
    let last = facts
        .last_attempt
        .as_ref()
        .map(|last| (last.id.as_str(), last.outcome.name(), last.is_final));
    let phase = facts.progress.as_ref().map(|progress| progress.phase);
    format!(
        "{} floor {} trial {} last {last:?} {phase:?} spec {}",
        facts.version,
        facts.floor,
        facts.trial.is_some(),
        facts.observed_generation
    )
}

/// What a gateway says.
pub(super) fn brief_down(message: &FromGateway) -> String {
    match message {
        FromGateway::Welcome(welcome) => {
            format!("welcome, upgrade required: {}", welcome.upgrade_required)
        }
        FromGateway::Spec(Ok(spec)) => format!(
            "spec {} for {:?}",
            spec.generation,
            spec.daemon
                .as_ref()
                .map(|section| (section.version.as_str(), section.attempt.as_str()))
        ),
        FromGateway::Spec(Err(error)) => error.to_string(),
        FromGateway::Command(Ok(command)) => {
            format!("command {} {}", command.id, command.order.kind())
        }
        FromGateway::Command(Err(error)) => error.to_string(),
        FromGateway::Certificate(_) => "certificate".to_owned(),
        FromGateway::Goodbye(goodbye) => format!("goodbye {:?}", goodbye.reason),
    }
}
