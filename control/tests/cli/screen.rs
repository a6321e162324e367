//! A terminal, and what one sees there.
//!
//! The program under test sits at a real pseudo-terminal, which it controls: keys reach it as they do at a desk, Ctrl-C
//! too.

use std::{
    io::{Read, Write},
    process::{Child, Command},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use pty_process::{
    Size,
    blocking::{Command as AtTerminal, Pty},
};

/// Longer than anything takes on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// As people have it.
const ROWS: u16 = 40;

/// A program at a terminal.
pub(crate) struct Terminal {
    keys: Arc<Pty>,
    program: Child,
    bytes: mpsc::Receiver<Vec<u8>>,
    screen: vt100::Parser,
    raw: Vec<u8>,
}

impl Terminal {
    pub(crate) fn start(command: Command, columns: u16) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(Size::new(ROWS, columns)).unwrap();
        let program = AtTerminal::from(command)
            .env("TERM", "xterm-256color")
            .spawn(pts)
            .unwrap();
        let keys = Arc::new(pty);
        let (to, bytes) = mpsc::channel();
        let from = Arc::clone(&keys);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Whoever reads the other side of a terminal that nobody sits at any more gets an error.
            while let Ok(length @ 1..) = (&*from).read(&mut buffer) {
                if to.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            keys,
            program,
            bytes,
            screen: vt100::Parser::new(ROWS.try_into().unwrap(), columns.try_into().unwrap(), 0),
            raw: Vec::new(),
        }
    }

    /// Waits until these words are on the screen.
    pub(crate) fn until(&mut self, words: &str) {
        while !self.seen().contains(words) {
            assert!(self.hear(), "no {words:?} in:\n{}", self.seen());
        }
    }

    pub(crate) fn press(&self, keys: &str) {
        (&*self.keys).write_all(keys.as_bytes()).unwrap();
    }

    /// Presses Ctrl-C until the program has gone, as people do: one that comes between the question and the moment in
    /// which its answer is listened for is nobody's.
    pub(crate) fn interrupt(&mut self) {
        for _ in 0..PATIENCE.as_secs() {
            // Whoever has gone already takes no key.
            let _gone = (&*self.keys).write_all(b"\x03");
            loop {
                match self.bytes.recv_timeout(Duration::from_secs(1)) {
                    Ok(bytes) => {
                        self.screen.process(&bytes);
                        self.raw.extend(bytes);
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    Err(mpsc::RecvTimeoutError::Timeout) => break,
                }
            }
        }
    }

    /// Waits for the end: how it ended, and what is on the screen then.
    pub(crate) fn ended(&mut self) -> (Option<i32>, String, Vec<u8>) {
        self.drain();
        let code = self.program.wait().unwrap().code();
        (code, self.seen(), std::mem::take(&mut self.raw))
    }

    pub(crate) fn seen(&self) -> String {
        let screen = self.screen.screen();
        let (_, columns) = screen.size();
        let rows = screen.rows(0, columns.get());
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Whether the terminal broke a line because it was too long for it.
    pub(crate) fn breaks_lines(&self) -> bool {
        (0..ROWS).any(|row| self.screen.screen().row_wrapped(row))
    }

    /// Reads on until the program has gone.
    pub(crate) fn drain(&mut self) {
        while self.hear() {}
    }

    fn hear(&mut self) -> bool {
        match self.bytes.recv_timeout(PATIENCE) {
            Ok(bytes) => {
                self.screen.process(&bytes);
                self.raw.extend(bytes);
                true
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => false,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing more in:\n{}", self.seen()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended_already = self.program.kill();
        let _reaped = self.program.wait();
    }
}
