//! Passes on what the line brings: specs and commands to who carries them out, the session's coming and going to the
//! updater and to the note that people read. It decides nothing.

use bc_protocol::{
    command::{Command, Order},
    session::Facts,
    spec::{NodeSpec, SpecError},
    version::Version,
};

use tokio::sync::watch;

use super::{
    commands::Commands,
    line::News,
    memory::SessionNote,
    session::Ending,
    update::{UpdateState, Updates},
};
use crate::{
    faults::{Fault, planted},
    paths::Paths,
};

/// See the module's card.
pub(super) struct Listener {
    pub(super) updates: Updates,
    pub(super) note: SessionNote,
    pub(super) specs: watch::Sender<Option<NodeSpec>>,
    pub(super) paths: Paths,
    pub(super) commands: Commands,
}

impl Listener {
    /// Takes one piece of news, with what the node is now.
    pub(super) fn hear(&mut self, news: News, now: (&UpdateState, &Facts)) {
        match news {
            News::Welcomed {
                gateway,
                server_time_ms,
            } => {
                // First of all: the time until a trial is confirmed starts here.
                if planted(Fault::CrashesWelcomed) {
                    std::process::abort();
                }
                self.updates.welcomed();
                self.commands.welcomed(server_time_ms);
                self.note.begin(gateway);
                self.note.save(&self.paths);
            }
            News::Lost(ending) => {
                self.updates.lost(ending.lost());
                self.ended(Some(&ending));
            }
            News::Spec(spec) => self.spec(spec),
            News::Command(command) => {
                if let Ok(Command {
                    order: Order::Upgrade(_),
                    ..
                }) = &command
                {
                    forget_section(&self.specs);
                }
                self.commands.hear(command, now);
            }
        }
    }

    /// A spec counts at once. It is kept beside that, and said to have been seen when it is on the disk.
    fn spec(&mut self, spec: Result<NodeSpec, SpecError>) {
        if let Ok(spec) = &spec {
            self.specs.send_replace(Some(spec.clone()));
        }
        self.updates.spec(spec);
    }

    pub(super) fn helper(&mut self, helper: Option<Version>) {
        if self.note.helper != helper {
            self.note.helper = helper;
            self.note.save(&self.paths);
        }
    }

    /// There is no session any more.
    pub(super) fn ended(&mut self, why: Option<&Ending>) {
        if self.note.end(why) {
            self.note.save(&self.paths);
        }
    }
}

/// An upgrade by command is newer than the spec that is remembered: were that looked at again after the next start, it
/// would be answered anew, in place of the attempt that the command was for, which would then be tried again.
fn forget_section(remembered: &watch::Sender<Option<NodeSpec>>) {
    remembered.send_if_modified(|remembered| {
        let section = remembered.as_mut().and_then(|spec| spec.daemon.take());
        section.is_some()
    });
}

#[cfg(test)]
mod tests {
    use bc_protocol::{
        digest::Sha256,
        id::AttemptId,
        spec::{DaemonSection, NodeSpec},
    };
    use tokio::sync::watch;

    use super::forget_section;

    /// I7: the next start does not go back to what a command has replaced.
    #[test]
    fn a_command_outlives_the_section_before_it_and_no_generation_is_unseen_by_that() {
        let daemon = DaemonSection {
            version: "1.1.0".parse().unwrap(),
            url: String::new(),
            sha256: Sha256::of(b"1.1.0"),
            signature: Vec::new(),
            attempt: AttemptId::derived(&[b"one"]),
        };
        let (specs, mut kept) = watch::channel(Some(NodeSpec {
            generation: 7,
            daemon: Some(daemon),
        }));
        forget_section(&specs);
        let forgotten = NodeSpec {
            generation: 7,
            daemon: None,
        };
        assert!(kept.has_changed().unwrap());
        assert_eq!(*kept.borrow_and_update(), Some(forgotten));
        forget_section(&specs);
        assert!(
            !kept.has_changed().unwrap(),
            "nothing is written for nothing"
        );
    }
}
