//! The other processes of one database.
//!
//! Tells them what this one has committed, hears from them, and shows that this one lives. What they say are hints: rows are
//! the truth, and every half minute they are looked at for whatever a lost hint would have told. Decides nothing. Where the
//! database is one process's own, all of it rests.

use std::{future::pending, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::Moment,
    db::hint::{Ear, Heard, Hint},
    fleet::{gateway::remove, node, process},
    metrics::Work,
    rollout::{service::Services, unread},
};

/// Between signs of life.
const BEAT: Duration = Duration::from_secs(4);

/// Between looks at what a lost hint would have told.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Before listening again after it failed.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Who was removed longer ago has been refused more than once.
const REMOVED_LATELY: Duration = Duration::from_secs(120);

/// Does all of it until it is told to stop, and takes this process out then.
pub(crate) async fn run(services: Services, stop: CancellationToken) {
    let all = async {
        tokio::join!(
            live(&services),
            services.db.send_hints(),
            listen(&services),
            look(&services)
        )
    };
    stop.run_until_cancelled(all).await;
    if let Err(error) = process::leave(&services.db).await {
        let error: &dyn std::error::Error = &error;
        tracing::debug!(error, "the others will find out that this process is gone");
    }
}

async fn live(services: &Services) {
    // After a time without the database nobody is judged by it: everybody else was cut off from it too.
    let mut judges = false;
    loop {
        tokio::time::sleep(BEAT).await;
        match process::beat(&services.db, judges).await {
            Ok(ended) => {
                judges = true;
                if ended > 0 {
                    tracing::warn!(ended, "links of a process that is gone have ended");
                    services.waker.wake();
                }
            }
            Err(error) => {
                judges = false;
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot show that this process lives");
                services.metrics.has_failed(&Work::BEAT);
            }
        }
    }
}

async fn listen(services: &Services) {
    loop {
        match services.db.listen().await {
            Ok(None) => return pending().await,
            Ok(Some(mut ear)) => {
                // Whatever was told while nobody listened.
                missed(services).await;
                let error = hear(services, &mut ear).await;
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "other processes are not heard");
                services.metrics.has_failed(&Work::PEERS);
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot listen to other processes");
                services.metrics.has_failed(&Work::PEERS);
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn hear(services: &Services, ear: &mut Ear) -> sqlx::Error {
    loop {
        match ear.next().await {
            Ok(Heard::Hint(hint)) => take(services, hint),
            Ok(Heard::Missed) => missed(services).await,
            Err(error) => return error,
        }
    }
}

/// Word goes to those who would have had it of this process. That nobody waits for it is no error.
fn take(services: &Services, hint: Hint) {
    if !hint.stale.is_empty() {
        services.stale.send(hint.stale.into_iter().collect()).ok();
    }
    if !hint.commanded.is_empty() {
        let nodes = hint.commanded.into_iter().collect();
        services.commanded.send(nodes).ok();
        // Theirs may be the next whose time is over.
        services.deadlines.wake_here();
    }
    for node in hint.removed {
        services.removed.send(node).ok();
    }
    for gateway in hint.retired {
        services.retired.send(gateway).ok();
    }
    for gateway in hint.doubted {
        services.doubted.send(gateway).ok();
    }
    for overtaken in hint.overtaken {
        services.overtaken.send(overtaken).ok();
    }
    if hint.wake {
        services.waker.wake_here();
    }
}

async fn look(services: &Services) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        missed(services).await;
    }
}

/// Finds in rows what hints would have told.
async fn missed(services: &Services) {
    if !services.db.is_shared() {
        return;
    }
    services.waker.wake_here();
    let now = Moment::now();
    match unread::nodes(&services.db, now).await {
        Ok(nodes) if nodes.is_empty() => {}
        Ok(nodes) => {
            services.stale.send(nodes.into()).ok();
        }
        Err(error) => failed(services, &error),
    }
    let lately = now.minus(REMOVED_LATELY);
    match remove::removed_since(&services.db, lately).await {
        Ok(gateways) => {
            for gateway in gateways {
                services.retired.send(gateway).ok();
            }
        }
        Err(error) => failed(services, &error),
    }
    match node::removed_since(&services.db, lately).await {
        Ok(nodes) => {
            for node in nodes {
                services.removed.send(node).ok();
            }
        }
        Err(error) => failed(services, &error),
    }
}

fn failed(services: &Services, error: &sqlx::Error) {
    services.metrics.has_failed(&Work::PEERS);
    let error: &dyn std::error::Error = error;
    tracing::warn!(error, "cannot look for what other processes did");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bc_protocol::{
        digest::Pin,
        id::{GatewayId, NodeId},
        release::Trust,
    };
    use tokio::{sync::broadcast, time::timeout};
    use tokio_util::sync::CancellationToken;

    use super::run;
    use crate::{
        db::{Db, Location, tests::place},
        rollout::service::Services,
    };

    async fn process(at: &Location) -> Services {
        let trust = Trust::new([Pin::of_spki(b"nobody's")], 1).unwrap();
        let db = Db::open(at).await.unwrap();
        Services::new(db, trust, "https://x.example", Duration::from_secs(300))
    }

    /// Says something until it is heard: who does not listen yet has missed it.
    async fn heard<T: Clone>(say: impl Fn(), by: &mut broadcast::Receiver<T>) -> T {
        for _ in 0..200 {
            say();
            if let Ok(told) = timeout(Duration::from_millis(50), by.recv()).await {
                return told.unwrap();
            }
        }
        panic!("expected word within ten seconds, found none");
    }

    #[tokio::test]
    async fn processes_of_one_database_hear_of_each_other() {
        let (location, _dir) = place().await;
        let (one, other) = (process(&location).await, process(&location).await);
        let stop = CancellationToken::new();
        let tasks = [&one, &other].map(|services| {
            let services = services.clone();
            tokio::spawn(run(services, stop.clone()))
        });
        let node = NodeId::derived(&[b"n"]);
        let mut stale = other.stale.subscribe();
        let mut removed = other.removed.subscribe();
        let gateway = GatewayId::derived(&[b"g"]);
        let mut retired = other.retired.subscribe();
        let mut overtaken = other.overtaken.subscribe();
        if one.db.is_shared() {
            let told = heard(|| one.tell_removed(&node), &mut removed).await;
            assert_eq!(told, node);
            let told = heard(|| one.tell_retired(&gateway), &mut retired).await;
            assert_eq!(told, gateway);
            let told = heard(|| one.tell_stale(vec![node.clone()]), &mut stale).await;
            assert_eq!(*told, *std::slice::from_ref(&node));
            let moved = || one.tell_overtaken([(node.clone(), 7)].into());
            assert_eq!(heard(moved, &mut overtaken).await, (node, 7));
            one.waker.wake();
            timeout(Duration::from_secs(10), other.waker.woken())
                .await
                .unwrap();
        } else {
            // A file is one process's own.
            one.tell_removed(&node);
            assert!(one.db.listen().await.unwrap().is_none());
            assert!(removed.try_recv().is_err());
        }
        stop.cancel();
        for task in tasks {
            task.await.unwrap();
        }
    }
}
