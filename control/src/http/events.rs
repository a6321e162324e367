//! `events.*`

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{
        IntoResponse as _, Response,
        sse::{KeepAlive, Sse},
    },
};

use bc_protocol::id::TenantId;

use super::{
    Shared,
    caller::Caller,
    error::Refusal,
    input::Input,
    permit::EventRead,
    sight::{Wish, sight},
};
use crate::{
    api::{
        error::{Code, ErrorObject},
        event::{Events, ListEvents, WatchEvents},
    },
    event::{
        filter::Filter,
        read::{self, Scope},
        sight::Sight,
        watch::{Place, Watch},
    },
};

/// A page of this many is some hundred kilobytes.
pub(super) const EVENTS_MAX: u32 = 1000;

/// Where nothing is said.
pub(super) const EVENTS_DEFAULT: u32 = 100;

/// Between signs of life: proxies close connections that are silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<EventRead>,
    Input(request): Input<ListEvents>,
) -> Result<Json<Events>, Refusal> {
    let (filter, limit) = (filter(&request.types)?, limit(request.limit)?);
    let about = (&request.tenant_id, &filter, request.subject.as_deref());
    let sight = seen(&caller, about).await?;
    let scope = Scope {
        tenant: request.tenant_id,
        filter,
        subject: request.subject,
        sight,
    };
    let db = &app.services.db;
    let page = match request.after {
        Some(position) => scope.after(db, position, limit).await,
        None => scope.newest(db, limit).await,
    };
    let page = page.map_err(ErrorObject::from)?;
    Ok(Json(Events {
        events: page.events,
        next: page.next,
    }))
}

pub(super) async fn watch(
    State(app): State<Shared>,
    caller: Caller<EventRead>,
    headers: HeaderMap,
    Input(request): Input<WatchEvents>,
) -> Result<Response, Refusal> {
    let tenant = request.tenant_id;
    let filter = filter(&request.types)?;
    let sight = seen(&caller, (&tenant, &filter, request.subject.as_deref())).await?;
    let permit = Arc::clone(&app.watchers).try_acquire_owned().map_err(|_| {
        ErrorObject::new(
            Code::QuotaExceeded,
            "expected fewer watchers, found as many as there may be",
        )
        .with("retryAfterSeconds", HEARTBEAT.as_secs())
    })?;
    let scope = Scope {
        tenant,
        filter,
        subject: request.subject,
        sight,
    };
    let db = app.services.db.clone();
    // Before the position is read: what is committed in between is a hint that came.
    let reading = db.news().read();
    let position = match last_seen(&headers)?.or(request.after) {
        Some(position) => position,
        None => newest(&db, &scope.tenant)
            .await
            .map_err(|error| ErrorObject::internal(&error))?,
    };
    let again = Arc::new((caller, scope.clone()));
    let may = move || -> futures_util::future::BoxFuture<'static, bool> {
        let again = Arc::clone(&again);
        Box::pin(async move {
            let (caller, scope) = &*again;
            let about = (&scope.tenant, &scope.filter, scope.subject.as_deref());
            let sees = |now: Sight| now == scope.sight;
            caller.is_still_known().await && seen(caller, about).await.is_ok_and(sees)
        })
    };
    let watch = Watch {
        db,
        scope,
        position,
        reading,
        stop: app.stop.clone(),
        may: Box::new(may),
        place: Place::new(&app.services.metrics, permit),
    };
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    let mut answer = Sse::new(watch.events())
        .keep_alive(keep_alive)
        .into_response();
    // What lies between must pass every event on at once.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    let headers = answer.headers_mut();
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

async fn newest(db: &crate::db::Db, tenant: &TenantId) -> Result<u64, sqlx::Error> {
    let mut conn = db.reader().begin().await?;
    read::newest_position(&mut conn, tenant).await
}

/// What the caller sees of the events that he asks for.
async fn seen(
    caller: &Caller<EventRead>,
    (tenant, filter, subject): (&TenantId, &Filter, Option<&str>),
) -> Result<Sight, ErrorObject> {
    let wish = Wish {
        tenant,
        filter,
        subject,
    };
    sight(caller.app(), caller.subject(), wish).await
}

fn filter(types: &[String]) -> Result<Filter, ErrorObject> {
    Filter::asked(types).map_err(|error| ErrorObject::invalid("types", error))
}

/// How many of something are wanted.
pub(super) fn limit(wanted: Option<u32>) -> Result<u32, ErrorObject> {
    match wanted {
        None => Ok(EVENTS_DEFAULT),
        Some(limit @ 1..=EVENTS_MAX) => Ok(limit),
        Some(found) => Err(ErrorObject::invalid(
            "limit",
            format!("expected 1 to {EVENTS_MAX}, found {found}"),
        )),
    }
}

/// The position that the watcher has seen last, where he comes again.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, ErrorObject> {
    let Some(id) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let position = id.to_str().ok().and_then(|id| id.parse().ok());
    position.map(Some).ok_or_else(|| {
        ErrorObject::invalid(
            "Last-Event-ID",
            "expected the id of an event of this stream, found another text",
        )
    })
}
