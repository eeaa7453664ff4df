//! Statements.

use reflex_tir::{Buffer, DType, Expr, For, ForKind, Scope, Stmt};

use crate::dialect::Dialect;
use crate::error::{Result, SourceError};
use crate::print::Printer;
use crate::print::plain::Place;
use crate::print::text::{Strength, Text};

/// The largest number of copies of one body.
const MAX_UNROLL: i64 = 4096;

impl<'f> Printer<'_, 'f> {
    /// Prints `stmt`.
    pub fn stmt(&mut self, stmt: &'f Stmt) -> Result<()> {
        self.nested(|p| p.one(stmt))
    }

    fn one(&mut self, stmt: &'f Stmt) -> Result<()> {
        match stmt {
            Stmt::For(l) => self.for_loop(l),
            Stmt::Block(b) => {
                let text = format!("block {} is still there: the function is not lowered", b.name);
                Err(SourceError::new(text))
            }
            Stmt::Store { buffer, indices, value } => self.store(*buffer, indices, value),
            Stmt::If { cond, then, otherwise } => self.condition(cond, then, otherwise.as_deref()),
            Stmt::Let { var, value, body } => {
                let text = self.expr(value)?;
                let word = self.value_word(value.dtype())?;
                let is_position = value.dtype() == DType::I64 && self.is_plain(value, Place::Index);
                let outer = self.vars.get(var).cloned();
                let name = self.declare(*var);
                let was_position = match is_position {
                    true => !self.positions.insert(*var),
                    false => self.positions.remove(var),
                };
                self.out.line(format!("const {word} {name} = {};", text.as_str()));
                self.stmt(body)?;
                self.rebind(*var, outer, was_position);
                Ok(())
            }
            Stmt::Allocate { buffer, body } => self.allocate(*buffer, body),
            Stmt::While { cond, body } => {
                let cond = self.expr(cond)?;
                self.out.open(format!("while ({})", cond.as_str()));
                self.block(body)?;
                self.out.close();
                Ok(())
            }
            Stmt::Tile(_) => Err(SourceError::new(match self.dialect {
                Dialect::C => {
                    "matrix registers (AMX) have no text in C; schedule for a CPU without them"
                }
                _ => "tensor cores have no text; schedule without `gemm, tensor cores`",
            })),
            Stmt::CallPacked(call) if !self.is_gpu() => self.call_packed(call),
            Stmt::CallPacked(_) => Err(SourceError::new("a packed function called on a GPU")),
            Stmt::Barrier(scope) if self.is_gpu() => self.barrier(*scope),
            Stmt::Barrier(_) => Err(SourceError::new("a barrier on a CPU")),
            Stmt::Seq(all) => all.iter().try_for_each(|s| self.stmt(s)),
        }
    }

    /// Makes a variable again what it was before it was declared.
    fn rebind(&mut self, var: reflex_tir::Var, name: Option<String>, is_position: bool) {
        match name {
            Some(name) => self.vars.insert(var, name),
            None => self.vars.remove(&var),
        };
        match is_position {
            true => self.positions.insert(var),
            false => self.positions.remove(&var),
        };
    }

    /// Prints a statement that is alone in a block, whose names end with it.
    pub(crate) fn block(&mut self, stmt: &'f Stmt) -> Result<()> {
        let mark = self.names.open();
        self.stmt(stmt)?;
        self.names.close(mark);
        Ok(())
    }

    fn condition(
        &mut self,
        cond: &Expr,
        then: &'f Stmt,
        otherwise: Option<&'f Stmt>,
    ) -> Result<()> {
        let cond = self.expr(cond)?;
        self.out.open(format!("if ({})", cond.as_str()));
        self.block(then)?;
        if let Some(otherwise) = otherwise {
            self.out.reopen("else");
            self.block(otherwise)?;
        }
        self.out.close();
        Ok(())
    }

    fn allocate(&mut self, buffer: Buffer, body: &'f Stmt) -> Result<()> {
        match (self.func.buffers[buffer].scope, self.is_gpu()) {
            (Scope::Local, _) => self.local(buffer, body),
            (Scope::Global, false) => self.workspace(buffer, body),
            (scope, _) => {
                let (name, dialect) = (&self.func.buffers[buffer].name, self.dialect);
                Err(SourceError::new(format!(
                    "{scope:?} memory {name} inside a function of {dialect}"
                )))
            }
        }
    }

    fn for_loop(&mut self, l: &'f For) -> Result<()> {
        match &l.kind {
            ForKind::Serial => self.serial(l),
            ForKind::Unrolled => {
                let copies = self.const_extent(l, MAX_UNROLL)?;
                self.out.line(self.dialect.unroll(copies));
                self.serial(l)
            }
            ForKind::Vectorized => {
                let lanes = self.const_extent(l, i64::MAX)?;
                if self.is_gpu() && self.vectors(l, lanes)? {
                    return Ok(());
                }
                self.serial(l)
            }
            ForKind::Parallel if self.in_parallel => self.serial(l),
            ForKind::Parallel if !self.is_gpu() => self.parallel(l),
            ForKind::Parallel => Err(SourceError::new("a loop over a CPU's threads on a GPU")),
            ForKind::ThreadBinding(axis) => {
                Err(SourceError::new(format!("a loop bound to {axis} inside of a kernel")))
            }
        }
    }

    fn const_extent(&self, l: &For, limit: i64) -> Result<i64> {
        let (name, kind) = (&self.func.vars[l.var].name, &l.kind);
        match l.extent.as_int() {
            Some(n) if n <= limit => Ok(n.max(0)),
            Some(n) => {
                let text = format!("{kind:?} loop {name} has extent {n}, more than {limit}");
                Err(SourceError::new(text))
            }
            None => Err(SourceError::new(format!("{kind:?} loop {name} has no constant extent"))),
        }
    }

    fn serial(&mut self, l: &'f For) -> Result<()> {
        let end = l.min.clone() + l.extent.clone();
        let (min, end) = (self.bound(&l.min)?, self.bound(&end)?);
        self.counted(l, min.as_str(), &end)
    }

    /// A bound of a loop, which is evaluated once.
    pub(crate) fn bound(&mut self, e: &Expr) -> Result<Text> {
        let text = self.index(e)?;
        let mut reads = false;
        e.visit(&mut |e| reads |= matches!(e.kind(), reflex_tir::ExprKind::Load { .. }));
        if !reads {
            return Ok(text);
        }
        let word = self.dialect.word(DType::I64)?;
        let name = self.names.declare("bound");
        self.out.line(format!("const {word} {name} = {};", text.as_str()));
        Ok(Text::primary(name))
    }

    /// `for var in min..end { body }`.
    pub(crate) fn counted(&mut self, l: &'f For, min: &str, end: &Text) -> Result<()> {
        let word = self.dialect.word(DType::I64)?;
        let mark = self.names.open();
        let outer = self.vars.get(&l.var).cloned();
        let name = self.declare(l.var);
        let was_position = !self.positions.insert(l.var);
        let more = Text::infix(&Text::primary(name.clone()), "<", end, Strength::Order);
        self.out.open(format!("for ({word} {name} = {min}; {}; ++{name})", more.as_str()));
        self.block(&l.body)?;
        self.out.close();
        self.names.close(mark);
        self.rebind(l.var, outer, was_position);
        Ok(())
    }
}
