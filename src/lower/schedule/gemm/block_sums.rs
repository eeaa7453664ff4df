//! Sums over blocks whose terms are sums of 8-bit integers: weights of codes with a scale for each block
//! of the depth, times rows that were rounded to int8.
//!
//! ```text
//! for r: for v: for l:
//!   sum = 0
//!   for block:
//!     part = 0; for word..: part = dot(row[r, block, word], column[block, word, v, l], part)
//!     sum = fma(float(part), scale[r, block, v, l], sum)
//!   out[r, v, l] = epilogue(sum)
//! ```
//! Both accumulators of a result stay in registers. The two stages of the naive kernel keep the order of
//! their sums.
//!
//! Decision: docs/decisions/0094-int8-activations.md

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::{BlockIter, Buffer, DType, Expr, ExprKind, IterKind, PrimFunc, Scope, Stmt};

use crate::schedule::core::access::buffers_of;
use crate::schedule::core::affine::{mentions, same};
use crate::schedule::core::contraction::inner_product;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::panels::bind;
use crate::schedule::core::primitives::block;
use crate::schedule::core::stage::{Axis, Item, Stage, loads_of};
use crate::schedule::core::tile::OutputTile;
use crate::schedule::gemm::kernel::{Gemm, is_word};
use crate::schedule::gemm::micro_kernel::{RegisterTile, vectorize_tile};

/// The stage at `at`, sums of 8-bit integers over blocks, and the next one, a sum over those blocks and
/// the only reader of their sums, as one stage: the first axis of its reduction is that of blocks, and
/// the inner sum is a scalar.
pub fn sum_over_blocks(nest: &mut Nest<'_>, items: &[Item], at: usize) -> Option<Stage> {
    let (part, whole) = (items[at].stage()?, items.get(at + 1)?.stage()?);
    let only = items.iter().filter(|i| i.reads(part.buffer)).count() == 2;
    let [blocks] = &whole.reduce[..] else { return None };
    let inner: Vec<&Axis> = part.reduce.iter().filter(|a| a.extent.as_int() != Some(1)).collect();
    let fits = nest.func.allocs.contains(&part.buffer)
        && nest.func.buffers[part.buffer].dtype == DType::I32
        && nest.func.buffers[whole.buffer].dtype == DType::F32
        && part.is_identity()
        && part.init.as_ref().and_then(Expr::as_int) == Some(0)
        && blocks.extent.as_int() != Some(1)
        && !inner.is_empty()
        && only;
    let loads = loads_of(&whole.value, part.buffer);
    let [first, rest @ ..] = &loads[..] else { return None };
    if !fits || rest.iter().any(|l| l != first) || first.len() != part.spatial.len() {
        return None;
    }
    // A panel's last columns may be filled up: what else a column has must be in the panel.
    let (column, packed) = (whole.spatial.last()?, buffers_of(&part.value));
    let mut in_panels = true;
    whole.value.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind() {
            let own = [part.buffer, whole.buffer].contains(buffer) || packed.contains(buffer);
            in_panels &= own || !mentions(e, column.var);
        }
    });
    if !in_panels {
        return None;
    }
    // Every axis of the inner sums is one of the outer sum's.
    let axes: Vec<&Axis> = whole.spatial.iter().chain([blocks]).collect();
    let own = |index: &Expr| axes.iter().find(|a| index.as_var() == Some(a.var));
    let mut renamed = vec![];
    for (axis, index) in part.spatial.iter().zip(first) {
        let to = match (own(index), index.as_int()) {
            (Some(to), _) if same(&to.extent, &axis.extent) => Expr::from(to.var),
            (None, Some(0)) if axis.extent.as_int() == Some(1) => Expr::i64(0),
            _ => return None,
        };
        renamed.push((axis.var, to));
    }
    let distinct = renamed.iter().filter_map(|(_, e)| e.as_var()).collect::<Vec<_>>();
    if distinct.iter().enumerate().any(|(n, v)| distinct[..n].contains(v)) {
        return None;
    }
    let scalar = nest.func.new_buffer("part", DType::I32, vec![], Scope::Local);
    let value = bind(&part.value, &renamed);
    let value = value.replace_loads(part.buffer, &mut |_, dtype| Expr::load(scalar, vec![], dtype));
    let merged = whole.value.replace_loads(part.buffer, &mut |_, _| value.clone());
    inner_product(&merged)?;
    let reduce = [std::slice::from_ref(blocks), &part.reduce].concat();
    Some(Stage { value: merged, reduce, ..whole.clone() })
}

impl Gemm {
    /// One element's sum over blocks, each term of which is summed in `part`.
    pub fn sum_of_blocks(
        &self,
        func: &mut PrimFunc,
        at: OutputTile<'_>,
        shape: &RegisterTile,
        [part, sum]: [Buffer; 2],
    ) -> Stmt {
        let inner = inner_product(&self.stage.value).expect("a kernel over blocks has one");
        let (blocks, depth) = self.stage.reduce.split_first().expect("an axis of blocks");
        let mut loops = vec![];
        let mut bound_to_loop = |func: &mut PrimFunc, axis: &Axis, kind| {
            let name = func.vars[axis.var].name.trim_start_matches("v_").to_owned();
            let (iter, var) = (func.new_var(format!("v_{name}")), func.new_var(name));
            loops.push((var, axis.extent.clone()));
            BlockIter { var: iter, extent: axis.extent.clone(), kind, value: var.into() }
        };
        let outer = bound_to_loop(func, blocks, IterKind::Spatial);
        let inners: Vec<BlockIter> =
            depth.iter().map(|a| bound_to_loop(func, a, IterKind::Reduce)).collect();
        // The inner sum.
        let mut iters = shape.iters(func);
        let [r, v, l] = [0, 1, 2].map(|n| Expr::from(iters[n].var));
        let mut bound = self.at(at, &r, [&v, &l]);
        bound.push((blocks.var, outer.var.into()));
        bound.extend(depth.iter().zip(&inners).map(|(a, i)| (a.var, i.var.into())));
        let [row, column] = [&self.row, &self.column].map(|e| bind(e, &bound));
        let old = func.load(part, vec![]);
        let value = Expr::call(self.op, vec![row, self.streamed(None, at, &v, column), old]);
        iters.push(outer.clone());
        iters.extend(inners);
        let init = Stmt::store(part, vec![], Expr::int(0, DType::I32));
        let body = Stmt::store(part, vec![], value);
        let name = self.part_name();
        let of_block = Stmt::Block(Box::new(block(func, &name, iters, Some(init), body)));
        let (block_loop, depth_loops) = loops.split_first().expect("an axis of blocks");
        let of_block =
            depth_loops.iter().rev().fold(of_block, |s, (v, n)| Stmt::serial(*v, n.clone(), s));
        // The outer one.
        let mut iters = shape.iters(func);
        let [r, v, l] = [0, 1, 2].map(|n| Expr::from(iters[n].var));
        let mut bound = self.at(at, &r, [&v, &l]);
        let over = func.new_var("v_block");
        bound.push((blocks.var, over.into()));
        let extent = blocks.extent.clone();
        iters.push(BlockIter { var: over, extent, kind: IterKind::Reduce, value: outer.value });
        let (total, old) = (func.load(part, vec![]), func.load(sum, vec![]));
        let step = replaced(&self.stage.value, &inner.expr, &total);
        let step = step.replace_loads(self.stage.buffer, &mut |_, _| old.clone());
        let init = Stmt::store(sum, vec![], Expr::constant(0.0, DType::F32));
        let body = Stmt::store(sum, vec![], self.streamed(None, at, &v, bind(&step, &bound)));
        let whole = block(func, &self.stage.name, iters, Some(init), body);
        let both = Stmt::Seq(vec![of_block, Stmt::Block(Box::new(whole))]);
        Stmt::serial(block_loop.0, block_loop.1.clone(), both)
    }

    /// Distributes the sums of blocks and their sum, each accumulator in a lane of a register. Returns
    /// the outer sums.
    pub fn sums_of_blocks(
        &self,
        s: &mut Schedule,
        shape: &RegisterTile,
    ) -> Result<Buffer, ScheduleError> {
        let (name, part) = (&self.stage.name, self.part_name());
        let [r, v, l] = shape.loops;
        s.distribute_loops(r)?;
        let blocks = s.get_loops(name)?[3];
        s.reorder(&[blocks, r, v, l])?;
        s.distribute_loops(r)?;
        let loops = s.get_loops(&part)?;
        let depth = &loops[4..];
        s.reorder(&[depth, &[r, v, l]].concat())?;
        let start = s.decompose_reduction(&part, depth[0])?;
        vectorize_tile(s, &start)?;
        s.reorder(&[l, r, v])?;
        s.vectorize(l)?;
        s.unroll_and_jam(&part, r)?;
        if self.has_codes() && self.stage.reduce.last().is_some_and(is_word) {
            s.unroll(depth[depth.len() - 1])?;
        }
        let start = s.decompose_reduction(name, blocks)?;
        vectorize_tile(s, &start)?;
        let loops = s.get_loops(name)?;
        let [r, v, l] = loops[loops.len() - 3..] else { unreachable!("three loops") };
        s.reorder(&[l, r, v])?;
        s.vectorize(l)?;
        s.unroll_and_jam(name, r)?;
        Ok(s.get_block(&start)?.writes[0].buffer)
    }

    fn part_name(&self) -> String {
        format!("{}_part", self.stage.name)
    }
}

/// `e` with every `from` in it replaced.
fn replaced(e: &Expr, from: &Expr, to: &Expr) -> Expr {
    match e == from {
        true => to.clone(),
        false => e.map_children(&mut |c| replaced(c, from, to)),
    }
}
