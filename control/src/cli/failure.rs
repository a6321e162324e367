//! How a command fails, and what it says then.
//!
//! Takes whatever went wrong, gives an exit, a word, a sentence and a hint. People read
//! `error[NOT_FOUND]: … (request …)`; programs get the API's error object, also for what went wrong on this side of it.

use std::{error::Error, fmt::Write, io, path::PathBuf};

use anstyle::{AnsiColor, Style};
use bc_protocol::id::RolloutId;
use serde_json::{Value, json};

mod hint;

use super::{
    client::{CallError, ClientError},
    contexts::ContextsError,
    exit::Exit,
    print::{Output, PrintError, note},
    settings::SettingsError,
    sheet::{printable, printable_json},
    span::human,
};
use crate::api::error::Code;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Contexts(#[from] ContextsError),
    #[error(transparent)]
    Print(#[from] PrintError),
    /// The command line says two things, or too little.
    #[error("{0}")]
    Usage(String),
    /// A call needs a token.
    #[error("expected an API token, found none")]
    NoToken,
    /// The token would travel for everybody to read.
    #[error("expected https, since the token would be sent to {host} in the clear")]
    Cleartext { host: String },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The file is something else.
    #[error("expected {expected} in {}", path.display())]
    Content {
        path: PathBuf,
        expected: &'static str,
        #[source]
        source: Option<serde_json::Error>,
    },
    /// The operator was asked and said no.
    #[error("not confirmed; nothing was changed")]
    Declined,
    /// Ctrl-C at a question.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// The terminal does not work.
    #[error("cannot ask on the terminal")]
    Terminal(#[source] dialoguer::Error),
    /// The wait was too long.
    #[error("waited {} for {what}; it goes on", human(*waited))]
    TimedOut {
        what: String,
        waited: std::time::Duration,
    },
    /// Somebody asks for a pool that is not there.
    #[error("expected a pool of the tenant, found \"{name}\"")]
    NoPool { name: String },
    /// Somebody asks for a node that is not there.
    #[error(
        "expected a node's id, 4 or more characters of its beginning or end, or its hostname, found \"{name}\""
    )]
    NoNode { name: String },
    /// Somebody asks for a gateway that is not there.
    #[error("expected a gateway's id or its name, found \"{name}\"")]
    NoGateway { name: String },
    /// A part of an id that nothing has which control lists.
    #[error("expected a {what}'s id or a part of one, found \"{named}\" for none that is listed")]
    NoSuch {
        what: &'static str,
        method: &'static str,
        named: String,
    },
    /// What holds a token that nobody could get again.
    #[error("expected no file at {}, found one: a token is never overwritten", path.display())]
    Exists { path: PathBuf },
    /// A key of before, with flags that ask for something else.
    #[error("the key made {rollout} before, which was asked for with other flags than {}", fields.join(" and "))]
    OtherTerms {
        rollout: RolloutId,
        fields: Vec<String>,
    },
    /// The pool is there, and out of use.
    #[error("expected a pool in use, found \"{name}\" archived")]
    ArchivedPool { name: String },
    /// Several things could be meant.
    #[error("expected one {what}, found \"{named}\" for {}", some(found))]
    Ambiguous {
        what: &'static str,
        named: String,
        found: Vec<String>,
    },
    /// The program cannot even begin.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
}

impl Failure {
    /// How the process ends.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Call(error) => call_exit(error),
            Self::NoToken => Exit::Denied,
            Self::Client(_) | Self::Settings(_) | Self::Contexts(_) | Self::Usage(_) => Exit::Usage,
            Self::Cleartext { .. } => Exit::Usage,
            Self::TimedOut { .. } => Exit::TimedOut,
            Self::Interrupted => Exit::Interrupted,
            Self::Print(_)
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Content { .. }
            | Self::Declined
            | Self::Terminal(_)
            | Self::NoPool { .. }
            | Self::NoNode { .. }
            | Self::NoGateway { .. }
            | Self::NoSuch { .. }
            | Self::Exists { .. }
            | Self::OtherTerms { .. }
            | Self::ArchivedPool { .. }
            | Self::Ambiguous { .. }
            | Self::Runtime(_) => Exit::Failed,
        }
    }

    /// Tells whoever asked, in the form that they asked for.
    pub(super) fn print(&self, output: Output) {
        match output {
            Output::Json => note(&printable_json(&self.object().to_string())),
            Output::Table | Output::Wide | Output::Yaml | Output::Name => note(&self.text()),
        }
    }

    /// The word in brackets.
    fn word(&self) -> &'static str {
        match self {
            Self::Call(CallError::Refused { refusal }) => refusal.object.code.word(),
            Self::NoPool { .. }
            | Self::NoNode { .. }
            | Self::NoGateway { .. }
            | Self::NoSuch { .. } => Code::NotFound.word(),
            Self::ArchivedPool { .. } => Code::InvalidState.word(),
            Self::OtherTerms { .. } => Code::Conflict.word(),
            Self::NoToken => Code::Unauthenticated.word(),
            Self::Call(_)
            | Self::Client(_)
            | Self::Settings(_)
            | Self::Contexts(_)
            | Self::Print(_)
            | Self::Usage(_)
            | Self::Cleartext { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Content { .. }
            | Self::Declined
            | Self::Interrupted
            | Self::Terminal(_)
            | Self::TimedOut { .. }
            | Self::Exists { .. }
            | Self::Ambiguous { .. }
            | Self::Runtime(_) => word_of(self.exit()),
        }
    }

    /// For programs: the API's own object where there is one, and one of the same shape where there is none.
    fn object(&self) -> Value {
        if let Self::Call(CallError::Refused { refusal }) = self {
            return refusal.raw.clone();
        }
        let mut error = json!({"code": self.word(), "message": self.sentence()});
        if let (Self::OtherTerms { rollout, fields }, Some(error)) = (self, error.as_object_mut()) {
            let details = json!({"rolloutId": rollout, "flags": fields});
            error.insert("details".to_owned(), details);
        }
        json!({ "error": error })
    }

    /// For people.
    fn text(&self) -> String {
        let bad = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        let mut text = format!("{bad}error[{}]{bad:#}: {}", self.word(), self.sentence());
        if let Self::Call(CallError::Refused { refusal }) = self
            && let Some(request) = &refusal.request
        {
            // Writing to a string does not fail.
            let _written = write!(text, " (request {})", printable(request));
        }
        if let Some(hint) = self.hint() {
            let _written = write!(text, "\n  hint: {hint}");
        }
        text
    }

    /// The message and, behind it, what caused it.
    pub(super) fn sentence(&self) -> String {
        let mut sentence = printable(&self.to_string());
        for cause in self.causes() {
            // A parser's picture of the line that it cannot read keeps its lines.
            let lines: Vec<String> = cause.trim_end().lines().map(printable).collect();
            let gap = if lines.len() > 1 { ":\n" } else { ": " };
            sentence = format!("{sentence}{gap}{}", lines.join("\n"));
        }
        sentence
    }

    fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut cause = self.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        // Between the call and the socket lie layers that tell people nothing.
        if matches!(self, Self::Call(_)) {
            return causes.pop().into_iter().collect();
        }
        causes
    }
}

fn call_exit(error: &CallError) -> Exit {
    match error {
        CallError::Refused { refusal } => match refusal.object.code {
            Code::Unauthenticated | Code::AccessDenied => Exit::Denied,
            Code::InvalidInput
            | Code::NotFound
            | Code::Conflict
            | Code::InvalidState
            | Code::QuotaExceeded
            | Code::Unsupported
            | Code::Internal => Exit::Failed,
            Code::Unavailable => Exit::Unreachable,
        },
        CallError::NotReached { .. }
        | CallError::Silent { .. }
        | CallError::Lost { .. }
        | CallError::Gateway { .. } => Exit::Unreachable,
        CallError::Redirected { .. }
        | CallError::Foreign { .. }
        | CallError::Misunderstood { .. }
        | CallError::TooLong { .. } => Exit::Failed,
    }
}

/// Things that a message names; the others it counts.
const NAMED_MAX: usize = 10;

fn some(found: &[String]) -> String {
    let named: Vec<&str> = found.iter().take(NAMED_MAX).map(String::as_str).collect();
    match found.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        others => format!("{} and {others} more", named.join(", ")),
    }
}

/// The word of what went wrong on this side of the API.
fn word_of(exit: Exit) -> &'static str {
    match exit {
        Exit::Done | Exit::Failed | Exit::RolloutEnded => "FAILED",
        Exit::Usage => "USAGE",
        Exit::Denied => "ACCESS_DENIED",
        Exit::TimedOut => "TIMED_OUT",
        Exit::Unreachable => "UNREACHABLE",
        Exit::Interrupted => "INTERRUPTED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::Refusal;

    fn refused(method: &'static str, error: Value, request: Option<&str>) -> Failure {
        let raw = json!({ "error": error });
        let body: crate::api::error::ErrorBody = serde_json::from_value(raw.clone()).unwrap();
        Failure::Call(CallError::Refused {
            refusal: Box::new(Refusal {
                method,
                object: body.error,
                raw,
                request: request.map(str::to_owned),
            }),
        })
    }

    fn plain(failure: &Failure) -> String {
        anstream::adapter::strip_str(&failure.text()).to_string()
    }

    #[test]
    fn people_get_the_code_the_sentence_the_request_and_a_hint() {
        let failure = refused(
            "rollouts/get",
            json!({"code": "NOT_FOUND", "message": "no such rollout"}),
            Some("01J0"),
        );
        insta::assert_snapshot!(plain(&failure), @r"
        error[NOT_FOUND]: no such rollout (request 01J0)
          hint: `better-compute rollouts list` shows what there is
        ");
        assert_eq!(failure.exit(), Exit::Failed);
    }

    #[test]
    fn bad_input_names_the_field_where_the_sentence_does_not() {
        let error = |message: &str| {
            json!({"code": "INVALID_INPUT", "message": message,
                   "details": {"field": "waves", "rule": "strictly increasing"}})
        };
        let failure = refused("rollouts/create", error("not valid"), None);
        insta::assert_snapshot!(plain(&failure), @r"
        error[INVALID_INPUT]: not valid
          hint: waves: strictly increasing
        ");
        let failure = refused("rollouts/create", error("waves must rise"), None);
        insta::assert_snapshot!(plain(&failure), @"error[INVALID_INPUT]: waves must rise");
    }

    #[test]
    fn programs_get_the_apis_own_object() {
        let error = json!({"code": "CONFLICT", "message": "busy", "details": {"rolloutId": "r"}});
        let failure = refused("rollouts/create", error.clone(), None);
        assert_eq!(failure.object(), json!({ "error": error }));
        let failure = Failure::NoToken;
        assert_eq!(failure.object()["error"]["code"], "UNAUTHENTICATED");
    }

    #[test]
    fn who_may_not_gets_an_exit_code_of_its_own() {
        for (code, exit) in [
            ("UNAUTHENTICATED", Exit::Denied),
            ("ACCESS_DENIED", Exit::Denied),
            ("INTERNAL", Exit::Failed),
            ("INVALID_STATE", Exit::Failed),
        ] {
            let failure = refused("pools/list", json!({"code": code, "message": "no"}), None);
            assert_eq!(failure.exit(), exit, "{code}");
        }
    }

    #[test]
    fn a_server_cannot_move_the_cursor() {
        let failure = refused(
            "pools/list",
            json!({"code": "CONFLICT", "message": "a\u{1b}[2Jb"}),
            None,
        );
        assert!(!failure.sentence().contains('\u{1b}'));
    }
}
