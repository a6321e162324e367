//! `webhooks create`.

use clap::Args;

use crate::{
    api::event::{CreateWebhook, NewWebhook},
    cli::{dry::DryRun, exit::Exit, failure::Failure, issued::Destination, online::Online},
};

/// Send events of the tenant to an https address, from now on
///
/// Messages carry Standard Webhooks signatures. The secret that the receiver checks them with is shown once. An event
/// is sent until the receiver answers with 200 to 299, for about two days; always under the same webhook-id, so that
/// the receiver can leave out what it has had.
#[derive(Debug, Args)]
#[command(mut_arg("out", |out| {
    out.help("Write the secret to this new file, readable by its owner only, instead of printing it")
}))]
pub(in crate::cli) struct Create {
    /// Where to send them: the receiver's address, not control's (which is --api-url here)
    #[arg(long, value_name = "RECEIVER")]
    url: String,
    /// Only of this type, such as rollout.paused, or of this kind, such as 'node.*'; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    dry_run: DryRun,
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = CreateWebhook {
            tenant_id: online.client.tenant.clone(),
            url: self.url,
            types: self.types,
        };
        if self.dry_run.is_wanted() {
            return DryRun::show(online, "webhooks/create", &request);
        }
        let destination = self.destination.prepare()?;
        let answer = online
            .client
            .call::<NewWebhook>("webhooks/create", &request)
            .await?;
        destination.hand_over(&online.printer, answer)?;
        Ok(Exit::Done)
    }
}
