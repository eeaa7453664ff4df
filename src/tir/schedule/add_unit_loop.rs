//! A loop of one iteration around a loop or a block.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{Expr, Stmt, Var};

impl Schedule {
    /// `for i { S(i) }` becomes `for u in 0..1 { for i { S(i) } }`, around the `depth`-th loop of a
    /// block, or around the block where it has no more loops. So a computation without loops can be
    /// bound to a thread.
    ///
    /// Returns the new loop.
    pub fn add_unit_loop(&mut self, name: &str, depth: usize) -> Result<Var, ScheduleError> {
        let inner = self.get_loops(name)?.get(depth).copied();
        let unit = self.func.new_var("u");
        let around = |s: &Stmt| Stmt::serial(unit, Expr::i64(1), s.clone());
        self.func.body = self.func.body.replace(&mut |s| match (s, inner) {
            (Stmt::For(l), Some(inner)) if l.var == inner => Some(around(s)),
            (Stmt::Block(_), None) if tree::is_block(s, name) => Some(around(s)),
            _ => None,
        });
        self.note(format!("add_unit_loop {name} -> {}", self.name(unit)));
        Ok(unit)
    }
}
