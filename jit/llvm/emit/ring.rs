//! The buffers that a pipelined loop's tiles go through, as one of a block's two parts sees them.

use std::collections::HashMap;

use inkwell::values::{IntValue, PointerValue};
use reflex_tir::Buffer;
use reflex_tir::box_copy::BoxCopy;
use reflex_tir::pipeline::Pipeline;

use crate::emit::in_flight::Sums;

/// A ring of stages in shared memory: tiles, then a barrier object for each stage that says that it is full, then
/// those that say that it is empty.
#[derive(Debug, Clone)]
pub struct Ring<'c> {
    /// Where shared memory begins.
    pub memory: PointerValue<'c>,
    /// Bytes of a stage.
    pub stage_bytes: i64,
    /// Where tiles are in a stage, bytes.
    pub tiles: HashMap<Buffer, i64>,
    /// Tensors that are copied from, and the addresses of their maps.
    pub maps: Vec<(BoxCopy, PointerValue<'c>)>,
    /// The loops: stages, bytes that an iteration copies, and what the blocks of a cluster copy for each other.
    pub pipeline: Pipeline,
    /// The thread's number in its warpgroup.
    pub thread: IntValue<'c>,
    /// The number of the stage at hand, 32 bits.
    pub stage: PointerValue<'c>,
    /// The parity of the phase of its barrier objects that is waited for when it is full, 32 bits.
    pub parity: PointerValue<'c>,
    /// The barrier object of the stage at hand that copies complete.
    pub full: Option<IntValue<'c>>,
    /// Products of an iteration that were issued, and their sums.
    pub issued: Vec<Sums<'c>>,
}
