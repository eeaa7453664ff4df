//! The order of a block's iterators.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{Block, Stmt};

impl Schedule {
    /// The iterators of a block, with their bindings, in another order: `order[n]` is the place that the new `n`th
    /// had. Loops stay as they are.
    ///
    /// Needs every place once.
    pub fn reorder_block_iters(
        &mut self,
        name: &str,
        order: &[usize],
    ) -> Result<(), ScheduleError> {
        let count = self.get_block(name)?.iters.len();
        let mut places = order.to_vec();
        places.sort_unstable();
        if !places.into_iter().eq(0..count) {
            let why = format!("{order:?} is no order of its {count} iterators");
            return Err(self.refuse("reorder_block_iter_var", name, why));
        }
        self.func.body = tree::replace_block(&self.func.body, name, |b| {
            let iters = order.iter().map(|n| b.iters[*n].clone()).collect();
            Stmt::Block(Box::new(Block { iters, ..b.clone() }))
        });
        self.note(format!("reorder_block_iter_var {name} {order:?}"));
        Ok(())
    }
}
