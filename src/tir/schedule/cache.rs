//! Copies of buffers nearer to where they are used.

use super::state::{Schedule, ScheduleError};
use super::tree::{self, sequence};
use crate::{Block, Buffer, Expr, ExprKind, IterKind, Param, Scope, Stmt};

impl Schedule {
    /// `X[i] = f(i)` becomes `X_cache[i] = f(i); X[v] = X_cache[v]`: the block writes a new
    /// intermediate in `scope`, and a new block after its loops copies that to the old buffer.
    ///
    /// Needs a block that alone writes the buffer, over its whole shape, and no other reader of
    /// it among the same loops. Returns the name of the copying block.
    pub fn cache_write(&mut self, name: &str, scope: Scope) -> Result<String, ScheduleError> {
        let block = self.get_block(name)?.clone();
        let (buffer, indices) = self.writer_alone("cache_write", &block)?;
        let refuse = |why: &str| self.refuse("cache_write", name, why);
        let shape = &self.func.buffers[buffer].shape;
        let extent = |e: &Expr| {
            let var = e.as_var()?;
            let mut iters = block.iters.iter();
            iters.find(|i| i.var == var && i.kind == IterKind::Spatial).map(|i| &i.extent)
        };
        let whole = indices
            .iter()
            .zip(shape)
            .all(|(i, n)| extent(i) == Some(n) || n.as_int() == Some(1) && i.as_int() == Some(0));
        if !whole {
            return Err(refuse("it does not write the whole buffer at its own iterators"));
        }
        if block.reads.iter().any(|r| r.buffer == buffer) {
            return Err(refuse("it updates what the buffer held before"));
        }
        let top = self.top_statement(name).expect("the block was found").clone();
        self.require_no_reader(&top, name, buffer).map_err(|why| refuse(&why))?;
        let cache = self.cache_of(buffer, scope);
        let rewritten = tree::replace_block(&top, name, |b| {
            Stmt::Block(Box::new(with_buffer(b, buffer, cache)))
        });
        let (copy, copied) = self.copy_block(cache, buffer, cache);
        let at = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(at, sequence([rewritten, copied]));
        self.note(format!("cache_write {name} {scope:?} -> {copy}"));
        Ok(copy)
    }

    /// `Y[j] = g(X[h(j)])` becomes `X_cache[v] = X[v]; Y[j] = g(X_cache[h(j)])`: a new block
    /// before the loops of `name` copies `buffer` to a new intermediate in `scope`, and the block
    /// reads that.
    ///
    /// Needs a buffer without padding that nothing in the same loops writes. Returns the name of
    /// the copying block.
    pub fn cache_read(
        &mut self,
        name: &str,
        buffer: Buffer,
        scope: Scope,
    ) -> Result<String, ScheduleError> {
        let block = self.get_block(name)?;
        self.require_movable("cache_read", name)?;
        let refuse = |why: String| Err(self.refuse("cache_read", name, why));
        if !block.reads.iter().any(|r| r.buffer == buffer) {
            return refuse(format!("it does not read `{}`", self.func.buffers[buffer].name));
        }
        if let Err(why) = self.require_whole_function(buffer) {
            return refuse(why);
        }
        if self.padded.contains(&buffer) {
            return refuse(format!("`{}` is not written whole", self.func.buffers[buffer].name));
        }
        let top = self.top_statement(name).expect("the block was found").clone();
        if let Some(b) = tree::blocks(&top).iter().find(|b| Schedule::block_writes(b, buffer)) {
            return refuse(format!("`{}` writes the buffer in the same loops", b.name));
        }
        let cache = self.cache_of(buffer, scope);
        let rewritten = tree::replace_block(&top, name, |b| {
            Stmt::Block(Box::new(with_buffer(b, buffer, cache)))
        });
        let (copy, copied) = self.copy_block(buffer, cache, cache);
        let at = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(at, sequence([copied, rewritten]));
        let read = self.func.buffers[buffer].name.clone();
        self.note(format!("cache_read {name} {read} {scope:?} -> {copy}"));
        Ok(copy)
    }

    /// `X[i] = f(X[i])` becomes `X_cache[v] = X[v]; X_cache[i] = f(X_cache[i]); X[v] = X_cache[v]`: a block that updates a
    /// buffer in place does so in a new intermediate in `scope`, which new blocks fill before its loops and
    /// copy back after them.
    ///
    /// Needs a block before its loops that writes the whole buffer, a reduction whose initialisation is a block of
    /// its own, and no other block among the same loops that reads or writes the buffer. Returns both new blocks.
    pub fn cache_inplace(
        &mut self,
        name: &str,
        buffer: Buffer,
        scope: Scope,
    ) -> Result<[String; 2], ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("cache_inplace", name)?;
        let refuse = |why: &str| self.refuse("cache_inplace", name, why);
        self.require_whole_function(buffer).map_err(|why| refuse(&why))?;
        let of = &self.func.buffers[buffer].name;
        if block.init.is_some() || !Schedule::block_writes(&block, buffer) || !loads(&block, buffer)
        {
            return Err(refuse(&format!("it does not update `{of}` in place")));
        }
        let top = self.top_statement(name).expect("the block was found").clone();
        let touches = |b: &Block| Schedule::block_writes(b, buffer) || loads(b, buffer);
        if let Some(other) = tree::blocks(&top).iter().find(|b| b.name != name && touches(b)) {
            return Err(refuse(&format!("`{}` touches the buffer in the same loops", other.name)));
        }
        let all = tree::blocks(&self.func.body);
        let mut before = all.iter().take_while(|b| b.name != name);
        if self.padded.contains(&buffer) || !before.any(|b| self.writes_whole(b, buffer)) {
            return Err(refuse(&format!("no block before it writes all of `{of}`")));
        }
        let cache = self.cache_of(buffer, scope);
        let rewritten = tree::replace_block(&top, name, |b| {
            Stmt::Block(Box::new(with_buffer(b, buffer, cache)))
        });
        let (first, filled) = self.copy_block(buffer, cache, cache);
        let at = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(at, sequence([filled, rewritten]));
        let (last, stored) = self.copy_block(cache, buffer, cache);
        let at = self.top_statement(name).expect("the block was found");
        self.func.body = self.insert_at(at, sequence([at.clone(), stored]));
        let of = self.func.buffers[buffer].name.clone();
        self.note(format!("cache_inplace {name} {of} {scope:?} -> {first}, {last}"));
        Ok([first, last])
    }

    /// Whether a block, under no condition, stores to every element of a buffer at its own iterators.
    fn writes_whole(&self, block: &Block, buffer: Buffer) -> bool {
        let Ok((to, indices, _)) = self.single_store("cache_inplace", block) else { return false };
        let shape = &self.func.buffers[buffer].shape;
        let covers = |(index, extent): (&Expr, &Expr)| {
            let own = block.iters.iter().find(|i| index.as_var() == Some(i.var));
            let own = own.is_some_and(|i| i.kind == IterKind::Spatial && i.extent == *extent);
            own || extent.as_int() == Some(1) && index.as_int() == Some(0)
        };
        let once = |at: usize| !indices[..at].contains(&indices[at]);
        to == buffer
            && indices.iter().zip(shape).all(covers)
            && (0..indices.len()).all(|at| indices[at].as_var().is_none() || once(at))
            && self.require_movable("cache_inplace", &block.name).is_ok()
    }

    /// The buffer that a block alone writes, for the whole function, and the indices that it does so at.
    pub(super) fn writer_alone<'b>(
        &self,
        primitive: &'static str,
        block: &'b Block,
    ) -> Result<(Buffer, &'b [Expr]), ScheduleError> {
        let refuse = |why: String| self.refuse(primitive, &block.name, why);
        self.require_movable(primitive, &block.name)?;
        let (buffer, indices, _) = self.single_store(primitive, block)?;
        self.sole_writer(buffer).map_err(refuse)?;
        self.require_whole_function(buffer).map_err(refuse)?;
        Ok((buffer, indices))
    }

    /// Refuses a buffer that another block than `name` reads in the statement `top`.
    pub(super) fn require_no_reader(
        &self,
        top: &Stmt,
        name: &str,
        buffer: Buffer,
    ) -> Result<(), String> {
        let readers = self.readers(buffer);
        let mut around = tree::blocks(top).into_iter().filter(|b| b.name != name);
        match around.find(|b| readers.contains(&b.name)) {
            Some(other) => Err(format!("`{}` reads the buffer in the same loops", other.name)),
            None => Ok(()),
        }
    }

    /// Refuses a buffer that is allocated for a statement alone: nothing outside of it can name it.
    pub(super) fn require_whole_function(&self, buffer: Buffer) -> Result<(), String> {
        let whole =
            self.func.allocs.contains(&buffer) || self.func.params.contains(&Param::Buffer(buffer));
        let name = &self.func.buffers[buffer].name;
        if whole { Ok(()) } else { Err(format!("`{name}` is allocated for other statements")) }
    }

    /// Refuses to move `block` to the end of `path` if that is outside of an allocation whose buffer
    /// it reads or writes.
    pub(super) fn require_visible(&self, path: &[&Stmt], block: &Block) -> Result<(), String> {
        for region in block.reads.iter().chain(&block.writes) {
            let here =
                |s: &&Stmt| matches!(s, Stmt::Allocate { buffer, .. } if *buffer == region.buffer);
            if !path.iter().any(here) {
                self.require_whole_function(region.buffer)?;
            }
        }
        Ok(())
    }

    fn cache_of(&mut self, buffer: Buffer, scope: Scope) -> Buffer {
        let mut data = self.func.buffers[buffer].clone();
        data.name = format!("{}_{}", data.name, scope.name());
        data.scope = scope;
        let cache = self.func.buffers.push(data);
        self.func.allocs.push(cache);
        cache
    }

    /// `to[v] = from[v]` over the whole shape, named after `named`.
    fn copy_block(&mut self, from: Buffer, to: Buffer, named: Buffer) -> (String, Stmt) {
        let name = self.unique_block(&self.func.buffers[named].name.clone());
        let shape = self.func.buffers[to].shape.clone();
        let nest = self.block_over(&name, &shape, |func, at| {
            Stmt::store(to, at.to_vec(), func.load(from, at.to_vec()))
        });
        (name, nest)
    }

    /// The function's body with the statement `at` replaced.
    pub(super) fn insert_at(&self, at: &Stmt, new: Stmt) -> Stmt {
        self.func.body.replace(&mut |s| match s {
            s if std::ptr::eq(s, at) => Some(new.clone()),
            Stmt::Seq(list) if list.iter().any(|s| std::ptr::eq(s, at)) => {
                let swap = |s: &Stmt| if std::ptr::eq(s, at) { new.clone() } else { s.clone() };
                Some(sequence(list.iter().map(swap)))
            }
            _ => None,
        })
    }
}

/// `block` with `new` in place of `old`, in accesses and regions.
pub(super) fn with_buffer(block: &Block, old: Buffer, new: Buffer) -> Block {
    let swap = |b: Buffer| if b == old { new } else { b };
    let stmt = Stmt::Block(Box::new(block.clone()));
    let stmt = stmt.map_exprs(&mut |e| swap_loads(e, &swap));
    let stmt = swap_targets(&stmt, &swap);
    let Stmt::Block(block) = stmt else { unreachable!("a block maps to a block") };
    *block
}

/// Whether a block loads from a buffer.
fn loads(block: &Block, buffer: Buffer) -> bool {
    let mut found = false;
    block.body.visit_exprs(&mut |e| {
        found |= matches!(e.kind(), ExprKind::Load { buffer: of, .. } if *of == buffer);
    });
    found
}

fn swap_loads(e: &Expr, swap: &dyn Fn(Buffer) -> Buffer) -> Expr {
    let e = e.map_children(&mut |c| swap_loads(c, swap));
    match e.kind() {
        ExprKind::Load { buffer, indices, dtype } => {
            Expr::load(swap(*buffer), indices.clone(), *dtype)
        }
        _ => e,
    }
}

/// Stores, and the regions of blocks, nested ones among them.
fn swap_targets(stmt: &Stmt, swap: &dyn Fn(Buffer) -> Buffer) -> Stmt {
    let mut stmt = stmt.map_children(&mut |s| swap_targets(s, swap));
    match &mut stmt {
        Stmt::Store { buffer, .. } => *buffer = swap(*buffer),
        Stmt::Block(block) => {
            for region in block.reads.iter_mut().chain(&mut block.writes) {
                region.buffer = swap(region.buffer);
            }
        }
        _ => {}
    }
    stmt
}
