//! Reads events in their order.
//!
//! Takes a tenant and a position, gives what comes behind it, as committed. Positions become visible in order, so a
//! reader that goes on where it stopped misses none. It writes nothing.

use bc_protocol::id::TenantId;

use super::{
    filter::Filter,
    sight::{Judge, ReadError, Seen, Sight},
};
use crate::{
    api::event::Event,
    db::{
        Conn, Db, Row,
        column::{json, moment, number, parsed, signed},
        query, query_scalar,
    },
};

/// Whose events, and which of them.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Whose.
    pub tenant: TenantId,
    /// Which types.
    pub filter: Filter,
    /// About what.
    pub subject: Option<String>,
    /// What of them whoever reads may see.
    pub sight: Sight,
}

/// A piece of the sequence.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// What the scope wants of it.
    pub events: Vec<Event>,
    /// The last position that was looked at.
    pub next: u64,
    /// Whether it was as long as it may be: there may be more.
    pub is_full: bool,
}

impl Page {
    fn has(&self, rows: u32) -> bool {
        u32::try_from(self.events.len()).is_ok_and(|found| found >= rows)
    }
}

/// How many rows to look at, one look after the other: as many as are asked for, which does where all are wanted, and then
/// many at once, until a question has cost enough.
fn looks(rows: u32) -> impl Iterator<Item = u32> {
    const FURTHER: usize = 20;
    const FURTHER_ROWS: u32 = 1000;
    std::iter::once(rows).chain(std::iter::repeat_n(FURTHER_ROWS, FURTHER))
}

impl Scope {
    /// The next `rows` events behind a position that the scope wants; fewer where it would have to look at too many others.
    pub(crate) async fn after(&self, db: &Db, position: u64, rows: u32) -> Result<Page, ReadError> {
        let mut page = Page {
            events: Vec::new(),
            next: position,
            is_full: true,
        };
        let mut judge = Judge::new(&self.sight);
        for size in looks(rows) {
            let found = query(
                "SELECT * FROM events WHERE tenant = $1 AND position > $2 ORDER BY position LIMIT $3",
            )
            .bind(self.tenant.as_str())
            .bind(signed(page.next))
            .bind(size)
            .fetch_all(db.reader())
            .await?;
            judge.learn(db, &found).await?;
            for row in &found {
                if page.has(rows) {
                    return Ok(page);
                }
                match self.wants(row, &mut judge).await? {
                    Seen::Yes => page.events.push(read(row)?),
                    Seen::No => {}
                    Seen::Unasked => return Ok(page),
                }
                page.next = number(row, "position")?;
            }
            if u32::try_from(found.len()).is_ok_and(|found| found < size) {
                page.is_full = false;
                break;
            }
            if page.has(rows) {
                break;
            }
        }
        Ok(page)
    }

    /// The newest `rows` events that the scope wants, oldest of them first; fewer where it would have to look at too many
    /// others.
    pub(crate) async fn newest(&self, db: &Db, rows: u32) -> Result<Page, ReadError> {
        let mut page = Page {
            events: Vec::new(),
            next: 0,
            is_full: false,
        };
        let mut judge = Judge::new(&self.sight);
        let mut before = i64::MAX;
        for size in looks(rows) {
            let found = query(
                "SELECT * FROM events WHERE tenant = $1 AND position < $2 AND ($3 = '' OR subject = $3)
                 ORDER BY position DESC LIMIT $4",
            )
            .bind(self.tenant.as_str())
            .bind(before)
            .bind(self.subject.as_deref().unwrap_or_default())
            .bind(size)
            .fetch_all(db.reader())
            .await?;
            judge.learn(db, &found).await?;
            for row in &found {
                if page.has(rows) {
                    break;
                }
                let position = number(row, "position")?;
                page.next = page.next.max(position);
                before = signed(position);
                match self.wants(row, &mut judge).await? {
                    Seen::Yes => page.events.push(read(row)?),
                    Seen::No => {}
                    Seen::Unasked => {
                        page.events.reverse();
                        return Ok(page);
                    }
                }
            }
            if page.has(rows) || u32::try_from(found.len()).is_ok_and(|found| found < size) {
                break;
            }
        }
        page.events.reverse();
        Ok(page)
    }

    async fn wants(&self, row: &Row, judge: &mut Judge<'_>) -> Result<Seen, ReadError> {
        let kind: &str = row.try_get("type")?;
        let subject: &str = row.try_get("subject")?;
        let about = self.subject.as_ref().is_none_or(|wanted| wanted == subject);
        if !about || !self.filter.wants(kind) {
            return Ok(Seen::No);
        }
        judge.sees(kind, subject).await
    }
}

/// The position of the tenant's newest event; 0 where there is none.
pub(crate) async fn newest_position(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<u64, sqlx::Error> {
    let newest: Option<i64> = query_scalar(
        "SELECT position FROM events WHERE tenant = $1 ORDER BY position DESC LIMIT 1",
    )
    .bind(tenant.as_str())
    .fetch_optional(conn)
    .await?;
    Ok(newest
        .and_then(|newest| newest.try_into().ok())
        .unwrap_or(0))
}

/// A row of `events`.
pub(crate) fn read(row: &Row) -> Result<Event, sqlx::Error> {
    Ok(Event {
        id: parsed(row, "id")?,
        position: number(row, "position")?,
        kind: row.try_get("type")?,
        subject: row.try_get("subject")?,
        tenant_id: parsed(row, "tenant")?,
        actor: row.try_get("actor")?,
        at: moment(row, "at")?,
        request_id: row.try_get("request")?,
        data: json(row, "data")?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Filter, Scope, Sight, newest_position};
    use crate::{
        clock::Moment,
        db::{Db, tests::fresh},
        event::{
            outbox::{Draft, publish},
            sight::Kin,
        },
    };

    fn scope(tenant: &str, types: &[&str], sight: Sight) -> Scope {
        let types: Vec<String> = types.iter().map(|&text| text.to_owned()).collect();
        Scope {
            tenant: tenant.parse().unwrap(),
            filter: Filter::parse(&types).unwrap(),
            subject: None,
            sight,
        }
    }

    fn member() -> Sight {
        Sight::of([Kin::Pool].into(), None)
    }

    async fn happens(db: &Db, tenant: &str, kinds: &[&'static str]) {
        let tenant = tenant.parse().unwrap();
        let mut tx = db.begin().await.unwrap();
        for kind in kinds {
            let draft = Draft {
                kind,
                subject: "node/x".to_owned(),
                tenant: &tenant,
                actor: "alice",
                data: serde_json::json!({ "n": 1 }),
            };
            publish(&mut tx, draft, Moment::from_millis(1_700_000_000_000));
        }
        tx.commit().await.unwrap();
    }

    // I31
    #[tokio::test]
    async fn a_tenant_reads_its_own_events_and_goes_on_where_it_stopped() {
        let (db, _dir) = fresh().await;
        happens(&db, "acme", &["node.online", "token.created"]).await;
        happens(&db, "other", &["node.online"; 3]).await;
        happens(&db, "acme", &["node.offline"]).await;
        let all = scope("acme", &[], Sight::everything());
        let page = all.after(&db, 0, 2).await.unwrap();
        assert_eq!((page.events.len(), page.next, page.is_full), (2, 2, true));
        let page = all.after(&db, page.next, 2).await.unwrap();
        assert_eq!((page.events.len(), page.next, page.is_full), (1, 6, false));
        assert_eq!(page.events[0].kind, "node.offline");
        let member = scope("acme", &[], member());
        assert_eq!(member.after(&db, 0, 10).await.unwrap().events.len(), 2);
        let some = scope("acme", &["token.*"], Sight::everything());
        let page = some.after(&db, 0, 10).await.unwrap();
        assert_eq!((page.events.len(), page.next), (1, 6));
        // As many as are asked for, though others lie between.
        let page = some.after(&db, 0, 1).await.unwrap();
        assert_eq!((page.events.len(), page.next, page.is_full), (1, 2, true));
        let page = some.after(&db, page.next, 1).await.unwrap();
        assert_eq!((page.events.len(), page.next, page.is_full), (0, 6, false));
        let newest = some.newest(&db, 1).await.unwrap();
        assert_eq!((newest.events.len(), newest.next), (1, 6));
        let newest = all.newest(&db, 2).await.unwrap();
        let kinds: Vec<&str> = newest
            .events
            .iter()
            .map(|event| event.kind.as_str())
            .collect();
        assert_eq!(
            (kinds, newest.next),
            (vec!["token.created", "node.offline"], 6)
        );
        let mut conn = db.reader().begin().await.unwrap();
        assert_eq!(
            newest_position(&mut conn, &"acme".parse().unwrap())
                .await
                .unwrap(),
            6
        );
        assert_eq!(
            newest_position(&mut conn, &"none".parse().unwrap())
                .await
                .unwrap(),
            0
        );
    }
}
