//! The two places that hold a binary and its manifest.
//!
//! [`elf`] says what a binary runs on, and is pure. [`files`] is the only code that changes a slot, and it changes none
//! but the one it is given as spare. Which slot runs is not known here: the record says so.

pub(crate) mod elf;
pub(crate) mod files;
