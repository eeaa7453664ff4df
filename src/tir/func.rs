//! Functions, statements, blocks and buffers of the loop IR.
//!
//! Two forms use these types. *Scheduled form* has [`Stmt::Block`]s below loops, as TensorIR
//! has; schedule primitives work on it. *Lowered form* has no block: loops, stores, `If`,
//! [`Stmt::Allocate`] and, for a GPU, [`Stmt::Barrier`] only; code generators take it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cranelift_entity::{PrimaryMap, entity_impl};
use serde::{Deserialize, Serialize};

use crate::thread::{BarrierScope, ThreadAxis};
use crate::tile::TileOp;
use crate::{DType, Expr, PackedCall};

/// Attributes of a function whose outputs overlap no other parameter: TVM's older and newer name.
const NOALIAS: [&str; 2] = ["tir.noalias", "tirx.noalias"];

/// A scalar variable of one function: symbolic dimension, loop variable, block iterator,
/// scalar parameter or `Let`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Var(u32);
entity_impl!(Var, "v");

/// A buffer of one function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Buffer(u32);
entity_impl!(Buffer, "b");

/// Name and type of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VarData {
    /// Name hint; the printer makes names unique.
    pub name: Arc<str>,
    /// Scalar type.
    pub dtype: DType,
}

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Main memory: a parameter, or a workspace when allocated inside the function.
    Global,
    /// Shared by the threads of one GPU block.
    Shared,
    /// Private to one thread: registers or stack. Needs a constant shape.
    Local,
    /// A matrix register of the CPU, which only [`Stmt::Tile`] may touch in lowered form.
    Tile,
}

impl Scope {
    /// The word for it in names of buffers and blocks.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Global => "global",
            Scope::Shared => "shared",
            Scope::Local => "local",
            Scope::Tile => "tile",
        }
    }
}

/// A typed, compact, row-major buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BufferData {
    /// Name hint; the printer makes names unique.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents, int64 expressions over the function's symbolic dimensions.
    pub shape: Vec<Expr>,
    /// Memory.
    pub scope: Scope,
}

/// A parameter in call order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Param {
    /// A tensor.
    Buffer(Buffer),
    /// An integer or floating-point scalar.
    Scalar(Var),
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrimFunc {
    /// Global symbol.
    pub name: String,
    /// Every variable.
    pub vars: PrimaryMap<Var, VarData>,
    /// Every buffer: parameters and intermediates.
    pub buffers: PrimaryMap<Buffer, BufferData>,
    /// Parameters in call order; outputs last.
    pub params: Vec<Param>,
    /// Number of outputs, which are the last parameters and only written.
    pub num_outputs: usize,
    /// Intermediates allocated for the whole body (scheduled form).
    pub allocs: Vec<Buffer>,
    /// Checks before the body, in order.
    pub checks: Vec<IndexCheck>,
    /// Body.
    pub body: Stmt,
    /// Free attributes, printed in order.
    pub attrs: BTreeMap<String, String>,
}

/// A check that the elements of an index tensor are in range; the first that is not ends the run
/// with an error.
///
/// Decision: docs/decisions/0047-index-checks.md
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IndexCheck {
    /// A parameter, int32 or int64, which is read only.
    pub buffer: Buffer,
    /// Extents of the axes that elements are indices of, in turn: `-n..n` is in range for `n`.
    pub bounds: Vec<Expr>,
    /// The node of the model that has the indices, for the message.
    pub node: String,
}

impl IndexCheck {
    /// The message for an index, but for the number and the bound.
    pub fn message(&self) -> String {
        format!("node `{}`: index ", self.node)
    }
}

/// Execution of a loop's iterations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ForKind {
    /// In order.
    Serial,
    /// Iterations are independent and divided statically among threads.
    Parallel,
    /// All iterations at once, as lanes of a vector. Constant extent.
    Vectorized,
    /// Replicated. Constant extent.
    Unrolled,
    /// Iterations are blocks or threads of a GPU.
    ThreadBinding(ThreadAxis),
}

/// A loop: `var` runs over `min .. min + extent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct For {
    /// Loop variable, int64.
    pub var: Var,
    /// First value.
    pub min: Expr,
    /// Number of iterations; none when it is not positive.
    pub extent: Expr,
    /// Serial, parallel, vectorized, ...
    pub kind: ForKind,
    /// Free annotations.
    pub annotations: BTreeMap<String, String>,
    /// Body.
    pub body: Stmt,
}

impl For {
    /// The loop around another body, without a copy of its own.
    pub fn with_body(&self, body: Stmt) -> For {
        For {
            var: self.var,
            min: self.min.clone(),
            extent: self.extent.clone(),
            kind: self.kind.clone(),
            annotations: self.annotations.clone(),
            body,
        }
    }
}

/// Kind of a block iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IterKind {
    /// Iterations are independent.
    Spatial,
    /// A reduction axis: iterations update the same element, in order.
    Reduce,
    /// Anything else.
    Opaque,
}

/// A block iterator and the value the surrounding loops bind it to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockIter {
    /// The iterator.
    pub var: Var,
    /// Its domain starts at 0 and has this extent.
    pub extent: Expr,
    /// Kind.
    pub kind: IterKind,
    /// Binding, over loop variables.
    pub value: Expr,
}

/// A box of a buffer: per dimension (min, extent).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// The buffer.
    pub buffer: Buffer,
    /// Per dimension first index and extent.
    pub ranges: Vec<(Expr, Expr)>,
}

/// A unit of computation that schedule primitives move as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Name, unique within the function.
    pub name: String,
    /// Iterators and bindings.
    pub iters: Vec<BlockIter>,
    /// The instance runs only where this holds (over loop variables).
    pub predicate: Expr,
    /// Regions read, over the iterators.
    pub reads: Vec<Region>,
    /// Regions written, over the iterators.
    pub writes: Vec<Region>,
    /// Runs before the first reduction step of each output element.
    pub init: Option<Stmt>,
    /// Buffers allocated for one instance.
    pub allocs: Vec<Buffer>,
    /// Free annotations.
    pub annotations: BTreeMap<String, String>,
    /// Body, over the iterators.
    pub body: Stmt,
}

impl Block {
    /// The iterators whose instances are independent.
    pub fn spatial_iters(&self) -> impl Iterator<Item = &BlockIter> {
        self.iters.iter().filter(|i| i.kind == IterKind::Spatial)
    }

    /// The iterators that are not spatial: those of the reduction, and opaque ones.
    pub fn reduction_iters(&self) -> impl Iterator<Item = &BlockIter> {
        self.iters.iter().filter(|i| i.kind != IterKind::Spatial)
    }

    /// The block with another init and body, without a copy of its own.
    pub fn with_body(&self, init: Option<Stmt>, body: Stmt) -> Block {
        Block {
            name: self.name.clone(),
            iters: self.iters.clone(),
            predicate: self.predicate.clone(),
            reads: self.reads.clone(),
            writes: self.writes.clone(),
            init,
            allocs: self.allocs.clone(),
            annotations: self.annotations.clone(),
            body,
        }
    }
}

/// Statements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Stmt {
    /// Loop.
    For(Box<For>),
    /// Block with its bindings (scheduled form only).
    Block(Box<Block>),
    /// `buffer[indices] = value`
    Store {
        /// The buffer.
        buffer: Buffer,
        /// One index per dimension, or one row-major position (a flat access).
        indices: Vec<Expr>,
        /// Value, of the buffer's type.
        value: Expr,
    },
    /// Conditional.
    If {
        /// Bool.
        cond: Expr,
        /// When true.
        then: Box<Stmt>,
        /// When false.
        otherwise: Option<Box<Stmt>>,
    },
    /// Binds a scalar for the body.
    Let {
        /// The variable.
        var: Var,
        /// Its value.
        value: Expr,
        /// Scope.
        body: Box<Stmt>,
    },
    /// Allocates a buffer for the body (lowered form only).
    Allocate {
        /// The buffer.
        buffer: Buffer,
        /// Scope.
        body: Box<Stmt>,
    },
    /// `while cond { body }`, for kernels with data-dependent iteration.
    While {
        /// Bool.
        cond: Expr,
        /// Body.
        body: Box<Stmt>,
    },
    /// An operation on matrix registers.
    Tile(TileOp),
    /// A call of a packed function.
    CallPacked(PackedCall),
    /// Threads wait here until all of them have come (lowered form only; passes write it).
    Barrier(BarrierScope),
    /// In order.
    Seq(Vec<Stmt>),
}

impl Stmt {
    /// A statement that does nothing.
    pub fn nop() -> Stmt {
        Stmt::Seq(vec![])
    }

    /// `buffer[indices] = value`
    pub fn store(buffer: Buffer, indices: Vec<Expr>, value: Expr) -> Stmt {
        Stmt::Store { buffer, indices, value }
    }

    /// A serial loop from 0.
    pub fn serial(var: Var, extent: Expr, body: Stmt) -> Stmt {
        Stmt::loop_of(ForKind::Serial, var, extent, body)
    }

    /// A loop from 0 of the given kind.
    pub fn loop_of(kind: ForKind, var: Var, extent: Expr, body: Stmt) -> Stmt {
        let (min, annotations) = (Expr::i64(0), BTreeMap::new());
        Stmt::For(Box::new(For { var, min, extent, kind, annotations, body }))
    }
}

impl PrimFunc {
    /// A copy of all but the body, which is empty: passes make a new one.
    pub(crate) fn without_body(&self) -> PrimFunc {
        let PrimFunc { name, vars, buffers, params, num_outputs, allocs, checks, body: _, attrs } =
            self;
        PrimFunc {
            name: name.clone(),
            vars: vars.clone(),
            buffers: buffers.clone(),
            params: params.clone(),
            num_outputs: *num_outputs,
            allocs: allocs.clone(),
            checks: checks.clone(),
            body: Stmt::nop(),
            attrs: attrs.clone(),
        }
    }

    /// An empty function.
    pub fn new(name: impl Into<String>) -> PrimFunc {
        PrimFunc {
            name: name.into(),
            vars: PrimaryMap::new(),
            buffers: PrimaryMap::new(),
            params: vec![],
            num_outputs: 0,
            allocs: vec![],
            checks: vec![],
            body: Stmt::nop(),
            attrs: BTreeMap::new(),
        }
    }

    /// Adds an int64 variable.
    pub fn new_var(&mut self, name: impl Into<Arc<str>>) -> Var {
        self.vars.push(VarData { name: name.into(), dtype: DType::I64 })
    }

    /// Adds a buffer; the caller makes it a parameter or an allocation.
    pub fn new_buffer(
        &mut self,
        name: impl Into<String>,
        dtype: DType,
        shape: Vec<Expr>,
        scope: Scope,
    ) -> Buffer {
        self.buffers.push(BufferData { name: name.into(), dtype, shape, scope })
    }

    /// The row-major position of an access. A single index is one already, into a buffer of any rank.
    pub fn row_major(&self, buffer: Buffer, indices: &[Expr]) -> Expr {
        match indices {
            [flat] => flat.clone(),
            _ => {
                let terms = self.buffers[buffer].shape.iter().zip(indices);
                terms.fold(Expr::i64(0), |at, (n, i)| at * n.clone() + i.clone())
            }
        }
    }

    /// `buffer[indices]`
    pub fn load(&self, buffer: Buffer, indices: Vec<Expr>) -> Expr {
        Expr::load(buffer, indices, self.buffers[buffer].dtype)
    }

    /// Whether stores through `buffer` cannot change what is read through another: an output of a function whose
    /// attributes say that its outputs overlap no other parameter.
    pub fn is_unaliased(&self, buffer: Buffer) -> bool {
        let is_true =
            |name: &&str| self.attrs.get(*name).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        let inputs = self.buffer_params().count().saturating_sub(self.num_outputs);
        NOALIAS.iter().any(is_true) && self.buffer_params().skip(inputs).any(|b| b == buffer)
    }

    /// The tensor parameters in call order.
    pub fn buffer_params(&self) -> impl Iterator<Item = Buffer> + '_ {
        self.params.iter().filter_map(|p| match p {
            Param::Buffer(b) => Some(*b),
            Param::Scalar(_) => None,
        })
    }
}
