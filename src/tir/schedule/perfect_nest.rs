//! Perfect nests: loops around nothing but one block, each spatial or of the reduction.

use rustc_hash::FxHashSet;

use super::access;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, conjuncts};
use crate::arith::Analyzer;
use crate::{Block, BlockIter, Buffer, BufferData, Expr, For, ForKind, IterKind, Scope, Stmt, Var};

/// Loops from 0 around nothing but one block. Each is spatial, so it chooses an element of the
/// result, or runs over the reduction, all of whose loops are in the nest.
pub(super) struct PerfectNest {
    /// Outermost first.
    pub loops: Vec<For>,
    pub block: Block,
    /// The ranges of all variables around the block.
    pub facts: Analyzer,
    /// The conjuncts of the block's predicate: those over loops of the reduction, and the rest.
    pub reduction_guards: Vec<Expr>,
    pub spatial_guards: Vec<Expr>,
}

impl PerfectNest {
    pub fn reduces(&self, l: &For) -> bool {
        self.block.reduction_iters().any(|i| tree::mentions(&i.value, l.var))
    }

    /// The loops that choose an element.
    pub fn spatial_loops(&self) -> Vec<For> {
        self.loops.iter().filter(|l| !self.reduces(l)).cloned().collect()
    }

    /// The loops of the reduction.
    pub fn reduction_loops(&self) -> Vec<For> {
        self.loops.iter().filter(|l| self.reduces(l)).cloned().collect()
    }
}

impl Schedule {
    /// The perfect nest from `at` down to the block. Different iterations of its spatial loops store
    /// to different elements.
    pub(super) fn perfect_nest(
        &self,
        primitive: &'static str,
        name: &str,
        at: Var,
    ) -> Result<PerfectNest, ScheduleError> {
        let refuse = |why: &str| self.refuse(primitive, name, why);
        let path = self.path_to_block(primitive, name)?;
        let block = self.get_block(name)?.clone();
        self.require_no_opaque(primitive, &block)?;
        let Some(from) = path.iter().position(|s| matches!(s, Stmt::For(l) if l.var == at)) else {
            return Err(refuse("the loop is not around it"));
        };
        let loops: Option<Vec<For>> = path[from..path.len() - 1]
            .iter()
            .map(|s| if let Stmt::For(l) = s { Some(l.as_ref().clone()) } else { None })
            .collect();
        let loops = loops.ok_or_else(|| refuse("it does not have its loops alone"))?;
        let plain = |l: &For| {
            let moves = loops.iter().any(|outer| tree::mentions(&l.extent, outer.var));
            l.kind == ForKind::Serial && l.min.as_int() == Some(0) && !moves
        };
        if !loops.iter().all(plain) {
            return Err(refuse("a loop around it is not serial over a fixed range from 0"));
        }
        let above: Vec<Var> = tree::loops_of(&path[..from]).map(|l| l.var).collect();
        let reduces = |v: Var| block.reduction_iters().any(|i| tree::mentions(&i.value, v));
        let spatial = |v: Var| block.spatial_iters().any(|i| tree::mentions(&i.value, v));
        let name_of = |v: Var| &self.func.vars[v].name;
        if let Some(v) = above.iter().find(|v| reduces(**v)) {
            return Err(refuse(&format!(
                "the loop `{}` of the reduction lies outside",
                name_of(*v)
            )));
        }
        if let Some(l) = loops.iter().find(|l| reduces(l.var) == spatial(l.var)) {
            let why = if reduces(l.var) {
                "is both spatial and of the reduction"
            } else {
                "repeats instances"
            };
            return Err(refuse(&format!("the loop `{}` {why}", name_of(l.var))));
        }
        let facts = self.facts(&path[..path.len() - 1]);
        if !self.starts_at_zero(&block, loops.iter(), &facts) {
            return Err(refuse("the reduction is not shown to start where its init runs"));
        }
        let in_reduction =
            |c: &Expr| loops.iter().any(|l| reduces(l.var) && tree::mentions(c, l.var));
        let (reduction_guards, spatial_guards): (Vec<Expr>, Vec<Expr>) =
            conjuncts(&block.predicate).into_iter().partition(in_reduction);
        let all = above.iter().copied().chain(loops.iter().map(|l| l.var));
        let others: Vec<Var> = all.filter(|v| !reduces(*v)).collect();
        let of_others = |c: &Expr| others.iter().any(|v| tree::mentions(c, *v));
        if reduction_guards.iter().any(of_others) {
            return Err(refuse("its guard mixes reduction and spatial loops"));
        }
        let nest = PerfectNest { loops, block, facts, reduction_guards, spatial_guards };
        self.require_own_elements(primitive, &nest)?;
        Ok(nest)
    }

    /// Refuses iterators that neither choose an element nor count a reduction.
    pub(super) fn require_no_opaque(
        &self,
        primitive: &'static str,
        block: &Block,
    ) -> Result<(), ScheduleError> {
        match block.iters.iter().any(|i| i.kind == IterKind::Opaque) {
            true => Err(self.refuse(primitive, &block.name, "it has an opaque iterator")),
            false => Ok(()),
        }
    }

    /// The loops from `at` inwards that lie directly around each other, all serial from 0 and of
    /// constant extents, and what is in them.
    pub(super) fn constant_nest(
        &self,
        primitive: &'static str,
        at: Var,
    ) -> Result<(Vec<For>, &Stmt), ScheduleError> {
        let path = self.path_to_loop(primitive, at)?;
        let (mut loops, mut inner) = (vec![], path[path.len() - 1]);
        while let Stmt::For(l) = inner {
            let plain = l.kind == ForKind::Serial && l.min.as_int() == Some(0);
            if !plain || l.extent.as_int().is_none_or(|n| n < 1) {
                let why = "its loops are not serial ones from 0 of constant extents";
                return Err(self.refuse_loop(primitive, at, why));
            }
            loops.push(l.as_ref().clone());
            inner = &l.body;
        }
        Ok((loops, inner))
    }

    fn require_own_elements(
        &self,
        primitive: &'static str,
        nest: &PerfectNest,
    ) -> Result<(), ScheduleError> {
        let block = &nest.block;
        let free: FxHashSet<Var> = nest.loops.iter().map(|l| l.var).collect();
        let values: Vec<Expr> = block.spatial_iters().map(|i| i.value.clone()).collect();
        let bound = |v: Var| block.iters.iter().find(|i| i.var == v).map(|i| i.value.clone());
        let indices: Vec<Expr> = match &block.body {
            Stmt::Store { indices, .. } => indices.iter().map(|e| e.substitute(&bound)).collect(),
            _ => vec![],
        };
        let injective = self.is_injective(block) || self.show_injective(block);
        let tells = |l: &For, by: &[Expr]| access::determines(&nest.facts, by, l.var, &free);
        let own = |l: &&For| tells(l, &indices) || injective && tells(l, &values);
        match nest.spatial_loops().iter().find(|l| !own(l)) {
            Some(l) => {
                let l = &self.func.vars[l.var].name;
                let why =
                    format!("iterations of `{l}` are not shown to store to elements of their own");
                Err(self.refuse(primitive, &block.name, why))
            }
            None => Ok(()),
        }
    }

    /// An iterator for each loop, which is its value.
    pub(super) fn iterators(&mut self, loops: &[For], kind: IterKind) -> Vec<BlockIter> {
        let iters = loops.iter().map(|l| {
            let name = format!("v_{}", self.func.vars[l.var].name);
            let var = self.func.new_var(name);
            BlockIter { var, extent: l.extent.clone(), kind, value: l.var.into() }
        });
        iters.collect()
    }

    /// A buffer like `like` with an element for each iteration of the loops; the caller allocates it.
    pub(super) fn buffer_over(
        &mut self,
        like: Buffer,
        suffix: &str,
        loops: &[For],
        scope: Scope,
    ) -> Buffer {
        let data = &self.func.buffers[like];
        let shape = loops.iter().map(|l| l.extent.clone()).collect();
        let (name, dtype) = (format!("{}_{suffix}", data.name), data.dtype);
        self.func.buffers.push(BufferData { name, dtype, shape, scope })
    }
}
