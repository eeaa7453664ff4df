//! Making two perfectly nested loops one.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{Expr, ForKind, Stmt, Var};

impl Schedule {
    /// `for i in 0..m { for j in 0..n { S(i, j) } }` becomes
    /// `for f in 0..m*n { S(f // n, f % n) }`. The order of iterations is kept.
    ///
    /// Returns the fused loop; `i` and `j` are gone. Annotations of both are kept.
    pub fn fuse(&mut self, outer: Var, inner: Var) -> Result<Var, ScheduleError> {
        let path = self.path_to_loop("fuse", outer)?;
        let (a, b) = (self.get_loop(outer)?.clone(), self.get_loop(inner)?.clone());
        let refuse = |why: &str| Err(self.refuse_loop("fuse", outer, why));
        match &a.body {
            Stmt::For(l) if l.var == inner => {}
            _ => return refuse("the second loop is not all of the first one's body"),
        }
        if a.kind != ForKind::Serial || b.kind != ForKind::Serial {
            return refuse("only serial loops can be fused");
        }
        if tree::mentions(&b.extent, outer) || tree::mentions(&b.min, outer) {
            return refuse("the bounds of the inner loop depend on the outer one");
        }
        let mut facts = self.facts(&path[..path.len() - 1]);
        let (m, n) = (facts.simplify(&a.extent), facts.simplify(&b.extent));
        let extent = facts.simplify(&(m * n.clone()));
        let names = (&self.func.vars[outer].name, &self.func.vars[inner].name);
        let name = format!("{}_{}_fused", names.0, names.1);
        let fused = self.func.new_var(name);
        if let Some(symbol) = n.as_var() {
            // Inside the loop the extent of the inner one is positive.
            facts.at_least(symbol, 1);
        }
        facts.bind(fused, 0.into(), extent.clone());
        let f = Expr::var(fused);
        let i = facts.simplify(&(a.min.clone() + f.clone().floordiv(n.clone())));
        let j = facts.simplify(&(b.min.clone() + f.floormod(n)));
        let body = b.body.substitute(&|v| match v {
            v if v == outer => Some(i.clone()),
            v if v == inner => Some(j.clone()),
            _ => None,
        });
        let body = facts.simplify_stmt(&body);
        let mut annotations = a.annotations;
        annotations.extend(b.annotations);
        self.func.body = tree::replace_loop(&self.func.body, outer, |_| {
            let mut l = Stmt::serial(fused, extent.clone(), body.clone());
            if let Stmt::For(l) = &mut l {
                l.annotations = annotations.clone();
            }
            l
        });
        self.note(format!("fuse {} -> {}", self.names(&[outer, inner]), self.name(fused)));
        Ok(fused)
    }

    /// Fuses perfectly nested loops, outermost first, into one.
    pub fn fuse_all(&mut self, loops: &[Var]) -> Result<Var, ScheduleError> {
        let Some((first, rest)) = loops.split_first() else {
            return Err(self.refuse("fuse", "", "no loop was given"));
        };
        rest.iter().try_fold(*first, |fused, next| self.fuse(fused, *next))
    }
}
