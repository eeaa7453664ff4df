//! Indices of a launch that fit in 32 bits.
//!
//! A GPU computes on registers of 32 bits: an addition of 64 bits takes two instructions, a product more, a division
//! a routine. Indices are int64 in loop IR. An expression may be computed in 32 bits where its operands and its value
//! lie within them: by the constant bounds of the loops around, or by conditions `greatest value <= 2147483647` that the host
//! has tested before the launch ([`Launch::given`]), which `narrow_indices` writes.
//!
//! Decision: docs/decisions/0111-index-widths.md

use std::cell::RefCell;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::arith::{Analyzer, Interval};
use crate::launch::Launch;
use crate::{BinOp, Buffer, CmpOp, DType, Expr, ExprKind, PrimFunc, Stmt, Var};

/// The greatest value.
const MOST: i64 = i32::MAX as i64;
/// The greatest constant factor in a tested expression: tests are evaluated in 64 bits, which must not wrap.
const FACTOR: i64 = 1 << 24;
/// Tests of a launch.
const TESTS: usize = 32;

/// The facts about the indices of a launch.
#[derive(Debug)]
pub struct IndexWidths {
    analyzer: Analyzer,
    /// The same where no extent of a tensor is 0. Quotients by such an extent are 0, and loops over it do not run.
    nonempty: Analyzer,
    /// Variables that the launch binds.
    inner: FxHashSet<Var>,
    /// Expressions over other variables that are at most [`MOST`].
    given: FxHashSet<Expr>,
    known: RefCell<FxHashMap<Expr, bool>>,
}

/// The reason that a value fits.
enum Need {
    Nothing,
    /// This, which the host can compute, is at most [`MOST`].
    Limit(Expr),
}

impl IndexWidths {
    /// The facts of a launch: ranges of loops, extents that are no less than 0, and what is given.
    pub fn of(func: &PrimFunc, launch: &Launch<'_>) -> IndexWidths {
        let mut both = [Analyzer::new(), Analyzer::new()];
        for (least, analyzer) in (0..).zip(&mut both) {
            let extents = func.buffers.iter().flat_map(|(_, data)| &data.shape);
            extents.filter_map(Expr::as_var).for_each(|var| analyzer.at_least(var, least));
        }
        let mut inner = FxHashSet::default();
        for l in launch.blocks.iter().chain(&launch.threads) {
            both.iter_mut().for_each(|analyzer| analyzer.bind_loop(l));
            inner.insert(l.var);
        }
        launch.body.visit(&mut |s| match s {
            Stmt::For(l) => {
                both.iter_mut().for_each(|analyzer| analyzer.bind_loop(l));
                inner.insert(l.var);
            }
            Stmt::Let { var, value, .. } => {
                inner.insert(*var);
                if value.dtype() == DType::I64
                    && let Some((low, high)) =
                        both[1].symbolic_bounds(value, &|v| inner.contains(&v))
                {
                    let extent = high - low.clone() + 1;
                    both.iter_mut().for_each(|a| a.bind(*var, low.clone(), extent.clone()));
                }
            }
            _ => {}
        });
        let [analyzer, nonempty] = both;
        let mut given = FxHashSet::default();
        launch.given.iter().for_each(|cond| conjuncts(cond, &mut given));
        IndexWidths { analyzer, nonempty, inner, given, known: RefCell::default() }
    }

    /// Whether every value of an int64 expression in the launch fits in 32 bits.
    pub fn fits(&self, e: &Expr) -> bool {
        if let Some(known) = self.known.borrow().get(e) {
            return *known;
        }
        let by_parts =
            self.parts_that_bound(e).is_some_and(|parts| parts.iter().all(|e| self.fits(e)));
        let fits = by_parts
            || match self.need(e) {
                None => false,
                Some(Need::Nothing) => true,
                Some(Need::Limit(limit)) => self.given.contains(&limit),
            };
        self.known.borrow_mut().insert(e.clone(), fits);
        fits
    }

    /// Operands of which it follows that the value fits: quotients are no greater than what is divided, remainders less than
    /// what it is divided by.
    fn parts_that_bound<'e>(&self, e: &'e Expr) -> Option<Vec<&'e Expr>> {
        let ExprKind::Binary { op, a, b } = e.kind() else { return None };
        let divides = || e.dtype() == DType::I64 && self.nonempty.bounds(b).min >= 1;
        match op {
            BinOp::FloorDiv if divides() => Some(vec![a]),
            BinOp::FloorMod if divides() => Some(vec![b]),
            BinOp::Min | BinOp::Max => Some(vec![a, b]),
            _ => None,
        }
    }

    fn need(&self, e: &Expr) -> Option<Need> {
        if e.dtype() != DType::I64 {
            return None;
        }
        let of_i32 = Interval::of_type(DType::I32);
        let bounds = self.analyzer.bounds(e);
        if bounds.min >= of_i32.min && bounds.max <= of_i32.max {
            return Some(Need::Nothing);
        }
        let (low, high) = self.nonempty.symbolic_bounds(e, &|v| self.inner.contains(&v))?;
        if self.analyzer.bounds(&low).min < of_i32.min {
            return None;
        }
        match self.analyzer.bounds(&high).max <= of_i32.max {
            true => Some(Need::Nothing),
            false => Some(Need::Limit(without_subtraction(&high))),
        }
    }

    /// The tests that make all of the launch's index arithmetic fit which can be made to; none where nothing is left
    /// to test, or too much.
    pub fn tests(&self, func: &PrimFunc, launch: &Launch<'_>) -> Option<Vec<Expr>> {
        let (mut tests, mut seen) = (vec![], FxHashSet::default());
        let mut add = |e: &Expr| {
            e.visit(&mut |e| {
                let operands: &[&Expr] = match e.kind() {
                    ExprKind::Binary { a, b, .. } => &[e, a, b],
                    ExprKind::Compare { a, b, .. } => &[a, b],
                    _ => &[],
                };
                for e in operands.iter().filter(|e| e.dtype() == DType::I64) {
                    if !seen.insert((*e).clone()) {
                        continue;
                    }
                    if self.parts_that_bound(e).is_none()
                        && let Some(Need::Limit(limit)) = self.need(e)
                    {
                        let before = tests.len();
                        if !self.test(&limit, &mut tests) {
                            tests.truncate(before);
                        }
                    }
                }
            });
        };
        launch.body.visit(&mut |s| {
            s.for_each_expr(&mut |e| {
                add(e);
                e.visit(&mut |e| {
                    if let ExprKind::Load { buffer, indices, .. } = e.kind() {
                        add(&flat_index(func, *buffer, indices));
                    }
                });
            });
            if let Stmt::Store { buffer, indices, .. } = s {
                add(&flat_index(func, *buffer, indices));
            }
        });
        (1..=TESTS).contains(&tests.len()).then_some(tests)
    }

    /// Adds the test of an expression, with those of its parts that keep 64 bits from wrapping. Returns false for one that
    /// has other parts than sums, products and quotients by constants.
    fn test(&self, limit: &Expr, tests: &mut Vec<Expr>) -> bool {
        self.parts(limit, tests) && {
            push(tests, limit);
            true
        }
    }

    fn parts(&self, e: &Expr, tests: &mut Vec<Expr>) -> bool {
        match e.kind() {
            ExprKind::Int { value, .. } => value.unsigned_abs() <= FACTOR as u64,
            ExprKind::Var { .. } => {
                push(tests, e);
                self.analyzer.bounds(e).min >= 0
            }
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub, a, b } => {
                self.parts(a, tests) && self.parts(b, tests)
            }
            ExprKind::Binary { op: BinOp::Mul, a, b } => {
                if !self.parts(a, tests) || !self.parts(b, tests) {
                    return false;
                }
                let numbers = [a, b].into_iter().filter(|e| e.as_int().is_some()).count();
                let others = [a, b].into_iter().filter(|e| e.as_int().is_none());
                others.for_each(|e| push(tests, e));
                if numbers == 0 {
                    push(tests, e);
                }
                true
            }
            ExprKind::Binary { op: BinOp::FloorDiv, a, b } => {
                b.as_int().is_some_and(|n| n > 0) && self.parts(a, tests)
            }
            _ => false,
        }
    }
}

/// `e` for `e - n`: fewer tests.
fn without_subtraction(e: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Sub, a, b } if b.as_int().is_some_and(|n| n >= 0) => {
            a.clone()
        }
        ExprKind::Binary { op: BinOp::Add, a, b } if b.as_int().is_some_and(|n| n <= 0) => {
            a.clone()
        }
        _ => e.clone(),
    }
}

fn push(tests: &mut Vec<Expr>, e: &Expr) {
    if e.as_int().is_none() && !tests.contains(e) {
        tests.push(e.clone());
    }
}

/// The condition that tests hold.
pub fn condition(tests: &[Expr]) -> Expr {
    let all = tests.iter().map(|e| e.clone().le(MOST));
    all.reduce(Expr::and).unwrap_or_else(|| Expr::bool(true))
}

/// Adds what a condition says to be at most [`MOST`].
fn conjuncts(cond: &Expr, given: &mut FxHashSet<Expr>) {
    match cond.kind() {
        ExprKind::And(a, b) => {
            conjuncts(a, given);
            conjuncts(b, given);
        }
        ExprKind::Compare { op: CmpOp::Le, a, b } if b.as_int() == Some(MOST) => {
            given.insert(a.clone());
        }
        _ => {}
    }
}

/// The row-major position of an access as code generators for GPUs compute it.
pub fn flat_index(func: &PrimFunc, buffer: Buffer, indices: &[Expr]) -> Expr {
    let flat = func.row_major(buffer, indices);
    if indices.len() > 1 { Analyzer::new().simplify(&flat) } else { flat }
}
