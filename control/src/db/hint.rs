//! Hints between the processes of one database.
//!
//! Takes word of what was committed, gives it to the other processes as PostgreSQL's notifications. Word is gathered while
//! the last of it is on its way, so a burst is one notification. A hint may be lost: rows are the truth, and everybody
//! looks at them again after a while. On SQLite nobody else is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bc_protocol::id::{GatewayId, NodeId};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, postgres::PgListener};
use tokio::sync::Notify;

use super::{Db, conn::Pool};

/// The channel of PostgreSQL's.
const CHANNEL: &str = "better_compute";

/// Nodes in one hint: a notification holds less than 8,000 bytes, and a node with its number takes 80.
const NODES_MAX: usize = 80;

/// What one process tells the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hint {
    /// Which process tells it.
    from: String,
    /// A pass may find something.
    #[serde(default)]
    pub wake: bool,
    /// Nodes whose desired state may be another now.
    #[serde(default)]
    pub stale: BTreeSet<NodeId>,
    /// Nodes whose commands may have changed.
    #[serde(default)]
    pub commanded: BTreeSet<NodeId>,
    /// Nodes that were removed.
    #[serde(default)]
    pub removed: BTreeSet<NodeId>,
    /// Gateways that were removed.
    #[serde(default)]
    pub retired: BTreeSet<GatewayId>,
    /// Gateways at whose links there may be nobody.
    #[serde(default)]
    pub doubted: BTreeSet<GatewayId>,
    /// Nodes with a newer session, and its counter.
    #[serde(default)]
    pub overtaken: BTreeMap<NodeId, u64>,
}

/// Where word comes in.
#[derive(Clone, Debug)]
pub(crate) struct Hints(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    process: String,
    /// Whether anybody else can be there.
    shared: bool,
    gathered: Mutex<Hint>,
    filled: Notify,
}

impl Hints {
    pub(super) fn new(shared: bool, process: String) -> Self {
        Self(Arc::new(Inner {
            process,
            shared,
            gathered: Mutex::default(),
            filled: Notify::new(),
        }))
    }

    /// Gathers word for the other processes.
    pub(crate) fn tell(&self, add: impl FnOnce(&mut Hint)) {
        if self.0.shared {
            add(&mut self.gathered());
            self.0.filled.notify_one();
        }
    }

    /// Waits for word, and gives it in pieces that fit into a notification.
    async fn gather(&self) -> Vec<Hint> {
        self.0.filled.notified().await;
        let gathered = std::mem::take(&mut *self.gathered());
        gathered.in_pieces(&self.0.process)
    }

    fn gathered(&self) -> MutexGuard<'_, Hint> {
        // No code panics in between.
        self.0
            .gathered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hint {
    fn in_pieces(self, process: &str) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut piece = Self {
            wake: self.wake,
            ..Self::default()
        };
        let mut nodes = 0;
        let mut room = |piece: &mut Self| {
            if nodes == NODES_MAX {
                nodes = 0;
                pieces.push(std::mem::take(piece));
            }
            nodes += 1;
        };
        for node in self.stale {
            room(&mut piece);
            piece.stale.insert(node);
        }
        for node in self.commanded {
            room(&mut piece);
            piece.commanded.insert(node);
        }
        for node in self.removed {
            room(&mut piece);
            piece.removed.insert(node);
        }
        for gateway in self.retired {
            room(&mut piece);
            piece.retired.insert(gateway);
        }
        for gateway in self.doubted {
            room(&mut piece);
            piece.doubted.insert(gateway);
        }
        for (node, counter) in self.overtaken {
            room(&mut piece);
            piece.overtaken.insert(node, counter);
        }
        if piece != Self::default() {
            pieces.push(piece);
        }
        for piece in &mut pieces {
            process.clone_into(&mut piece.from);
        }
        pieces
    }
}

/// What came from the other processes.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Word.
    Hint(Hint),
    /// The connection was lost, and whatever was told meanwhile.
    Missed,
}

/// Where word of the other processes comes out.
#[derive(Debug)]
pub(crate) struct Ear {
    listener: PgListener,
    process: String,
}

impl Ear {
    /// Waits for word of others.
    pub(crate) async fn next(&mut self) -> Result<Heard, sqlx::Error> {
        loop {
            let Some(told) = self.listener.try_recv().await? else {
                return Ok(Heard::Missed);
            };
            // A newer process may say what this one has never heard of.
            match serde_json::from_str::<Hint>(told.payload()) {
                Ok(hint) if hint.from == self.process => {}
                Ok(hint) => return Ok(Heard::Hint(hint)),
                Err(error) => tracing::debug!(%error, "a hint is passed over"),
            }
        }
    }
}

impl Db {
    /// Where to leave word for other processes.
    pub(crate) fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Begins to listen; none where nobody else can be there.
    pub(crate) async fn listen(&self) -> Result<Option<Ear>, sqlx::Error> {
        let Some(pool) = self.shared_pool() else {
            return Ok(None);
        };
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(CHANNEL).await?;
        let process = self.hints.0.process.clone();
        Ok(Some(Ear { listener, process }))
    }

    /// Sends word for as long as it is polled.
    pub(crate) async fn send_hints(&self) {
        let Some(pool) = self.shared_pool() else {
            return std::future::pending().await;
        };
        loop {
            for piece in self.hints.gather().await {
                if let Err(error) = notify(pool, &piece).await {
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(error, "a hint is lost");
                }
            }
        }
    }

    fn shared_pool(&self) -> Option<&PgPool> {
        match &self.writer {
            Pool::Sqlite(_) => None,
            Pool::Postgres(pool) => Some(pool),
        }
    }
}

async fn notify(pool: &PgPool, hint: &Hint) -> Result<(), sqlx::Error> {
    let text = serde_json::to_string(hint).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query("SELECT pg_notify($1, $2)")
        .bind(CHANNEL)
        .bind(text)
        .execute(pool)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bc_protocol::id::NodeId;

    use super::{Hint, NODES_MAX};

    fn node(number: u16) -> NodeId {
        NodeId::derived(&[&number.to_be_bytes()])
    }

    #[test]
    fn whatever_is_gathered_fits_into_notifications() {
        let mut hint = Hint {
            wake: true,
            ..Hint::default()
        };
        hint.stale.extend((0..250).map(node));
        hint.commanded.extend((0..250).map(node));
        hint.overtaken
            .extend((0..250).map(|number| (node(number), u64::MAX)));
        let pieces = hint.clone().in_pieces(&"x".repeat(26));
        assert_eq!(pieces.len(), 750_usize.div_ceil(NODES_MAX));
        let mut whole = Hint::default();
        for piece in pieces {
            let text = serde_json::to_string(&piece).unwrap();
            assert!(text.len() < 8_000, "{}", text.len());
            let piece: Hint = serde_json::from_str(&text).unwrap();
            whole.wake |= piece.wake;
            whole.stale.extend(piece.stale);
            whole.commanded.extend(piece.commanded);
            whole.overtaken.extend(piece.overtaken);
        }
        assert_eq!(whole, hint);
    }

    #[test]
    fn nothing_is_no_hint() {
        assert!(Hint::default().in_pieces("x").is_empty());
    }
}
