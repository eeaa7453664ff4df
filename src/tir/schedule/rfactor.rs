//! Reducing in parts: the one primitive that changes the order of a reduction.

use std::collections::BTreeMap;

use super::compute_at::conjuncts;
use super::nest::sequence;
use super::{Refused, Schedule, tree};
use crate::{
    BinOp, Block, BlockIter, Buffer, Expr, ExprKind, For, ForKind, Intrin, IterKind, Stmt, Var,
};

impl Schedule {
    /// `for i { for k { for l { X[i] = X[i] + f(i, k, l) } } }` becomes
    /// `for i { for k { for l { X_rf[i, l] = X_rf[i, l] + f(i, k, l) } } };`
    /// `for i { for l { X[i] = X[i] + X_rf[i, l] } }`: loop `at` of the reduction becomes a
    /// dimension of partial results, at position `axis` of the new buffer, which the block `name`
    /// then combines. The association of the reduction changes, and the new one is what the
    /// function says from now on; only for `min` and `max` do results keep their bits.
    ///
    /// Needs a sum, product, minimum or maximum that starts from its identity, in loops of its
    /// own, which alone writes its result. Returns the name of the block of partial results, `<name>_rf`.
    pub fn rfactor(&mut self, name: &str, at: Var, axis: usize) -> Result<String, Refused> {
        let block = self.get_block(name)?.clone();
        self.require_movable("rfactor", name)?;
        let refuse = |why: &str| self.refuse("rfactor", name, why);
        let (buffer, indices, value) = self.single_store("rfactor", &block)?;
        self.sole_writer(buffer).map_err(|why| refuse(&why))?;
        let op = combiner(&block, buffer, indices, value).map_err(|why| refuse(&why))?;
        let top = self.top_statement(name).expect("the block was found").clone();
        let loops = chain(&top, name).ok_or_else(|| refuse("it does not have its loops alone"))?;
        let of = |kind| block.iters.iter().filter(move |i| i.kind == kind);
        let reduces = |v: Var| of(IterKind::Reduce).any(|i| tree::mentions(&i.value, v));
        let places = |v: Var| of(IterKind::Spatial).any(|i| tree::mentions(&i.value, v));
        let Some(factor) = loops.iter().find(|l| l.var == at) else {
            return Err(refuse("the loop is not around it"));
        };
        if !reduces(at) || of(IterKind::Opaque).count() > 0 {
            return Err(refuse("the loop does not reduce"));
        }
        if let Some(l) = loops.iter().find(|l| reduces(l.var) && places(l.var)) {
            let both = &self.func.vars[l.var].name;
            return Err(refuse(&format!("the loop `{both}` both places and reduces")));
        }
        let reducing: Vec<&For> = loops.iter().filter(|l| reduces(l.var)).collect();
        if reducing.iter().any(|l| l.min.as_int() != Some(0) || l.kind != ForKind::Serial) {
            return Err(refuse("a loop of the reduction is not serial from 0"));
        }
        if !self.starts_at_zero(&block, loops.iter(), &super::shape_facts(&self.func)) {
            return Err(refuse("the reduction is not shown to start where its init runs"));
        }
        if axis > indices.len() {
            return Err(refuse(&format!("there is no axis {axis}")));
        }
        let in_reduction = |c: &Expr| reducing.iter().any(|l| tree::mentions(c, l.var));
        let (guards, predicate): (Vec<Expr>, Vec<Expr>) =
            conjuncts(&block.predicate).into_iter().partition(in_reduction);
        if guards.iter().any(|c| loops.iter().any(|l| places(l.var) && tree::mentions(c, l.var))) {
            return Err(refuse("its guard mixes the reduction with the placing"));
        }

        let mut data = self.func.buffers[buffer].clone();
        data.name = format!("{}_rf", data.name);
        data.shape.insert(axis, factor.extent.clone());
        let partial = self.func.buffers.push(data);
        self.func.allocs.push(partial);
        if self.padded.contains(&buffer) {
            self.padded.insert(partial);
        }
        let parts = self.partial_iters(&block, &reducing, at);
        let rf_name = self.unique_block(&format!("{name}_rf"));
        let mut rf = self.partial_block(&block, partial, axis, &parts, &guards);
        rf.name = rf_name.clone();
        rf.predicate = predicate.into_iter().fold(Expr::bool(true), Expr::and);
        self.refresh_regions(&mut rf);
        let rf_nest = loops.iter().rev().fold(Stmt::Block(Box::new(rf)), |body, l| {
            Stmt::For(Box::new(For { body, ..l.clone() }))
        });
        let combine = self.combining_nest(&block, (buffer, partial), axis, factor, op);
        let at = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(at, sequence([rf_nest, combine]));
        self.note(format!("rfactor {name} {} -> {rf_name}", self.name(factor.var)));
        Ok(rf_name)
    }

    /// An iterator per loop of the reduction: spatial for `at`, which comes first.
    fn partial_iters(&mut self, block: &Block, reducing: &[&For], at: Var) -> Vec<BlockIter> {
        let mut iters = vec![];
        for l in reducing {
            let name = format!("v_{}", self.func.vars[l.var].name);
            let var = self.func.new_var(name);
            let kind = if l.var == at { IterKind::Spatial } else { IterKind::Reduce };
            iters.push(BlockIter { var, extent: l.extent.clone(), kind, value: l.var.into() });
        }
        iters.sort_by_key(|i| i.kind == IterKind::Reduce);
        let spatial = block.iters.iter().filter(|i| i.kind == IterKind::Spatial).cloned();
        spatial.chain(iters).collect()
    }

    fn partial_block(
        &self,
        block: &Block,
        partial: Buffer,
        axis: usize,
        iters: &[BlockIter],
        guards: &[Expr],
    ) -> Block {
        let Stmt::Store { buffer, indices, value } = &block.body else {
            unreachable!("checked to be one store");
        };
        // Old reduction iterators are functions of the loops, and the loops are iterators now.
        let of_loop = |v: Var| {
            let iter = iters.iter().find(|i| i.value.as_var() == Some(v));
            iter.filter(|i| !block.iters.contains(i)).map(|i| Expr::var(i.var))
        };
        let of_iter = |v: Var| {
            let old = block.iters.iter().find(|i| i.var == v && i.kind == IterKind::Reduce)?;
            Some(old.value.substitute(&of_loop))
        };
        let factor = iters.iter().find(|i| !block.iters.contains(i)).expect("at least `at`");
        let mut at = indices.clone();
        at.insert(axis, factor.var.into());
        let step = swap_load(&value.substitute(&of_iter), *buffer, partial, &at);
        let mut body = Stmt::store(partial, at.clone(), step);
        let guards = guards.iter().map(|c| c.substitute(&of_loop));
        if let Some(cond) = guards.reduce(Expr::and) {
            body = Stmt::If { cond, then: Box::new(body), otherwise: None };
        }
        let init = block.init.as_ref().map(|init| match init {
            Stmt::Store { value, .. } => Stmt::store(partial, at, value.clone()),
            _ => unreachable!("checked to be one store"),
        });
        Block { iters: iters.to_vec(), init, body, ..block.clone() }
    }

    fn combining_nest(
        &mut self,
        block: &Block,
        (buffer, partial): (Buffer, Buffer),
        axis: usize,
        factor: &For,
        op: BinOp,
    ) -> Stmt {
        let (Stmt::Store { indices, .. }, Some(init)) = (&block.body, &block.init) else {
            unreachable!("checked to be a reduction of one store");
        };
        let mut iters: Vec<BlockIter> =
            block.iters.iter().filter(|i| i.kind == IterKind::Spatial).cloned().collect();
        let name = format!("v_{}", self.func.vars[factor.var].name);
        let var = self.func.new_var(name);
        let extent = factor.extent.clone();
        iters.push(BlockIter { var, extent, kind: IterKind::Reduce, value: Expr::i64(0) });
        let mut at = indices.clone();
        at.insert(axis, var.into());
        let load = self.func.load(buffer, indices.clone());
        let value = Expr::binary(op, load, self.func.load(partial, at));
        let mut combining = Block {
            iters,
            predicate: Expr::bool(true),
            init: Some(init.clone()),
            annotations: BTreeMap::new(),
            body: Stmt::store(buffer, indices.clone(), value),
            ..block.clone()
        };
        self.refresh_regions(&mut combining);
        let ranges = combining.iters.iter().map(|i| (Expr::i64(0), i.extent.clone())).collect();
        let facts = super::shape_facts(&self.func);
        let nest = self.nest_over(&facts, &combining, &ranges);
        // The old block still stands in the function while names are made; keep its own.
        let copy = self.fresh_copy(&nest, "");
        rename(copy, &block.name)
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

/// The loops around the block when `top` is nothing but them.
pub(super) fn chain(top: &Stmt, name: &str) -> Option<Vec<For>> {
    match top {
        Stmt::For(l) => {
            let mut inner = chain(&l.body, name)?;
            inner.insert(0, l.as_ref().clone());
            Some(inner)
        }
        Stmt::Block(b) if b.name == name => Some(vec![]),
        _ => None,
    }
}

/// How a reduction step combines: `op(X, e)`, or `fma(a, b, X)`, which sums.
fn combiner(
    block: &Block,
    buffer: Buffer,
    indices: &[Expr],
    value: &Expr,
) -> Result<BinOp, String> {
    let Some(Stmt::Store { value: init, .. }) = &block.init else {
        return Err("it has no init of one store".into());
    };
    let accumulator = |e: &Expr| {
        matches!(e.kind(), ExprKind::Load { buffer: b, indices: i, .. }
            if *b == buffer && i == indices)
    };
    let op = match value.kind() {
        ExprKind::Binary { op, a, .. } if accumulator(a) => *op,
        ExprKind::Call { op: Intrin::Fma, args, .. } if accumulator(&args[2]) => BinOp::Add,
        _ => return Err("its body is not `X = X op value`".into()),
    };
    let is = |x: f64| *init == Expr::constant(x, init.dtype());
    let identity = match op {
        BinOp::Add => is(0.0) || is(-0.0),
        BinOp::Mul => is(1.0),
        // Combining the start value twice changes nothing.
        BinOp::Min | BinOp::Max => true,
        BinOp::Sub | BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => false,
    };
    match identity {
        true => Ok(op),
        false => Err(format!("{op:?} from {init:?} cannot be done in parts")),
    }
}

fn swap_load(e: &Expr, old: Buffer, new: Buffer, at: &[Expr]) -> Expr {
    match e.kind() {
        ExprKind::Load { buffer, dtype, .. } if *buffer == old => {
            Expr::load(new, at.to_vec(), *dtype)
        }
        _ => e.map_children(&mut |c| swap_load(c, old, new, at)),
    }
}
