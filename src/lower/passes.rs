//! Passes and pipelines: the table of passes, and which of them run, in which order, with which
//! options.
//!
//! A [`Pipeline`](sequence::Pipeline) is a value: a list of steps, each a row of the [`table`] or a
//! pass from outside, with its options. It is made from a name and edits, in Rust or as text, and
//! checked when it is made: the names exist, options are those that their pass declares and within
//! its bounds, no pass that is needed is left out, and none stands before one it builds on.
//!
//! Decision: docs/decisions/0066-pipelines.md

pub mod edit;
pub mod sequence;
pub mod table;
