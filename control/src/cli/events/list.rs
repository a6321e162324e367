//! `events list`.

use clap::Args;

use crate::{
    api::event::{Events, ListEvents},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List what happened, oldest first
///
/// The newest events, or with --after those behind a position; `next` in the answer is where to go on. Events about
/// tokens and webhooks are shown to administrators of the tenant alone.
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only of this type, such as rollout.paused, or of this kind, such as 'node.*'; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only about this, such as rollout/ID
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// From behind this position on
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListEvents {
            tenant_id: online.client.tenant.clone(),
            after: self.after,
            limit: Some(self.limit),
            types: self.types,
            subject: self.subject,
        };
        online.show::<Events>("events/list", &request).await
    }
}
