//! Reducing in parts: the primitives that change the order of a reduction.

use std::collections::BTreeMap;

use super::chain::{Chain, nested, of_kind, plain_loop};
use super::compute_inline::loads;
use super::{Schedule, ScheduleError, tree};
use crate::{
    BinOp, Block, BlockIter, Buffer, Expr, ExprKind, For, Intrin, IterKind, Scope, Stmt, Var,
};

/// How results of parts are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Binary(BinOp),
    And,
    Or,
}

impl Combine {
    fn of(self, a: Expr, b: Expr) -> Expr {
        match self {
            Combine::Binary(op) => Expr::binary(op, a, b),
            Combine::And => a.and(b),
            Combine::Or => a.or(b),
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
        let reduces = |b: &Block, v| of_kind(b, true).any(|i| tree::mentions(&i.value, v));
        let block = self.get_block(name)?;
        if !reduces(block, at) {
            return Err(self.refuse("rfactor", name, "the loop does not reduce"));
        }
        let outermost = self.get_loops(name)?.into_iter().find(|v| reduces(block, *v));
        let top = outermost.unwrap_or(at);
        let chain = self.chain("rfactor", name, top)?;
        let refuse = |s: &Schedule, why: &str| s.refuse("rfactor", name, why);
        let Some(factor) = chain.loops.iter().find(|l| l.var == at).cloned() else {
            return Err(refuse(self, "the loop is not around it"));
        };
        let op = combiner(&chain.block).map_err(|why| refuse(self, &why))?;
        let Stmt::Store { buffer, .. } = &chain.block.body else { unreachable!("it combines") };
        let placing = chain.placing();
        let dims = [&placing[..], std::slice::from_ref(&factor)].concat();
        let fixed = dims.iter().all(|l| l.extent.as_int().is_some());
        let scope = if fixed { self.func.buffers[*buffer].scope } else { Scope::Global };
        let partial = self.buffer_over(*buffer, "rf", &dims, scope);
        let rf_name = self.unique_block(&format!("{name}_rf"));
        let rf = self.partial_block(&chain, (partial, &placing, at), &rf_name);
        let rf = nested(&chain.loops, Stmt::Block(Box::new(rf)));
        let factor = plain_loop(at, factor.extent);
        let over = [&placing[..], &[factor]].concat();
        let combined = self.combining_block(&chain, (*buffer, partial), &over, op);
        let shown = self.is_injective(&chain.block) || self.show_injective(&chain.block);
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

    fn partial_block(
        &mut self,
        chain: &Chain,
        (partial, placing, at): (Buffer, &[For], Var),
        name: &str,
    ) -> Block {
        let block = &chain.block;
        let Stmt::Store { buffer, value, .. } = &block.body else { unreachable!("it combines") };
        let places = self.iterators(placing, IterKind::Spatial);
        let mut steps = self.iterators(&chain.reducing(), IterKind::Reduce);
        let part = steps.iter().position(|i| i.value.as_var() == Some(at)).expect("it reduces");
        let mut part = steps.remove(part);
        part.kind = IterKind::Spatial;
        // Old reduction iterators are functions of the loops, and the loops are iterators now.
        let all: Vec<BlockIter> = [&[part.clone()][..], &steps].concat();
        let of_loop =
            |v: Var| all.iter().find(|i| i.value.as_var() == Some(v)).map(|i| i.var.into());
        let of_iter = |v: Var| {
            let old = of_kind(block, true).find(|i| i.var == v)?;
            Some(old.value.substitute(&of_loop))
        };
        let index: Vec<Expr> = places.iter().chain([&part]).map(|i| i.var.into()).collect();
        let old = self.func.load(partial, index.clone());
        let step = value.substitute(&of_iter).replace_loads(*buffer, &mut |_, _| old.clone());
        let guards = chain.reduced.iter().map(|c| c.substitute(&of_loop)).reduce(Expr::and);
        let step = match guards {
            Some(cond) => Expr::if_then_else(cond, step, old),
            None => step,
        };
        let init = block.init.as_ref().map(|init| match init {
            Stmt::Store { value, .. } => Stmt::store(partial, index.clone(), value.clone()),
            _ => unreachable!("checked to be one store"),
        });
        let spatial = of_kind(block, false).cloned();
        let mut rf = Block {
            name: name.to_string(),
            iters: spatial.chain(places).chain([part]).chain(steps).collect(),
            predicate: chain.placed.iter().cloned().fold(Expr::bool(true), Expr::and),
            init,
            body: Stmt::store(partial, index, step),
            ..block.clone()
        };
        self.refresh_regions(&mut rf);
        rf
    }

    fn combining_block(
        &mut self,
        chain: &Chain,
        (buffer, partial): (Buffer, Buffer),
        over: &[For],
        op: Combine,
    ) -> Block {
        let Stmt::Store { indices, .. } = &chain.block.body else { unreachable!("it combines") };
        let mut own = self.iterators(over, IterKind::Spatial);
        own.last_mut().expect("at least the factor").kind = IterKind::Reduce;
        let at = own.iter().map(|i| i.var.into()).collect();
        let load = self.func.load(buffer, indices.clone());
        let value = op.of(load, self.func.load(partial, at));
        let spatial = of_kind(&chain.block, false).cloned();
        let mut combining = Block {
            iters: spatial.chain(own).collect(),
            predicate: chain.placed.iter().cloned().fold(Expr::bool(true), Expr::and),
            annotations: BTreeMap::new(),
            body: Stmt::store(buffer, indices.clone(), value),
            ..chain.block.clone()
        };
        self.refresh_regions(&mut combining);
        combining
    }

    /// `for l in 0..2h { X[i] = X[i] + P[l] }`, which combines partial results, becomes
    /// `for l in 0..h { P[l] = P[l] + P[h + l] }; for l in 0..h { X[i] = X[i] + P[l] }`, and where
    /// `h` is 1, `X[i] = P[0] + P[1]`. As with [`Schedule::rfactor`], only `min` and `max` keep
    /// their bits.
    ///
    /// Needs the loop of a block that combines what [`Schedule::rfactor`] left, of an even and
    /// constant extent. Returns the block that halves and its loop, if there still is one.
    pub fn tree_reduce(
        &mut self,
        name: &str,
        at: Var,
    ) -> Result<Option<(String, Var)>, ScheduleError> {
        let refuse = |s: &Schedule, why: &str| s.refuse("tree_reduce", name, why);
        let chain = self.chain("tree_reduce", name, at)?;
        let (Some(n), [only]) = (self.extent(at)?, &chain.loops[..]) else {
            return Err(refuse(self, "it is not in one loop of constant extent"));
        };
        if n < 2 || n % 2 != 0 {
            return Err(refuse(self, &format!("{n} parts have no halves")));
        }
        let op = combiner(&chain.block).map_err(|why| refuse(self, &why))?;
        let part = of_kind(&chain.block, true).collect::<Vec<_>>();
        let [part] = part[..] else { return Err(refuse(self, "it has not one reduction axis")) };
        let Stmt::Store { buffer, indices, value } = &chain.block.body else {
            unreachable!("it combines")
        };
        let element = value.children().into_iter().nth(1).filter(|_| value.children().len() == 2);
        let Some((partial, places)) = element.and_then(|e| match e.kind() {
            ExprKind::Load { buffer, indices, .. } => Some((*buffer, indices.clone())),
            _ => None,
        }) else {
            return Err(refuse(self, "it combines other things than elements"));
        };
        let last = places.split_last().filter(|(last, rest)| {
            last.as_var() == Some(part.var) && !rest.iter().any(|e| tree::mentions(e, part.var))
        });
        if last.is_none()
            || part.value.as_var() != Some(at)
            || chain.block.predicate.as_int() != Some(1)
        {
            return Err(refuse(self, "it does not step through the last dimension"));
        }
        self.require_last_use(name, at, partial)?;

        let h = n / 2;
        let spatial: Vec<BlockIter> = of_kind(&chain.block, false).cloned().collect();
        let element = |s: &Schedule, last: Expr| {
            let mut at = places.clone();
            *at.last_mut().expect("the parts") = last;
            (at.clone(), s.func.load(partial, at))
        };
        if h == 1 {
            let [(_, first), (_, second)] = [0, 1].map(|n| element(self, Expr::i64(n)));
            let mut whole = Block {
                iters: spatial,
                init: None,
                body: Stmt::store(*buffer, indices.clone(), op.of(first, second)),
                ..chain.block.clone()
            };
            self.refresh_regions(&mut whole);
            let whole = Stmt::Block(Box::new(whole));
            self.func.body = tree::replace_loop(&self.func.body, at, |_| whole.clone());
            self.note(format!("tree_reduce {name} {}", self.name(at)));
            return Ok(None);
        }
        let half = plain_loop(self.func.new_var(self.func.vars[at].name.clone()), h.into());
        let mut own = self.iterators(std::slice::from_ref(&half), IterKind::Spatial);
        let lane = Expr::from(own[0].var);
        let ((to, first), (_, second)) = (element(self, lane.clone()), element(self, lane + h));
        let half_name = self.unique_block(&format!("{name}_half"));
        let fresh = |s: &mut Schedule, i: &BlockIter| {
            let name = s.func.vars[i.var].name.clone();
            BlockIter { var: s.func.new_var(name), ..i.clone() }
        };
        let mut iters: Vec<BlockIter> = spatial.iter().map(|i| fresh(self, i)).collect();
        let renamed = |e: &Expr| {
            e.substitute(&|v| Some(iters[spatial.iter().position(|i| i.var == v)?].var.into()))
        };
        let to: Vec<Expr> = to.iter().map(renamed).collect();
        let value = renamed(&op.of(first, second));
        iters.append(&mut own);
        let mut halving = Block {
            name: half_name.clone(),
            iters,
            init: None,
            annotations: BTreeMap::new(),
            body: Stmt::store(partial, to, value),
            ..chain.block.clone()
        };
        self.refresh_regions(&mut halving);
        let mut rest = chain.block.clone();
        let place = rest.iters.iter_mut().find(|i| i.var == part.var).expect("the parts");
        place.extent = h.into();
        self.refresh_regions(&mut rest);
        let first = nested(std::slice::from_ref(&half), Stmt::Block(Box::new(halving)));
        let second = nested(&[plain_loop(only.var, h.into())], Stmt::Block(Box::new(rest)));
        let both = Stmt::Seq(vec![first, second]);
        self.func.body = tree::replace_loop(&self.func.body, at, |_| both.clone());
        self.flatten();
        self.note(format!("tree_reduce {name} {} -> {half_name}", self.name(at)));
        Ok(Some((half_name, half.var)))
    }

    /// Nothing may use `buffer` after the loop, and each iteration around the loop has elements of
    /// its own: the loop comes last in the buffer's allocation, with nothing but sequences between.
    fn require_last_use(&self, name: &str, at: Var, buffer: Buffer) -> Result<(), ScheduleError> {
        let path = self.path_to_loop("tree_reduce", at)?;
        let inside =
            path.iter().position(|s| matches!(s, Stmt::Allocate { buffer: b, .. } if *b == buffer));
        let last = |pair: &[&Stmt]| match pair[0] {
            Stmt::Allocate { .. } => true,
            Stmt::Seq(list) => list.last().is_some_and(|s| std::ptr::eq(s, pair[1])),
            _ => false,
        };
        match inside {
            Some(from) if path[from..].windows(2).all(last) => Ok(()),
            _ => Err(self.refuse("tree_reduce", name, "what it combines may be used elsewhere")),
        }
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

/// How a reduction step combines: `op(X, e)`, or `fma(a, b, X)`, which sums.
fn combiner(block: &Block) -> Result<Combine, String> {
    let (Stmt::Store { buffer, indices, value }, Some(Stmt::Store { value: init, .. })) =
        (&block.body, &block.init)
    else {
        return Err("it is not a reduction of one store".into());
    };
    let accumulator = |e: &Expr| {
        matches!(e.kind(), ExprKind::Load { buffer: b, indices: i, .. }
            if b == buffer && i == indices)
    };
    let (op, others): (Combine, Vec<&Expr>) = match value.kind() {
        ExprKind::Binary { op, a, b } if accumulator(a) => (Combine::Binary(*op), vec![b]),
        ExprKind::And(a, b) if accumulator(a) => (Combine::And, vec![b]),
        ExprKind::Or(a, b) if accumulator(a) => (Combine::Or, vec![b]),
        ExprKind::Call { op: Intrin::Fma, args, .. } if accumulator(&args[2]) => {
            (Combine::Binary(BinOp::Add), vec![&args[0], &args[1]])
        }
        _ => return Err("its body is not `X = X op value`".into()),
    };
    if others.iter().any(|e| loads(e).contains(buffer)) {
        return Err("it reads other elements of its result".into());
    }
    let is = |x: f64| *init == Expr::constant(x, init.dtype());
    let identity = match op {
        Combine::Binary(BinOp::Add) => is(0.0) || is(-0.0),
        Combine::Binary(BinOp::Mul) => is(1.0),
        // Combining the start value twice changes nothing.
        Combine::Binary(BinOp::Min | BinOp::Max) | Combine::And | Combine::Or => true,
        Combine::Binary(
            BinOp::Sub | BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod,
        ) => false,
    };
    match identity {
        true => Ok(op),
        false => Err(format!("{op:?} from {init:?} cannot be done in parts")),
    }
}
