//! Which events somebody sees: those about what he may look at.
//!
//! Takes decisions about whole groups of things and a way to ask about single pools, decides about rows. Within one page
//! every pool is asked about once, and only so many are; a page that would need more ends before the event in question.
//! Where nobody answers nothing is passed over: the page fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use bc_protocol::id::PoolId;
use futures_util::future::BoxFuture;
use thiserror::Error;

use super::kinds;
use crate::db::{Db, Row, query};

/// Things that are decided about alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kin {
    /// Rollouts, releases, gateways, freezes, workflows.
    Fleet,
    /// Pools, their nodes, and what those are to do.
    Pool,
    /// What lets nodes into a pool.
    JoinToken,
    /// Who may do what in a tenant, and where its events go.
    Tenant,
}

/// The first words of types and of subjects.
const GROUPS: [(&str, Kin); 11] = [
    ("command", Kin::Pool),
    ("fleet", Kin::Fleet),
    ("gateway", Kin::Fleet),
    ("join-token", Kin::JoinToken),
    ("node", Kin::Pool),
    ("pool", Kin::Pool),
    ("release", Kin::Fleet),
    ("rollout", Kin::Fleet),
    ("token", Kin::Tenant),
    ("webhook", Kin::Tenant),
    ("workflow", Kin::Fleet),
];

impl Kin {
    /// What decides about events of a type.
    pub(crate) fn of(kind: &str) -> Option<Self> {
        Self::of_group(kind.split('.').next())
    }

    /// What decides about a subject.
    pub(crate) fn of_subject(subject: &str) -> Option<Self> {
        Self::of_group(subject.split('/').next())
    }

    fn of_group(group: Option<&str>) -> Option<Self> {
        let found = GROUPS.iter().find(|(known, _)| Some(*known) == group);
        found.map(|(_, kin)| *kin)
    }

    /// The types whose events are decided about like this, as a filter names them.
    pub(crate) fn types(self) -> impl Iterator<Item = String> {
        let groups = GROUPS.iter().filter(move |(_, kin)| *kin == self);
        groups.map(|(group, _)| format!("{group}.*"))
    }

    /// What events are about that a filter wants.
    pub(crate) fn wanted(wants: impl Fn(&str) -> bool) -> BTreeSet<Self> {
        let wanted = kinds::all().filter(|kind| wants(kind));
        wanted.filter_map(Self::of).collect()
    }

    /// Whether its things are of single pools.
    fn is_of_pools(self) -> bool {
        match self {
            Self::Pool | Self::JoinToken => true,
            Self::Fleet | Self::Tenant => false,
        }
    }
}

/// Asks about one pool.
pub(crate) type Ask = Arc<dyn Fn(Kin, PoolId) -> BoxFuture<'static, Answer> + Send + Sync>;

/// What is said to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// He may.
    Yes,
    /// He may not.
    No,
    /// Nobody decides just now.
    None,
}

/// What somebody sees.
#[derive(Clone)]
pub(crate) struct Sight {
    whole: BTreeSet<Kin>,
    ask: Option<Ask>,
}

/// Two that see the same where nobody is asked.
impl PartialEq for Sight {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole && self.ask.is_some() == other.ask.is_some()
    }
}

impl fmt::Debug for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sight")
            .field("whole", &self.whole)
            .finish_non_exhaustive()
    }
}

/// Why a page cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// Nobody decides about an event.
    #[error("expected a decision about every event, found nobody who decides")]
    Undecided,
}

impl Sight {
    /// All there is.
    pub(crate) fn everything() -> Self {
        let all = [Kin::Fleet, Kin::Pool, Kin::JoinToken, Kin::Tenant];
        Self::of(all.into(), None)
    }

    /// All of these; of others that are of pools, what he may who is asked about.
    pub(crate) fn of(whole: BTreeSet<Kin>, ask: Option<Ask>) -> Self {
        Self { whole, ask }
    }
}

/// Pools that are asked about for one page.
pub(crate) const QUESTIONS_MAX: usize = 32;

/// Decides about the rows of one page.
pub(super) struct Judge<'a> {
    sight: &'a Sight,
    answers: BTreeMap<(Kin, PoolId), bool>,
    pools: BTreeMap<String, PoolId>,
}

/// Whether an event is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// It takes one question too many.
    Unasked,
}

impl<'a> Judge<'a> {
    pub(super) fn new(sight: &'a Sight) -> Self {
        Self {
            sight,
            answers: BTreeMap::new(),
            pools: BTreeMap::new(),
        }
    }

    /// Learns whose the nodes and tokens of these events are, where that will be asked.
    pub(super) async fn learn(&mut self, db: &Db, rows: &[Row]) -> Result<(), sqlx::Error> {
        if self.sight.ask.is_none() {
            return Ok(());
        }
        let mut ids = BTreeSet::new();
        for row in rows {
            let subject: &str = row.try_get("subject")?;
            if let Some(("node" | "join-token", id)) = subject.split_once('/')
                && !self.pools.contains_key(id)
            {
                ids.insert(id.to_owned());
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let ids = serde_json::to_string(&ids).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let found = query(POOLS).bind(ids).fetch_all(db.reader()).await?;
        for row in &found {
            let pool: &str = row.try_get("pool_id")?;
            if let Ok(pool) = pool.parse() {
                self.pools.insert(row.try_get("id")?, pool);
            }
        }
        Ok(())
    }

    /// Decides about one event.
    pub(super) async fn sees(&mut self, kind: &str, subject: &str) -> Result<Seen, ReadError> {
        // A type that nobody has said anything about is nobody's.
        let Some(kin) = Kin::of(kind) else {
            return Ok(Seen::No);
        };
        if self.sight.whole.contains(&kin) {
            return Ok(Seen::Yes);
        }
        let Some(ask) = self.sight.ask.as_ref().filter(|_| kin.is_of_pools()) else {
            return Ok(Seen::No);
        };
        let Some(pool) = self.pool_of(subject) else {
            return Ok(Seen::No);
        };
        let question = (kin, pool);
        if let Some(may) = self.answers.get(&question) {
            return Ok(if *may { Seen::Yes } else { Seen::No });
        }
        if self.answers.len() >= QUESTIONS_MAX {
            return Ok(Seen::Unasked);
        }
        let may = match ask(kin, question.1.clone()).await {
            Answer::Yes => true,
            Answer::No => false,
            Answer::None => return Err(ReadError::Undecided),
        };
        self.answers.insert(question, may);
        Ok(if may { Seen::Yes } else { Seen::No })
    }

    fn pool_of(&self, subject: &str) -> Option<PoolId> {
        match subject.split_once('/')? {
            ("pool", id) => id.parse().ok(),
            (_, id) => self.pools.get(id).cloned(),
        }
    }
}

/// Of nodes and join tokens, removed and revoked ones too.
const POOLS: &str = "
    SELECT id, pool_id FROM nodes WHERE id IN (SELECT value FROM json_each($1))
    UNION ALL SELECT id, pool_id FROM join_tokens WHERE id IN (SELECT value FROM json_each($1))";

#[cfg(test)]
mod tests {
    use super::{Kin, kinds};
    use crate::event::filter::Filter;

    #[test]
    fn every_type_is_decided_about() {
        assert!(kinds::all().all(|kind| Kin::of(kind).is_some()));
        assert_eq!(Kin::of("unheard.of"), None);
        for (kind, kin) in [
            ("rollout.paused", Kin::Fleet),
            ("node.upgraded", Kin::Pool),
            ("command.ended", Kin::Pool),
            ("join-token.created", Kin::JoinToken),
            ("token.created", Kin::Tenant),
        ] {
            assert_eq!(Kin::of(kind), Some(kin), "{kind}");
        }
        assert_eq!(Kin::of_subject("node/node_1"), Some(Kin::Pool));
        assert_eq!(Kin::of_subject("nonsense"), None);
    }

    #[test]
    fn a_filter_wants_what_its_types_are_about() {
        let wanted = |types: &[&str]| {
            let types: Vec<String> = types.iter().map(|&text| text.to_owned()).collect();
            let filter = Filter::parse(&types).unwrap();
            Kin::wanted(|kind| filter.wants(kind))
        };
        assert_eq!(wanted(&[]).len(), 4);
        assert_eq!(wanted(&["rollout.*", "fleet.frozen"]), [Kin::Fleet].into());
        assert_eq!(
            wanted(&["node.*", "token.created"]),
            [Kin::Pool, Kin::Tenant].into()
        );
        // A group's own types are wanted by its wildcards, and nobody else's.
        let types: Vec<String> = Kin::Pool.types().collect();
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        assert_eq!(wanted(&types), [Kin::Pool].into());
    }
}
