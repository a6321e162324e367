//! Every type that an event can have. Pure.
//!
//! Whoever writes an event of another type is stopped by a developer's build; whoever asks for one is told that there is
//! none, for it would be waited for in vain.

/// Sent to one webhook, because somebody wants to see it arrive.
pub(crate) const WEBHOOK_TEST: &str = "webhook.test";

/// The types, as callers and readers write them.
const KINDS: [&str; 39] = [
    "command.created",
    "command.ended",
    "fleet.frozen",
    "fleet.unfrozen",
    "gateway.created",
    "gateway.duplicate",
    "gateway.removed",
    "join-token.created",
    "join-token.revoked",
    "node.duplicate",
    "node.joined",
    "node.offline",
    "node.online",
    "node.removed",
    "node.updated",
    "node.upgrade-failed",
    "node.upgraded",
    "pool.archived",
    "pool.created",
    "pool.unarchived",
    "pool.updated",
    "release.published",
    "release.registered",
    "release.renewed",
    "rollout.aborted",
    "rollout.completed",
    "rollout.paused",
    "rollout.resumed",
    "rollout.retried",
    "rollout.started",
    "rollout.wave",
    "token.created",
    "token.revoked",
    "token.signed-in",
    "webhook.created",
    "webhook.deleted",
    WEBHOOK_TEST,
    "workflow.created",
    "workflow.updated",
];

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter()
}

/// Whether some event has a type for which this holds.
pub(super) fn any(holds: impl Fn(&str) -> bool) -> bool {
    KINDS.into_iter().any(holds)
}
