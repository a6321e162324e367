//! What happened, newest first.

use askama::Template;
use axum::response::Response;
use bc_protocol::id::TenantId;
use serde_json::Value;

use super::{
    failure::Failure,
    operator::{Address, Asked, Operator},
    page::{Page, Section, html},
    rows::Choice,
    show::{At, at},
};
use crate::{
    api::{error::ErrorObject, event::Event},
    clock::Moment,
    event::{filter::Filter, read::Scope},
    http::sight::Wish,
};

/// Events that are looked through.
const LOOKED_AT: u32 = 2000;

/// Events that are shown.
const SHOWN: usize = 200;

/// Characters of one value: a list of everything is in the API's answer.
const VALUE_CHARS_MAX: usize = 600;

/// What can be chosen, as the API's filters write it.
const KINDS: [(&str, &str); 11] = [
    ("rollout.*", "rollouts"),
    ("node.*", "nodes"),
    ("release.*", "releases"),
    ("fleet.*", "freezes"),
    ("command.*", "commands"),
    ("workflow.*", "workflows"),
    ("pool.*", "pools"),
    ("join-token.*", "join tokens"),
    ("gateway.*", "gateways"),
    ("webhook.*", "webhooks"),
    ("token.*", "API tokens and sign-ins"),
];

#[derive(Template)]
#[template(path = "console/events.html")]
struct EventsPage {
    page: Page,
    kinds: Vec<Choice>,
    about: String,
    events: Vec<EventView>,
}

/// One event.
#[derive(Debug)]
pub(super) struct EventView {
    /// Its place.
    pub position: u64,
    /// Its type.
    pub kind: String,
    /// What it does to one who looks: `good`, `bad`, `warn` or `plain`.
    pub tone: &'static str,
    /// To what it happened.
    pub subject: String,
    /// The page of that, below the tenant's.
    pub href: Option<String>,
    /// By whom, where it was somebody else.
    pub actor: Option<String>,
    /// When.
    pub at: At,
    /// The particulars.
    pub data: Vec<(String, String)>,
}

/// `events`
pub(super) async fn page(
    operator: Operator,
    Address(tenant): Address<TenantId>,
    Asked(asked): Asked,
) -> Result<Response, Failure> {
    let page = Page::new(&operator, &tenant, Section::Events, "Events").await?;
    let kind = asked.text("kind");
    let chosen = KINDS.iter().find(|(value, _)| *value == kind);
    let types: Vec<String> = chosen
        .iter()
        .map(|(value, _)| (*value).to_owned())
        .collect();
    let filter = Filter::parse(&types).map_err(|error| ErrorObject::invalid("kind", error))?;
    let about = asked.text("about").to_owned();
    let wish = Wish {
        tenant: &tenant,
        filter: &filter,
        subject: (!about.is_empty()).then_some(about.as_str()),
    };
    let sight = operator.sight(wish).await?;
    let scope = Scope {
        tenant,
        filter,
        subject: (!about.is_empty()).then(|| about.clone()),
        sight,
    };
    let found = scope.newest(&operator.app().services.db, LOOKED_AT).await;
    let mut found = found.map_err(ErrorObject::from)?.events;
    let events = found.split_off(found.len().saturating_sub(SHOWN));
    Ok(html(&EventsPage {
        kinds: KINDS
            .iter()
            .map(|(value, name)| Choice {
                value: (*value).to_owned(),
                name: (*name).to_owned(),
                is_chosen: *value == kind,
            })
            .collect(),
        about,
        events: views(events, page.now),
        page,
    }))
}

/// Events, the newest first.
pub(super) fn views(events: Vec<Event>, now: Moment) -> Vec<EventView> {
    let newest = events.into_iter().rev();
    newest.map(|event| EventView::new(event, now)).collect()
}

impl EventView {
    fn new(event: Event, now: Moment) -> Self {
        let href = event
            .subject
            .split_once('/')
            .and_then(|(what, id)| match what {
                "rollout" => Some(format!("rollouts/{id}")),
                "node" => Some(format!("nodes/{id}")),
                "release" => Some("releases".to_owned()),
                _ => None,
            });
        Self {
            position: event.position,
            tone: tone(&event.kind),
            kind: event.kind,
            actor: (event.actor != event.subject).then_some(event.actor),
            subject: event.subject,
            href,
            at: at(event.at, now),
            data: particulars(&event.data),
        }
    }
}

fn tone(kind: &str) -> &'static str {
    let ends = |ends: &[&str]| ends.iter().any(|end| kind.ends_with(end));
    if ends(&["failed", "aborted", "duplicate"]) {
        "bad"
    } else if ends(&["paused", "offline", "frozen"]) && !ends(&["unfrozen"]) {
        "warn"
    } else if ends(&["completed", "upgraded", "online", "resumed"]) {
        "good"
    } else {
        "plain"
    }
}

/// An object's fields as texts. The id of an attempt is for programs: no page leads by it.
fn particulars(data: &Value) -> Vec<(String, String)> {
    let fields = data.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| *name != "attempt")
        .filter(|(_, value)| !value.is_null() && value.as_str() != Some(""))
        .map(|(name, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), ToOwned::to_owned);
            let mut shown: String = text.chars().take(VALUE_CHARS_MAX).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            (name.clone(), shown)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Filter, KINDS, particulars, tone};

    #[test]
    fn particulars_are_texts_of_bounded_length() {
        let data = json!({ "a": "x".repeat(1000), "b": [1, 2], "c": null, "d": "" });
        let shown = particulars(&data);
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0].1.chars().count(), 601);
        assert_eq!(shown[1], ("b".to_owned(), "[1,2]".to_owned()));
    }

    /// The guide names every event that is written, as a test of its own sees to.
    #[test]
    fn every_kind_of_event_can_be_chosen() {
        let guide = include_str!("../../../packaging/docs/events.md");
        let rows = guide.lines().filter(|line| line.starts_with("| `"));
        let kinds = rows.flat_map(|row| {
            let cell = row.split('|').nth(1).unwrap();
            cell.split('`').filter(|word| word.contains('.'))
        });
        let kinds: Vec<&str> = kinds.collect();
        assert!(kinds.contains(&"webhook.deleted"), "{kinds:?}");
        for kind in kinds {
            let offered = KINDS.iter().any(|(group, _)| {
                let wanted = Filter::parse(&[(*group).to_owned()]).unwrap();
                wanted.wants(kind)
            });
            assert!(offered, "{kind}");
        }
    }

    #[test]
    fn tones() {
        for (kind, expected) in [
            ("node.upgrade-failed", "bad"),
            ("rollout.paused", "warn"),
            ("fleet.unfrozen", "plain"),
            ("rollout.completed", "good"),
            ("rollout.wave", "plain"),
        ] {
            assert_eq!(tone(kind), expected, "{kind}");
        }
    }
}
