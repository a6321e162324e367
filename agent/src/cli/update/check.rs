//! `bcd update check`: what runs, what is wanted, and what comes of it.
//!
//! Takes the node's files, gives one answer for people or for programs. Asks nobody, and changes nothing.

use bc_protocol::{
    digest::Sha256, id::AttemptId, session::AttemptFacts, spec::DaemonSection, time::Timestamp,
    version::Version,
};
use serde::Serialize;

use super::status;
use crate::{
    Build,
    cli::CommandError,
    hold::Hold,
    node::memory,
    shown::one_line,
    updater::{host::Host, record::Notice},
};

/// What was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checked {
    running: String,
    /// Absent where the package's own binary was rescued.
    running_digest: Option<Sha256>,
    /// Absent where the fleet has not said.
    wanted: Option<Version>,
    wanted_digest: Option<Sha256>,
    /// Under which the fleet wants it.
    attempt: Option<AttemptId>,
    up_to_date: bool,
    /// The owner's reason.
    held: Option<String>,
    held_since: Option<Timestamp>,
    /// In a sentence.
    next: String,
}

/// Looks at the node's files.
pub(super) fn look(host: &Host, build: Build, held: Option<Hold>) -> Result<Checked, CommandError> {
    let record = host.status()?;
    let running_digest = match record.notice() {
        Some(Notice::Rescue) => None,
        Some(Notice::Recovered) | None => Some(record.chosen().digest),
    };
    let section = memory::spec(host.paths()).and_then(|spec| spec.daemon);
    let digest = section.as_ref().map(|section| section.sha256);
    let up_to_date = digest.is_none() || digest == running_digest;
    let last = record.last_attempt().map(|attempt| attempt.facts());
    let work = match memory::session(host.paths()) {
        Ok(Some(note)) if note.removed => Work::Removed,
        Ok(_) | Err(_) => work(section.as_ref(), up_to_date, last),
    };
    let (held, held_since) = match held {
        Some(hold) => (Some(hold.reason), hold.since),
        None => (None, None),
    };
    Ok(Checked {
        running: status::version_of(host, &record, build),
        running_digest,
        wanted_digest: digest,
        attempt: section.as_ref().map(|section| section.attempt.clone()),
        next: next(&work, held.is_some()),
        wanted: section.map(|section| section.version),
        up_to_date,
        held,
        held_since,
    })
}

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
enum Work {
    /// The fleet has not told it to run anything.
    Untold,
    /// It runs what it is to run.
    Done,
    /// The attempt is over, and did not work out.
    Over { version: Version },
    /// It is to be done.
    Due { version: Version },
    /// The fleet tells it nothing any more.
    Removed,
}

fn work(section: Option<&DaemonSection>, up_to_date: bool, last: Option<&AttemptFacts>) -> Work {
    let Some(section) = section else {
        return Work::Untold;
    };
    let version = section.version.clone();
    let is_over = last.is_some_and(|last| last.id == section.attempt && last.is_final);
    match (up_to_date, is_over) {
        (true, _) => Work::Done,
        (false, true) => Work::Over { version },
        (false, false) => Work::Due { version },
    }
}

fn next(work: &Work, is_held: bool) -> String {
    match (work, is_held) {
        (Work::Untold | Work::Done, false) => {
            "nothing, until the fleet wants another one".to_owned()
        }
        (Work::Untold | Work::Done, true) => {
            "rollouts pass it over while it is held; after release the fleet brings \
             it the release of the newest one that has completed for its pool"
                .to_owned()
        }
        (Work::Due { version }, false) => {
            format!("the update to {version} begins, or is under way")
        }
        (Work::Due { version }, true) => {
            format!("nothing while it is held; on release the update to {version} begins at once")
        }
        (Work::Removed, _) => {
            "nothing: the fleet has removed this node (bcd doctor says what to do)".to_owned()
        }
        (Work::Over { version }, _) => format!(
            "nothing: this attempt at {version} has ended (bcd status says how), and only the fleet begins another one"
        ),
    }
}

impl Checked {
    /// For people.
    pub(super) fn text(&self) -> String {
        let digest = |digest: Option<Sha256>| match digest {
            // Of one binary that is both, the digest says nothing.
            Some(digest) if !self.up_to_date => format!(", digest {digest}"),
            Some(_) | None => String::new(),
        };
        let wanted = match (&self.wanted, &self.attempt) {
            (Some(wanted), _) if self.up_to_date => format!("{wanted}, which runs"),
            (Some(wanted), Some(attempt)) => {
                format!("{wanted}, attempt {attempt}{}", digest(self.wanted_digest))
            }
            (Some(wanted), None) => wanted.to_string(),
            (None, _) => "nothing in particular".to_owned(),
        };
        let held = match (&self.held, self.held_since) {
            (Some(reason), Some(since)) => format!("held since {since}: {}", one_line(reason)),
            (Some(reason), None) => format!("held: {}", one_line(reason)),
            (None, _) => "not held".to_owned(),
        };
        format!(
            "running      {}{}\nwanted       {wanted}\nupdates      {held}\nnext         {}\n",
            self.running,
            digest(self.running_digest),
            self.next
        )
    }

    /// For programs.
    pub(super) fn json(&self) -> Result<String, CommandError> {
        let json = serde_json::to_string(self);
        Ok(json.map_err(|error| CommandError::Output(error.into()))? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(due: bool, held: bool) -> Checked {
        let version: Version = "1.2.0".parse().unwrap();
        let work = if due {
            Work::Due {
                version: version.clone(),
            }
        } else {
            Work::Done
        };
        Checked {
            running: "1.2.0".to_owned(),
            running_digest: Some(Sha256::of(b"one")),
            wanted: Some(version),
            wanted_digest: Some(Sha256::of(if due { b"two" } else { b"one" })),
            attempt: Some(AttemptId::derived(&[b"one"])),
            up_to_date: !due,
            held: held.then(|| "a trade fair".to_owned()),
            held_since: held.then(|| "2026-11-30T10:00:00Z".parse().unwrap()),
            next: next(&work, held),
        }
    }

    #[test]
    fn a_held_owner_is_told_since_when_why_and_what_release_does() {
        let told = checked(true, true).text();
        for part in [
            "updates      held since 2026-11-30T10:00:00Z: a trade fair\n",
            "next         nothing while it is held; on release the update to 1.2.0 begins at once\n",
        ] {
            assert!(told.contains(part), "{told}");
        }
        let told = checked(false, true).text();
        assert!(
            told.contains("rollouts pass it over while it is held"),
            "{told}"
        );
        assert!(!told.contains("up to date"), "{told}");
    }

    #[test]
    fn another_binary_of_the_same_version_is_another_one() {
        let told = checked(true, false).text();
        let digests = [b"one", b"two"].map(|bytes| Sha256::of(bytes).to_string());
        assert!(digests.iter().all(|digest| told.contains(digest)), "{told}");
        assert!(told.contains("attempt att_"), "{told}");
        let told = checked(false, false).text();
        assert!(told.contains("wanted       1.2.0, which runs\n"), "{told}");
        assert!(
            !digests.iter().any(|digest| told.contains(digest)),
            "{told}"
        );
    }

    #[test]
    fn a_removed_node_waits_for_nothing() {
        for is_held in [false, true] {
            let told = next(&Work::Removed, is_held);
            assert!(told.contains("the fleet has removed this node"), "{told}");
        }
    }

    #[test]
    fn an_attempt_that_is_over_is_not_promised_again() {
        let version: Version = "1.2.0".parse().unwrap();
        let told = next(&Work::Over { version }, false);
        assert!(
            told.starts_with("nothing: this attempt at 1.2.0 has ended"),
            "{told}"
        );
    }
}
