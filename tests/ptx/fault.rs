//! Faults: the errors that stop a launch, and their positions.

use std::fmt;

/// A state space of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Allocations of the device.
    Global,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
    /// Parameters of the kernel.
    Param,
    /// Constants of the module.
    Const,
    /// An address that says its space itself.
    Generic,
}

/// The error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An access that is not inside one allocation.
    OutOfBounds {
        /// The state space.
        space: Space,
        /// The address.
        address: u64,
        /// Bytes of the access.
        size: u64,
        /// Whether the bytes were freed.
        freed: bool,
    },
    /// An address that is not a multiple of the size of the access.
    Misaligned {
        /// The state space.
        space: Space,
        /// The address.
        address: u64,
        /// Bytes of the access.
        size: u64,
    },
    /// A read of bytes that nothing has written.
    Uninitialised {
        /// The state space.
        space: Space,
        /// The address.
        address: u64,
        /// Bytes of the access.
        size: u64,
    },
    /// An access to the destination of an asynchronous copy that was not waited for.
    AsyncPending {
        /// The address.
        address: u64,
    },
    /// A write to constants or parameters.
    ReadOnly {
        /// The state space.
        space: Space,
        /// The address.
        address: u64,
    },
    /// Two accesses without order, one of them a write.
    Race {
        /// The state space.
        space: Space,
        /// The address.
        address: u64,
        /// Whether this access writes.
        write: bool,
        /// The other access.
        other: Other,
    },
    /// A barrier that threads wait at and others never reach.
    DivergentBarrier {
        /// The barrier.
        barrier: u32,
        /// The threads that have arrived.
        arrived: u32,
        /// The threads that have to arrive.
        expected: u32,
    },
    /// A collective instruction without all lanes of its mask.
    DivergentCollective {
        /// The lanes that have to come.
        mask: u32,
        /// The lanes that have come.
        arrived: u32,
    },
    /// A shuffle that reads a lane that does not take part.
    InactiveLane {
        /// The lane.
        lane: u32,
    },
    /// A misuse of an asynchronous barrier object.
    Mbarrier {
        /// The address.
        address: u64,
        /// The mistake.
        problem: &'static str,
    },
    /// An asynchronous access to bytes that a thread wrote, without a fence between the proxies.
    ProxyFence {
        /// The address.
        address: u64,
    },
    /// A product of a warpgroup whose registers a thread wrote without a fence before it.
    RegisterFence,
    /// Nothing can run, and threads wait.
    Deadlock {
        /// The threads that wait.
        waiting: u32,
    },
    /// The launch ran more instructions than allowed.
    OutOfFuel,
    /// The instruction `trap`.
    Trap,
    /// A branch through a table past its end.
    BranchTable {
        /// The index.
        index: u64,
    },
    /// An operand that the instruction does not allow.
    Operand {
        /// The mistake.
        problem: &'static str,
    },
    /// A launch that is refused before it starts.
    Launch {
        /// The mistake.
        problem: String,
    },
}

/// The other access of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its thread in the block, in order of index; none where many have read.
    pub thread: Option<u32>,
    /// Whether another block made it.
    pub other_block: bool,
    /// Whether it was a write.
    pub write: bool,
}

/// An error of a launch, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the kernel.
    pub kernel: String,
    /// Index of the block.
    pub block: [u32; 3],
    /// Index of the thread in the block.
    pub thread: [u32; 3],
    /// Line of the PTX text, from 1; 0 where no instruction is at fault.
    pub line: u32,
    /// The instruction, without operands.
    pub instruction: String,
    /// The error.
    pub kind: FaultKind,
}

impl Fault {
    /// A launch that is refused before it starts.
    pub fn refused(kernel: &str, problem: String) -> Fault {
        Fault {
            kernel: kernel.to_owned(),
            block: [0; 3],
            thread: [0; 3],
            line: 0,
            instruction: String::new(),
            kind: FaultKind::Launch { problem },
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::OutOfBounds { space, address, size, freed } => {
                let freed = if *freed { ", in memory that was freed" } else { "" };
                write!(f, "out of bounds: {size} bytes at {space:?} {address:#x}{freed}")
            }
            FaultKind::Misaligned { space, address, size } => {
                write!(f, "misaligned: {size} bytes at {space:?} {address:#x}")
            }
            FaultKind::Uninitialised { space, address, size } => {
                write!(f, "uninitialised read: {size} bytes at {space:?} {address:#x}")
            }
            FaultKind::AsyncPending { address } => {
                write!(f, "access at {address:#x} before its asynchronous copy was waited for")
            }
            FaultKind::ReadOnly { space, address } => {
                write!(f, "write to read-only {space:?} {address:#x}")
            }
            FaultKind::Race { space, address, write, other } => {
                let word = |write: bool| if write { "write" } else { "read" };
                let (this, that) = (word(*write), word(other.write));
                write!(f, "race: {this} at {space:?} {address:#x} without order after a {that}")?;
                match other.thread {
                    Some(thread) => write!(f, " by thread {thread}")?,
                    None => write!(f, " by several threads")?,
                }
                f.write_str(if other.other_block { " of another block" } else { "" })
            }
            FaultKind::DivergentBarrier { barrier, arrived, expected } => {
                write!(f, "divergent barrier {barrier}: {arrived} of {expected} threads arrive")
            }
            FaultKind::DivergentCollective { mask, arrived } => {
                write!(f, "divergent collective: mask {mask:#010x}, lanes {arrived:#010x}")
            }
            FaultKind::InactiveLane { lane } => write!(f, "reads lane {lane}, which is inactive"),
            FaultKind::Mbarrier { address, problem } => {
                write!(f, "mbarrier at shared {address:#x}: {problem}")
            }
            FaultKind::ProxyFence { address } => {
                write!(f, "asynchronous access at shared {address:#x} without fence.proxy.async")
            }
            FaultKind::RegisterFence => {
                f.write_str("a product of registers that were written without wgmma.fence")
            }
            FaultKind::Deadlock { waiting } => write!(f, "deadlock: {waiting} threads wait"),
            FaultKind::OutOfFuel => f.write_str("out of fuel"),
            FaultKind::Trap => f.write_str("trap"),
            FaultKind::BranchTable { index } => write!(f, "branch table has no entry {index}"),
            FaultKind::Operand { problem } => f.write_str(problem),
            FaultKind::Launch { problem } => write!(f, "launch refused: {problem}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kernel, block, thread, line, instruction, kind } = self;
        write!(f, "{kernel}: {kind}")?;
        if *line > 0 {
            write!(f, " (block {block:?}, thread {thread:?}, line {line}, {instruction})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
