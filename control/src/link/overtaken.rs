//! Ends sessions that have lost to a newer one at another process.
//!
//! Takes what other processes say of their sessions, gives the gateway here word of the one that it still holds. Where such
//! word is lost, the session's next report is answered the same way.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::{Shared, intake};
use crate::fleet::facts::Superseded;

/// Ends them as word of them comes, until it is told to stop.
pub(super) async fn close(shared: Arc<Shared>, stop: CancellationToken) {
    let mut news = shared.services.overtaken.subscribe();
    let hear = async {
        loop {
            match news.recv().await {
                Ok((node, winning)) => {
                    if let Some(displaced) = shared.routes.overtaken(&node, winning) {
                        let close = intake::close(Superseded {
                            node,
                            connect_seq: displaced.connect_seq,
                            winning: displaced.winning,
                        });
                        drop(displaced.link.try_send(close.encode()));
                    }
                }
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "word of sessions is lost")
                }
                // The process ends.
                Err(RecvError::Closed) => return,
            }
        }
    };
    stop.run_until_cancelled(hear).await;
}
