//! A download server on loopback that costs as little as one can: it sends what lies in memory.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use anyhow::{Context, Result};

/// Serves one file, under whatever name it is asked for.
pub(super) struct Downloads {
    url: String,
    file: Arc<Mutex<Arc<Vec<u8>>>>,
}

impl Downloads {
    pub(super) fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/bcd", listener.local_addr()?);
        let file = Arc::new(Mutex::new(Arc::new(Vec::new())));
        let served = Arc::clone(&file);
        // It ends with the program.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let file = served.lock().map(|file| Arc::clone(&file));
                // Whoever asked sees a connection that ends early, and says so.
                drop(file.map(|file| answer(stream, &file)));
            }
        });
        Ok(Self { url, file })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// From now on this file is served.
    pub(super) fn serve(&self, bytes: &Arc<Vec<u8>>) -> Result<()> {
        let mut file = self.file.lock().ok().context("the server has died")?;
        *file = Arc::clone(bytes);
        Ok(())
    }
}

fn answer(stream: TcpStream, bytes: &[u8]) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
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
