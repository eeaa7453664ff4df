//! The block of an attention's launch.

use reflex_tir::arith::Analyzer;
use reflex_tir::thread::BarrierScope;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Intrin, Scope, Stmt};

use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::attention::combine::{Parts, exponent_base};
use crate::schedule::gpu::attention::pattern::Pattern;
use crate::schedule::gpu::attention::products::{Rows, scores, weighted};
use crate::schedule::gpu::attention::tile::{Size, Tile};
use crate::schedule::gpu::attention::tiling::Tiling;
use crate::schedule::gpu::grid::{Grid, guarded, threads};
use crate::schedule::gpu::work::Work;

/// The longest loop over a row's threads that is unrolled.
const MOST_UNROLLED: i64 = 16;

/// An attention's launch.
pub struct Kernel<'p> {
    pattern: &'p Pattern,
    tiling: &'p Tiling,
    q: Tile,
    k: Tile,
    v: Tile,
    /// Weights of the tile's rows and keys.
    p: Rows,
    /// The parts of a maximum, or of a sum, that each of a row's threads has.
    row: Buffer,
    registers: Registers,
}

/// The registers of a thread.
struct Registers {
    scores: Buffer,
    results: Buffer,
    /// Of each row: the maximum so far, that of the tile's keys, the sum of weights of its own keys, and the factor that
    /// what is there already gets.
    most: Buffer,
    largest: Buffer,
    total: Buffer,
    factor: Buffer,
}

impl<'p> Kernel<'p> {
    /// The launch's memory.
    pub fn new(nest: &mut Nest<'_>, pattern: &'p Pattern, tiling: &'p Tiling) -> Kernel<'p> {
        let Tiling { rows, keys, operands, weights, unit, .. } = *tiling;
        let Pattern { row, key, depth, column, .. } = pattern;
        let width = tiling.depth(depth.extent.as_int().expect("it is known"));
        let whole_rows = row.extent.as_int().is_some_and(|n| n % rows == 0);
        let whole = tiling.has_whole_keys(&key.extent);
        let of = |value: &Expr| (stored(value, operands), operands);
        let size = Size { rows, width, whole: whole_rows };
        let q = Tile::new(nest, "q_tile", of(&pattern.q), [row, depth], size);
        let size = Size { rows: keys, width, whole: false };
        let k = Tile::new(nest, "k_tile", of(&pattern.k), [key, depth], size);
        let size = Size { rows: keys, width: tiling.results.columns(), whole };
        let v = Tile::new(nest, "v_tile", of(&pattern.v), [key, column], size);
        let stride = tiling.weights_stride();
        let mut shared = |name, dtype, shape: [i64; 2]| {
            nest.func.new_buffer(name, dtype, shape.map(Expr::i64).to_vec(), Scope::Shared)
        };
        let p = Rows { buffer: shared("p_tile", weights, [rows, stride]), dtype: weights, stride };
        let row = shared("of_row", DType::F32, [rows, unit.slots()]);
        let mut of_rows = |name| nest.local(name, DType::F32, &[tiling.scores.rows]);
        let [most, largest, total, factor] =
            ["most", "largest", "total", "factor"].map(&mut of_rows);
        let scores = tiling.scores.local(nest, "scores");
        let results = tiling.results.local(nest, "results");
        let registers = Registers { scores, results, most, largest, total, factor };
        Kernel { pattern, tiling, q, k, v, p, row, registers }
    }

    /// The launch, which stores results, or those of parts of the keys.
    pub fn launch(&self, nest: &mut Nest<'_>, parts: Option<&Parts>, work: &Work) -> Stmt {
        let grid = Grid {
            batch: &self.pattern.batch,
            rows: self.pattern.row.extent.clone(),
            columns: self.tiling.parts.into(),
            tile: [self.tiling.rows, 1],
        };
        let shared =
            [self.q.buffer, self.k.buffer, self.v.buffer, self.p.buffer, self.row].to_vec();
        grid.launch(nest, &shared, |nest, y, part| {
            let first = y.clone() * self.tiling.rows;
            threads(nest, self.tiling.unit.block(), &mut |nest, ty, tx| {
                let thread = [&ty, &tx];
                let start = self.start(nest);
                let sums = self.over_keys(nest, &first, part, thread);
                let total = self.add_totals(nest, thread);
                let stored = match parts {
                    None => self.store(nest, &first, thread, work),
                    Some(parts) => self.store_parts(nest, &first, thread, (part, parts)),
                };
                let body = Stmt::Seq(vec![start, sums, total, stored]);
                let Registers { scores, results, most, largest, total, factor } = self.registers;
                [scores, results, most, largest, total, factor]
                    .iter()
                    .fold(body, |body, b| Stmt::Allocate { buffer: *b, body: Box::new(body) })
            })
        })
    }

    /// The state before the first key.
    fn start(&self, nest: &mut Nest<'_>) -> Stmt {
        let Registers { most, total, results, .. } = self.registers;
        let lowest = Expr::float(f64::NEG_INFINITY, DType::F32);
        let zero = || Expr::float(0.0, DType::F32);
        let rows = self.each_row(nest, &mut |_, i| {
            let most = Stmt::store(most, vec![i.clone()], lowest.clone());
            Stmt::Seq(vec![most, Stmt::store(total, vec![i], zero())])
        });
        let share = &self.tiling.results;
        let all = share
            .each(nest, &mut |_, i, v, l| Stmt::store(results, share.index(&i, &v, &l), zero()));
        Stmt::Seq(vec![rows, all])
    }

    /// The tiles of a part of the keys.
    fn over_keys(
        &self,
        nest: &mut Nest<'_>,
        first: &Expr,
        part: &Expr,
        thread: [&Expr; 2],
    ) -> Stmt {
        let Tiling { keys, unit, scores: share, .. } = self.tiling;
        let block = unit.block();
        let tiles = self.tiling.tiles_of_part(&self.pattern.key.extent);
        let tiles = Analyzer::new().simplify(&tiles);
        let key = |t: Expr| (part.clone() * tiles.clone() + t) * *keys;
        let queries = self.q.fill(nest, block, first);
        let before = self.k.fill(nest, block, &key(Expr::i64(0)));
        let sums = nest.repeat(ForKind::Serial, "t", tiles.clone(), |nest, t| {
            let zero = share.each(nest, &mut |_, i, v, l| {
                let at = share.index(&i, &v, &l);
                Stmt::store(self.registers.scores, at, Expr::float(0.0, DType::F32))
            });
            let values = self.v.fill(nest, block, &key(t.clone()));
            let of = (share, self.registers.scores);
            let products = scores(nest, of, (&self.q, &self.k), thread);
            let scored = self.score(nest, first, &key(t.clone()), thread);
            let rescaled = self.rescale(nest, thread);
            let weights = self.weights(nest);
            // Behind the last tile that reads nothing.
            let next = match tiles.as_int() {
                Some(1) => Stmt::nop(),
                _ => self.k.fill(nest, block, &key(t + 1)),
            };
            let of = (&self.tiling.results, self.registers.results);
            let results = weighted(nest, of, (self.p, &self.v), *keys, thread);
            Stmt::Seq(vec![
                Stmt::Barrier(BarrierScope::Block),
                values,
                zero,
                products,
                scored,
                rescaled,
                weights,
                Stmt::Barrier(BarrierScope::Block),
                next,
                results,
            ])
        });
        Stmt::Seq(vec![queries, before, sums])
    }

    fn each_row(
        &self,
        nest: &mut Nest<'_>,
        body: &mut dyn FnMut(&mut Nest<'_>, Expr) -> Stmt,
    ) -> Stmt {
        nest.repeat(ForKind::Unrolled, "i", self.tiling.scores.rows, body)
    }

    /// Makes scores of products, and finds the largest of each row.
    fn score(
        &self,
        nest: &mut Nest<'_>,
        first: &Expr,
        first_key: &Expr,
        thread: [&Expr; 2],
    ) -> Stmt {
        let Registers { scores, largest, .. } = self.registers;
        let share = &self.tiling.scores;
        let Pattern { row, key, .. } = self.pattern;
        let masked = self.pattern.is_masked();
        let whole_rows = row.extent.as_int().is_some_and(|n| n % self.tiling.rows == 0);
        let lowest = || Expr::float(f64::NEG_INFINITY, DType::F32);
        let start = self.each_row(nest, &mut |_, i| Stmt::store(largest, vec![i], lowest()));
        let all = share.each(nest, &mut |_, i, v, l| {
            let at = share.index(&i, &v, &l);
            let own_row = first.clone() + share.row(thread, &i);
            let own_key = first_key.clone() + share.column(thread, &v, &l);
            let product = Expr::load(scores, at.clone(), DType::F32);
            let score = self.pattern.score(&product, &own_row, &own_key);
            let mut inside = Expr::bool(true);
            if !self.tiling.has_whole_keys(&key.extent) {
                inside = inside.and(own_key.lt(key.extent.clone()));
            }
            if masked && !whole_rows {
                inside = inside.and(own_row.lt(row.extent.clone()));
            }
            let score = match inside.as_int() {
                Some(1) => score,
                _ => Expr::if_then_else(inside, score, lowest()),
            };
            let element = Expr::load(scores, at.clone(), DType::F32);
            let so_far = Expr::load(largest, vec![i.clone()], DType::F32);
            let larger = Stmt::store(largest, vec![i], so_far.max(element));
            Stmt::Seq(vec![Stmt::store(scores, at, score), larger])
        });
        Stmt::Seq(vec![start, all])
    }

    /// Lets all threads of a row know what each has.
    fn share_of_row(&self, nest: &mut Nest<'_>, own: Buffer) -> Stmt {
        let (unit, rows) = (self.tiling.unit, self.tiling.scores.rows);
        threads(nest, unit.block(), &mut |nest, ty, tx| {
            self.each_row(nest, &mut |_, i| {
                let at = vec![unit.row([&ty, &tx], rows, &i), unit.slot(&tx)];
                Stmt::store(self.row, at, Expr::load(own, vec![i], DType::F32))
            })
        })
    }

    /// The parts that the `i`-th row's threads have, as `body` takes them one by one.
    fn of_row(
        &self,
        nest: &mut Nest<'_>,
        thread: [&Expr; 2],
        i: &Expr,
        body: &mut dyn FnMut(Expr) -> Stmt,
    ) -> Stmt {
        let (row, slots) = (self.tiling.scores.row(thread, i), self.tiling.unit.slots());
        let kind = if slots <= MOST_UNROLLED { ForKind::Unrolled } else { ForKind::Serial };
        nest.repeat(kind, "s", slots, |_, s| body(Expr::load(self.row, vec![row, s], DType::F32)))
    }

    /// The maxima with this tile, and what was summed before in terms of them.
    fn rescale(&self, nest: &mut Nest<'_>, thread: [&Expr; 2]) -> Stmt {
        let Registers { most, largest, total, factor, results, .. } = self.registers;
        let load = |b: Buffer, i: &Expr| Expr::load(b, vec![i.clone()], DType::F32);
        let known = self.share_of_row(nest, largest);
        let rows = self.each_row(nest, &mut |nest, i| {
            let own = Stmt::store(largest, vec![i.clone()], load(most, &i));
            let larger = self.of_row(nest, thread, &i, &mut |other| {
                Stmt::store(largest, vec![i.clone()], load(largest, &i).max(other))
            });
            let shifted = load(most, &i) - exponent_base(load(largest, &i));
            let by = Stmt::store(factor, vec![i.clone()], Expr::call(Intrin::Exp, vec![shifted]));
            let new = Stmt::store(most, vec![i.clone()], load(largest, &i));
            let scaled = load(total, &i) * load(factor, &i);
            Stmt::Seq(vec![own, larger, by, new, Stmt::store(total, vec![i], scaled)])
        });
        let share = &self.tiling.results;
        let scaled = share.each(nest, &mut |_, i, v, l| {
            let at = share.index(&i, &v, &l);
            let value = Expr::load(results, at.clone(), DType::F32) * load(factor, &i);
            Stmt::store(results, at, value)
        });
        Stmt::Seq(vec![known, rows, scaled])
    }

    /// Weights of scores, and their sum; all threads get them from shared memory.
    fn weights(&self, nest: &mut Nest<'_>) -> Stmt {
        let Registers { scores, most, total, .. } = self.registers;
        let load = |b: Buffer, i: &Expr| Expr::load(b, vec![i.clone()], DType::F32);
        let share = &self.tiling.scores;
        let weights = share.each(nest, &mut |_, i, v, l| {
            let at = share.index(&i, &v, &l);
            let score = Expr::load(scores, at.clone(), DType::F32);
            let weight = Expr::call(Intrin::Exp, vec![score - exponent_base(load(most, &i))]);
            let weight = Stmt::store(scores, at.clone(), weight);
            let sum = load(total, &i) + Expr::load(scores, at, DType::F32);
            Stmt::Seq(vec![weight, Stmt::store(total, vec![i], sum)])
        });
        let stored = threads(nest, self.tiling.unit.block(), &mut |nest, ty, tx| {
            let thread = [&ty, &tx];
            nest.repeat(ForKind::Unrolled, "i", share.rows, |nest, i| {
                nest.repeat(ForKind::Unrolled, "v", share.vectors, |nest, v| {
                    nest.lanes_of(share.lanes, |_, l| {
                        let at = share.index(&i, &v, &l);
                        let weight = Expr::load(scores, at, DType::F32).cast(self.p.dtype);
                        let place = vec![share.row(thread, &i), share.column(thread, &v, &l)];
                        Stmt::store(self.p.buffer, place, weight)
                    })
                })
            })
        });
        Stmt::Seq(vec![weights, stored])
    }

    /// The sum of a row's weights from those of its threads, in their order.
    fn add_totals(&self, nest: &mut Nest<'_>, thread: [&Expr; 2]) -> Stmt {
        let total = self.registers.total;
        let known = self.share_of_row(nest, total);
        let rows = self.each_row(nest, &mut |nest, i| {
            let start = Stmt::store(total, vec![i.clone()], Expr::float(0.0, DType::F32));
            let sum = self.of_row(nest, thread, &i, &mut |other| {
                let sum = Expr::load(total, vec![i.clone()], DType::F32) + other;
                Stmt::store(total, vec![i.clone()], sum)
            });
            Stmt::Seq(vec![start, sum])
        });
        Stmt::Seq(vec![known, rows])
    }

    /// Stores results with their epilogue.
    fn store(&self, nest: &mut Nest<'_>, first: &Expr, thread: [&Expr; 2], work: &Work) -> Stmt {
        let Pattern { row, column, .. } = self.pattern;
        let total = self.registers.total;
        self.each_result(nest, first, thread, &|i, own_row, own_column, result| {
            let result = result / Expr::load(total, vec![i], DType::F32);
            let (buffer, indices, value) = work.placed(result, &|v| match v {
                v if v == row.var => Some(own_row.clone()),
                v if v == column.var => Some(own_column.clone()),
                _ => None,
            });
            Stmt::store(buffer, indices, value)
        })
    }

    /// Stores results of a part of the keys, with the maximum and the sum of weights that they are in terms of.
    fn store_parts(
        &self,
        nest: &mut Nest<'_>,
        first: &Expr,
        thread: [&Expr; 2],
        (part, parts): (&Expr, &Parts),
    ) -> Stmt {
        let matrix = parts.matrix(self.pattern);
        let place = |row: &Expr| vec![part.clone(), matrix.clone(), row.clone()];
        let results = self.each_result(nest, first, thread, &|_, row, column, result| {
            let at = [place(&row), vec![column]].concat();
            Stmt::store(parts.results, at, result)
        });
        let slot = self.tiling.unit.slot(thread[1]);
        let of_rows = self.each_row(nest, &mut |_, i| {
            let row = first.clone() + self.tiling.scores.row(thread, &i);
            let Registers { most, total, .. } = self.registers;
            let [most, total] = [most, total].map(|b| Expr::load(b, vec![i.clone()], DType::F32));
            let most = Stmt::store(parts.most, place(&row), most);
            let total = Stmt::store(parts.total, place(&row), total);
            let inside = slot.clone().equal(0).and(row.lt(self.pattern.row.extent.clone()));
            guarded(inside, Stmt::Seq(vec![most, total]))
        });
        Stmt::Seq(vec![results, of_rows])
    }

    /// `body` for each result inside: the number of its row in the thread, its row and column, its value.
    fn each_result(
        &self,
        nest: &mut Nest<'_>,
        first: &Expr,
        thread: [&Expr; 2],
        body: &dyn Fn(Expr, Expr, Expr, Expr) -> Stmt,
    ) -> Stmt {
        let share = &self.tiling.results;
        let Pattern { row, column, .. } = self.pattern;
        let whole = column.extent.as_int().is_some_and(|n| n % share.lanes == 0);
        let (lanes, vectors) = match whole {
            true => (share.lanes, share.vectors),
            false => (1, share.vectors * share.lanes),
        };
        nest.repeat(ForKind::Unrolled, "i", share.rows, |nest, i| {
            nest.repeat(ForKind::Unrolled, "v", vectors, |nest, n| {
                let (v, l) = match whole {
                    true => (n, Expr::i64(0)),
                    false => (n.clone().floordiv(share.lanes), n.floormod(share.lanes)),
                };
                let own_row = first.clone() + share.row(thread, &i);
                let own_column = share.column(thread, &v, &l);
                let inside = own_row.clone().lt(row.extent.clone());
                let inside = inside.and(own_column.lt(column.extent.clone()));
                let stores = nest.lanes_of(lanes, |_, lane| {
                    let l = l + lane;
                    let result = share.index(&i, &v, &l);
                    let result = Expr::load(self.registers.results, result, DType::F32);
                    body(i.clone(), own_row, share.column(thread, &v, &l), result)
                });
                guarded(inside, stores)
            })
        })
    }
}

/// An operand's element in the type that it has in shared memory.
fn stored(value: &Expr, dtype: DType) -> Expr {
    match value.kind() {
        ExprKind::Cast { value, .. } if value.dtype() == dtype => value.clone(),
        _ => value.clone().cast(dtype),
    }
}
