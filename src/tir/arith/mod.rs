//! Integer analysis of index expressions: bounds, strides, simplification, proof.
//!
//! An [`Analyzer`] knows ranges of variables, innermost last. Its answers hold for every
//! assignment inside those ranges, on the premise that index arithmetic does not overflow
//! int64 (dimensions and offsets of real buffers do not). It is conservative: `prove` answers
//! true only when the claim follows, and an expression it cannot improve is returned as it was.
//! Floating-point expressions are never rewritten.
//!
//! ```
//! use reflex_tir::{Expr, PrimFunc, arith::Analyzer};
//! let mut f = PrimFunc::new("f");
//! let (o, i) = (f.new_var("o"), f.new_var("i"));
//! let mut facts = Analyzer::new();
//! facts.bind(o, 0.into(), 4.into());
//! facts.bind(i, 0.into(), 8.into());
//! let at = Expr::var(o) * 8 + i;
//! assert!(facts.prove(&at.clone().lt(32)));
//! assert_eq!(facts.simplify(&at.floordiv(8)), Expr::var(o));
//! ```

mod clip_bounds;
mod interval;
mod iter_map;
mod linear;
pub(crate) mod poly;
mod prove;
mod simplify;
mod symbolic_bounds;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;

pub use clip_bounds::ClipBound;
pub use interval::Interval;
pub use iter_map::{
    Coverage, InputIter, IterMap, IterMark, IterSplit, IterSum, MarkSource, detect_iter_map,
};
pub use linear::Linear;

use self::poly::Poly;
use crate::{BinOp, DType, Expr, ExprKind, For, Intrin, Var};

/// `value ≡ base (mod stride)`; stride 0 means the value is `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModularSet {
    /// Modulus.
    pub stride: i64,
    /// Residue, in `0..stride` when the stride is positive.
    pub base: i64,
}

/// The values of a variable. What follows from both ends is found when it is asked for: most loops are never asked about.
#[derive(Debug)]
struct Range {
    min: Expr,
    /// `None` is unbounded.
    extent: Option<Expr>,
    /// The greatest value.
    max: OnceCell<Expr>,
    /// Constant bounds.
    bounds: OnceCell<Interval>,
    /// Set while one of them is being found: a range that mentions its own variable says nothing of it.
    busy: Cell<bool>,
}

impl Range {
    fn new(min: Expr, extent: Option<Expr>) -> Range {
        let (max, bounds, busy) = (OnceCell::new(), OnceCell::new(), Cell::new(false));
        Range { min, extent, max, bounds, busy }
    }
}

/// Facts about variables, and conclusions from them.
#[derive(Clone, Debug, Default)]
pub struct Analyzer {
    /// In the order in which they were bound: later variables may depend on earlier ones. Few: those of the loops
    /// around a place.
    ranges: Vec<(Var, Rc<Range>)>,
    budget: prove::Budget,
    /// Normal forms of minima and maxima under these ranges: their operands are compared by proof, and loops
    /// have them in their extents, which are asked for again and again. Copies share it.
    choices: Rc<RefCell<FxHashMap<Expr, Poly>>>,
}

impl Analyzer {
    /// Knows nothing.
    pub fn new() -> Analyzer {
        Analyzer::default()
    }

    /// States `min <= var < min + extent`. The bounds may mention variables bound before.
    ///
    /// An extent that is a plain variable is then known to be at least 1: the statement is about
    /// the inside of the range.
    pub fn bind(&mut self, var: Var, min: Expr, extent: Expr) {
        if let Some(symbol) = extent.as_var() {
            self.at_least(symbol, 1);
        }
        let range = Range::new(min, Some(extent));
        if self.depth(var).is_some() {
            // The ends may mention what the variable was before.
            let _ = (self.max_of(&range), self.bounds_of(&range));
        }
        self.insert(var, range);
    }

    /// States the range of a loop's variable inside its body.
    pub fn bind_loop(&mut self, l: &For) {
        self.bind(l.var, l.min.clone(), l.extent.clone());
    }

    /// States `var >= min`, keeping what is known already if that says more.
    pub fn at_least(&mut self, var: Var, min: i64) {
        match self.range(var) {
            Some(range) if range.extent.is_some() => {}
            Some(range) if self.bounds_of(range).min >= min => {}
            _ => self.insert(var, Range::new(min.into(), None)),
        }
    }

    fn insert(&mut self, var: Var, range: Range) {
        self.choices = Rc::default();
        let known = self.depth(var);
        // Ranges may mention a symbol of which nothing was known. Those of copies, which share what is found, do
        // not learn of it.
        if known.is_some() || range.extent.is_none() {
            for (_, other) in &mut self.ranges {
                let mut unknown = Range::new(other.min.clone(), other.extent.clone());
                unknown.max = other.max.clone();
                *other = Rc::new(unknown);
            }
        }
        match known {
            Some(at) => self.ranges[at].1 = Rc::new(range),
            None => self.ranges.push((var, Rc::new(range))),
        }
    }

    /// The greatest value in a range, `None` if it is unbounded.
    fn max_of<'r>(&self, range: &'r Range) -> Option<&'r Expr> {
        let extent = range.extent.as_ref()?;
        if range.max.get().is_none() && !range.busy.replace(true) {
            let last = range.min.clone() + extent.clone() - 1;
            let found = self.budget.renewed(|| self.simplify(&last));
            let _ = range.max.set(found);
            range.busy.set(false);
        }
        range.max.get()
    }

    fn bounds_of(&self, range: &Range) -> Interval {
        if let Some(known) = range.bounds.get() {
            return *known;
        }
        let max = self.max_of(range);
        if range.extent.is_some() && max.is_none() || range.busy.replace(true) {
            return Interval::EVERYTHING;
        }
        let max = max.map_or(i64::MAX, |e| self.bounds(e).max);
        let bounds = Interval { min: self.bounds(&range.min).min, max };
        range.busy.set(false);
        let _ = range.bounds.set(bounds);
        bounds
    }

    fn depth(&self, var: Var) -> Option<usize> {
        self.ranges.iter().rposition(|(v, _)| *v == var)
    }

    fn range(&self, var: Var) -> Option<&Range> {
        self.depth(var).map(|at| &*self.ranges[at].1)
    }

    /// Constant bounds of an integer expression.
    pub fn bounds(&self, expr: &Expr) -> Interval {
        self.interval(expr, 0)
    }

    /// The stride and residue of an int64 expression.
    pub fn modular(&self, expr: &Expr) -> ModularSet {
        let Some(poly) = self.poly(expr) else {
            return ModularSet { stride: 1, base: 0 };
        };
        let stride = poly.terms.iter().fold(0, |g, (_, c)| poly::gcd(g, *c));
        let base = if stride == 0 { poly.constant } else { poly.constant.rem_euclid(stride) };
        ModularSet { stride, base }
    }

    /// Whether `expr` is a multiple of `divisor` everywhere.
    pub fn divides(&self, divisor: &Expr, expr: &Expr) -> bool {
        self.prove(&expr.clone().floormod(divisor.clone()).equal(0))
    }

    fn interval(&self, expr: &Expr, depth: u32) -> Interval {
        if depth > 24 || !(expr.dtype().is_int() || expr.dtype().is_bool()) {
            return Interval::EVERYTHING;
        }
        let of = |e: &Expr| self.interval(e, depth + 1);
        match expr.kind() {
            ExprKind::Int { value, .. } => Interval::point(*value),
            ExprKind::Var { var, .. } => {
                self.range(*var).map_or(Interval::EVERYTHING, |range| self.bounds_of(range))
            }
            ExprKind::Binary { op, a, b } if expr.dtype() == DType::I64 => {
                binary_interval(*op, of(a), of(b))
            }
            ExprKind::Select { on_true, on_false, .. } => of(on_true).union(of(on_false)),
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => of(&args[1]).union(of(&args[2])),
            ExprKind::Cast { value, dtype } => {
                // A widening conversion keeps the value.
                let from = value.dtype();
                match from.is_int() && dtype.is_int() && from.bits <= dtype.bits {
                    true => of(value),
                    false => Interval::of_type(expr.dtype()),
                }
            }
            _ => Interval::of_type(expr.dtype()),
        }
    }

    pub(crate) fn poly_interval(&self, poly: &Poly) -> Interval {
        let terms = poly.terms.iter().map(|(factors, c)| {
            let product = factors.iter().fold(Interval::point(1), |acc, f| acc * self.bounds(f));
            product * Interval::point(*c)
        });
        terms.fold(Interval::point(poly.constant), |acc, t| acc + t)
    }
}

fn binary_interval(op: BinOp, a: Interval, b: Interval) -> Interval {
    match op {
        BinOp::Add => a + b,
        BinOp::Sub => a + b * Interval::point(-1),
        BinOp::Mul => a * b,
        BinOp::FloorDiv => a.floordiv(b),
        BinOp::FloorMod => a.floormod(b),
        BinOp::Div if a.min >= 0 => a.floordiv(b),
        BinOp::Mod if a.min >= 0 => a.floormod(b),
        BinOp::Div | BinOp::Mod => Interval::EVERYTHING,
        BinOp::Min => Interval { min: a.min.min(b.min), max: a.max.min(b.max) },
        BinOp::Max => Interval { min: a.min.max(b.min), max: a.max.max(b.max) },
    }
}
