//! The tenant's nodes, a page at a time.

use askama::Template;
use axum::response::Response;
use bc_protocol::{
    id::{PoolId, TenantId},
    version::Version,
};

use super::{
    failure::Failure,
    fields::Fields,
    operator::{Address, Asked, Operator},
    page::{Page, Section, html},
    paging::{self, Column, Turner},
    rows::Choice,
    show::{At, Badge, at, called, short},
};
use crate::{
    access::{action::Action, decide::Resource},
    api::error::ErrorObject,
    clock::Moment,
    fleet::pool,
    rollout::listing::{self, Listed, ListedNode, NodeOrder, NodesWanted, Standing},
};

#[derive(Template)]
#[template(path = "console/nodes.html")]
struct NodesPage {
    page: Page,
    standings: Vec<Choice>,
    pools: Vec<Choice>,
    version: String,
    text: String,
    sort: String,
    columns: [Column; 5],
    rows: Vec<NodeView>,
    turner: Turner,
    /// Whether not all nodes were asked for.
    is_narrowed: bool,
}

/// One node.
#[derive(Debug)]
struct NodeView {
    id: String,
    id_short: String,
    hostname: Option<String>,
    pool: String,
    version: Option<String>,
    standings: Vec<Badge>,
    since: Option<At>,
    trouble: Option<String>,
}

/// `nodes`
pub(super) async fn page(
    operator: Operator,
    Address(tenant): Address<TenantId>,
    Asked(asked): Asked,
) -> Result<Response, Failure> {
    let pools = Resource::Pool(&tenant, None);
    operator.may(Action::PoolRead, pools).await?;
    let page = Page::new(&operator, &tenant, Section::Nodes, "Nodes").await?;
    let wanted = NodesWanted {
        pool: asked.parsed::<PoolId>("pool"),
        standing: Standing::ALL
            .into_iter()
            .find(|standing| standing.word() == asked.text("standing")),
        version: asked.parsed::<Version>("version"),
        text: asked.text("q").to_owned(),
    };
    let filters = ["pool", "standing", "version", "q"];
    let is_narrowed = filters.iter().any(|filter| !asked.text(filter).is_empty());
    let (word, direction) = paging::sort(&asked);
    let order = (order(word), direction, paging::page(&asked));
    let db = &operator.app().services.db;
    let pools = pool::list(db, &tenant).await?;
    let internal = |error: sqlx::Error| ErrorObject::internal(&error);
    let mut conn = db.reader().begin().await.map_err(internal)?;
    let listed = listing::nodes(&mut conn, &tenant, &wanted, order).await;
    let Listed { rows, total } = listed.map_err(internal)?;
    Ok(html(&NodesPage {
        turner: Turner::new(&asked, rows.len(), total, "node"),
        rows: rows
            .into_iter()
            .map(|row| NodeView::new(row, page.now))
            .collect(),
        columns: columns(&asked),
        standings: standings(&wanted),
        pools: pools
            .into_iter()
            .map(|pool| Choice {
                is_chosen: wanted.pool.as_ref() == Some(&pool.id),
                value: pool.id.to_string(),
                name: called(&pool.name, pool.archived_at.is_some()),
            })
            .collect(),
        version: wanted
            .version
            .map_or_else(String::new, |version| version.to_string()),
        text: wanted.text,
        sort: asked.text("sort").to_owned(),
        is_narrowed,
        page,
    }))
}

fn order(word: &str) -> NodeOrder {
    match word {
        "pool" => NodeOrder::Pool,
        "version" => NodeOrder::Version,
        "since" => NodeOrder::Since,
        _ => NodeOrder::Node,
    }
}

fn columns(asked: &Fields) -> [Column; 5] {
    [
        paging::column(asked, "Node", "node"),
        paging::column(asked, "Pool", "pool"),
        paging::column(asked, "Runs", "version"),
        paging::column(asked, "Stands", "since"),
        paging::column(asked, "Last attempt", ""),
    ]
}

fn standings(wanted: &NodesWanted) -> Vec<Choice> {
    let choice = |standing: Standing| Choice {
        value: standing.word().to_owned(),
        name: standing.word().replace('-', " "),
        is_chosen: wanted.standing == Some(standing),
    };
    Standing::ALL.into_iter().map(choice).collect()
}

impl NodeView {
    fn new(node: ListedNode, now: Moment) -> Self {
        let standings = node.standings.iter();
        Self {
            id_short: short(node.node.as_str()),
            id: node.node.to_string(),
            hostname: node.hostname,
            pool: node.pool,
            version: node.version.map(|version| version.to_string()),
            standings: standings.map(|standing| Badge(standing.word())).collect(),
            since: node.since.map(|since| at(since, now)),
            trouble: node.trouble,
        }
    }
}
