//! Passes on what the line brings: specs and commands to who carries them out, the session's coming and going to the
//! updater and to the note that people read. It decides nothing.

use bc_protocol::{
    session::Facts,
    spec::{NodeSpec, SpecError},
    version::Version,
};

use tokio::sync::watch;

use super::{
    commands::Commands,
    line::News,
    memory::SessionNote,
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
                self.ended();
            }
            News::Spec(spec) => self.spec(spec),
            News::Command(command) => self.commands.hear(command, now),
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
    pub(super) fn ended(&mut self) {
        if self.note.connected {
            self.note.end();
            self.note.save(&self.paths);
        }
    }
}
