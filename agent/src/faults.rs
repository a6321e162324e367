//! Deliberate misbehaviour, for demonstrations and for tests of everything that has to notice it.
//!
//! Takes the word that a build was given, or with the feature `faults` the environment; says of every place that can
//! misbehave whether it does. Without the feature the answer is a constant no, and the compiler drops what hangs on it.

pub(crate) mod binaries;

#[cfg(feature = "faults")]
use std::sync::OnceLock;
#[cfg(feature = "faults")]
use thiserror::Error;

macro_rules! faults {
    ($($(#[$about:meta])+ $name:ident = $word:literal,)+) => {
        /// One way to misbehave.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault {
            $($(#[$about])+ $name,)+
        }

        #[cfg(feature = "faults")]
        impl Fault {
            const WORDS: &[(&str, Fault)] = &[$(($word, Fault::$name),)+];
        }
    };
}

faults! {
    /// `bcd node` starts and logs, and never opens a connection.
    NeverConnects = "never-connects",
    /// `bcd node` ends as soon as it is started.
    ExitsAtOnce = "exits-at-once",
    /// `bcd node` dies of a signal as soon as it is started.
    CrashesAtOnce = "crashes-at-once",
    /// `bcd node` does nothing, and does not end when it is asked to.
    HangsAtOnce = "hangs-at-once",
    /// `bcd node` dies as soon as it is welcomed, every time.
    CrashesWelcomed = "crashes-welcomed",
    /// `bcd node` takes memory until it gets no more.
    EatsMemory = "eats-memory",
    /// `bcd node` opens files until it may open no more, and goes on.
    EatsDescriptors = "eats-descriptors",
    /// `bcd node` writes whatever it remembers in another form, and ends.
    WritesNewerState = "writes-newer-state",
    /// `bcd node` speaks protocol 1 and nothing newer, as daemons did when that was the newest.
    OldProtocol = "old-protocol",
    /// A new file gets its name before its bytes are on the disk.
    NoFsync = "no-fsync",
    /// A new name is not flushed.
    NoFolderFsync = "no-folder-fsync",
    /// A file is written over where it lies.
    InPlace = "in-place",
    /// Only one copy of the record is written.
    OneCopy = "one-copy",
    /// A copy that is behind stays so.
    NoHealing = "no-healing",
    /// The first copy is believed, whichever is newer.
    FirstCopy = "first-copy",
    /// A copy is believed whatever its checksum.
    NoChecksum = "no-checksum",
    /// A trial raises the floor by beginning.
    FloorBeforeWelcome = "floor-before-welcome",
    /// The confirmation raises the floor in a write of its own.
    ConfirmInTwo = "confirm-in-two",
    /// Any digest can be confirmed.
    ConfirmAny = "confirm-any",
    /// Going back forgets the floor.
    FloorForgotten = "floor-forgotten",
    /// A release below the floor is admitted.
    NoFloor = "no-floor",
    /// A start of a trial is not counted.
    StartNotCounted = "start-not-counted",
    /// A trial may start for ever.
    EndlessStarts = "endless-starts",
    /// The bytes of what is installed are not looked at.
    NoDigest = "no-digest",
    /// They are looked at when they are installed already.
    InstallFirst = "install-first",
    /// A binary is staged without its manifest.
    ManifestForgotten = "manifest-forgotten",
    /// What is staged goes where the confirmed binary lies.
    WrongSlot = "wrong-slot",
    /// What lies in a slot is not looked at before it starts.
    BlindBoot = "blind-boot",
    /// A trial begins though nobody would go back.
    NoWatchdog = "no-watchdog",
    /// The helper serves whoever asks.
    AnyUser = "any-user",
    /// The helper takes a binary from where it lies, not from the descriptor that it was given.
    PathForDescriptor = "path-for-descriptor",
    /// The helper looks at a binary before it copies it.
    HashThenCopy = "hash-then-copy",
    /// The helper keeps every descriptor that it was given.
    DescriptorKept = "descriptor-kept",
    /// The helper knows nothing of what this node asks of it, as one that is much older would not.
    OldHelper = "old-helper",
    /// The helper answers before it has done what it was asked for.
    AnswerFirst = "answer-first",
}

/// Whether this process is to misbehave so.
#[cfg(not(feature = "faults"))]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

/// Whether this process is to misbehave so.
#[cfg(feature = "faults")]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(&fault)
}

#[cfg(feature = "faults")]
static PLANTED: OnceLock<Fault> = OnceLock::new();

/// A build was given a word that names no fault.
#[cfg(feature = "faults")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected BCD_FAULT to be one of {known}, found \"{found}\"", known = known())]
pub(crate) struct UnknownFault {
    found: String,
}

#[cfg(feature = "faults")]
fn known() -> String {
    let words: Vec<_> = Fault::WORDS.iter().map(|(word, _)| *word).collect();
    words.join(", ")
}

/// Plants what the build's word names, or the environment's, which goes first: so that one build serves many tests.
#[cfg(feature = "faults")]
pub(crate) fn plant(built: Option<&'static str>) -> Result<(), UnknownFault> {
    let word = std::env::var("BCD_FAULT").ok().or(built.map(str::to_owned));
    let Some(found) = word else { return Ok(()) };
    let named = Fault::WORDS.iter().find(|(word, _)| *word == found);
    let Some((_, fault)) = named else {
        return Err(UnknownFault { found });
    };
    // A second call in one process would be of the same word.
    PLANTED.get_or_init(|| *fault);
    Ok(())
}
