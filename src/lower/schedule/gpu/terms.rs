//! Contractions of float32 on tensor cores, by split-bf16 (bf16x6, or bf16x3), where the precision allows it.
//!
//! ```text
//! for by, bx in blocks:                       tiles of 128 x 64 results
//!     for ty, tx in threads(2, 128):          a warpgroup for each ty
//!         acc = 0; part = 0
//!         for k0 in steps of 64:              two buffers of three terms: one is filled while the other is multiplied
//!             acc += part; part = 0
//!             part += a1 b1 + a2 b0 + a0 b2 + a1 b0 + a0 b1 + a0 b0
//!             x = the elements of the next tiles; least = min(least, |x| but 0)
//!             a0 = bf16(x); a1 = bf16(x - a0); a2 = bf16(x - a0 - a1)
//!         acc += part
//!         if a thread of the block has an element that is no sum of its terms, or a result that is not finite:
//!             y[..] = the sums in float32, in order
//!         else:
//!             y[..] = acc
//! ```
//!
//! Three terms of 8 bits are all of a float32's 24 from 2^-110 on, below which the last one may be smaller than
//! bfloat16's least. The products that are left out are within 2^-23 of the whole one. Tensor cores round towards zero,
//! which biases long sums: so those of [`PANEL`] steps are added outside, to nearest, and small products come
//! first, so that they are not cut. What the terms cannot do shows in the block that meets it, which computes its
//! tile again as the naive kernel does: elements below 2^-110, infinities, NaN, sums and terms that overflow.
//!
//! Sources: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
//! performance" (IJHPCA 2022); Henry, Tang and Heinecke (ARITH 2019).
//!
//! Decision: docs/decisions/0106-terms-on-tensor-cores.md

use reflex_tir::mma::{PANEL, VECTOR};
use reflex_tir::{BinOp, Buffer, DType, Expr, ForKind, Intrin, Scope, Stmt};

use crate::precision::SPLIT_BF16_ATTR;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::gemm::{Position, Product};
use crate::schedule::gpu::grid::{Grid, count, guarded, threads};
use crate::schedule::gpu::pipelined::Pipelined;
use crate::schedule::gpu::tensor_core::{
    Kernel, Operands, Source, Tiling, has_warpgroups, warpgroups,
};
use crate::schedule::gpu::work::Work;

/// The largest first. Two buffers of three terms of 128 x 64 x 64 are 144 KiB. Warpgroups of 64 x 128 would have two sums of 64
/// registers each, and the assembler spills.
const TILINGS: [Tiling; 2] =
    [warpgroups([128, 64], BUFFERS, 240), warpgroups([64, 64], BUFFERS, 200)];
const BUFFERS: usize = 2;

/// The fewest steps: below, float32's own sums have no larger errors than those of tensor cores.
const LEAST_STEPS: i64 = 256;

/// The smallest element, but 0, that is the sum of its terms: its last bit is bfloat16's smallest number.
const LEAST: f32 = 1.0 / (1_u128 << 110) as f32;

/// Instructions for a term of eight elements: conversions of pairs and what is left, a store, and a third of two loads and a look at
/// each.
const SPLIT: i64 = 4 + 4 * 4 + 1 + 9;

/// Flags that a thread reads at once.
const FLAGS: i64 = 4;

/// Results that a thread computes at once where terms cannot: two rows of two columns.
const AT_ONCE: i64 = 4;

/// Terms of an element.
const TERMS: usize = 3;
/// The products, the smallest first: a term of each operand.
const PRODUCTS: [(usize, usize); 6] = [(1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)];

/// The launch of a contraction of float32, with its epilogue where results are stored.
pub fn terms(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    if nest.func.attrs.get(SPLIT_BF16_ATTR).is_none_or(|n| n != "6") {
        return Err(Refusal::Precision);
    }
    if !has_warpgroups(nest.target) {
        return Err(Refusal::NoWarpgroups);
    }
    let product = Product::of(nest, &work.stage)?;
    if count(&work.stage.reduce).as_int().is_none_or(|steps| steps < LEAST_STEPS) {
        return Err(Refusal::TooSmall);
    }
    let operands = Operands {
        element: 4,
        terms: TERMS as i64,
        passes: PRODUCTS.len() as i64,
        instructions: SPLIT * TERMS as i64,
    };
    let tiling = Tiling::among(&product, nest.target, &TILINGS, operands);
    let source = |operand, own, side| Source::of_terms(&product, operand, own, (tiling, side));
    let sources =
        [source(&product.a, &product.rows[..], 0)?, source(&product.b, &product.columns[..], 1)?];
    let [rows, columns] = tiling.tile;
    nest.steps.push(format!(
        "{}: tensor cores by {} products of terms, tiles of {rows} x {columns} in shared memory, {PANEL} steps at once; {}",
        work.stage.name,
        PRODUCTS.len(),
        tiling.note(&product, nest.target, operands),
    ));
    let mut shared = |source: &Source<'_>, name: String| {
        let shape = source.shape().map(Expr::i64).to_vec();
        nest.func.new_buffer(&name, DType::BF16, shape, Scope::Shared)
    };
    let tiles: Vec<[Vec<Buffer>; 2]> = (0..tiling.stages)
        .map(|_| {
            let mut of = |side: usize, name| {
                (0..TERMS).map(|t| shared(&sources[side], format!("{name}{t}"))).collect()
            };
            [of(0, "a"), of(1, "b")]
        })
        .collect();
    let [teams, threads] = tiling.block();
    let shape = vec![Expr::i64(teams * threads)];
    let flags = nest.func.new_buffer("flags", DType::I32, shape, Scope::Shared);
    let results = [1, 1, tiling.team.each()];
    let terms = Terms {
        part: nest.local("part", DType::F32, &results),
        rest: nest.local("rest", DType::F32, &[VECTOR]),
        least: nest.local("least", DType::U32, &[]),
        most: nest.local("most", DType::U32, &[]),
        any: nest.local("any", DType::I32, &[FLAGS]),
        sums: nest.local("sums", DType::F32, &[AT_ONCE]),
        kernel: Kernel {
            work,
            product: &product,
            tiling,
            sources,
            acc: nest.local("acc", DType::F32, &results),
            next: [None; 2],
        },
        tiles: &tiles,
        flags,
    };
    let grid = Grid {
        batch: &product.batch,
        rows: count(&product.rows),
        columns: count(&product.columns),
        tile: tiling.tile,
    };
    let mut shared = tiles.iter().flatten().flatten().copied().collect::<Vec<_>>();
    shared.push(flags);
    Ok(grid.launch(nest, &shared, |nest, y, x| terms.block(nest, [y, x])))
}

struct Terms<'p> {
    kernel: Kernel<'p>,
    /// For each buffer, the terms of both operands.
    tiles: &'p [[Vec<Buffer>; 2]],
    /// The sum of a group of steps.
    part: Buffer,
    /// The rest of elements that are split.
    rest: Buffer,
    /// The least element that a thread has split, but 0, less one as bits.
    least: Buffer,
    /// The largest of its results, as bits.
    most: Buffer,
    /// For each thread, whether terms do not do.
    flags: Buffer,
    any: Buffer,
    sums: Buffer,
}

impl Terms<'_> {
    /// The statement of the block of a row tile and a column tile.
    fn block(&self, nest: &mut Nest<'_>, at: [&Expr; 2]) -> Stmt {
        let Terms { kernel, .. } = self;
        let firsts = [0, 1].map(|side| at[side].clone() * kernel.tiling.tile[side]);
        threads(nest, kernel.tiling.block(), &mut |nest, ty, tx| {
            let origin = kernel.origin(&ty);
            let multiply = |nest: &mut Nest<'_>, s: usize| {
                let mut all = vec![self.add(nest)];
                for (a, b) in &PRODUCTS {
                    let tiles = [self.tiles[s][0][*a], self.tiles[s][1][*b]];
                    all.push(kernel.multiply(nest, self.part, tiles, &origin, &tx));
                }
                Stmt::Seq(all)
            };
            let split =
                |nest: &mut Nest<'_>, s: usize, group: Expr| self.split(nest, s, &firsts, group);
            let parts = Pipelined {
                stages: self.tiles.len(),
                copy: &split,
                load: &|_, _| Stmt::nop(),
                fill: &|_, _| Stmt::nop(),
                multiply: &multiply,
            };
            let groups = kernel.tiling.groups(kernel.product);
            let all = vec![
                self.start(nest),
                parts.reduce(nest, &groups),
                self.add(nest),
                self.flag(nest),
                Stmt::If {
                    cond: self.any_flag(),
                    then: Box::new(self.naive(nest, &firsts, &origin, &tx)),
                    otherwise: Some(Box::new(kernel.store(nest, &firsts, &origin, &tx))),
                },
            ];
            [kernel.acc, self.part, self.rest, self.least, self.most, self.any].into_iter().fold(
                Stmt::Seq(all),
                |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) },
            )
        })
    }

    /// Loops over a thread's results.
    fn results(&self, nest: &mut Nest<'_>, body: impl FnOnce(Vec<Expr>) -> Stmt) -> Stmt {
        nest.repeat(ForKind::Unrolled, "n", self.kernel.tiling.team.each(), |_, n| {
            body(vec![Expr::i64(0), Expr::i64(0), n])
        })
    }

    fn start(&self, nest: &mut Nest<'_>) -> Stmt {
        let init = self.kernel.product.stage.init.clone().expect("a contraction");
        let zero = Expr::float(0.0, DType::F32);
        let results = self.results(nest, |at| {
            Stmt::Seq(vec![
                Stmt::store(self.kernel.acc, at.clone(), init),
                Stmt::store(self.part, at, zero),
            ])
        });
        let none = Expr::int(u32::MAX.into(), DType::U32);
        Stmt::Seq(vec![results, Stmt::store(self.least, vec![], none)])
    }

    /// Adds the sum of a group to that of all, and begins another one.
    fn add(&self, nest: &mut Nest<'_>) -> Stmt {
        let (acc, part) = (self.kernel.acc, self.part);
        let load = |buffer, at: &[Expr]| Expr::load(buffer, at.to_vec(), DType::F32);
        self.results(nest, |at| {
            let sum = load(acc, &at) + load(part, &at);
            let zero = Stmt::store(part, at.clone(), Expr::float(0.0, DType::F32));
            Stmt::Seq(vec![Stmt::store(acc, at, sum), zero])
        })
    }

    /// Loads a group's elements, and stores their terms to buffer `s`.
    fn split(&self, nest: &mut Nest<'_>, s: usize, firsts: &[Expr; 2], group: Expr) -> Stmt {
        let (block, step) = (self.kernel.tiling.block(), group * PANEL);
        threads(nest, block, &mut |nest, ty, tx| {
            let thread = ty * block[1] + tx;
            let mut all = vec![];
            for (side, source) in self.kernel.sources.iter().enumerate() {
                all.push(self.kernel.each_access(nest, source, &thread, &mut |nest, n, _| {
                    let at = source.access(n);
                    self.split_access(nest, (source, &self.tiles[s][side]), n, &|lane| {
                        source.element(at.clone(), lane, &firsts[side], &step)
                    })
                }));
            }
            Stmt::Seq(all)
        })
    }

    /// Loads the elements of the `n`-th access of a tile, and stores their terms: one access after the other, since the sums
    /// leave few registers.
    fn split_access(
        &self,
        nest: &mut Nest<'_>,
        (source, terms): (&Source<'_>, &[Buffer]),
        n: &Expr,
        element: &dyn Fn(&Expr) -> Expr,
    ) -> Stmt {
        let rest = |lane: &Expr| Expr::load(self.rest, vec![lane.clone()], DType::F32);
        let store_rest = |lane: Expr, value: Expr| Stmt::store(self.rest, vec![lane], value);
        let mut all = vec![nest.lanes_of(source.vector, |_, l| store_rest(l.clone(), element(&l)))];
        all.push(nest.repeat(ForKind::Unrolled, "l", source.vector, |_, l| {
            let size = magnitude(rest(&l)) - Expr::int(1, DType::U32);
            let least = Expr::load(self.least, vec![], DType::U32);
            Stmt::store(self.least, vec![], Expr::binary(BinOp::Min, least, size))
        }));
        for (t, tile) in terms.iter().enumerate() {
            all.push(nest.lanes_of(source.vector, |_, l| {
                let term = rest(&l).cast(DType::BF16);
                let store = Stmt::store(*tile, source.place(n, l.clone()), term.clone());
                let left = rest(&l) - term.cast(DType::F32);
                match t + 1 < terms.len() {
                    true => Stmt::Seq(vec![store, store_rest(l, left)]),
                    false => store,
                }
            }));
        }
        Stmt::Seq(all)
    }

    /// Tells all threads whether terms do not do for this thread's elements or results.
    fn flag(&self, nest: &mut Nest<'_>) -> Stmt {
        let bits = |n: u32| Expr::int(n.into(), DType::U32);
        let (acc, block) = (self.kernel.acc, self.kernel.tiling.block());
        let most = Expr::load(self.most, vec![], DType::U32);
        let largest = self.results(nest, |at| {
            let size = magnitude(Expr::load(acc, at, DType::F32));
            Stmt::store(self.most, vec![], Expr::binary(BinOp::Max, most.clone(), size))
        });
        let too_large = most.ge(bits(f32::INFINITY.to_bits()));
        let least = Expr::load(self.least, vec![], DType::U32);
        let fails = too_large.or(least.lt(bits(LEAST.to_bits() - 1)));
        let store = threads(nest, block, &mut |_, ty, tx| {
            let at = vec![ty * block[1] + tx];
            Stmt::store(self.flags, at, fails.clone().cast(DType::I32))
        });
        let none = Expr::int(0, DType::I32);
        let clear = nest.lanes_of(FLAGS, |_, l| Stmt::store(self.any, vec![l], none));
        let look = nest.repeat(ForKind::Serial, "f", block[0] * block[1] / FLAGS, |nest, f| {
            nest.lanes_of(FLAGS, |_, l| {
                let any = Expr::load(self.any, vec![l.clone()], DType::I32);
                let flag = Expr::load(self.flags, vec![f * FLAGS + l.clone()], DType::I32);
                Stmt::store(self.any, vec![l], Expr::call(Intrin::BitOr, vec![any, flag]))
            })
        });
        Stmt::Seq(vec![Stmt::store(self.most, vec![], bits(0)), largest, store, clear, look])
    }

    fn any_flag(&self) -> Expr {
        let any = |l: i64| Expr::load(self.any, vec![l.into()], DType::I32);
        let all = (1..FLAGS).fold(any(0), |all, l| Expr::call(Intrin::BitOr, vec![all, any(l)]));
        all.gt(Expr::int(0, DType::I32))
    }

    /// The results of a thread in float32, each sum in order.
    fn naive(
        &self,
        nest: &mut Nest<'_>,
        firsts: &[Expr; 2],
        origin: &[Expr; 2],
        lane: &Expr,
    ) -> Stmt {
        let (kernel, stage) = (&self.kernel, self.kernel.product.stage);
        let sum = |n: &Expr| Expr::load(self.sums, vec![n.clone()], DType::F32);
        let groups = kernel.tiling.team.each() / AT_ONCE;
        nest.repeat(ForKind::Serial, "g", groups, |nest, g| {
            let position = |n: &Expr| -> Position {
                let n = g.clone() * AT_ONCE + n.clone();
                kernel.position(firsts, origin, lane, [&Expr::i64(0), &Expr::i64(0), &n])
            };
            let init = stage.init.clone().expect("a contraction");
            let start = nest.repeat(ForKind::Unrolled, "n", AT_ONCE, |_, n| {
                Stmt::store(self.sums, vec![n], init)
            });
            let steps = nest.repeat(ForKind::Serial, "k", count(&stage.reduce), |nest, k| {
                nest.repeat(ForKind::Unrolled, "n", AT_ONCE, |_, n| {
                    let (at, [a, b]) = (position(&n), &kernel.sources);
                    let (a, b) = (a.at((at.row, k.clone()), 0), b.at((at.column, k), 0));
                    let fma = Expr::call(Intrin::Fma, vec![a, b, sum(&n)]);
                    Stmt::store(self.sums, vec![n], fma)
                })
            });
            let stores = nest.repeat(ForKind::Unrolled, "n", AT_ONCE, |_, n| {
                let at = position(&n);
                guarded(kernel.is_inside(&at), kernel.store_result(&at, sum(&n)))
            });
            let body = Box::new(Stmt::Seq(vec![start, steps, stores]));
            Stmt::Allocate { buffer: self.sums, body }
        })
    }
}

/// The bits of a float32 without its sign.
fn magnitude(x: Expr) -> Expr {
    let mask = Expr::int((u32::MAX >> 1).into(), DType::U32);
    Expr::call(Intrin::BitAnd, vec![x.reinterpret(DType::U32), mask])
}
