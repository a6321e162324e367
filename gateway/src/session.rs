//! One session with one node.
//!
//! [`machine`] decides what happens in it, [`hello`] on what terms it opens, [`dispatch`] which commands it carries; all
//! are pure. `socket` pumps a WebSocket through them.

pub(crate) mod dispatch;
pub(crate) mod hello;
pub(crate) mod machine;
pub(crate) mod peer;

mod ending;

pub(crate) use ending::Ending;
