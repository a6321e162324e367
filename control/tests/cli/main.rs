//! The command line against a real control on loopback: every verb, every exit code, and what people see.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod changes;
mod contexts;
mod doctor;
mod events;
mod exits;
mod fleet;
mod hostile;
mod keys;
mod prints;
mod road;
mod screen;
mod stand;
mod terminal;
mod watching;
mod wires;
