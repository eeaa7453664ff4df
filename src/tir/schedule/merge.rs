//! Loop fusion of nests one after the other, down to given loops.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{Stmt, Var};

impl Schedule {
    /// `for i { for j { S(i, j) } }; for k { for l { T(k, l) } }` becomes `for i { for j { S(i, j); T(i, j) } }`
    /// for the loops `j` and `l`: the nests that hold them are merged level by level, each as
    /// [`fuse_adjacent`](Schedule::fuse_adjacent) does.
    ///
    /// Needs two or more loops, each in a nest of loops alone below the sequence that holds all the nests, equally
    /// deep, and at each level what `fuse_adjacent` needs. Returns the first loop, which stays; the others are
    /// gone.
    pub fn merge(&mut self, loops: &[Var]) -> Result<Var, ScheduleError> {
        let [first, others @ ..] = loops else {
            return Err(self.refuse("merge", "", "there is no loop"));
        };
        if others.is_empty() || loops.iter().enumerate().any(|(n, l)| loops[..n].contains(l)) {
            return Err(self.refuse_loop("merge", *first, "it takes two or more different loops"));
        }
        let mut merged = self.clone();
        for other in others {
            for (kept, gone) in merged.levels(*first, *other)? {
                merged.fuse_adjacent(kept, gone).map_err(|refused| {
                    let why = format!("{} at `{}`", refused.why, refused.at);
                    self.refuse_loop("merge", *other, why)
                })?;
            }
        }
        *self = merged;
        Ok(*first)
    }

    /// The loops of both nests, from the sequence that holds them to the given ones, in pairs.
    fn levels(&self, first: Var, other: Var) -> Result<Vec<(Var, Var)>, ScheduleError> {
        let refuse = |why: &str| Err(self.refuse_loop("merge", other, why));
        let (a, b) = (self.path_to_loop("merge", first)?, self.path_to_loop("merge", other)?);
        let shared = a.iter().zip(&b).take_while(|(a, b)| std::ptr::eq(**a, **b)).count();
        let (below, beside) = (&a[shared..], &b[shared..]);
        let only_loops = |nest: &[&Stmt]| nest.iter().all(|s| matches!(s, Stmt::For(_)));
        if below.is_empty() || beside.is_empty() {
            return refuse("one of the loops is around the other");
        }
        if !only_loops(below) || !only_loops(beside) {
            return refuse("something other than loops lies between");
        }
        if below.len() != beside.len() {
            return refuse("the loops are not equally deep");
        }
        let vars = |nest: &[&Stmt]| tree::loops_of(nest).map(|l| l.var).collect::<Vec<Var>>();
        Ok(vars(below).into_iter().zip(vars(beside)).collect())
    }
}
