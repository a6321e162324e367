//! Which call causes what is written.
//!
//! Takes the id of a request, and what is done for it; whoever writes an event meanwhile finds it here. What control does
//! by itself has none. It is carried beside the work and not through it: no decision depends on it.

use std::future::Future;

tokio::task_local! {
    static REQUEST: String;
}

/// Does what a request asks for.
pub(crate) async fn of<Work: Future>(request: String, work: Work) -> Work::Output {
    REQUEST.scope(request, work).await
}

/// The request that is being served, if one is.
pub(crate) fn request() -> Option<String> {
    REQUEST.try_with(Clone::clone).ok()
}
