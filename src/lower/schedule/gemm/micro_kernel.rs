//! The micro-kernel: a tile of accumulators in vector registers, made of schedule primitives.
//!
//! ```text
//! for r: for v: for l:              rows, vectors of columns, lanes: one result after the other
//!   acc = 0; for k..: acc = fma(row[r, k], column[k, v, l], acc)
//!   out[r, v, l] = epilogue(acc)
//! ```
//! is distributed into start, multiply-adds and stores, with the depth outside of the multiply-adds
//! (`reorder`), whose lanes are vectors and whose rows and vectors are unrolled and jammed, each
//! load named once.
//!
//! Decision: docs/decisions/0033-macro-kernel.md

use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::{BlockIter, Buffer, DType, Expr, ExprKind, IterKind, PrimFunc, Scope, Stmt, Var};

use crate::schedule::core::contraction::sum_type;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::panels::bind;
use crate::schedule::core::primitives::{block, with_schedule};
use crate::schedule::core::tile::OutputTile;
use crate::schedule::gemm::kernel::{Gemm, is_word};
use crate::schedule::gemm::streamed_weights::StreamedWeights;

/// Most vectors of a tile whose epilogues are unrolled one by one.
const MAX_UNROLLED_EPILOGUES: i64 = 4;

/// Rows, vectors and lanes of a tile, and its loops.
pub struct RegisterTile {
    extents: [i64; 3],
    /// The loops over rows, vectors and lanes.
    pub loops: [Var; 3],
}

impl RegisterTile {
    fn new(func: &mut PrimFunc, extents: [i64; 3]) -> RegisterTile {
        RegisterTile { extents, loops: ["r", "v", "l"].map(|name| func.new_var(name)) }
    }

    /// Iterators of a block, each of which is a loop.
    pub fn iters(&self, func: &mut PrimFunc) -> Vec<BlockIter> {
        let each = self.loops.iter().zip(self.extents);
        let iters = each.map(|(at, n)| {
            let var = func.new_var(format!("v_{}", func.vars[*at].name));
            BlockIter { var, extent: n.into(), kind: IterKind::Spatial, value: (*at).into() }
        });
        iters.collect()
    }

    fn around(&self, body: Stmt) -> Stmt {
        let loops = self.loops.iter().zip(self.extents).rev();
        loops.fold(body, |body, (var, n)| Stmt::serial(*var, n.into(), body))
    }
}

impl Gemm {
    /// Binds the tile's axes to a row of it, and to a lane of a vector of columns.
    pub fn at(&self, at: OutputTile<'_>, r: &Expr, lane: [&Expr; 2]) -> Vec<(Var, Expr)> {
        let mut bound = self.columns.bind(at.columns, lane, self.lanes);
        if let (Some(cut), Some(tile)) = (&self.rows, at.rows) {
            bound.extend(cut.bind(tile, [&Expr::i64(0), r], 1));
        }
        bound
    }

    fn extents(&self, at: OutputTile<'_>) -> [i64; 3] {
        let vectors = (at.columns.width + self.lanes - 1) / self.lanes;
        [at.rows.map_or(1, |t| t.width), vectors, self.lanes]
    }

    /// All sums of a tile, stored.
    pub fn tile(&self, nest: &mut Nest<'_>, at: OutputTile<'_>) -> Result<Stmt, Refusal> {
        let extents = self.extents(at);
        let weights = StreamedWeights::of(nest, self);
        let plain = |func: &mut PrimFunc| {
            let shape = RegisterTile::new(func, extents);
            let acc = func.new_buffer("acc", self.sum_type(), vec![], Scope::Local);
            let sum = match self.block_sum {
                Some(part) => self.sum_of_blocks(func, at, &shape, [part, acc]),
                None => self.sum(func, at, &shape, acc, weights.as_ref()),
            };
            let store = self.store(func, at, &shape, |func, _| func.load(acc, vec![]));
            let mut body = Stmt::Seq(vec![sum, store]);
            for buffer in [Some(acc), self.block_sum].into_iter().flatten() {
                body = Stmt::Allocate { buffer, body: Box::new(body) };
            }
            (shape.around(body), shape)
        };
        let name = self.stage.name.clone();
        with_schedule(nest, &name, plain, |nest, s, shape| {
            let acc = match self.block_sum {
                Some(_) => self.sums_of_blocks(s, &shape)?,
                None => self.sums(s, &shape)?,
            };
            let store = self.stored_as();
            let first = s.get_loops(&store)?[0];
            let [height, vectors, _] = extents;
            if height * vectors > MAX_UNROLLED_EPILOGUES && self.epilogue.is_some() {
                // The epilogue once for all rows: from a copy, which needs no constant indices. Sums
                // that are stored as they are need none.
                let copy = s.cache_read_at(&store, acc, first, Scope::Local)?;
                vectorize_tile(s, &copy)?;
            } else {
                s.unroll(first)?;
            }
            vectorize_stores(s, &store)?;
            self.note_tile(nest, s, extents);
            Ok(())
        })
    }

    /// Stores the results of a tile from a buffer that holds its rows from `first` on.
    pub fn store_from(
        &self,
        nest: &mut Nest<'_>,
        at: OutputTile<'_>,
        from: Buffer,
        first: &Expr,
    ) -> Result<Stmt, Refusal> {
        let [_, vectors, lanes] = self.extents(at);
        self.store_elements(nest, at, |func, [r, v, l]| {
            let r = first.clone() + r;
            func.load(from, vec![r * (vectors * lanes) + v * lanes + l])
        })
    }

    /// Stores the results of a tile, by row, vector and lane.
    pub fn store_elements(
        &self,
        nest: &mut Nest<'_>,
        at: OutputTile<'_>,
        element: impl Fn(&PrimFunc, [Expr; 3]) -> Expr,
    ) -> Result<Stmt, Refusal> {
        let plain = |func: &mut PrimFunc| {
            let shape = RegisterTile::new(func, self.extents(at));
            (shape.around(self.store(func, at, &shape, &element)), ())
        };
        with_schedule(nest, &self.stage.name, plain, |_, s, ()| {
            vectorize_stores(s, &self.stored_as())
        })
    }

    fn sum_type(&self) -> DType {
        if self.block_sum.is_some() { DType::F32 } else { sum_type(self.op) }
    }

    fn stored_as(&self) -> String {
        format!("{}_store", self.stage.name)
    }

    /// One element's sum, over the axes of the reduction.
    fn sum(
        &self,
        func: &mut PrimFunc,
        at: OutputTile<'_>,
        shape: &RegisterTile,
        acc: Buffer,
        weights: Option<&StreamedWeights>,
    ) -> Stmt {
        let mut iters = shape.iters(func);
        let [r, v, l] = [0, 1, 2].map(|n| Expr::from(iters[n].var));
        let bound = self.at(at, &r, [&v, &l]);
        let mut column = bind(&self.column, &bound);
        match self.columns.inside(at.columns, [&v, &l], self.lanes) {
            Some(inside) if !self.columns.is_filled_up() => {
                let zero = Expr::constant(0.0, self.column.dtype());
                column = Expr::if_then_else(inside, column, zero);
            }
            _ => column = self.streamed(weights, at, &v, column),
        }
        let old = func.load(acc, vec![]);
        let value = Expr::call(self.op, vec![bind(&self.row, &bound), column, old]);
        let mut loops = vec![];
        for axis in &self.stage.reduce {
            let name = func.vars[axis.var].name.trim_start_matches("v_").to_owned();
            let step = func.new_var(name);
            loops.push((step, axis.extent.clone()));
            let (var, extent, value) = (axis.var, axis.extent.clone(), step.into());
            iters.push(BlockIter { var, extent, kind: IterKind::Reduce, value });
        }
        // A part of the depth begins with the sum of those before.
        let start = match &self.stage.init {
            Some(sum) if matches!(sum.kind(), ExprKind::Load { .. }) => bind(sum, &bound),
            _ => Expr::constant(0.0, sum_type(self.op)),
        };
        let zero = Stmt::store(acc, vec![], start);
        let sum = block(func, &self.stage.name, iters, Some(zero), Stmt::store(acc, vec![], value));
        let sum = Stmt::Block(Box::new(sum));
        loops.into_iter().rev().fold(sum, |body, (var, n)| Stmt::serial(var, n, body))
    }

    /// The store of one element.
    fn store(
        &self,
        func: &mut PrimFunc,
        at: OutputTile<'_>,
        shape: &RegisterTile,
        result: impl Fn(&PrimFunc, [Expr; 3]) -> Expr,
    ) -> Stmt {
        let iters = shape.iters(func);
        let [r, v, l] = [0, 1, 2].map(|n| Expr::from(iters[n].var));
        let bound = self.at(at, &r, [&v, &l]);
        let result = result(func, [r, v, l]);
        let last = self.epilogue.as_ref().unwrap_or(&self.stage);
        let value = match &self.epilogue {
            Some(e) => {
                bind(&e.value.replace_loads(self.stage.buffer, &mut |_, _| result.clone()), &bound)
            }
            None => result,
        };
        let indices = last.indices.iter().map(|i| bind(i, &bound)).collect();
        let body = Stmt::store(last.buffer, indices, value);
        let mut block = block(func, &self.stored_as(), iters, None, body);
        let [_, v, l] = shape.loops.map(Expr::from);
        if let Some(inside) = self.columns.inside(at.columns, [&v, &l], self.lanes) {
            block.predicate = inside;
        }
        Stmt::Block(Box::new(block))
    }

    /// Distributes sums and stores, and gives every sum a lane of a register. Returns the
    /// accumulators.
    fn sums(&self, s: &mut Schedule, shape: &RegisterTile) -> Result<Buffer, ScheduleError> {
        let name = &self.stage.name;
        let [r, v, l] = shape.loops;
        s.distribute_loops(r)?;
        let depth = s.get_loops(name)?.split_off(3);
        s.reorder(&[&depth, &shape.loops[..]].concat())?;
        let start = s.decompose_reduction(name, depth[0])?;
        vectorize_tile(s, &start)?;
        s.reorder(&[l, r, v])?;
        s.vectorize(l)?;
        s.unroll_and_jam(name, r)?;
        // Every code of a word is at its own bits, which are then constant.
        if self.has_codes() && self.stage.reduce.last().is_some_and(is_word) {
            s.unroll(depth[depth.len() - 1])?;
        }
        Ok(s.get_block(&start)?.writes[0].buffer)
    }

    /// Notes the steps of a tile once for all of that size.
    fn note_tile(&self, nest: &mut Nest<'_>, s: &Schedule, [height, vectors, _]: [i64; 3]) {
        let name = format!("{}, {height} rows by {vectors} vectors", self.stage.name);
        let steps: Vec<String> = s.steps().iter().map(|step| format!("{name}: {step}")).collect();
        if !nest.steps.contains(&steps[0]) {
            nest.steps.extend(steps);
        }
    }
}

/// All vectors of a block in loops over rows, vectors and lanes, unrolled by the code generator.
pub fn vectorize_tile(s: &mut Schedule, block: &str) -> Result<(), ScheduleError> {
    let loops = s.get_loops(block)?;
    let [r, v, l] = loops[loops.len() - 3..] else { unreachable!("three loops") };
    s.unroll(r)?;
    s.unroll(v)?;
    s.vectorize(l)
}

/// The vectors of a row one after the other.
fn vectorize_stores(s: &mut Schedule, block: &str) -> Result<(), ScheduleError> {
    let loops = s.get_loops(block)?;
    let [v, l] = loops[loops.len() - 2..] else { unreachable!("vectors and lanes") };
    s.reorder(&[l, v])?;
    s.vectorize(l)?;
    s.unroll_and_jam(block, v)
}
