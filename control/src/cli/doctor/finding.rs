//! What `doctor` found.
//!
//! Takes findings as they are made, keeps them in order, and tells people each of them at once: a look that waits for
//! somebody who does not answer must not keep back what was found before.

use serde::Serialize;

use super::sheet;
use crate::cli::{
    failure::Failure,
    print::{Output, Printer},
};

/// What was found, in the order in which it was looked for.
#[derive(Debug, Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
    told: Told,
}

/// When findings are told.
#[derive(Clone, Debug, Default)]
pub(super) enum Told {
    /// Together: to programs.
    #[default]
    AtTheEnd,
    /// One by one: to people.
    AtOnce(Box<Printer>),
}

impl Told {
    /// As this printer's reader wants it.
    pub(super) fn by(printer: &Printer) -> Self {
        match (printer.output, &printer.query) {
            (Output::Table | Output::Wide, None) => Self::AtOnce(Box::new(printer.clone())),
            (Output::Json | Output::Yaml | Output::Name, _) | (_, Some(_)) => Self::AtTheEnd,
        }
    }

    /// Whether nobody has been told anything yet.
    pub(super) fn is_at_the_end(&self) -> bool {
        match self {
            Self::AtTheEnd => true,
            Self::AtOnce(_) => false,
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// In a word.
    pub check: &'static str,
    /// How it stands.
    pub state: State,
    /// In a sentence.
    pub found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Somebody has to do something.
    Wrong,
}

impl Findings {
    /// None yet.
    pub(super) fn told(told: Told) -> Self {
        Self {
            all: Vec::new(),
            told,
        }
    }

    /// As it should be.
    pub(super) fn good(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, State::Good, (found.into(), None));
    }

    /// Worth knowing, and what one may do.
    pub(super) fn note(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.add(check, State::Note, (found.into(), Some(mend.into())));
    }

    /// To be mended, and how.
    pub(super) fn wrong(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.add(check, State::Wrong, (found.into(), Some(mend.into())));
    }

    /// What a command would end with, and the hint that it would give.
    pub(super) fn failed(&mut self, check: &'static str, failure: &Failure) {
        self.add(check, State::Wrong, (failure.sentence(), failure.hint()));
    }

    /// Everything that was found.
    pub(super) fn all(&self) -> &[Finding] {
        &self.all
    }

    /// Whether nothing has to be done.
    pub(super) fn is_good(&self) -> bool {
        self.all.iter().all(|finding| finding.state != State::Wrong)
    }

    fn add(&mut self, check: &'static str, state: State, (found, mend): (String, Option<String>)) {
        let finding = Finding {
            check,
            state,
            found,
            mend,
        };
        if let Told::AtOnce(printer) = &self.told {
            // Where nobody can be told, the exit status still tells.
            let _untold = printer.show_sheet(sheet([&finding]));
        }
        self.all.push(finding);
    }
}
