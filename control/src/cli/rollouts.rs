//! `better-compute rollouts`: one release through a fleet, in waves.

use clap::Subcommand;

use super::{exit::Exit, failure::Failure, online::Online};

mod abort;
mod arguments;
mod bars;
mod changes;
mod create;
mod follow;
mod get;
mod list;
mod pause;
mod progress;
mod resume;
#[cfg(test)]
mod sample;
mod view;
mod watch;

/// Bring a release to the fleet, wave by wave
#[derive(Debug, Subcommand)]
pub(super) enum RolloutsCommand {
    Create(create::Create),
    List(list::List),
    Get(get::Get),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Abort(abort::Abort),
    Watch(watch::Watch),
}

impl RolloutsCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Get(command) => command.run(online).await,
            Self::Pause(command) => command.run(online).await,
            Self::Resume(command) => command.run(online).await,
            Self::Abort(command) => command.run(online).await,
            Self::Watch(command) => command.run(online).await,
        }
    }
}
