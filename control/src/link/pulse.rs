//! Whether the process at the other end of a link is there and answers.
//!
//! Takes questions from whoever doubts it, gives each when an answer to it has come. The link's own task sends the question
//! as a ping, and its answer is a pong with the same number: what was on its way before the question proves nothing.

use tokio::sync::watch;

/// One link's questions and answers, by number.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    asked: watch::Sender<u64>,
    answered: watch::Sender<u64>,
}

impl Pulse {
    /// Asks, and waits for the answer.
    pub(super) async fn beats(&self) {
        let mut question = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            question = *asked;
        });
        let mut answered = self.answered.subscribe();
        if answered.wait_for(|last| *last >= question).await.is_err() {
            // The sender is this value's own, and is there.
            std::future::pending().await
        }
    }

    /// The questions, for the link to send; one that was asked before is new to it.
    pub(super) fn questions(&self) -> watch::Receiver<u64> {
        let mut questions = self.asked.subscribe();
        if *questions.borrow() > 0 {
            questions.mark_changed();
        }
        questions
    }

    /// A pong has come. One without a number answers a mere sign of life.
    pub(super) fn answered(&self, payload: &[u8]) {
        if let Ok(number) = payload.try_into() {
            // Nobody answers what was not asked yet.
            let number = u64::from_be_bytes(number).min(*self.asked.borrow());
            self.answered
                .send_if_modified(|last| number > std::mem::replace(last, number.max(*last)));
        }
    }
}

/// What a ping carries that asks this.
pub(super) fn payload(question: u64) -> [u8; 8] {
    question.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn only_what_came_after_the_question_answers_it() {
        let pulse = Pulse::default();
        // A rogue's numbers and mere signs of life.
        pulse.answered(&payload(u64::MAX));
        pulse.answered(b"");
        let first = pulse.beats();
        tokio::pin!(first);
        assert!(first.as_mut().now_or_never().is_none());
        let mut questions = pulse.questions();
        questions.changed().await.unwrap();
        let number = *questions.borrow_and_update();
        let second = pulse.beats();
        tokio::pin!(second);
        assert!(second.as_mut().now_or_never().is_none());
        pulse.answered(&payload(number));
        first.await;
        assert!(second.as_mut().now_or_never().is_none());
        pulse.answered(&payload(u64::MAX));
        second.await;
    }
}
