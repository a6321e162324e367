//! Folds SQLite's log into its file while nobody waits.
//!
//! By itself SQLite does that in whichever commit makes the log a thousand pages long, and that one, with everybody behind it,
//! waits for the file too: a pass that moves a thousand nodes is more than that. Here another connection does it, a moment
//! after a commit that left enough to fold. What it never gets done because somebody always writes, SQLite still does itself,
//! once the log is long.

use std::{sync::Arc, time::Duration};

use sqlx::SqlitePool;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Between a commit and the look at what it left: so much of what is written comes together, and is written to the file once.
const GATHERED_FOR: Duration = Duration::from_millis(250);

/// Pages that are worth two flushes.
const WORTHWHILE: i64 = 1_000;

/// Folds for as long as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Folding {
    pool: SqlitePool,
    written: Written,
    _task: Arc<AbortOnDropHandle<()>>,
}

/// Where word of commits goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<Notify>);

impl Written {
    /// Something was committed.
    pub(super) fn tell(&self) {
        self.0.notify_one();
    }
}

impl Folding {
    /// By a connection of this pool.
    pub(super) fn begin(pool: SqlitePool) -> Self {
        let written = Written::default();
        let (own, told) = (pool.clone(), written.clone());
        let task = tokio::spawn(async move {
            while !own.is_closed() {
                told.0.notified().await;
                tokio::time::sleep(GATHERED_FOR).await;
                if let Err(error) = fold(&own).await {
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(error, "the log is not folded into its file now");
                }
            }
        });
        Self {
            pool,
            written,
            _task: Arc::new(AbortOnDropHandle::new(task)),
        }
    }

    /// Where to tell of commits.
    pub(super) fn written(&self) -> Written {
        self.written.clone()
    }

    /// Waits for what is under way.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Folds what is in the log, if that is worthwhile. Waits for nobody. Gives how many of its pages are in the file.
async fn fold(pool: &SqlitePool) -> Result<i64, sqlx::Error> {
    let (log, folded) = pages(pool, "PRAGMA wal_checkpoint(NOOP)").await?;
    if log.saturating_sub(folded) < WORTHWHILE {
        return Ok(folded);
    }
    let (_, folded) = pages(pool, "PRAGMA wal_checkpoint(PASSIVE)").await?;
    Ok(folded)
}

/// Pages of the log, and those of them that are in the file.
async fn pages(pool: &SqlitePool, asked: &'static str) -> Result<(i64, i64), sqlx::Error> {
    let (_, log, folded): (i64, i64, i64) = sqlx::query_as(asked).fetch_one(pool).await?;
    Ok((log, folded))
}

#[cfg(test)]
mod tests {
    use super::{WORTHWHILE, fold, pages};
    use crate::db::sqlite;

    #[tokio::test]
    async fn a_long_log_is_folded_and_a_short_one_left() {
        let dir = tempfile::tempdir().unwrap();
        let opened = sqlite::open(&dir.path().join("control.db")).await.unwrap();
        let (writer, folder) = (opened.writer, opened.folder);
        pages(&folder, "PRAGMA wal_checkpoint(TRUNCATE)")
            .await
            .unwrap();
        for (bytes, is_folded) in [(1_000_i64, false), (2 * 4096 * WORTHWHILE, true)] {
            sqlx::query("INSERT INTO agreements (name, value) VALUES ($1, hex(zeroblob($2)))")
                .bind(bytes.to_string())
                .bind(bytes)
                .execute(&writer)
                .await
                .unwrap();
            let folded = fold(&folder).await.unwrap();
            let (log, _) = pages(&folder, "PRAGMA wal_checkpoint(NOOP)").await.unwrap();
            assert_eq!(
                (folded == log, log > 0),
                (is_folded, true),
                "{folded} of {log}"
            );
        }
    }
}
