//! A bar for every wave, on a terminal.
//!
//! Takes the states of a rollout, draws them. Decides nothing.

use indicatif::{MultiProgress, ProgressBar, ProgressFinish, ProgressStyle};

use super::{
    changes::{late_changes, node_changes},
    progress::{Phase, Wave, in_words, settled, soak_in_words, state_in_words, total, waves},
};
use crate::{api::rollout::Rollout, cli::sheet::printable};

const TITLE: &str = "{msg}";
const WAVE: &str = "  wave {prefix:<2} {bar:32.cyan} {pos:>4}/{len:<4} {msg}";

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
        let title = screen.add(ProgressBar::new_spinner().with_style(style(TITLE)));
        Self {
            screen,
            title,
            waves: Vec::new(),
            last: None,
        }
    }

    /// Draws a state.
    pub(super) fn show(&mut self, rollout: &Rollout) {
        let last = self.last.as_ref();
        let news = node_changes(last, rollout);
        for line in news.into_iter().chain(late_changes(last, rollout)) {
            // A terminal that has gone away takes nothing more.
            let _unseen = self.screen.println(printable(&line.text));
        }
        self.title.set_message(printable(&state_in_words(rollout)));
        let before = self.last.as_ref().map(waves).unwrap_or_default();
        for (index, wave) in waves(rollout).iter().enumerate() {
            match self.waves.get(index) {
                None => self.waves.push(self.bar(rollout, wave)),
                // Drawing what has not changed would only make the terminal flicker.
                Some(_) if before.get(index) == Some(wave) => {}
                Some(bar) => {
                    bar.set_position(u64::from(settled(&wave.counts)));
                    bar.set_message(message(rollout, wave));
                }
            }
        }
        self.last = Some(rollout.clone());
    }

    /// Says that control does not answer.
    pub(super) fn silent(&self, error: &str) {
        self.title
            .set_message(format!("{}; trying again", printable(error)));
    }

    /// Leaves the bars as they are.
    pub(super) fn finish(&self) {
        for bar in &self.waves {
            bar.abandon();
        }
        self.title.finish_and_clear();
    }

    fn bar(&self, rollout: &Rollout, wave: &Wave) -> ProgressBar {
        let bar = ProgressBar::new(u64::from(total(&wave.counts)))
            .with_style(style(WAVE).progress_chars("━╸─"))
            // Ctrl-C leaves what was to be seen.
            .with_finish(ProgressFinish::Abandon)
            .with_position(u64::from(settled(&wave.counts)))
            .with_prefix(wave.number.to_string())
            .with_message(message(rollout, wave));
        let bar = self.screen.add(bar);
        bar.tick();
        bar
    }
}

fn message(rollout: &Rollout, wave: &Wave) -> String {
    match wave.phase {
        Phase::Waiting => "waiting".to_owned(),
        Phase::Open | Phase::Soaking | Phase::Settled | Phase::Over => format!(
            "{}{}",
            in_words(&wave.counts),
            soak_in_words(rollout, wave.phase)
        ),
    }
}

/// The templates are this file's own, and a test reads them.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [TITLE, WAVE] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
