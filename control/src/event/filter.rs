//! Which events somebody wants to see. Pure.
//!
//! Takes a list of types as callers write it, decides about single events.

use thiserror::Error;

use super::kinds;

/// More is a list of everything.
pub(crate) const TYPES_MAX: usize = 50;

/// No type is longer.
const TYPE_CHARS_MAX: usize = 64;

/// The types that somebody wants; all where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    types: Vec<String>,
}

/// Why a list of types is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum FilterError {
    /// It is too long.
    #[error("expected at most {TYPES_MAX} types, found {found}")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// No type looks like that.
    #[error("expected types like rollout.paused or rollout.*, found \"{found}\"")]
    Form {
        /// The text.
        found: String,
    },
    /// No event has that type.
    #[error(
        "expected types that events have, such as rollout.paused or rollout.*, found \"{found}\""
    )]
    Unknown {
        /// The text.
        found: String,
    },
}

impl Filter {
    /// Reads what somebody asks for now: who waits for a type that there is not waits in vain.
    pub(crate) fn asked(types: &[String]) -> Result<Self, FilterError> {
        let filter = Self::parse(types)?;
        let of_none = |wanted: &&String| !kinds::any(|kind| matches(wanted, kind));
        match types.iter().find(of_none) {
            Some(found) => Err(FilterError::Unknown {
                found: found.clone(),
            }),
            None => Ok(filter),
        }
    }

    /// The same, and one type more.
    #[must_use]
    pub(crate) fn and(mut self, kind: &str) -> Self {
        // A list of none wants everything already.
        if !self.types.is_empty() {
            self.types.push(kind.to_owned());
        }
        self
    }

    /// Reads a list that was taken once; another build may have known other types.
    pub(crate) fn parse(types: &[String]) -> Result<Self, FilterError> {
        if types.len() > TYPES_MAX {
            return Err(FilterError::TooMany { found: types.len() });
        }
        if let Some(wrong) = types.iter().find(|text| !is_type(text)) {
            return Err(FilterError::Form {
                found: wrong.chars().take(TYPE_CHARS_MAX).collect(),
            });
        }
        Ok(Self {
            types: types.to_vec(),
        })
    }

    /// Whether an event of this type is wanted.
    pub(crate) fn wants(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|wanted| matches(wanted, kind))
    }

    /// As it was written.
    pub(crate) fn types(&self) -> &[String] {
        &self.types
    }
}

fn matches(wanted: &str, kind: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(group) => kind.starts_with(group),
        None => wanted == kind,
    }
}

fn is_type(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte == b'-' || byte.is_ascii_lowercase())
    };
    let Some((group, what)) = text.split_once('.') else {
        return false;
    };
    text.len() <= TYPE_CHARS_MAX && is_word(group) && (what == "*" || is_word(what))
}

#[cfg(test)]
mod tests {
    use super::Filter;

    fn filter(types: &[&str]) -> Option<Filter> {
        let types: Vec<String> = types.iter().map(|&text| text.to_owned()).collect();
        Filter::parse(&types).ok()
    }

    #[test]
    fn a_type_or_a_kind_of_them() {
        let some = filter(&["rollout.paused", "node.*"]).unwrap();
        for (kind, wanted) in [
            ("rollout.paused", true),
            ("rollout.paused-again", false),
            ("rollout.started", false),
            ("node.upgrade-failed", true),
            ("nodes.x", false),
        ] {
            assert_eq!(some.wants(kind), wanted, "{kind}");
            assert!(Filter::default().wants(kind));
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for text in [
            "", "*", "rollout", "rollout.", ".x", "a.b.c", "A.b", "a.b*", "a%.b",
        ] {
            assert!(filter(&[text]).is_none(), "{text}");
        }
        assert!(filter(&["a.b"; 51]).is_none());
    }

    #[test]
    fn a_type_that_no_event_has_is_refused_where_somebody_asks_for_it() {
        let asked = |text: &str| Filter::asked(&[text.to_owned()]);
        for text in [
            "rollout.paused",
            "rollout.*",
            "join-token.*",
            "webhook.test",
        ] {
            assert!(asked(text).is_ok(), "{text}");
        }
        for text in ["rolout.*", "rollout.pause", "node.rebooted"] {
            let error = asked(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
            assert!(filter(&[text]).is_some(), "{text}");
        }
        assert!(Filter::asked(&[]).is_ok());
    }

    #[test]
    fn one_type_more_is_wanted_too() {
        let some = filter(&["pool.*"]).unwrap().and("webhook.test");
        assert!(some.wants("webhook.test") && some.wants("pool.created"));
        assert!(Filter::default().and("webhook.test").wants("pool.created"));
    }
}
