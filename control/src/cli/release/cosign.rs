//! `release cosign`.

use std::io::Write;
use std::path::PathBuf;

use bc_protocol::release::sign::Unjudged;
use clap::Args;

use super::failure::Failure;
use super::{file, verify};

/// Add one more signature to a signed release
///
/// The manifest must list the key. Files of the release that lie beside it must be what it says they are. Prints what was
/// signed; `release show` shows it before. Signing again with the same key changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Cosign {
    /// The signed manifest, or the folder that holds it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The private key to sign with
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

impl Cosign {
    pub(super) fn execute(self, out: &mut dyn Write) -> Result<(), Failure> {
        let key = file::read_signing_key(&self.key)?;
        let path = file::manifest_at(self.file);
        let opened = Unjudged::open(&file::read_published(&path)?)?;
        let contents = opened.manifest().clone();
        // Whoever signs what he has not compared signs whatever somebody put there.
        let beside = verify::check_beside(&contents, &path)?;
        file::replace(&path, &opened.signed_by(&key)?)?;
        verify::print_contents(&contents, out)
            .and_then(|()| file::warn_of_readers(&self.key, out))
            .and_then(|()| writeln!(out, "also signed by\n  {}", key.pin()))
            .and_then(|()| verify::print_beside(&contents, beside, out))
            .map_err(Failure::output)
    }
}
