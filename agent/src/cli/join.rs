//! `bcd join`

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use url::Url;

use super::{CommandError, Global, prepared};
use crate::durable;
use crate::http::Web;
use crate::join::{self, Joined};

/// Join this node to a pool
///
/// Makes a key that never leaves this machine, and gets the node's certificate from control. Once it has joined, doing
/// so again changes nothing.
#[derive(Debug, Args)]
// The example is to be copied: a line of it that was broken would be none.
#[command(after_long_help = include_str!("../config/example.toml"), term_width = 0)]
pub(super) struct Join {
    /// Where control answers, instead of the configuration's control
    #[arg(long, value_name = "URL")]
    control: Option<Url>,
    /// The file that holds the join token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

impl Join {
    pub(super) fn run(self, global: &Global) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        let control = self
            .control
            .or(config.control.clone())
            .ok_or(CommandError::NoControl)?;
        durable::create_folder(paths.root(), 0o755).map_err(CommandError::Folder)?;
        prepared(&config, &paths)?;
        let joined = join::run(&join::Join {
            control: &control,
            token_file: &self.token_file,
            identity: &paths.identity(),
            labels: &config.labels,
            web: &Web {
                plain_http: config.plain_http,
                ca_file: config.ca_file.clone(),
                earliest: None,
            },
        })?;
        // What root has just written there is the node's too.
        prepared(&config, &paths)?;
        let mut output = std::io::stdout();
        match joined {
            Joined::Now(node) => writeln!(output, "joined as {node}"),
            Joined::Mended(node) => writeln!(
                output,
                "the identity of {node} was damaged and is whole again"
            ),
            Joined::Already(node) => writeln!(output, "has joined before, as {node}"),
        }
        .map_err(CommandError::Output)
    }
}
