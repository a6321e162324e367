//! A file that a test wants, and how fast.

use std::{fs, io::Read, path::PathBuf, time::Duration};

use bc_protocol::digest::Sha256;
use tempfile::TempDir;
use tokio::sync::watch;
use url::Url;

use super::server::{Script, Server, answer};
use crate::{
    config::PlainHttp,
    http::{Patience, Web},
    node::fetch::{Fetch, FetchError, fetch_at, pace::Pace},
};

/// A file to fetch, and a folder to put it.
pub(super) struct Wanted {
    pub(super) folder: TempDir,
    pub(super) content: Vec<u8>,
}

impl Wanted {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            content: (0..200_000_u32).flat_map(u32::to_le_bytes).collect(),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("bcd.partial")
    }

    pub(super) fn order(&self, url: &Url) -> Fetch {
        Fetch {
            url: url.clone(),
            size: self.content.len() as u64,
            digest: Sha256::of(&self.content),
            partial: self.path(),
            web: Web {
                plain_http: PlainHttp::Loopback,
                ca_file: None,
                earliest: None,
            },
        }
    }

    pub(super) async fn fetch(&self, server: &Server) -> Result<(), FetchError> {
        self.fetch_at(&quick(), server).await
    }

    pub(super) async fn fetch_at(&self, pace: &Pace, server: &Server) -> Result<(), FetchError> {
        let (progress, shown) = watch::channel(0);
        let seen = fetch_at(pace, self.order(&server.url), &progress).await?;
        let mut bytes = Vec::new();
        seen.file().read_to_end(&mut bytes).unwrap();
        assert!(
            bytes == self.content,
            "the file is the one that was asked for"
        );
        assert!(*shown.borrow() <= 100);
        Ok(())
    }

    pub(super) fn whole(&self) -> Script {
        Script::Say(answer("200 OK", &["etag: \"one\""], &self.content))
    }

    /// The first bytes, then the line breaks.
    pub(super) fn first(&self, count: usize) -> Script {
        let mut bytes = answer("200 OK", &["etag: \"one\""], &self.content);
        bytes.truncate(bytes.len() - self.content.len() + count);
        Script::Say(bytes)
    }

    pub(super) fn rest(&self, from: usize) -> Script {
        let size = self.content.len();
        let range = format!("content-range: bytes {from}-{}/{size}", size - 1);
        Script::Say(answer(
            "206 Partial Content",
            &[&range],
            &self.content[from..],
        ))
    }

    pub(super) fn on_disk(&self) -> u64 {
        fs::metadata(self.path()).map_or(0, |file| file.len())
    }
}

/// Bounds that a test can wait for, far above what a loopback needs.
pub(super) fn quick() -> Pace {
    let long = Duration::from_secs(20);
    Pace {
        patience: Patience {
            connect: long,
            head: long,
        },
        stall: long,
        window: long,
        window_bytes_min: 0,
        total: long,
    }
}
