//! The memory and arguments that a session keeps for TVM's CUDA graphs.

use std::collections::HashMap;

use reflex_runtime::array::Array;
use reflex_runtime::value::Any;

/// Memory and arguments that the `vm.builtin.cuda_graph` functions of a session keep.
#[derive(Default)]
pub struct GraphCache {
    /// Memory, by the number of the function that allocates it.
    pub(super) allocations: HashMap<i64, Any>,
    /// Arguments of functions, by number and the values of their symbolic dimensions.
    pub(super) captures: HashMap<(i64, Box<[i64]>), Array>,
}
