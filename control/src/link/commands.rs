//! Sends commands down one link.
//!
//! Takes the news of nodes whose commands or desired state may have changed and the link's newcomers; gives each what its
//! rows say at that moment. One link's slowness is its own: every link has its commander.

use std::sync::Arc;

use bc_protocol::{id::NodeId, link::FromControl};
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
    limits::{COMMAND_CHUNK, COMMAND_LOOK, PUSH_RETRY},
    push::Closed,
    routes::LinkKey,
    wanted::Wanted,
};
use crate::{command::dispatch, metrics::Work};

/// One link's commander.
pub(super) struct Commander<'a> {
    pub(super) shared: &'a Shared,
    pub(super) link: LinkKey,
    pub(super) wanted: &'a Wanted,
    pub(super) commanded: broadcast::Receiver<Arc<[NodeId]>>,
    pub(super) stale: broadcast::Receiver<Arc<[NodeId]>>,
    pub(super) out: mpsc::Sender<Bytes>,
}

/// What a piece of news is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Commands,
    /// Of interest where upgrades are commands.
    DesiredState,
}

impl Commander<'_> {
    /// Sends until the link takes no more.
    pub(super) async fn run(mut self) -> Closed {
        let mut failed: Vec<NodeId> = Vec::new();
        let mut retry_at = Instant::now();
        let mut look_at = Instant::now() + COMMAND_LOOK;
        loop {
            self.hear_all();
            let nodes = self.wanted.take(COMMAND_CHUNK);
            if nodes.is_empty() {
                tokio::select! {
                    news = self.commanded.recv() => self.hear(About::Commands, news),
                    news = self.stale.recv() => self.hear(About::DesiredState, news),
                    () = self.wanted.filled() => {}
                    () = sleep_until(look_at) => {
                        look_at = Instant::now() + COMMAND_LOOK;
                        self.look().await;
                    }
                    () = sleep_until(retry_at), if !failed.is_empty() => {
                        self.wanted.listed(std::mem::take(&mut failed));
                    }
                }
                continue;
            }
            for node in nodes {
                match self.send(&node).await {
                    Ok(Sent::All) => {}
                    Ok(Sent::NotYet) => {
                        failed.push(node);
                        retry_at = Instant::now() + PUSH_RETRY;
                    }
                    Err(closed) => return closed,
                }
            }
        }
    }

    /// Takes all news that has come already.
    fn hear_all(&mut self) {
        for about in [About::Commands, About::DesiredState] {
            loop {
                let news = match about {
                    About::Commands => self.commanded.try_recv(),
                    About::DesiredState => self.stale.try_recv(),
                };
                match news {
                    Ok(nodes) => self.hear(about, Ok(nodes)),
                    Err(TryRecvError::Lagged(missed)) => {
                        self.hear(about, Err(RecvError::Lagged(missed)));
                    }
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
        }
    }

    fn hear(&self, about: About, news: Result<Arc<[NodeId]>, RecvError>) {
        let (routes, link) = (&self.shared.routes, self.link);
        match news {
            Ok(nodes) => {
                let here = nodes.iter().filter(|node| match about {
                    About::Commands => routes.leads_to(link, node),
                    About::DesiredState => routes.takes_upgrades(link, node),
                });
                self.wanted.news(here.cloned());
            }
            // Some were missed, nobody knows which.
            Err(RecvError::Lagged(_)) => self.wanted.listed(routes.everybody_on(link)),
            // The process ends.
            Err(RecvError::Closed) => {}
        }
    }

    /// Looks for commands that wait and that nobody told this process of.
    async fn look(&self) {
        match dispatch::waiting(&self.shared.services.db).await {
            Ok(nodes) => {
                let routes = &self.shared.routes;
                let here = nodes
                    .into_iter()
                    .filter(|node| routes.leads_to(self.link, node));
                self.wanted.listed(here);
            }
            Err(error) => {
                tracing::error!(%error, "waiting commands cannot be looked for");
                self.shared.services.metrics.has_failed(&Work::DISPATCH);
            }
        }
    }

    async fn send(&self, node: &NodeId) -> Result<Sent, Closed> {
        if !self.shared.routes.leads_to(self.link, node) {
            return Ok(Sent::All);
        }
        match dispatch::for_session(&self.shared.services, node).await {
            Ok(commands) => {
                for command in commands {
                    let frame = FromControl::Command(command).encode();
                    self.out.send(frame).await.map_err(|_| Closed)?;
                }
                Ok(Sent::All)
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(%node, error, "commands cannot be dispatched");
                self.shared.services.metrics.has_failed(&Work::DISPATCH);
                Ok(Sent::NotYet)
            }
        }
    }
}

/// Whether a node has what it is to have.
enum Sent {
    All,
    NotYet,
}
