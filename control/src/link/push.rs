//! Pushes specs down one link.
//!
//! Takes the controller's news of stale nodes and the link's newcomers, gives each its spec as computed at that
//! moment. One link's slowness is its own: every link has its pusher.

use std::sync::Arc;

use bc_protocol::{
    id::NodeId,
    link::{FromControl, SpecPush},
    spec::NodeSpec,
};
use bytes::Bytes;
use tokio::{
    sync::{
        broadcast::{
            self,
            error::{RecvError, TryRecvError},
        },
        mpsc,
    },
    time::{Instant, sleep_until},
};

use super::{
    Shared,
    limits::{PUSH_CHUNK, PUSH_RETRY},
    routes::LinkKey,
    wanted::Wanted,
};
use crate::{
    metrics::Work,
    rollout::service::Services,
    spec::store::{SpecError, changed_all, current, current_all},
};

/// One link's pusher.
pub(super) struct Pusher<'a> {
    pub(super) shared: &'a Shared,
    pub(super) link: LinkKey,
    pub(super) wanted: &'a Wanted,
    pub(super) stale: broadcast::Receiver<Arc<[NodeId]>>,
    pub(super) out: mpsc::Sender<Bytes>,
}

/// The link does not take frames any more.
#[derive(Debug)]
pub(super) struct Closed;

/// What a pusher was told of nodes.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// That they are there.
    Nothing,
    /// That their desired state is another.
    OfChanges,
}

impl Pusher<'_> {
    /// Pushes until the link takes no more.
    pub(super) async fn run(mut self) -> Closed {
        let mut failed: Vec<NodeId> = Vec::new();
        let mut retry_at = Instant::now();
        loop {
            self.hear_all();
            let news = self.wanted.take_news(PUSH_CHUNK);
            let (nodes, told) = if news.is_empty() {
                (self.wanted.take(PUSH_CHUNK), Told::Nothing)
            } else {
                (news, Told::OfChanges)
            };
            if nodes.is_empty() {
                tokio::select! {
                    news = self.stale.recv() => self.hear(news),
                    () = self.wanted.filled() => {}
                    () = sleep_until(retry_at), if !failed.is_empty() => {
                        self.wanted.listed(std::mem::take(&mut failed));
                    }
                }
                continue;
            }
            match self.push(nodes, told).await {
                Ok(again) if again.is_empty() => {}
                Ok(again) => {
                    failed.extend(again);
                    retry_at = Instant::now() + PUSH_RETRY;
                }
                Err(closed) => return closed,
            }
        }
    }

    /// Takes all news that has come already.
    fn hear_all(&mut self) {
        loop {
            match self.stale.try_recv() {
                Ok(nodes) => self.hear(Ok(nodes)),
                Err(TryRecvError::Lagged(missed)) => self.hear(Err(RecvError::Lagged(missed))),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn hear(&self, news: Result<Arc<[NodeId]>, RecvError>) {
        match news {
            Ok(nodes) => {
                let here = nodes
                    .iter()
                    .filter(|node| self.shared.routes.takes_specs(self.link, node));
                self.wanted.news(here.cloned());
            }
            // Some were missed, nobody knows which.
            Err(RecvError::Lagged(_)) => {
                self.wanted.listed(self.shared.routes.all_on(self.link));
            }
            // The process ends.
            Err(RecvError::Closed) => {}
        }
    }

    /// Pushes these, and gives those whose spec could not be computed.
    async fn push(&self, nodes: Vec<NodeId>, told: Told) -> Result<Vec<NodeId>, Closed> {
        let Services {
            db,
            trust,
            downloads_url,
            ..
        } = &self.shared.services;
        let mut nodes = nodes;
        nodes.retain(|node| self.shared.routes.takes_specs(self.link, node));
        let specs = match told {
            Told::Nothing => current_all(db, &nodes, (trust, downloads_url)).await,
            Told::OfChanges => changed_all(db, &nodes, (trust, downloads_url)).await,
        };
        match specs {
            Ok(specs) => {
                for (node, spec) in specs {
                    self.send(node, spec).await?;
                }
                Ok(Vec::new())
            }
            // One of them must not keep the others from theirs.
            Err(error) => {
                tell(&error);
                self.push_each(nodes).await
            }
        }
    }

    async fn push_each(&self, nodes: Vec<NodeId>) -> Result<Vec<NodeId>, Closed> {
        let services = &self.shared.services;
        let mut failed = Vec::new();
        for node in nodes {
            let url = &services.downloads_url;
            match current(&services.db, &node, &services.trust, url).await {
                Ok(Some(spec)) => self.send(node, spec).await?,
                // Removed since: it is not to have one.
                Ok(None) => {}
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(%node, error, "a spec cannot be computed");
                    services.metrics.has_failed(&Work::SPEC);
                    failed.push(node);
                }
            }
        }
        Ok(failed)
    }

    async fn send(&self, node: NodeId, spec: NodeSpec) -> Result<(), Closed> {
        let push = FromControl::Spec(SpecPush { node, spec });
        self.out.send(push.encode()).await.map_err(|_| Closed)
    }
}

fn tell(error: &SpecError) {
    let error: &dyn std::error::Error = error;
    tracing::debug!(error, "specs are computed one by one");
}
