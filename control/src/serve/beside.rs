//! What runs beside the API, from the start to the stop.
//!
//! Takes tasks by name, waits for all of them at the end. One that ended badly is told; it keeps nobody from stopping.

use std::{error::Error, future::Future};

use tokio::task::JoinHandle;

/// Tasks that end by themselves after the stop.
#[derive(Debug, Default)]
pub(super) struct Beside(Vec<(&'static str, JoinHandle<()>)>);

impl Beside {
    /// One that runs already.
    pub(super) fn add(&mut self, what: &'static str, task: JoinHandle<()>) {
        self.0.push((what, task));
    }

    /// One that may fail.
    pub(super) fn start<E: Error + Send + 'static>(
        &mut self,
        what: &'static str,
        work: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let task = tokio::spawn(async move {
            if let Err(error) = work.await {
                let error: &dyn Error = &error;
                tracing::error!(error, "{what} failed");
            }
        });
        self.add(what, task);
    }

    /// Waits until all have ended.
    pub(super) async fn end(self) {
        for (what, task) in self.0 {
            if task.await.is_err() {
                tracing::error!("{what} ended with a panic");
            }
        }
    }
}
