//! `bcd doctor`

use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{CommandError, Global, runtime};
use crate::config::ConfigError;
use crate::doctor::{self, Finding};
use crate::shown::one_line;
use crate::updater::host::with_causes;

/// Check configuration, pins, disk, clock, names, TLS and gateways, and say how to mend what is wrong
///
/// It changes nothing. Exit status 1 says that something is wrong.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// For people or for programs
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Serialize)]
struct Examined<'a> {
    good: bool,
    findings: &'a [Finding],
}

impl Doctor {
    pub(super) fn run(self, global: &Global) -> Result<(), CommandError> {
        let findings = examine(global)?;
        let wrong = findings.iter().filter(|finding| !finding.good).count();
        let shown = match self.output {
            Format::Text => text_of(&findings),
            Format::Json => {
                let examined = Examined {
                    good: wrong == 0,
                    findings: &findings,
                };
                let json = serde_json::to_string(&examined);
                json.map_err(|error| CommandError::Output(error.into()))? + "\n"
            }
        };
        std::io::stdout()
            .write_all(shown.as_bytes())
            .map_err(CommandError::Output)?;
        match wrong {
            0 => Ok(()),
            wrong => Err(CommandError::Unwell { wrong }),
        }
    }
}

fn examine(global: &Global) -> Result<Vec<Finding>, CommandError> {
    let (config, paths) = match global.load() {
        Ok(loaded) => loaded,
        // Nothing else can be looked at without it.
        Err(error) => {
            let found = with_causes(&error);
            return Ok(vec![Finding::wrong("config", found, config_mend(&error))]);
        }
    };
    let found = format!("{} holds", global.config.display());
    let mut findings = vec![Finding::good("config", found)];
    findings.extend(runtime()?.block_on(doctor::examine(&config, &paths)));
    Ok(findings)
}

fn config_mend(error: &CommandError) -> &'static str {
    if matches!(error, CommandError::Config(ConfigError::Unreadable { .. })) {
        "write it (bcd join --help shows every key), name it with --config, or run bcd doctor as root"
    } else {
        "correct that line; bcd doctor then looks at the rest"
    }
}

fn text_of(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (word, to_do) = match (finding.good, &finding.mend) {
            (true, None) => ("good", ""),
            (true, Some(_)) => ("note", "hint"),
            (false, _) => ("WRONG", "to mend"),
        };
        let written = writeln!(
            text,
            "{word:<6}{:<10}{}",
            finding.check,
            one_line(&finding.found)
        );
        let mended = match &finding.mend {
            Some(mend) => writeln!(text, "{:16}{to_do}: {}", "", one_line(mend)),
            None => Ok(()),
        };
        if written.and(mended).is_err() {
            tracing::debug!("a finding is lost");
        }
    }
    text
}
