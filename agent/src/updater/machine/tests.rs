//! One attempt after the other, with a clock that jumps.
