//! The words that the processes of a fleet share.
//!
//! Everything here is pure: values and rules, with no clock, file, socket, runtime or randomness. A value that
//! exists has been checked; the wire's own forms are in [`wire`] and become checked ones at the edge of a process.

pub mod certificate;
pub mod command;
pub mod digest;
pub mod id;
#[cfg(feature = "journal")]
pub mod journal;
pub mod limits;
pub mod link;
pub mod platform;
pub mod release;
pub mod sequence;
pub mod session;
pub mod share;
pub mod spec;
pub mod time;
pub mod version;

mod text;

/// The messages as they travel, generated from the schemas under `proto/`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated code; the schemas carry the comments"
)]
pub mod wire {
    mod generated {
        include!(concat!(env!("OUT_DIR"), "/wire.rs"));
    }
    pub use generated::bettercompute::link::v1 as link;
    pub use generated::bettercompute::node::v1 as node;
}
