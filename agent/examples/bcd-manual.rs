//! Writes the manual of `bcd` into a folder: a page for the program and one for each of its commands.
//!
//! Packages are made with it. It is no part of the program, which has to be small.

use std::{env, io, path::PathBuf};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder =
        folder.ok_or_else(|| io::Error::other("expected a folder to write into, found none"))?;
    clap_mangen::generate_to(bcd::command(), folder)
}
