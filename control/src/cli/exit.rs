//! How the command line ends.
//!
//! Gives every ending its exit status and its sentence; `help exit-codes` prints this table, so that the two agree.

use std::process::ExitCode;

/// How a command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked.
    Done,
    /// It did not.
    Failed,
    /// The command line, or a setting, makes no sense.
    Usage,
    /// The rollout that was watched did not bring its release to every node.
    RolloutEnded,
    /// The token is not known, or may not do this.
    Denied,
    /// The wait was longer than `--timeout`.
    TimedOut,
    /// No answer from a server.
    Unreachable,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// All endings, in the order of their numbers.
    pub(crate) const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::RolloutEnded,
        Self::Denied,
        Self::TimedOut,
        Self::Unreachable,
        Self::Interrupted,
    ];

    /// The exit status.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::RolloutEnded => 3,
            Self::Denied => 4,
            Self::TimedOut => 5,
            Self::Unreachable => 6,
            // The shells' own number for SIGINT.
            Self::Interrupted => 130,
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done; a watched rollout completed without a failed node",
            Self::Failed => "failed: the server refused, or something here went wrong",
            Self::Usage => "usage: the command line, a variable or the config file makes no sense",
            Self::RolloutEnded => {
                "the watched rollout was paused or aborted, or completed with failed nodes"
            }
            Self::Denied => "the token is missing, not known, or may not do this",
            Self::TimedOut => "waiting took longer than --timeout; what was watched goes on",
            Self::Unreachable => "the server was not reached, or its answer was lost on the way",
            Self::Interrupted => "interrupted; what was watched goes on",
        }
    }

    /// The table for `help exit-codes`.
    pub(crate) fn help() -> String {
        let rows = Self::ALL.map(|exit| format!("  {:>3}  {}\n", exit.code(), exit.meaning()));
        format!(
            "Every command ends with one of these exit codes:\n\n{}",
            rows.concat()
        )
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
