//! The model against the store.
