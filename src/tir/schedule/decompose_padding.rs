//! Taking the constant of a padding out into a block of its own.

use super::compute_inline::loads;
use super::state::{Schedule, ScheduleError};
use super::tree::{self, loops_between, splice_before};
use crate::{Block, ExprKind, For, Intrin, IterKind, Stmt, Var};

impl Schedule {
    /// `for i { Y[i] = if_then_else(c(i), f(i), p) }` becomes `for i' { Y[i'] = p }; for i { if c(i) { Y[i] = f(i) } }`,
    /// where `i` are the loops from `at` inwards; those of the new nest are copies, with their kinds.
    ///
    /// Needs a block of spatial iterators alone, whose one store is to another element in every instance, a padding
    /// `p` and a condition that load nothing, an `f` that does not load the buffer, and no other block below `at`
    /// that uses the buffer. Returns the name of the block that stores the padding.
    pub fn decompose_padding(&mut self, name: &str, at: Var) -> Result<String, ScheduleError> {
        let block = self.get_block(name)?.clone();
        let refuse = |why: &str| self.refuse("decompose_padding", name, why);
        let (buffer, indices, value) = self.single_store("decompose_padding", &block)?;
        let (inside, inner, padding) = match value.kind() {
            ExprKind::Call { op: Intrin::IfThenElse, args, .. } => match &args[..] {
                [inside, inner, padding] => (inside.clone(), inner.clone(), padding.clone()),
                _ => return Err(refuse("its value is no choice between two")),
            },
            _ => return Err(refuse("its value is no choice between two")),
        };
        if !loads(&padding).is_empty() || !loads(&inside).is_empty() {
            return Err(refuse("its padding or the condition depends on loaded elements"));
        }
        if block.iters.iter().any(|i| i.kind != IterKind::Spatial) || block.init.is_some() {
            return Err(refuse("it is a reduction"));
        }
        if !self.is_injective(&block) && !self.show_injective(&block) {
            return Err(refuse("two instances are not shown to store to different elements"));
        }
        if loads(&inner).contains(&buffer) {
            return Err(refuse("it loads what it stores"));
        }
        let path = self.path_to_block("decompose_padding", name)?;
        let from = path.iter().position(|s| matches!(s, Stmt::For(l) if l.var == at));
        let Some(from) = from else { return Err(refuse("the loop is not around it")) };
        let loops: Vec<For> = loops_between(&path[from..path.len() - 1])
            .ok_or_else(|| refuse("something other than loops lies between"))?;
        let readers = self.readers(buffer);
        for other in tree::blocks(&loops[0].body).iter().filter(|b| b.name != block.name) {
            if readers.contains(&other.name) || Schedule::block_writes(other, buffer) {
                let why = format!("`{}` uses its elements under the same loop", other.name);
                return Err(refuse(&why));
            }
        }
        let above: Vec<Var> = tree::loops_of(&path[..from]).map(|l| l.var).collect();
        let new_name = self.unique_block(&format!("{name}_pad_const"));
        let mut filling = Block {
            name: new_name.clone(),
            body: Stmt::store(buffer, indices.to_vec(), padding),
            ..block.clone()
        };
        let bound = |v: Var| block.iters.iter().find(|i| i.var == v).map(|i| i.value.clone());
        let mut rest = Block {
            predicate: block.predicate.clone().and(inside.substitute(&bound)),
            body: Stmt::store(buffer, indices.to_vec(), inner),
            ..block.clone()
        };
        self.refresh_regions(&mut filling);
        self.refresh_regions(&mut rest);
        self.note_injective(&filling);
        let nest = tree::nested(&loops, Stmt::Block(Box::new(filling.clone())));
        // The copy has variables of its own, and its name again.
        let nest = self.fresh_copy(&nest, "");
        self.note_injective(&rest);
        let body =
            tree::replace_block(&self.func.body, name, |_| Stmt::Block(Box::new(rest.clone())));
        let body = splice_before(&body, at, &nest);
        self.commit("decompose_padding", name, body, &above)?;
        self.note(format!("decompose_padding {name} {} -> {new_name}", self.name(at)));
        Ok(new_name)
    }
}
