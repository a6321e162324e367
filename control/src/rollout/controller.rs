//! The loop that makes passes happen.
//!
//! Waits for a wake, or for the earliest moment at which a pass said that time alone would change something. A wake names
//! what has changed, and a round looks at that; every half minute a round looks at everything, for what nobody thought of.
//! One pass is one transaction; what leaves the process comes from rows that it committed. Decides nothing.

mod agenda;
mod pass;

use std::time::Duration;

use bc_protocol::id::RolloutId;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
pub(crate) use pass::pass;
pub(crate) use pass::{Passed, pass_late, pass_over};

pub(crate) use super::waker::News;
use super::{
    limits,
    service::Services,
    store::{self, StoreError},
    waker::Extent,
};
use crate::{
    clock::{Moment, Stopwatch},
    db::{contention::retried, held::one_at_a_time},
    metrics::Work,
};
use agenda::{Agenda, Queue};

/// The running controller.
#[derive(Debug)]
pub(crate) struct Controller {
    /// Ends after the stop token is cancelled, between two passes.
    pub task: JoinHandle<()>,
}

/// Starts the controller, with a look at everything: what happened while no process ran has to be caught up with.
pub(crate) fn spawn(services: Services, stop: CancellationToken) -> Controller {
    let task = tokio::spawn(async move {
        let mut agenda = Agenda::new();
        // A pass is never cut: the stop is looked at between passes.
        while !stop.is_cancelled() {
            let began = Stopwatch::start();
            let news = agenda.begin(services.waker.take(), Moment::now());
            one_at_a_time(round(&services, &mut agenda, &news)).await;
            services
                .metrics
                .round_is_over(began.elapsed(), Moment::now());
            let rest = agenda.next().since(Moment::now());
            // A deadline is in whole milliseconds: one that is due now is reached by then.
            let rest = rest.clamp(Duration::from_millis(1), limits::SAFETY_NET);
            tokio::select! {
                () = services.waker.woken() => {}
                () = tokio::time::sleep(rest) => {}
                () = stop.cancelled() => {}
            }
        }
    });
    Controller { task }
}

/// Passes over every rollout that can change. Gives the earliest deadline.
#[cfg(test)]
pub(crate) async fn pass_all(services: &Services) -> Option<Moment> {
    let mut agenda = Agenda::new();
    let news = agenda.begin(News::everything(), Moment::now());
    round(services, &mut agenda, &news).await;
    Some(agenda.next())
}

/// Passes over every rollout that the news is about or whose time has come. One that errs does not delay the others.
async fn round(services: &Services, agenda: &mut Agenda, news: &News) {
    let found = match news.extent {
        Extent::Unknown => store::active(&services.db).await,
        Extent::Named if news.nodes.is_empty() => Ok(Vec::new()),
        Extent::Named => store::active_around(&services.db, &news.nodes).await,
    };
    match found {
        Ok(found) => agenda.add(Queue::Waves, found, news),
        Err(error) => failed(services, &error, "rollouts cannot be read"),
    }
    for id in agenda.due(Queue::Waves) {
        let passed = retried(|| pass_over(services, &id, news, Moment::now)).await;
        conclude(services, (agenda, Queue::Waves), (&id, news), passed);
    }
    // After the others: what completes in their passes has late nodes at once.
    match store::late::due(&services.db, news).await {
        Ok(found) => agenda.add(Queue::Late, found, &News::default()),
        Err(error) => failed(services, &error, "late nodes cannot be looked for"),
    }
    for id in agenda.due(Queue::Late) {
        let passed = retried(|| pass_late(services, &id, Moment::now)).await;
        conclude(services, (agenda, Queue::Late), (&id, news), passed);
    }
}

/// Tells what a pass has committed, and notes its deadline.
fn conclude(
    services: &Services,
    (agenda, queue): (&mut Agenda, Queue),
    (id, news): (&RolloutId, &News),
    passed: Result<Passed, StoreError>,
) {
    match passed {
        Ok(passed) => {
            if passed.is_elsewhere() {
                agenda.keep(news);
            }
            services.tell_stale(passed.stale);
            agenda.note(queue, id, passed.next.map(|(at, _)| at));
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(rollout = %id, error, "a pass failed and changed nothing");
            services.metrics.has_failed(match queue {
                Queue::Waves => &Work::PASS,
                Queue::Late => &Work::LATE_PASS,
            });
            agenda.keep(news);
            agenda.note(queue, id, Some(Moment::now().plus(limits::PASS_AGAIN)));
        }
    }
}

fn failed(services: &Services, error: &sqlx::Error, what: &'static str) {
    services.metrics.has_failed(&Work::AGENDA);
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "{what}");
}
