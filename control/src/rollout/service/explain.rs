//! `rollouts.explain`

use bc_protocol::id::{NodeId, RolloutId};

use super::{RolloutError, Services};
use crate::{
    api::rollout::{ExplainRollout, Explanation, RowState},
    clock::Moment,
    db::Conn,
    rollout::{
        explain::{self, Absence, Case, Part, Reach},
        hold::Hold,
        late::{self, Lateness},
        plan::{Held, plan},
        snapshot::Snapshot,
        store::{
            self,
            explain::{Made, Subject},
            load::Look,
        },
    },
};

/// Says why a node is where it is. It asks the planner what the next pass would do, and writes nothing.
pub(crate) async fn explain(
    services: &Services,
    request: ExplainRollout,
) -> Result<Explanation, RolloutError> {
    let (tenant, id, node) = (&request.tenant_id, &request.rollout_id, &request.node_id);
    // One moment of everything.
    let mut conn = services.db.reader().begin().await?;
    let now = Moment::now();
    let none = || RolloutError::no_rollout(id);
    if store::read::one(&mut conn, tenant, id).await?.is_none() {
        return Err(none());
    }
    let subject = store::explain::subject(&mut conn, tenant, node)
        .await?
        .ok_or_else(|| RolloutError::NoNode { node: node.clone() })?;
    let mut snapshot =
        store::load::snapshot(&mut conn, id, (Look::Everything, services.surroundings()))
            .await?
            .ok_or_else(none)?;
    ask_about(&mut conn, &mut snapshot, node).await?;
    let (part, hold) = match part(&mut conn, &snapshot, &subject).await? {
        Some(part) => {
            let planned = plan(&snapshot, now);
            let hold = hold(planned.held, node);
            (part, hold)
        }
        None => late_part(services, &mut conn, (&snapshot, &subject), now).await?,
    };
    let users = store::explain::users(&mut conn, &subject.pool).await?;
    let answer = explain::explain(Case {
        terms: &snapshot.terms,
        head: &snapshot.head,
        waves: &snapshot.waves,
        freeze: snapshot.freeze.as_ref(),
        part: &part,
        hold: hold.as_ref(),
        users: &users,
        node: &subject.node,
        reach: reach(&mut conn, id).await?,
    });
    Ok(Explanation {
        rollout_id: request.rollout_id,
        node_id: request.node_id,
        state: state(&part),
        code: answer.code,
        sentence: answer.sentence,
    })
}

/// A pass reads only those whose turn it is; this one is asked about.
async fn ask_about(
    conn: &mut Conn,
    snapshot: &mut Snapshot,
    node: &NodeId,
) -> Result<(), RolloutError> {
    if snapshot
        .pending
        .iter()
        .any(|waiting| waiting.row.node == *node)
    {
        return Ok(());
    }
    let waiting = store::explain::waiting(conn, (&snapshot.terms.id, node)).await?;
    snapshot.pending.extend(waiting);
    snapshot.pending.sort_by_key(|waiting| waiting.row.place);
    Ok(())
}

async fn reach(conn: &mut Conn, id: &RolloutId) -> Result<Reach, RolloutError> {
    Ok(if store::retry::is_narrowed(conn, id).await? {
        Reach::Narrowed
    } else {
        Reach::WholePools
    })
}

fn state(part: &Part) -> Option<RowState> {
    match part {
        Part::Wave(_, account) | Part::Late(account) => Some(account.state),
        Part::Awaited | Part::Stranger(_) => None,
    }
}

/// What is said of the node itself, or else of the whole rollout.
fn hold(held: Vec<Held>, node: &NodeId) -> Option<Hold> {
    let mut all = None;
    for Held { node: whom, hold } in held {
        match whom {
            Some(whom) if whom == *node => return Some(hold),
            Some(_) => {}
            None => all = Some(hold),
        }
    }
    all
}

/// The node's row, if that is the last word; a passed-over node may be late.
async fn part(
    conn: &mut Conn,
    snapshot: &Snapshot,
    subject: &Subject,
) -> Result<Option<Part>, RolloutError> {
    let whose = (&snapshot.terms.id, &subject.node.id);
    if let Some(account) = store::explain::late_row(conn, whose).await? {
        return Ok(match account.state {
            // It waits for its turn.
            RowState::Pending | RowState::Skipped => None,
            RowState::Upgrading
            | RowState::Succeeded
            | RowState::Failed
            | RowState::RollingBack
            | RowState::RolledBack => Some(Part::Late(account)),
        });
    }
    let Some((wave, account)) = store::explain::row(conn, whose).await? else {
        return Ok(None);
    };
    Ok(match account.state {
        RowState::Skipped => None,
        RowState::Pending
        | RowState::Upgrading
        | RowState::Succeeded
        | RowState::Failed
        | RowState::RollingBack
        | RowState::RolledBack => Some(Part::Wave(wave, account)),
    })
}

/// A node that has no row with the last word: it is late, was passed over, or has no part at all.
async fn late_part(
    services: &Services,
    conn: &mut Conn,
    (snapshot, subject): (&Snapshot, &Subject),
    now: Moment,
) -> Result<(Part, Option<Hold>), RolloutError> {
    let (id, node) = (&snapshot.terms.id, &subject.node.id);
    let mut overtaken = false;
    if let Some(mut late) = store::late::snapshot(conn, id, services.surroundings()).await? {
        let asked = (node, &subject.pool);
        if let Some(candidate) = store::late::candidate(conn, &late, asked).await? {
            match candidate.lateness {
                Lateness::Late => {
                    late.candidates.retain(|other| other.node.id != *node);
                    late.candidates.push(candidate);
                    let hold = hold(late::plan(&late, now).held, node);
                    return Ok((Part::Awaited, hold));
                }
                Lateness::Settled | Lateness::Done => overtaken = true,
            }
        }
    }
    if let Some((wave, account)) = store::explain::row(conn, (id, node)).await? {
        return Ok((Part::Wave(wave, account), None));
    }
    let made = store::explain::made(conn, id, &subject.pool).await?;
    Ok((Part::Stranger(absence(subject, &made, overtaken)), None))
}

fn absence(subject: &Subject, made: &Made, overtaken: bool) -> Absence {
    if subject.node.removed {
        Absence::Removed
    } else if !made.over_pool {
        Absence::OtherPool
    } else if made.narrowed {
        Absence::Narrowed
    } else if overtaken {
        Absence::Overtaken
    } else if subject.joined_at >= made.created_at {
        Absence::JoinedLater
    } else {
        Absence::LeftOut
    }
}
