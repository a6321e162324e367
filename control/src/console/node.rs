//! One node: what runs on it, how its last attempt went, and why it is where it is.

use askama::Template;
use axum::response::Response;
use bc_protocol::{
    id::{NodeId, RolloutId, TenantId},
    session::AttemptFacts,
};
use serde::Serialize;

use super::{
    events::{self, EventView},
    failure::Failure,
    live::Watched,
    operator::{Address, Asked, Operator},
    page::{Page, Section, html},
    show::{At, Badge, at, count, short, span},
};
use crate::{
    access::{action::Action, decide::Resource},
    api::{
        error::ErrorObject,
        fleet::{Node, Reported},
        rollout::ExplainRollout,
    },
    clock::Moment,
    event::{filter::Filter, read::Scope},
    fleet::{node, pool},
    http::sight::Wish,
    rollout::{
        board::{self, Chapter},
        service,
    },
};

/// Events that are shown.
const EVENTS: u32 = 30;

#[derive(Template)]
#[template(path = "console/node.html")]
struct NodePage {
    page: Page,
    id: String,
    name: String,
    pool: String,
    pool_id: String,
    online: Badge,
    since: Option<At>,
    joined: At,
    maintenance: bool,
    generation: u64,
    labels: Vec<(String, String)>,
    said: Option<Said>,
    explanation: Option<Explanation>,
    history: Vec<ChapterView>,
    events: Vec<EventView>,
}

/// Why it is where it is in a rollout.
#[derive(Debug)]
struct Explanation {
    rollout: String,
    /// What people call the rollout.
    name: String,
    sentence: String,
}

/// What the node last said.
#[derive(Debug)]
struct Said {
    version: String,
    sequence: u64,
    digest: String,
    slot: Option<&'static str>,
    floor: u64,
    observed: u64,
    held: Option<String>,
    trial: Option<String>,
    progress: Option<(String, u8)>,
    attempt: Option<Attempt>,
}

/// The newest attempt.
#[derive(Debug)]
struct Attempt {
    target: String,
    outcome: Badge,
    is_final: bool,
    tries: u32,
    trouble: Option<String>,
    end: Option<String>,
    log: Option<String>,
}

/// One part in a rollout.
#[derive(Debug)]
struct ChapterView {
    rollout: String,
    version: String,
    wave: Option<u32>,
    state: Badge,
    from: Option<String>,
    started: Option<At>,
    took: Option<String>,
    error: Option<String>,
}

/// `nodes/{node}`
pub(super) async fn page(
    operator: Operator,
    Address((tenant, id)): Address<(TenantId, NodeId)>,
    Asked(asked): Asked,
) -> Result<Response, Failure> {
    let pools = Resource::Pool(&tenant, None);
    operator.may(Action::PoolRead, pools).await?;
    let around = (Section::Nodes, Watched::Node(id.clone()));
    let mut page = Page::watching(&operator, &tenant, around, "").await?;
    let db = &operator.app().services.db;
    let found = node::get(db, &tenant, &id).await?;
    let pools = pool::list(db, &tenant).await?;
    let pool = pools.into_iter().find(|pool| pool.id == found.pool_id);
    let internal = |error: sqlx::Error| ErrorObject::internal(&error);
    let mut conn = db.reader().begin().await.map_err(internal)?;
    let history = board::history(&mut conn, &tenant, &id).await;
    let history = history.map_err(internal)?;
    // Whoever waits for a second connection with one in his hands may wait for somebody who does the same.
    drop(conn);
    let about = asked.parsed::<RolloutId>("rollout");
    let about = about.or_else(|| history.first().map(|newest| newest.rollout.clone()));
    let name = found.labels.get("hostname").cloned();
    let name = name.unwrap_or_else(|| short(id.as_str()));
    page.title = format!("{name} · node");
    Ok(html(&NodePage {
        explanation: explained(&operator, (&tenant, &id), about).await?.map(
            |(rollout, sentence)| Explanation {
                name: called(&history, &rollout),
                rollout: rollout.to_string(),
                sentence,
            },
        ),
        events: happened(&operator, (&tenant, &id), page.now).await?,
        history: history
            .into_iter()
            .map(|chapter| ChapterView::new(chapter, page.now))
            .collect(),
        pool: pool.map_or_else(|| short(found.pool_id.as_str()), |pool| pool.name),
        pool_id: found.pool_id.to_string(),
        online: Badge(if found.online { "online" } else { "offline" }),
        since: found.since.map(|since| at(since, page.now)),
        joined: at(found.joined_at, page.now),
        maintenance: found.maintenance,
        generation: found.generation,
        labels: labels(&found),
        said: found.reported.map(Said::new),
        id: id.to_string(),
        name,
        page,
    }))
}

/// A rollout by what it brings, where the node has a part in it.
fn called(history: &[Chapter], rollout: &RolloutId) -> String {
    let mut chapters = history.iter();
    match chapters.find(|chapter| chapter.rollout == *rollout) {
        Some(chapter) => format!("the rollout of {}", chapter.version),
        None => short(rollout.as_str()),
    }
}

fn labels(node: &Node) -> Vec<(String, String)> {
    let labels = node.labels.iter();
    labels
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The planner's own sentence about the node, in one rollout.
async fn explained(
    operator: &Operator,
    (tenant, node): (&TenantId, &NodeId),
    rollout: Option<RolloutId>,
) -> Result<Option<(RolloutId, String)>, Failure> {
    let Some(rollout_id) = rollout else {
        return Ok(None);
    };
    let id = rollout_id.clone();
    let request = ExplainRollout {
        tenant_id: tenant.clone(),
        rollout_id,
        node_id: node.clone(),
    };
    let said = service::explain(&operator.app().services, request).await?;
    let mut letters = said.sentence.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    Ok(Some((id, format!("{first}{}.", letters.as_str()))))
}

async fn happened(
    operator: &Operator,
    (tenant, node): (&TenantId, &NodeId),
    now: Moment,
) -> Result<Vec<EventView>, Failure> {
    let (filter, subject) = (Filter::default(), format!("node/{node}"));
    let wish = Wish {
        tenant,
        filter: &filter,
        subject: Some(&subject),
    };
    let sight = operator.sight(wish).await?;
    let scope = Scope {
        tenant: tenant.clone(),
        filter,
        subject: Some(subject),
        sight,
    };
    let page = scope.newest(&operator.app().services.db, EVENTS).await;
    let page = page.map_err(ErrorObject::from)?;
    let mut views = events::views(page.events, now);
    // Whose page it is stands above them.
    for view in &mut views {
        view.subject.clear();
    }
    Ok(views)
}

impl Said {
    fn new(reported: Reported) -> Self {
        let trial = reported.trial.as_ref().map(|trial| {
            let slot = trial.slot.name();
            format!(
                "sequence {} in slot {slot}, started {}",
                trial.sequence.get(),
                count(trial.starts, "time")
            )
        });
        let progress = reported.progress.as_ref();
        Self {
            version: reported.version.to_string(),
            sequence: reported.sequence.get(),
            digest: reported.digest.to_string(),
            slot: reported.slot.map(bc_protocol::session::Slot::name),
            floor: reported.floor.sequence().get(),
            observed: reported.observed_generation,
            held: reported.held,
            trial,
            progress: progress.map(|progress| (word(&progress.phase), progress.percent)),
            attempt: reported.last_attempt.map(Attempt::new),
        }
    }
}

/// An enumeration's word, as JSON has it.
fn word(value: &impl Serialize) -> String {
    let word = serde_json::to_value(value).unwrap_or_default();
    word.as_str().unwrap_or_default().replace('-', " ")
}

impl Attempt {
    fn new(facts: AttemptFacts) -> Self {
        let end = match (facts.exit_status, facts.signal) {
            (Some(status), _) => Some(format!("It ended with status {status}.")),
            (None, Some(signal)) => Some(format!("Signal {signal} ended it.")),
            (None, None) => None,
        };
        let trouble = match (facts.code.as_str(), facts.message.as_str()) {
            ("", "") => None,
            (code, "") => Some(code.to_owned()),
            (code, message) => Some(format!("{code}: {message}")),
        };
        Self {
            target: facts.target,
            outcome: Badge(facts.outcome.name()),
            is_final: facts.is_final,
            tries: facts.tries,
            trouble,
            end,
            log: (!facts.log.trim().is_empty()).then_some(facts.log),
        }
    }
}

impl ChapterView {
    fn new(chapter: Chapter, now: Moment) -> Self {
        let took = chapter.started_at.zip(chapter.finished_at);
        Self {
            rollout: chapter.rollout.to_string(),
            version: chapter.version,
            wave: chapter.wave.map(|wave| wave.saturating_add(1)),
            state: Badge(chapter.state.word()),
            from: chapter.from,
            started: chapter.started_at.map(|started| at(started, now)),
            took: took.map(|(started, finished)| span(finished.since(started))),
            error: chapter.error,
        }
    }
}
