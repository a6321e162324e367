//! A bar for every wave, on a terminal.
//!
//! Takes the states of a rollout, draws them. Decides nothing.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{
    changes::node_changes,
    progress::{Phase, Wave, in_words, settled, state_in_words, total, waves},
};
use crate::{api::rollout::Rollout, cli::sheet::printable};

/// The bars of one rollout.
#[derive(Debug)]
pub(super) struct Bars {
    screen: MultiProgress,
    title: ProgressBar,
    waves: Vec<ProgressBar>,
    last: Option<Rollout>,
}

impl Bars {
    /// No bars yet: how many there will be is not known before the first state.
    pub(super) fn new() -> Self {
        let screen = MultiProgress::new();
        let title = screen.add(ProgressBar::new_spinner().with_style(style("{msg}")));
        Self {
            screen,
            title,
            waves: Vec::new(),
            last: None,
        }
    }

    /// Draws a state.
    pub(super) fn show(&mut self, rollout: &Rollout) {
        for line in node_changes(self.last.as_ref(), rollout) {
            // A terminal that has gone away takes nothing more.
            let _unseen = self.screen.println(printable(&line));
        }
        self.title.set_message(printable(&state_in_words(rollout)));
        self.title.tick();
        let waves = waves(rollout);
        for (index, wave) in waves.iter().enumerate() {
            let bar = self.bar(index, wave.number);
            bar.set_length(u64::from(total(&wave.counts)));
            bar.set_position(u64::from(settled(&wave.counts)));
            bar.set_message(message(wave));
            bar.tick();
        }
        self.last = Some(rollout.clone());
    }

    /// Says that control does not answer.
    pub(super) fn silent(&self, error: &str) {
        self.title
            .set_message(format!("{}; trying again", printable(error)));
        self.title.tick();
    }

    /// Leaves the bars as they are.
    pub(super) fn finish(&self) {
        for bar in &self.waves {
            bar.abandon();
        }
        self.title.finish_and_clear();
    }

    fn bar(&mut self, index: usize, number: usize) -> ProgressBar {
        if let Some(bar) = self.waves.get(index) {
            return bar.clone();
        }
        let style =
            style("  wave {prefix:<2} {bar:32} {pos:>4}/{len:<4} {msg}").progress_chars("━╸─");
        let bar = self.screen.add(ProgressBar::new(0).with_style(style));
        bar.set_prefix(number.to_string());
        self.waves.push(bar.clone());
        bar
    }
}

fn message(wave: &Wave) -> String {
    match wave.phase {
        Phase::Waiting => "waiting".to_owned(),
        Phase::Soaking => format!("{}; soaking", in_words(&wave.counts)),
        Phase::Open | Phase::Over => in_words(&wave.counts),
    }
}

/// The templates are this file's own; a test reads them all.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
