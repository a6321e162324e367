//! What stands between one control and PostgreSQL, and cuts.
//!
//! Passes bytes on, message by message on the way there, and hangs up when it is told to: everywhere at once, before
//! the next COMMIT, or behind it with the answer unsaid.

use std::{
    net::{Ipv4Addr, TcpListener as StdListener},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::SeqCst},
    },
};

use anyhow::{Result, ensure};
use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
};

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The server never hears of the COMMIT.
    Before,
    /// The server has done it, and nobody is told.
    Behind,
}

impl Cut {
    fn order(self) -> u8 {
        match self {
            Self::Before => 1,
            Self::Behind => 2,
        }
    }
}

/// The way of one control to its database.
#[derive(Debug)]
pub(super) struct Proxy {
    port: u16,
    orders: Arc<Orders>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Orders {
    /// Of the next COMMIT; 0 is none.
    cut: AtomicU8,
    cuts: AtomicUsize,
    hang_up: watch::Sender<()>,
}

impl Proxy {
    /// To the server whose socket is in that folder.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let socket = folder.join(".s.PGSQL.5432");
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let orders = Arc::new(Orders {
            cut: AtomicU8::new(0),
            cuts: AtomicUsize::new(0),
            hang_up: watch::channel(()).0,
        });
        let task = tokio::spawn(serve(listener, socket, Arc::clone(&orders))).abort_handle();
        Ok(Self { port, orders, task })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The next COMMIT is cut.
    pub(super) fn cut_next(&self, cut: Cut) {
        self.orders.cut.store(cut.order(), SeqCst);
    }

    /// Nothing is cut any more that was ordered and has not happened.
    pub(super) fn spare(&self) {
        self.orders.cut.store(0, SeqCst);
    }

    /// Every connection ends, whatever it was doing.
    pub(super) fn hang_up(&self) {
        self.orders.hang_up.send_replace(());
    }

    /// COMMITs that were cut.
    pub(super) fn cuts(&self) -> usize {
        self.orders.cuts.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, socket: PathBuf, orders: Arc<Orders>) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        let (socket, orders) = (socket.clone(), Arc::clone(&orders));
        connections.spawn(async move {
            let mut hang_up = orders.hang_up.subscribe();
            // Whoever comes while the server is away is sent away, as he would be without us.
            let Ok(server) = UnixStream::connect(&socket).await else {
                return;
            };
            client.set_nodelay(true).ok();
            tokio::select! {
                _ = hang_up.changed() => {}
                _ = carry(client, server, &orders) => {}
            }
        });
    }
}

/// Until one side leaves, or a cut. Both ends are dropped then.
async fn carry(client: TcpStream, server: UnixStream, orders: &Orders) -> Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let unsaid = AtomicBool::new(false);
    let there = async {
        let mut waiting = BytesMut::new();
        let mut stage = Stage::Greeting;
        loop {
            ensure!(from_client.read_buf(&mut waiting).await? > 0, "it left");
            while let Some(message) = stage.next(&mut waiting) {
                if is_commit(&message) {
                    match orders.cut.swap(0, SeqCst) {
                        0 => {}
                        order => {
                            orders.cuts.fetch_add(1, SeqCst);
                            ensure!(order != Cut::Before.order(), "cut before a COMMIT");
                            unsaid.store(true, SeqCst);
                        }
                    }
                }
                to_server.write_all(&message).await?;
            }
        }
    };
    let back = async {
        let mut bytes = BytesMut::new();
        loop {
            ensure!(from_server.read_buf(&mut bytes).await? > 0, "it left");
            ensure!(!unsaid.load(SeqCst), "cut behind a COMMIT");
            to_client.write_all_buf(&mut bytes).await?;
        }
    };
    tokio::select! {
        ended = there => ended,
        ended = back => ended,
    }
}

/// What kind of message comes next from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first has no letter before its length.
    Greeting,
    Talk,
}

impl Stage {
    /// Takes the next whole message, if it is there.
    fn next(&mut self, waiting: &mut BytesMut) -> Option<BytesMut> {
        let letter = match self {
            Self::Greeting => 0,
            Self::Talk => 1,
        };
        let mut length = waiting.get(letter..letter + 4)?;
        let length = usize::try_from(length.get_u32()).ok()? + letter;
        if waiting.len() < length {
            return None;
        }
        *self = Self::Talk;
        Some(waiting.split_to(length))
    }
}

/// A simple query that commits.
fn is_commit(message: &[u8]) -> bool {
    message.first() == Some(&b'Q') && message.get(5..11) == Some(b"COMMIT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: u8, text: &[u8]) -> Vec<u8> {
        let length = u32::try_from(text.len() + 4).unwrap();
        [&[letter][..], &length.to_be_bytes(), text].concat()
    }

    #[test]
    fn messages_come_whole_however_their_bytes_do() {
        let greeting = [&8_u32.to_be_bytes()[..], b"hi!!"].concat();
        let commit = message(b'Q', b"COMMIT\0");
        let all = [greeting.clone(), message(b'P', b"COMMIT"), commit.clone()].concat();
        let (mut stage, mut waiting) = (Stage::Greeting, BytesMut::new());
        let mut found = Vec::new();
        for byte in all {
            waiting.extend_from_slice(&[byte]);
            found.extend(stage.next(&mut waiting));
        }
        assert_eq!(found.first().unwrap(), &greeting[..]);
        let commits: Vec<bool> = found.iter().map(|message| is_commit(message)).collect();
        assert_eq!(commits, [false, false, true]);
        assert_eq!(found.last().unwrap(), &commit[..]);
        assert!(!is_commit(&message(b'Q', b"ROLLBACK\0")));
    }
}
