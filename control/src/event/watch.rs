//! Events as they happen, for one connection.
//!
//! Takes a scope and a position, gives the events behind it in order, for as long as somebody reads and may. It reads
//! only what the connection has room for, so a slow reader costs nothing but its place.

use std::{collections::VecDeque, sync::Arc};

use axum::response::sse;
use futures_util::{Stream, future::BoxFuture, stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{news::Reading, read::Scope};
use crate::{api::event::Event, db::Db, metrics::Metrics};

/// Events that are read at once for one connection.
const ROWS_MAX: u32 = 256;

/// What one watch needs.
pub(crate) struct Watch {
    /// Where events are.
    pub db: Db,
    /// Which of them.
    pub scope: Scope,
    /// From behind this one on.
    pub position: u64,
    /// Hints.
    pub reading: Reading,
    /// Ends every watch.
    pub stop: CancellationToken,
    /// Whether the watcher still may: asked again whenever there is something to show.
    pub may: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// Its place among the watchers.
    #[expect(dead_code, reason = "held, and given back with the watch")]
    pub place: Place,
}

/// A place among the watchers.
pub(crate) struct Place {
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    pub(crate) fn new(metrics: &Arc<Metrics>, permit: OwnedSemaphorePermit) -> Self {
        metrics.watchers.inc();
        Self {
            metrics: Arc::clone(metrics),
            _permit: permit,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.metrics.watchers.dec();
    }
}

impl Watch {
    /// The stream. It ends when the service stops, the watcher may no more, or the database fails; a reader comes again
    /// with the last id that it has seen.
    pub(crate) fn events(
        self,
    ) -> impl Stream<Item = Result<sse::Event, axum::Error>> + Send + 'static {
        let state = (self, VecDeque::new());
        stream::unfold(state, |(mut watch, mut ready)| async move {
            let stop = watch.stop.clone();
            let event = stop.run_until_cancelled(watch.next(&mut ready)).await??;
            Some((shown(&event), (watch, ready)))
        })
    }

    async fn next(&mut self, ready: &mut VecDeque<Event>) -> Option<Event> {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some(event);
            }
            let page = match self.scope.after(&self.db, self.position, ROWS_MAX).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "a watcher is sent away: events cannot be read");
                    return None;
                }
            };
            if !page.events.is_empty() && !(self.may)().await {
                return None;
            }
            self.position = page.next;
            ready.extend(page.events);
            if ready.is_empty() && !page.is_full {
                self.reading.next().await;
            }
        }
    }
}

fn shown(event: &Event) -> Result<sse::Event, axum::Error> {
    sse::Event::default()
        .id(event.position.to_string())
        .event(&event.kind)
        .json_data(event)
}
