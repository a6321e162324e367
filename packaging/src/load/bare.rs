//! The least that can be done: a server that writes the same bytes to all its connections, one after the other.
//!
//! What reaches ten thousand peers by a gateway or a broker is compared with it.

use std::{
    io::{ErrorKind, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};

use super::monotonic;

/// A server that says nothing until it is told to.
pub(super) struct Bare {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    message: Vec<u8>,
}

impl Bare {
    /// Takes connections on a port of loopback from now on.
    pub(super) fn new(bytes: usize) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let connections = Arc::<Mutex<Vec<TcpStream>>>::default();
        let taken = Arc::clone(&connections);
        // It ends with its process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stream.set_nonblocking(true).is_ok() {
                    lock(&taken).push(stream);
                }
            }
        });
        Ok(Self {
            address,
            connections,
            message: vec![b'm'; bytes],
        })
    }

    pub(super) fn address(&self) -> Result<SocketAddr> {
        Ok(self.address)
    }

    /// Writes to everybody; gives when that began.
    pub(super) fn push(&self) -> Result<Duration> {
        let began = monotonic();
        let mut connections = lock(&self.connections);
        let mut gone = Vec::new();
        for (at, stream) in connections.iter_mut().enumerate() {
            match stream.write_all(&self.message) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(error).context("a peer does not read");
                }
                Err(_) => gone.push(at),
            }
        }
        for at in gone.into_iter().rev() {
            connections.swap_remove(at);
        }
        Ok(began)
    }
}

fn lock(connections: &Mutex<Vec<TcpStream>>) -> MutexGuard<'_, Vec<TcpStream>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}
