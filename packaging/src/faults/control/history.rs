//! What the database has seen: every move of a row, a rollout and a place, with its transaction and its time.
//!
//! Takes what triggers of a database of our own wrote down. Judges nothing.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cluster::Cluster;

/// The database of a campaign.
pub(super) const DATABASE: &str = "struck";

/// One thing that happened, as it was committed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Entry {
    /// Grows with every entry. Of two transactions that wait for each other, the first one's are smaller.
    pub(super) number: i64,
    /// Its transaction.
    pub(super) tx: i64,
    /// When, in milliseconds since 1970.
    pub(super) at: i64,
    /// What.
    #[serde(flatten)]
    pub(super) what: What,
}

/// What happened.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(super) enum What {
    /// A row of a rollout came, or has another state.
    Row(Move),
    /// A late row came, or has another state or attempt.
    Late(Move),
    /// A rollout came or changed.
    Head {
        rollout: String,
        was: Option<Head>,
        now: Head,
    },
    /// An event was written.
    Event {
        position: i64,
        kind: String,
        subject: String,
    },
    /// A pool's places at a COMMIT that changed them.
    Places(Places),
    /// A wave's counters and rows disagreed at a COMMIT.
    Miscount {
        rollout: String,
        wave: i64,
        said: String,
        counted: String,
    },
}

/// A row that moved.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Move {
    pub(super) rollout: String,
    pub(super) node: String,
    pub(super) pool: String,
    /// None of a late row.
    pub(super) wave: Option<i64>,
    /// None of a row that came.
    pub(super) was: Option<String>,
    pub(super) now: String,
}

/// How a rollout stood.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Head {
    pub(super) state: String,
    pub(super) wave: i64,
    pub(super) revision: i64,
    /// Between waves, in milliseconds.
    pub(super) soak: i64,
    /// When the wave's last node settled.
    pub(super) settled: Option<i64>,
}

/// A pool's counters, and what they count.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Places {
    pub(super) pool: String,
    pub(super) disrupted: i64,
    pub(super) counted: i64,
    pub(super) nodes: i64,
    pub(super) counted_nodes: i64,
    /// In parts per million.
    pub(super) budget: i64,
}

/// Has everything written down from now on.
pub(super) async fn begin(cluster: &Cluster) -> Result<()> {
    cluster.sql(DATABASE, include_str!("history.sql")).await?;
    Ok(())
}

/// Takes what was written down so far out of the database.
pub(super) async fn take(cluster: &Cluster) -> Result<Vec<Entry>> {
    let taken = "WITH gone AS (DELETE FROM witness.history RETURNING *)
        SELECT coalesce(json_agg(body || jsonb_build_object('number', number, 'tx', tx, 'at', at) ORDER BY number), '[]')
        FROM gone";
    let taken = cluster.sql(DATABASE, taken).await?;
    serde_json::from_str(&taken).context("the database's history")
}
