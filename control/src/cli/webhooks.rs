//! `better-compute webhooks`.

use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    issued::Issued,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, Tone, second},
};
use crate::api::event::{Deliveries, Delivery, DeliveryState, NewWebhook, Webhook, Webhooks};

mod create;
mod delete;
mod deliveries;
mod list;
mod test;

/// Send events where you want them
#[derive(Debug, Subcommand)]
pub(super) enum WebhooksCommand {
    Create(create::Create),
    List(list::List),
    Delete(delete::Delete),
    Test(test::Test),
    Deliveries(deliveries::ListDeliveries),
}

impl WebhooksCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Delete(command) => command.run(online).await,
            Self::Test(command) => command.run(online).await,
            Self::Deliveries(command) => command.run(online).await,
        }
    }
}

impl View for NewWebhook {
    const SCHEMA: Option<&'static str> = Some("NewWebhook");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("url", Cell::new(&self.url)),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl Issued for NewWebhook {
    const CALLED: &'static str = "secret";

    fn token(&self) -> &str {
        &self.secret
    }
}

impl View for Webhook {
    const SCHEMA: Option<&'static str> = Some("Webhook");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("url", Cell::new(&self.url)),
            ("types", types(self)),
            ("deleted", Cell::optional(self.deleted_at.map(second))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Webhooks {
    const SCHEMA: Option<&'static str> = Some("Webhooks");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let rows = self.webhooks.iter().map(|webhook| {
            vec![
                Cell::new(&webhook.id),
                Cell::new(&webhook.url),
                types(webhook),
                Cell::new(second(webhook.created_at)),
                Cell::new(&webhook.created_by),
            ]
        });
        Sheet::rows(&["ID", "URL", "TYPES", "CREATED", "BY"], rows.collect())
    }

    fn names(&self) -> Vec<String> {
        let ids = self.webhooks.iter().map(|webhook| webhook.id.to_string());
        ids.collect()
    }
}

fn types(webhook: &Webhook) -> Cell {
    if webhook.types.is_empty() {
        return Cell::new("all");
    }
    Cell::new(webhook.types.join(" "))
}

impl View for Delivery {
    const SCHEMA: Option<&'static str> = Some("Delivery");

    fn sheet(&self, detail: Detail) -> Sheet {
        deliveries(std::slice::from_ref(self), detail)
    }

    fn names(&self) -> Vec<String> {
        vec![self.event_id.to_string()]
    }
}

fn deliveries(list: &[Delivery], detail: Detail) -> Sheet {
    let header = detail.columns(
        &["EVENT", "TYPE", "STATE", "ATTEMPTS", "NEXT", "LAST"],
        &["POSITION", "CHANGED"],
    );
    let rows = list.iter().map(|delivery| row(delivery, detail));
    Sheet::rows(&header, rows.collect())
}

impl View for Deliveries {
    const SCHEMA: Option<&'static str> = Some("Deliveries");

    fn sheet(&self, detail: Detail) -> Sheet {
        deliveries(&self.deliveries, detail)
    }

    fn names(&self) -> Vec<String> {
        let ids = self
            .deliveries
            .iter()
            .map(|delivery| delivery.event_id.to_string());
        ids.collect()
    }
}

fn row(delivery: &Delivery, detail: Detail) -> Vec<Cell> {
    let state = match delivery.state {
        DeliveryState::Pending => Cell::toned("pending", Tone::Busy),
        DeliveryState::Delivered => Cell::toned("delivered", Tone::Good),
        DeliveryState::Failed => Cell::toned("failed", Tone::Bad),
    };
    let last = match (&delivery.last_error, delivery.last_status) {
        (Some(error), _) => Some(error.clone()),
        (None, status) => status.map(|status| status.to_string()),
    };
    let mut row = vec![
        Cell::new(&delivery.event_id),
        Cell::new(&delivery.kind),
        state,
        Cell::new(delivery.attempts),
        Cell::optional(delivery.next_attempt_at.map(second)),
        Cell::optional_prose(last),
    ];
    match detail {
        Detail::Brief => {}
        Detail::Wide => row.extend([
            Cell::new(delivery.position),
            Cell::new(second(delivery.updated_at)),
        ]),
    }
    row
}
