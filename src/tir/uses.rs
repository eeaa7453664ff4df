//! The variables and buffers that a statement mentions, which a function made of it needs.

use std::collections::BTreeSet;

use crate::launch::Launch;
use crate::{Buffer, Expr, ExprKind, PrimFunc, Scope, Stmt, Var};

/// The variables and buffers that a statement mentions, its own variables and buffers included.
#[derive(Debug, Default)]
pub struct Uses {
    /// Variables.
    pub vars: BTreeSet<Var>,
    /// Buffers.
    pub buffers: BTreeSet<Buffer>,
}

impl Uses {
    /// The uses of `body`, and the variables in the shapes of the buffers, which indexing needs.
    pub fn of(func: &PrimFunc, body: &Stmt) -> Uses {
        let mut uses = Uses::default();
        body.visit(&mut |s| {
            uses.buffers.extend(s.touched());
            if let Stmt::Allocate { buffer, .. } = s {
                uses.buffers.insert(*buffer);
            }
            s.for_each_expr(&mut |e| uses.add(e));
        });
        for buffer in uses.buffers.clone() {
            func.buffers[buffer].shape.iter().for_each(|extent| uses.add(extent));
        }
        uses
    }

    /// The names that a launch takes from outside: buffers of the device, and variables that it does not bind itself.
    pub fn of_launch(func: &PrimFunc, launch: &Launch<'_>) -> Uses {
        let mut uses = Uses::of(func, launch.body);
        for l in launch.blocks.iter().chain(&launch.threads) {
            uses.vars.remove(&l.var);
        }
        launch.body.visit(&mut |s| match s {
            Stmt::For(l) => drop(uses.vars.remove(&l.var)),
            Stmt::Let { var, .. } => drop(uses.vars.remove(var)),
            _ => {}
        });
        uses.buffers.retain(|buffer| func.buffers[*buffer].scope == Scope::Global);
        uses
    }

    /// The uses of a statement's own expressions.
    pub fn of_exprs(s: &Stmt) -> Uses {
        let mut uses = Uses::default();
        s.for_each_expr(&mut |e| uses.add(e));
        uses
    }

    fn add(&mut self, e: &Expr) {
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => drop(self.vars.insert(*var)),
            ExprKind::Load { buffer, .. } => drop(self.buffers.insert(*buffer)),
            _ => {}
        });
    }
}
