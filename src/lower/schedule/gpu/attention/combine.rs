//! The second launch of an attention whose keys are in parts: a thread for each result adds the parts' results in order, each
//! in terms of the largest maximum.

use reflex_tir::{Buffer, CmpOp, DType, Expr, ForKind, Intrin, Stmt};

use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::attention::pattern::Pattern;
use crate::schedule::gpu::grid::{THREADS, blocks, count, decoded, encoded, guarded, threads};
use crate::schedule::gpu::work::Work;

/// The results of parts: for each part, matrix and row.
pub struct Parts {
    /// Sums of values, by column.
    pub results: Buffer,
    /// The maximum that weights are in terms of.
    pub most: Buffer,
    /// The sum of weights.
    pub total: Buffer,
    parts: i64,
}

impl Parts {
    /// Memory for so many parts.
    pub fn new(nest: &mut Nest<'_>, pattern: &Pattern, parts: i64) -> Parts {
        let rows = vec![parts.into(), count(&pattern.batch), pattern.row.extent.clone()];
        let results = [&rows[..], std::slice::from_ref(&pattern.column.extent)].concat();
        Parts {
            results: nest.scratch("parts", DType::F32, results),
            most: nest.scratch("most_of_parts", DType::F32, rows.clone()),
            total: nest.scratch("total_of_parts", DType::F32, rows),
            parts,
        }
    }

    /// The number of a matrix.
    pub fn matrix(&self, pattern: &Pattern) -> Expr {
        encoded(&pattern.batch)
    }
}

/// The value that maxima are subtracted as: 0 where a row attends to nothing.
pub fn exponent_base(most: Expr) -> Expr {
    let nothing = Expr::float(f64::NEG_INFINITY, DType::F32);
    let nothing = Expr::compare(CmpOp::Eq, most.clone(), nothing);
    Expr::select(nothing, Expr::float(0.0, DType::F32), most)
}

/// The launch that combines the parts, and stores results with their epilogue.
pub fn combine(nest: &mut Nest<'_>, pattern: &Pattern, parts: &Parts, work: &Work) -> Stmt {
    let Pattern { batch, row, column, .. } = pattern;
    let (rows, columns) = (row.extent.clone(), column.extent.clone());
    let results = count(batch) * rows.clone() * columns.clone();
    let [most, total, acc] = ["most", "total", "sum"].map(|name| nest.local(name, DType::F32, &[]));
    let own = |b: Buffer| Expr::load(b, vec![], DType::F32);
    let set = |b: Buffer, value: Expr| Stmt::store(b, vec![], value);
    blocks(nest, results.clone().ceildiv(THREADS), &[], |nest, b| {
        threads(nest, [1, THREADS], &mut |nest, _, tx| {
            let at = b.clone() * THREADS + tx;
            let (above, c) =
                (at.clone().floordiv(columns.clone()), at.clone().floormod(columns.clone()));
            let (matrix, r) = (above.clone().floordiv(rows.clone()), above.floormod(rows.clone()));
            let of_part = |b: Buffer, p: &Expr| {
                Expr::load(b, vec![p.clone(), matrix.clone(), r.clone()], DType::F32)
            };
            let lowest = Expr::float(f64::NEG_INFINITY, DType::F32);
            let start = Stmt::Seq(vec![
                set(most, lowest),
                set(total, Expr::float(0.0, DType::F32)),
                set(acc, Expr::float(0.0, DType::F32)),
            ]);
            let largest = nest.repeat(ForKind::Serial, "p", parts.parts, |_, p| {
                set(most, own(most).max(of_part(parts.most, &p)))
            });
            let sums = nest.repeat(ForKind::Serial, "p", parts.parts, |_, p| {
                let shifted = of_part(parts.most, &p) - exponent_base(own(most));
                let weight = Expr::call(Intrin::Exp, vec![shifted]);
                let at = vec![p.clone(), matrix.clone(), r.clone(), c.clone()];
                let part = Expr::load(parts.results, at, DType::F32);
                Stmt::Seq(vec![
                    set(acc, own(acc) + part * weight.clone()),
                    set(total, own(total) + of_part(parts.total, &p) * weight),
                ])
            });
            let mut places = decoded(batch, &matrix);
            places.extend([(row.var, r.clone()), (column.var, c.clone())]);
            let result = own(acc) / own(total);
            let (buffer, indices, value) = work.placed(result, &|v| places.get(&v).cloned());
            let store = Stmt::store(buffer, indices, value);
            let body = Stmt::Seq(vec![start, largest, sums, store]);
            let body = [most, total, acc]
                .iter()
                .fold(body, |body, b| Stmt::Allocate { buffer: *b, body: Box::new(body) });
            guarded(at.lt(results.clone()), body)
        })
    })
}
