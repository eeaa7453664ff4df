//! Free annotations on loops and blocks; nothing is computed differently because of one.

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{Block, For, Scope, Stmt, Var};

impl Schedule {
    /// Adds or replaces an annotation of a loop.
    pub fn annotate_loop(&mut self, at: Var, key: &str, value: &str) -> Result<(), ScheduleError> {
        self.get_loop(at)?;
        self.func.body = tree::replace_loop(&self.func.body, at, |l| {
            let mut l: For = l.clone();
            l.annotations.insert(key.to_string(), value.to_string());
            Stmt::For(Box::new(l))
        });
        self.note(format!("annotate {} {key}={value}", self.name(at)));
        Ok(())
    }

    /// Adds or replaces an annotation of a block.
    pub fn annotate_block(
        &mut self,
        at: &str,
        key: &str,
        value: &str,
    ) -> Result<(), ScheduleError> {
        self.get_block(at)?;
        self.func.body = tree::replace_block(&self.func.body, at, |b| {
            let mut b: Block = b.clone();
            b.annotations.insert(key.to_string(), value.to_string());
            Stmt::Block(Box::new(b))
        });
        self.note(format!("annotate {at} {key}={value}"));
        Ok(())
    }

    /// Takes an annotation of a loop away.
    ///
    /// Needs one of this key.
    pub fn unannotate_loop(&mut self, at: Var, key: &str) -> Result<(), ScheduleError> {
        if !self.get_loop(at)?.annotations.contains_key(key) {
            let why = format!("it has no annotation {key:?}");
            return Err(self.refuse_loop("unannotate", at, why));
        }
        self.func.body = tree::replace_loop(&self.func.body, at, |l| {
            let mut l = l.clone();
            l.annotations.remove(key);
            Stmt::For(Box::new(l))
        });
        self.note(format!("unannotate {} {key}", self.name(at)));
        Ok(())
    }

    /// Takes an annotation of a block away.
    ///
    /// Needs one of this key.
    pub fn unannotate_block(&mut self, at: &str, key: &str) -> Result<(), ScheduleError> {
        if !self.get_block(at)?.annotations.contains_key(key) {
            return Err(self.refuse("unannotate", at, format!("it has no annotation {key:?}")));
        }
        self.func.body = tree::replace_block(&self.func.body, at, |b| {
            let mut b = b.clone();
            b.annotations.remove(key);
            Stmt::Block(Box::new(b))
        });
        self.note(format!("unannotate {at} {key}"));
        Ok(())
    }

    /// Moves an intermediate buffer, named by the block that writes it, to another memory.
    pub fn set_scope(&mut self, block: &str, scope: Scope) -> Result<(), ScheduleError> {
        let block = self.get_block(block)?;
        let [write] = &block.writes[..] else {
            return Err(self.refuse("set_scope", &block.name, "the block writes several buffers"));
        };
        let buffer = write.buffer;
        if self.func.buffer_params().any(|b| b == buffer) {
            let why = format!("`{}` is a parameter", self.func.buffers[buffer].name);
            return Err(self.refuse("set_scope", &block.name, why));
        }
        let data = &self.func.buffers[buffer];
        let fixed = data.shape.iter().all(|n| n.as_int().is_some());
        if scope != Scope::Global && !fixed && !self.func.allocs.contains(&buffer) {
            // Where it is allocated already, nothing makes it smaller.
            let why = format!("`{}` has no constant shape", data.name);
            return Err(self.refuse("set_scope", &block.name, why));
        }
        self.func.buffers[buffer].scope = scope;
        let name = self.func.buffers[buffer].name.clone();
        self.note(format!("set_scope {name} {scope:?}"));
        Ok(())
    }
}
