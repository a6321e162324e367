//! What a caller sees of a tenant's events.
//!
//! Takes who asks and what he wants to see, asks the decisions that reading the things themselves takes, and gives what
//! they leave. Whoever may see nothing of what he asks for is refused.

use std::{collections::BTreeSet, sync::Arc};

use bc_protocol::id::{NodeId, PoolId, TenantId};
use futures_util::future::join_all;

use super::Shared;
use crate::{
    access::{
        action::Action,
        decide::{Denied, Resource},
        token::Subject,
    },
    api::error::ErrorObject,
    db::query_scalar,
    event::{
        filter::Filter,
        sight::{Answer, Ask, Kin, QUESTIONS_MAX, ReadError, Sight},
    },
};

/// What somebody wants to see.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub tenant: &'a TenantId,
    pub filter: &'a Filter,
    /// Where he wants to know of one thing only.
    pub subject: Option<&'a str>,
}

/// What he sees of it.
pub(crate) async fn sight(
    app: &Shared,
    subject: &Subject,
    wish: Wish<'_>,
) -> Result<Sight, ErrorObject> {
    let mut wanted = Kin::wanted(|kind| wish.filter.wants(kind));
    if let Some(kin) = wish.subject.and_then(Kin::of_subject) {
        // Whoever asks for types that it never has still has to be one who may look at it.
        wanted = [kin].into();
    }
    let asked = wanted.iter().map(|&kin| async move {
        let resource = whole(kin, wish.tenant);
        (kin, app.may(subject, permission(kin), resource).await)
    });
    let mut seen = BTreeSet::new();
    let mut refused = None;
    for (kin, decided) in join_all(asked).await {
        match decided {
            Ok(()) => drop(seen.insert(kin)),
            // Events that are hidden because nobody decides would be passed over for good.
            Err(denied @ Denied::Undecided) => return Err(denied.into()),
            Err(denied) => refused = refused.or(Some(denied)),
        }
    }
    let single = !wanted.is_subset(&seen) && wanted.contains(&Kin::Pool);
    let ask = single.then(|| ask(app, subject, wish.tenant));
    let Some(refused) = refused.filter(|_| seen.is_empty()) else {
        return Ok(Sight::of(seen, ask));
    };
    match ask {
        Some(ask) if sees_a_pool(app, &ask, wish).await? => Ok(Sight::of(seen, Some(ask))),
        Some(_) | None => Err(refused.into()),
    }
}

/// What reading things of that kind takes.
fn permission(kin: Kin) -> Action {
    match kin {
        Kin::Fleet => Action::FleetAdmin,
        Kin::Pool => Action::PoolRead,
        Kin::JoinToken => Action::PoolAdmin,
        Kin::Tenant => Action::TenantAdmin,
    }
}

fn whole(kin: Kin, tenant: &TenantId) -> Resource<'_> {
    Resource::of_tenant(permission(kin), tenant)
}

/// Asks about single pools.
fn ask(app: &Shared, subject: &Subject, tenant: &TenantId) -> Ask {
    let who = Arc::new((Shared::clone(app), subject.clone(), tenant.clone()));
    Arc::new(move |kin, pool| {
        let who = Arc::clone(&who);
        Box::pin(async move {
            let (app, subject, tenant) = &*who;
            let resource = Resource::Pool(tenant, Some(&pool));
            match app.may(subject, permission(kin), resource).await {
                Ok(()) => Answer::Yes,
                Err(Denied::Permission { .. } | Denied::Tenant { .. }) => Answer::No,
                Err(Denied::Undecided) => Answer::None,
            }
        })
    })
}

/// Whether he may look at the pool that he asks about, or else at any of the tenant's; of more than are asked about he may
/// look at another.
async fn sees_a_pool(app: &Shared, ask: &Ask, wish: Wish<'_>) -> Result<bool, ErrorObject> {
    let pools = candidates(app, wish).await;
    let pools = pools.map_err(|error| ErrorObject::internal(&error))?;
    let others = pools.len() >= QUESTIONS_MAX;
    for pool in pools {
        match ask(Kin::Pool, pool).await {
            Answer::Yes => return Ok(true),
            Answer::No => {}
            Answer::None => return Err(Denied::Undecided.into()),
        }
    }
    Ok(others)
}

async fn candidates(app: &Shared, wish: Wish<'_>) -> Result<Vec<PoolId>, sqlx::Error> {
    let about = wish.subject.and_then(|subject| subject.split_once('/'));
    let found: Vec<String> = match about {
        Some(("pool", id)) => vec![id.to_owned()],
        Some(("node", id)) => {
            let Ok(node) = id.parse::<NodeId>() else {
                return Ok(Vec::new());
            };
            query_scalar("SELECT pool_id FROM nodes WHERE id = $1 AND tenant = $2")
                .bind(node.as_str())
                .bind(wish.tenant.as_str())
                .fetch_all(app.services.db.reader())
                .await?
        }
        Some(_) | None => {
            query_scalar("SELECT id FROM pools WHERE tenant = $1 ORDER BY id LIMIT $2")
                .bind(wish.tenant.as_str())
                .bind(u32::try_from(QUESTIONS_MAX).unwrap_or(u32::MAX))
                .fetch_all(app.services.db.reader())
                .await?
        }
    };
    Ok(found.iter().filter_map(|id| id.parse().ok()).collect())
}

/// The types that a webhook of this maker carries: what he asks for, where he may see it; and where he asks for nothing,
/// what he sees whole. It stays so when he is gone: a webhook is its tenant's.
pub(crate) async fn carried(
    app: &Shared,
    subject: &Subject,
    (tenant, types): (&TenantId, &Filter),
) -> Result<Vec<String>, ErrorObject> {
    let wanted = Kin::wanted(|kind| types.wants(kind));
    let asked = wanted.iter().map(|&kin| async move {
        let resource = whole(kin, tenant);
        (kin, app.may(subject, permission(kin), resource).await)
    });
    let mut carried = Vec::new();
    let mut lacks = false;
    for (kin, decided) in join_all(asked).await {
        match decided {
            Ok(()) => carried.extend(kin.types()),
            Err(Denied::Permission { .. } | Denied::Tenant { .. }) if types.types().is_empty() => {
                lacks = true;
            }
            Err(denied) => return Err(denied.into()),
        }
    }
    Ok(if lacks {
        carried
    } else {
        types.types().to_vec()
    })
}

impl From<ReadError> for ErrorObject {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sql(_) => Self::internal(&error),
            ReadError::Undecided => Denied::Undecided.into(),
        }
    }
}
