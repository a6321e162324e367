//! `rollouts create`.

use clap::Args;
use ulid::Ulid;

use super::{
    plan::show_plan,
    terms::differences,
    wanted::Wanted,
    watch::{WatchFlags, or_show},
};
use crate::{
    api::rollout::{CreateRollout, OneRollout, Rollout, RolloutPlan},
    chance,
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::Online,
        print::{Output, note},
        sheet::printable,
    },
    clock::Moment,
    rollout::NOBODY_TAKES_IT,
};

/// Start a rollout: bring a registered release to the fleet, wave by wave
///
/// Waves are cumulative percentages of the nodes in scope, which is everything that the tenant has, unless --pool,
/// --node or --selector narrow it. In each wave at most the pool's budget of nodes is disrupted at once. When more of
/// a wave than --max-failure-ratio fails, the rollout pauses by itself. With a --key that was used before, the rollout of
/// that time is the answer; flags that ask for another one are an error then.
#[derive(Debug, Args)]
pub(in crate::cli) struct Create {
    #[command(flatten)]
    wanted: Wanted,
    /// Show what would begin, and begin nothing, as `rollouts plan` does
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    consent: Consent,
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        if self.dry_run {
            return show_plan(online, self.wanted).await;
        }
        if self.wanted.starts_everything() {
            let question = format!(
                "The first wave is 100 %: nothing is tried out before every node gets {}. Start?",
                self.wanted.version
            );
            confirm(&question, &self.consent)?;
        }
        let keyed = self.wanted.has_key();
        let request = self.wanted.request(online, || Some(fresh_key())).await?;
        warn(online, &request, &self.consent).await?;
        let made = online
            .client
            .call_until_answered::<Rollout>("rollouts/create", &request)
            .await?;
        if keyed {
            refuse_another(online, &request, &made.value).await?;
        }
        or_show(online, self.watch, made).await
    }
}

/// Tells people what the plan warns of. A plan that there is none of says nothing: the call itself will say why.
async fn warn(online: &Online, request: &CreateRollout, consent: &Consent) -> Result<(), Failure> {
    match online.printer.output {
        Output::Table | Output::Wide => {}
        Output::Json | Output::Yaml | Output::Name => return Ok(()),
    }
    let planned = online.client.call::<RolloutPlan>("rollouts/plan", request);
    let Ok(planned) = planned.await else {
        return Ok(());
    };
    for warning in &planned.value.warnings {
        note(&format!("warning: {}", printable(&warning.message)));
    }
    let warnings = &planned.value.warnings;
    if warnings.iter().any(|one| one.code == NOBODY_TAKES_IT) {
        confirm(
            "It would bring the release to nobody. Start all the same?",
            consent,
        )?;
    }
    Ok(())
}

/// A key that was used before brings the rollout of that time, which may be another one than was asked for now.
async fn refuse_another(
    online: &Online,
    request: &CreateRollout,
    made: &Rollout,
) -> Result<(), Failure> {
    let one = OneRollout {
        tenant_id: request.tenant_id.clone(),
        rollout_id: made.id.clone(),
    };
    let whole = online.client.call::<Rollout>("rollouts/get", &one).await?;
    let fields = differences(request, &whole.value);
    if fields.is_empty() {
        return Ok(());
    }
    Err(Failure::OtherTerms {
        rollout: made.id.clone(),
        fields,
    })
}

fn fresh_key() -> String {
    Ulid::from_parts(Moment::now().unix_ms(), chance::bits()).to_string()
}
