//! One connection's TLS, without buffers of its own.
//!
//! Takes a socket, gives a stream of what the peer says. Bytes are kept only while they are under way: the beginning of a
//! record whose end has not come, what was decrypted and not read, what was encrypted and has not left. An idle
//! connection holds its keys and nothing else.

mod pending;

use std::{
    future::poll_fn,
    io, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::{
    ServerConfig,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, EncryptError, UnbufferedStatus},
};
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use pending::{Pending, Room};

use crate::keying::{Keying, Where};

/// Bytes that are read at once. They are on the stack.
pub(super) const READ_BYTES: usize = 4 << 10;

/// Bytes that can wait for the rest of a message, or to be sent: the longest handshake message that either side may send,
/// and its records' heads. After the handshake it is one record, and less.
const UNDONE_BYTES_MAX: usize = 80 << 10;

/// Bytes of one record's content.
pub(super) const RECORD_BYTES_MAX: usize = 16 << 10;

/// Bytes of what is said to a node in a handshake, so that room is made once.
const FLIGHT_BYTES_USUAL: usize = 2 << 10;

/// More than a record adds to its content: head, type and tag.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// A connection that is secured, or on the way to it.
pub(crate) struct Secured<S> {
    socket: S,
    tls: UnbufferedServerConnection,
    /// Came, and is no whole record yet.
    encrypted: Vec<u8>,
    plain: Pending,
    leaving: Pending,
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Secured<S> {
    /// A connection whose peer has said this much.
    pub(super) fn begun(socket: S, come: Vec<u8>, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self {
            socket,
            tls,
            encrypted: come,
            plain: Pending::default(),
            leaving: Pending::with_room(FLIGHT_BYTES_USUAL),
            ended: false,
        })
    }

    /// The whole handshake: both ends know who the other is. What takes a processor's time is done there.
    pub(super) async fn agree(mut self, keying: &Keying, place: Where) -> io::Result<Self>
    where
        S: Send + 'static,
    {
        loop {
            let mut done;
            (self, done) = keying.does(place, self, Self::decrypt_kept).await?;
            poll_fn(|cx| self.judge(mem::replace(&mut done, Ok(())), cx)).await?;
            // What is left to send then goes with whatever is read or written next: the peer need not wait for it.
            if !self.tls.is_handshaking() {
                return Ok(self);
            }
            poll_fn(|cx| self.poll_send(cx)).await?;
            if self.ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            poll_fn(|cx| self.poll_record(cx)).await?;
        }
    }

    /// The certificate that the peer showed.
    pub(crate) fn peer(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates()?.first()
    }

    /// Reads until a record is whole. Before that there is nothing to do.
    fn poll_record(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if has_record(&self.encrypted) {
                return Poll::Ready(Ok(()));
            }
            let mut scratch = [0; READ_BYTES];
            let fresh = ready!(self.poll_fresh(cx, &mut scratch))?;
            self.encrypted.extend_from_slice(fresh);
        }
    }

    /// Reads once, and decrypts what is whole by then.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [0; READ_BYTES];
        let fresh = ready!(self.poll_fresh(cx, &mut scratch))?;
        if self.encrypted.is_empty() {
            let (used, done) = self.decrypt(fresh);
            self.encrypted = fresh.get(used..).unwrap_or_default().to_vec();
            self.judge(done, cx)
        } else {
            self.encrypted.extend_from_slice(fresh);
            let done = self.decrypt_kept();
            self.judge(done, cx)
        }
    }

    /// Reads once.
    fn poll_fresh<'s>(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &'s mut [u8],
    ) -> Poll<io::Result<&'s mut [u8]>> {
        let mut read = ReadBuf::new(scratch);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut read))?;
        let count = read.filled().len();
        if count == 0 {
            self.ended = true;
            let why = "expected the peer to say that it closes, found the end";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)));
        }
        Poll::Ready(Ok(scratch.get_mut(..count).unwrap_or_default()))
    }

    /// Whether what came may be followed by more.
    fn judge(&mut self, done: io::Result<()>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let bounds = [
            (&self.encrypted, "expected a shorter message"),
            (&self.leaving.bytes, "expected the peer to read"),
        ];
        let beyond = bounds
            .iter()
            .find(|(bytes, _)| bytes.len() > UNDONE_BYTES_MAX);
        let done = match beyond {
            Some((_, why)) => done.and(Err(io::Error::other(*why))),
            None => done,
        };
        if done.is_err() {
            self.ended = true;
            // The peer is told why, if it can hear.
            drop(self.poll_send(cx));
        }
        Poll::Ready(done)
    }

    /// Does what the whole records among those kept ask for.
    fn decrypt_kept(&mut self) -> io::Result<()> {
        let mut kept = mem::take(&mut self.encrypted);
        let (used, done) = self.decrypt(&mut kept);
        kept.drain(..used);
        // A Vec without bytes would keep its room.
        self.encrypted = if kept.is_empty() { Vec::new() } else { kept };
        done
    }

    /// Does what whole records ask for; gives how many bytes are done with. The others have to be given again, with those
    /// that follow.
    fn decrypt(&mut self, bytes: &mut [u8]) -> (usize, io::Result<()>) {
        let mut used = 0;
        loop {
            let rest = bytes.get_mut(used..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(rest);
            let done = match state {
                Ok(ConnectionState::ReadTraffic(mut records)) => {
                    let mut done = Ok(());
                    while let Some(record) = records.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                self.plain.bytes.extend_from_slice(record.payload);
                            }
                            Err(error) => done = Err(io::Error::other(error)),
                        }
                    }
                    done
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => self
                    .leaving
                    .append(|room| message.encode(room).map_err(Room::from)),
                Ok(ConnectionState::TransmitTlsData(sent)) => {
                    sent.done();
                    Ok(())
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.ended = true;
                    Ok(())
                }
                Ok(
                    ConnectionState::Closed
                    | ConnectionState::BlockedHandshake
                    | ConnectionState::WriteTraffic(_),
                ) => return (used + discard, Ok(())),
                // No ticket was ever given that would allow it.
                Ok(ConnectionState::ReadEarlyData(_)) => {
                    Err(io::Error::other("expected no early data"))
                }
                Ok(_) => Err(io::Error::other("expected a state that this build knows")),
                Err(error) => {
                    used += discard;
                    self.alert(bytes.get_mut(used..).unwrap_or_default());
                    let error = io::Error::new(io::ErrorKind::InvalidData, error);
                    return (used, Err(error));
                }
            };
            used += discard;
            if done.is_err() {
                return (used, done);
            }
        }
    }

    /// After an error, what the peer is to hear of it is the first that comes.
    fn alert(&mut self, rest: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(mut alert)) =
            self.tls.process_tls_records(rest).state
        {
            // Only a courtesy.
            drop(
                self.leaving
                    .append(|room| alert.encode(room).map_err(Room::from)),
            );
        }
    }

    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_with(bytes.len(), |traffic, room| traffic.encrypt(bytes, room))
    }

    fn write_with(
        &mut self,
        bytes: usize,
        mut write: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> io::Result<()> {
        // What has to be done before comes first. It looks at what is kept, too, and has to be given all of it.
        self.decrypt_kept()?;
        match self.tls.process_tls_records(&mut self.encrypted).state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                self.leaving.reserve(bytes + RECORD_OVERHEAD_BYTES);
                self.leaving
                    .append(|room| write(&mut traffic, room).map_err(Room::from))
            }
            Ok(_) => Err(io::ErrorKind::NotConnected.into()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.leaving.is_empty() {
            let socket = Pin::new(&mut self.socket);
            let sent = ready!(socket.poll_write(cx, self.leaving.rest()))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.leaving.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether these begin with a whole record, or with what never will be one.
fn has_record(bytes: &[u8]) -> bool {
    match bytes {
        [_, _, _, high, low, rest @ ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            rest.len() >= length.min(RECORD_BYTES_MAX + RECORD_OVERHEAD_BYTES)
        }
        [..] => false,
    }
}

type Traffic<'c> = rustls::unbuffered::WriteTraffic<'c, rustls::server::ServerConnectionData>;

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.plain.is_empty() {
                let rest = this.plain.rest();
                let count = rest.len().min(into.remaining());
                into.put_slice(rest.get(..count).unwrap_or_default());
                this.plain.advance(count);
                return Poll::Ready(Ok(()));
            }
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            // Answers to what the peer's TLS asked, such as new keys; they need not have left to go on reading.
            // Where they cannot, whoever writes hears of it, and who reads hears what the peer has said before.
            drop(this.poll_send(cx));
            ready!(this.poll_receive(cx))?;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // Nothing more is encrypted before that has left, so that no more than a record ever waits.
        ready!(this.poll_send(cx))?;
        let count = bytes.len().min(RECORD_BYTES_MAX);
        this.encrypt(bytes.get(..count).unwrap_or_default())?;
        match this.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // It writes nothing the second time.
        this.write_with(0, |traffic, room| traffic.queue_close_notify(room))?;
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
