//! `--watch` behind commands about one command: waits for its end.

use std::time::Duration;

use clap::Args;

use crate::{
    api::command::{Command, CommandState, OneCommand},
    cli::{
        client::CallError, exit::Exit, failure::Failure, limits::POLL_EVERY, online::Online,
        print::Answer, span,
    },
};

/// Whether to wait, and for how long.
#[derive(Clone, Debug, Args)]
pub(super) struct WatchFlags {
    /// Wait until it has ended; end with 1 unless it succeeded
    #[arg(long)]
    watch: bool,
    /// How long to wait; then end with 5
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "watch", value_parser = span::patience)]
    timeout: Option<Duration>,
}

/// Shows a command, at once or when it has ended.
pub(super) async fn or_show(
    online: &Online,
    flags: WatchFlags,
    found: Answer<Command>,
) -> Result<Exit, Failure> {
    if !flags.watch {
        online.printer.show(&found)?;
        return Ok(Exit::Done);
    }
    let id = found.value.id.clone();
    let ended = ended(online, found);
    let last = match flags.timeout {
        Some(patience) => match tokio::time::timeout(patience, ended).await {
            Ok(last) => last?,
            Err(_) => {
                return Err(Failure::TimedOut {
                    what: format!("command {id}"),
                    waited: patience,
                });
            }
        },
        None => ended.await?,
    };
    online.printer.show(&last)?;
    Ok(match last.value.state {
        CommandState::Succeeded => Exit::Done,
        CommandState::Pending
        | CommandState::Dispatched
        | CommandState::Failed
        | CommandState::Expired
        | CommandState::TimedOut => Exit::Failed,
    })
}

async fn ended(online: &Online, found: Answer<Command>) -> Result<Answer<Command>, Failure> {
    let request = OneCommand {
        tenant_id: online.client.tenant.clone(),
        command_id: found.value.id.clone(),
    };
    let mut last = found;
    while last.value.state.is_open() {
        tokio::time::sleep(POLL_EVERY).await;
        match online.client.call("commands/get", &request).await {
            Ok(answer) => last = answer,
            // A control that restarts must not end it.
            Err(CallError::Lost { .. } | CallError::Silent { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(last)
}
