//! Commands on their way down, and what becomes of them.

use std::collections::BTreeMap;

use bc_protocol::{
    command::{Command, CommandResult, Order},
    id::CommandId,
    link::{CommandEnded, CommandPush, Event, FromControl, Settings},
    session::{FromGateway, FromNode, Hello, ProtocolRange},
};
use bytes::Bytes;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    control::{Control, Link},
    node::{Node, Session, hello},
    process::Home,
};

fn command(name: &str, order: Order) -> Command {
    Command {
        id: CommandId::derived(&[name.as_bytes()]),
        expires_at_ms: 7,
        order,
    }
}

fn diagnostics(name: &str) -> Command {
    command(name, Order::Diagnostics { collect: vec![] })
}

async fn push(link: &mut Link, node: &Node, connect_seq: u64, command: &Command) {
    link.send(FromControl::Command(CommandPush {
        node: node.id.clone(),
        connect_seq,
        command: Ok(command.clone()),
    }))
    .await;
}

fn result(of: &Command, report: &[u8]) -> CommandResult {
    CommandResult {
        id: of.id.clone(),
        succeeded: true,
        message: "done".to_owned(),
        report: report.to_vec(),
        code: String::new(),
    }
}

async fn answer(session: &mut Session, result: CommandResult) {
    session.say(FromNode::CommandResult(result)).await;
}

async fn ended(link: &mut Link) -> CommandEnded {
    link.until(|event| match event {
        Event::Ended(ended) => Some(ended.clone()),
        Event::Opened(_) | Event::Closed(_) | Event::Report(_) | Event::Listed => None,
    })
    .await
}

#[tokio::test]
async fn a_command_goes_down_and_its_result_outlives_a_link() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let node = Node::new(&control.authority, "a");
    let mut link = control.link().await;
    link.listed().await;
    let mut session = node.open(gateway.address, 5).await;
    // For a session that has gone, or has yet to come: not for this one.
    push(&mut link, &node, 4, &diagnostics("old")).await;
    push(&mut link, &node, 6, &diagnostics("new")).await;
    let (work, restart) = (diagnostics("work"), command("restart", Order::Restart));
    push(&mut link, &node, 5, &work).await;
    assert_eq!(
        session.next().await,
        Some(FromGateway::Command(Ok(work.clone())))
    );
    // Lanes do not wait for each other, and nothing goes out twice.
    push(&mut link, &node, 5, &work).await;
    push(&mut link, &node, 5, &restart).await;
    assert_eq!(
        session.next().await,
        Some(FromGateway::Command(Ok(restart)))
    );
    drop(link);
    let report = vec![b'x'; 256 << 10];
    answer(&mut session, result(&work, &report)).await;
    // Nobody asked for this one.
    answer(&mut session, result(&diagnostics("old"), b"")).await;
    session.is_alive().await;
    let mut link = control.link().await;
    let first = ended(&mut link).await;
    assert_eq!((&first.node, first.connect_seq), (&node.id, 5));
    assert_eq!(first.result, result(&work, &report));
    // Control is done with it: the lane's next goes out at once.
    push(&mut link, &node, 5, &diagnostics("next")).await;
    assert_eq!(
        session.next().await,
        Some(FromGateway::Command(Ok(diagnostics("next"))))
    );
    answer(&mut session, result(&diagnostics("next"), b"")).await;
    let second = ended(&mut link).await;
    assert_eq!(second.result.id, diagnostics("next").id);
}

#[tokio::test]
async fn what_a_node_brings_along_is_not_sent_again() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let node = Node::new(&control.authority, "a");
    let mut link = control.link().await;
    link.listed().await;
    let mut session = node.connect(gateway.address).await;
    session
        .say(FromNode::Hello(Hello {
            commands_in_flight: vec![diagnostics("brought").id],
            ..hello(1)
        }))
        .await;
    session.welcome().await;
    push(&mut link, &node, 1, &diagnostics("brought")).await;
    push(&mut link, &node, 1, &command("other", Order::Restart)).await;
    assert_eq!(
        session.next().await,
        Some(FromGateway::Command(Ok(command("other", Order::Restart))))
    );
    answer(&mut session, result(&diagnostics("brought"), b"")).await;
    assert_eq!(ended(&mut link).await.result.id, diagnostics("brought").id);
}

/// The frames of protocol 1 as they were written when it was the newest, against the program of today.
fn frozen(side: &str, name: &str) -> Bytes {
    let vectors = include_str!("../../../protocol/tests/vectors/session-1.json");
    let vectors: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_str(vectors).unwrap();
    hex::decode(&vectors[side][name]).unwrap().into()
}

async fn say_frozen(session: &mut Session, name: &str) {
    session
        .send(Message::Binary(frozen("fromNode", name)))
        .await;
}

/// I27
#[tokio::test]
async fn a_daemon_of_protocol_1_is_upgraded_and_gets_nothing_else() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let node = Node::new(&control.authority, "old");
    let mut link = control.link_with(2, &[]).await;
    link.listed().await;
    let mut session = node.connect(gateway.address).await;
    say_frozen(&mut session, "hello").await;
    let welcome = session.welcome().await;
    assert!(welcome.upgrade_required);
    let upgrade = match FromGateway::decode(&frozen("fromGateway", "command-upgrade")) {
        Ok(FromGateway::Command(Ok(command))) => command,
        other => panic!("{other:?}"),
    };
    // It says that it works on this one already: it is not sent again. Another one is.
    push(&mut link, &node, 5, &command("restart", Order::Restart)).await;
    push(&mut link, &node, 5, &diagnostics("work")).await;
    push(&mut link, &node, 5, &upgrade).await;
    let renewed = Command {
        id: CommandId::derived(&[b"renewed"]),
        ..upgrade.clone()
    };
    push(&mut link, &node, 5, &renewed).await;
    match session.next().await {
        Some(FromGateway::Command(Ok(command))) => assert_eq!(command, renewed),
        other => panic!("{other:?}"),
    }
    for name in ["report-on-trial", "report-confirmed", "result"] {
        say_frozen(&mut session, name).await;
    }
    assert_eq!(ended(&mut link).await.result.id, upgrade.id);
}

#[tokio::test]
async fn a_session_turns_too_old_in_the_middle() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let node = Node::new(&control.authority, "a");
    let mut link = control.link().await;
    link.listed().await;
    let mut session = node.connect(gateway.address).await;
    session
        .say(FromNode::Hello(Hello {
            protocols: ProtocolRange { min: 1, max: 1 },
            ..hello(1)
        }))
        .await;
    assert!(!session.welcome().await.upgrade_required);
    let opened = async |link: &mut Link| {
        link.until(|event| match event {
            Event::Opened(opened) => Some(opened.upgrade_only),
            Event::Closed(_) | Event::Report(_) | Event::Listed | Event::Ended(_) => None,
        })
        .await
    };
    assert!(!opened(&mut link).await);
    link.send(FromControl::Settings(Settings {
        protocol_min: 2,
        heartbeat_interval_ms: 15_000,
    }))
    .await;
    assert!(opened(&mut link).await);
    push(&mut link, &node, 1, &diagnostics("work")).await;
    session.is_alive().await;
}
