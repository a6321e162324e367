//! The schema's history, in the order in which it is applied.
//!
//! Takes nothing, gives the list for either database: the same tables and columns under the same numbers. It only grows
//! at its end: what has been released is never edited.

use std::borrow::Cow;

use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

/// One step, as either database is told it.
struct Step {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! step {
    ($name:literal) => {
        Step {
            name: $name,
            sqlite: include_str!(concat!("migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("migrations/postgres/", $name, ".sql")),
        }
    };
}

const HISTORY: &[Step] = &[
    step!("fleet/0001_fleet"),
    step!("rollout/0001_rollouts"),
    step!("fleet/0002_labels"),
    step!("event/0001_webhooks"),
    step!("fleet/0003_processes"),
    step!("rollout/0002_late"),
    step!("command/0001_commands"),
    step!("rollout/0003_waiting"),
    step!("fleet/0004_duplicates"),
    step!("event/0002_requests"),
    step!("rollout/0004_rows"),
    step!("rollout/0005_packs"),
    step!("access/0001_sessions"),
    step!("rollout/0006_troubles"),
    step!("access/0002_tokens"),
    step!("fleet/0005_removed_gateways"),
    step!("rollout/0007_paused"),
    step!("fleet/0006_attempts_told"),
    step!("fleet/0007_link_process"),
];

/// How many there are.
pub(super) fn count() -> usize {
    HISTORY.len()
}

/// Every migration for SQLite, numbered by its place.
pub(super) fn sqlite() -> Migrator {
    first(count(), |step| step.sqlite)
}

/// Every migration for PostgreSQL, under the same numbers.
pub(super) fn postgres() -> Migrator {
    first(count(), |step| step.postgres)
}

/// The schema as it was before the last steps, which tests of them begin with.
#[cfg(test)]
pub(super) fn without_last(steps: usize) -> [Migrator; 2] {
    let kept = count() - steps;
    [
        first(kept, |step| step.sqlite),
        first(kept, |step| step.postgres),
    ]
}

fn first(steps: usize, text: impl Fn(&Step) -> &'static str) -> Migrator {
    let numbered = (1_i64..).zip(HISTORY).take(steps);
    let migrations = numbered.map(|(number, step)| {
        Migration::new(
            number,
            Cow::Borrowed(step.name),
            MigrationType::Simple,
            text(step).into_sql_str(),
            false,
        )
    });
    Migrator::with_migrations(migrations.collect())
}
