//! What was known of nodes before facts arrived, and whose facts count.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::id::{GatewayId, NodeId, TenantId};

use super::{Applied, Session, Superseded};
use crate::db::{
    Row, Tx,
    column::{json, number, parsed},
    query,
};

/// Nodes, as they were.
#[derive(Debug)]
pub(super) struct Known(BTreeMap<NodeId, Before>);

impl Known {
    /// What is known of these nodes.
    pub(super) async fn of(
        tx: &mut Tx,
        nodes: impl Iterator<Item = &NodeId>,
    ) -> Result<Self, sqlx::Error> {
        let nodes: BTreeSet<&NodeId> = nodes.collect();
        if nodes.is_empty() {
            return Ok(Self(BTreeMap::new()));
        }
        let list =
            serde_json::to_string(&nodes).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let rows = query(KNOWN).bind(list).fetch_all(&mut **tx).await?;
        let known = rows
            .iter()
            .map(|row| Before::read(row).map(|before| (before.node.clone(), before)));
        known.collect::<Result<_, _>>().map(Self)
    }

    /// What is known of one of them, removed or not.
    pub(super) fn before(&self, node: &NodeId) -> Option<&Before> {
        self.0.get(node)
    }

    /// As [`before`](Self::before), for a fact of a session: none where that session has no say, which is noted.
    pub(super) fn admitted(&self, session: Session<'_>, applied: &mut Applied) -> Option<&Before> {
        let before = self.0.get(session.node).filter(|before| !before.removed);
        let Some(before) = before else {
            applied.strangers.insert(session.node.clone());
            return None;
        };
        if let Some(winning) = before.winner_over(session) {
            applied.superseded.push(Superseded {
                node: session.node.clone(),
                connect_seq: session.connect_seq,
                winning,
            });
            return None;
        }
        Some(before)
    }
}

const KNOWN: &str = "
    SELECT n.id, n.tenant, n.removed_at, n.labels_seq, n.set_labels, f.connect_seq, f.session_id, f.gateway_id,
           f.online, f.held,
           CASE WHEN f.trial_attempt IS NULL THEN f.version ELSE f.version_before END AS version, f.started, f.started_before, f.digest, f.attempt_id,
           f.attempt_final = 1 OR f.attempt_outcome = 'confirmed' AS attempt_ended
    FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id WHERE n.id IN (SELECT value FROM json_each($1))";

/// What was known of a node before a fact arrived.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) node: NodeId,
    pub(super) tenant: TenantId,
    pub(super) removed: bool,
    pub(super) online: bool,
    pub(super) held: bool,
    /// The start of the daemon that was known last, the one before it, and the digest of the binary that it ran.
    pub(super) started: Option<String>,
    pub(super) started_before: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) stored: Option<StoredSession>,
    pub(super) attempt: Option<(String, bool)>,
    /// What it last ran without a trial.
    pub(super) version: Option<String>,
    /// The connection whose labels are known, and what operators have set over them.
    pub(super) labels_seq: u64,
    pub(super) set_labels: BTreeMap<String, String>,
}

/// The session that counts.
#[derive(Clone, Debug)]
pub(super) struct StoredSession {
    connect_seq: u64,
    gateway: String,
    id: String,
}

impl Before {
    fn read(row: &Row) -> Result<Self, sqlx::Error> {
        let session_id: Option<String> = row.try_get("session_id")?;
        let stored = match session_id {
            None => None,
            Some(id) => Some(StoredSession {
                connect_seq: number(row, "connect_seq")?,
                gateway: row.try_get("gateway_id")?,
                id,
            }),
        };
        let attempt: Option<String> = row.try_get("attempt_id")?;
        let ended: Option<bool> = row.try_get("attempt_ended")?;
        Ok(Self {
            node: parsed(row, "id")?,
            tenant: parsed(row, "tenant")?,
            removed: row.try_get::<Option<i64>>("removed_at")?.is_some(),
            online: row.try_get::<Option<bool>>("online")?.unwrap_or(false),
            held: row.try_get::<Option<&str>>("held")?.is_some(),
            started: row.try_get("started")?,
            started_before: row.try_get("started_before")?,
            digest: row.try_get("digest")?,
            stored,
            attempt: attempt.zip(ended),
            version: row.try_get("version")?,
            labels_seq: number(row, "labels_seq")?,
            set_labels: json(row, "set_labels")?,
        })
    }

    /// Whether another gateway had the node, and does not know that it has left.
    pub(super) fn was_with_another(&self, gateway: &GatewayId) -> bool {
        let stored = self.stored.as_ref().filter(|_| self.online);
        stored.is_some_and(|stored| stored.gateway != gateway.as_str())
    }

    /// The counter of the stored session, where that beats `session`. Of two with one counter the first stays: the
    /// second is a node whose counter went back, and has to count on from there.
    fn winner_over(&self, session: Session<'_>) -> Option<u64> {
        let stored = self.stored.as_ref()?;
        let loses = stored.connect_seq > session.connect_seq
            || (stored.connect_seq == session.connect_seq && stored.id != session.id);
        loses.then_some(stored.connect_seq)
    }
}
