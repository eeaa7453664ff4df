//! Threads of a GPU kernel: the axes that loops are bound to, and barriers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A thread axis that a loop is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ThreadAxis {
    /// Blocks of the grid, first dimension.
    BlockX,
    /// Blocks of the grid, second dimension.
    BlockY,
    /// Blocks of the grid, third dimension.
    BlockZ,
    /// Blocks of a cluster, which share a level of the memory hierarchy.
    ClusterX,
    /// Threads of a block, first dimension: neighbours are in one warp.
    ThreadX,
    /// Threads of a block, second dimension.
    ThreadY,
    /// Threads of a block, third dimension.
    ThreadZ,
    /// Virtual threads: one thread does the work of several, interleaved.
    Virtual,
}

/// The part of the thread hierarchy that an axis belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadLevel {
    /// Blocks, which do not wait for each other.
    Block,
    /// Threads of one block.
    Thread,
    /// No hardware.
    Virtual,
}

impl ThreadAxis {
    /// Every axis.
    pub const ALL: [ThreadAxis; 8] = [
        ThreadAxis::BlockX,
        ThreadAxis::BlockY,
        ThreadAxis::BlockZ,
        ThreadAxis::ClusterX,
        ThreadAxis::ThreadX,
        ThreadAxis::ThreadY,
        ThreadAxis::ThreadZ,
        ThreadAxis::Virtual,
    ];

    /// The axes of the threads of a block; the last one varies fastest in a thread's number.
    pub const THREADS: [ThreadAxis; 3] =
        [ThreadAxis::ThreadZ, ThreadAxis::ThreadY, ThreadAxis::ThreadX];

    /// TVM's name for it.
    pub fn name(self) -> &'static str {
        match self {
            ThreadAxis::BlockX => "blockIdx.x",
            ThreadAxis::BlockY => "blockIdx.y",
            ThreadAxis::BlockZ => "blockIdx.z",
            ThreadAxis::ClusterX => "clusterCtaIdx.x",
            ThreadAxis::ThreadX => "threadIdx.x",
            ThreadAxis::ThreadY => "threadIdx.y",
            ThreadAxis::ThreadZ => "threadIdx.z",
            ThreadAxis::Virtual => "vthread",
        }
    }

    /// The part of the thread hierarchy that it belongs to.
    pub fn level(self) -> ThreadLevel {
        match self {
            ThreadAxis::BlockX | ThreadAxis::BlockY | ThreadAxis::BlockZ | ThreadAxis::ClusterX => {
                ThreadLevel::Block
            }
            ThreadAxis::ThreadX | ThreadAxis::ThreadY | ThreadAxis::ThreadZ => ThreadLevel::Thread,
            ThreadAxis::Virtual => ThreadLevel::Virtual,
        }
    }
}

impl fmt::Display for ThreadAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ThreadAxis {
    type Err = String;

    fn from_str(text: &str) -> Result<ThreadAxis, String> {
        let found = ThreadAxis::ALL.into_iter().find(|axis| axis.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a thread axis"))
    }
}

/// The threads that wait for each other at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BarrierScope {
    /// All threads of a block.
    Block,
    /// The threads of one warp.
    Warp,
}

impl BarrierScope {
    /// TVM's word for it: the memory that is the same for all threads behind the barrier.
    pub fn name(self) -> &'static str {
        match self {
            BarrierScope::Block => "shared",
            BarrierScope::Warp => "warp",
        }
    }
}

/// The annotation of a vector loop that copies from global to shared memory, and may go on while its thread does
/// something else, until a barrier or until the thread touches what is copied. Code generation waits there.
pub const ASYNC_COPY: &str = "reflex.async_copy";

/// The annotation of a loop whose copies of boxes run ahead of its products: the number of buffers that each tile has
/// ([`pipeline`](crate::pipeline)).
pub const PIPELINE_STAGES: &str = "reflex.pipeline_stages";

/// Threads of a warp.
pub const WARP: i64 = 32;
