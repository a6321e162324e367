//! Ends the link of a gateway that was removed.
//!
//! Takes word of removed gateways, from here and from other processes, ends whoever acts for them. Where such word is
//! lost, the gateway's next facts are refused, and its link ends with them.

use std::sync::Arc;

use bc_protocol::id::GatewayId;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::Shared;

/// Ends them as word of them comes, until it is told to stop.
pub(super) async fn watch(
    shared: Arc<Shared>,
    mut news: Receiver<GatewayId>,
    stop: CancellationToken,
) {
    let hear = async {
        loop {
            match news.recv().await {
                Ok(gateway) => shared.turns.end(&gateway),
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "word of removed gateways is lost");
                }
                // The process ends.
                Err(RecvError::Closed) => return,
            }
        }
    };
    stop.run_until_cancelled(hear).await;
}
