//! A binary that somebody else holds open.
//!
//! Takes an open file of which nothing is known, gives one of this host's own with the signed bytes in it. It reads by
//! its own count, from the descriptor alone: whoever else has the file open may write to it, cut it, or move its
//! position meanwhile, and gets nothing by it but a refusal.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;

use bc_protocol::spec::DaemonSection;

use super::{Host, HostError, Source, while_trying};
use crate::content::{Content, Seen, copy_at_most};
use crate::durable;
use crate::faults::{Fault, planted};
use crate::updater::refusal::Refused;

impl Host {
    /// Judges a section as [`Self::admit`] does and copies its binary out of `from`; none where the spare slot holds it.
    pub(crate) fn receive(
        &self,
        section: &DaemonSection,
        from: &File,
    ) -> Result<Option<Seen>, HostError> {
        let admitted = self.admit(section)?;
        let Source::Download(partial) = admitted.source.clone() else {
            return Ok(None);
        };
        check_kind(from)?;
        let artifact = self.artifact(&admitted)?;
        let found = from
            .metadata()
            .map_err(while_trying("look at the descriptor"))?
            .len();
        if found != admitted.size {
            return Err(Refused::Size {
                expected: admitted.size,
                found,
            }
            .into());
        }
        let failed = while_trying("copy the binary");
        let mut copy = durable::create_new(&partial).map_err(&failed)?;
        let content = naive_copy(from, &mut copy, admitted.size)
            .unwrap_or_else(|| copy_at_most(from, &mut copy, admitted.size));
        let judged = content.map_err(&failed).and_then(|content| {
            self.judge(&content, artifact)?;
            Seen::hashed(copy, content.digest).map_err(&failed)
        });
        if judged.is_err() {
            durable::remove_if_there(&partial).map_err(failed)?;
        }
        judged.map(Some)
    }
}

/// The deliberate mistakes that are about copying: what is judged is not what is kept.
fn naive_copy(from: &File, to: &mut File, size: u64) -> Option<io::Result<Content>> {
    let by_path = planted(Fault::PathForDescriptor);
    if !by_path && !planted(Fault::HashThenCopy) {
        return None;
    }
    let mut copied = || {
        let judged = copy_at_most(from, &mut tempfile::tempfile()?, size)?;
        let other = match by_path {
            true => File::open(std::fs::read_link(format!(
                "/proc/self/fd/{}",
                from.as_raw_fd()
            ))?)?,
            false => from.try_clone()?,
        };
        copy_at_most(&other, to, size)?;
        Ok(judged)
    };
    Some(copied())
}

/// Only a file has an end, and bytes that are there to be read.
fn check_kind(from: &File) -> Result<(), HostError> {
    let kind = from
        .metadata()
        .map_err(while_trying("look at the descriptor"))?
        .file_type();
    let found = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a link"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(Refused::Descriptor { found }.into())
}
