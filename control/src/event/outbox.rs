//! Writes events.
//!
//! Takes a transaction and a draft, gives the event the next position. The position comes from a counter row that the
//! transaction holds until its end, so positions become visible in order and a reader that resumes misses none.
//! Sends nothing: readers find committed rows.

use bc_protocol::id::{EventId, TenantId};
use serde_json::Value;

use super::{cause, kinds};
use crate::{
    chance,
    clock::Moment,
    db::{Tx, contention::is_alone, query},
};

/// An event that is about to be written.
#[derive(Clone, Debug)]
pub(crate) struct Draft<'a> {
    /// What kind of thing happened, such as `rollout.started`.
    pub kind: &'static str,
    /// To what, such as `rollout/<id>`.
    pub subject: String,
    /// Whose it is.
    pub tenant: &'a TenantId,
    /// Who caused it.
    pub actor: &'a str,
    /// The particulars.
    pub data: Value,
}

/// The actor of what control does by itself.
pub(crate) const CONTROL: &str = "control";

/// Writes one event, when everything else in its transaction is written: whoever publishes waits for the one row that
/// counts positions. Gives the event's id.
pub(crate) fn publish(tx: &mut Tx, draft: Draft<'_>, now: Moment) -> EventId {
    debug_assert!(kinds::any(|kind| kind == draft.kind), "{}", draft.kind);
    let id = EventId::random(now.unix_ms(), chance::bits());
    let insert = if is_alone(tx) {
        tx.at_last(query(COUNT));
        query(INSERT)
    } else {
        query(COUNT_AND_INSERT)
    };
    tx.at_last(
        insert
            .bind(id.as_str())
            .bind(draft.kind)
            .bind(draft.subject)
            .bind(draft.tenant.as_str())
            .bind(draft.actor)
            .bind(draft.data.to_string())
            .bind(now.millis())
            .bind(cause::request()),
    );
    id
}

macro_rules! count {
    () => {
        "INSERT INTO counters (name, value) VALUES ('events', 1)
         ON CONFLICT (name) DO UPDATE SET value = counters.value + 1"
    };
}

macro_rules! insert {
    () => {
        "INSERT INTO events (position, id, type, subject, tenant, actor, data, at, request)
         SELECT c.value, $1, $2, $3, $4, $5, $6, $7, $8 FROM "
    };
}

const COUNT: &str = count!();

const INSERT: &str = concat!(insert!(), "counters c WHERE c.name = 'events'");

/// Both at once: whoever waits for the counter waits for one way to the server less.
const COUNT_AND_INSERT: &str = concat!(
    "WITH c AS (",
    count!(),
    " RETURNING value) ",
    insert!(),
    "c"
);

#[cfg(test)]
mod tests {
    use super::{CONTROL, Draft, publish};
    use crate::{
        clock::Moment,
        db::{query_scalar, tests::fresh},
    };

    fn draft(tenant: &bc_protocol::id::TenantId) -> Draft<'_> {
        Draft {
            kind: "node.online",
            subject: "node/x".to_owned(),
            tenant,
            actor: CONTROL,
            data: serde_json::json!({}),
        }
    }

    // I30
    #[tokio::test]
    async fn positions_have_no_gap_where_a_transaction_was_given_up() {
        let (db, _dir) = fresh().await;
        let tenant = "root".parse().unwrap();
        let now = Moment::from_millis(1_700_000_000_000);
        for kept in [true, false, true] {
            let mut tx = db.begin().await.unwrap();
            publish(&mut tx, draft(&tenant), now);
            publish(&mut tx, draft(&tenant), now);
            if kept {
                tx.commit().await.unwrap();
            }
        }
        let positions: Vec<i64> = query_scalar("SELECT position FROM events ORDER BY position")
            .fetch_all(db.reader())
            .await
            .unwrap();
        assert_eq!(positions, [1, 2, 3, 4]);
    }
}
