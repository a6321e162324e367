//! Computes a node's spec from rows.
//!
//! Takes a node's id, gives its spec with the generation that belongs to it. The one thing that it writes is that
//! generation, and it writes it from what it has read in the same transaction.

use std::collections::BTreeSet;

use bc_protocol::{
    id::NodeId,
    release::Trust,
    sequence::ReleaseFloor,
    spec::{DaemonSection, NodeSpec},
    version::Version,
};
use thiserror::Error;

use super::compute::{Age, Choice, NoSection, Origin, Rows, Touched, Turn, choose};
use crate::{
    api::rollout::RowState,
    db::{
        Bind as _, Conn, Db, Row,
        bulk::with_rows,
        column::{moment_option, number, parsed, parsed_option, undecodable},
        contention::{lock_nodes, retried},
        query, query_scalar,
    },
    release::store::{ReleaseError, by_version},
    rollout::target::{Target, Unfit},
};

/// Why a spec cannot be computed.
#[derive(Debug, Error)]
pub(crate) enum SpecError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The release cannot be read.
    #[error("the release cannot be read")]
    Release(#[from] ReleaseError),
}

/// The node's desired state now; none for a node that is removed or unknown.
pub(crate) async fn current(
    db: &Db,
    node: &NodeId,
    trust: &Trust,
    downloads_url: &str,
) -> Result<Option<NodeSpec>, SpecError> {
    let mut snapshot = db.reader().begin().await?;
    let read = read(&mut snapshot, node, trust, downloads_url).await?;
    drop(snapshot);
    let Some(read) = read else {
        return Ok(None);
    };
    if read.is_known() {
        return Ok(Some(read.spec()));
    }
    retried(|| renumber(db, node, trust, downloads_url)).await
}

/// The desired states of many nodes, in one reading; those that have changed are numbered in one commit. A node that is removed
/// or unknown has none.
pub(crate) async fn current_all(
    db: &Db,
    nodes: &[NodeId],
    (trust, downloads_url): (&Trust, &str),
) -> Result<Vec<(NodeId, NodeSpec)>, SpecError> {
    let mut snapshot = db.reader().begin().await?;
    let mut specs = Vec::with_capacity(nodes.len());
    let mut changed = BTreeSet::new();
    for node in nodes {
        match read(&mut snapshot, node, trust, downloads_url).await? {
            Some(read) if read.is_known() => specs.push((node.clone(), read.spec())),
            Some(_) => drop(changed.insert(node.clone())),
            None => {}
        }
    }
    drop(snapshot);
    if !changed.is_empty() {
        specs.extend(retried(|| renumber_all(db, &changed, (trust, downloads_url))).await?);
    }
    Ok(specs)
}

/// As [`current_all`], of nodes whose desired state has just changed: they are read once, where they are numbered.
pub(crate) async fn changed_all(
    db: &Db,
    nodes: &[NodeId],
    verified_by: (&Trust, &str),
) -> Result<Vec<(NodeId, NodeSpec)>, SpecError> {
    let nodes = nodes.iter().cloned().collect();
    retried(|| renumber_all(db, &nodes, verified_by)).await
}

/// The section that the node is to have now, and what it follows from. Its spec's generation is left as it is: whoever
/// asks does not hand out a spec.
pub(crate) async fn desired(
    db: &Db,
    node: &NodeId,
    trust: &Trust,
    downloads_url: &str,
) -> Result<Option<(DaemonSection, Origin)>, SpecError> {
    let mut snapshot = db.reader().begin().await?;
    let read = read(&mut snapshot, node, trust, downloads_url).await?;
    Ok(read.and_then(|read| read.section.zip(read.origin)))
}

/// Nodes that are online and whose newest spec names a version. Those that are away read it when they return.
pub(crate) async fn carrying(db: &Db, version: &Version) -> Result<Vec<NodeId>, ReleaseError> {
    let ids: Vec<String> = query_scalar(
        "SELECT n.id FROM nodes n JOIN node_facts f ON f.node_id = n.id
         WHERE n.spec_version = $1 AND n.removed_at IS NULL AND f.online = 1 ORDER BY n.id",
    )
    .bind(version.as_str())
    .fetch_all(db.reader())
    .await?;
    let parsed = ids
        .iter()
        .map(|id| id.parse().map_err(|source| undecodable("id", source)));
    Ok(parsed.collect::<Result<_, sqlx::Error>>()?)
}

/// Gives a spec that has changed its new generation.
async fn renumber(
    db: &Db,
    node: &NodeId,
    trust: &Trust,
    downloads_url: &str,
) -> Result<Option<NodeSpec>, SpecError> {
    let nodes = BTreeSet::from([node.clone()]);
    let specs = renumber_all(db, &nodes, (trust, downloads_url)).await?;
    Ok(specs.into_iter().next().map(|(_, spec)| spec))
}

/// Gives specs that have changed their new generations. They are computed again under the locks: what was read before may be
/// older than what somebody else has numbered since.
async fn renumber_all(
    db: &Db,
    nodes: &BTreeSet<NodeId>,
    (trust, downloads_url): (&Trust, &str),
) -> Result<Vec<(NodeId, NodeSpec)>, SpecError> {
    let mut tx = db.begin_at_one_moment().await?;
    lock_nodes(&mut tx, nodes).await?;
    let mut specs = Vec::with_capacity(nodes.len());
    let mut numbered = Vec::new();
    for node in nodes {
        let Some(mut read) = read(&mut tx, node, trust, downloads_url).await? else {
            continue;
        };
        if !read.is_known() {
            // A control that was restored from a copy has numbered what its nodes have seen since, and forgotten it.
            read.generation = read.generation.max(read.observed).saturating_add(1);
            let identity = read.identity();
            numbered.push([
                node.as_str().value(),
                crate::db::column::signed(read.generation).value(),
                identity.version.value(),
                identity.sha256.value(),
                identity.attempt.value(),
            ]);
        }
        specs.push((node.clone(), read.spec()));
    }
    if numbered.is_empty() {
        tx.give_up().await?;
    } else {
        with_rows(&mut tx, NUMBER, numbered.into_iter()).await?;
        tx.commit().await?;
    }
    Ok(specs)
}

const NUMBER: &str = "
    UPDATE nodes SET generation = v.column2, spec_version = v.column3, spec_sha256 = v.column4, spec_attempt = v.column5
    FROM {rows} WHERE nodes.id = v.column1";

/// What tells one generation from another. An address or a renewed signature does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Identity {
    version: Option<String>,
    sha256: Option<String>,
    attempt: Option<String>,
}

struct Read {
    generation: u64,
    observed: u64,
    numbered: Identity,
    section: Option<DaemonSection>,
    origin: Option<Origin>,
}

impl Read {
    fn identity(&self) -> Identity {
        match &self.section {
            None => Identity::default(),
            Some(section) => Identity {
                version: Some(section.version.to_string()),
                sha256: Some(section.sha256.to_string()),
                attempt: Some(section.attempt.to_string()),
            },
        }
    }

    fn is_known(&self) -> bool {
        self.identity() == self.numbered
    }

    fn spec(self) -> NodeSpec {
        NodeSpec {
            generation: self.generation,
            daemon: self.section,
        }
    }
}

async fn read(
    conn: &mut Conn,
    node: &NodeId,
    trust: &Trust,
    downloads_url: &str,
) -> Result<Option<Read>, SpecError> {
    let row = query(READ)
        .bind(node.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let rows = Rows {
        touched: touched(&row)?,
        completed: completed(&row)?,
    };
    let chosen = choose(&rows);
    let origin = chosen.as_ref().ok().map(|choice| choice.origin.clone());
    let section = match chosen {
        Ok(choice) => section(conn, &row, choice, (trust, downloads_url)).await?,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = &section {
        tracing::trace!(%node, %reason, "no section");
    }
    Ok(Some(Read {
        generation: number(&row, "generation")?,
        observed: number(&row, "observed")?,
        numbered: Identity {
            version: row.try_get("spec_version")?,
            sha256: row.try_get("spec_sha256")?,
            attempt: row.try_get("spec_attempt")?,
        },
        section: section.ok(),
        origin,
    }))
}

/// A node, the newest rollout that touched it, and the newest that completed over its pool.
const READ: &str = "
    SELECT n.generation, n.spec_version, n.spec_sha256, n.spec_attempt,
           json_extract(n.labels, '$.\"cpu.arch\"') AS arch, f.floor, coalesce(f.observed_generation, 0) AS observed,
           t.id AS touched_by, t.created_at AS touched_at, t.version, t.state, t.from_version, t.attempt, t.late,
           c.id AS completed, c.created_at AS completed_at
    FROM nodes n
    LEFT JOIN node_facts f ON f.node_id = n.id
    LEFT JOIN (
        SELECT a.* FROM (
            SELECT o.id, o.created_at, o.version, r.state, h.from_version, h.attempt, 0 AS late
            FROM nodes m CROSS JOIN rollout_pools q CROSS JOIN rollouts o CROSS JOIN rollout_rows r
            CROSS JOIN rollout_notes h
            WHERE m.id = $1 AND q.pool_id = m.pool_id AND o.id = q.rollout_id
              AND r.rollout = o.number AND r.node = m.number AND r.state NOT IN ('pending', 'skipped')
              AND h.rollout = r.rollout AND h.node = r.node
            UNION ALL
            SELECT o.id, o.created_at, o.version, r.state, r.from_version, r.attempt, 1 AS late
            FROM rollout_late r JOIN rollouts o ON o.id = r.rollout_id
            WHERE r.node_id = $1 AND r.state NOT IN ('pending', 'skipped')) a
        ORDER BY a.created_at DESC, a.id DESC, a.late DESC LIMIT 1) t ON 1 = 1
    LEFT JOIN (
        SELECT o.id, o.created_at FROM nodes m JOIN rollout_pools p ON p.pool_id = m.pool_id
        JOIN rollouts o ON o.id = p.rollout_id
        WHERE m.id = $1 AND o.state = 'completed' AND o.narrowed = 0
        ORDER BY o.created_at DESC, o.id DESC LIMIT 1) c ON 1 = 1
    WHERE n.id = $1 AND n.removed_at IS NULL";

fn touched(row: &Row) -> Result<Option<Touched>, sqlx::Error> {
    let Some(age) = age(row, ("touched_by", "touched_at"))? else {
        return Ok(None);
    };
    let word: &str = row.try_get("state")?;
    let state = RowState::from_word(word)
        .ok_or_else(|| undecodable("state", UnknownState(word.to_owned())))?;
    Ok(Some(Touched {
        age,
        version: parsed(row, "version")?,
        state,
        from: parsed_option(row, "from_version")?,
        attempt: parsed_option(row, "attempt")?,
        turn: if row.try_get("late")? {
            Turn::Late
        } else {
            Turn::Wave
        },
    }))
}

fn completed(row: &Row) -> Result<Option<Age>, sqlx::Error> {
    age(row, ("completed", "completed_at"))
}

/// A rollout and when it was created, if these columns have one.
fn age(
    row: &Row,
    (id, created_at): (&'static str, &'static str),
) -> Result<Option<Age>, sqlx::Error> {
    let rollout = parsed_option(row, id)?;
    let Some((rollout, created_at)) = rollout.zip(moment_option(row, created_at)?) else {
        return Ok(None);
    };
    Ok(Some(Age {
        created_at,
        rollout,
    }))
}

async fn section(
    conn: &mut Conn,
    node: &Row,
    choice: Choice,
    (trust, downloads_url): (&Trust, &str),
) -> Result<Result<DaemonSection, NoSection>, SpecError> {
    let release = match by_version(conn, &choice.version, trust).await {
        Ok(Some(release)) => release,
        Ok(None) => {
            let version = choice.version;
            return Ok(Err(Unfit::NotRegistered { version }.into()));
        }
        Err(ReleaseError::Distrusted { version, refusal }) => {
            let refusal = refusal.to_string();
            return Ok(Err(NoSection::Distrusted { version, refusal }));
        }
        Err(error) => return Err(error.into()),
    };
    let arch: Option<&str> = node.try_get("arch")?;
    let offered = Target::of(&release.manifest).binary_for(arch, floor(node)?);
    Ok(match offered {
        Err(unfit) => Err(unfit.into()),
        Ok((platform, sha256)) => Ok(DaemonSection {
            url: format!("{downloads_url}/bcd/{}/{platform}", choice.version),
            version: choice.version,
            sha256,
            signature: release.manifest.published().to_vec(),
            attempt: choice.attempt,
        }),
    })
}

/// The floor that the node last reported; before its first report it is not known to refuse anything.
fn floor(node: &Row) -> Result<ReleaseFloor, sqlx::Error> {
    let floor: Option<i64> = node.try_get("floor")?;
    let Some(floor) = floor else {
        return Ok(ReleaseFloor::NONE);
    };
    let floor = u64::try_from(floor).map_err(|source| undecodable("floor", source))?;
    let sequence = floor
        .try_into()
        .map_err(|source| undecodable("floor", source))?;
    Ok(ReleaseFloor::starting_at(sequence))
}

/// A state that this build does not know.
#[derive(Debug, Error)]
#[error("expected a row's state, found \"{0}\"")]
struct UnknownState(String);
