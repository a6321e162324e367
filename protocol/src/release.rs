//! Signed releases: what a manifest says, and the one place that decides whether to believe it.
