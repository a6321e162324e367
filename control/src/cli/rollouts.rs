//! `better-compute rollouts`: one release through a fleet, in waves.

use clap::Subcommand;

use super::{exit::Exit, failure::Failure, online::Online};

mod abort;
mod arguments;
mod bars;
mod changes;
mod create;
mod explain;
mod follow;
mod get;
mod list;
mod pause;
mod plan;
mod progress;
mod resume;
mod retry;
#[cfg(test)]
mod sample;
mod terms;
mod view;
mod wanted;
mod watch;

pub(super) use arguments::{key, reason};

/// Bring a release to the fleet, wave by wave
#[derive(Debug, Subcommand)]
pub(super) enum RolloutsCommand {
    Create(create::Create),
    Plan(plan::Plan),
    List(list::List),
    Get(get::Get),
    Explain(explain::Explain),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Abort(abort::Abort),
    Retry(retry::Retry),
    Watch(watch::Watch),
}

impl RolloutsCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::Plan(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Get(command) => command.run(online).await,
            Self::Explain(command) => command.run(online).await,
            Self::Pause(command) => command.run(online).await,
            Self::Resume(command) => command.run(online).await,
            Self::Abort(command) => command.run(online).await,
            Self::Retry(command) => command.run(online).await,
            Self::Watch(command) => command.run(online).await,
        }
    }
}
