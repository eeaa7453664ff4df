//! The body of one function written into another: what it binds and allocates is new there, and its operands are
//! elements of buffers that the other one has.

use rustc_hash::FxHashMap;

use crate::{Buffer, Expr, ExprKind, For, PrimFunc, Stmt, Var};

/// A body of loops, definitions, choices, stores and allocations that is written into a function.
pub(crate) struct BodyCopy<'a> {
    of: &'a PrimFunc,
    into: &'a mut PrimFunc,
    /// Where the element of an operand, by its number, lies.
    place: &'a dyn Fn(usize, Vec<Expr>) -> (Buffer, Vec<Expr>),
    vars: FxHashMap<Var, Expr>,
    buffers: FxHashMap<Buffer, Buffer>,
}

impl<'a> BodyCopy<'a> {
    /// A copy whose symbolic dimensions stand for `vars`.
    pub(crate) fn new(
        of: &'a PrimFunc,
        into: &'a mut PrimFunc,
        place: &'a dyn Fn(usize, Vec<Expr>) -> (Buffer, Vec<Expr>),
        vars: FxHashMap<Var, Expr>,
    ) -> BodyCopy<'a> {
        BodyCopy { of, into, place, vars, buffers: FxHashMap::default() }
    }

    /// The body, in the allocations of the function.
    pub(crate) fn body(mut self) -> Stmt {
        let of = self.of;
        let allocs: Vec<Buffer> = of.allocs.iter().map(|b| self.local(*b)).collect();
        let body = self.stmt(&of.body);
        allocs
            .into_iter()
            .fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
    }

    fn local(&mut self, buffer: Buffer) -> Buffer {
        let new = self.into.buffers.push(self.of.buffers[buffer].clone());
        self.buffers.insert(buffer, new);
        new
    }

    fn binder(&mut self, var: Var) -> Var {
        let data = self.of.vars[var].clone();
        let dtype = data.dtype;
        let new = self.into.vars.push(data);
        self.vars.insert(var, Expr::new(ExprKind::Var { var: new, dtype }));
        new
    }

    fn access(&self, buffer: Buffer, indices: &[Expr]) -> (Buffer, Vec<Expr>) {
        let at: Vec<Expr> = indices.iter().map(|i| self.expr(i)).collect();
        match self.of.buffer_params().position(|b| b == buffer) {
            Some(number) => (self.place)(number, at),
            None => (self.buffers.get(&buffer).copied().unwrap_or(buffer), at),
        }
    }

    fn expr(&self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Var { var, .. } => self.vars.get(var).unwrap_or(e).clone(),
            ExprKind::Load { buffer, indices, dtype } => {
                let (buffer, at) = self.access(*buffer, indices);
                Expr::load(buffer, at, *dtype)
            }
            _ => e.map_children(&mut |c| self.expr(c)),
        }
    }

    fn stmt(&mut self, s: &Stmt) -> Stmt {
        match s {
            Stmt::For(l) => {
                let (min, extent) = (self.expr(&l.min), self.expr(&l.extent));
                let var = self.binder(l.var);
                let body = self.stmt(&l.body);
                Stmt::For(Box::new(For { var, min, extent, ..l.with_body(body) }))
            }
            Stmt::Let { var, value, body } => {
                let value = self.expr(value);
                let var = self.binder(*var);
                Stmt::Let { var, value, body: Box::new(self.stmt(body)) }
            }
            Stmt::Allocate { buffer, body } => {
                let buffer = self.local(*buffer);
                Stmt::Allocate { buffer, body: Box::new(self.stmt(body)) }
            }
            Stmt::Store { buffer, indices, value } => {
                let (buffer, at) = self.access(*buffer, indices);
                Stmt::store(buffer, at, self.expr(value))
            }
            Stmt::If { cond, then, otherwise } => Stmt::If {
                cond: self.expr(cond),
                then: Box::new(self.stmt(then)),
                otherwise: otherwise.as_ref().map(|s| Box::new(self.stmt(s))),
            },
            Stmt::Seq(list) => Stmt::Seq(list.iter().map(|s| self.stmt(s)).collect()),
            Stmt::Block(_)
            | Stmt::Tile(_)
            | Stmt::CallPacked(_)
            | Stmt::Barrier(_)
            | Stmt::While { .. } => unreachable!("no intrinsic has them"),
        }
    }
}
