//! What surrounds every page.

use askama::Template;
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bc_protocol::id::TenantId;

use super::{
    assets,
    live::{Pulse, Watched},
    operator::Operator,
};
use crate::{api::error::ErrorObject, clock::Moment, rollout::board};

/// The parts of the console, as its navigation names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// Rollouts, and one of them.
    Rollouts,
    /// The fleet's numbers.
    Fleet,
    /// Nodes, and one of them.
    Nodes,
    /// Releases.
    Releases,
    /// Events.
    Events,
}

impl Section {
    const ALL: [Self; 5] = [
        Self::Rollouts,
        Self::Fleet,
        Self::Nodes,
        Self::Releases,
        Self::Events,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Rollouts => "Rollouts",
            Self::Fleet => "Fleet",
            Self::Nodes => "Nodes",
            Self::Releases => "Releases",
            Self::Events => "Events",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Rollouts => "rollouts",
            Self::Fleet => "fleet",
            Self::Nodes => "nodes",
            Self::Releases => "releases",
            Self::Events => "events",
        }
    }
}

/// One entry of the navigation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// What people read.
    pub name: &'static str,
    /// Its path below the tenant's.
    pub path: &'static str,
    /// Whether this is it.
    pub is_here: bool,
}

/// What surrounds one page.
pub(super) struct Page {
    /// What the window is called.
    pub title: String,
    /// Whose pools.
    pub tenant: TenantId,
    /// All tenants that have pools.
    pub tenants: Vec<TenantId>,
    /// Who looks.
    pub user: String,
    /// What forms carry.
    pub form: String,
    /// When it was made.
    pub now: Moment,
    /// What of the tenant it was made from; what comes later is new.
    pub pulse: Pulse,
    section: Section,
    watched: Watched,
}

impl Page {
    /// Around a page of a tenant.
    pub(super) async fn new(
        operator: &Operator,
        tenant: &TenantId,
        section: Section,
        title: impl Into<String>,
    ) -> Result<Self, ErrorObject> {
        Self::watching(operator, tenant, (section, Watched::Tenant), title).await
    }

    /// The same, where something else is news too.
    pub(super) async fn watching(
        operator: &Operator,
        tenant: &TenantId,
        (section, watched): (Section, Watched),
        title: impl Into<String>,
    ) -> Result<Self, ErrorObject> {
        let services = &operator.app().services;
        let internal = |error: sqlx::Error| ErrorObject::internal(&error);
        let mut conn = services.db.reader().begin().await.map_err(internal)?;
        Ok(Self {
            title: title.into(),
            tenant: tenant.clone(),
            // Before anything else is read: what is committed in between is new.
            pulse: Pulse::take(&mut conn, tenant, &watched)
                .await
                .map_err(internal)?,
            tenants: board::tenants(&mut conn).await.map_err(internal)?,
            user: operator.name().to_owned(),
            form: operator.form_token(),
            now: Moment::now(),
            section,
            watched,
        })
    }

    /// Whether nobody has a pool in this tenant, though others have: its name may be a slip.
    pub(super) fn is_unknown(&self) -> bool {
        !self.tenants.is_empty()
            && self.tenants.len() < board::TENANTS_MAX
            && !self.tenants.contains(&self.tenant)
    }

    /// What the addresses of assets end with.
    pub(super) fn build(&self) -> &'static str {
        &assets::BUILD
    }

    /// The navigation.
    pub(super) fn entries(&self) -> [Entry; 5] {
        Section::ALL.map(|section| Entry {
            name: section.name(),
            path: section.path(),
            is_here: section == self.section,
        })
    }

    /// The path of this part below the tenant's.
    pub(super) fn path(&self) -> &'static str {
        self.section.path()
    }

    /// Where word of news comes from.
    pub(super) fn live(&self) -> String {
        let base = self.base();
        let seen = &self.pulse;
        match &self.watched {
            Watched::Tenant => format!("{base}/live?seen={seen}"),
            Watched::Node(node) => format!("{base}/live?node={node}&seen={seen}"),
        }
    }

    /// Where the tenant's pages are.
    pub(super) fn base(&self) -> String {
        format!("/console/t/{}", self.tenant)
    }
}

/// A template as an answer.
pub(super) fn html(template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => {
            let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
            (kind, text).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
