//! Connections that end after each step, reports that come twice or in the wrong order, peers that vanish, and one
//! credential in two places.

use std::{net::IpAddr, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use bc_protocol::session::{FromGateway, FromNode, GoodbyeReason, StatusReport};
use futures_util::{StreamExt, stream};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    Found,
    house::House,
    node::Crowd,
    raw::{Credential, Mint, PATIENCE, Raw, dial, facts, hello, masked},
};
use crate::fleet::now;

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 67));

/// Connections that are cut at the same time.
const CUTS_AT_ONCE: usize = 4;

/// A dead peer is found within three of them.
const HEARTBEAT_MS: u32 = 1000;

const LIMITS: &str =
    "handshake_timeout = \"3s\"\nhello_timeout = \"3s\"\nsessions_per_node_burst = 100000";

/// How far a connection gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connected,
    HalfTls,
    Secured,
    HalfRequest,
    Requested,
    Upgraded,
    HalfHello,
    Hello,
    Welcomed,
    HalfReport,
    Reported,
    Ordered,
    Answered,
    Left,
}

const STEPS: [Step; 14] = [
    Step::Connected,
    Step::HalfTls,
    Step::Secured,
    Step::HalfRequest,
    Step::Requested,
    Step::Upgraded,
    Step::HalfHello,
    Step::Hello,
    Step::Welcomed,
    Step::HalfReport,
    Step::Reported,
    Step::Ordered,
    Step::Answered,
    Step::Left,
];

/// How a connection ends.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// With an end of the stream.
    Closed,
    /// With a reset.
    Reset,
}

/// Cuts, repeats, vanishes and clones.
pub(super) async fn run(gateway: &Path) -> Result<Found> {
    let house = House::start(gateway, HEARTBEAT_MS, LIMITS).await?;
    let mint = Mint::new(&house.authority)?;
    let mut found = Found::default();
    let cuts = STEPS
        .into_iter()
        .flat_map(|step| [(step, Cut::Closed), (step, Cut::Reset)]);
    let cut: Vec<_> = stream::iter(cuts.enumerate())
        .map(async |(number, (step, cut))| {
            let node = mint.node(&house.authority, number)?;
            let back = cut_and_back(&house, &node, (step, cut)).await;
            anyhow::Ok((format!("{cut:?} after {step:?}"), back))
        })
        .buffer_unordered(CUTS_AT_ONCE)
        .collect()
        .await;
    for cut in cut {
        let (name, back) = cut?;
        found.count(&name, back);
    }
    let node = mint.node(&house.authority, 1000)?;
    found.count("twice and out of order", out_of_order(&house, &node).await);
    let node = mint.node(&house.authority, 1001)?;
    found.count("half-open", vanish(&house, &node).await);
    let settled = house.until("bc_gateway_connections", 0, PATIENCE).await;
    found.count("who was cut off is forgotten", settled);
    let node = mint.node(&house.authority, 1002)?;
    found.count("one credential in two places", clones(&house, node).await);
    found.violations.extend(house.records.violations());
    Ok(found)
}

/// Gets as far as a step, is cut off, and comes back: the node is welcomed at once, and control knows its newest word and
/// has its command done.
async fn cut_and_back(house: &House, node: &Credential, (step, cut): (Step, Cut)) -> Result<()> {
    house.records.order(&node.id);
    let reached = timeout(PATIENCE, reach(house, node, step)).await?;
    let stream = reached.with_context(|| format!("reach {step:?}"))?;
    match cut {
        Cut::Closed => {}
        Cut::Reset => stream.set_zero_linger()?,
    }
    drop(stream);
    let mut raw = Raw::upgraded(house.address, FROM, &node.tls).await?;
    raw.greet(hello(2, 7)?).await?;
    let deadline = now() + PATIENCE;
    let (mut answered, mut reported) = (false, false);
    loop {
        let told = house.records.of(&node.id);
        if told.generation == 8 && told.ended > 0 {
            break;
        }
        ensure!(now() < deadline, "control knows {told:?} only");
        if !reported {
            let facts = facts(8)?;
            raw.say(FromNode::Report(StatusReport { number: 1, facts }))
                .await?;
            reported = true;
        }
        // Where it was answered before the cut and told, it is not ordered again.
        if !answered
            && told.ended == 0
            && let Ok(heard) = timeout(Duration::from_millis(500), raw.hear()).await
            && let FromGateway::Command(Ok(command)) = heard?
        {
            raw.say(answer(command.id)).await?;
            answered = true;
        }
        sleep(Duration::from_millis(5)).await;
    }
    raw.say(FromNode::Goodbye(leaving()))
        .await
        .context("the session did not hold")
}

async fn reach(house: &House, node: &Credential, step: Step) -> Result<TcpStream> {
    let mut stream = dial(house.address, FROM).await?;
    match step {
        Step::Connected => return Ok(stream),
        Step::HalfTls => {
            stream
                .write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
                .await?;
            return Ok(stream);
        }
        Step::Secured
        | Step::HalfRequest
        | Step::Requested
        | Step::Upgraded
        | Step::HalfHello
        | Step::Hello
        | Step::Welcomed
        | Step::HalfReport
        | Step::Reported
        | Step::Ordered
        | Step::Answered
        | Step::Left => drop(stream),
    }
    let mut raw = Raw::secure(house.address, FROM, &node.tls).await?;
    let half = |frame: &[u8]| {
        let (first, rest) = frame.split_at(frame.len() / 2);
        (first.to_vec(), rest.to_vec())
    };
    let request = half(Raw::request());
    let hello = half(&masked(0x82, &FromNode::Hello(hello(1, 1)?).encode()));
    let facts = facts(2)?;
    let report = FromNode::Report(StatusReport { number: 1, facts });
    let report = half(&masked(0x82, &report.encode()));
    let command = bc_protocol::id::CommandId::derived(&[node.id.as_str().as_bytes()]);
    for done in STEPS {
        match done {
            Step::Connected | Step::HalfTls | Step::Secured => {}
            Step::HalfRequest => raw.send(&request.0).await?,
            Step::Requested => raw.send(&request.1).await?,
            Step::Upgraded => raw.switched().await?,
            Step::HalfHello => raw.send(&hello.0).await?,
            Step::Hello => raw.send(&hello.1).await?,
            Step::Welcomed | Step::Ordered => drop(raw.hear().await?),
            Step::HalfReport => raw.send(&report.0).await?,
            Step::Reported => raw.send(&report.1).await?,
            Step::Answered => raw.say(answer(command.clone())).await?,
            Step::Left => raw.say(FromNode::Goodbye(leaving())).await?,
        }
        if done == step {
            break;
        }
    }
    Ok(raw.stream.into_inner().0)
}

fn answer(id: bc_protocol::id::CommandId) -> FromNode {
    FromNode::CommandResult(bc_protocol::command::CommandResult {
        id,
        succeeded: true,
        message: "done once".to_owned(),
        report: Vec::new(),
        code: String::new(),
    })
}

fn leaving() -> bc_protocol::session::Goodbye {
    bc_protocol::session::Goodbye {
        reason: GoodbyeReason::Updating,
        reconnect_after_ms: 0,
        message: String::new(),
    }
}

/// Reports that come twice, late, or of a session that a newer one has replaced.
async fn out_of_order(house: &House, node: &Credential) -> Result<()> {
    let report = async |raw: &mut Raw, number: u64, generation: u64| {
        let facts = facts(generation)?;
        raw.say(FromNode::Report(StatusReport { number, facts }))
            .await
    };
    let mut old = Raw::upgraded(house.address, FROM, &node.tls).await?;
    old.greet(hello(5, 1)?).await?;
    for (number, generation) in [(1, 2), (5, 6), (2, 3), (5, 3), (4, 5), (5, 6)] {
        report(&mut old, number, generation).await?;
    }
    let mut new = Raw::upgraded(house.address, FROM, &node.tls).await?;
    new.greet(hello(6, 10)?).await?;
    // It may be told to leave before it has said this.
    report(&mut old, 9, 4).await.ok();
    report(&mut new, 1, 11).await?;
    let mut late = Raw::upgraded(house.address, FROM, &node.tls).await?;
    late.say(FromNode::Hello(hello(3, 2)?)).await?;
    match late.hear().await? {
        FromGateway::Goodbye(goodbye) => ensure!(
            goodbye.reason == GoodbyeReason::Superseded { connect_seq: 6 },
            "expected to lose to connection 6, found {:?}",
            goodbye.reason
        ),
        other @ (FromGateway::Welcome(_)
        | FromGateway::Spec(_)
        | FromGateway::Command(_)
        | FromGateway::Certificate(_)) => bail!("expected a goodbye, found {other:?}"),
    }
    let deadline = now() + PATIENCE;
    loop {
        let told = house.records.of(&node.id);
        if (told.newest, told.generation) == ((6, 1), 11) {
            return Ok(());
        }
        ensure!(now() < deadline, "control knows {told:?} only");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A peer that is gone without a word: nothing is read, nothing is answered.
async fn vanish(house: &House, node: &Credential) -> Result<()> {
    let before = house
        .series("bc_gateway_limits_reached_total{limit=\"silence\"}")
        .await?;
    let mut gone = Raw::upgraded(house.address, FROM, &node.tls).await?;
    gone.greet(hello(1, 1)?).await?;
    let silence = "bc_gateway_limits_reached_total{limit=\"silence\"}";
    let patience = Duration::from_millis(u64::from(HEARTBEAT_MS) * 4) + Duration::from_secs(2);
    house.until(silence, before + 1, patience).await
}

/// Two nodes with one credential, each at the pace of a real one: at any time one of them has the session.
async fn clones(house: &House, node: Credential) -> Result<()> {
    // They do not report: two that count for themselves would contradict each other.
    let never = Duration::from_secs(3600);
    let crowd = Crowd::gather(house.address, vec![node.clone(), node], never);
    let deadline = now() + Duration::from_secs(6);
    let mut seen = 0;
    while now() < deadline {
        seen += 1;
        let sessions = house.series("bc_gateway_sessions").await?;
        ensure!(
            sessions <= 1,
            "expected one session of one node, found {sessions}"
        );
        sleep(Duration::from_millis(20)).await;
    }
    let tries: usize = crowd
        .lives
        .iter()
        .map(|life| life.state().tries.len())
        .sum();
    ensure!(
        seen > 20 && tries > 3 && tries < 60,
        "expected both to keep coming at their own pace, found {tries} tries"
    );
    Ok(())
}
