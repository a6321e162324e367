//! What a rollout does, told in scenarios.

mod absence;
mod calls;
mod course;
mod failures;
