//! Measurements of the whole system. Each gives figures, never a verdict: a noisy machine is no reason to fail.

pub mod agent;
mod awake;
pub mod cli;
pub mod console;
pub mod control;
pub mod gateway;
pub mod road;
