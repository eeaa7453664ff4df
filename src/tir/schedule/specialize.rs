//! Loop versioning (Halide's `specialize`): two versions of a loop, chosen by a condition at run
//! time.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{DType, Expr, ExprKind, ForKind, Stmt, Var};

impl Schedule {
    /// `for i { S }` becomes `if cond { for i { S } } else { for j { S' } }`, where `S'` is a copy
    /// whose blocks are called `<name>_else`: each version gets a schedule of its own, such as
    /// threads where there is enough to do.
    ///
    /// Needs a condition over variables that are known outside of the loop. Returns the two loops;
    /// the first is the one given.
    pub fn specialize(&mut self, at: Var, cond: Expr) -> Result<(Var, Var), ScheduleError> {
        let path = self.path_to_loop("specialize", at)?;
        let l = self.get_loop(at)?.clone();
        let refuse = |why: &str| Err(self.refuse_loop("specialize", at, why));
        if l.kind != ForKind::Serial {
            return refuse("only a serial loop has versions; choose before giving it a kind");
        }
        if cond.dtype() != DType::BOOL {
            return refuse("the condition is not of type bool");
        }
        let mut below = vec![];
        l.body.visit(&mut |s| match s {
            Stmt::For(l) => below.push(l.var),
            Stmt::Block(b) => below.extend(b.iters.iter().map(|i| i.var)),
            Stmt::Let { var, .. } => below.push(*var),
            _ => {}
        });
        let mut fixed = true;
        cond.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => fixed &= *var != at && !below.contains(var),
            ExprKind::Load { .. } => fixed = false,
            _ => {}
        });
        if !fixed {
            return refuse("the condition changes while the loop runs");
        }
        let cond = self.facts(&path[..path.len() - 1]).simplify(&cond);
        let whole = Stmt::For(Box::new(l));
        let copy = self.fresh_copy(&whole, "_else");
        let Stmt::For(other) = &copy else { unreachable!("a loop was copied") };
        let var = other.var;
        let name = &mut self.func.vars[var].name;
        *name = format!("{name}_else").into();
        let (first, second) = (self.name(at), self.name(var));
        self.note(format!("specialize {first} where {}, else {second}", self.text(&cond)));
        let both = Stmt::If { cond, then: Box::new(whole), otherwise: Some(Box::new(copy)) };
        self.func.body = tree::replace_loop(&self.func.body, at, |_| both.clone());
        Ok((at, var))
    }
}
