//! What a simulator says to a node without a machine, and what it hears.

use std::time::Duration;

use bc_protocol::{
    digest::Sha256,
    sequence::Sequence,
    session::{FromGateway, FromNode},
    version::Version,
};

/// What a binary does when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// What it should.
    Good,
    /// It ends as soon as it is started.
    ExitsAtOnce,
    /// It does nothing at all.
    Hangs,
    /// It runs, and never opens a connection.
    NeverConnects,
    /// It dies as soon as it is welcomed, every time.
    CrashesWelcomed,
    /// It proves itself, and dies every few minutes from then on.
    CrashesLater,
    /// It speaks protocol 1 and nothing newer.
    OldProtocol,
    /// It cannot run here, and says so.
    FailsPreflight,
    /// Too few have signed it.
    Unsigned,
}

/// A binary that nodes can be told to run.
#[derive(Clone, Debug)]
pub struct Release {
    /// Its version.
    pub version: Version,
    /// Its release's sequence.
    pub sequence: Sequence,
    /// Its bytes.
    pub digest: Sha256,
    /// What it does.
    pub behaviour: Behaviour,
}

/// What a node can do wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A trial raises the floor by beginning.
    FloorBeforeWelcome,
    /// The session does not have to hold.
    ConfirmedAtOnce,
    /// A start of a trial is not counted.
    StartsNotCounted,
    /// Nobody ends a trial.
    NoWatchdog,
    /// An attempt that has ended is tried again.
    EndedForgotten,
    /// Going back forgets the floor.
    FloorForgotten,
    /// What is staged goes where the confirmed binary lies.
    WrongSlot,
    /// A start does not know of the commands before it.
    JournalForgotten,
}

/// What a node is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What it can be told to run; the first came with the package.
    pub releases: Vec<Release>,
    /// How long a session has to hold before a trial is confirmed.
    pub stable_for: Duration,
    /// How long a trial may take.
    pub watchdog: Duration,
    /// How many gateways it knows.
    pub gateways: u32,
    /// All its randomness.
    pub seed: u64,
    /// What it does wrong.
    pub planted: Option<Planted>,
}

/// Something that happens to a node.
#[derive(Debug)]
pub enum Happening {
    /// Time has passed.
    Tick,
    /// The connection that it asked for is there.
    Opened,
    /// It cannot be had, for this status of HTTP if a gateway answered.
    NotOpened(Option<u16>),
    /// A message came.
    Frame(Box<FromGateway>),
    /// The gateway shows that it lives.
    Traffic,
    /// The connection is gone.
    Closed,
    /// Its process is killed.
    Killed,
    /// Its machine loses power, and comes back.
    PowerCut,
    /// Its owner holds it, or lets it go.
    Held(Option<String>),
    /// Whether its machine can reach any gateway, and any download server.
    Network {
        /// A gateway.
        gateways: bool,
        /// Downloads.
        downloads: bool,
    },
}

/// Something that a node does.
#[derive(Debug)]
pub enum Doing {
    /// Asks for a connection.
    Open {
        /// To which gateway.
        gateway: u32,
    },
    /// Sends a message.
    Send(Box<FromNode>),
    /// Asks whether the gateway lives.
    Ping,
    /// Drops its connection, or the wish for one.
    HangUp,
}

/// What must never be, and was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise is broken.
    pub promise: &'static str,
    /// By what.
    pub what: String,
}
