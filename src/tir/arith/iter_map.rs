//! Iterator maps: indices as sums of splits of independent iterators.
//!
//! `(i * 8 + j) // 4` with `i < 4` and `j < 8` is the upper split of the iterator `i * 8 + j` of extent 32: its
//! quotient by 4. Whether index tuples are all different, and which values they take, follows from how the splits
//! cover the iterators. What is no such sum is refused; extents are constants.

use super::Analyzer;
use crate::{BinOp, CmpOp, Expr, ExprKind, Var};

/// The definition of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkSource {
    /// An input, less its first value.
    Input(Var),
    /// A sum of splits whose values are `0..extent`, or of which a predicate leaves these.
    Sum(Vec<IterSplit>),
}

/// An iterator over `0..extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterMark {
    /// Its definition.
    pub source: MarkSource,
    /// The number of its values.
    pub extent: i64,
}

/// `(mark // lower_factor) % extent * scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterSplit {
    /// The iterator's number in [`IterMap::marks`].
    pub mark: usize,
    /// Divisor.
    pub lower_factor: i64,
    /// The number of values before scaling.
    pub extent: i64,
    /// Factor.
    pub scale: i64,
}

/// Splits that are independent of each other, and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterSum {
    /// Their scales are positive, largest first, and each is the next one's scale times its extent.
    pub splits: Vec<IterSplit>,
    /// The constant.
    pub base: i64,
}

impl IterSum {
    /// The number of values, which lie `step` apart.
    pub fn extent(&self) -> i64 {
        self.splits.iter().map(|s| s.extent).product()
    }

    /// The distance between two values.
    pub fn step(&self) -> i64 {
        self.splits.last().map_or(1, |s| s.scale)
    }
}

/// Indices in terms of iterators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterMap {
    /// The iterators: inputs first.
    pub marks: Vec<IterMark>,
    /// One for each index.
    pub sums: Vec<IterSum>,
}

/// The demand on an iterator map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Indices are independent: every combination of their values comes up, at least once.
    Surjective,
    /// Each combination comes up once.
    Bijective,
}

/// An input: its variable, first value and extent.
pub type InputIter = (Var, i64, i64);

/// The `indices` as sums of splits of `inputs`, on the points where `predicate` holds; else why not. A predicate
/// bounds sums of inputs from above, such as `i * 8 + j < 29`.
///
/// ```
/// use reflex_tir::arith::{Coverage, detect_iter_map};
/// use reflex_tir::{Expr, PrimFunc};
/// let mut f = PrimFunc::new("f");
/// let (i, j) = (f.new_var("i"), f.new_var("j"));
/// let fused = Expr::var(i) * 8 + j;
/// let indices = [fused.clone().floordiv(4), fused.floormod(4)];
/// let map = detect_iter_map(&indices, &[(i, 0, 4), (j, 0, 8)], &Expr::bool(true), Coverage::Bijective)?;
/// assert_eq!(map.sums.iter().map(|s| s.extent()).collect::<Vec<_>>(), [8, 4]);
/// # Ok::<(), String>(())
/// ```
pub fn detect_iter_map(
    indices: &[Expr],
    inputs: &[InputIter],
    predicate: &Expr,
    coverage: Coverage,
) -> Result<IterMap, String> {
    // Splits of sums are those of their terms where they divide; where some do not, all are left as splits of the sum.
    let attempt = |taken_apart| {
        let mut detector = Detector::new(inputs, taken_apart, coverage)?;
        detector.constrain(predicate)?;
        let sums = indices.iter().map(|e| detector.index(e)).collect::<Result<Vec<_>, _>>()?;
        let map = IterMap { marks: detector.marks, sums };
        map.require_constraints(&detector.constraints)?;
        map.require(inputs.len(), coverage)?;
        Ok(map)
    };
    attempt(true).or_else(|why: String| attempt(false).map_err(|_| why))
}

struct Detector {
    facts: Analyzer,
    /// Variable and first value of the inputs.
    inputs: Vec<(Var, i64)>,
    marks: Vec<IterMark>,
    /// Sums that a predicate bounds, and their marks.
    constraints: Vec<(Vec<IterSplit>, usize)>,
    /// Sums whose terms overlap.
    overlapping: Vec<usize>,
    taken_apart: bool,
    coverage: Coverage,
}

impl Detector {
    fn new(
        inputs: &[InputIter],
        taken_apart: bool,
        coverage: Coverage,
    ) -> Result<Detector, String> {
        let mut facts = Analyzer::new();
        let mut marks = vec![];
        for (var, first, extent) in inputs {
            if *extent < 1 {
                return Err("an input has no values".to_owned());
            }
            facts.bind(*var, Expr::i64(*first), Expr::i64(*extent));
            marks.push(IterMark { source: MarkSource::Input(*var), extent: *extent });
        }
        let inputs = inputs.iter().map(|(var, first, _)| (*var, *first)).collect();
        let (constraints, overlapping) = (vec![], vec![]);
        Ok(Detector { facts, inputs, marks, constraints, overlapping, taken_apart, coverage })
    }

    /// Takes the bounds of a predicate: smaller extents of inputs, and sums of bounded extents.
    fn constrain(&mut self, predicate: &Expr) -> Result<(), String> {
        for part in conjuncts(predicate) {
            if self.facts.prove(&part) {
                continue;
            }
            let (sum, bound) = upper_bound(&part).ok_or("a predicate is no upper bound")?;
            let sum = self.sum(&self.facts.simplify(&sum))?;
            let sum = self.ordered(sum)?;
            let (step, count) =
                (sum.step(), bound.checked_sub(sum.base).ok_or("a bound overflows")?);
            let extent = (count - 1).div_euclid(step) + 1;
            if extent < 1 {
                return Err("a predicate holds nowhere".to_owned());
            }
            let extent = extent.min(sum.extent());
            match &sum.splits[..] {
                [s] if s.mark < self.inputs.len()
                    && (s.lower_factor, s.extent) == (1, self.marks[s.mark].extent) =>
                {
                    self.marks[s.mark].extent = extent;
                }
                [] => return Err("a predicate holds nowhere".to_owned()),
                splits => {
                    let source: Vec<IterSplit> =
                        splits.iter().map(|s| IterSplit { scale: s.scale / step, ..*s }).collect();
                    self.marks.push(IterMark { source: MarkSource::Sum(source.clone()), extent });
                    self.constraints.push((source, self.marks.len() - 1));
                }
            }
        }
        Ok(())
    }

    /// An index, its splits in order.
    fn index(&mut self, e: &Expr) -> Result<IterSum, String> {
        let sum = self.sum(&self.facts.simplify(e))?;
        let sum = self.ordered(sum)?;
        let step = sum.step();
        let source: Vec<IterSplit> =
            sum.splits.iter().map(|s| IterSplit { scale: s.scale / step, ..*s }).collect();
        Ok(match self.constraints.iter().find(|(of, _)| *of == source) {
            Some((_, mark)) => {
                let extent = self.marks[*mark].extent;
                let whole = IterSplit { mark: *mark, lower_factor: 1, extent, scale: step };
                IterSum { splits: vec![whole], base: sum.base }
            }
            None => sum,
        })
    }

    /// The splits of an expression, in any order.
    fn sum(&mut self, e: &Expr) -> Result<IterSum, String> {
        if let Some(base) = e.as_int() {
            return Ok(IterSum { splits: vec![], base });
        }
        if let Some(var) = e.as_var() {
            let mark = self.inputs.iter().position(|(v, _)| *v == var);
            let mark = mark.ok_or("an index has a variable that is no input")?;
            let whole =
                IterSplit { mark, lower_factor: 1, extent: self.marks[mark].extent, scale: 1 };
            let splits = if whole.extent == 1 { vec![] } else { vec![whole] };
            return Ok(IterSum { splits, base: self.inputs[mark].1 });
        }
        let ExprKind::Binary { op, a, b } = e.kind() else {
            return Err("an index is no sum of quotients and remainders".to_owned());
        };
        match (op, a.as_int(), b.as_int()) {
            (BinOp::Add, ..) => added(self.sum(a)?, self.sum(b)?),
            (BinOp::Sub, ..) => added(self.sum(a)?, scaled(self.sum(b)?, -1)?),
            (BinOp::Mul, Some(c), _) => scaled(self.sum(b)?, c),
            (BinOp::Mul, _, Some(c)) => scaled(self.sum(a)?, c),
            (BinOp::FloorDiv, _, Some(c)) if c > 0 => {
                let sum = self.sum(a)?;
                self.quotient(sum, c)
            }
            (BinOp::FloorMod, _, Some(c)) if c > 0 => {
                let sum = self.sum(a)?;
                self.remainder(sum, c)
            }
            _ => Err("an index is no sum of quotients and remainders".to_owned()),
        }
    }

    fn quotient(&mut self, sum: IterSum, by: i64) -> Result<IterSum, String> {
        if self.taken_apart && sum.splits.iter().all(|s| s.scale % by == 0) {
            let splits =
                sum.splits.iter().map(|s| IterSplit { scale: s.scale / by, ..*s }).collect();
            return Ok(IterSum { splits, base: sum.base.div_euclid(by) });
        }
        let base = sum.base;
        let one = self.fused(sum)?;
        let Some(one) = one else {
            return Ok(IterSum { splits: vec![], base: base.div_euclid(by) });
        };
        if one.scale % by == 0 {
            let split = IterSplit { scale: one.scale / by, ..one };
            return Ok(IterSum { splits: vec![split], base: base.div_euclid(by) });
        }
        if by % one.scale != 0 || base % by != 0 {
            return Err("a quotient is not by a multiple of its dividend's step".to_owned());
        }
        let by_steps = by / one.scale;
        if one.extent % by_steps != 0 {
            return Err("a quotient does not divide the extent".to_owned());
        }
        let lower_factor = one.lower_factor * by_steps;
        let split = IterSplit { lower_factor, extent: one.extent / by_steps, scale: 1, ..one };
        Ok(IterSum { splits: self.apart(split), base: base / by })
    }

    fn remainder(&mut self, mut sum: IterSum, by: i64) -> Result<IterSum, String> {
        if self.taken_apart {
            sum.splits.retain(|s| s.scale % by != 0);
        }
        let base = sum.base.rem_euclid(by);
        let one = self.fused(sum)?;
        let Some(one) = one else { return Ok(IterSum { splits: vec![], base }) };
        if one.scale % by == 0 {
            return Ok(IterSum { splits: vec![], base });
        }
        if by % one.scale != 0 || base != 0 {
            return Err("a remainder is not by a multiple of its dividend's step".to_owned());
        }
        let steps = by / one.scale;
        if one.extent % steps != 0 {
            return Err("a remainder does not divide the extent".to_owned());
        }
        let split = IterSplit { extent: steps, ..one };
        Ok(IterSum { splits: self.apart(split), base: 0 })
    }

    /// The splits of a sum, largest first, where each counts on from the one before. Where each value may come up
    /// several times, terms that overlap without a gap are one split.
    fn ordered(&mut self, mut sum: IterSum) -> Result<IterSum, String> {
        sum.splits.sort_by_key(|s| std::cmp::Reverse(s.scale));
        if sum.splits.iter().any(|s| s.scale < 1) {
            return Err("an index falls with an input".to_owned());
        }
        let counts =
            |pair: &[IterSplit]| pair[1].scale.checked_mul(pair[1].extent) == Some(pair[0].scale);
        if sum.splits.windows(2).all(counts) {
            return Ok(sum);
        }
        let (step, mut reach) = (sum.step(), 1i64);
        for split in sum.splits.iter().rev() {
            let scale = split.scale / step;
            if split.scale % step != 0 || scale > reach || self.coverage == Coverage::Bijective {
                return Err("the terms of a sum overlap or leave gaps".to_owned());
            }
            reach += scale.checked_mul(split.extent - 1).ok_or("an index overflows")?;
        }
        let mark = self.mark_of(&sum, reach);
        self.overlapping.push(mark);
        let whole = IterSplit { mark, lower_factor: 1, extent: reach, scale: step };
        Ok(IterSum { splits: vec![whole], base: sum.base })
    }

    /// The mark of a sum of several splits.
    fn mark_of(&mut self, sum: &IterSum, extent: i64) -> usize {
        let step = sum.step();
        let terms = sum.splits.iter().map(|s| IterSplit { scale: s.scale / step, ..*s });
        let known = IterMark { source: MarkSource::Sum(terms.collect()), extent };
        self.marks.iter().position(|m| *m == known).unwrap_or_else(|| {
            self.marks.push(known);
            self.marks.len() - 1
        })
    }

    /// A sum as one split, but for its base; none where it is constant.
    fn fused(&mut self, sum: IterSum) -> Result<Option<IterSplit>, String> {
        let sum = self.ordered(sum)?;
        let (step, extent) = (sum.step(), sum.extent());
        let source: Vec<IterSplit> =
            sum.splits.iter().map(|s| IterSplit { scale: s.scale / step, ..*s }).collect();
        if let Some((_, mark)) = self.constraints.iter().find(|(of, _)| *of == source) {
            let extent = self.marks[*mark].extent;
            return Ok(Some(IterSplit { mark: *mark, lower_factor: 1, extent, scale: step }));
        }
        if let [] | [_] = &sum.splits[..] {
            return Ok(sum.splits.first().copied());
        }
        let mark = self.mark_of(&sum, extent);
        Ok(Some(IterSplit { mark, lower_factor: 1, extent, scale: step }))
    }

    /// A split of a sum as splits of its terms, where it begins and ends within whole values of them.
    fn apart(&self, split: IterSplit) -> Vec<IterSplit> {
        if split.extent == 1 {
            return vec![];
        }
        let whole = self.overlapping.contains(&split.mark)
            || self.constraints.iter().any(|(_, mark)| *mark == split.mark);
        let MarkSource::Sum(terms) = &self.marks[split.mark].source else { return vec![split] };
        if whole || !self.taken_apart {
            return vec![split];
        }
        let (from, to) = (split.lower_factor, split.lower_factor * split.extent);
        let mut parts = vec![];
        for term in terms {
            let (low, high) = (term.scale.max(from), (term.scale * term.extent).min(to));
            if low >= high {
                continue;
            }
            if low % term.scale != 0 || high % low != 0 || (term.scale * term.extent) % high != 0 {
                return vec![split];
            }
            let part = IterSplit {
                lower_factor: term.lower_factor * (low / term.scale),
                extent: high / low,
                scale: low / from * split.scale,
                ..*term
            };
            parts.extend(self.apart(part));
        }
        parts
    }
}

impl IterMap {
    /// The inputs of a point of indices, for a map that is [one to one](Coverage::Bijective); TVM's
    /// `inverse_affine_iter_map`. `firsts` has the first value of each input.
    ///
    /// ```
    /// use reflex_tir::arith::{Coverage, detect_iter_map};
    /// use reflex_tir::{Expr, PrimFunc};
    /// let mut f = PrimFunc::new("f");
    /// let [i, j, a] = ["i", "j", "a"].map(|name| f.new_var(name));
    /// let fused = Expr::var(i) * 8 + j;
    /// let map = detect_iter_map(&[fused], &[(i, 0, 4), (j, 0, 8)], &Expr::bool(true), Coverage::Bijective)?;
    /// let a = Expr::var(a);
    /// assert_eq!(map.inverse(&[a.clone()], &[0, 0]), [a.clone().floordiv(8), a.floormod(8)]);
    /// # Ok::<(), String>(())
    /// ```
    pub fn inverse(&self, point: &[Expr], firsts: &[i64]) -> Vec<Expr> {
        let mut values: Vec<Expr> = vec![Expr::i64(0); self.marks.len()];
        for (sum, at) in self.sums.iter().zip(point) {
            let number = if sum.base == 0 { at.clone() } else { at.clone() - sum.base };
            self.take_apart(&sum.splits, number, sum.extent(), &mut values);
        }
        // Sums come after their terms.
        for (mark, data) in self.marks.iter().enumerate().rev() {
            if let MarkSource::Sum(terms) = &data.source {
                let value = values[mark].clone();
                self.take_apart(terms, value, data.extent, &mut values);
            }
        }
        let of = |(first, value): (&i64, Expr)| if *first == 0 { value } else { value + *first };
        firsts.iter().zip(values).map(of).collect()
    }

    /// Adds the digits of a number to the marks that they are of.
    fn take_apart(&self, splits: &[IterSplit], number: Expr, extent: i64, values: &mut [Expr]) {
        for split in splits {
            let mut digit = number.clone();
            if split.scale != 1 {
                digit = digit.floordiv(split.scale);
            }
            if split.scale.saturating_mul(split.extent)
                < extent.saturating_mul(splits[splits.len() - 1].scale)
            {
                digit = digit.floormod(split.extent);
            }
            if split.lower_factor != 1 {
                digit = digit * split.lower_factor;
            }
            values[split.mark] = match values[split.mark].as_int() {
                Some(0) => digit,
                _ => values[split.mark].clone() + digit,
            };
        }
    }

    /// Bounded sums must be used as they are: their terms alone have no box of values.
    fn require_constraints(&self, constraints: &[(Vec<IterSplit>, usize)]) -> Result<(), String> {
        let used = |mark: usize| self.sums.iter().flat_map(|s| &s.splits).any(|s| s.mark == mark);
        match constraints.iter().all(|(_, mark)| used(*mark)) {
            true => Ok(()),
            false => Err("a predicate bounds a sum that is no index".to_owned()),
        }
    }

    fn require(&self, inputs: usize, coverage: Coverage) -> Result<(), String> {
        let mut splits: Vec<Vec<IterSplit>> = vec![vec![]; self.marks.len()];
        for split in self.sums.iter().flat_map(|s| &s.splits) {
            splits[split.mark].push(*split);
        }
        // Sums come after their terms.
        for mark in (0..self.marks.len()).rev() {
            let used = &mut splits[mark];
            if used.is_empty() && (mark >= inputs || coverage == Coverage::Surjective) {
                continue;
            }
            used.sort_by_key(|s| s.lower_factor);
            let mut next = 1;
            for split in used.iter() {
                let follows = match coverage {
                    Coverage::Bijective => split.lower_factor == next,
                    Coverage::Surjective => split.lower_factor % next == 0,
                };
                if !follows {
                    return Err("indices are not independent".to_owned());
                }
                next = split.lower_factor * split.extent;
            }
            let extent = self.marks[mark].extent;
            if extent % next != 0 || coverage == Coverage::Bijective && next != extent {
                return Err("an iterator is not covered".to_owned());
            }
            if let MarkSource::Sum(terms) = &self.marks[mark].source {
                for term in terms {
                    splits[term.mark].push(*term);
                }
            }
        }
        Ok(())
    }
}

fn added(mut a: IterSum, b: IterSum) -> Result<IterSum, String> {
    a.base = a.base.checked_add(b.base).ok_or("an index overflows")?;
    for split in b.splits {
        let same = |s: &&mut IterSplit| {
            (s.mark, s.lower_factor, s.extent) == (split.mark, split.lower_factor, split.extent)
        };
        match a.splits.iter_mut().find(same) {
            Some(known) => {
                known.scale = known.scale.checked_add(split.scale).ok_or("an index overflows")?;
            }
            None => a.splits.push(split),
        }
    }
    a.splits.retain(|s| s.scale != 0);
    Ok(a)
}

fn scaled(mut sum: IterSum, by: i64) -> Result<IterSum, String> {
    let times = |n: i64| n.checked_mul(by).ok_or("an index overflows");
    sum.base = times(sum.base)?;
    for split in &mut sum.splits {
        split.scale = times(split.scale)?;
    }
    sum.splits.retain(|s| s.scale != 0);
    Ok(sum)
}

fn conjuncts(e: &Expr) -> Vec<Expr> {
    match e.kind() {
        ExprKind::And(a, b) => [conjuncts(a), conjuncts(b)].concat(),
        _ => vec![e.clone()],
    }
}

/// A condition as `sum < bound`.
fn upper_bound(e: &Expr) -> Option<(Expr, i64)> {
    let ExprKind::Compare { op, a, b } = e.kind() else { return None };
    match (op, a.as_int(), b.as_int()) {
        (CmpOp::Lt, None, Some(n)) => Some((a.clone(), n)),
        (CmpOp::Le, None, Some(n)) => Some((a.clone(), n.checked_add(1)?)),
        (CmpOp::Gt, Some(n), None) => Some((b.clone(), n)),
        (CmpOp::Ge, Some(n), None) => Some((b.clone(), n.checked_add(1)?)),
        _ => None,
    }
}
