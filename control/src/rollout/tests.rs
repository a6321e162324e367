//! The planner under test: a model that applies plans the way the store does, scenarios in a small script, and a
//! random driver that checks what must never happen.

mod driver;
mod scenarios;
mod script;
pub(crate) mod signed;
mod sqlite;
mod world;
