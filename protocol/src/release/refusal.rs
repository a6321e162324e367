//! Why a manifest is not believed.
//!
//! The reasons that verification gives, each with its numbers and its one word. Decides nothing.

use std::num::NonZeroUsize;

use thiserror::Error;

use crate::limits::{BODY_BYTES_MAX, PUBLISHED_BYTES_MAX};
use crate::text::excerpt;
use crate::time::Timestamp;

/// Why a manifest is not believed. The first that holds, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It does not parse, or breaks a limit.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Too few of the pinned keys signed.
    #[error("expected valid signatures of {need} pinned keys, found {have}")]
    Threshold {
        /// How many are needed.
        need: NonZeroUsize,
        /// How many distinct pinned keys signed.
        have: usize,
    },
    /// Other bytes would mean the same.
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    /// It is a release of something else.
    #[error(
        "expected a release of {expected}, found one of \"{}\"",
        excerpt(found)
    )]
    Product {
        /// The product asked for.
        expected: String,
        /// The product that the manifest names.
        found: String,
    },
    /// Its time is over.
    #[error(
        "expected a manifest that has not expired by {now}, found one that expired at {expired_at}"
    )]
    Expired {
        /// When it expired.
        expired_at: Timestamp,
        /// When it was judged.
        now: Timestamp,
    },
}

impl Refusal {
    /// The reason in one word, as commands, errors and reports name it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Threshold { .. } => "threshold",
            Self::NotCanonical(_) => "not-canonical",
            Self::Product { .. } => "product",
            Self::Expired { .. } => "expired",
        }
    }
}

/// What keeps bytes from being a manifest at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Too large to be looked at.
    #[error("expected a file of at most {PUBLISHED_BYTES_MAX} bytes, found {found}")]
    FileSize {
        /// Its size.
        found: usize,
    },
    /// The file is not of the published form.
    #[error("the file does not read as a published manifest: {problem}")]
    File {
        /// What the reader stopped at.
        problem: String,
    },
    /// The body is not in the one base64 form.
    #[error("the body is not in standard base64: {problem}")]
    BodyEncoding {
        /// What the decoder stopped at.
        problem: String,
    },
    /// The body is too large to be parsed.
    #[error("expected a body of at most {BODY_BYTES_MAX} bytes, found {found}")]
    BodySize {
        /// Its size.
        found: usize,
    },
    /// The body is not of the manifest's form.
    #[error("the body does not read as a manifest: {problem}")]
    Body {
        /// What the reader stopped at.
        problem: String,
    },
}

/// How a body that parses differs from its canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotCanonical {
    /// Another spelling of the same.
    #[error("expected the body in its canonical form, found other bytes from offset {offset} on")]
    Form {
        /// The first byte that differs.
        offset: usize,
    },
    /// Artifacts in another order.
    #[error(
        "expected artifacts in the order of their names, found \"{}\" too late",
        excerpt(name)
    )]
    Unsorted {
        /// The first artifact that should have come earlier.
        name: String,
    },
}
