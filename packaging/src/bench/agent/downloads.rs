//! A download server on loopback that costs as little as one can: it sends what lies in memory.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use anyhow::{Context, Result};

/// Serves one file, under whatever name it is asked for, and beside it a list of names and digests.
pub(super) struct Downloads {
    url: String,
    served: Arc<Mutex<Served>>,
}

#[derive(Clone, Default)]
struct Served {
    file: Arc<Vec<u8>>,
    digests: Arc<Vec<u8>>,
}

impl Downloads {
    pub(super) fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/bcd", listener.local_addr()?);
        let served = Arc::new(Mutex::new(Served::default()));
        let serving = Arc::clone(&served);
        // It ends with the program.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let served = serving.lock().map(|served| served.clone());
                // Whoever asked sees a connection that ends early, and says so.
                drop(served.map(|served| answer(stream, &served)));
            }
        });
        Ok(Self { url, served })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// From now on this file is served.
    pub(super) fn serve(&self, bytes: &Arc<Vec<u8>>) -> Result<()> {
        self.serve_listed(bytes, "")
    }

    /// The same, with a list of digests at `/SHA256SUMS`.
    pub(super) fn serve_listed(&self, bytes: &Arc<Vec<u8>>, digests: &str) -> Result<()> {
        let mut served = self.served.lock().ok().context("the server has died")?;
        *served = Served {
            file: Arc::clone(bytes),
            digests: Arc::new(digests.as_bytes().to_vec()),
        };
        Ok(())
    }
}

fn answer(stream: TcpStream, served: &Served) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let bytes = match line.contains("SHA256SUMS") {
        true => &served.digests,
        false => &served.file,
    };
    line.clear();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let length = bytes.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\netag: \"measured\"\r\nconnection: close\r\n\r\n"
    );
    let mut stream = reader.into_inner();
    stream.write_all(head.as_bytes())?;
    stream.write_all(bytes)?;
    Ok(())
}
