//! A terminal that somebody looks at.
//!
//! Takes a command, runs it at a pseudo-terminal, gives what was to be seen there from moment to moment; and draws it as
//! an SVG that plays. What is drawn is what the program printed: nothing is made up.

mod svg;

use std::{
    io::Read as _,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use pty_process::{Size, blocking::Command as AtTerminal};

use super::stage::Stage;
use crate::{build::Programs, fleet::now, simulated::Habits};

/// As wide as the README's column, with letters that can be read.
const COLUMNS: u16 = 92;
const ROWS: u16 = 14;

/// Changes that follow each other faster are one to the eye.
const FRAME_LEAST: Duration = Duration::from_millis(120);

/// Nobody looks at what stands still for longer.
const FRAME_MOST: Duration = Duration::from_millis(1500);

/// What was to be seen, and from when on.
#[derive(Debug)]
pub struct Frame {
    at: Duration,
    screen: vt100::Screen,
}

/// What a command showed, and how it ended.
#[derive(Debug)]
pub struct Recording {
    /// The words behind the prompt.
    pub line: String,
    /// In the order of time.
    pub frames: Vec<Frame>,
    /// Its exit code.
    pub code: Option<i32>,
}

impl Recording {
    /// Runs a command at a terminal to its end. It blocks.
    pub fn of(command: Command, line: &str) -> Result<Self> {
        let (mut pty, pts) = pty_process::blocking::open()?;
        pty.resize(Size::new(ROWS, COLUMNS))?;
        let command = AtTerminal::from(command)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR");
        let mut running = command.spawn(pts)?;
        let mut parser = vt100::Parser::new(ROWS.try_into()?, COLUMNS.try_into()?, 0);
        let start = now();
        let mut frames: Vec<Frame> = Vec::new();
        let mut buffer = [0; 16 * 1024];
        // The end of the program is an error to whoever reads its terminal.
        while let Ok(length @ 1..) = pty.read(&mut buffer) {
            parser.process(buffer.get(..length).unwrap_or_default());
            keep(&mut frames, start, parser.screen());
        }
        Ok(Self {
            line: line.to_owned(),
            frames,
            code: running.wait()?.code(),
        })
    }

    /// What is to be seen in the end.
    pub fn last(&self) -> String {
        let last = self.frames.last();
        last.map(|frame| frame.screen.contents())
            .unwrap_or_default()
    }

    /// Whether this was ever to be seen.
    pub fn has_shown(&self, words: &str) -> bool {
        let mut frames = self.frames.iter();
        frames.any(|frame| frame.screen.contents().contains(words))
    }

    /// As a picture that plays once, and then shows the end.
    pub fn svg(&self) -> String {
        svg::draw(&self.line, &self.paced())
    }

    /// Its frames, each with the time at which it is shown: no longer than anybody looks.
    fn paced(&self) -> Vec<(Duration, &vt100::Screen)> {
        let mut paced = Vec::new();
        let mut shown_at = Duration::ZERO;
        let mut before = self.frames.first().map(|frame| frame.at);
        for frame in &self.frames {
            let since = before.map_or(Duration::ZERO, |before| frame.at.saturating_sub(before));
            shown_at += since.min(FRAME_MOST);
            before = Some(frame.at);
            paced.push((shown_at, &frame.screen));
        }
        paced
    }
}

/// Keeps a screen, in place of the one before where that was too short to be seen.
fn keep(frames: &mut Vec<Frame>, start: Instant, screen: &vt100::Screen) {
    let at = now() - start;
    if let Some(last) = frames.last_mut() {
        if last.screen.contents_formatted() == screen.contents_formatted() {
            return;
        }
        if at.saturating_sub(last.at) < FRAME_LEAST {
            last.screen = screen.clone();
            return;
        }
    }
    frames.push(Frame {
        at,
        screen: screen.clone(),
    });
}

/// Takes the README's picture: a rollout over forty nodes, from its creation to its end.
pub async fn rollout(programs: &Programs) -> Result<String> {
    let habits = Habits {
        slow: Duration::from_millis(1500),
        ..Habits::default()
    };
    let stage = Stage::start(programs, 40, &habits).await?;
    let words = "rollouts create --version 1.1.0 --waves 10,50,100 --soak 2s --watch";
    let mut command = stage.fleet.operator.command();
    command.args(words.split(' '));
    let line = format!("better-compute {words}");
    let recording = tokio::task::spawn_blocking(move || Recording::of(command, &line))
        .await
        .context("record the terminal")??;
    ensure!(
        recording.code == Some(0),
        "expected the rollout to complete, found {:?}: {}",
        recording.code,
        recording.last()
    );
    Ok(recording.svg())
}
