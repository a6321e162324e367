//! What `doctor` found.
//!
//! Takes findings as they are made, keeps them in order. Pure.

use serde::Serialize;

use crate::cli::failure::Failure;

/// What was found, in the order in which it was looked for.
#[derive(Debug, Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
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
        self.all.push(Finding {
            check,
            state,
            found,
            mend,
        });
    }
}
