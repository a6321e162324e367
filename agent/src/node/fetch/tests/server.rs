//! A server that answers whatever the test has written down.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use url::Url;

/// What a server does with one connection, after it has read the request.
#[derive(Clone)]
pub(super) enum Script {
    /// Sends these bytes and closes.
    Say(Vec<u8>),
    /// Sends these bytes and then nothing, for as long as the client stays.
    SayAndHang(Vec<u8>),
    /// Sends a head, and then this piece again and again, with a pause between, until the client leaves.
    Repeat(Vec<u8>, Vec<u8>, Duration),
}

/// A server with one script a connection; it keeps the requests. Connections beyond the scripts are refused.
pub(super) struct Server {
    pub(super) url: Url,
    requests: Arc<Mutex<Vec<String>>>,
    pub(super) task: AbortHandle,
}

impl Server {
    pub(super) async fn start(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/bcd", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            for script in scripts {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap().to_ascii_lowercase();
                seen.lock().unwrap().push(request);
                // The client may leave in the middle of it: that is what some tests are about.
                drop(play(&mut stream, script).await);
            }
        });
        Self {
            url: url.parse().unwrap(),
            requests,
            task: task.abort_handle(),
        }
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn play(stream: &mut TcpStream, script: Script) -> io::Result<()> {
    match script {
        Script::Say(bytes) => {
            stream.write_all(&bytes).await?;
            stream.shutdown().await
        }
        Script::SayAndHang(bytes) => {
            stream.write_all(&bytes).await?;
            stream.read_u8().await.map(drop)
        }
        Script::Repeat(head, piece, pause) => {
            stream.write_all(&head).await?;
            loop {
                stream.write_all(&piece).await?;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// An answer with this body and its length.
pub(super) fn answer(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}
