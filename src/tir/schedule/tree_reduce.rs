//! A step of a tree reduction over partial results.

use std::collections::BTreeMap;

use super::perfect_nest::PerfectNest;
use super::rfactor::{Combiner, combiner};
use super::state::{Schedule, ScheduleError};
use super::tree::{self, nested, plain_loop};
use crate::{Block, BlockIter, Buffer, Expr, ExprKind, For, IterKind, Stmt, Var};

/// A block that combines partial results along the last dimension of a buffer.
struct Combining {
    op: Combiner,
    /// The buffer of partial results, and the block's indices of it.
    partial: Buffer,
    indices: Vec<Expr>,
    /// The iterator that is the last index.
    part: Var,
}

impl Combining {
    /// The indices of the partial result `last`, and that element.
    fn element(&self, s: &Schedule, last: Expr) -> (Vec<Expr>, Expr) {
        let mut at = self.indices.clone();
        *at.last_mut().expect("the parts") = last;
        (at.clone(), s.func.load(self.partial, at))
    }
}

impl Schedule {
    /// One step of a tree reduction.
    ///
    /// `for l in 0..2h { X[i] = X[i] + P[l] }`, which combines partial results, becomes
    /// `for l in 0..h { P[l] = P[l] + P[h + l] }; for l in 0..h { X[i] = X[i] + P[l] }`, and where
    /// `h` is 1, `X[i] = P[0] + P[1]`. As with [`Schedule::rfactor`], only `min` and `max` keep
    /// their bits.
    ///
    /// Needs the loop of a block that combines what [`Schedule::rfactor`] left, of an even and
    /// constant extent. Returns the block that combines the halves and its loop, if there still is
    /// one.
    pub fn tree_reduce(
        &mut self,
        name: &str,
        at: Var,
    ) -> Result<Option<(String, Var)>, ScheduleError> {
        let refuse = |s: &Schedule, why: &str| s.refuse("tree_reduce", name, why);
        let nest = self.perfect_nest("tree_reduce", name, at)?;
        let (Some(n), [only]) = (self.extent(at)?, &nest.loops[..]) else {
            return Err(refuse(self, "it is not in one loop of constant extent"));
        };
        if n < 2 || n % 2 != 0 {
            return Err(refuse(self, &format!("{n} parts have no halves")));
        }
        let combining = combining(&nest, at).map_err(|why| refuse(self, &why))?;
        self.require_last_use(name, at, combining.partial)?;
        let h = n / 2;
        if h == 1 {
            let last = Stmt::Block(Box::new(self.last_step(&nest.block, &combining)));
            self.func.body = tree::replace_loop(&self.func.body, at, |_| last.clone());
            self.note(format!("tree_reduce {name} {}", self.name(at)));
            return Ok(None);
        }
        let half = plain_loop(self.func.new_var(self.func.vars[at].name.clone()), h.into());
        let halving = self.halving_block(&nest.block, &combining, &half, h);
        let half_name = halving.name.clone();
        let mut rest = nest.block.clone();
        let mut own = rest.iters.iter_mut();
        own.find(|i| i.var == combining.part).expect("the parts").extent = h.into();
        self.refresh_regions(&mut rest);
        let first = nested(std::slice::from_ref(&half), Stmt::Block(Box::new(halving)));
        let second = nested(&[plain_loop(only.var, h.into())], Stmt::Block(Box::new(rest)));
        let both = Stmt::Seq(vec![first, second]);
        self.func.body = tree::replace_loop(&self.func.body, at, |_| both.clone());
        self.flatten();
        self.note(format!("tree_reduce {name} {} -> {half_name}", self.name(at)));
        Ok(Some((half_name, half.var)))
    }

    /// `X[i] = P[0] + P[1]`
    fn last_step(&self, block: &Block, combining: &Combining) -> Block {
        let Stmt::Store { buffer, indices, .. } = &block.body else { unreachable!("it combines") };
        let [(_, first), (_, second)] = [0, 1].map(|n| combining.element(self, Expr::i64(n)));
        let mut last = Block {
            iters: block.spatial_iters().cloned().collect(),
            init: None,
            body: Stmt::store(*buffer, indices.clone(), combining.op.of(first, second)),
            ..block.clone()
        };
        self.refresh_regions(&mut last);
        last
    }

    /// `P[l] = P[l] + P[h + l]` for `l` of the loop `half`.
    fn halving_block(&mut self, block: &Block, combining: &Combining, half: &For, h: i64) -> Block {
        let mut own = self.iterators(std::slice::from_ref(half), IterKind::Spatial);
        let lane = Expr::from(own[0].var);
        let (to, first) = combining.element(self, lane.clone());
        let (_, second) = combining.element(self, lane + h);
        let name = self.unique_block(&format!("{}_half", block.name));
        let spatial: Vec<BlockIter> = block.spatial_iters().cloned().collect();
        let fresh = |s: &mut Schedule, i: &BlockIter| {
            let name = s.func.vars[i.var].name.clone();
            BlockIter { var: s.func.new_var(name), ..i.clone() }
        };
        let mut iters: Vec<BlockIter> = spatial.iter().map(|i| fresh(self, i)).collect();
        let renamed = |e: &Expr| {
            e.substitute(&|v| Some(iters[spatial.iter().position(|i| i.var == v)?].var.into()))
        };
        let to: Vec<Expr> = to.iter().map(renamed).collect();
        let value = renamed(&combining.op.of(first, second));
        iters.append(&mut own);
        let mut halving = Block {
            name,
            iters,
            init: None,
            annotations: BTreeMap::new(),
            body: Stmt::store(combining.partial, to, value),
            ..block.clone()
        };
        self.refresh_regions(&mut halving);
        halving
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

/// The block of `nest` as one that combines the elements along its loop `at`; else why it is none.
fn combining(nest: &PerfectNest, at: Var) -> Result<Combining, String> {
    let op = combiner(&nest.block)?;
    let part = nest.block.reduction_iters().collect::<Vec<_>>();
    let [part] = part[..] else { return Err("it has not one reduction axis".into()) };
    let Stmt::Store { value, .. } = &nest.block.body else { unreachable!("it combines") };
    let element = value.children().into_iter().nth(1).filter(|_| value.children().len() == 2);
    let Some((partial, indices)) = element.and_then(|e| match e.kind() {
        ExprKind::Load { buffer, indices, .. } => Some((*buffer, indices.clone())),
        _ => None,
    }) else {
        return Err("it combines other things than elements".into());
    };
    let last = indices.split_last().filter(|(last, rest)| {
        last.as_var() == Some(part.var) && !rest.iter().any(|e| tree::mentions(e, part.var))
    });
    if last.is_none() || part.value.as_var() != Some(at) || nest.block.predicate.as_int() != Some(1)
    {
        return Err("it does not step through the last dimension".into());
    }
    Ok(Combining { op, partial, indices, part: part.var })
}
