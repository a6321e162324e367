//! Where everything lies under a node's folder.
//!
//! Takes the folder, gives paths. Never looks at the disk.

use std::path::{Path, PathBuf};

use bc_protocol::id::CommandId;
use bc_protocol::session::Slot;

/// Where a node's configuration is, if nobody says otherwise.
pub(crate) const DEFAULT_CONFIG: &str = "/etc/bcd/bcd.toml";

/// Where a node's folder is, if nobody says otherwise.
pub(crate) const DEFAULT_ROOT: &str = "/var/lib/bcd";

/// The layout of one node's folder. Many nodes can live on one machine, each in its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    root: PathBuf,
}

impl Paths {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The record's two copies. Neither ranks above the other: the higher counter does.
    pub(crate) fn record_copies(&self) -> [PathBuf; 2] {
        [
            self.root.join("update.json"),
            self.root.join("update.json.1"),
        ]
    }

    /// Held around every change of the record.
    pub(crate) fn update_lock(&self) -> PathBuf {
        self.root.join("update.lock")
    }

    /// Held by whoever watches over this node, for as long as it does.
    pub(crate) fn supervise_lock(&self) -> PathBuf {
        self.root.join("supervise.lock")
    }

    /// The folder of one slot.
    pub(crate) fn slot(&self, slot: Slot) -> PathBuf {
        self.root.join("slots").join(slot.name())
    }

    /// The binary of one slot.
    pub(crate) fn slot_binary(&self, slot: Slot) -> PathBuf {
        self.slot(slot).join("bcd")
    }

    /// The published manifest of one slot; the package's own binary has none.
    pub(crate) fn slot_release(&self, slot: Slot) -> PathBuf {
        self.slot(slot).join("release.json")
    }

    /// The link for people and tools.
    pub(crate) fn current(&self) -> PathBuf {
        self.root.join("current")
    }

    /// The node's key, certificates and id.
    pub(crate) fn identity(&self) -> PathBuf {
        self.root.join("identity")
    }

    /// What the node remembers.
    pub(crate) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Held by the node while it runs: two would fight over one session.
    pub(crate) fn node_lock(&self) -> PathBuf {
        self.state().join("node.lock")
    }

    /// How far the binary on trial came, by its own account.
    pub(crate) fn trial_mark(&self) -> PathBuf {
        self.state().join("trial.json")
    }

    /// The last spec that the node was given.
    pub(crate) fn node_spec(&self) -> PathBuf {
        self.state().join("node-spec.json")
    }

    /// How an attempt stands of a node whose helper could not be told.
    pub(crate) fn own_note(&self) -> PathBuf {
        self.state().join("attempt.json")
    }

    /// The download of a node that hands it to its helper.
    pub(crate) fn download(&self) -> PathBuf {
        self.state().join("bcd.partial")
    }

    /// What that download needs to go on.
    pub(crate) fn download_origin(&self) -> PathBuf {
        self.state().join("bcd.partial.origin")
    }

    /// Where a new binary is shown what a node reads, while it is asked for its preflight.
    pub(crate) fn preflight(&self) -> PathBuf {
        self.root.join("preflight")
    }

    /// What `bcd status` shows of the session.
    pub(crate) fn session(&self) -> PathBuf {
        self.state().join("session.json")
    }

    /// The commands that came, and how they ended.
    pub(crate) fn journal(&self) -> PathBuf {
        self.state().join("commands.json")
    }

    /// What commands collected.
    pub(crate) fn reports(&self) -> PathBuf {
        self.state().join("reports")
    }

    /// What one command collected.
    pub(crate) fn report(&self, command: &CommandId) -> PathBuf {
        self.reports().join(command.as_str())
    }

    /// The number of the last connection.
    pub(crate) fn connect_seq(&self) -> PathBuf {
        self.state().join("connect-seq")
    }
}
