//! The block of a product with few rows.

use reflex_tir::arith::Analyzer;
use reflex_tir::{Buffer, DType, Expr, ForKind, Intrin, Scope, Stmt};

use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::gemv::product::{Geometry, MatrixVector};
use crate::schedule::gpu::gemv::weights::neighbours;
use crate::schedule::gpu::grid::{Grid, count, decoded, guarded, threads};

/// Results of a thread that are reduced at once, so that partial sums fit in shared memory.
const AT_ONCE: i64 = 32;

/// A position in the result, and the part of the steps.
pub struct Position {
    pub part: Expr,
    pub row: Expr,
    pub column: Expr,
}

/// Where a result goes and as what.
pub type Store<'a> = &'a dyn Fn(&Position, Expr) -> (Buffer, Vec<Expr>, Expr);

/// The block of a launch.
pub struct Block<'p> {
    product: &'p MatrixVector<'p>,
    geometry: Geometry,
    /// Sums of each share, if there are several: of as many rows as are reduced at once.
    partial: Option<Buffer>,
    acc: Buffer,
    /// Loads of weights, for each of them an element for each access, column and step.
    weights: Vec<Buffer>,
    row: Buffer,
}

/// A thread of a block: the number of its share and of its columns in the block.
struct Thread {
    share: Expr,
    column: Expr,
}

impl<'p> Block<'p> {
    /// The launch's memory.
    pub fn new(
        nest: &mut Nest<'_>,
        product: &'p MatrixVector<'p>,
        geometry: Geometry,
    ) -> Block<'p> {
        let Geometry { shares, each, unrolled, .. } = geometry;
        let weights = &product.weights;
        let lanes = if weights.across { 1 } else { weights.vector };
        let mut local = |load: &Expr| nest.local("weights", load.dtype(), &[unrolled, each, lanes]);
        let loads = weights.loads.iter().map(&mut local).collect();
        let mut block = Block {
            product,
            geometry,
            partial: None,
            acc: nest.local("acc", DType::F32, &[product.height(), each]),
            weights: loads,
            row: nest.local("row", DType::F32, &[weights.steps]),
        };
        if shares > 1 {
            let (at_once, threads) = (block.rows_at_once(), geometry.threads());
            let shape = match product.weights.across {
                true => vec![shares, at_once, geometry.columns()],
                false => vec![at_once * each, threads, shares],
            };
            let shape = shape.into_iter().map(Expr::i64).collect();
            block.partial = Some(nest.func.new_buffer("partial", DType::F32, shape, Scope::Shared));
        }
        block
    }

    /// Rows whose sums are in shared memory at once.
    fn rows_at_once(&self) -> i64 {
        (AT_ONCE / self.geometry.each).clamp(1, self.product.height())
    }

    /// The launch, whose results go where `store` says.
    pub fn launch(&self, nest: &mut Nest<'_>, store: Store<'_>) -> Stmt {
        let MatrixVector { batch, columns, .. } = self.product;
        let parts = self.geometry.parts.into();
        let tile = [1, self.geometry.columns()];
        let grid = Grid { batch, rows: parts, columns: count(columns), tile };
        let shared: Vec<Buffer> = self.partial.into_iter().collect();
        grid.launch(nest, &shared, |nest, part, x| {
            let first = x.clone() * self.geometry.columns();
            self.threads(nest, 0, &mut |nest, thread| {
                let sums = self.sums(nest, part, &first, thread);
                let own = thread.column.clone() * self.geometry.each;
                let stored = match self.partial {
                    None => self.store_sums(nest, part, &(first.clone() + own), store),
                    Some(partial) => self.store_reduced(nest, partial, part, &first, store),
                };
                let body = Stmt::Seq(vec![sums, stored]);
                [self.acc]
                    .iter()
                    .chain(&self.weights)
                    .fold(body, |body, b| Stmt::Allocate { buffer: *b, body: Box::new(body) })
            })
        })
    }

    /// Loops over the block's threads; over those of the first `shares` shares where that is not 0.
    fn threads<'n>(
        &self,
        nest: &mut Nest<'n>,
        shares: i64,
        body: &mut dyn FnMut(&mut Nest<'n>, &Thread) -> Stmt,
    ) -> Stmt {
        let (all, columns) = (self.geometry.shares, self.geometry.threads());
        let shares = if shares == 0 { all } else { shares };
        match self.product.weights.across {
            true => threads(nest, [shares, columns], &mut |nest, share, column| {
                body(nest, &Thread { share, column })
            }),
            false => threads(nest, [columns, shares], &mut |nest, column, share| {
                body(nest, &Thread { share, column })
            }),
        }
    }

    /// The sums of a thread's share of the part's steps.
    fn sums(&self, nest: &mut Nest<'_>, part: &Expr, first: &Expr, thread: &Thread) -> Stmt {
        let Geometry { shares, each, unrolled, parts } = self.geometry;
        let (rows, steps) = (self.product.height(), count(&self.product.stage.reduce));
        let start = nest.repeat(ForKind::Unrolled, "m", rows, |nest, m| {
            nest.repeat(ForKind::Unrolled, "c", each, |_, c| {
                Stmt::store(self.acc, vec![m, c], Expr::constant(0.0, DType::F32))
            })
        });
        let column = first.clone() + thread.column.clone() * each;
        // Accesses of a column in a part: whole groups of steps, but in the last part.
        let width = shares * self.product.weights.steps;
        let group = width * unrolled;
        let analyzer = Analyzer::new();
        if parts > 1 {
            let groups = analyzer.simplify(&steps.ceildiv(group * parts));
            let sums = nest.repeat(ForKind::Serial, "k0", groups.clone(), |nest, k0| {
                let from = (part.clone() * groups + k0) * group;
                self.group(nest, thread, &column, &from, (unrolled, true))
            });
            return Stmt::Seq(vec![start, sums]);
        }
        let whole = analyzer.simplify(&steps.clone().floordiv(group));
        let sums = nest.repeat(ForKind::Serial, "k0", whole.clone(), |nest, k0| {
            self.group(nest, thread, &column, &(k0 * group), (unrolled, false))
        });
        let from = analyzer.simplify(&(whole * group));
        let rest = analyzer.simplify(&(steps - from.clone()));
        let left = match rest.as_int() {
            Some(0) => Stmt::nop(),
            Some(n) => {
                let at = (n.div_euclid(width) + i64::from(n % width != 0), n % width != 0);
                self.group(nest, thread, &column, &from, at)
            }
            None => {
                let accesses = analyzer.simplify(&rest.ceildiv(width));
                nest.repeat(ForKind::Serial, "k1", accesses, |nest, k1| {
                    self.group(nest, thread, &column, &(from + k1 * width), (1, shares > 1))
                })
            }
        };
        Stmt::Seq(vec![start, sums, left])
    }

    /// Adds the products of some accesses of a thread to each of its columns, from step `from` on: loads of
    /// weights first. `ends` says that steps may end before.
    fn group(
        &self,
        nest: &mut Nest<'_>,
        thread: &Thread,
        column: &Expr,
        from: &Expr,
        (accesses, ends): (i64, bool),
    ) -> Stmt {
        let Geometry { shares, each, .. } = self.geometry;
        let (along, across) = (self.product.weights.steps, self.product.weights.across);
        let step = |u: &Expr| from.clone() + (u.clone() * shares + thread.share.clone()) * along;
        let loads = nest.repeat(ForKind::Unrolled, "u", accesses, |nest, u| {
            let vectors = if across { 1 } else { each };
            nest.repeat(ForKind::Unrolled, "c", vectors, |nest, c| {
                let each_load = self.product.weights.loads.iter().zip(&self.weights);
                let loads = each_load.map(|(load, to)| {
                    nest.lanes_of(self.product.weights.vector, |_, lane| {
                        let at = match across {
                            true => vec![u.clone(), lane.clone(), Expr::i64(0)],
                            false => vec![u.clone(), c.clone(), lane.clone()],
                        };
                        let column = column.clone() + c.clone();
                        Stmt::store(*to, at, self.loaded(load, column, step(&u), lane, ends))
                    })
                });
                Stmt::Seq(loads.collect())
            })
        });
        let products = nest.repeat(ForKind::Unrolled, "u", accesses, |nest, u| {
            nest.repeat(ForKind::Unrolled, "m", self.product.height(), |nest, m| {
                let body = |_: &mut Nest<'_>, lane: Expr| {
                    let value = self.element(&m, step(&u), lane.clone(), ends);
                    Stmt::store(self.row, vec![lane], value)
                };
                let row = match self.product.x_in_vectors {
                    true => nest.lanes_of(along, body),
                    false => nest.repeat(ForKind::Unrolled, "l", along, body),
                };
                let fma = nest.repeat(ForKind::Unrolled, "c", each, |nest, c| {
                    nest.repeat(ForKind::Unrolled, "v", along, |_, v| {
                        let load = |b, at| Expr::load(b, at, DType::F32);
                        let weight = self.weight([&u, &c, &v], &step(&u));
                        let args = vec![
                            load(self.row, vec![v]),
                            weight.cast(DType::F32),
                            load(self.acc, vec![m.clone(), c.clone()]),
                        ];
                        Stmt::store(self.acc, vec![m.clone(), c], Expr::call(Intrin::Fma, args))
                    })
                });
                let body = Box::new(Stmt::Seq(vec![row, fma]));
                Stmt::Allocate { buffer: self.row, body }
            })
        });
        Stmt::Seq(vec![loads, products])
    }

    /// A load for the access of a column (or a vector of columns) at a step: of the `lane`-th column, or step, from there;
    /// 0 outside. Vectors are inside or outside.
    fn loaded(&self, load: &Expr, column: Expr, step: Expr, lane: Expr, ends: bool) -> Expr {
        let MatrixVector { columns, stage, weights, .. } = self.product;
        let width = count(columns);
        let whole = width.as_int().is_some_and(|n| n % self.geometry.columns() == 0);
        let inside = if whole { Expr::bool(true) } else { column.clone().lt(width) };
        let inside = if ends { inside.and(step.clone().lt(count(&stage.reduce))) } else { inside };
        let (of_columns, of_steps) = match weights.across {
            true => (lane, Expr::i64(0)),
            false => (Expr::i64(0), lane),
        };
        let mut places = weights.columns(columns, &column, of_columns);
        places.extend(neighbours(&stage.reduce, &step, of_steps));
        let element = load.substitute(&|v| places.get(&v).cloned());
        match inside.as_int() {
            Some(1) => element,
            _ => Expr::if_then_else(inside, element, Expr::constant(0.0, load.dtype())),
        }
    }

    /// The weight of an access' column and step, which is the `v`-th from `step` on: from registers.
    fn weight(&self, [u, c, v]: [&Expr; 3], step: &Expr) -> Expr {
        let MatrixVector { weights, stage, .. } = self.product;
        let lane = if weights.across { Expr::i64(0) } else { v.clone() };
        let at = [u.clone(), c.clone(), lane];
        let places = neighbours(&stage.reduce, step, v.clone());
        let in_steps = |e: &Expr| e.substitute(&|var| places.get(&var).cloned());
        weights.element(&in_steps, &|n, dtype| Expr::load(self.weights[n], at.to_vec(), dtype))
    }

    /// The element of row `m` at the `lane`-th step from `step` on; 0 outside.
    fn element(&self, m: &Expr, step: Expr, lane: Expr, ends: bool) -> Expr {
        let MatrixVector { rows, stage, x, .. } = self.product;
        let inside = step.clone().lt(count(&stage.reduce));
        let mut places = decoded(rows, m);
        places.extend(neighbours(&stage.reduce, &step, lane));
        let element = x.substitute(&|v| places.get(&v).cloned());
        match ends {
            true => Expr::if_then_else(inside, element, Expr::constant(0.0, DType::F32)),
            false => element,
        }
    }

    /// Stores a thread's sums, which are results.
    fn store_sums(
        &self,
        nest: &mut Nest<'_>,
        part: &Expr,
        column: &Expr,
        store: Store<'_>,
    ) -> Stmt {
        let (each, width) = (self.geometry.each, count(&self.product.columns));
        nest.repeat(ForKind::Unrolled, "m", self.product.height(), |nest, m| {
            let stores = nest.lanes_of(each, |_, c| {
                let result = Expr::load(self.acc, vec![m.clone(), c.clone()], DType::F32);
                let column = column.clone() + c;
                let (part, row) = (part.clone(), m.clone());
                let (buffer, indices, value) = store(&Position { part, row, column }, result);
                Stmt::store(buffer, indices, value)
            });
            guarded(column.clone().lt(width.clone()), stores)
        })
    }

    /// Where shared memory keeps a share's sum: of a row of those at once, and a column of those of a thread.
    fn place(&self, row: &Expr, c: &Expr, thread: &Thread) -> Vec<Expr> {
        let each = self.geometry.each;
        match self.product.weights.across {
            true => {
                let column = thread.column.clone() * each + c.clone();
                vec![thread.share.clone(), row.clone(), column]
            }
            false => {
                let result = row.clone() * each + c.clone();
                vec![result, thread.column.clone(), thread.share.clone()]
            }
        }
    }

    /// Reduces the shares' sums, some rows at once, and stores the results.
    fn store_reduced(
        &self,
        nest: &mut Nest<'_>,
        partial: Buffer,
        part: &Expr,
        first: &Expr,
        store: Store<'_>,
    ) -> Stmt {
        let (rows, at_once) = (self.product.height(), self.rows_at_once());
        let load = |at| Expr::load(partial, at, DType::F32);
        let mut all = vec![];
        for from in (0..rows).step_by(at_once as usize) {
            let rows = at_once.min(rows - from);
            all.push(self.threads(nest, 0, &mut |nest, thread| {
                self.each_sum(nest, rows, &mut |row, c| {
                    let sum = vec![row.clone() + from, c.clone()];
                    let sum = Expr::load(self.acc, sum, DType::F32);
                    Stmt::store(partial, self.place(&row, &c, thread), sum)
                })
            }));
            let mut half = self.geometry.shares / 2;
            while half > 0 {
                all.push(self.threads(nest, half, &mut |nest, thread| {
                    let share = thread.share.clone() + half;
                    let other = Thread { share, column: thread.column.clone() };
                    self.each_sum(nest, rows, &mut |row, c| {
                        let own = self.place(&row, &c, thread);
                        let sum = load(own.clone()) + load(self.place(&row, &c, &other));
                        Stmt::store(partial, own, sum)
                    })
                }));
                half /= 2;
            }
            all.push(self.store_rows(nest, partial, (from, rows), part, first, store));
        }
        Stmt::Seq(all)
    }

    /// Loops over some rows of a thread's columns.
    fn each_sum(
        &self,
        nest: &mut Nest<'_>,
        rows: i64,
        body: &mut dyn FnMut(Expr, Expr) -> Stmt,
    ) -> Stmt {
        let each = self.geometry.each;
        let kind =
            if self.product.weights.across { ForKind::Vectorized } else { ForKind::Unrolled };
        nest.repeat(ForKind::Unrolled, "m", rows, |nest, m| {
            nest.repeat(kind, "c", each, |_, c| body(m.clone(), c))
        })
    }

    /// Stores some rows of reduced sums: those of neighbouring columns by neighbouring threads.
    fn store_rows(
        &self,
        nest: &mut Nest<'_>,
        partial: Buffer,
        (from, rows): (i64, i64),
        part: &Expr,
        first: &Expr,
        store: Store<'_>,
    ) -> Stmt {
        let (each, width) = (self.geometry.each, count(&self.product.columns));
        let stored = |row: &Expr, c: Expr, thread: &Thread| {
            let column = first.clone() + thread.column.clone() * each + c.clone();
            let whole = Thread { share: Expr::i64(0), column: thread.column.clone() };
            let result = Expr::load(partial, self.place(row, &c, &whole), DType::F32);
            let at = Position { part: part.clone(), row: row.clone() + from, column };
            let (buffer, indices, value) = store(&at, result);
            Stmt::store(buffer, indices, value)
        };
        let column_of = |thread: &Thread| first.clone() + thread.column.clone() * each;
        match self.product.weights.across {
            // A row for each share.
            true => self.threads(nest, rows, &mut |nest, thread| {
                let stores = nest.lanes_of(each, |_, c| stored(&thread.share, c, thread));
                guarded(column_of(thread).lt(width.clone()), stores)
            }),
            false => self.threads(nest, rows * each, &mut |_, thread| {
                let row = thread.share.clone().floordiv(each);
                let c = thread.share.clone().floormod(each);
                let cond = (column_of(thread) + c.clone()).lt(width.clone());
                guarded(cond, stored(&row, c, thread))
            }),
        }
    }
}
