//! One record, two copies, and everything that can happen to them.
