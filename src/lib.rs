//! Reflex.
