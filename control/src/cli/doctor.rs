//! `doctor`.

use clap::Args;
use serde_json::json;

use super::{
    exit::Exit,
    failure::Failure,
    globals::Globals,
    online,
    print::{Answer, Detail, Printer, View},
    secret::Secret,
    settings::{Environment, Settings},
    sheet::{Cell, Headers, Sheet, Tone},
};
use finding::{Finding, Findings, State, Told};

mod files;
mod finding;
mod fleet;
mod rights;
mod service;
mod way;

/// Look whether this machine can work with control, and say how to mend what is wrong
///
/// Looks at the config file and who can read it, the name, the connection, TLS and the certificate, the service and its
/// version, both clocks, the token and what it may do, whether the fleet is frozen, gateways, and releases that expire.
/// Changes nothing. Ends with 1 if something is wrong; a note is worth knowing and no failure.
#[derive(Debug, Args)]
pub(super) struct Doctor {}

impl Doctor {
    pub(super) async fn run(
        self,
        flags: &Globals,
        environment: &Environment,
    ) -> Result<Exit, Failure> {
        let settings = Settings::load(flags, environment);
        let printer = Printer {
            headers: Headers::Hidden,
            ..match &settings {
                Ok(settings) => online::printer(flags, settings),
                Err(_) => online::printer_at_least(flags, environment),
            }
        };
        let mut findings = Findings::told(Told::by(&printer));
        match settings {
            Ok(settings) => {
                files::look(&settings, (flags, environment), &mut findings);
                look(&settings, &mut findings).await;
            }
            // Nothing else can be looked at without them.
            Err(error) => {
                let failure = Failure::from(error);
                let mend = failure.hint().unwrap_or_else(|| CONFIG_MEND.to_owned());
                findings.wrong("config", failure.sentence(), mend);
            }
        }
        let exit = if findings.is_good() {
            Exit::Done
        } else {
            Exit::Failed
        };
        if Told::by(&printer).is_at_the_end() {
            let raw = json!({ "good": findings.is_good(), "findings": findings.all() });
            let value = findings;
            printer.show(&Answer { value, raw })?;
        }
        Ok(exit)
    }
}

/// Settings are words of this machine's owner.
const CONFIG_MEND: &str =
    "correct it where it is written: the config file, a BETTER_COMPUTE_ variable or a flag";

/// Looks from here to the fleet. What fails keeps those checks away that would only fail for the same reason.
async fn look(settings: &Settings, to: &mut Findings) {
    let token = match &settings.token {
        Some(token) => online::read_token(&token.value),
        None => Err(Failure::NoToken),
    };
    // The way can be looked at by somebody without a token, too.
    let nobodys = Secret::new("none");
    let client = match online::client(settings, token.as_ref().unwrap_or(&nobodys)) {
        Ok(client) => client,
        Err(failure) => return to.failed("address", &failure),
    };
    let arrived = way::look(settings, to).await && service::look(&client, to).await;
    match token {
        Err(failure) => to.failed("token", &failure),
        Ok(_) if !arrived => {}
        Ok(_) => {
            if rights::look(&client, to).await.drives_rollouts {
                fleet::look(&client, to).await;
            }
        }
    }
}

impl View for Findings {
    fn sheet(&self, _detail: Detail) -> Sheet {
        sheet(self.all())
    }

    fn names(&self) -> Vec<String> {
        let wrong = self
            .all()
            .iter()
            .filter(|finding| finding.state == State::Wrong);
        wrong.map(|finding| finding.check.to_owned()).collect()
    }
}

fn sheet<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Sheet {
    let rows = findings.into_iter().flat_map(lines).collect();
    Sheet::rows(&["", "CHECK", "FOUND"], rows)
}

/// The longest of the checks' names.
const CHECK_CHARS: usize = "certificate".len();

/// What was found, and below it what to do.
fn lines(finding: &Finding) -> Vec<Vec<Cell>> {
    let state = match finding.state {
        State::Good => Cell::toned("good ", Tone::Good),
        State::Note => Cell::toned("note ", Tone::Busy),
        State::Wrong => Cell::toned("WRONG", Tone::Bad),
    };
    // A parser's picture of a line keeps its lines.
    let mut found = finding.found.lines();
    let mut lines = vec![vec![
        state,
        // Each finding is a table of its own, and all are to stand below each other.
        Cell::new(format!("{:CHECK_CHARS$}", finding.check)),
        Cell::new(found.next().unwrap_or_default()),
    ]];
    lines.extend(found.map(|more| {
        vec![
            Cell::new(""),
            Cell::new(" ".repeat(CHECK_CHARS)),
            Cell::new(more),
        ]
    }));
    if let Some(mend) = &finding.mend {
        let what = match finding.state {
            State::Good | State::Note => format!("hint: {mend}"),
            State::Wrong => format!("to mend: {mend}"),
        };
        lines.push(vec![Cell::new(""), Cell::new(""), Cell::new(what)]);
    }
    lines
}
