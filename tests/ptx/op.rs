//! Decoded instructions, which the executor runs.

use crate::fault::Space;
use crate::num::convert::Conversion;
use crate::num::format::Format;
use crate::num::{Scalar, Scalar4};

/// The guard of an instruction that has none.
pub const ALWAYS: u32 = u32::MAX;

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Src {
    /// A register.
    Reg(u32),
    /// A constant.
    Imm(u64),
    /// The address of a variable: an index into [`Kernel::symbols`].
    Sym(u32),
}

/// A destination with the width that the register keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dst {
    /// The register.
    pub reg: u32,
    /// Its bits.
    pub bits: u32,
}

/// An address operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr {
    /// The address of a register or variable.
    pub base: Src,
    /// The offset that is added.
    pub offset: i64,
}

/// A variable whose address a launch fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A module variable, by its index.
    Global(u32),
    /// An offset in the block's static shared memory.
    Shared(u64),
    /// The beginning of dynamic shared memory.
    Dynamic,
    /// An offset in the kernel's parameters.
    Param(u64),
    /// An offset in a thread's local memory.
    Local(u64),
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `%tid` by axis.
    Tid(u8),
    /// `%ntid`.
    Ntid(u8),
    /// `%ctaid`.
    Ctaid(u8),
    /// `%nctaid`.
    Nctaid(u8),
    /// `%laneid`.
    Lane,
    /// `%warpid`.
    Warp,
    /// `%nwarpid`.
    Warps,
    /// `%lanemask_eq`.
    MaskEq,
    /// `%lanemask_lt`.
    MaskLt,
    /// `%lanemask_le`.
    MaskLe,
    /// `%lanemask_gt`.
    MaskGt,
    /// `%lanemask_ge`.
    MaskGe,
    /// `%clock`, `%clock64` and `%globaltimer`: instructions so far.
    Clock,
    /// `%dynamic_smem_size`.
    DynamicShared,
    /// `%cluster_ctarank`: the number of the block in its cluster.
    ClusterRank,
    /// `%cluster_nctarank`: blocks of a cluster.
    ClusterBlocks,
    /// `%clusterid` by axis.
    Cluster(u8),
    /// `%nclusterid`.
    Clusters(u8),
    /// A number that is the same everywhere.
    Fixed(u32),
}

/// The operation of an atomic instruction.
#[derive(Clone, Copy, Debug)]
pub enum AtomicOp {
    /// A function of the old value and the operand.
    Apply(Scalar),
    /// Store.
    Exchange,
    /// Store when equal.
    CompareSwap,
    /// Increment up to a limit.
    Increment,
    /// Decrement down from a limit.
    Decrement,
}

/// The mode of a shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// `.up`.
    Up,
    /// `.down`.
    Down,
    /// `.bfly`.
    Butterfly,
    /// `.idx`.
    Index,
}

/// The result of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// `.all`.
    All,
    /// `.any`.
    Any,
    /// `.uni`.
    Uniform,
    /// `.ballot`.
    Ballot,
}

/// The reduction of predicates at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierResult {
    /// The count of true predicates.
    Count,
    /// Whether all are true.
    All,
    /// Whether one is true.
    Any,
}

/// An instruction that all lanes of a mask execute together.
#[derive(Clone, Debug)]
pub enum Collective {
    /// `bar.warp.sync`.
    WarpBarrier,
    /// `shfl.sync`: destination, predicate, value, lane, clamp.
    Shuffle { mode: Shuffle, dst: u32, inside: Option<u32>, value: Src, lane: Src, clamp: Src },
    /// `vote.sync`.
    Vote { mode: Vote, dst: u32, predicate: Src, negated: bool },
    /// `match.sync`; the second destination says for `.all` whether all are equal.
    Match { all: bool, dst: u32, equal: Option<u32>, value: Src, bits: u32 },
    /// `redux.sync`.
    Reduce { with: Scalar, dst: u32, value: Src },
    /// `ldmatrix`.
    LoadMatrix { transposed: bool, dst: Box<[u32]>, addr: Addr },
    /// `stmatrix`.
    StoreMatrix { transposed: bool, src: Box<[Src]>, addr: Addr },
    /// `elect.sync`: the lowest lane, and whether this is it.
    Elect { dst: u32, elected: u32 },
    /// `mma.sync` with m16n8.
    Mma { format: Format, k: u32, d: Box<[u32]>, a: Box<[Src]>, b: Box<[Src]>, c: Box<[Src]> },
}

/// An operation on an asynchronous barrier object.
#[derive(Clone, Copy, Debug)]
pub enum Mbarrier {
    /// `mbarrier.init`.
    Init { count: Src },
    /// `mbarrier.inval`.
    Invalidate,
    /// `mbarrier.arrive`: the phase that was arrived at, arrivals, and bytes to expect.
    Arrive { state: Option<u32>, count: Src, expect: Src },
    /// `mbarrier.expect_tx`.
    Expect { bytes: Src },
    /// `mbarrier.test_wait` and `mbarrier.try_wait`; the latter blocks.
    Wait { dst: u32, phase: Src, parity: bool, blocks: bool },
}

/// A half of a barrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterBarrier {
    /// `barrier.cluster.arrive`; `release` orders what came before.
    Arrive { release: bool },
    /// `barrier.cluster.wait`.
    Wait,
}

/// A copy that a bulk engine makes.
#[derive(Clone, Debug)]
pub enum Bulk {
    /// A box of a tensor to shared memory: of this block, or of the blocks of a mask.
    Load { to: Addr, map: Addr, coordinates: Box<[Src]>, barrier: Addr, multicast: Option<Src> },
    /// A box of a tensor from shared memory.
    Store { from: Addr, map: Addr, coordinates: Box<[Src]> },
    /// Bytes to shared memory.
    Copy { to: Addr, from: Addr, bytes: Src, barrier: Addr },
    /// The end of a group of stores.
    Commit,
    /// A wait until at most this many groups are left.
    Wait { left: u32 },
}

/// Where `wgmma` has its first matrix.
#[derive(Clone, Debug)]
pub enum GroupMatrix {
    /// In shared memory, by a descriptor.
    Shared(Src),
    /// In registers.
    Registers(Box<[Src]>),
}

/// An instruction that the four warps of a warpgroup execute together.
#[derive(Clone, Debug)]
pub enum Warpgroup {
    /// `wgmma.fence`.
    Fence,
    /// `wgmma.commit_group`.
    Commit,
    /// `wgmma.wait_group`.
    Wait { left: u32 },
    /// `wgmma.mma_async` with m64 and k16.
    Mma {
        format: Format,
        d: Box<[u32]>,
        a: GroupMatrix,
        b: Src,
        scale: Src,
        negate: [bool; 2],
        /// Whether neighbours in memory are neighbouring rows of the first, or columns of the second matrix.
        transposed: [bool; 2],
    },
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// A function of three registers.
    Alu { f: Scalar, dst: u32, src: [Src; 3] },
    /// A function of four registers.
    Alu4 { f: Scalar4, dst: u32, src: [Src; 4] },
    /// A copy.
    Move { dst: u32, src: Src },
    /// A conversion.
    Convert { how: Conversion, dst: Dst, src: Src },
    /// A read of a special register.
    Special { dst: u32, what: Special },
    /// A load of one or more elements.
    Load {
        space: Space,
        bytes: u8,
        signed: bool,
        strong: bool,
        dst: Box<[Option<Dst>]>,
        addr: Addr,
    },
    /// A store of one or more elements.
    Store { space: Space, bytes: u8, strong: bool, src: Box<[Src]>, addr: Addr },
    /// An atomic read and write.
    Atomic { space: Space, op: AtomicOp, bytes: u8, dst: Option<u32>, addr: Addr, a: Src, b: Src },
    /// A jump.
    Branch { target: u32 },
    /// A jump through a table.
    BranchTable { table: u32, index: Src },
    /// The end of a thread.
    Exit,
    /// An abort.
    Trap,
    /// Nothing that a single launch could observe.
    Nop,
    /// A barrier of the block. The result has a destination and a predicate.
    Barrier { id: Src, count: Option<Src>, arrive: bool, result: Option<(BarrierResult, u32, Src)> },
    /// `barrier.cluster`: threads arrive, or wait for those of all blocks.
    ClusterBarrier(ClusterBarrier),
    /// A collective of the lanes of a mask.
    Collective { mask: Src, what: Collective },
    /// `activemask`.
    ActiveMask { dst: u32 },
    /// `cp.async`: bytes, destination, source, and how many bytes of the source are read.
    AsyncCopy { bytes: u8, to: Addr, from: Addr, read: Option<Src> },
    /// `cp.async.commit_group`.
    AsyncCommit,
    /// An operation on the barrier object at an address.
    Mbarrier { at: Addr, what: Mbarrier },
    /// A bulk copy.
    Bulk(Box<Bulk>),
    /// An instruction of a warpgroup.
    Warpgroup(Box<Warpgroup>),
    /// `fence.proxy.async`.
    ProxyFence,
    /// `cp.async.wait_group`; none waits for all copies.
    AsyncWait { left: Option<u32> },
}

/// The kind of an instruction, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Integer arithmetic and logic.
    Integer,
    /// Floating-point arithmetic.
    Float,
    /// Conversions.
    Convert,
    /// Copies between registers.
    Move,
    /// Comparisons and selections.
    Compare,
    /// Loads.
    Load,
    /// Stores.
    Store,
    /// Atomics.
    Atomic,
    /// Branches and exits.
    Control,
    /// Barriers and fences.
    Barrier,
    /// Shuffles, votes and the like.
    Collective,
    /// Asynchronous copies.
    Async,
    /// Matrix instructions.
    Matrix,
}

/// All kinds.
pub const KINDS: [Kind; 13] = [
    Kind::Integer,
    Kind::Float,
    Kind::Convert,
    Kind::Move,
    Kind::Compare,
    Kind::Load,
    Kind::Store,
    Kind::Atomic,
    Kind::Control,
    Kind::Barrier,
    Kind::Collective,
    Kind::Async,
    Kind::Matrix,
];

/// An operation with its guard and its line in the text.
#[derive(Clone, Debug)]
pub struct Inst {
    /// The operation.
    pub op: Op,
    /// The predicate register, or [`ALWAYS`].
    pub guard: u32,
    /// Whether the guard is negated.
    pub negated: bool,
    /// Whether it begins an instruction of the text; one may decode to several operations.
    pub head: bool,
    /// Its kind.
    pub kind: Kind,
    /// Index of the opcode in [`Kernel::opcodes`].
    pub opcode: u32,
    /// Line of the text.
    pub line: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its offset in the block of parameters.
    pub offset: u64,
    /// Its size.
    pub size: u64,
}

/// A kernel, ready to run.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Bytes of all parameters.
    pub param_size: u64,
    /// The operations.
    pub(crate) code: Vec<Inst>,
    /// Opcodes as written.
    pub(crate) opcodes: Vec<String>,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread.
    pub local_size: u64,
    /// Bytes of static shared memory.
    pub shared_size: u64,
    /// Alignment of dynamic shared memory.
    pub(crate) dynamic_align: u64,
    /// Variables whose addresses are used.
    pub(crate) symbols: Vec<Symbol>,
    /// Tables of branch targets.
    pub(crate) tables: Vec<Vec<u32>>,
    /// `.maxntid`: the most threads of a block.
    pub max_threads: Option<u64>,
    /// `.reqntid`: the extents that a block must have.
    pub required: Option<[u64; 3]>,
    /// `.reqnctapercluster`: blocks of a cluster, along x; 0 where none are said.
    pub cluster: u32,
    /// Whether threads order themselves by more than barriers of the whole block.
    pub(crate) fine_order: bool,
    /// Whether bulk copies or warpgroups touch shared memory.
    pub(crate) async_proxy: bool,
}
