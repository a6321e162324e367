//! How an attempt stands, where the helper could not be told.
//!
//! Takes and gives one small file of the node's own folder. It decides nothing but what is reported, and what is not
//! tried again; once the helper has heard of an attempt, its record is the truth.

use crate::durable::{self, Mode};
use crate::paths::Paths;
use crate::updater::attempt::Attempt;
use crate::updater::host::{HostError, while_trying};
use crate::updater::limits::RECORD_BYTES_MAX;

pub(super) fn keep(paths: &Paths, attempt: &Attempt) -> Result<(), HostError> {
    serde_json::to_vec(attempt)
        .map_err(std::io::Error::other)
        .and_then(|bytes| durable::replace_file(&paths.own_note(), &bytes, Mode::Readable))
        .map_err(while_trying("keep how the attempt stands"))
}

pub(super) fn read(paths: &Paths) -> Option<Attempt> {
    let bytes = durable::read_unlinked(&paths.own_note(), RECORD_BYTES_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}

pub(super) fn forget(paths: &Paths) {
    if let Err(error) = durable::remove_if_there(&paths.own_note()) {
        tracing::warn!(%error, "an attempt's note cannot be removed");
    }
}

/// A note that could not be removed in time is older than what the record says of the same attempt.
pub(super) fn is_newer(own: &Attempt, recorded: Option<&Attempt>) -> bool {
    recorded.is_none_or(|recorded| {
        recorded.id() != own.id() || recorded.facts().tries < own.facts().tries
    })
}
