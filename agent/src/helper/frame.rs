//! One frame on a Unix socket: four bytes of length, that many bytes, and perhaps an open descriptor.
//!
//! Takes and gives whole frames. A length beyond the bound, a second descriptor, or an end in the middle is an error;
//! what came with it is closed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// A frame, and the descriptor that came with it.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// Why there is no frame.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    #[error("expected a frame of at most {max} bytes, found one of {found}")]
    TooLong { max: usize, found: usize },
    #[error("expected at most one descriptor, found more")]
    Descriptors,
    #[error("expected a whole frame, found an end in its middle")]
    Ended,
    #[error("expected to read and write the socket, found that it cannot be done")]
    Socket(#[from] io::Error),
}

/// Reads one frame. It never reads beyond it.
pub(crate) async fn read(stream: &UnixStream, max: usize) -> Result<Frame, FrameError> {
    let mut descriptor = None;
    let mut length = [0; LENGTH_BYTES];
    fill(stream, &mut length, &mut descriptor).await?;
    let found = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if found > max {
        return Err(FrameError::TooLong { max, found });
    }
    let mut bytes = vec![0; found];
    fill(stream, &mut bytes, &mut descriptor).await?;
    Ok(Frame { bytes, descriptor })
}

/// Writes one frame; the descriptor travels with its first byte.
pub(crate) async fn write(
    stream: &UnixStream,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend(bytes);
    let (mut rest, mut descriptor) = (frame.as_slice(), descriptor);
    while !rest.is_empty() {
        let sent = stream
            .async_io(Interest::WRITABLE, || send(stream, rest, descriptor))
            .await?;
        rest = rest.get(sent..).unwrap_or_default();
        descriptor = None;
    }
    Ok(())
}

/// Writes a frame as far as the socket takes it at once, to somebody who will not be waited for.
pub(crate) fn write_now(stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend(bytes);
    send(stream, &frame, None).map(|_| ())
}

async fn fill(
    stream: &UnixStream,
    buffer: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> Result<(), FrameError> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let (read, arrived) = stream
            .async_io(Interest::READABLE, || receive(stream, rest))
            .await?;
        for one in arrived? {
            if descriptor.replace(one).is_some() {
                return Err(FrameError::Descriptors);
            }
        }
        if read == 0 {
            return Err(FrameError::Ended);
        }
        filled += read;
    }
    Ok(())
}

/// What one call gave: bytes, and the descriptors that came with them, or that there were too many to take.
type Received = (usize, Result<Vec<OwnedFd>, FrameError>);

fn receive(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<Received> {
    // Room for one too many; the kernel closes what does not fit, and says so.
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let arrived = if received.flags.contains(ReturnFlags::CTRUNC) {
        Err(FrameError::Descriptors)
    } else {
        Ok(descriptors)
    };
    Ok((received.bytes, arrived))
}

fn send(
    stream: &UnixStream,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<usize> {
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}
