//! Loop fusion of two adjacent loops. ([`Schedule::fuse`] is TVM's, for two nested loops.)

use super::access;
use super::state::{Schedule, ScheduleError};
use super::tree::sequence;
use crate::{For, ForKind, Stmt, Var};

impl Schedule {
    /// Loop fusion: `for i in 0..n { S(i) }; for j in 0..n { T(j) }` becomes
    /// `for i in 0..n { S(i); T(i) }`.
    ///
    /// Needs two serial loops from 0 of the same extent, directly one after the other, of which
    /// different iterations never touch the same element where one of the two writes it: each
    /// iteration of the second uses what the same one of the first made. The first loop stays; the
    /// second is gone.
    pub fn fuse_adjacent(&mut self, first: Var, second: Var) -> Result<(), ScheduleError> {
        let refuse = |s: &Schedule, why: String| s.refuse_loop("fuse_adjacent", second, why);
        let path = self.path_to_loop("fuse_adjacent", first)?;
        let (a, b) = (self.get_loop(first)?.clone(), self.get_loop(second)?.clone());
        let above = self.facts(&path[..path.len() - 1]);
        let plain = |l: &For| l.kind == ForKind::Serial && l.min.as_int() == Some(0);
        let apart = above.simplify(&(a.extent.clone() - b.extent.clone()));
        if !plain(&a) || !plain(&b) || apart.as_int() != Some(0) {
            return Err(refuse(self, "the loops are not serial ones over one range from 0".into()));
        }
        let is = |s: &Stmt, v: Var| matches!(s, Stmt::For(l) if l.var == v);
        let follows = match path.iter().rev().nth(1) {
            Some(Stmt::Seq(list)) => list.windows(2).any(|w| is(&w[0], first) && is(&w[1], second)),
            _ => false,
        };
        if !follows {
            return Err(refuse(self, "the loops are not directly one after the other".into()));
        }
        let body = b.body.substitute(&|v| (v == second).then(|| first.into()));
        let mut facts = above;
        facts.bind_loop(&a);
        // A single iteration has no other one.
        if a.extent.as_int() != Some(1) {
            access::require_fusable(&self.func, &facts, &a.body, &body, first)
                .map_err(|why| refuse(self, why))?;
        }
        let both = sequence([a.body.clone(), body]);
        let joined = Stmt::For(Box::new(For { body: both, ..a.clone() }));
        self.func.body = self.func.body.replace(&mut |s| match s {
            Stmt::Seq(list) if list.iter().any(|s| is(s, second)) => {
                let kept = list.iter().filter(|s| !is(s, second));
                Some(sequence(kept.map(|s| if is(s, first) { joined.clone() } else { s.clone() })))
            }
            _ => None,
        });
        self.note(format!("fuse_adjacent {}", self.names(&[first, second])));
        Ok(())
    }
}
