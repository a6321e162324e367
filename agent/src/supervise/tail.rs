//! What a binary on trial writes to standard error: passed on, and its end kept.
//!
//! Takes a pipe, gives the last bytes that came through it. A thread of its own does it: when whoever reads our own
//! standard error stops doing so, the watchdog goes on.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bc_protocol::limits::LOG_BYTES_MAX;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the last lines of a dead binary may take to arrive.
const END_GRACE: Duration = Duration::from_millis(500);

const CHUNK_BYTES: usize = 8 << 10;

/// The end of a log.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    ended: Option<oneshot::Receiver<()>>,
}

impl Tail {
    /// Begins to read.
    pub(super) fn of(pipe: PipeReader) -> io::Result<Self> {
        let bytes = Arc::new(Mutex::new(VecDeque::new()));
        let (end, ended) = oneshot::channel();
        let kept = Arc::clone(&bytes);
        thread::Builder::new()
            .name("trial-log".to_owned())
            .spawn(move || {
                pass_on(pipe, &kept);
                drop(end);
            })?;
        Ok(Self {
            bytes,
            ended: Some(ended),
        })
    }

    /// Waits a moment for what a dead binary wrote last.
    pub(super) async fn finish(&mut self) {
        if let Some(ended) = self.ended.take()
            && timeout(END_GRACE, ended).await.is_err()
        {
            tracing::debug!("something that the dead binary started still holds its log");
        }
    }

    /// The log's end so far.
    pub(super) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn pass_on(mut pipe: PipeReader, kept: &Mutex<VecDeque<u8>>) {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        let read = match pipe.read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let piece = chunk.get(..read).unwrap_or_default();
        keep(
            &mut kept.lock().unwrap_or_else(PoisonError::into_inner),
            piece,
        );
        if io::stderr().write_all(piece).is_err() {
            // Nobody reads; what is kept still counts.
        }
    }
}

fn keep(kept: &mut VecDeque<u8>, piece: &[u8]) {
    kept.extend(piece);
    let beyond = kept.len().saturating_sub(LOG_BYTES_MAX);
    kept.drain(..beyond);
}

#[cfg(test)]
mod tests {
    use super::keep;
    use bc_protocol::limits::LOG_BYTES_MAX;
    use std::collections::VecDeque;

    #[test]
    fn only_the_end_is_kept() {
        let mut kept = VecDeque::new();
        for piece in [&vec![b'a'; LOG_BYTES_MAX][..], b"b", &[b'c'; 100]] {
            keep(&mut kept, piece);
        }
        assert_eq!(kept.len(), LOG_BYTES_MAX);
        assert_eq!(kept.iter().filter(|byte| **byte == b'c').count(), 100);
        assert_eq!(kept.iter().filter(|byte| **byte == b'b').count(), 1);
    }
}
