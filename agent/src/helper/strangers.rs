//! What a stranger may say on the helper's socket, and what must be true of it.

use std::io::Write as _;
use std::os::unix::net::UnixStream as StdStream;

use tokio::net::UnixStream;

use super::frame::{self, FrameError};
use super::limits::REQUEST_BYTES_MAX;
use super::wire::{Reply, Request};

/// Reads `bytes` as the helper would, and what is in them as both sides would. What was understood is understood the same
/// once it is written again.
pub(crate) fn hold(bytes: &[u8]) {
    if let Some(request) = framed(bytes) {
        assert!(
            request.len() <= REQUEST_BYTES_MAX,
            "a frame beyond its bound"
        );
        understood(&request);
    }
    understood(bytes);
}

fn understood(bytes: &[u8]) {
    if let Ok(request) = Request::decode(bytes) {
        let again = request.encode().map(|bytes| Request::decode(&bytes));
        assert!(matches!(again, Ok(Ok(again)) if again == request));
    }
    if let Ok(reply) = Reply::decode(bytes) {
        let again = reply.encode().map(|bytes| Reply::decode(&bytes));
        assert!(matches!(again, Ok(Ok(again)) if again == reply));
    }
}

/// The first frame in `bytes`, through a real socket; none where it is cut off or too long.
fn framed(bytes: &[u8]) -> Option<Vec<u8>> {
    let read = exchange(bytes);
    assert!(
        !matches!(read, Err(FrameError::Descriptors)),
        "a descriptor from nowhere"
    );
    read.ok().map(|frame| frame.bytes)
}

fn exchange(bytes: &[u8]) -> Result<frame::Frame, FrameError> {
    let (mut client, server) = StdStream::pair()?;
    client.set_nonblocking(true)?;
    // As much as the socket takes: more would need a second thread, and says nothing more.
    let taken = client.write(bytes)?;
    drop(client);
    server.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let read = runtime.block_on(async {
        let stream = UnixStream::from_std(server)?;
        frame::read(&stream, REQUEST_BYTES_MAX).await
    })?;
    assert!(
        read.bytes.len() <= taken && read.descriptor.is_none(),
        "a frame with more in it than was sent"
    );
    Ok(read)
}
