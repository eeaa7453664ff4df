//! The kind of a kernel by which graph operators fuse, found from the accesses of its blocks (TVM:
//! `AnnotateTIROpPattern`).
//!
//! A block stores one element for each point of its iterators. What matters is which elements it loads for that:
//! those at the same iterators, at some of them, at functions of them, or at iterators that the store lacks, which
//! are those of a reduction. The kind of a kernel is that of its least simple block.
//!
//! Indices are the same where they are the same iterator. So an access that is written as an expression counts as
//! computed, and a kernel without blocks, whose iterations have no names, is opaque.

use std::fmt;

use crate::{BinOp, Block, Buffer, Expr, ExprKind, Intrin, IterKind, Param, PrimFunc, Stmt, Var};

/// Kinds, from the simplest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpPatternKind {
    /// Each element from those at its own indices.
    ElemWise,
    /// Each element from those at some of its indices, in their order.
    Broadcast,
    /// Each element from those at functions of its indices.
    Injective,
    /// Each element from all elements along some axes.
    CommReduce,
    /// Loads elements many times: contractions, windows, and what follows a reduction in the same kernel.
    OutEWiseFusable,
    /// None of these.
    Opaque,
}

impl OpPatternKind {
    const NUMBERS: [(OpPatternKind, i64); 6] = [
        (OpPatternKind::ElemWise, 0),
        (OpPatternKind::Broadcast, 1),
        (OpPatternKind::Injective, 2),
        (OpPatternKind::CommReduce, 3),
        (OpPatternKind::OutEWiseFusable, 4),
        (OpPatternKind::Opaque, 8),
    ];

    /// The number that TVM's attribute `op_pattern` has.
    pub fn number(self) -> i64 {
        let found = OpPatternKind::NUMBERS.iter().find(|(kind, _)| *kind == self);
        found.map_or(8, |(_, number)| *number)
    }

    /// The kind of such a number; `None` for another one.
    pub fn of_number(number: i64) -> Option<OpPatternKind> {
        let found = OpPatternKind::NUMBERS.iter().find(|(_, known)| *known == number);
        found.map(|(kind, _)| *kind)
    }
}

impl fmt::Display for OpPatternKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The kind of a kernel.
pub fn op_pattern(func: &PrimFunc) -> OpPatternKind {
    let mut blocks = vec![];
    func.body.visit(&mut |s| {
        if let Stmt::Block(block) = s {
            blocks.push(&**block);
        }
    });
    let mut kind = OpPatternKind::ElemWise;
    if blocks.is_empty() {
        kind = OpPatternKind::Opaque;
    }
    for block in blocks {
        let own = block_pattern(func, block);
        let writes_parameter = || block.writes.iter().any(|w| is_parameter(func, w.buffer));
        // Softmax: a reduction, whose result the elements are computed with.
        kind = match (kind, own) {
            (OpPatternKind::CommReduce, own)
                if own <= OpPatternKind::Injective && writes_parameter() =>
            {
                OpPatternKind::OutEWiseFusable
            }
            _ => kind.max(own),
        };
    }
    kind
}

fn is_parameter(func: &PrimFunc, buffer: Buffer) -> bool {
    func.params.contains(&Param::Buffer(buffer))
}

/// An access: its buffer and indices.
type Access = (Buffer, Vec<Expr>);

/// The store of a block and its loads; `None` if it stores at different indices, or does something else.
fn accesses(block: &Block) -> Option<(Access, Vec<Access>)> {
    let mut store: Option<Access> = None;
    let mut loads = vec![];
    let mut fits = true;
    block.body.visit(&mut |s| {
        match s {
            Stmt::Store { buffer, indices, .. } => {
                fits &= store.as_ref().is_none_or(|(_, known)| same_indices(known, indices));
                store = Some((*buffer, indices.clone()));
            }
            Stmt::For(_) | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Seq(_) => {}
            // A block inside has iterators of its own.
            _ => fits = false,
        }
        s.for_each_expr(&mut |e| {
            e.visit(&mut |e| {
                if let ExprKind::Load { buffer, indices, .. } = e.kind() {
                    loads.push((*buffer, indices.clone()));
                }
            });
        });
    });
    store.filter(|_| fits).map(|store| (store, loads))
}

fn same_indices(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_index(a, b))
}

fn same_index(a: &Expr, b: &Expr) -> bool {
    a.as_var().is_some() && a.as_var() == b.as_var()
}

/// The kind of a block alone.
fn block_pattern(func: &PrimFunc, block: &Block) -> OpPatternKind {
    let Some(((_, stored), loads)) = accesses(block) else { return OpPatternKind::Opaque };
    let kinds: Vec<_> = loads.iter().map(|load| load_pattern(func, &stored, load)).collect();
    let worst = kinds.iter().copied().max().unwrap_or(OpPatternKind::ElemWise);
    if worst < OpPatternKind::Opaque {
        // What one operand has element by element, others may have by broadcasting.
        let broadcast = worst == OpPatternKind::Broadcast;
        return match broadcast && kinds.contains(&OpPatternKind::ElemWise) {
            true => OpPatternKind::ElemWise,
            false => worst,
        };
    }
    let reduced: Vec<Var> =
        block.iters.iter().filter(|i| i.kind == IterKind::Reduce).map(|i| i.var).collect();
    let pure = |(_, indices): &Access| indices.iter().all(|index| is_pure(index, &reduced));
    if reduced.is_empty() {
        return OpPatternKind::Opaque;
    }
    match is_multiply_add(&block.body) || !loads.iter().all(pure) {
        true => OpPatternKind::OutEWiseFusable,
        false => OpPatternKind::CommReduce,
    }
}

/// The kind that one load has; opaque for one at what the indices of the store do not determine.
fn load_pattern(func: &PrimFunc, stored: &[Expr], (buffer, indices): &Access) -> OpPatternKind {
    if same_indices(stored, indices) {
        return OpPatternKind::ElemWise;
    }
    let shape = &func.buffers[*buffer].shape;
    let one = |axis: usize| shape.get(axis).and_then(Expr::as_int) == Some(1);
    // An index of the store may serve two of the load in turn, as on a diagonal.
    let mut left = stored;
    let in_order = indices.iter().enumerate().all(|(axis, index)| {
        if one(axis) && index.as_int() == Some(0) {
            return true;
        }
        let at = left.iter().position(|stored| same_index(stored, index));
        left = &left[at.unwrap_or(left.len())..];
        at.is_some()
    });
    if in_order && indices.len() == shape.len() {
        return OpPatternKind::Broadcast;
    }
    let known: Option<Vec<Var>> = stored.iter().map(Expr::as_var).collect();
    let determined = known.is_some_and(|known| {
        indices.iter().all(|index| variables(index).iter().all(|var| known.contains(var)))
    });
    if determined { OpPatternKind::Injective } else { OpPatternKind::Opaque }
}

fn variables(e: &Expr) -> Vec<Var> {
    let mut found = vec![];
    e.visit(&mut |e| found.extend(e.as_var()));
    found
}

/// Whether an index is a reduction's iterator itself, or has none.
fn is_pure(index: &Expr, reduced: &[Var]) -> bool {
    index.as_var().is_some() || !variables(index).iter().any(|var| reduced.contains(var))
}

/// Whether a block adds products of two elements to its own, where each factor serves several results.
fn is_multiply_add(body: &Stmt) -> bool {
    let Stmt::Store { buffer, indices, value } = body else { return false };
    let value = without_casts(value);
    let (sum, factors) = match value.kind() {
        ExprKind::Binary { op: BinOp::Add, a, b } => match without_casts(b).kind() {
            ExprKind::Binary { op: BinOp::Mul, a: x, b: y } => (a, [x, y]),
            _ => return false,
        },
        ExprKind::Call { op: Intrin::Fma, args, .. } => (&args[2], [&args[0], &args[1]]),
        _ => return false,
    };
    let own = match without_casts(sum).kind() {
        ExprKind::Load { buffer: of, indices: at, .. } => of == buffer && same_indices(at, indices),
        _ => false,
    };
    let serves_several = |factor: &Expr| match without_casts(factor).kind() {
        ExprKind::Load { indices: at, .. } => {
            let used: Vec<Var> = at.iter().flat_map(variables).collect();
            let stored: Option<Vec<Var>> = indices.iter().map(Expr::as_var).collect();
            stored.is_some_and(|stored| stored.iter().any(|var| !used.contains(var)))
        }
        _ => false,
    };
    own && factors.into_iter().all(serves_several)
}

fn without_casts(e: &Expr) -> &Expr {
    match e.kind() {
        ExprKind::Cast { value, .. } => without_casts(value),
        _ => e,
    }
}
