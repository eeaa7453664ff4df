//! Cutting one loop into two nested ones.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{Expr, For, ForKind, Stmt, Var};

impl Schedule {
    /// `for i in m..m+n { S(i) }` becomes
    /// `for o in 0..ceil(n/k) { for j in 0..k { S(m + o*k + j) } }`, guarded by
    /// `o*k + j < n` unless `k` provably divides `n`. The order of iterations is kept.
    ///
    /// Returns the outer and inner loops; `i` is gone. Annotations move to the outer loop.
    pub fn split(&mut self, at: Var, factor: i64) -> Result<(Var, Var), ScheduleError> {
        if factor < 1 {
            return Err(self.refuse_loop("split", at, format!("{factor} is not a tile size")));
        }
        let outer = |n: &Expr| n.clone().ceildiv(factor);
        self.split_into("split", at, &outer, &|_| factor.into())
    }

    /// `for i in m..m+n { S(i) }` becomes
    /// `for o in 0..parts { for j in 0..ceil(n/parts) { S(m + o*ceil(n/parts) + j) } }` with
    /// the guard of [`Schedule::split`]: an outer loop of a fixed number of parts.
    ///
    /// Returns the outer and inner loops; `i` is gone. Annotations move to the outer loop.
    pub fn split_nparts(&mut self, at: Var, parts: i64) -> Result<(Var, Var), ScheduleError> {
        if parts < 1 {
            return Err(self.refuse_loop("split_nparts", at, format!("{parts} parts")));
        }
        let inner = |n: &Expr| n.clone().ceildiv(parts);
        self.split_into("split_nparts", at, &|_| parts.into(), &inner)
    }

    fn split_into(
        &mut self,
        primitive: &'static str,
        at: Var,
        outer: &dyn Fn(&Expr) -> Expr,
        inner: &dyn Fn(&Expr) -> Expr,
    ) -> Result<(Var, Var), ScheduleError> {
        let path = self.path_to_loop(primitive, at)?;
        let l = self.get_loop(at)?.clone();
        if l.kind != ForKind::Serial {
            let why = "only a serial loop can be split; split before giving it a kind";
            return Err(self.refuse_loop(primitive, at, why));
        }
        let mut facts = self.facts(&path[..path.len() - 1]);
        let extent = facts.simplify(&l.extent);
        let (outer, inner) = (facts.simplify(&outer(&extent)), facts.simplify(&inner(&extent)));
        let name = self.func.vars[at].name.clone();
        let (o, j) =
            (self.func.new_var(format!("{name}_0")), self.func.new_var(format!("{name}_1")));
        facts.bind(o, 0.into(), outer.clone());
        facts.bind(j, 0.into(), inner.clone());

        let position = Expr::var(o) * inner.clone() + Expr::var(j);
        let value = facts.simplify(&(l.min.clone() + position.clone()));
        let inside = position.lt(extent);
        let mut body = l.body.substitute(&|v| (v == at).then(|| value.clone()));
        if !facts.prove(&inside) {
            body = tree::guard(&body, &inside);
        }
        let body = facts.simplify_stmt(&body);
        self.func.body = tree::replace_loop(&self.func.body, at, |l: &For| {
            let mut nest =
                Stmt::serial(o, outer.clone(), Stmt::serial(j, inner.clone(), body.clone()));
            if let Stmt::For(outer) = &mut nest {
                outer.annotations = l.annotations.clone();
            }
            nest
        });
        let by = inner.as_int().map_or_else(|| self.text(&inner), |n| n.to_string());
        self.note(format!("{primitive} {} by {by} -> {}", self.name(at), self.names(&[o, j])));
        Ok((o, j))
    }
}
