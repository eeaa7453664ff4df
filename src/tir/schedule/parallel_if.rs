//! Conditional parallelism: threads for a loop where a condition holds at run time.

use std::collections::BTreeMap;

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{DType, Expr, ExprKind, For, ForKind, Stmt, Var};

impl Schedule {
    /// OpenMP's `if` clause: `for i in 0..n { S(i) }` becomes
    /// `parallel for t in 0..(n if cond else 1) { for j in 0..(1 if cond else n) { S(t + j) } }`:
    /// a task for each iteration where the condition holds, else one task for all of them. There
    /// is one body, where [`Schedule::specialize`] makes two.
    ///
    /// Needs what [`Schedule::parallel`] needs, a loop from 0, and a condition over symbolic
    /// dimensions and scalar parameters. Returns the outer and inner loops; `i` is gone.
    pub fn parallel_if(&mut self, at: Var, cond: &Expr) -> Result<(Var, Var), ScheduleError> {
        let refuse = |s: &Schedule, why: &str| s.refuse_loop("parallel_if", at, why);
        let l = self.get_loop(at)?.clone();
        if l.kind != ForKind::Serial || l.min.as_int() != Some(0) {
            return Err(refuse(self, "only a serial loop from 0 is shared"));
        }
        let known = crate::abi::scalar_vars(&self.func);
        let mut fixed = cond.dtype() == DType::BOOL;
        cond.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => fixed &= known.contains(var),
            ExprKind::Load { .. } => fixed = false,
            _ => {}
        });
        if !fixed {
            return Err(refuse(self, "the condition is not one over extents of the function"));
        }
        self.require_independent("parallel_if", at)?;
        let name = self.func.vars[at].name.clone();
        let (task, within) = (self.func.new_var("task"), self.func.new_var(name));
        let tasks = Expr::select(cond.clone(), l.extent.clone(), Expr::i64(1));
        let each = Expr::select(cond.clone(), Expr::i64(1), l.extent.clone());
        let index = Expr::from(task) + within;
        let body = l.body.substitute(&|v| (v == at).then(|| index.clone()));
        let inner = For { var: within, extent: each, body, ..l.clone() };
        let outer = For {
            var: task,
            extent: tasks,
            kind: ForKind::Parallel,
            annotations: BTreeMap::new(),
            body: Stmt::For(Box::new(inner)),
            ..l
        };
        let nest = Stmt::For(Box::new(outer));
        self.note(format!(
            "parallel {} where {} -> task, {}",
            self.name(at),
            self.text(cond),
            self.name(within)
        ));
        self.func.body = tree::replace_loop(&self.func.body, at, |_| nest.clone());
        Ok((task, within))
    }
}
