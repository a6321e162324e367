//! The nodes of one rollout, a page at a time.

use askama::Template;
use axum::response::Response;
use bc_protocol::id::{PoolId, RolloutId, TenantId};

use super::{
    failure::Failure,
    fields::Fields,
    operator::{Address, Asked, Operator},
    page::{Page, Section, html},
    paging::{self, Column, Turner},
    rollouts::Card,
    show::{At, Badge, at, called, short, span},
};
use crate::{
    api::{
        error::ErrorObject,
        rollout::{OneRollout, RowState},
    },
    clock::Moment,
    rollout::{
        listing::{self, Listed, ListedRow, RowOrder, RowsWanted},
        service::{self, Board},
    },
};

#[derive(Template)]
#[template(path = "console/rows.html")]
struct RowsPage {
    page: Page,
    card: Card,
    states: Vec<Choice>,
    pools: Vec<Choice>,
    waves: Vec<Choice>,
    text: String,
    sort: String,
    columns: [Column; 7],
    rows: Vec<RowView>,
    turner: Turner,
}

/// One of the values that a list can be narrowed to.
#[derive(Debug)]
pub(super) struct Choice {
    /// As addresses name it.
    pub value: String,
    /// As people do.
    pub name: String,
    /// Whether it is chosen.
    pub is_chosen: bool,
}

/// One node.
#[derive(Debug)]
struct RowView {
    id: String,
    id_short: String,
    hostname: Option<String>,
    pool: String,
    wave: u32,
    state: Badge,
    is_offline: bool,
    from: Option<String>,
    started: Option<At>,
    took: Option<String>,
    error: Option<String>,
}

/// `rollouts/{rollout}/nodes`
pub(super) async fn page(
    operator: Operator,
    Address((tenant_id, rollout_id)): Address<(TenantId, RolloutId)>,
    Asked(asked): Asked,
) -> Result<Response, Failure> {
    let request = OneRollout {
        tenant_id,
        rollout_id,
    };
    let mut page = Page::new(&operator, &request.tenant_id, Section::Rollouts, "").await?;
    let services = &operator.app().services;
    let board = service::board(services, &request).await?;
    page.title = format!("Nodes · {} · rollout", board.standing.rollout.version);
    let wanted = wanted(&asked);
    let (word, direction) = paging::sort(&asked);
    let order = (order(word), direction, paging::page(&asked));
    let internal = |error: sqlx::Error| ErrorObject::internal(&error);
    let mut conn = services.db.reader().begin().await.map_err(internal)?;
    let listed = listing::rows(&mut conn, &request.rollout_id, &wanted, order).await;
    let Listed { rows, total } = listed.map_err(internal)?;
    Ok(html(&RowsPage {
        turner: Turner::new(&asked, rows.len(), total, "node"),
        rows: rows
            .into_iter()
            .map(|row| RowView::new(row, page.now))
            .collect(),
        columns: columns(&asked),
        states: states(&wanted),
        pools: pools(&board, &wanted),
        waves: waves(&board, &wanted),
        text: wanted.text,
        sort: asked.text("sort").to_owned(),
        card: Card::new(board.standing.rollout, &board.standing.waves, page.now),
        page,
    }))
}

fn wanted(asked: &Fields) -> RowsWanted {
    RowsWanted {
        state: RowState::from_word(asked.text("state")),
        pool: asked.parsed::<PoolId>("pool"),
        wave: asked
            .parsed::<u32>("wave")
            .and_then(|wave| wave.checked_sub(1)),
        text: asked.text("q").to_owned(),
    }
}

fn order(word: &str) -> RowOrder {
    match word {
        "node" => RowOrder::Node,
        "pool" => RowOrder::Pool,
        "state" => RowOrder::State,
        "started" => RowOrder::Started,
        _ => RowOrder::Place,
    }
}

fn columns(asked: &Fields) -> [Column; 7] {
    [
        paging::column(asked, "Node", "node"),
        paging::column(asked, "Pool", "pool"),
        paging::column(asked, "Wave", "place"),
        paging::column(asked, "State", "state"),
        paging::column(asked, "From", ""),
        paging::column(asked, "Started", "started"),
        paging::column(asked, "What happened", ""),
    ]
}

fn states(wanted: &RowsWanted) -> Vec<Choice> {
    let choice = |state: RowState| Choice {
        value: state.word().to_owned(),
        name: state.word().replace('-', " "),
        is_chosen: wanted.state == Some(state),
    };
    RowState::ALL.into_iter().map(choice).collect()
}

fn pools(board: &Board, wanted: &RowsWanted) -> Vec<Choice> {
    let choices = board.budgets.iter().map(|pool| Choice {
        value: pool.id.to_string(),
        name: called(&pool.name, pool.archived),
        is_chosen: wanted.pool.as_ref() == Some(&pool.id),
    });
    choices.collect()
}

fn waves(board: &Board, wanted: &RowsWanted) -> Vec<Choice> {
    let choices = (1_u32..).zip(&board.standing.waves);
    let choices = choices.map(|(number, wave)| Choice {
        value: number.to_string(),
        name: format!("{number} (to {} %)", wave.percent),
        is_chosen: wanted.wave.map(|wave| wave.saturating_add(1)) == Some(number),
    });
    choices.collect()
}

impl RowView {
    fn new(row: ListedRow, now: Moment) -> Self {
        let took = row.started_at.zip(row.finished_at);
        Self {
            id_short: short(row.node.as_str()),
            id: row.node.to_string(),
            hostname: row.hostname,
            pool: row.pool,
            wave: row.wave.saturating_add(1),
            state: Badge(row.state.word()),
            is_offline: !row.online,
            from: row.from.map(|from| from.to_string()),
            started: row.started_at.map(|started| at(started, now)),
            took: took.map(|(started, finished)| span(finished.since(started))),
            error: row.error,
        }
    }
}
