//! Random functions, random legal schedules and arguments, for fuzzing and property tests.
//!
//! Built with the feature `fuzzgen` only. Everything is drawn from an [`Unstructured`], so that
//! libFuzzer can steer and a failing case can be repeated. Functions are well typed and defined
//! for every input: no access is out of bounds, every intermediate is written before it is read.

use arbitrary::{Result, Unstructured};

use crate::abi;
use crate::builder::{FuncBuilder, Reducer};
use crate::eval::{EvalArg, EvalTensor, Scalar, eval_expr};
use crate::schedule::{Schedule, ScheduleError};
use crate::thread::ThreadAxis;
use crate::{
    BinOp, Buffer, CmpOp, DType, Expr, ExprKind, Intrin, Param, PrimFunc, Scope, Stmt, Var,
};

/// The value of an element, from those before it.
type Element = Box<dyn Fn(&FuncBuilder, &[Expr]) -> Expr>;

/// The tensor that a stage computes.
#[derive(Clone, Copy)]
enum Role {
    Intermediate,
    Output,
}

struct Generator<'u, 'b> {
    u: &'u mut Unstructured<'b>,
    f: FuncBuilder,
    dtype: DType,
    /// Tensors so far with their shapes.
    tensors: Vec<(Buffer, Vec<Expr>)>,
}

/// A function of one to five stages over tensors of up to three dimensions, the first of which
/// may be symbolic. It computes in one of `types`.
pub fn func(u: &mut Unstructured<'_>, types: &[DType]) -> Result<PrimFunc> {
    let dtype = *u.choose(types)?;
    let mut f = FuncBuilder::new("generated");
    let symbol = f.symbol("n");
    let mut shape: Vec<Expr> = vec![];
    for at in 0..u.int_in_range(1..=3)? {
        let symbolic = at == 0 && u.ratio(1, 3)?;
        shape.push(if symbolic { symbol.clone() } else { u.int_in_range(1..=7i64)?.into() });
    }
    let x = f.input("x", dtype, shape.clone());
    let mut g = Generator { u, f, dtype, tensors: vec![(x, shape)] };
    let stages = g.u.int_in_range(1..=5)?;
    for at in 0..stages {
        let role = if at + 1 == stages { Role::Output } else { Role::Intermediate };
        g.stage(&format!("stage{at}"), role)?;
    }
    Ok(g.f.finish())
}

impl Generator<'_, '_> {
    fn constant(&mut self) -> Result<Expr> {
        Ok(Expr::constant(f64::from(self.u.int_in_range(-3..=3i8)?), self.dtype))
    }

    fn stage(&mut self, name: &str, role: Role) -> Result<()> {
        let (x, shape) = self.u.choose(&self.tensors)?.clone();
        match self.u.int_in_range(0..=6)? {
            0 => self.reduction(name, role, x, shape),
            1 => self.matmul(name, role, x, shape),
            2 => {
                let turned: Vec<Expr> = shape.iter().rev().cloned().collect();
                self.map(name, role, turned, move |f, i| {
                    f.at(x, &i.iter().rev().cloned().collect::<Vec<_>>())
                })
            }
            3 => {
                let count = shape.iter().fold(Expr::i64(1), |n, d| n * d.clone());
                self.map(name, role, vec![count], move |f, i| f.at(x, i))
            }
            4 => self.padding(name, role, x, shape),
            5 => self.binary(name, role, x, shape),
            _ => self.unary(name, role, x, shape),
        }
    }

    fn map(
        &mut self,
        name: &str,
        role: Role,
        shape: Vec<Expr>,
        value: impl Fn(&FuncBuilder, &[Expr]) -> Expr + 'static,
    ) -> Result<()> {
        let value: Element = Box::new(value);
        let buffer = format!("t_{name}");
        let made = match role {
            Role::Output => self.f.output(name, &buffer, self.dtype, shape.clone(), value),
            Role::Intermediate => self.f.stage(name, &buffer, self.dtype, shape.clone(), value),
        };
        self.tensors.push((made, shape));
        Ok(())
    }

    fn unary(&mut self, name: &str, role: Role, x: Buffer, shape: Vec<Expr>) -> Result<()> {
        let (c, which) = (self.constant()?, self.u.int_in_range(0..=4)?);
        // The one transcendental function; wider types have no polynomial of their own yet.
        let exp = self.dtype == DType::F32;
        self.map(name, role, shape, move |f, i| {
            let x = f.at(x, i);
            match which {
                0 => x * c.clone(),
                1 => x.max(c.clone()),
                2 if exp => Expr::call(Intrin::Exp, vec![x.min(c.clone())]),
                3 => Expr::select(Expr::compare(CmpOp::Lt, x.clone(), c.clone()), c.clone(), x),
                _ => Expr::call(Intrin::Abs, vec![x - c.clone()]),
            }
        })
    }

    fn binary(&mut self, name: &str, role: Role, x: Buffer, shape: Vec<Expr>) -> Result<()> {
        let same: Vec<Buffer> =
            self.tensors.iter().filter(|(_, s)| *s == shape).map(|(b, _)| *b).collect();
        // Either a tensor of the same shape or a new one that is broadcast along the front.
        let (y, skip) = match self.u.ratio(1, 2)? {
            true => (*self.u.choose(&same)?, 0),
            false => {
                let skip = self.u.int_in_range(0..=shape.len())?;
                let rest = shape[skip..].to_vec();
                (self.f.input(&format!("y_{name}"), self.dtype, rest), skip)
            }
        };
        let which = self.u.int_in_range(0..=2)?;
        self.map(name, role, shape, move |f, i| {
            let (x, y) = (f.at(x, i), f.at(y, &i[skip..]));
            match which {
                0 => x + y,
                1 => x * y,
                _ => x.max(y),
            }
        })
    }

    fn padding(&mut self, name: &str, role: Role, x: Buffer, shape: Vec<Expr>) -> Result<()> {
        let Some(end) = shape.last().cloned() else {
            return self.unary(name, role, x, shape);
        };
        let mut padded = shape.clone();
        let before = self.u.int_in_range(0..=2i64)?;
        let after = self.u.int_in_range(0..=2i64)?;
        padded[shape.len() - 1] = end.clone() + (before + after);
        let zero = Expr::constant(0.0, self.dtype);
        self.map(name, role, padded, move |f, i| {
            let mut at = i.to_vec();
            let moved = i[i.len() - 1].clone() - before;
            at[i.len() - 1] = moved.clone();
            let inside = moved.clone().ge(0).and(moved.lt(end.clone()));
            Expr::if_then_else(inside, f.at(x, &at), zero.clone())
        })
    }

    fn reduction(&mut self, name: &str, role: Role, x: Buffer, shape: Vec<Expr>) -> Result<()> {
        let Some((axis, rest)) = shape.split_last() else {
            return self.unary(name, role, x, shape);
        };
        let max = self.u.ratio(1, 3)?;
        let init = Expr::constant(if max { -9.0 } else { 0.0 }, self.dtype);
        let combine = move |a: Expr, b: Expr| if max { a.max(b) } else { a + b };
        let reducer = Reducer { init, combine: &combine };
        let value = move |f: &FuncBuilder, i: &[Expr], k: &[Expr]| f.at(x, &[i, k].concat());
        self.reduce(name, role, rest.to_vec(), axis.clone(), reducer, value)
    }

    fn matmul(&mut self, name: &str, role: Role, x: Buffer, shape: Vec<Expr>) -> Result<()> {
        let Some((k, rest)) = shape.split_last() else {
            return self.unary(name, role, x, shape);
        };
        let n = Expr::i64(self.u.int_in_range(1..=9)?);
        let w = self.f.input(&format!("w_{name}"), self.dtype, vec![k.clone(), n.clone()]);
        let mut out = rest.to_vec();
        out.push(n);
        let init = Expr::constant(0.0, self.dtype);
        let reducer = Reducer { init, combine: &|a, b| a + b };
        let value = move |f: &FuncBuilder, i: &[Expr], k: &[Expr]| {
            let (row, column) = i.split_at(i.len() - 1);
            f.at(x, &[row, k].concat()) * f.at(w, &[k, column].concat())
        };
        self.reduce(name, role, out, k.clone(), reducer, value)
    }

    fn reduce(
        &mut self,
        name: &str,
        role: Role,
        shape: Vec<Expr>,
        axis: Expr,
        reducer: Reducer<'_>,
        value: impl FnOnce(&FuncBuilder, &[Expr], &[Expr]) -> Expr,
    ) -> Result<()> {
        let (f, buffer, dtype) = (&mut self.f, format!("t_{name}"), self.dtype);
        let axes = [axis];
        let made = match role {
            Role::Output => {
                f.reduce_output(name, &buffer, dtype, shape.clone(), &axes, reducer, value)
            }
            Role::Intermediate => {
                f.reduce_stage(name, &buffer, dtype, shape.clone(), &axes, reducer, value)
            }
        };
        self.tensors.push((made, shape));
        Ok(())
    }
}

/// Arguments with random elements; symbolic dimensions get `symbol`. Outputs start as garbage,
/// so that an element that is not written shows.
pub fn arguments(u: &mut Unstructured<'_>, func: &PrimFunc, symbol: i64) -> Result<Vec<EvalArg>> {
    let inputs = func.params.len() - func.num_outputs;
    let dim = |e: &Expr| {
        let value = eval_expr(e, &|_| Some(Scalar::Int(symbol))).and_then(Scalar::as_int);
        value.expect("extents are sums and products")
    };
    let args = func.params.iter().enumerate().map(|(at, param)| {
        let Param::Buffer(b) = param else {
            return Ok(EvalArg::Scalar(Scalar::Int(symbol)));
        };
        let data = &func.buffers[*b];
        let shape: Vec<i64> = data.shape.iter().map(dim).collect();
        let mut seed: u32 = u.arbitrary()?;
        let mut element = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match (at < inputs, data.dtype.is_float()) {
                (false, true) => f64::NAN,
                (false, false) => 99.0,
                (true, true) => f64::from(seed >> 8) / f64::from(1 << 23) - 1.0,
                (true, false) => f64::from(seed >> 29) - 4.0,
            }
        };
        let values: Vec<f64> = (0..shape.iter().product::<i64>()).map(|_| element()).collect();
        let tensor = EvalTensor::from_f64(data.dtype, &shape, &values).expect("an evaluated type");
        Ok(EvalArg::Tensor(tensor))
    });
    args.collect()
}

/// Every loop, in program order.
pub fn loops_of(func: &PrimFunc) -> Vec<Var> {
    let mut loops = vec![];
    func.body.visit(&mut |s| {
        if let Stmt::For(l) = s {
            loops.push(l.var);
        }
    });
    loops
}

/// Up to `most` random primitives; what was done, and in parentheses what was refused.
pub fn steps(u: &mut Unstructured<'_>, s: &mut Schedule, most: u32) -> Result<Vec<String>> {
    let mut log = vec![];
    for _ in 0..u.int_in_range(1..=most)? {
        log.extend(step(u, s)?);
    }
    Ok(log)
}

/// Tries one random primitive that keeps every bit; tells what it did.
fn step(u: &mut Unstructured<'_>, s: &mut Schedule) -> Result<Option<String>> {
    let (loops, blocks) = (loops_of(s.func()), s.blocks());
    if loops.is_empty() || blocks.is_empty() {
        return Ok(None);
    }
    let at = *u.choose(&loops)?;
    let block = u.choose(&blocks)?.clone();
    let around = s.get_loops(&block).unwrap_or_default();
    let (what, done) = match u.ratio(1, 2)? {
        true => on_loop(u, s, at, &around)?,
        false => on_block(u, s, &block, at, &around)?,
    };
    Ok(Some(match done {
        Ok(()) => what,
        Err(why) => format!("  ({what}: {why})"),
    }))
}

type Tried = (String, std::result::Result<(), ScheduleError>);

fn on_loop(u: &mut Unstructured<'_>, s: &mut Schedule, at: Var, around: &[Var]) -> Result<Tried> {
    let factor = u.int_in_range(1..=6i64)?;
    Ok(match u.int_in_range(0..=15)? {
        0 | 1 => (format!("split {at} {factor}"), s.split(at, factor).map(|_| ())),
        2 => (format!("split_nparts {at} {factor}"), s.split_nparts(at, factor).map(|_| ())),
        3 if around.len() > 1 => {
            let first = u.choose_index(around.len() - 1)?;
            let pair = [around[first], around[first + 1]];
            (format!("fuse {pair:?}"), s.fuse(pair[0], pair[1]).map(|_| ()))
        }
        4 if around.len() > 1 => {
            let (a, b) = (*u.choose(around)?, *u.choose(around)?);
            (format!("reorder {a} {b}"), s.reorder(&[a, b]))
        }
        5 => (format!("vectorize {at}"), s.vectorize(at)),
        6 => (format!("unroll {at}"), s.unroll(at)),
        7 => {
            let extent = s.get_loop(at).map_or(Expr::i64(0), |l| l.extent.clone());
            let point = extent.floordiv(factor) * factor;
            (format!("partition {at} {factor}"), s.partition(at, point).map(|_| ()))
        }
        8 if !around.is_empty() => {
            let first = u.choose_index(around.len())?;
            let loops = &around[first..u.int_in_range(first + 1..=around.len())?];
            let sizes = loops.iter().map(|_| u.int_in_range(1..=5i64));
            let sizes = sizes.collect::<Result<Vec<_>>>()?;
            (format!("tile {loops:?} {sizes:?}"), s.tile(loops, &sizes).map(|_| ()))
        }
        9 => (format!("blockize {at}"), s.blockize(at).map(|_| ())),
        10 if around.len() > 1 => {
            let first = u.choose_index(around.len() - 1)?;
            let pair = [around[first], around[first + 1]];
            (format!("collapse_axes {pair:?}"), s.collapse_axes(pair[0], pair[1], "m").map(|_| ()))
        }
        13 => {
            let loops = loops_of(s.func());
            let after = loops.iter().position(|l| *l == at).map_or(0, |n| n + 1);
            let other = *u.choose(&loops[after.min(loops.len() - 1)..])?;
            (format!("fuse_adjacent {at} {other}"), s.fuse_adjacent(at, other))
        }
        15 => {
            let loops = loops_of(s.func());
            let others = [at, *u.choose(&loops)?, *u.choose(&loops)?];
            let others = &others[..u.int_in_range(2..=3)?];
            (format!("merge {others:?}"), s.merge(others).map(|_| ()))
        }
        14 => (format!("distribute_loops {at}"), s.distribute_loops(at)),
        11 | 12 => {
            let extents = abi::scalar_vars(s.func());
            let extent = match extents.is_empty() {
                true => Expr::i64(4),
                false => Expr::var(*u.choose(&extents)?),
            };
            let cond = Expr::compare(CmpOp::Ge, extent, factor.into());
            match u.ratio(1, 2)? {
                true => (format!("specialize {at}"), s.specialize(at, cond).map(|_| ())),
                false => (format!("parallel_if {at}"), s.parallel_if(at, &cond).map(|_| ())),
            }
        }
        _ => (format!("parallel {at}"), s.parallel(at)),
    })
}

fn on_block(
    u: &mut Unstructured<'_>,
    s: &mut Schedule,
    block: &str,
    at: Var,
    around: &[Var],
) -> Result<Tried> {
    let scope = *u.choose(&[Scope::Global, Scope::Local])?;
    let reads = s.get_block(block).map_or(vec![], |b| b.reads.clone());
    Ok(match u.int_in_range(0..=19)? {
        0 => (format!("compute_at {block} {at}"), s.compute_at(block, at)),
        1 => (format!("reverse_compute_at {block} {at}"), s.reverse_compute_at(block, at)),
        2 => (format!("cache_write {block}"), s.cache_write(block, scope).map(|_| ())),
        3 if !reads.is_empty() => {
            let b = u.choose(&reads)?.buffer;
            (format!("cache_read {block} {b}"), s.cache_read(block, b, scope).map(|_| ()))
        }
        4 if !around.is_empty() => {
            let at = *u.choose(around)?;
            let done = s.decompose_reduction(block, at).map(|_| ());
            (format!("decompose_reduction {block} {at}"), done)
        }
        5 => (format!("compute_inline {block}"), s.compute_inline(block)),
        6 => (format!("reverse_compute_inline {block}"), s.reverse_compute_inline(block)),
        7 => (format!("set_scope {block} {scope:?}"), s.set_scope(block, scope)),
        8 => {
            let (axis, factor) = (u.int_in_range(0..=1usize)?, u.int_in_range(1..=8i64)?);
            let offset = u.int_in_range(0..=factor - 1)?;
            let done = s.storage_align(block, axis, factor, offset);
            (format!("storage_align {block} {axis} {factor} {offset}"), done)
        }
        9 => {
            let count = s.get_block(block).map_or(0, |b| b.iters.len());
            let multiples = (0..count).map(|_| u.int_in_range(1..=5i64));
            let multiples = multiples.collect::<Result<Vec<_>>>()?;
            let done = s.pad_einsum(block, &multiples).map(|_| ());
            (format!("pad_einsum {block} {multiples:?}"), done)
        }
        10 => turn_layout(u, s, block)?,
        11 => (format!("store_at {block} {at} {scope:?}"), s.store_at(block, at, scope)),
        12 if !around.is_empty() => {
            let at = *u.choose(around)?;
            let done = s.cache_write_at(block, at, scope).map(|_| ());
            (format!("cache_write_at {block} {at} {scope:?}"), done)
        }
        13 if !around.is_empty() => {
            let at = *u.choose(around)?;
            (format!("unroll_and_jam {block} {at}"), s.unroll_and_jam(block, at))
        }
        14 if !around.is_empty() && !reads.is_empty() => {
            let (at, b) = (*u.choose(around)?, u.choose(&reads)?.buffer);
            let done = s.cache_read_at(block, b, at, scope).map(|_| ());
            (format!("cache_read_at {block} {b} {at} {scope:?}"), done)
        }
        16 if !around.is_empty() => {
            let at = *u.choose(around)?;
            let done = s.decompose_padding(block, at).map(|_| ());
            (format!("decompose_padding {block} {at}"), done)
        }
        17 if !reads.is_empty() => {
            let b = u.choose(&reads)?.buffer;
            (format!("reindex_read {block} {b}"), s.reindex_read(block, b, scope).map(|_| ()))
        }
        18 => (format!("reindex_write {block}"), s.reindex_write(block, scope).map(|_| ())),
        19 => {
            let mut order: Vec<usize> =
                (0..s.get_block(block).map_or(0, |b| b.iters.len())).collect();
            for at in (1..order.len()).rev() {
                order.swap(at, u.int_in_range(0..=at)?);
            }
            let done = s.reorder_block_iters(block, &order);
            (format!("reorder_block_iters {block} {order:?}"), done)
        }
        _ if !around.is_empty() && keeps_bits_in_parts(s, block) => {
            reduce_in_parts(u, s, block, around)?
        }
        _ => (format!("annotate {block}"), s.annotate_block(block, "note", "1")),
    })
}

/// `rfactor`, and a step of a tree reduction of its parts half of the time.
fn reduce_in_parts(
    u: &mut Unstructured<'_>,
    s: &mut Schedule,
    block: &str,
    around: &[Var],
) -> Result<Tried> {
    let at = *u.choose(around)?;
    let done = s.rfactor(block, at).map(|_| ());
    let parts = s.get_loops(block).unwrap_or_default().last().copied();
    Ok(match parts.filter(|_| done.is_ok()) {
        Some(l) if u.ratio(1, 2)? && s.tree_reduce(block, l).is_ok() => {
            (format!("tree_reduce {block} {at}"), done)
        }
        _ => (format!("rfactor {block} {at}"), done),
    })
}

/// Gives the intermediate that a block writes another arrangement: its dimensions turned around,
/// or the last one in rows of its own.
fn turn_layout(u: &mut Unstructured<'_>, s: &mut Schedule, block: &str) -> Result<Tried> {
    let written = s.get_block(block).ok().and_then(|b| Some(b.writes.first()?.buffer));
    let Some(buffer) = written.filter(|b| s.func().allocs.contains(b)) else {
        return Ok((format!("annotate {block}"), s.annotate_block(block, "note", "2")));
    };
    let shape = s.func().buffers[buffer].shape.clone();
    let width = u.int_in_range(2..=4i64)?;
    let done = match (u.ratio(1, 2)?, shape.split_last()) {
        (true, Some((last, rest))) => {
            let mut to = rest.to_vec();
            to.extend([last.clone().ceildiv(width), Expr::i64(width)]);
            s.transform_layout(buffer, to, &|at| {
                let (last, rest) = at.split_last().expect("one index per dimension");
                let mut at = rest.to_vec();
                at.extend([last.clone().floordiv(width), last.clone().floormod(width)]);
                at
            })
        }
        _ => {
            let to = shape.iter().rev().cloned().collect();
            s.transform_layout(buffer, to, &|at| at.iter().rev().cloned().collect())
        }
    };
    Ok((format!("transform_layout {buffer} {width}"), done))
}

/// Whether a block's reduction may be done in parts without changing a bit.
fn keeps_bits_in_parts(s: &Schedule, block: &str) -> bool {
    let Ok(Stmt::Store { value, .. }) = s.get_block(block).map(|b| &b.body) else { return false };
    let extreme = matches!(value.kind(), ExprKind::Binary { op: BinOp::Min | BinOp::Max, .. });
    extreme || !value.dtype().is_float()
}

/// Binds some loops to thread axes, which only targets with such axes take.
pub fn bindings(u: &mut Unstructured<'_>, s: &mut Schedule) -> Result<Vec<String>> {
    let mut log = vec![];
    for at in loops_of(s.func()) {
        if u.ratio(1, 3)? {
            let axis = *u.choose(&ThreadAxis::ALL)?;
            log.push(match s.bind(at, axis) {
                Ok(()) => format!("bind {at} {axis}"),
                Err(why) => format!("  (bind {at} {axis}: {why})"),
            });
        }
    }
    Ok(log)
}
