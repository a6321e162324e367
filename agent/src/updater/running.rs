//! Who this process is: the slot, the sequence and the digest of the image that runs.
//!
//! Takes the kernel's word for the image and the record's word for the slots. A file on the disk may be newer than what
//! runs; what is reported is what runs.

use std::fs::{self, File};
use std::io;

use bc_protocol::digest::Sha256;
use bc_protocol::sequence::Sequence;
use bc_protocol::session::Slot;
use bc_protocol::version::Version;

use super::record::{Installed, Record};
use crate::content;
use crate::paths::Paths;

const IMAGE: &str = "/proc/self/exe";

/// The image of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) version: Version,
    /// Absent where the package's own binary runs.
    pub(crate) slot: Option<Slot>,
    pub(crate) sequence: Sequence,
    pub(crate) digest: Sha256,
}

/// The digest of the image. It is read whole.
pub(crate) fn image_digest() -> io::Result<Sha256> {
    Ok(content::content_of(&mut File::open(IMAGE)?)?.digest)
}

/// Looks at the image. It is read whole.
pub(crate) fn identify(paths: &Paths, record: &Record, version: Version) -> io::Result<Running> {
    let digest = image_digest()?;
    let image = fs::read_link(IMAGE)?;
    let slot = [Slot::A, Slot::B].into_iter().find(|slot| {
        fs::canonicalize(paths.slot_binary(*slot)).is_ok_and(|binary| binary == image)
    });
    let sequence = slot.map_or(Sequence::PACKAGED, |slot| sequence_of(slot, digest, record));
    Ok(Running {
        version,
        slot,
        sequence,
        digest,
    })
}

fn sequence_of(slot: Slot, digest: Sha256, record: &Record) -> Sequence {
    let is_this = |installed: &Installed| installed.slot == slot && installed.digest == digest;
    [Some(record.chosen()), Some(record.confirmed())]
        .into_iter()
        .flatten()
        .find(is_this)
        .map_or(Sequence::PACKAGED, |installed| installed.sequence)
}
