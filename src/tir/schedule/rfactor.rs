//! Factoring a loop out of a reduction, which changes the reduction's order.

use std::collections::BTreeMap;

use super::compute_inline::loads;
use super::perfect_nest::PerfectNest;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, nested, plain_loop};
use crate::{
    BinOp, Block, BlockIter, Buffer, Expr, ExprKind, For, Intrin, IterKind, Scope, Stmt, Var,
};

/// The buffer of partial results, one for each iteration of the spatial loops and of the factored
/// one.
struct Partial<'n> {
    buffer: Buffer,
    spatial: &'n [For],
    factor: Var,
}

/// The operation that combines partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combiner {
    Binary(BinOp),
    And,
    Or,
}

impl Combiner {
    /// `self(a, b)`
    pub fn of(self, a: Expr, b: Expr) -> Expr {
        match self {
            Combiner::Binary(op) => Expr::binary(op, a, b),
            Combiner::And => a.and(b),
            Combiner::Or => a.or(b),
        }
    }
}

impl Schedule {
    /// `for i { for k { for l { X[i] = X[i] + f(i, k, l) } } }` becomes
    /// `for i { for k { for l { X_rf[l] = X_rf[l] + f(i, k, l) } }; for l { X[i] = X[i] + X_rf[l] } }`:
    /// loop `at` of the reduction becomes a dimension of partial results, the last one of a new
    /// buffer, which the block `name` then combines. The buffer is allocated around both, inside of
    /// the loops that lie outside of the reduction; other loops inside of it become dimensions too.
    /// The association of the reduction changes, and the new one is what the function says from now
    /// on; only for `min` and `max` do results keep their bits.
    ///
    /// Needs a sum, product, minimum, maximum, conjunction or disjunction that starts from its
    /// identity, in loops around nothing else. Returns the name of the block of partial results,
    /// `<name>_rf`.
    pub fn rfactor(&mut self, name: &str, at: Var) -> Result<String, ScheduleError> {
        let reduces = |b: &Block, v| b.reduction_iters().any(|i| tree::mentions(&i.value, v));
        let block = self.get_block(name)?;
        if !reduces(block, at) {
            return Err(self.refuse("rfactor", name, "the loop does not reduce"));
        }
        let outermost = self.get_loops(name)?.into_iter().find(|v| reduces(block, *v));
        let top = outermost.unwrap_or(at);
        let nest = self.perfect_nest("rfactor", name, top)?;
        let refuse = |s: &Schedule, why: &str| s.refuse("rfactor", name, why);
        let Some(factor) = nest.loops.iter().find(|l| l.var == at).cloned() else {
            return Err(refuse(self, "the loop is not around it"));
        };
        let op = combiner(&nest.block).map_err(|why| refuse(self, &why))?;
        let Stmt::Store { buffer, .. } = &nest.block.body else { unreachable!("it combines") };
        let spatial_loops = nest.spatial_loops();
        let dims = [&spatial_loops[..], std::slice::from_ref(&factor)].concat();
        let fixed = dims.iter().all(|l| l.extent.as_int().is_some());
        let scope = if fixed { self.func.buffers[*buffer].scope } else { Scope::Global };
        let partial = self.buffer_over(*buffer, "rf", &dims, scope);
        let rf_name = self.unique_block(&format!("{name}_rf"));
        let parts = Partial { buffer: partial, spatial: &spatial_loops, factor: at };
        let rf = self.partial_block(&nest, &parts, &rf_name);
        let rf = nested(&nest.loops, Stmt::Block(Box::new(rf)));
        let factor = plain_loop(at, factor.extent);
        let over = [&spatial_loops[..], &[factor]].concat();
        let combined = self.combining_block(&nest, *buffer, partial, &over, op);
        let shown = self.is_injective(&nest.block) || self.show_injective(&nest.block);
        let combined = nested(&over, Stmt::Block(Box::new(combined)));
        // The old block still stands in the function while names are made; keep its own.
        let combined = rename(self.fresh_copy(&combined, ""), name);
        let body = Box::new(Stmt::Seq(vec![rf, combined]));
        let parts = Stmt::Allocate { buffer: partial, body };
        self.func.body = tree::replace_loop(&self.func.body, top, |_| parts.clone());
        if shown {
            let block = self.get_block(name)?.clone();
            self.note_injective(&block);
        }
        self.note(format!("rfactor {name} {} -> {rf_name}", self.name(at)));
        Ok(rf_name)
    }

    fn partial_block(&mut self, nest: &PerfectNest, partial: &Partial<'_>, name: &str) -> Block {
        let Partial { buffer: partial, spatial, factor } = *partial;
        let block = &nest.block;
        let Stmt::Store { buffer, value, .. } = &block.body else { unreachable!("it combines") };
        let spatial_iters = self.iterators(spatial, IterKind::Spatial);
        let mut steps = self.iterators(&nest.reduction_loops(), IterKind::Reduce);
        let part = steps.iter().position(|i| i.value.as_var() == Some(factor)).expect("it reduces");
        let mut part = steps.remove(part);
        part.kind = IterKind::Spatial;
        // Old reduction iterators are functions of the loops, and the loops are iterators now.
        let all: Vec<BlockIter> = [&[part.clone()][..], &steps].concat();
        let of_loop =
            |v: Var| all.iter().find(|i| i.value.as_var() == Some(v)).map(|i| i.var.into());
        let of_iter = |v: Var| {
            let old = block.reduction_iters().find(|i| i.var == v)?;
            Some(old.value.substitute(&of_loop))
        };
        let index: Vec<Expr> = spatial_iters.iter().chain([&part]).map(|i| i.var.into()).collect();
        let old = self.func.load(partial, index.clone());
        let step = value.substitute(&of_iter).replace_loads(*buffer, &mut |_, _| old.clone());
        let guards = nest.reduction_guards.iter().map(|c| c.substitute(&of_loop)).reduce(Expr::and);
        let step = match guards {
            Some(cond) => Expr::if_then_else(cond, step, old),
            None => step,
        };
        let init = block.init.as_ref().map(|init| match init {
            Stmt::Store { value, .. } => Stmt::store(partial, index.clone(), value.clone()),
            _ => unreachable!("checked to be one store"),
        });
        let spatial = block.spatial_iters().cloned();
        let mut rf = Block {
            name: name.to_string(),
            iters: spatial.chain(spatial_iters).chain([part]).chain(steps).collect(),
            predicate: nest.spatial_guards.iter().cloned().fold(Expr::bool(true), Expr::and),
            init,
            body: Stmt::store(partial, index, step),
            ..block.clone()
        };
        self.refresh_regions(&mut rf);
        rf
    }

    fn combining_block(
        &mut self,
        nest: &PerfectNest,
        result: Buffer,
        partial: Buffer,
        over: &[For],
        op: Combiner,
    ) -> Block {
        let Stmt::Store { indices, .. } = &nest.block.body else { unreachable!("it combines") };
        let mut own = self.iterators(over, IterKind::Spatial);
        own.last_mut().expect("at least the factor").kind = IterKind::Reduce;
        let at = own.iter().map(|i| i.var.into()).collect();
        let load = self.func.load(result, indices.clone());
        let value = op.of(load, self.func.load(partial, at));
        let spatial = nest.block.spatial_iters().cloned();
        let mut combining = Block {
            iters: spatial.chain(own).collect(),
            predicate: nest.spatial_guards.iter().cloned().fold(Expr::bool(true), Expr::and),
            annotations: BTreeMap::new(),
            body: Stmt::store(result, indices.clone(), value),
            ..nest.block.clone()
        };
        self.refresh_regions(&mut combining);
        combining
    }
}

fn rename(stmt: Stmt, name: &str) -> Stmt {
    match stmt {
        Stmt::Block(mut b) => {
            b.name = name.to_string();
            Stmt::Block(b)
        }
        other => other.map_children(&mut |s| rename(s.clone(), name)),
    }
}

/// The operation of a reduction step: of `op(X, e)`, or of `fma(a, b, X)`, which sums.
pub(super) fn combiner(block: &Block) -> Result<Combiner, String> {
    let (Stmt::Store { buffer, indices, value }, Some(Stmt::Store { value: init, .. })) =
        (&block.body, &block.init)
    else {
        return Err("it is not a reduction of one store".into());
    };
    let accumulator = |e: &Expr| {
        matches!(e.kind(), ExprKind::Load { buffer: b, indices: i, .. }
            if b == buffer && i == indices)
    };
    let (op, others): (Combiner, Vec<&Expr>) = match value.kind() {
        ExprKind::Binary { op, a, b } if accumulator(a) => (Combiner::Binary(*op), vec![b]),
        ExprKind::And(a, b) if accumulator(a) => (Combiner::And, vec![b]),
        ExprKind::Or(a, b) if accumulator(a) => (Combiner::Or, vec![b]),
        ExprKind::Call { op: Intrin::Fma, args, .. } if accumulator(&args[2]) => {
            (Combiner::Binary(BinOp::Add), vec![&args[0], &args[1]])
        }
        _ => return Err("its body is not `X = X op value`".into()),
    };
    if others.iter().any(|e| loads(e).contains(buffer)) {
        return Err("it reads other elements of its result".into());
    }
    let is = |x: f64| *init == Expr::constant(x, init.dtype());
    let identity = match op {
        Combiner::Binary(BinOp::Add) => is(0.0) || is(-0.0),
        Combiner::Binary(BinOp::Mul) => is(1.0),
        // Combining the start value twice changes nothing.
        Combiner::Binary(BinOp::Min | BinOp::Max) | Combiner::And | Combiner::Or => true,
        Combiner::Binary(
            BinOp::Sub | BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod,
        ) => false,
    };
    match identity {
        true => Ok(op),
        false => Err(format!("{op:?} from {init:?} cannot be done in parts")),
    }
}
