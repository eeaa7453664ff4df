//! Taking a reduction's init out into a block of its own.

use super::access;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, conjuncts, loops_between, splice_before};
use crate::{Block, Expr, For, Stmt, Var};

impl Schedule {
    /// `for i { for k { init { X[i] = 0 }; X[i] += f(i, k) } }` becomes, at loop `k`,
    /// `for i { X[i] = 0; for k { X[i] += f(i, k) } }`, and at loop `i`,
    /// `for i' { X[i'] = 0 }; for i { for k { X[i] += f(i, k) } }`. The loops from `at` inwards
    /// that choose an element (spatial loops) are copied, with their kinds.
    ///
    /// Needs all loops of the reduction at or below `at`, no block below `at` that reads the
    /// result before it is complete, and instances that each belong to one iteration. Returns
    /// the name of the new block.
    pub fn decompose_reduction(&mut self, name: &str, at: Var) -> Result<String, ScheduleError> {
        let block = self.get_block(name)?.clone();
        let refuse = |why: &str| self.refuse("decompose_reduction", name, why);
        let Some(init) = block.init.clone() else {
            return Err(refuse("it has no init"));
        };
        self.require_no_opaque("decompose_reduction", &block)?;
        let path = self.path_to_block("decompose_reduction", name)?;
        let from = path.iter().position(|s| matches!(s, Stmt::For(l) if l.var == at));
        let Some(from) = from else {
            return Err(refuse("the loop is not around it"));
        };
        let loops: Vec<For> = loops_between(&path[from..path.len() - 1])
            .ok_or_else(|| refuse("something other than loops lies between"))?;
        let reduces = |v: Var| block.reduction_iters().any(|i| tree::mentions(&i.value, v));
        let spatial = |v: Var| block.spatial_iters().any(|i| tree::mentions(&i.value, v));
        let above: Vec<Var> = tree::loops_of(&path[..from]).map(|l| l.var).collect();
        if let Some(v) = above.iter().find(|v| reduces(**v)) {
            let outer = self.name(*v);
            return Err(refuse(&format!("the loop `{outer}` of the reduction lies outside")));
        }
        self.require_one_instance_each(&block, &loops, &self.facts(&path))?;
        let kept: Vec<&For> = loops.iter().filter(|l| spatial(l.var)).collect();
        if let Some(l) = kept.iter().find(|l| reduces(l.var)) {
            let both = &self.func.vars[l.var].name;
            return Err(refuse(&format!("the loop `{both}` is both spatial and of the reduction")));
        }
        let gone = |e: &Expr| loops.iter().any(|l| !spatial(l.var) && tree::mentions(e, l.var));
        let (dropped, predicate): (Vec<Expr>, Vec<Expr>) =
            conjuncts(&block.predicate).into_iter().partition(gone);
        if dropped.iter().any(|c| kept.iter().any(|l| tree::mentions(c, l.var))) {
            return Err(refuse("its guard mixes reduction and spatial loops"));
        }
        if kept.iter().any(|l| gone(&l.min) || gone(&l.extent)) {
            return Err(refuse("the bounds of a spatial loop depend on a reduction loop"));
        }
        let new_name = self.unique_block(&format!("{name}_init"));
        let opening = Block {
            name: new_name.clone(),
            predicate: predicate.into_iter().fold(Expr::bool(true), Expr::and),
            body: init,
            ..block.clone()
        };
        let nest = self.init_nest(opening, &kept);
        let mut rest = block;
        rest.init = None;
        self.refresh_regions(&mut rest);
        let body =
            tree::replace_block(&self.func.body, name, |_| Stmt::Block(Box::new(rest.clone())));
        let body = splice_before(&body, at, &nest);
        self.commit("decompose_reduction", name, body, &above)?;
        self.note(format!("decompose_reduction {name} {} -> {new_name}", self.name(at)));
        Ok(new_name)
    }

    /// A copy of the spatial loops around the block that runs the init.
    fn init_nest(&mut self, mut block: Block, loops: &[&For]) -> Stmt {
        block.iters = block.spatial_iters().cloned().collect();
        block.init = None;
        self.refresh_regions(&mut block);
        let around = |body, l: &&For| Stmt::For(Box::new(l.with_body(body)));
        let nest = loops.iter().rev().fold(Stmt::Block(Box::new(block)), around);
        self.fresh_copy(&nest, "")
    }

    /// Each loop from `at` inwards must belong to one element or to its reduction, and nothing
    /// else under `at` may see the element half done.
    fn require_one_instance_each(
        &self,
        block: &Block,
        loops: &[For],
        facts: &crate::arith::Analyzer,
    ) -> Result<(), ScheduleError> {
        let refuse = |why: String| Err(self.refuse("decompose_reduction", &block.name, why));
        let [buffer] = block.writes.iter().map(|r| r.buffer).collect::<Vec<_>>()[..] else {
            return refuse("it does not write one buffer".into());
        };
        if !self.starts_at_zero(block, loops.iter(), facts) {
            return refuse("the reduction is not shown to start where its init runs".into());
        }
        let others = tree::blocks(&loops[0].body);
        let readers = self.readers(buffer);
        for other in others.iter().filter(|b| b.name != block.name) {
            if readers.contains(&other.name) || Schedule::block_writes(other, buffer) {
                return refuse(format!("`{}` uses the result under the same loop", other.name));
            }
        }
        let free = loops.iter().map(|l| l.var).collect();
        let spatial: Vec<Expr> = block.spatial_iters().map(|i| i.value.clone()).collect();
        let reduction: Vec<Expr> = block.reduction_iters().map(|i| i.value.clone()).collect();
        for l in loops {
            let one = access::determines(facts, &spatial, l.var, &free)
                || access::determines(facts, &reduction, l.var, &free);
            if !one {
                let name = &self.func.vars[l.var].name;
                return refuse(format!("the loop `{name}` repeats instances"));
            }
        }
        Ok(())
    }
}
