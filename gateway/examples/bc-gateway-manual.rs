//! Writes the manual of `bc-gateway` into a folder: one page. Packages are made with it.

use std::{env, io, path::PathBuf};

use clap::CommandFactory as _;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder =
        folder.ok_or_else(|| io::Error::other("expected a folder to write into, found none"))?;
    clap_mangen::generate_to(bc_gateway::Args::command(), folder)
}
