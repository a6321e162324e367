//! A small language for scenarios.
//!
//! A scenario is its own golden: lines at the margin are commands, indented lines are what the planner answered. The
//! first two lines set up pools (`a=4@0.5`: four nodes a1 to a4, half of them at once) and terms. After every command
//! a pass is made. Nodes stand in the rollout's order: a1, b1, a2, b2, …

use std::{fmt::Write as _, time::Duration};

use bc_protocol::{id::NodeId, session::Outcome};

use super::world::{Setup, World};
use crate::rollout::{
    hold::Hold,
    operator::{Call, Flights},
    plan::{PlaceMove, Plan, Step},
    snapshot::{Freeze, Presence, Read},
};

/// Runs a scenario and holds what happens against what it says.
pub(super) fn check(scenario: &str) {
    let scenario: Vec<&str> = scenario
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let indent = scenario
        .iter()
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap();
    let scenario: Vec<&str> = scenario.iter().map(|line| &line[indent..]).collect();
    let commands: Vec<&str> = scenario
        .iter()
        .copied()
        .filter(|line| !line.starts_with(' '))
        .collect();
    let happened = run(&commands);
    assert!(
        happened.trim_end() == scenario.join("\n"),
        "\nhappened:\n{happened}"
    );
}

fn run(commands: &[&str]) -> String {
    let (mut world, names) = set_up(commands[0], commands[1]);
    let mut out = format!("{}\n{}\n", commands[0], commands[1]);
    let log = |out: &mut String, world: &World, plans: Vec<Plan>| {
        for plan in plans {
            tell(out, &names, world, &plan);
        }
    };
    let plans = world.pass();
    log(&mut out, &world, plans);
    for command in &commands[2..] {
        writeln!(out, "{command}").unwrap();
        if *command == "why" {
            let plans = world.pass();
            why(&mut out, &names, &world, plans.last().unwrap());
            continue;
        }
        match obey(&mut world, &names, command) {
            Ok(plans) => log(&mut out, &world, plans),
            Err(refusal) => writeln!(out, "  refused: {refusal}").unwrap(),
        }
        let plans = world.pass();
        log(&mut out, &world, plans);
    }
    out
}

type Names = Vec<String>;

fn set_up(pools: &str, terms: &str) -> (World, Names) {
    let mut sizes = Vec::new();
    let mut letters = Vec::new();
    for pool in pools.split_whitespace().skip(1) {
        let (letter, rest) = pool.split_once('=').unwrap();
        let (nodes, share) = rest.split_once('@').unwrap_or((rest, "0.05"));
        letters.push((letter, nodes.parse::<u32>().unwrap()));
        sizes.push((nodes.parse().unwrap(), share.parse().unwrap()));
    }
    let most = letters.iter().map(|(_, nodes)| *nodes).max().unwrap();
    let names = (1..=most)
        .flat_map(|number| {
            letters
                .iter()
                .filter(move |(_, nodes)| number <= *nodes)
                .map(move |(letter, _)| format!("{letter}{number}"))
        })
        .collect();
    let mut setup = Setup {
        waves: vec!["100".parse().unwrap()],
        ratio: "0.05".parse().unwrap(),
        soak: Duration::from_secs(600),
        timeout: Duration::from_secs(900),
    };
    for term in terms.split_whitespace() {
        let (name, value) = term.split_once('=').unwrap();
        match name {
            "waves" => setup.waves = value.split(',').map(|wave| wave.parse().unwrap()).collect(),
            "ratio" => setup.ratio = value.parse().unwrap(),
            "soak" => setup.soak = span(value),
            "timeout" => setup.timeout = span(value),
            _ => panic!("no such term: {name}"),
        }
    }
    (World::new(&sizes, &setup), names)
}

fn span(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let number: u64 = number.parse().unwrap();
    Duration::from_secs(match unit {
        "s" => number,
        "m" => number * 60,
        "h" => number * 3600,
        _ => panic!("no such unit: {unit}"),
    })
}

fn obey(world: &mut World, names: &Names, command: &str) -> Result<Vec<Plan>, String> {
    if let Some(time) = command.strip_prefix('+') {
        world.now = world.now.plus(span(time));
        return Ok(vec![]);
    }
    let (who, what) = command.split_once(' ').unwrap_or((command, ""));
    if let Some(place) = names.iter().position(|name| name == who) {
        node(world, place, what);
        return Ok(vec![]);
    }
    let reason = |default: &str| {
        if what.is_empty() {
            default.to_owned()
        } else {
            what.to_owned()
        }
    };
    let call = match who {
        "pause" => Call::Pause {
            reason: Some(reason("by hand")),
        },
        "resume" => Call::Resume,
        "abort" => Call::Abort {
            reason: "by hand".to_owned(),
            flights: if what == "rollback" {
                Flights::RollBack
            } else {
                Flights::Fail
            },
        },
        "archive" => {
            archive(world, names, what);
            return Ok(vec![]);
        }
        "freeze" => {
            let (reason, by) = (reason("incident"), "alice".to_owned());
            let since = world.now;
            world.freeze = Some(Freeze { reason, by, since });
            return Ok(vec![]);
        }
        "unfreeze" => {
            world.freeze = None;
            return Ok(vec![]);
        }
        "control" => {
            assert_eq!(what, "restarts", "control does nothing else");
            world.context.started_at = world.now;
            world.context.links_since = Some(world.now);
            return Ok(vec![]);
        }
        "links" => {
            world.context.links_since = (what == "up").then_some(world.now);
            return Ok(vec![]);
        }
        _ => panic!("no such command: {command}"),
    };
    let plan = world
        .call(&call)
        .map_err(|ended| format!("it is {}", ended.state.word()))?;
    Ok(vec![plan])
}

/// Takes the pool of that name out of use.
fn archive(world: &mut World, names: &Names, pool: &str) {
    let first = names.iter().position(|name| name.starts_with(pool));
    let id = world.rows[first.unwrap()].row.pool.clone();
    let known = world.pools.iter_mut().find(|known| known.id == id);
    known.unwrap().archived = true;
}

fn node(world: &mut World, place: usize, what: &str) {
    let (verb, object) = what.split_once(' ').unwrap_or((what, ""));
    match verb {
        "obeys" => world.obey(place),
        "works" => world.report(place, Outcome::Running, false, ""),
        "retries" => world.report(place, Outcome::Failed, false, object),
        "fails" => world.report(place, Outcome::Crashed, true, object),
        "misreports" => {
            world.obey(place);
            let attempt = &mut world.said(place).attempt;
            attempt.as_mut().unwrap().id = bc_protocol::id::AttemptId::derived(&[b"another"]);
        }
        "rests" => world.said(place).working_on = None,
        "commanded" => world.said(place).read = Read::Commanded(None),
        "rereads" => world.said(place).read = Read::Newest(None),
        "tries" => world.said(place).trial = world.rows[place].attempt.clone(),
        "restarts" => world.restart(place),
        "leaves" => world.nodes[place].presence = Presence::Offline(world.now),
        "returns" => world.nodes[place].presence = Presence::Online,
        "held" => world.said(place).held = Some(object.to_owned()),
        "removed" => world.remove(place),
        "maintained" => world.nodes[place].maintenance = true,
        "serves" => world.nodes[place].maintenance = false,
        "disrupted" => world.disrupt(place, object),
        "undisrupted" => world.leave_alone(place, object),
        "arch" => world.nodes[place].arch = (!object.is_empty()).then(|| object.to_owned()),
        "floor" => world.said(place).floor = super::world::floor(object.parse().unwrap()),
        _ => panic!("a node cannot {what}"),
    }
}

fn tell(out: &mut String, names: &Names, world: &World, plan: &Plan) {
    for change in &plan.rows {
        let name = &names[change.row.place as usize];
        match &change.step {
            Step::Start { from, .. } => writeln!(out, "  {name} upgrading from {from}"),
            Step::RollBack { .. } => writeln!(out, "  {name} rolling-back"),
            Step::Show(Some(trouble)) => writeln!(out, "  {name} shows {trouble}"),
            Step::Show(None) => writeln!(out, "  {name} shows nothing"),
            Step::Succeed => writeln!(out, "  {name} succeeded"),
            Step::FinishRollBack => writeln!(out, "  {name} rolled-back"),
            Step::Fail(trouble) => writeln!(out, "  {name} failed, {trouble}"),
            Step::Skip(trouble) => writeln!(out, "  {name} skipped, {trouble}"),
        }
        .unwrap();
    }
    if let Some(trouble) = &plan.sweep {
        writeln!(out, "  all pending skipped, {trouble}").unwrap();
    }
    for place in &plan.places {
        if let PlaceMove::Vacate(node) = place
            && plan.rows.iter().all(|change| change.row.node != *node)
        {
            writeln!(out, "  {} gives its place back", name(names, world, node)).unwrap();
        }
    }
    for event in &plan.events {
        let reason = event.data.get("reason").and_then(|reason| reason.as_str());
        let wave = plan.head.wave;
        match reason {
            Some(reason) => writeln!(out, "  {}: {reason}", event.kind),
            None => writeln!(out, "  {}, wave {wave}", event.kind),
        }
        .unwrap();
    }
}

fn name<'a>(names: &'a Names, world: &World, node: &NodeId) -> &'a str {
    &names[world.place_of(node)]
}

fn why(out: &mut String, names: &Names, world: &World, plan: &Plan) {
    for held in &plan.held {
        let who = held
            .node
            .as_ref()
            .map_or("all", |node| name(names, world, node));
        let what = match &held.hold {
            Hold::NotRunning { state, .. } => format!("the rollout is {}", state.word()),
            Hold::Frozen(freeze) => format!("frozen by {}: {}", freeze.by, freeze.reason),
            Hold::Soaking { until } => format!("soaking for {:?}", until.since(world.now)),
            Hold::Offline { since, .. } => format!("offline for {:?}", world.now.since(*since)),
            Hold::Disrupted { by } => format!("disrupted by {by}"),
            Hold::Budget { disrupted, max } => format!("{disrupted} of {max} places taken"),
            Hold::Distrusted { refusal } => format!("not trusted: {refusal}"),
            Hold::StillAtWork => "still at work".to_owned(),
            Hold::Maintenance => "in maintenance".to_owned(),
            Hold::Unstartable(trouble) => trouble.to_string(),
        };
        writeln!(out, "  {who}: {what}").unwrap();
    }
    match plan.next {
        Some((at, wakeup)) => writeln!(out, "  next in {:?}: {wakeup:?}", at.since(world.now)),
        None => writeln!(out, "  next: when something happens"),
    }
    .unwrap();
}
