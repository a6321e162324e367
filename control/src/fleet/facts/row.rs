//! The statements that write what nodes say, of many at once. Each carries its own condition, so that it is right whatever
//! was read before it.

use std::collections::BTreeMap;

use bc_protocol::{id::NodeId, session::Facts};

use super::{Before, FactsError, Session, Source};
use crate::{
    clock::Moment,
    db::{
        Bind as _, Row, Tx, Value,
        bulk::{fetch_with_rows, with_rows},
        column::{parsed, signed, undecodable},
        query_scalar,
    },
    fleet::change::merged,
};

/// Whether a node can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It can.
    Online,
    /// It cannot.
    Offline,
}

/// A report that may be newer than what is stored.
pub(super) struct Reported<'a> {
    session: Session<'a>,
    report: u64,
    facts: &'a Facts,
    json: String,
}

impl<'a> Reported<'a> {
    /// What a session says in its report of that number.
    pub(super) fn new(
        session: Session<'a>,
        report: u64,
        facts: &'a Facts,
    ) -> Result<Self, FactsError> {
        let json = serde_json::to_string(facts).map_err(|source| FactsError::Encoding {
            node: session.node.clone(),
            source,
        })?;
        Ok(Self {
            session,
            report,
            facts,
            json,
        })
    }

    fn values(self, from: Source<'_>) -> [Value; 20] {
        let (session, facts) = (self.session, self.facts);
        let trial = facts.trial.as_ref();
        let attempt = facts.last_attempt.as_ref();
        [
            session.node.as_str().value(),
            signed(session.connect_seq).value(),
            signed(self.report).value(),
            session.id.value(),
            from.gateway.as_str().value(),
            from.link.value(),
            from.now.millis().value(),
            facts.version.as_str().value(),
            signed(facts.sequence.get()).value(),
            facts.digest.to_string().value(),
            signed(facts.floor.sequence().get()).value(),
            trial.map(|trial| trial.attempt.as_str()).value(),
            attempt.map(|attempt| attempt.id.as_str()).value(),
            attempt.map(|attempt| attempt.outcome.name()).value(),
            attempt.map(|attempt| attempt.is_final).value(),
            attempt.map(|attempt| attempt.code.as_str()).value(),
            attempt.map(|attempt| attempt.message.as_str()).value(),
            facts.held.as_deref().value(),
            signed(facts.observed_generation).value(),
            self.json.value(),
        ]
    }
}

/// Stores the reports of different nodes whose connection and number are greater than the stored pair. Gives those nodes,
/// and whether each can be reached.
pub(super) async fn store_newer(
    tx: &mut Tx,
    from: Source<'_>,
    reports: Vec<Reported<'_>>,
) -> Result<BTreeMap<NodeId, Presence>, sqlx::Error> {
    let rows = reports.into_iter().map(|report| report.values(from));
    presences(&fetch_with_rows(tx, UPSERT, rows).await?)
}

fn presences(rows: &[Row]) -> Result<BTreeMap<NodeId, Presence>, sqlx::Error> {
    let presences = rows.iter().map(|row| {
        let presence = if row.try_get("online")? {
            Presence::Online
        } else {
            Presence::Offline
        };
        Ok((parsed(row, "node_id")?, presence))
    });
    presences.collect()
}

/// A new session makes the node online, unless it is known to have ended already; a report of the stored one leaves
/// that as it is.
const UPSERT: &str = "
INSERT INTO node_facts (node_id, connect_seq, report, session_id, gateway_id, link, upgrade_only,
    online, since, version, sequence, digest, floor, trial_attempt, attempt_id, attempt_outcome,
    attempt_final, attempt_code, attempt_message, held, observed_generation, facts, reported_at)
SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, 0,
    CASE WHEN n.ended_seq < v.column2 THEN 1 ELSE 0 END, v.column7, v.column8, v.column9, v.column10, v.column11,
    v.column12, v.column13, v.column14, v.column15, v.column16, v.column17, v.column18, v.column19, v.column20, v.column7
FROM {rows} JOIN nodes n ON n.id = v.column1 WHERE 1 = 1
ON CONFLICT (node_id) DO UPDATE SET
    connect_seq = excluded.connect_seq, report = excluded.report,
    session_id = excluded.session_id, gateway_id = excluded.gateway_id, link = excluded.link,
    upgrade_only = CASE WHEN excluded.connect_seq > node_facts.connect_seq THEN 0 ELSE node_facts.upgrade_only END,
    since = CASE WHEN excluded.connect_seq > node_facts.connect_seq AND node_facts.online <> excluded.online
                 THEN excluded.since ELSE node_facts.since END,
    online = CASE WHEN excluded.connect_seq > node_facts.connect_seq THEN excluded.online ELSE node_facts.online END,
    version = excluded.version, sequence = excluded.sequence, digest = excluded.digest,
    floor = excluded.floor,
    version_before = CASE WHEN excluded.trial_attempt IS NULL THEN NULL
                          WHEN node_facts.trial_attempt IS NULL THEN node_facts.version
                          ELSE node_facts.version_before END,
    trial_attempt = excluded.trial_attempt,
    attempt_id = excluded.attempt_id, attempt_outcome = excluded.attempt_outcome,
    attempt_final = excluded.attempt_final, attempt_code = excluded.attempt_code,
    attempt_message = excluded.attempt_message, held = excluded.held,
    observed_generation = excluded.observed_generation, facts = excluded.facts,
    reported_at = excluded.reported_at
WHERE excluded.connect_seq > node_facts.connect_seq
   OR (excluded.connect_seq = node_facts.connect_seq AND excluded.session_id = node_facts.session_id
       AND excluded.report > node_facts.report)
RETURNING node_id, online";

/// Notes what only the opening of a session tells, and that it lives: also after its gateway was not linked for a while.
/// Gives whether each node can be reached now.
pub(super) async fn name_sessions(
    tx: &mut Tx,
    from: Source<'_>,
    named: Vec<(Session<'_>, bool)>,
) -> Result<BTreeMap<NodeId, Presence>, sqlx::Error> {
    let rows = named.into_iter().map(|(session, upgrade_only)| {
        [
            session.node.as_str().value(),
            signed(session.connect_seq).value(),
            session.id.value(),
            from.gateway.as_str().value(),
            from.link.value(),
            upgrade_only.value(),
            from.now.millis().value(),
        ]
    });
    presences(&fetch_with_rows(tx, NAME_SESSION, rows).await?)
}

const NAME_SESSION: &str = "
    UPDATE node_facts SET gateway_id = v.column4, link = v.column5, upgrade_only = v.column6,
        since = CASE WHEN node_facts.online = 0 AND n.ended_seq < v.column2 THEN v.column7 ELSE node_facts.since END,
        online = CASE WHEN n.ended_seq < v.column2 THEN 1 ELSE 0 END
    FROM {rows} JOIN nodes n ON n.id = v.column1
    WHERE node_facts.node_id = v.column1 AND node_facts.connect_seq = v.column2 AND node_facts.session_id = v.column3
    RETURNING node_id, online";

/// Takes the labels of newer Hellos, under what operators have set. One without any says nothing about them.
pub(super) async fn refresh_labels(
    tx: &mut Tx,
    said: Vec<(Session<'_>, &BTreeMap<String, String>, &Before)>,
) -> Result<(), sqlx::Error> {
    let mut rows = Vec::new();
    for (session, labels, before) in said {
        if labels.is_empty() || before.labels_seq >= session.connect_seq {
            continue;
        }
        let both = merged(labels.clone(), &before.set_labels);
        rows.push([
            session.node.as_str().value(),
            signed(session.connect_seq).value(),
            text(labels)?.value(),
            text(&both)?.value(),
        ]);
    }
    with_rows(tx, REFRESH_LABELS, rows.into_iter()).await?;
    Ok(())
}

const REFRESH_LABELS: &str = "
    UPDATE nodes SET said_labels = v.column3, labels = v.column4, labels_seq = v.column2
    FROM {rows} WHERE nodes.id = v.column1 AND nodes.labels_seq < v.column2";

fn text(labels: &BTreeMap<String, String>) -> Result<String, sqlx::Error> {
    serde_json::to_string(labels).map_err(|error| undecodable("labels", error))
}

/// Remembers that sessions have ended, so that a late or repeated opening does not bring them back.
pub(super) async fn end_sessions(tx: &mut Tx, sessions: &[Session<'_>]) -> Result<(), sqlx::Error> {
    with_rows(tx, END_SESSION, sessions.iter().map(named)).await?;
    Ok(())
}

const END_SESSION: &str = "
    UPDATE nodes SET ended_seq = v.column2 FROM {rows}
    WHERE nodes.id = v.column1 AND nodes.ended_seq < v.column2 AND NOT EXISTS (
        SELECT 1 FROM node_facts f
        WHERE f.node_id = v.column1 AND f.connect_seq = v.column2 AND f.session_id <> v.column3)";

/// Makes nodes offline, unless a newer session holds them. Gives those that were online.
pub(super) async fn go_offline(
    tx: &mut Tx,
    sessions: &[Session<'_>],
    now: Moment,
) -> Result<Vec<NodeId>, sqlx::Error> {
    let rows = sessions.iter().map(|session| {
        let [node, connect_seq, id] = named(session);
        [node, connect_seq, id, now.millis().value()]
    });
    let rows = fetch_with_rows(tx, GO_OFFLINE, rows).await?;
    rows.iter().map(|row| parsed(row, "node_id")).collect()
}

const GO_OFFLINE: &str = "
    UPDATE node_facts SET online = 0, since = v.column4 FROM {rows}
    WHERE node_facts.node_id = v.column1 AND node_facts.online = 1
      AND (node_facts.connect_seq < v.column2
           OR (node_facts.connect_seq = v.column2 AND node_facts.session_id = v.column3))
    RETURNING node_id";

fn named(session: &Session<'_>) -> [Value; 3] {
    [
        session.node.as_str().value(),
        signed(session.connect_seq).value(),
        session.id.value(),
    ]
}

/// Makes every node offline that this gateway held and has not named on its present link.
pub(super) async fn unnamed_go_offline(
    tx: &mut Tx,
    from: Source<'_>,
) -> Result<Vec<NodeId>, sqlx::Error> {
    let nodes: Vec<String> = query_scalar(
        "UPDATE node_facts SET online = 0, since = $3
         WHERE gateway_id = $1 AND online = 1 AND link < $2 RETURNING node_id",
    )
    .bind(from.gateway.as_str())
    .bind(from.link)
    .bind(from.now.millis())
    .fetch_all(&mut **tx)
    .await?;
    nodes
        .iter()
        .map(|node| {
            node.parse()
                .map_err(|source| undecodable("node_id", source))
        })
        .collect()
}
