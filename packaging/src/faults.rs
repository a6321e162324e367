//! Faults on purpose, on the real programs: each campaign ends with a line of figures and finds violations, not numbers.

pub mod kills;
