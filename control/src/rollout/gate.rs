//! Whether a wave has failed too often to go on.
//!
//! Takes the wave's counters and what an operator has accepted, gives the gate with its numbers. Computes in whole
//! nodes and parts per million: a ratio at the limit passes, one node more does not.

use std::{collections::BTreeMap, fmt};

use bc_protocol::share::Share;

/// What the gate looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wave<'a> {
    /// The wave, from 0.
    pub wave: u32,
    /// How many waves there are.
    pub waves: u32,
    /// Nodes that were not skipped.
    pub nodes: u32,
    /// Failed nodes, and succeeded ones that have gone away since.
    pub failed: u32,
    /// How many of them an operator has accepted.
    pub accepted: u32,
    /// What is allowed.
    pub max: Share,
    /// Failures by code.
    pub troubles: &'a BTreeMap<String, u32>,
}

/// Why a rollout pauses by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    /// More nodes of the wave failed than may.
    TooManyFailed {
        /// The wave, from 0.
        wave: u32,
        /// How many waves there are.
        waves: u32,
        /// Failures that nobody has accepted.
        failed: u32,
        /// Failures that an operator has accepted.
        accepted: u32,
        /// Nodes of the wave that were not skipped.
        nodes: u32,
        /// What is allowed.
        max: Share,
        /// The code that most of them failed with.
        commonest: Option<String>,
    },
    /// The wave has settled, and no node of the rollout has tried the release.
    Untried {
        /// The wave, from 0.
        wave: u32,
        /// How many waves there are.
        waves: u32,
        /// Nodes of the wave that failed.
        failed: u32,
        /// The code that most of them failed with.
        commonest: Option<String>,
    },
}

/// Shuts the gate if strictly more of the wave has failed than may.
pub(crate) fn judge(wave: Wave<'_>) -> Option<Shut> {
    let failed = wave.failed.saturating_sub(wave.accepted);
    if failed == 0 || !wave.max.is_exceeded_by(failed, wave.nodes) {
        return None;
    }
    Some(Shut::TooManyFailed {
        wave: wave.wave,
        waves: wave.waves,
        failed,
        accepted: wave.accepted,
        nodes: wave.nodes,
        max: wave.max,
        commonest: commonest(wave.troubles),
    })
}

/// The code with the most failures; the first by name of several.
pub(super) fn commonest(troubles: &BTreeMap<String, u32>) -> Option<String> {
    troubles
        .iter()
        .rev()
        .max_by_key(|(_, nodes)| **nodes)
        .map(|(code, _)| code.clone())
}

impl fmt::Display for Shut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFailed {
                wave,
                waves,
                failed,
                accepted,
                nodes,
                max,
                commonest,
            } => {
                let ratio = ratio(*failed, *nodes);
                let number = wave.saturating_add(1);
                write!(
                    f,
                    "wave {number} of {waves}: {failed} of {nodes} nodes failed, a ratio of {ratio} where {max} is allowed"
                )?;
                if *accepted > 0 {
                    write!(f, ", beside {accepted} accepted before")?;
                }
                match commonest {
                    Some(code) => write!(f, "; most often {code}"),
                    None => Ok(()),
                }
            }
            Self::Untried {
                wave,
                waves,
                failed,
                commonest,
            } => {
                let number = wave.saturating_add(1);
                write!(
                    f,
                    "wave {number} of {waves}: settled, and no node has succeeded yet: "
                )?;
                match failed {
                    0 => return f.write_str("nobody has tried the release"),
                    1 => f.write_str("the one that tried the release failed")?,
                    failed => write!(f, "all {failed} that tried the release failed")?,
                }
                match commonest {
                    Some(code) if *failed == 1 => write!(f, ", with {code}"),
                    Some(code) => write!(f, ", most often with {code}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The ratio in parts per million, as people read it.
fn ratio(part: u32, whole: u32) -> String {
    let millionths = u64::from(part) * 1_000_000 / u64::from(whole.max(1));
    u32::try_from(millionths)
        .ok()
        .and_then(|millionths| Share::from_millionths(millionths).ok())
        .map_or_else(|| "more than 1".to_owned(), |share| share.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Wave, judge};
    use std::collections::BTreeMap;

    fn check(failed: u32, accepted: u32, nodes: u32, max: &str, reason: &str) {
        let troubles = BTreeMap::from([
            ("crashed".to_owned(), 1),
            ("digest".to_owned(), 2),
            ("no-welcome".to_owned(), 2),
        ]);
        let shut = judge(Wave {
            wave: 1,
            waves: 4,
            nodes,
            failed,
            accepted,
            max: max.parse().unwrap(),
            troubles: &troubles,
        });
        assert_eq!(
            shut.map(|shut| shut.to_string()).unwrap_or_default(),
            reason
        );
    }

    #[test]
    fn one_canary_that_failed_shuts_it() {
        check(
            1,
            0,
            1,
            "0.05",
            "wave 2 of 4: 1 of 1 nodes failed, a ratio of 1 where 0.05 is allowed; most often digest",
        );
    }

    #[test]
    fn a_ratio_at_the_limit_passes() {
        check(1, 0, 20, "0.05", "");
        check(29, 0, 100, "0.29", "");
    }

    #[test]
    fn one_node_more_than_the_limit_does_not() {
        check(
            2,
            0,
            20,
            "0.05",
            "wave 2 of 4: 2 of 20 nodes failed, a ratio of 0.1 where 0.05 is allowed; most often digest",
        );
        check(
            30,
            0,
            100,
            "0.29",
            "wave 2 of 4: 30 of 100 nodes failed, a ratio of 0.3 where 0.29 is allowed; most often digest",
        );
    }

    #[test]
    fn what_an_operator_accepted_does_not_count_again() {
        check(1, 1, 1, "0", "");
        check(
            3,
            1,
            20,
            "0.05",
            "wave 2 of 4: 2 of 20 nodes failed, a ratio of 0.1 where 0.05 is allowed, beside 1 accepted before; most often digest",
        );
    }

    #[test]
    fn no_failure_is_too_much_only_where_there_is_one() {
        check(0, 0, 5, "0", "");
        check(
            1,
            0,
            5,
            "0",
            "wave 2 of 4: 1 of 5 nodes failed, a ratio of 0.2 where 0 is allowed; most often digest",
        );
    }

    #[test]
    fn everything_may_fail() {
        check(5, 0, 5, "1", "");
    }
}
