//! Tensor intrinsics: machine instructions on whole matrices, each with a loop nest that computes
//! the same. [`Schedule::tensorize`](crate::schedule::Schedule::tensorize) matches nests against
//! these descriptions.
//!
//! A description is a function over the instruction's operands in the file of its name; its
//! symbolic dimensions match the constants of a nest.
//!
//! Those of the caller's are in [`registered`].
//!
//! Decision: docs/decisions/0042-amx-tiles.md

pub mod registered;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::tile::{StridedRows, TileOp};
use crate::{Buffer, Expr, ExprKind, For, PrimFunc, Stmt, Var, script};

/// An instruction: its description, and the statement that stands for it.
pub struct TensorIntrin {
    /// Its name.
    pub name: &'static str,
    /// Loops over scalars that compute the same. Every operand is a parameter of two dimensions,
    /// accessed at loop variables only.
    pub description: PrimFunc,
    /// Number of operands, the first ones, that are matrix registers.
    pub registers: usize,
    /// The statement on such operands, in the description's order.
    make: fn(&[StridedRows]) -> TileOp,
}

macro_rules! intrinsics { ($($(#[$doc:meta])* $name:ident, $file:literal, $registers:literal, $make:expr;)*) => {$(
    $(#[$doc])*
    pub static $name: LazyLock<TensorIntrin> = LazyLock::new(|| TensorIntrin {
        name: $file,
        description: script::parse(include_str!(concat!($file, ".py"))).expect("a description"),
        registers: $registers,
        make: $make,
    });
)*}}

intrinsics! {
    /// Fills a register with zeros.
    TILE_ZERO, "tile_zero", 1, |o| TileOp::Zero { tile: o[0].buffer };
    /// Loads a register from rows in memory.
    TILE_LOAD, "tile_load", 1, |o| TileOp::Load { tile: o[0].buffer, from: o[1].clone() };
    /// Stores a register to rows in memory.
    TILE_STORE, "tile_store", 1, |o| TileOp::Store { tile: o[0].buffer, to: o[1].clone() };
    /// Multiplies registers of VNNI-packed bfloat16 and adds to one of float32.
    TILE_DOT_BF16, "tile_dot_bf16", 3, |o| TileOp::DotBf16 {
        sum: o[0].buffer,
        a: o[1].buffer,
        b: o[2].buffer,
    };
}

/// All intrinsics.
pub fn all() -> [&'static TensorIntrin; 4] {
    [&TILE_ZERO, &TILE_LOAD, &TILE_STORE, &TILE_DOT_BF16]
}

impl TensorIntrin {
    /// The instruction on `operands`.
    pub fn statement(&self, operands: &[StridedRows]) -> Stmt {
        Stmt::Tile((self.make)(operands))
    }

    /// The description's loops over `operands` (of a register only the buffer counts) and the
    /// outermost one's variable: what [`tensorize`](crate::schedule::Schedule::tensorize) takes.
    pub fn loops(&self, func: &mut PrimFunc, operands: &[StridedRows]) -> (Stmt, Var) {
        let mut copy = Copy { of: self, func, operands, vars: HashMap::new(), locals: vec![] };
        copy.dimensions();
        let body = copy.stmt(&self.description.body);
        let Stmt::For(outer) = &body else { unreachable!("descriptions are loops") };
        let var = outer.var;
        (body, var)
    }
}

/// A description being written into a function.
struct Copy<'a> {
    of: &'a TensorIntrin,
    func: &'a mut PrimFunc,
    operands: &'a [StridedRows],
    vars: HashMap<Var, Expr>,
    locals: Vec<(Buffer, Buffer)>,
}

impl Copy<'_> {
    /// Binds the symbolic dimensions to the shapes of the registers.
    fn dimensions(&mut self) {
        let params = self.of.description.buffer_params().zip(self.operands).take(self.of.registers);
        for (param, operand) in params {
            let shape = &self.func.buffers[operand.buffer].shape;
            for (dim, extent) in self.of.description.buffers[param].shape.iter().zip(shape) {
                self.vars.extend(dim.as_var().map(|v| (v, extent.clone())));
            }
        }
    }

    fn binder(&mut self, var: Var) -> Var {
        let data = self.of.description.vars[var].clone();
        let dtype = data.dtype;
        let new = self.func.vars.push(data);
        self.vars.insert(var, Expr::new(ExprKind::Var { var: new, dtype }));
        new
    }

    fn access(&self, buffer: Buffer, indices: &[Expr]) -> (Buffer, Vec<Expr>) {
        let at: Vec<Expr> = indices.iter().map(|i| self.expr(i)).collect();
        let mut params = self.of.description.buffer_params();
        match params.position(|b| b == buffer) {
            Some(n) if n < self.of.registers => (self.operands[n].buffer, at),
            Some(n) => {
                let StridedRows { buffer, first, stride } = &self.operands[n];
                let offset = first.clone() + at[0].clone() * stride.clone() + at[1].clone();
                (*buffer, vec![offset])
            }
            None => {
                let local = self.locals.iter().find(|(of, _)| *of == buffer);
                (local.map_or(buffer, |(_, new)| *new), at)
            }
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
                let data = self.of.description.buffers[*buffer].clone();
                let new = self.func.buffers.push(data);
                self.locals.push((*buffer, new));
                Stmt::Allocate { buffer: new, body: Box::new(self.stmt(body)) }
            }
            Stmt::Store { buffer, indices, value } => {
                let (buffer, at) = self.access(*buffer, indices);
                Stmt::store(buffer, at, self.expr(value))
            }
            other => other.map_children(&mut |c| self.stmt(c)),
        }
    }
}
