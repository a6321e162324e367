//! The number of a node's connections, which never runs backwards.
//!
//! Takes the number of the connection to come and sees to it that the disk knows of one at least as high, in blocks,
//! so that most connections cost no write. After a restart counting goes on behind the block.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::limits::{CONNECT_SEQ_BLOCK, CONNECT_SEQ_KEPT_MAX};
use crate::durable::{self, Mode};

/// Bytes of the file: 20 digits and a line end.
const FILE_BYTES_MAX: u64 = 32;

/// What the disk knows.
pub(crate) struct ConnectSeq {
    path: PathBuf,
    reserved: u64,
}

impl ConnectSeq {
    /// Reads the file. A counter that is lost, or nonsense, starts at the time: with one connection a second it would
    /// still be above every number that this node has ever used.
    pub(crate) fn load(path: &Path, wall_seconds: i64) -> Self {
        let read = durable::read_unlinked(path, FILE_BYTES_MAX);
        let reserved = match read {
            Ok(Some(bytes)) => parsed(&bytes),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the connection counter cannot be read");
                None
            }
        };
        Self {
            path: path.to_owned(),
            reserved: reserved.unwrap_or_else(|| u64::try_from(wall_seconds).unwrap_or(0)),
        }
    }

    /// The highest number that may have been used.
    pub(crate) fn latest(&self) -> u64 {
        self.reserved
    }

    /// Makes sure that `number` is never used again.
    pub(crate) fn reserve(&mut self, number: u64) -> io::Result<()> {
        if number <= self.reserved {
            return Ok(());
        }
        let reserved = number.saturating_add(CONNECT_SEQ_BLOCK);
        durable::replace_file(
            &self.path,
            format!("{reserved}\n").as_bytes(),
            Mode::Readable,
        )?;
        self.reserved = reserved;
        Ok(())
    }
}

fn parsed(bytes: &[u8]) -> Option<u64> {
    let number = str::from_utf8(bytes).ok()?.trim_end().parse().ok()?;
    // Who was once told of the highest that is believed goes on above it. A file that says much more is rotten: there has
    // to be room above, for control keeps numbers in 63 bits.
    (number <= CONNECT_SEQ_KEPT_MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::limits::CONNECT_SEQ_MAX;

    #[test]
    fn a_restart_never_repeats_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("connect-seq");
        let mut used = Vec::new();
        for connections in [1, 3, 200, 64, 65] {
            let mut counter = ConnectSeq::load(&path, 1000);
            let first = counter.latest() + 1;
            for number in first..first + connections {
                counter.reserve(number).unwrap();
                used.push(number);
            }
        }
        assert!(used.is_sorted_by(|a, b| a < b));
        assert!(used[0] > 1000);
    }

    #[test]
    fn a_lost_counter_starts_at_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("connect-seq");
        for content in [
            "",
            "x",
            "-1",
            "1.5",
            "99999999999999999999",
            "9223372036854775808",
            "9223372036854775807",
            "6917529027641081857",
        ] {
            durable::replace_file(&path, content.as_bytes(), Mode::Readable).unwrap();
            assert_eq!(ConnectSeq::load(&path, 77).latest(), 77, "{content:?}");
        }
        durable::replace_file(&path, &[b'1'; 1000], Mode::Readable).unwrap();
        assert_eq!(ConnectSeq::load(&path, 77).latest(), 77);
        durable::replace_file(&path, b"5\n", Mode::Readable).unwrap();
        assert_eq!(ConnectSeq::load(&path, 77).latest(), 5);
        assert_eq!(
            ConnectSeq::load(&folder.path().join("none"), -5).latest(),
            0
        );
    }

    #[test]
    fn a_counter_that_a_gateway_has_driven_up_is_not_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("connect-seq");
        let mut counter = ConnectSeq::load(&path, 77);
        counter.reserve(CONNECT_SEQ_MAX + 1).unwrap();
        assert!(ConnectSeq::load(&path, 77).latest() > CONNECT_SEQ_MAX);
    }

    #[test]
    fn most_connections_cost_no_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("connect-seq");
        let mut counter = ConnectSeq::load(&path, 0);
        counter.reserve(1).unwrap();
        let written = std::fs::read(&path).unwrap();
        for number in 2..=CONNECT_SEQ_BLOCK {
            counter.reserve(number).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), written);
        counter.reserve(1 + CONNECT_SEQ_BLOCK + 1).unwrap();
        assert_ne!(std::fs::read(&path).unwrap(), written);
    }
}
