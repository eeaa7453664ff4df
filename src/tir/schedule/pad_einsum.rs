//! Padding the axes of a contraction, so that full tiles cover them.

use super::state::{Schedule, ScheduleError, shape_facts};
use super::tree::{conjuncts, holds_only_block, sequence};
use crate::arith::Analyzer;
use crate::{BinOp, Block, Buffer, Expr, ExprKind, Intrin, IterKind, PrimFunc, Scope, Stmt, Var};

/// The blocks that [`Schedule::pad_einsum`] adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaddedEinsum {
    /// The blocks that copy operands, in the order of the operands.
    pub operands: Vec<String>,
    /// The block that copies the result back.
    pub result: String,
}

/// A buffer and the iterator of each of its indices.
struct Operand {
    buffer: Buffer,
    at: Vec<Var>,
}

/// A block's axes with their padded extents.
struct PaddedAxes<'b> {
    block: &'b Block,
    /// One for each iterator.
    extents: Vec<Expr>,
    facts: &'b Analyzer,
}

impl<'b> PaddedAxes<'b> {
    fn new(block: &'b Block, multiples: &[i64], facts: &'b Analyzer) -> PaddedAxes<'b> {
        let rounded = |(n, m): (&Expr, &i64)| facts.simplify(&(n.clone().ceildiv(*m) * *m));
        let extents = block.iters.iter().map(|i| &i.extent).zip(multiples).map(rounded).collect();
        PaddedAxes { block, extents, facts }
    }

    fn grows(&self, v: Var) -> bool {
        let mut iters = self.block.iters.iter().zip(&self.extents);
        iters.any(|(i, n)| i.var == v && *n != self.facts.simplify(&i.extent))
    }

    /// The extents of the iterators `at` before and after.
    fn sizes(&self, at: &[Var]) -> Vec<(Expr, Expr)> {
        let size = |v: &Var| {
            let at = self.block.iters.iter().position(|i| i.var == *v);
            let at = at.expect("one of the iterators");
            (self.block.iters[at].extent.clone(), self.extents[at].clone())
        };
        at.iter().map(size).collect()
    }
}

impl Schedule {
    /// `Y[i] += A[i, k] * B[k]` becomes `A_pad[i, k] = A[i, k] or zero; B_pad[k] = B[k] or zero;
    /// Y_pad[i] += A_pad[i, k] * B_pad[k]; Y[i] = Y_pad[i]`, where every axis runs to the next
    /// multiple of its entry in `multiples` (one per iterator; 1 leaves an axis alone). Operands
    /// without an axis that grows are read in place. The block's own loops are replaced.
    ///
    /// The padding adds -0.0: the first operand's zeros are negative, and adding -0.0 to any
    /// number gives that number, in every rounding. So a result keeps its bits, but for NaN made
    /// where none is read back.
    ///
    /// Needs a contraction (a sum of products, or of one operand) of tensors read at plain iterators,
    /// in which every operand has all reduction axes that grow.
    pub fn pad_einsum(
        &mut self,
        name: &str,
        multiples: &[i64],
    ) -> Result<PaddedEinsum, ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("pad_einsum", name)?;
        self.require_rebuildable("pad_einsum", &block)?;
        let refuse = |s: &Schedule, why: String| s.refuse("pad_einsum", name, why);
        let (out, factors) = self.einsum(&block).map_err(|why| refuse(self, why))?;
        if multiples.len() != block.iters.len() || multiples.iter().any(|m| *m < 1) {
            let why = format!("{multiples:?} are no multiples for {} axes", block.iters.len());
            return Err(refuse(self, why));
        }
        for region in block.reads.iter().chain(&block.writes) {
            self.require_whole_function(region.buffer).map_err(|why| refuse(self, why))?;
        }
        let facts = shape_facts(&self.func);
        let padded = PaddedAxes::new(&block, multiples, &facts);
        self.require_growth(&padded, &factors).map_err(|why| refuse(self, why))?;
        let top = self.top_statement(name).expect("the block was found").clone();
        if !holds_only_block(&top, name) {
            return Err(refuse(self, "it does not have its loops alone".into()));
        }

        let (mut before, mut operands, mut swaps) = (vec![], vec![], vec![]);
        for (n, factor) in factors.iter().enumerate() {
            if swaps.iter().any(|(b, _)| *b == factor.buffer) {
                return Err(refuse(self, "a factor appears twice".into()));
            }
            if factor.at.iter().any(|v| padded.grows(*v)) {
                let sizes = padded.sizes(&factor.at);
                let zero = if n == 0 { -0.0 } else { 0.0 };
                let (copy, stmt, block) = self.padded_copy(factor.buffer, &sizes, zero);
                before.push(stmt);
                operands.push(block);
                swaps.push((factor.buffer, copy));
            }
        }
        let sizes = padded.sizes(&out.at);
        let result = self.padded_buffer(out.buffer, &sizes);
        swaps.push((out.buffer, result));
        let mut sum = block.clone();
        for (old, new) in swaps {
            sum = super::cache::with_buffer(&sum, old, new);
        }
        for (iter, extent) in sum.iters.iter_mut().zip(&padded.extents) {
            iter.extent = extent.clone();
        }
        self.refresh_regions(&mut sum);
        let ranges = padded.extents.iter().map(|n| (Expr::i64(0), n.clone())).collect();
        let sum = self.nest_over(&facts, &sum, &ranges);
        let (back, copied) = self.copy_back(out.buffer, result, &sizes);
        let parts = before.into_iter().chain([sum, copied]);
        let at = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(at, sequence(parts));
        self.note(format!("pad_einsum {name} {multiples:?} -> {}, {back}", operands.join(", ")));
        Ok(PaddedEinsum { operands, result: back })
    }

    /// Some axis must grow, and every operand must have the reduction axes that do.
    fn require_growth(&self, padded: &PaddedAxes<'_>, factors: &[Operand]) -> Result<(), String> {
        let iters = &padded.block.iters;
        if !iters.iter().any(|i| padded.grows(i.var)) {
            return Err("no axis grows".into());
        }
        for iter in iters.iter().filter(|i| i.kind == IterKind::Reduce && padded.grows(i.var)) {
            if let Some(f) = factors.iter().find(|f| !f.at.contains(&iter.var)) {
                let axis = &self.func.vars[iter.var].name;
                let factor = &self.func.buffers[f.buffer].name;
                return Err(format!("the factor `{factor}` has no axis `{axis}`"));
            }
        }
        Ok(())
    }

    /// The result and the operands of a contraction.
    fn einsum(&self, block: &Block) -> Result<(Operand, Vec<Operand>), String> {
        let (out, indices, value) =
            self.single_store("pad_einsum", block).map_err(|refused| refused.why)?;
        let plain = |buffer: Buffer, at: &[Expr]| {
            let at: Option<Vec<Var>> = at.iter().map(Expr::as_var).collect();
            let rank = self.func.buffers[buffer].shape.len();
            let at = at.filter(|at| {
                let own = |v: &Var| block.iters.iter().any(|i| i.var == *v);
                at.len() == rank && at.iter().all(own)
            });
            let name = &self.func.buffers[buffer].name;
            at.map(|at| Operand { buffer, at })
                .ok_or_else(|| format!("`{name}` is not read at plain iterators"))
        };
        let zero = |init: &Stmt| {
            matches!(init, Stmt::Store { value, .. }
                if *value == Expr::constant(0.0, value.dtype()))
        };
        if !block.init.as_ref().is_some_and(zero) || !conjuncts(&block.predicate).is_empty() {
            return Err("it is not a sum from zero over all its axes".into());
        }
        let own = |e: &Expr| {
            matches!(e.kind(), ExprKind::Load { buffer, indices: at, .. }
                if *buffer == out && at == indices)
        };
        let mut factors = vec![];
        match value.kind() {
            ExprKind::Call { op: Intrin::Fma, args, .. } if own(&args[2]) => {
                factors.extend(args[..2].iter().cloned());
            }
            ExprKind::Binary { op: BinOp::Add, a, b } if own(a) => factors_of(b, &mut factors),
            _ => return Err("its body is not `X = X + product`".into()),
        }
        let factors = factors.iter().map(|f| match f.kind() {
            ExprKind::Load { buffer, indices, .. } if *buffer != out => plain(*buffer, indices),
            _ => Err("a factor is not an element of a tensor".into()),
        });
        self.sole_writer(out)?;
        let out = plain(out, indices)?;
        let mut spatial = block.iters.iter().filter(|i| i.kind == IterKind::Spatial);
        if out.at.len() != spatial.clone().count() || !spatial.all(|i| out.at.contains(&i.var)) {
            return Err("it does not write one element per tuple of spatial iterators".into());
        }
        Ok((out, factors.collect::<Result<_, _>>()?))
    }

    fn padded_buffer(&mut self, of: Buffer, sizes: &[(Expr, Expr)]) -> Buffer {
        let mut data = self.func.buffers[of].clone();
        data.name = format!("{}_pad", data.name);
        data.shape = sizes.iter().map(|(_, n)| n.clone()).collect();
        data.scope = Scope::Global;
        let buffer = self.func.buffers.push(data);
        self.func.allocs.push(buffer);
        buffer
    }

    /// `copy[v] = from[v]`, and `zero` past the first size of a pair up to the second.
    fn padded_copy(
        &mut self,
        from: Buffer,
        sizes: &[(Expr, Expr)],
        zero: f64,
    ) -> (Buffer, Stmt, String) {
        let copy = self.padded_buffer(from, sizes);
        let extents: Vec<Expr> = sizes.iter().map(|(_, n)| n.clone()).collect();
        let name = self.unique_block(&self.func.buffers[copy].name.clone());
        let stmt = self.block_over(&name, &extents, |func: &PrimFunc, at| {
            let tests = at.iter().zip(sizes).filter(|(_, (old, new))| old != new);
            let inside = tests.map(|(v, (old, _))| v.clone().lt(old.clone()));
            let value = func.load(from, at.to_vec());
            let value = match inside.reduce(Expr::and) {
                Some(inside) => {
                    let zero = Expr::constant(zero, value.dtype());
                    Expr::if_then_else(inside, value, zero)
                }
                None => value,
            };
            Stmt::store(copy, at.to_vec(), value)
        });
        (copy, stmt, name)
    }

    fn copy_back(&mut self, to: Buffer, from: Buffer, sizes: &[(Expr, Expr)]) -> (String, Stmt) {
        let extents: Vec<Expr> = sizes.iter().map(|(n, _)| n.clone()).collect();
        let name = self.unique_block(&self.func.buffers[from].name.clone());
        let stmt = self.block_over(&name, &extents, |func: &PrimFunc, at| {
            Stmt::store(to, at.to_vec(), func.load(from, at.to_vec()))
        });
        (name, stmt)
    }
}

/// The operands of a chain of multiplications.
fn factors_of(e: &Expr, into: &mut Vec<Expr>) {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } => {
            factors_of(a, into);
            factors_of(b, into);
        }
        _ => into.push(e.clone()),
    }
}
