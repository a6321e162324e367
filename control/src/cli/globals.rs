//! The flags that every command which talks to a server understands, before or after its name.
//!
//! Takes clap's tree and spreads the flags over it, and collects them from what was parsed. Clap's own global
//! arguments cannot be used: `gateways enrol --url` is another address than `--url`, and clap would take the one for
//! the other.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::{print::Output, query::Query};

/// Commands that talk to no server have no use for these flags and may mean something else by the same names.
const WITHOUT_SERVER: [&str; 8] = [
    "serve",
    "backup",
    "restore",
    "release",
    "completions",
    "man",
    "docs",
    "help",
];

/// What is common to all commands that talk to a server.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// Where control listens [env: BETTER_COMPUTE_URL]
    #[arg(id = "global-url", long = "url", value_name = "URL")]
    pub url: Option<String>,
    /// The API token; rather give a file, since other users see arguments [env: BETTER_COMPUTE_TOKEN]
    #[arg(id = "global-token", long = "token", value_name = "TOKEN")]
    pub token: Option<String>,
    /// A file with the API token [env: BETTER_COMPUTE_TOKEN_FILE]
    #[arg(id = "global-token-file", long = "token-file", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The tenant [env: BETTER_COMPUTE_TENANT]
    #[arg(id = "global-tenant", long = "tenant", value_name = "TENANT")]
    pub tenant: Option<String>,
    /// How to print answers [env: BETTER_COMPUTE_OUTPUT]
    #[arg(
        id = "global-output",
        long = "output",
        short = 'o',
        value_name = "FORMAT"
    )]
    pub output: Option<Output>,
    /// Print only this part of the answer: a dotted path, such as nodes.failed
    #[arg(id = "global-query", long = "query", value_name = "PATH")]
    pub query: Option<Query>,
    /// Print tables without their first line
    #[arg(id = "global-no-headers", long = "no-headers")]
    pub no_headers: bool,
    /// When to use colours
    #[arg(id = "global-color", long = "color", value_name = "WHEN")]
    pub color: Option<Color>,
    /// The context of the config file to use [env: BETTER_COMPUTE_CONTEXT]
    #[arg(id = "global-context", long = "context", value_name = "NAME")]
    pub context: Option<String>,
    /// The config file [env: BETTER_COMPUTE_CONFIG]
    #[arg(id = "global-config", long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Trust the certificates of this PEM file instead of the system's
    #[arg(id = "global-ca-file", long = "ca-file", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Send the token over plain http to another machine, too
    #[arg(id = "global-allow-http", long = "allow-http")]
    pub allow_http: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR or CLICOLOR say otherwise.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Globals {
    /// Adds the flags to `root` and to every command under it that talks to a server.
    pub(super) fn spread(root: Command) -> Command {
        let flags: Vec<Arg> = Self::augment_args(Command::new("flags"))
            .get_arguments()
            .cloned()
            .collect();
        // Two at the top as well, though: `better-compute --url … serve` is refused by what `serve` takes, not here.
        let root = root.args(flags.iter().cloned());
        let flags: Vec<Arg> = flags
            .into_iter()
            .map(|flag| flag.hide_short_help(true))
            .collect();
        root.mut_subcommands(|command| {
            if WITHOUT_SERVER.contains(&command.get_name()) {
                command
            } else {
                spread_over(command, &flags)
            }
        })
    }

    /// What was given on the command line, wherever. The flag closest to the end counts.
    pub(super) fn collect(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut collected = Self::default();
        let mut level = Some(matches);
        while let Some(matches) = level {
            // Which flags a command has, an optimised clap does not tell; a switch that was not given is there all the same.
            if matches.ids().any(|id| id == "global-no-headers") {
                collected = Self::from_arg_matches(matches)?.or(collected);
            }
            level = matches.subcommand().map(|(_, deeper)| deeper);
        }
        Ok(collected)
    }

    fn or(self, before: Self) -> Self {
        Self {
            url: self.url.or(before.url),
            token: self.token.or(before.token),
            token_file: self.token_file.or(before.token_file),
            tenant: self.tenant.or(before.tenant),
            output: self.output.or(before.output),
            query: self.query.or(before.query),
            no_headers: self.no_headers || before.no_headers,
            color: self.color.or(before.color),
            context: self.context.or(before.context),
            config: self.config.or(before.config),
            ca_file: self.ca_file.or(before.ca_file),
            allow_http: self.allow_http || before.allow_http,
        }
    }
}

/// Whether a flag of a command is one of these.
pub(super) fn is_global(flag: &Arg) -> bool {
    flag.get_id().as_str().starts_with("global-")
}

fn spread_over(command: Command, flags: &[Arg]) -> Command {
    let flags_here: Vec<Arg> = flags
        .iter()
        .map(|flag| flag_beside(&command, flag.clone()))
        .collect();
    command
        .args(flags_here)
        .mut_subcommands(|deeper| spread_over(deeper, flags))
}

/// The flag, under the name `--api-…` where the command has one of its own by this name.
fn flag_beside(command: &Command, flag: Arg) -> Arg {
    let Some(name) = flag.get_long() else {
        return flag;
    };
    let taken = command
        .get_arguments()
        .any(|own| own.get_long() == Some(name));
    if taken {
        let renamed = format!("api-{name}");
        flag.long(renamed)
    } else {
        flag
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn collect(line: &str) -> Globals {
        let matches = Globals::spread(Cli::command())
            .try_get_matches_from(line.split(' '))
            .unwrap();
        Globals::collect(&matches).unwrap()
    }

    #[test]
    fn a_flag_counts_before_and_after_the_command_and_the_last_one_wins() {
        for (line, url) in [
            ("better-compute --url A pools list", "A"),
            ("better-compute pools --url A list", "A"),
            ("better-compute pools list --url A", "A"),
            ("better-compute --url B pools list --url A", "A"),
        ] {
            assert_eq!(collect(line).url.as_deref(), Some(url), "{line}");
        }
    }

    #[test]
    fn a_commands_own_flag_is_not_taken_for_the_global_one() {
        let line = "better-compute --url A gateways enrol g1 --url wss://g1.example/session";
        assert_eq!(collect(line).url.as_deref(), Some("A"));
        let line = "better-compute gateways enrol g1 --url wss://g1.example/session --api-url B";
        assert_eq!(collect(line).url.as_deref(), Some("B"));
    }
}
