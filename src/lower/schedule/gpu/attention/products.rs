//! The two products of an attention's block, from tiles in shared memory to registers.

use reflex_tir::mma::{SIDE, Team};
use reflex_tir::tile::{Mma, MmaOperand, StridedRows, TileOp};
use reflex_tir::{Buffer, DType, Expr, ForKind, Intrin, Stmt};

use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::attention::share::{Share, Unit};
use crate::schedule::gpu::attention::tile::Tile;

/// Keys whose weights a thread loads at once.
const KEYS: i64 = 4;

/// A matrix in shared memory as rows of the first operand.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The memory.
    pub buffer: Buffer,
    /// The type of an element.
    pub dtype: DType,
    /// Elements from a row to the next.
    pub stride: i64,
}

impl Rows {
    /// The rows of a tile.
    pub fn of(tile: &Tile) -> Rows {
        Rows { buffer: tile.buffer, dtype: tile.dtype, stride: tile.stride() }
    }

    fn operand(&self, row: Expr, near: Expr, transposed: bool) -> MmaOperand {
        let first = row * self.stride + near;
        let rows = StridedRows { buffer: self.buffer, first, stride: self.stride.into() };
        MmaOperand { rows, transposed }
    }
}

/// The products of queries and keys: `sum[r, c] += q[r, ..] * k[c, ..]`, in order.
pub fn scores(
    nest: &mut Nest<'_>,
    (share, sum): (&Share, Buffer),
    (q, k): (&Tile, &Tile),
    thread: [&Expr; 2],
) -> Stmt {
    if let Unit::Warps(_) = share.unit {
        let width = k.width();
        let (q, k) = (Rows::of(q), Rows::of(k));
        return products(nest, (share, sum), width, thread, &|step, column| {
            let row = thread[0].clone() * Team::Warp.rows();
            (q.operand(row, step.clone(), false), k.operand(column, step, false))
        });
    }
    let (vector, vectors) = (q.vector, share.vectors * share.lanes);
    let own = nest.local("q_row", q.dtype, &[share.rows, vector]);
    let other = nest.local("k_row", k.dtype, &[vectors, vector]);
    let steps = q.width() / vector;
    let body = nest.repeat(ForKind::Serial, "d", steps, |nest, d| {
        let near = d * vector;
        let rows = nest.repeat(ForKind::Unrolled, "i", share.rows, |nest, i| {
            nest.lanes_of(vector, |_, l| {
                let at = vec![share.row(thread, &i), near.clone() + l.clone()];
                Stmt::store(own, vec![i, l], Expr::load(q.buffer, at, q.dtype))
            })
        });
        let columns = nest.repeat(ForKind::Unrolled, "v", vectors, |nest, v| {
            nest.lanes_of(vector, |_, l| {
                let column = share.column(thread, &v, &Expr::i64(0));
                let at = vec![column, near.clone() + l.clone()];
                Stmt::store(other, vec![v, l], Expr::load(k.buffer, at, k.dtype))
            })
        });
        let sums = share.each(nest, &mut |nest, i, v, l| {
            nest.repeat(ForKind::Unrolled, "s", vector, |_, s| {
                let a = Expr::load(own, vec![i.clone(), s.clone()], q.dtype);
                let b = Expr::load(other, vec![v.clone(), s], k.dtype);
                fma(sum, share.index(&i, &v, &l), a, b)
            })
        });
        Stmt::Seq(vec![rows, columns, sums])
    });
    [own, other].iter().fold(body, |body, b| Stmt::Allocate { buffer: *b, body: Box::new(body) })
}

/// The products of weights and values: `sum[r, c] += p[r, ..] * v[.., c]`, in order.
pub fn weighted(
    nest: &mut Nest<'_>,
    (share, sum): (&Share, Buffer),
    (p, v): (Rows, &Tile),
    keys: i64,
    thread: [&Expr; 2],
) -> Stmt {
    if let Unit::Warps(_) = share.unit {
        let v = Rows::of(v);
        return products(nest, (share, sum), keys, thread, &|step, column| {
            let row = thread[0].clone() * Team::Warp.rows();
            (p.operand(row, step.clone(), false), v.operand(step, column, true))
        });
    }
    let own = nest.local("p_row", p.dtype, &[share.rows, KEYS]);
    let other = nest.local("v_row", v.dtype, &[share.vectors, share.lanes]);
    let body = nest.repeat(ForKind::Serial, "n", keys / KEYS, |nest, n| {
        let first = n * KEYS;
        let rows = nest.repeat(ForKind::Unrolled, "i", share.rows, |nest, i| {
            nest.lanes_of(KEYS, |_, l| {
                let at = vec![share.row(thread, &i), first.clone() + l.clone()];
                Stmt::store(own, vec![i, l], Expr::load(p.buffer, at, p.dtype))
            })
        });
        let sums = nest.repeat(ForKind::Unrolled, "s", KEYS, |nest, s| {
            let columns = nest.repeat(ForKind::Unrolled, "v", share.vectors, |nest, c| {
                nest.lanes_of(share.lanes, |_, l| {
                    let at = vec![first.clone() + s.clone(), share.column(thread, &c, &l)];
                    Stmt::store(other, vec![c, l], Expr::load(v.buffer, at, v.dtype))
                })
            });
            let sums = share.each(nest, &mut |_, i, c, l| {
                let a = Expr::load(own, vec![i.clone(), s.clone()], p.dtype);
                let b = Expr::load(other, vec![c.clone(), l.clone()], v.dtype);
                fma(sum, share.index(&i, &c, &l), a, b)
            });
            Stmt::Seq(vec![columns, sums])
        });
        Stmt::Seq(vec![rows, sums])
    });
    [own, other].iter().fold(body, |body, b| Stmt::Allocate { buffer: *b, body: Box::new(body) })
}

fn fma(sum: Buffer, at: Vec<Expr>, a: Expr, b: Expr) -> Stmt {
    let args = [a, b].map(|x| x.cast(DType::F32)).to_vec();
    let so_far = Expr::load(sum, at.clone(), DType::F32);
    let args = args.into_iter().chain([so_far]).collect();
    Stmt::store(sum, at, Expr::call(Intrin::Fma, args))
}

/// Products of a warp's 16 rows on tensor cores, over so many steps. `operands` gives those of the steps and the
/// columns that begin somewhere.
fn products(
    nest: &mut Nest<'_>,
    (share, sum): (&Share, Buffer),
    steps: i64,
    thread: [&Expr; 2],
    operands: &dyn Fn(Expr, Expr) -> (MmaOperand, MmaOperand),
) -> Stmt {
    let team = Team::Warp;
    nest.repeat(ForKind::Unrolled, "kk", steps / SIDE, |nest, kk| {
        nest.repeat(ForKind::Unrolled, "j", share.vectors / 2, |_, j| {
            let (a, b) = operands(kk * SIDE, j.clone() * team.columns());
            let first = j * team.each();
            let mma = Mma { team, sum, first, a, b, lane: thread[1].clone() };
            Stmt::Tile(TileOp::Mma(Box::new(mma)))
        })
    })
}
