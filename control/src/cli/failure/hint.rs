//! What to do about a failure.
//!
//! Takes why a command did not do what it was asked, gives the next step, if there is one that helps. Pure.

use serde_json::Value;

use super::Failure;
use crate::{
    api::error::Code,
    cli::{
        client::{CallError, Refusal},
        print::PrintError,
        settings::is_default,
        sheet::printable,
    },
};

const TOKEN_HINT: &str =
    "give --token-file or BETTER_COMPUTE_TOKEN_FILE, or run `better-compute login`";

impl Failure {
    /// Whether somebody answered a TLS handshake with something else.
    fn met_no_tls(&self) -> bool {
        let said = self.sentence();
        said.contains("InvalidContentType") || said.contains("corrupt message")
    }

    /// What to do about it.
    pub(in crate::cli) fn hint(&self) -> Option<String> {
        match self {
            Self::Call(CallError::Refused { refusal }) => refusal_hint(refusal),
            Self::Call(CallError::NotReached { .. }) if self.sentence().contains("certificate") => {
                Some("--ca-file names a file of certificates to trust".to_owned())
            }
            Self::Call(CallError::NotReached { base, .. }) if is_default(base) => Some(
                "nobody said where control listens, so the address of the guides was tried: --url or BETTER_COMPUTE_URL name another one, `better-compute login` keeps one"
                    .to_owned(),
            ),
            Self::Call(CallError::NotReached { .. } | CallError::Lost { .. }) if self.met_no_tls() => Some(
                "no TLS is spoken there: is it http:// and not https://?".to_owned(),
            ),
            Self::Call(CallError::Lost { .. }) if self.sentence().contains("HTTP version") => Some(
                "no HTTP is spoken there: is it https:// and not http://, or the port of the link or of sessions?".to_owned(),
            ),
            Self::Call(CallError::NotReached { .. } | CallError::Gateway { .. }) => Some(
                "`better-compute doctor` looks at the way there, and `config show` says where the address comes from"
                    .to_owned(),
            ),
            Self::Call(CallError::Silent { .. } | CallError::Lost { .. }) => {
                Some("it may have been carried out; look before you try again".to_owned())
            }
            Self::Call(CallError::Redirected { .. } | CallError::Foreign { .. }) => Some(
                "`better-compute config show` says where the address comes from: it ends before /api, and before /console"
                    .to_owned(),
            ),
            Self::Call(CallError::Misunderstood { .. }) => {
                Some("is this version much older or newer than the server?".to_owned())
            }
            Self::NoToken => Some(TOKEN_HINT.to_owned()),
            Self::Cleartext { .. } => Some(
                "--allow-http sends it all the same, for networks that you trust".to_owned(),
            ),
            Self::NoPool { .. } => Some("`better-compute pools list` shows all".to_owned()),
            Self::NoNode { .. } => Some("`better-compute nodes list` shows all".to_owned()),
            Self::NoGateway { .. } => Some("`better-compute gateways list` shows all".to_owned()),
            Self::NoSuch { method, .. } => method.split_once('/').map(|(group, _)| {
                format!("`better-compute {} list` shows what there is", command_of(group))
            }),
            Self::Exists { .. } => Some(
                "name another file, or put that one away; nothing was asked of control yet".to_owned(),
            ),
            Self::Print(PrintError::Query(_)) => Some(
                "what was asked of control is done; without --query the whole answer is printed".to_owned(),
            ),
            Self::ArchivedPool { name } => Some(format!(
                "`better-compute pools unarchive {}` takes it into use again",
                printable(name)
            )),
            Self::OtherTerms { rollout, .. } => Some(format!(
                "`better-compute rollouts get {rollout}` shows it; another --key, or none, makes another one"
            )),
            Self::Ambiguous { .. } => Some("give one of these, or more characters of it".to_owned()),
            Self::Declined => Some("--yes answers for you".to_owned()),
            Self::Call(CallError::TooLong { .. })
            | Self::Client(_)
            | Self::Settings(_)
            | Self::Contexts(_)
            | Self::Print(PrintError::Json(_) | PrintError::Yaml(_) | PrintError::Output(_))
            | Self::Usage(_)
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Content { .. }
            | Self::Interrupted
            | Self::Terminal(_)
            | Self::TimedOut { .. }
            | Self::Runtime(_) => None,
        }
    }
}

fn refusal_hint(refusal: &Refusal) -> Option<String> {
    let detail = |name: &str| refusal.object.details.get(name).and_then(Value::as_str);
    let (group, _) = refusal.method.split_once('/')?;
    let said = &refusal.object.message;
    match refusal.object.code {
        Code::InvalidInput => {
            if detail("reason") == Some("threshold") {
                return Some(
                    "`better-compute release show` says whose keys have signed; whom control believes is `release.pins` of its control.toml"
                        .to_owned(),
                );
            }
            // Only what the sentence does not say already.
            let field = detail("field").filter(|field| !said.contains(field))?;
            Some(match detail("rule").filter(|rule| !said.contains(rule)) {
                Some(rule) => format!("{}: {}", printable(field), printable(rule)),
                None => format!("look at {}", printable(field)),
            })
        }
        // A token was sent, or the call would not have been made: where it came from is what helps.
        Code::Unauthenticated => Some(
            "`better-compute config show` says where the token comes from; `better-compute login` tries another"
                .to_owned(),
        ),
        Code::AccessDenied => Some(
            "an administrator can make a token that may: `better-compute tokens create`".to_owned(),
        ),
        // No method of ours has another path: what answers is not where the API is.
        Code::NotFound if said.contains("POST /api/compute") => Some(
            "`better-compute config show` says where the address comes from: it ends before /api, and before /console"
                .to_owned(),
        ),
        Code::NotFound if matches!(refusal.method, "rollouts/create" | "rollouts/plan") => {
            Some("`better-compute releases list` and `pools list` show what there is".to_owned())
        }
        Code::NotFound => Some(format!(
            "`better-compute {} list` shows what there is",
            command_of(group)
        )),
        Code::Conflict => detail("rolloutId")
            .map(|id| format!("`better-compute rollouts get {}` shows it", printable(id))),
        Code::InvalidState if refusal.method == "rollouts/retry" => Some(
            "`better-compute rollouts create` brings a release to such nodes again, with --node to those alone".to_owned(),
        ),
        Code::InvalidState
            if matches!(
                refusal.method,
                "rollouts/pause" | "rollouts/resume" | "rollouts/abort"
            ) =>
        {
            detail("rolloutId").map(|id| {
                format!(
                    "`better-compute rollouts get {}` shows how it ended",
                    printable(id)
                )
            })
        }
        Code::Internal => (!said.contains("log"))
            .then(|| "control's log says more, under the request's id".to_owned()),
        Code::Unavailable => Some(
            "nodes run on meanwhile; `better-compute doctor` looks again, and control's log says why".to_owned(),
        ),
        Code::InvalidState | Code::QuotaExceeded | Code::Unsupported => None,
    }
}

/// The API's groups as the command line spells them.
fn command_of(group: &str) -> &str {
    if group == "joinTokens" {
        "join-tokens"
    } else {
        group
    }
}
