//! A sum that starts from what is added to it.

use super::compute_inline::loads;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, is_block};
use crate::{BinOp, Block, BlockIter, Buffer, Expr, ExprKind, Intrin, IterKind, Stmt, Var};

impl Schedule {
    /// `for i { for k { init { X[i] = 0 }; X[i] += f(i, k) } }; for i { Y[i] = X[i] + b(i) }` becomes
    /// `for i { for k { init { Y[i] = b(i) }; Y[i] += f(i, k) } }`: block `epilogue` goes away.
    ///
    /// Needs a sum from zero over an intermediate that the epilogue alone reads, at its own iterators,
    /// and a `b` that is complete before the sum begins. Sums of integers keep their bits; sums of
    /// floats are added in another order. A minimum or a maximum around the sum is refused: inside of the
    /// sum it would be another function.
    pub fn fuse_reduction_epilogue(
        &mut self,
        reduction: &str,
        epilogue: &str,
    ) -> Result<(), ScheduleError> {
        const NAME: &str = "fuse_reduction_epilogue";
        for name in [reduction, epilogue] {
            self.require_movable(NAME, name)?;
            self.require_rebuildable(NAME, &self.get_block(name)?.clone())?;
        }
        let (sum, last) = (self.get_block(reduction)?.clone(), self.get_block(epilogue)?.clone());
        let refuse = |why: &str| self.refuse(NAME, epilogue, why);
        let (partial, at) = self.sum_from_zero(&sum).map_err(|why| refuse(&why))?;
        let (out, out_at, value) = self.single_store(NAME, &last)?;
        let (from, bias) = bias(value, partial).map_err(refuse)?;
        let of_last = iterators(&sum, &at, &last, &from).map_err(refuse)?;
        if self.func.buffers[partial].dtype != self.func.buffers[out].dtype {
            return Err(refuse("its result has another type than the sum"));
        }
        if !self.show_injective(&last) {
            return Err(refuse("two instances are not shown to store to different elements"));
        }
        if self.readers(partial).iter().any(|r| r != reduction && r != epilogue) {
            return Err(refuse("another block reads the sum"));
        }
        let path = self.path_to_block(NAME, reduction)?;
        self.require_visible(&path, &last).map_err(|why| refuse(&why))?;
        self.require_stable_reads(epilogue, reduction, value, partial)
            .and_then(|()| self.require_untouched_before(epilogue, reduction, out))
            .map_err(|refused| refuse(&refused.why))?;
        let rename = |e: &Expr| {
            e.substitute(&|v| Some(Expr::var(at[of_last.iter().position(|x| *x == v)?])))
        };
        let place: Vec<Expr> = out_at.iter().map(rename).collect();
        let Stmt::Store { value: step, .. } = &sum.body else { unreachable!("a sum is one store") };
        let step =
            step.replace_loads(partial, &mut |_, dtype| Expr::load(out, place.clone(), dtype));
        let mut fused = Block {
            init: Some(Stmt::store(out, place.clone(), rename(&bias))),
            body: Stmt::store(out, place, step),
            ..sum
        };
        self.refresh_regions(&mut fused);
        let body = tree::remove(&self.func.body, &|s| is_block(s, epilogue));
        let body = tree::replace_block(&body.unwrap_or_else(Stmt::nop), reduction, |_| {
            Stmt::Block(Box::new(fused.clone()))
        });
        self.commit(NAME, epilogue, body, &[])?;
        self.func.allocs.retain(|b| *b != partial);
        self.note(format!("{NAME} {reduction} {epilogue}"));
        Ok(())
    }

    /// The intermediate that a block sums into, from zero, and its iterators there.
    fn sum_from_zero(&self, block: &Block) -> Result<(Buffer, Vec<Var>), String> {
        let (buffer, indices, value) =
            self.single_store("fuse_reduction_epilogue", block).map_err(|refused| refused.why)?;
        let name = &block.name;
        let zero = |init: &Stmt| {
            matches!(init, Stmt::Store { value, .. }
                if *value == Expr::constant(0.0, value.dtype()))
        };
        let own = |e: &Expr| {
            matches!(e.kind(), ExprKind::Load { buffer: b, indices: at, .. }
                if *b == buffer && at == indices)
        };
        let once = {
            let mut count = 0;
            value.visit(&mut |e| {
                count += usize::from(
                    matches!(e.kind(), ExprKind::Load { buffer: b, .. } if *b == buffer),
                );
            });
            count == 1
        };
        let adds = match value.kind() {
            ExprKind::Call { op: Intrin::Fma, args, .. } => own(&args[2]),
            ExprKind::Binary { op: BinOp::Add, a, b } => own(a) || own(b),
            _ => false,
        };
        if !block.init.as_ref().is_some_and(zero) || !adds || !once {
            return Err(format!("`{name}` is not a sum from zero"));
        }
        if !self.func.allocs.contains(&buffer) {
            return Err(format!(
                "the result of `{name}` is not an intermediate of the whole function"
            ));
        }
        self.sole_writer(buffer)?;
        let at: Option<Vec<Var>> = indices.iter().map(Expr::as_var).collect();
        let at = at.filter(|at| {
            let mut spatial = block.spatial_iters();
            at.len() == block.spatial_iters().count() && spatial.all(|i| at.contains(&i.var))
        });
        at.map(|at| (buffer, at))
            .ok_or_else(|| format!("`{name}` does not write at its spatial iterators, each once"))
    }
}

/// The iterators of `last` at which it reads the sum, whose own ones are `at`: all of them, over the same elements.
fn iterators(
    sum: &Block,
    at: &[Var],
    last: &Block,
    from: &[Expr],
) -> Result<Vec<Var>, &'static str> {
    let own = |i: &BlockIter, vars: &[Var]| {
        i.kind == IterKind::Spatial && vars.iter().filter(|v| **v == i.var).count() == 1
    };
    let vars: Option<Vec<Var>> = from.iter().map(Expr::as_var).collect();
    let vars = vars.filter(|vars| {
        let counts = [last.iters.len(), vars.len()];
        last.init.is_none() && counts == [at.len(); 2] && last.iters.iter().all(|i| own(i, vars))
    });
    let vars = vars.ok_or("it does not read the sum at its own iterators, each once")?;
    let extent =
        |block: &Block, v: Var| block.iters.iter().find(|i| i.var == v).map(|i| i.extent.clone());
    match at.iter().zip(&vars).all(|(a, b)| extent(sum, *a) == extent(last, *b)) {
        true => Ok(vars),
        false => Err("it runs over other elements than the sum"),
    }
}

/// The indices at which `value` reads the sum that it adds to, and what it adds.
fn bias(value: &Expr, sum: Buffer) -> Result<(Vec<Expr>, Expr), &'static str> {
    let read = |e: &Expr| match e.kind() {
        ExprKind::Load { buffer, indices, .. } if *buffer == sum => Some(indices.clone()),
        _ => None,
    };
    let parts = match value.kind() {
        ExprKind::Binary { op: BinOp::Add, a, b } => match (read(a), read(b)) {
            (Some(at), None) => Some((at, b.clone())),
            (None, Some(at)) => Some((at, a.clone())),
            _ => None,
        },
        ExprKind::Binary { op: BinOp::Min | BinOp::Max, .. } => {
            return Err("a minimum or a maximum of a sum is not the sum of those");
        }
        _ => None,
    };
    match parts {
        Some((at, bias)) if !loads(&bias).contains(&sum) => Ok((at, bias)),
        _ => Err("it is not the sum plus something else"),
    }
}
