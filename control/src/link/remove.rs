//! Tells one gateway which nodes it is to refuse.
//!
//! Takes the news of removed nodes as it comes, gives it to the link at once. Where some news was missed, the whole
//! list goes down again.

use bc_protocol::{
    id::{GatewayId, NodeId},
    link::FromControl,
};
use bytes::Bytes;
use tokio::sync::{
    broadcast::{self, error::RecvError},
    mpsc,
};

use super::{Shared, connection::LinkError};
use crate::fleet::node;

/// One link's teller.
pub(super) struct Remover<'a> {
    pub(super) shared: &'a Shared,
    pub(super) gateway: &'a GatewayId,
    pub(super) news: broadcast::Receiver<NodeId>,
    pub(super) out: mpsc::Sender<Bytes>,
}

impl Remover<'_> {
    /// Tells until the link takes no more.
    pub(super) async fn run(mut self) -> Result<(), LinkError> {
        loop {
            let removed = match self.news.recv().await {
                Ok(node) => vec![node],
                Err(RecvError::Lagged(_)) => self.all().await?,
                // The process ends, and the link with it.
                Err(RecvError::Closed) => return std::future::pending().await,
            };
            let frame = FromControl::Removed(removed).encode();
            if self.out.send(frame).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn all(&self) -> Result<Vec<NodeId>, LinkError> {
        let all = node::removed(&self.shared.services.db).await;
        all.map_err(|source| LinkError::Sql {
            gateway: self.gateway.clone(),
            source,
        })
    }
}
