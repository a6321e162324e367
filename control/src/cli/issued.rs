//! Tokens and secrets that control has just made.
//!
//! Takes an answer that holds one, gives it to a file, or once to standard output. With a file, the token
//! is printed nowhere: logs live longer than they should.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::{
    failure::Failure,
    print::{Answer, Output, Printer, View, note, write_out},
    secret::PrivateFile,
};

/// Where a new token goes.
#[derive(Debug, Args)]
pub(super) struct Destination {
    /// Write the token to this new file, readable by its owner only, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// An answer with a token that is shown only once.
pub(super) trait Issued: View {
    /// What people and the API call it.
    const CALLED: &'static str = "token";

    /// What is shown.
    fn token(&self) -> &str;
}

/// A destination that is known to work.
#[derive(Debug)]
pub(super) struct Prepared {
    file: Option<(PathBuf, PrivateFile)>,
}

impl Destination {
    /// Finds out whether the file can be written, before there is a token to lose.
    pub(super) fn prepare(self) -> Result<Prepared, Failure> {
        let Some(path) = self.out else {
            return Ok(Prepared { file: None });
        };
        // The token that lies there may be the only copy of one that still works.
        if path.is_file() {
            return Err(Failure::Exists { path });
        }
        match PrivateFile::prepare(&path) {
            Ok(file) => Ok(Prepared {
                file: Some((path, file)),
            }),
            Err(source) => Err(Failure::Write { path, source }),
        }
    }
}

impl Prepared {
    /// Hands the token over.
    pub(super) fn hand_over<T: Issued>(
        self,
        printer: &Printer,
        mut answer: Answer<T>,
    ) -> Result<(), Failure> {
        let Some((path, file)) = self.file else {
            return print(printer, &answer);
        };
        file.write_new(format!("{}\n", answer.value.token()).as_bytes())
            .map_err(|source| Failure::Write { path, source })?;
        if let Value::Object(fields) = &mut answer.raw {
            fields.remove(T::CALLED);
        }
        Ok(printer.show(&answer)?)
    }
}

/// The token alone on standard output, so that a script can take it; what people want to know beside it.
fn print<T: Issued>(printer: &Printer, answer: &Answer<T>) -> Result<(), Failure> {
    match printer.output {
        Output::Table | Output::Wide if printer.query.is_none() => {
            let about = answer.value.names().join(" ");
            let called = T::CALLED;
            note(&format!("{about}: the {called} is shown only now; keep it"));
            write_out(&format!("{}\n", answer.value.token()))?;
        }
        Output::Table | Output::Wide | Output::Json | Output::Yaml | Output::Name => {
            printer.show(answer)?;
        }
    }
    Ok(())
}
