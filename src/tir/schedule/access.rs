//! Dependence analysis: the elements that a loop's iterations touch, and whether two iterations can
//! touch the same one.
//!
//! An element of a buffer is an index tuple. Iterations of a loop are independent when, for any
//! two accesses to one buffer of which one writes, equal index tuples imply equal loop values.
//! That is shown by decoding: a part of the tuple that is the same function of the loop in both
//! accesses is separated from what other loops add (mixed-radix digits), and the loop variable
//! is recovered from those parts. Tuples that are never equal need no such thing.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::tree::mentions;
use crate::arith::Analyzer;
use crate::arith::poly::{Factors, Poly, gcd};
use crate::{BinOp, Buffer, Expr, ExprKind, PrimFunc, Stmt, Var};

/// One load or store, its indices over loop variables; no index where it may be anywhere.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub buffer: Buffer,
    pub indices: Vec<Expr>,
    pub kind: AccessKind,
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessKind {
    Read,
    Write,
}

impl Access {
    /// Returns true if it is a store.
    pub fn writes(&self) -> bool {
        self.kind == AccessKind::Write
    }
}

/// Everything that happens under a statement.
#[derive(Default)]
pub(super) struct Accesses {
    pub list: Vec<Access>,
    /// Loops and scalars bound under the statement.
    pub bound: FxHashSet<Var>,
    /// Buffers allocated under the statement.
    pub private: FxHashSet<Buffer>,
}

/// The accesses under `stmt`; `facts` learns the ranges of the loops below.
pub(super) fn collect(stmt: &Stmt, facts: &mut Analyzer) -> Accesses {
    let mut out = Accesses::default();
    out.enter(stmt, &FxHashMap::default(), facts);
    out
}

impl Accesses {
    fn reads(&mut self, expr: &Expr, iters: &FxHashMap<Var, Expr>) {
        expr.visit(&mut |e| {
            if let ExprKind::Load { buffer, indices, .. } = e.kind() {
                self.push(AccessKind::Read, *buffer, indices, iters);
            }
        });
    }

    fn push(
        &mut self,
        kind: AccessKind,
        buffer: Buffer,
        at: &[Expr],
        iters: &FxHashMap<Var, Expr>,
    ) {
        let indices = at.iter().map(|i| i.substitute(&|v| iters.get(&v).cloned())).collect();
        self.list.push(Access { buffer, indices, kind });
    }

    fn enter(&mut self, stmt: &Stmt, iters: &FxHashMap<Var, Expr>, facts: &mut Analyzer) {
        let over_loops = |e: &Expr| e.substitute(&|v| iters.get(&v).cloned());
        match stmt {
            Stmt::For(l) => {
                facts.bind(l.var, over_loops(&l.min), over_loops(&l.extent));
                self.bound.insert(l.var);
            }
            Stmt::Block(b) => {
                let mut inside = iters.clone();
                for iter in &b.iters {
                    self.reads(&iter.value, iters);
                    inside.insert(iter.var, over_loops(&iter.value));
                }
                self.reads(&b.predicate, iters);
                self.private.extend(&b.allocs);
                for child in stmt.children() {
                    self.enter(child, &inside, facts);
                }
                return;
            }
            Stmt::Store { buffer, indices, .. } => {
                self.push(AccessKind::Write, *buffer, indices, iters);
            }
            Stmt::Let { var, .. } => {
                self.bound.insert(*var);
            }
            Stmt::Allocate { buffer, .. } => {
                self.private.insert(*buffer);
            }
            // Of its rows no more is known than that they are somewhere in the buffer.
            Stmt::Tile(tile) => {
                for buffer in tile.buffers() {
                    let kind = match buffer == tile.written() {
                        true => AccessKind::Write,
                        false => AccessKind::Read,
                    };
                    self.push(kind, buffer, &[], iters);
                }
            }
            // Anywhere in its tensors, and nothing says whether it reads or writes.
            Stmt::CallPacked(call) => {
                for buffer in call.tensors() {
                    self.push(AccessKind::Write, buffer, &[], iters);
                }
            }
            Stmt::If { .. } | Stmt::While { .. } | Stmt::Barrier(_) | Stmt::Seq(_) => {}
        }
        stmt.for_each_expr(&mut |expr| self.reads(expr, iters));
        stmt.for_each_child(&mut |child| self.enter(child, iters, facts));
    }
}

/// Whether iterations of loop `var` over `body` never touch the same element, for fixed values
/// of the loops outside. Loops in `moving` are not fixed, nor are those inside `body`.
/// `facts` holds the ranges of all loops outside and of `var`. The error says what conflicts.
pub(super) fn independent(
    func: &PrimFunc,
    facts: &Analyzer,
    body: &Stmt,
    var: Var,
    moving: &[Var],
) -> Result<(), String> {
    let mut facts = facts.clone();
    let mut accesses = collect(body, &mut facts);
    accesses.bound.extend(moving);
    let decoder = Decoder { facts, var, free: &accesses.bound };
    for (at, write) in accesses.list.iter().enumerate().filter(|(_, a)| a.writes()) {
        if accesses.private.contains(&write.buffer) {
            continue;
        }
        let others = accesses.list.iter().enumerate().filter(|(n, other)| {
            // Each pair of writes once, a write also with itself.
            other.buffer == write.buffer && (!other.writes() || *n >= at)
        });
        for (_, other) in others {
            if !decoder.disjoint(write, other) {
                let (loop_name, buffer) = (&func.vars[var].name, &func.buffers[write.buffer].name);
                return Err(format!(
                    "two iterations of `{loop_name}` may touch the same element of `{buffer}`"
                ));
            }
        }
    }
    Ok(())
}

/// Whether different iterations of loop `var` over `first` and over `second` never touch the same
/// element where one of them writes it; else what conflicts.
pub(super) fn require_fusable(
    func: &PrimFunc,
    facts: &Analyzer,
    first: &Stmt,
    second: &Stmt,
    var: Var,
) -> Result<(), String> {
    let mut facts = facts.clone();
    let (mut a, b) = (collect(first, &mut facts), collect(second, &mut facts));
    a.bound.extend(b.bound);
    let decoder = Decoder { facts, var, free: &a.bound };
    for x in a.list.iter().filter(|x| !a.private.contains(&x.buffer)) {
        let meets = |y: &&Access| y.buffer == x.buffer && (x.writes() || y.writes());
        let apart = |y: &Access| decoder.disjoint(x, y);
        if !b.list.iter().filter(meets).all(apart) {
            let (loop_name, buffer) = (&func.vars[var].name, &func.buffers[x.buffer].name);
            return Err(format!(
                "an iteration of `{loop_name}` may touch what another one made of `{buffer}`"
            ));
        }
    }
    Ok(())
}

/// Whether the values of `exprs` determine that of loop `var`, when the variables in `free` may
/// differ too.
pub(super) fn determines(
    facts: &Analyzer,
    exprs: &[Expr],
    var: Var,
    free: &FxHashSet<Var>,
) -> bool {
    let decoder = Decoder { facts: facts.clone(), var, free };
    let point =
        Access { buffer: Buffer::from_u32(0), indices: exprs.to_vec(), kind: AccessKind::Write };
    decoder.disjoint(&point, &point)
}

/// Parts of index tuples that are looked at: quotients of remainders have no end.
const MOST_PARTS: usize = 16;

struct Decoder<'a> {
    facts: Analyzer,
    var: Var,
    /// Other variables than `var` that differ between the two iterations.
    free: &'a FxHashSet<Var>,
}

/// One index split up: `fixed + upper + mine + low`, where `mine` holds the terms with the loop
/// variable, all multiples of `step`, `low` is within `0..step`, and `upper` is a multiple of
/// `modulus` (0 when there is none).
struct Digits {
    fixed: Poly,
    mine: Poly,
    step: i64,
    modulus: i64,
}

impl Decoder<'_> {
    /// Whether `a` and `b` in different iterations are different elements.
    fn disjoint(&self, a: &Access, b: &Access) -> bool {
        if a.indices.len() != b.indices.len() {
            // One is by row-major position.
            return false;
        }
        let pairs = a.indices.iter().zip(&b.indices);
        // Most accesses have the variable itself as an index.
        let is_own = |e: &Expr| e.as_var() == Some(self.var);
        if pairs.clone().any(|(x, y)| is_own(x) && is_own(y))
            || pairs.clone().any(|(x, y)| self.are_apart(x, y))
        {
            return true;
        }
        let known: Vec<Poly> =
            pairs.filter_map(|(x, y)| self.common(self.digits(x)?, self.digits(y)?)).collect();
        self.recovers(known)
    }

    /// Whether all values of one are below all values of the other.
    fn are_apart(&self, x: &Expr, y: &Expr) -> bool {
        let (x, y) = (self.facts.bounds(x), self.facts.bounds(y));
        x.max < y.min || y.max < x.min
    }

    fn is_fixed(&self, e: &Expr) -> bool {
        let mut fixed = true;
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => fixed &= *var != self.var && !self.free.contains(var),
            ExprKind::Load { .. } => fixed = false,
            _ => {}
        });
        fixed
    }

    fn digits(&self, index: &Expr) -> Option<Digits> {
        let poly = self.facts.poly(index)?;
        let [mut fixed, mut mine, mut upper, mut low] =
            [const { Poly { terms: SmallVec::new_const(), constant: 0 } }; 4];
        let is_mine = |f: &[Expr]| f.iter().any(|e| mentions(e, self.var));
        let step = poly.terms.iter().filter(|(f, _)| is_mine(f)).fold(0, |g, (_, c)| gcd(g, *c));
        if step == 0 {
            return None;
        }
        for (factors, c) in &poly.terms {
            let part = match factors {
                f if is_mine(f) => &mut mine,
                f if f.iter().all(|e| self.is_fixed(e)) => &mut fixed,
                _ if c.checked_abs()? < step => &mut low,
                _ => &mut upper,
            };
            part.add_term(factors.clone(), *c)?;
        }
        low.constant = poly.constant.rem_euclid(step);
        fixed.constant = poly.constant.checked_sub(low.constant)?;
        let modulus = upper.terms.iter().fold(0, |g, (_, c)| gcd(g, *c));
        self.facts.poly_interval(&low).within(step).then_some(Digits { fixed, mine, step, modulus })
    }

    /// The part that equal indices have in common.
    fn common(&self, a: Digits, b: Digits) -> Option<Poly> {
        let same =
            |x: &Poly, y: &Poly| x.add_scaled(y, -1).and_then(|d| d.as_constant()) == Some(0);
        if !same(&a.fixed, &b.fixed) || !same(&a.mine, &b.mine) || a.step != b.step {
            return None;
        }
        let modulus = gcd(a.modulus, b.modulus);
        if modulus != 0 {
            let range = self.facts.poly_interval(&a.mine);
            let width = range.max.checked_sub(range.min)?.checked_add(a.step - 1)?;
            if width >= modulus {
                return None;
            }
        }
        Some(a.mine)
    }

    /// Whether the values of the polynomials determine the loop variable.
    fn recovers(&self, mut known: Vec<Poly>) -> bool {
        let target = Expr::var(self.var);
        let mut next = 0;
        while next < known.len().min(MOST_PARTS) {
            let poly = known[next].clone();
            next += 1;
            let mut found = self.digits_of(&poly);
            if let Some(atom) = poly.as_atom() {
                if *atom == target {
                    return true;
                }
                found.extend(self.parts(atom));
            }
            // Quotient and remainder together give the dividend; either may be found first.
            found.extend(known.iter().filter_map(|p| self.dividend(p.as_atom()?, &known)));
            for poly in found {
                if !known.contains(&poly) {
                    known.push(poly);
                }
            }
        }
        false
    }

    /// The parts of a sum that its value determines.
    fn digits_of(&self, poly: &Poly) -> Vec<Poly> {
        let mut terms: Vec<(Factors, i64)> = vec![];
        for (factors, c) in &poly.terms {
            // Fixed terms are known anyway.
            if !factors.iter().all(|f| self.is_fixed(f)) {
                terms.push((factors.clone(), *c));
            }
        }
        terms.sort_by_key(|(_, c)| c.unsigned_abs());
        if let [(factors, _)] = &terms[..] {
            // A product is known with its fixed, positive factors divided out.
            let varying: Vec<&Expr> = factors.iter().filter(|f| !self.is_fixed(f)).collect();
            let positive = |f: &Expr| self.facts.bounds(f).min >= 1;
            return match &varying[..] {
                [atom] if factors.iter().all(|f| f == *atom || positive(f)) => {
                    vec![Poly::atom((*atom).clone())]
                }
                _ => vec![],
            };
        }
        for at in 1..terms.len() {
            let (low, high) = terms.split_at(at);
            let radix = high.iter().fold(0, |g, (_, c)| gcd(g, *c));
            let [low, high] = [low, high].map(|t| Poly { terms: t.into(), constant: 0 });
            let range = self.facts.poly_interval(&low);
            if range.max.checked_sub(range.min).is_some_and(|width| width < radix) {
                return vec![low, high];
            }
        }
        vec![]
    }

    /// The operand that an atom's value determines.
    fn parts(&self, atom: &Expr) -> Option<Poly> {
        match atom.kind() {
            // A widening conversion keeps the value.
            ExprKind::Cast { value, dtype } if value.dtype().is_int() && dtype.is_int() => {
                (value.dtype().bits <= dtype.bits).then(|| self.facts.poly(value))?
            }
            _ => None,
        }
    }

    /// `x`, when `atom` is `x % m` with a fixed `m` and `x // m` is known too.
    fn dividend(&self, atom: &Expr, known: &[Poly]) -> Option<Poly> {
        let ExprKind::Binary { op: BinOp::FloorMod, a, b } = atom.kind() else {
            return None;
        };
        if !self.is_fixed(b) {
            return None;
        }
        let quotient = self.facts.poly(&a.clone().floordiv(b.clone()))?;
        let is_known = |p: &Poly| p.as_constant().is_some() || known.contains(p);
        let termwise = quotient
            .terms
            .iter()
            .all(|(f, _)| f.iter().all(|e| self.is_fixed(e) || is_known(&Poly::atom(e.clone()))));
        (is_known(&quotient) || termwise).then(|| self.facts.poly(a))?
    }
}
