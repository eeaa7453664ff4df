//! Software pipelining of a reduction through several buffers of shared memory.
//!
//! ```text
//! for g in the first stages - 1 groups: fill buffer g
//! for g in groups:
//!     barrier
//!     multiply buffer g % stages
//!     fill buffer (g - 1) % stages with group g + stages - 1
//! ```
//!
//! The loop has a copy of its body for each buffer. What is copied (`cp.async`) is on its way for `stages - 1`
//! groups; what goes through registers is loaded one group before it is stored to a buffer. Products come first,
//! since warpgroups' go on while threads issue copies; so the barrier is where it would not have to be yet.

use reflex_tir::arith::Analyzer;
use reflex_tir::thread::BarrierScope;
use reflex_tir::{Expr, ForKind, Stmt};

use crate::schedule::core::nest::Nest;

/// The parts of a reduction in groups of steps.
pub struct Pipelined<'a> {
    /// Buffers, where there are as many groups.
    pub stages: usize,
    /// Copies what needs no register of a group's operands to a buffer.
    pub copy: &'a dyn Fn(&mut Nest<'_>, usize, Expr) -> Stmt,
    /// Loads the rest of a group's operands to registers.
    pub load: &'a dyn Fn(&mut Nest<'_>, Expr) -> Stmt,
    /// Stores what was loaded to a buffer.
    pub fill: &'a dyn Fn(&mut Nest<'_>, usize) -> Stmt,
    /// Adds the product of the group that is in a buffer.
    pub multiply: &'a dyn Fn(&mut Nest<'_>, usize) -> Stmt,
}

/// The buffers that so many groups go through: two where that is not known, since what is too much is
/// multiplied.
pub fn stages_of(most: usize, groups: &Expr) -> usize {
    match groups.as_int().and_then(|n| usize::try_from(n).ok()) {
        Some(n) => most.min(n).max(2),
        None => 2,
    }
}

impl Pipelined<'_> {
    /// The reduction. Where the number of groups is known, the last ones, behind which there is nothing to
    /// load, come after the loop, which so has no conditions; otherwise there may be one more, which is nothing.
    pub fn reduce(&self, nest: &mut Nest<'_>, groups: &Expr) -> Stmt {
        let groups = Analyzer::new().simplify(groups);
        let known = groups.as_int();
        let stages = self.stages as i64;
        let is_there = |group: i64| known.is_none_or(|n| group < n);
        let mut all = vec![];
        for group in (0..stages - 1).filter(|group| is_there(*group)) {
            all.push((self.copy)(nest, group as usize, Expr::i64(group)));
            all.push((self.load)(nest, Expr::i64(group)));
            all.push((self.fill)(nest, group as usize));
        }
        if is_there(stages - 1) {
            all.push((self.load)(nest, Expr::i64(stages - 1)));
        }
        let rounds =
            known.map_or(groups.ceildiv(stages), |n| Expr::i64((n - stages).max(0) / stages));
        let rounds = Analyzer::new().simplify(&rounds);
        all.push(nest.repeat(ForKind::Serial, "k0", rounds.clone(), |nest, k0| {
            let group = |s: i64| k0.clone() * stages + s;
            Stmt::Seq((0..stages).map(|s| self.step(nest, s, group(s), [true; 2])).collect())
        }));
        let first = rounds.as_int().map_or(0, |rounds| rounds * stages);
        for group in first..known.unwrap_or(0) {
            let more = [is_there(group + stages - 1), is_there(group + stages)];
            all.push(self.step(nest, group % stages, Expr::i64(group), more));
        }
        Stmt::Seq(all)
    }

    /// A group in buffer `s`, while a later one is copied or stored, and another one loaded, if they are there.
    fn step(&self, nest: &mut Nest<'_>, s: i64, group: Expr, [copied, loaded]: [bool; 2]) -> Stmt {
        let (stages, mut all) = (self.stages as i64, vec![]);
        let other = ((s + stages - 1) % stages) as usize;
        all.push(Stmt::Barrier(BarrierScope::Block));
        all.push((self.multiply)(nest, s as usize));
        if copied {
            all.push((self.copy)(nest, other, group.clone() + (stages - 1)));
            all.push((self.fill)(nest, other));
        }
        if loaded {
            all.push((self.load)(nest, group + stages));
        }
        Stmt::Seq(all)
    }
}
