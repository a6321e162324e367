//! The schema's history, in the order in which it is applied.
//!
//! Takes nothing, gives the list. It only grows at its end: what has been released is never edited.

use std::borrow::Cow;

use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

const HISTORY: &[(&str, &str)] = &[
    (
        "fleet/0001_fleet",
        include_str!("migrations/sqlite/fleet/0001_fleet.sql"),
    ),
    (
        "rollout/0001_rollouts",
        include_str!("migrations/sqlite/rollout/0001_rollouts.sql"),
    ),
    (
        "fleet/0002_labels",
        include_str!("migrations/sqlite/fleet/0002_labels.sql"),
    ),
    (
        "event/0001_webhooks",
        include_str!("migrations/sqlite/event/0001_webhooks.sql"),
    ),
];

/// How many there are.
pub(super) fn count() -> usize {
    HISTORY.len()
}

/// Every migration, numbered by its place.
pub(super) fn sqlite() -> Migrator {
    let numbered = (1_i64..).zip(HISTORY);
    let migrations = numbered.map(|(number, &(name, sql))| {
        let sql = sql.into_sql_str();
        Migration::new(
            number,
            Cow::Borrowed(name),
            MigrationType::Simple,
            sql,
            false,
        )
    });
    Migrator::with_migrations(migrations.collect())
}
