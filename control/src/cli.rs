//! The command line.
//!
//! Takes the process's arguments, variables and config file, gives its exit code. Everything but `serve` and `release`
//! is a call to a control's API, by the same types that the API is made of.

use std::process::ExitCode;

use anstream::ColorChoice;
use clap::{Command as Tree, CommandFactory, FromArgMatches, Parser, Subcommand};
use dialoguer::console;

mod ask;
mod client;
mod commands;
mod completions;
mod config;
mod contexts;
mod daemon;
mod docs;
mod doctor;
mod dry;
mod events;
mod exit;
mod failure;
mod fleet;
mod gateways;
mod globals;
mod help;
mod issued;
mod join_tokens;
mod limits;
mod login;
mod man;
mod named;
mod nodes;
mod online;
mod pools;
mod print;
mod query;
mod release;
mod releases;
mod rollouts;
mod secret;
#[cfg(test)]
mod seen;
mod settings;
mod shares;
mod sheet;
mod span;
mod tokens;
mod webhooks;
mod workflows;

use completions::Answered;
use exit::Exit;
use failure::Failure;
use globals::{Color, Globals};
use online::Online;
use print::Output;
use settings::{Environment, output_at_least};

/// Roll one signed release through a fleet, wave by wave
///
/// `serve` is the control service; everything else talks to one, or signs releases offline.
#[derive(Debug, Parser)]
#[command(
    name = "better-compute",
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes: better-compute help exit-codes"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(crate::serve::ServeArgs),
    Backup(crate::backup::BackupArgs),
    Restore(crate::backup::RestoreArgs),
    #[command(subcommand)]
    Release(release::ReleaseCommand),
    #[command(flatten)]
    Remote(RemoteCommand),
    #[command(flatten)]
    Local(LocalCommand),
}

/// Commands that are calls to control.
#[derive(Debug, Subcommand)]
enum RemoteCommand {
    #[command(subcommand)]
    Releases(releases::ReleasesCommand),
    #[command(subcommand)]
    Rollouts(rollouts::RolloutsCommand),
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    #[command(subcommand)]
    Workflows(workflows::WorkflowsCommand),
    #[command(subcommand)]
    Pools(pools::PoolsCommand),
    #[command(subcommand)]
    Nodes(nodes::NodesCommand),
    #[command(subcommand)]
    Commands(commands::CommandsCommand),
    #[command(subcommand)]
    JoinTokens(join_tokens::JoinTokensCommand),
    #[command(subcommand)]
    Gateways(gateways::GatewaysCommand),
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    #[command(subcommand)]
    Events(events::EventsCommand),
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    #[command(subcommand)]
    Daemon(daemon::DaemonCommand),
}

/// Commands that are about this program itself.
#[derive(Debug, Subcommand)]
enum LocalCommand {
    Login(login::Login),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    Man(man::Man),
    Docs(docs::Docs),
    Help(help::Help),
}

/// Does what the arguments say.
#[must_use]
pub fn main() -> ExitCode {
    match completions::answer(tree) {
        Ok(Answered::NotAsked) => {}
        Ok(Answered::Done) => return Exit::Done.into(),
        Err(error) => return refuse(&error),
    }
    let matches = match tree().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refuse(&error),
    };
    match parsed(&matches) {
        Ok((command, flags)) => run(command, &flags),
        Err(error) => refuse(&error),
    }
}

fn tree() -> Tree {
    Globals::spread(Cli::command())
}

fn parsed(matches: &clap::ArgMatches) -> Result<(Command, Globals), clap::Error> {
    Ok((
        Cli::from_arg_matches(matches)?.command,
        Globals::collect(matches)?,
    ))
}

/// Prints clap's own message: help and version are no failure, a command line that makes no sense is.
fn refuse(error: &clap::Error) -> ExitCode {
    // Where nobody can be told, the exit code says it.
    let _untold = error.print();
    if error.use_stderr() {
        Exit::Usage.into()
    } else {
        Exit::Done.into()
    }
}

fn run(command: Command, flags: &Globals) -> ExitCode {
    match flags.color {
        Some(Color::Always) => ColorChoice::Always.write_global(),
        Some(Color::Never) => {
            ColorChoice::Never.write_global();
            // Bars and questions have their own switch.
            console::set_colors_enabled_stderr(false);
        }
        Some(Color::Auto) | None => {}
    }
    match command {
        Command::Serve(args) => crate::serve::run(&args),
        Command::Backup(args) => crate::backup::back_up(&args),
        Command::Restore(args) => crate::backup::restore(&args),
        Command::Release(command) => command.run(),
        Command::Remote(command) => end(flags, |environment, output| {
            let online = Online::open(flags, environment)?;
            *output = online.printer.output;
            block_on(command.run(&online))
        }),
        Command::Local(command) => end(flags, |environment, _| command.run(flags, environment)),
    }
}

impl RemoteCommand {
    async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Releases(command) => command.run(online).await,
            Self::Rollouts(command) => command.run(online).await,
            Self::Fleet(command) => command.run(online).await,
            Self::Workflows(command) => command.run(online).await,
            Self::Pools(command) => command.run(online).await,
            Self::Nodes(command) => command.run(online).await,
            Self::Commands(command) => command.run(online).await,
            Self::JoinTokens(command) => command.run(online).await,
            Self::Gateways(command) => command.run(online).await,
            Self::Tokens(command) => command.run(online).await,
            Self::Events(command) => command.run(online).await,
            Self::Webhooks(command) => command.run(online).await,
            Self::Daemon(command) => command.run(online).await,
        }
    }
}

impl LocalCommand {
    fn run(self, flags: &Globals, environment: &Environment) -> Result<Exit, Failure> {
        match self {
            Self::Login(command) => block_on(command.run(flags, environment)),
            Self::Config(command) => command.run(flags, environment),
            Self::Doctor(command) => block_on(command.run(flags, environment)),
            Self::Completions(command) => command.run(&tree()),
            Self::Man(command) => command.run(tree()),
            Self::Docs(command) => command.run(),
            Self::Help(command) => command.run(tree()),
        }
    }
}

/// Runs a command and tells how it failed, if it did: in the form that the flags and variables ask for, or the one that
/// the command has found out.
fn end(
    flags: &Globals,
    command: impl FnOnce(&Environment, &mut Output) -> Result<Exit, Failure>,
) -> ExitCode {
    let environment = Environment::of_process();
    let mut output = match &environment {
        Ok(environment) => output_at_least(flags, environment),
        Err(_) => flags.output.unwrap_or_default(),
    };
    let ended = environment
        .map_err(Failure::from)
        .and_then(|environment| command(&environment, &mut output));
    let exit = ended.unwrap_or_else(|failure| {
        failure.print(output);
        failure.exit()
    });
    exit.into()
}

/// Waits for a command, or for Ctrl-C.
fn block_on(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            ended = command => ended,
            Ok(()) = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_commands_holds_together() {
        tree().debug_assert();
    }
}
