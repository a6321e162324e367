//! Word that something on a page has changed, for as long as somebody looks.
//!
//! Takes a tenant, gives one short event whenever something of it is new; the page asks for itself anew. No content goes
//! this way, and whoever looks is asked for his permission before every event.

use std::{fmt, sync::Arc, time::Duration};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use bc_protocol::id::{NodeId, TenantId};
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::{
    failure::Failure,
    operator::{Address, Asked, Operator},
};
use crate::{
    api::error::{Code, ErrorObject},
    clock::Stopwatch,
    db::Conn,
    event::{news::Reading, read::newest_position, watch::Place},
    fleet::node,
    rollout::board,
};

/// Between two events: a page that is made anew more often than this only flickers.
const PACE: Duration = Duration::from_secs(1);

/// Between looks at whether somebody is still signed in.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// Between signs of life: proxies close connections that are silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a page shows, and so what is news to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// Things of the whole tenant.
    Tenant,
    /// And what one node says from moment to moment, which is no event.
    Node(NodeId),
}

/// Everything of a tenant that pages show changes one of these. What only the lapse of time changes does not: pages ask
/// for themselves now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pulse {
    events: u64,
    rollouts: u64,
    revisions: u64,
    /// The node's newest connection, and its newest report there.
    said: Option<(u64, u64)>,
}

impl Pulse {
    /// As it is now.
    pub(super) async fn take(
        conn: &mut Conn,
        tenant: &TenantId,
        watched: &Watched,
    ) -> Result<Self, sqlx::Error> {
        let (rollouts, revisions) = board::pulse(conn, tenant).await?;
        Ok(Self {
            events: newest_position(conn, tenant).await?,
            rollouts,
            revisions,
            said: match watched {
                Watched::Tenant => None,
                Watched::Node(node) => node::newest_report(conn, tenant, node).await?,
            },
        })
    }
}

impl fmt::Display for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.events, self.rollouts, self.revisions)?;
        match self.said {
            Some((connection, report)) => write!(f, ".{connection}.{report}"),
            None => Ok(()),
        }
    }
}

impl askama::filters::HtmlSafe for Pulse {}

/// `live`
pub(super) async fn changes(
    operator: Operator,
    Address(tenant): Address<TenantId>,
    Asked(asked): Asked,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let app = operator.app();
    let permit = Arc::clone(&app.watchers).try_acquire_owned().map_err(|_| {
        ErrorObject::new(
            Code::QuotaExceeded,
            "expected fewer watchers, found as many as there may be",
        )
    })?;
    let again = headers.get("last-event-id");
    let again = again.and_then(|id| id.to_str().ok());
    let watched = asked.parsed::<NodeId>("node");
    let looks = Looks {
        watched: watched.map_or(Watched::Tenant, Watched::Node),
        reading: app.services.db.news().read(),
        stop: app.stop.clone(),
        seen: again.unwrap_or(asked.text("seen")).to_owned(),
        known: Stopwatch::start(),
        told: None,
        _place: Place::new(&app.services.metrics, permit),
        tenant,
        operator,
    };
    let events = stream::unfold(looks, |mut looks| async move {
        let stop = looks.stop.clone();
        let pulse = stop.run_until_cancelled(looks.next()).await??;
        let event = Event::default().id(&pulse).event("change").data(pulse);
        Some((Ok::<_, std::convert::Infallible>(event), looks))
    });
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    let mut answer = Sse::new(events).keep_alive(keep_alive).into_response();
    // What lies between must pass every event on at once.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    let headers = answer.headers_mut();
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// One connection.
struct Looks {
    operator: Operator,
    tenant: TenantId,
    watched: Watched,
    reading: Reading,
    stop: CancellationToken,
    seen: String,
    known: Stopwatch,
    told: Option<Stopwatch>,
    _place: Place,
}

impl Looks {
    /// As it is now. Its connection is given back at once: somebody may look for hours.
    async fn pulse(&self) -> Result<Pulse, sqlx::Error> {
        let db = &self.operator.app().services.db;
        let mut conn = db.reader().begin().await?;
        Pulse::take(&mut conn, &self.tenant, &self.watched).await
    }

    /// What is new; none when nobody may look any more, or the database fails.
    async fn next(&mut self) -> Option<String> {
        if let Some(told) = self.told {
            tokio::time::sleep(PACE.saturating_sub(told.elapsed())).await;
        }
        loop {
            let pulse = match self.pulse().await {
                Ok(pulse) => pulse.to_string(),
                Err(error) => {
                    tracing::warn!(%error, "a page is left alone: what is new cannot be read");
                    return None;
                }
            };
            let is_new = pulse != self.seen;
            if is_new || self.known.elapsed() >= KNOWN_FOR {
                if !self.operator.is_still_known().await {
                    return None;
                }
                self.known = Stopwatch::start();
            }
            if is_new {
                self.seen.clone_from(&pulse);
                self.told = Some(Stopwatch::start());
                return Some(pulse);
            }
            // A pass writes rows, and a node reports, without an event: nobody hints at it.
            drop(tokio::time::timeout(PACE, self.reading.next()).await);
        }
    }
}
