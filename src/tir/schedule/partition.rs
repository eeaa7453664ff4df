//! Loop partitioning (index-set splitting): cutting the range of a loop in two.

use super::state::{Schedule, ScheduleError};
use super::tree::{self, sequence};
use crate::{Expr, For, ForKind, Stmt, Var};

impl Schedule {
    /// `for i in 0..n { S(i) }` becomes
    /// `for i in 0..p { S(i) }; for t in 0..n-p { S'(p + t) }`, where `S'` is a copy whose blocks
    /// are called `<name>_tail`, so that each part gets a schedule of its own: with
    /// `p = n // k * k`, splitting the first part by `k` needs no guard. Order is kept.
    ///
    /// Needs `0 <= p <= n`, and neither part known to be empty. Returns the two loops; the first is
    /// the one given.
    pub fn partition(&mut self, at: Var, point: Expr) -> Result<(Var, Var), ScheduleError> {
        let path = self.path_to_loop("partition", at)?;
        let l = self.get_loop(at)?.clone();
        let refuse = |why: &str| Err(self.refuse_loop("partition", at, why));
        if l.kind != ForKind::Serial {
            return refuse("only a serial loop can be cut; cut before giving it a kind");
        }
        let facts = self.facts(&path[..path.len() - 1]);
        let point = facts.simplify(&point);
        if !facts.prove(&point.clone().ge(0)) || !facts.prove(&point.clone().le(l.extent.clone())) {
            return refuse("the point is not shown to lie in the loop's range");
        }
        let rest = facts.simplify(&(l.extent.clone() - point.clone()));
        if point.as_int() == Some(0) || rest.as_int() == Some(0) {
            // Inside a loop that never runs every fact holds, and rewrites mean nothing.
            return refuse("one part would be empty");
        }
        let head = Stmt::For(Box::new(For { extent: point.clone(), ..l.clone() }));
        let copy = self.fresh_copy(&Stmt::For(Box::new(l.clone())), "_tail");
        let Stmt::For(mut tail) = copy else { unreachable!("a loop was copied") };
        let name = &mut self.func.vars[tail.var].name;
        *name = format!("{name}_tail").into();
        let text = self.text(&point);
        self.note(format!(
            "partition {} at {text} -> {}",
            self.name(at),
            self.names(&[at, tail.var])
        ));
        let (var, min) = (tail.var, l.min.clone());
        let value = min.clone() + point + (Expr::var(var) - min);
        tail.body = tail.body.substitute(&|v| (v == var).then(|| value.clone()));
        tail.extent = rest;
        let both = facts.simplify_stmt(&sequence([head, Stmt::For(tail)]));
        self.func.body = tree::replace_loop(&self.func.body, at, |_| both.clone());
        self.flatten();
        Ok((at, var))
    }

    /// Merges sequences in sequences.
    pub(super) fn flatten(&mut self) {
        fn flat(stmt: &Stmt) -> Stmt {
            match stmt.map_children(&mut flat) {
                Stmt::Seq(list) => sequence(list),
                other => other,
            }
        }
        self.func.body = flat(&self.func.body);
    }
}
