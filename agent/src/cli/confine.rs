//! `bcd confine`

use std::path::PathBuf;

use clap::Args;
use nix::unistd::{Gid, Uid};

use super::CommandError;
use crate::account::Account;
use crate::confinement::Confinement;

/// Become a binary that has not proven itself, without any right
///
/// Run by an agent to ask a new binary for its preflight; of no use to people.
#[derive(Debug, Args)]
pub(super) struct Confine {
    /// The binary
    #[arg(long, value_name = "FILE")]
    binary: PathBuf,
    /// The folder to run it in
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// The user to run it as
    #[arg(long, value_name = "UID", requires = "group")]
    user: Option<u32>,
    /// The group to run it as
    #[arg(long, value_name = "GID", requires = "user")]
    group: Option<u32>,
    /// What to tell it
    #[arg(last = true)]
    words: Vec<String>,
}

impl Confine {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let account = self.user.zip(self.group).map(|(uid, gid)| Account {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
        });
        let confinement = Confinement {
            binary: self.binary,
            folder: self.folder,
            account,
            words: self.words,
        };
        match confinement.enter() {
            Err(error) => Err(error.into()),
            Ok(never) => match never {},
        }
    }
}
