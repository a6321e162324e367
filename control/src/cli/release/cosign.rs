//! `release cosign`.

use std::io::Write;
use std::path::PathBuf;

use bc_protocol::release::sign::Unjudged;
use clap::Args;

use super::failure::Failure;
use super::{file, verify};

/// Add one more signature to a signed release
///
/// The manifest must list the key. Prints what was signed. Signing again with the same key changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Cosign {
    /// The signed manifest
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The private key to sign with
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

impl Cosign {
    pub(super) fn execute(self, out: &mut dyn Write) -> Result<(), Failure> {
        let key = file::read_signing_key(&self.key)?;
        let opened = Unjudged::open(&file::read_published(&self.file)?)?;
        let contents = opened.manifest().clone();
        file::replace(&self.file, &opened.signed_by(&key)?)?;
        verify::print_contents(&contents, out)
            .and_then(|()| writeln!(out, "also signed by\n  {}", key.pin()))
            .map_err(Failure::output)
    }
}
