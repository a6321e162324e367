//! What an update is held against: the least that can be done, and what people would type.
//!
//! Each takes an address and a folder, leaves the file in the folder, on the disk, and gives the time that it took.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::fd::AsRawFd,
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::libc;
use ring::digest::{self, SHA256};

use crate::fleet::now;

/// Bytes that are received, hashed and written at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Bytes after which the disk is told to begin.
const WRITE_BACK_BYTES: u64 = 4 << 20;

/// Receives, hashes and writes in one pass, and makes the file durable under its name; then a small file, as a record.
pub(super) fn floor(url: &str, folder: &Path) -> Result<Duration> {
    let begun = now();
    let mut body = request(url)?;
    let (staged, name) = (folder.join("floor.new"), folder.join("floor"));
    let mut file = File::create(&staged)?;
    let mut hash = digest::Context::new(&SHA256);
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut have, mut told) = (0_u64, 0_u64);
    loop {
        let count = body.read(&mut chunk)?;
        let piece = chunk.get(..count).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        file.write_all(piece)?;
        have += piece.len() as u64;
        if have - told >= WRITE_BACK_BYTES {
            write_back(&file, told, have - told)?;
            told = have;
        }
    }
    let digest = hash.finish();
    file.sync_all()?;
    fs::rename(&staged, &name)?;
    File::open(folder)?.sync_all()?;
    let (staged, name) = (folder.join("note.new"), folder.join("note"));
    let mut note = File::create(&staged)?;
    note.write_all(format!("{digest:?} {have}").as_bytes())?;
    note.sync_all()?;
    fs::rename(&staged, &name)?;
    File::open(folder)?.sync_all()?;
    Ok(now() - begun)
}

/// Tells the disk to begin writing, and waits for nothing.
#[expect(
    unsafe_code,
    clippy::cast_possible_wrap,
    reason = "no crate in use wraps this call; it takes a descriptor and three numbers, and touches no memory"
)]
fn write_back(file: &File, from: u64, bytes: u64) -> Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed.
    let done = unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            from as libc::off64_t,
            bytes as libc::off64_t,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
    ensure!(done == 0, "sync_file_range failed");
    Ok(())
}

fn request(url: &str) -> Result<BufReader<TcpStream>> {
    let rest = url.strip_prefix("http://").context("no http address")?;
    let (authority, path) = rest.split_once('/').context("no path")?;
    let mut stream = TcpStream::connect(authority)?;
    stream.write_all(format!("GET /{path} HTTP/1.1\r\nhost: {authority}\r\n\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    Ok(reader)
}

/// What people would type.
pub(super) fn curl(url: &str, folder: &Path) -> Result<Duration> {
    let begun = now();
    let script =
        "set -e; curl -fsS \"$1\" | tee curl.new | sha256sum > curl.sum; sync; mv curl.new curl";
    let status = Command::new("sh")
        .current_dir(folder)
        .args(["-c", script, "sh", url])
        .status()
        .context("start sh")?;
    ensure!(status.success(), "curl, tee and sha256sum: {status}");
    Ok(now() - begun)
}
