//! Replacing a loop nest by an instruction that computes the same.

use rustc_hash::FxHashMap;

use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::arith::Analyzer;
use crate::tensor_intrin::TensorIntrin;
use crate::tile::StridedRows;
use crate::{Buffer, Expr, ExprKind, For, ForKind, PrimFunc, Scope, Stmt, Var, lower};

impl Schedule {
    /// Tensorization: `for i { for j { C[i, j] = .. } }`, at `i`, becomes the instruction whose
    /// [description](TensorIntrin::description) that is: the same statements in the same order, but
    /// for the names of what they bind and for where in their buffers the operands lie, which are
    /// rows of contiguous elements, evenly strided. Blocks in the nest count as their bodies.
    ///
    /// Operands in matrix registers are whole buffers in [`Scope::Tile`].
    pub fn tensorize(&mut self, at: Var, intrinsic: &TensorIntrin) -> Result<(), ScheduleError> {
        let path = self.path_to_loop("tensorize", at)?;
        let (name, nest) = (intrinsic.name, *path.last().expect("the loop"));
        let refuse = |s: &Schedule, why: &str| {
            s.refuse_loop("tensorize", at, format!("it is no {name}: {why}"))
        };
        let lanes = |s: &&Stmt| match *s {
            Stmt::For(l) => matches!(l.kind, ForKind::Vectorized | ForKind::ThreadBinding(_)),
            _ => false,
        };
        if path[..path.len() - 1].iter().any(lanes) {
            return Err(refuse(self, "it runs once per lane or GPU thread"));
        }
        // Blocks as their bodies; what that adds to the function is not kept.
        let mut plain = self.func.clone();
        plain.body = nest.clone();
        let plain = lower::lower_blocks(&plain);
        let mut matching = Matching::new(&intrinsic.description, &plain);
        matching
            .stmt(&intrinsic.description.body, &plain.body)
            .and_then(|()| matching.operands(intrinsic))
            .map_err(|why| refuse(self, &why))
            .map(|operands| {
                let new = intrinsic.statement(&operands);
                self.func.body = tree::replace_loop(&self.func.body, at, |_| new.clone());
                self.note(format!("tensorize {} -> {name}", self.name(at)));
            })
    }
}

/// An element as a statement names it.
#[derive(Clone, Copy)]
pub(super) struct Element<'e> {
    pub buffer: Buffer,
    pub indices: &'e [Expr],
}

/// A description being matched against a nest.
pub(super) struct Matching<'a> {
    pub description: &'a PrimFunc,
    pub func: &'a PrimFunc,
    /// The nest's variables by those of the description.
    pub vars: FxHashMap<Var, Var>,
    /// The values of the symbolic dimensions.
    dims: FxHashMap<Var, i64>,
    locals: FxHashMap<Buffer, Buffer>,
    /// Operands: the description's indices, and the nest's buffer and indices.
    pub accesses: Vec<(Buffer, Vec<Expr>, Buffer, Vec<Expr>)>,
}

type Same = Result<(), String>;

fn require(holds: bool, why: impl FnOnce() -> String) -> Same {
    if holds { Ok(()) } else { Err(why()) }
}

impl<'a> Matching<'a> {
    pub fn new(description: &'a PrimFunc, func: &'a PrimFunc) -> Matching<'a> {
        Matching {
            description,
            func,
            vars: FxHashMap::default(),
            dims: FxHashMap::default(),
            locals: FxHashMap::default(),
            accesses: vec![],
        }
    }
}

impl Matching<'_> {
    pub fn stmt(&mut self, wanted: &Stmt, found: &Stmt) -> Same {
        match (wanted, found) {
            (Stmt::For(a), Stmt::For(b)) => self.for_loop(a, b),
            (
                Stmt::Store { buffer: a, indices: i, value: x },
                Stmt::Store { buffer: b, indices: j, value: y },
            ) => {
                self.access(
                    Element { buffer: *a, indices: i },
                    Element { buffer: *b, indices: j },
                )?;
                self.expr(x, y)
            }
            (Stmt::Let { var: a, value: x, body: s }, Stmt::Let { var: b, value: y, body: t }) => {
                self.expr(x, y)?;
                self.vars.insert(*a, *b);
                self.stmt(s, t)
            }
            (Stmt::Allocate { buffer: a, body: s }, Stmt::Allocate { buffer: b, body: t }) => {
                let (x, y) = (&self.description.buffers[*a], &self.func.buffers[*b]);
                let same = (x.dtype, x.scope, &x.shape) == (y.dtype, y.scope, &y.shape);
                require(same, || format!("`{}` is another kind of buffer", y.name))?;
                self.locals.insert(*a, *b);
                self.stmt(s, t)
            }
            (
                Stmt::If { cond: a, then: s, otherwise: None },
                Stmt::If { cond: b, then: t, otherwise: None },
            ) => {
                self.expr(a, b)?;
                self.stmt(s, t)
            }
            (Stmt::Seq(a), Stmt::Seq(b)) if a.len() == b.len() => {
                a.iter().zip(b).try_for_each(|(a, b)| self.stmt(a, b))
            }
            (Stmt::Seq(one), b) if one.len() == 1 => self.stmt(&one[0], b),
            (a, Stmt::Seq(one)) if one.len() == 1 => self.stmt(a, &one[0]),
            _ => Err("its statements are others".into()),
        }
    }

    fn for_loop(&mut self, wanted: &For, found: &For) -> Same {
        let name = &self.func.vars[found.var].name;
        let serial = found.kind == ForKind::Serial && found.min.as_int() == Some(0);
        require(serial, || format!("`{name}` is not a plain loop from 0"))?;
        let extent = found.extent.as_int().ok_or(format!("`{name}` has no constant extent"))?;
        let fits = match wanted.extent.as_var() {
            Some(dim) => *self.dims.entry(dim).or_insert(extent) == extent,
            None => wanted.extent.as_int() == Some(extent),
        };
        require(fits, || format!("`{name}` runs {extent} times"))?;
        self.vars.insert(wanted.var, found.var);
        self.stmt(&wanted.body, &found.body)
    }

    fn access(&mut self, wanted: Element<'_>, found: Element<'_>) -> Same {
        let (a, b) = (wanted.buffer, found.buffer);
        if !self.description.buffer_params().any(|p| p == a) {
            let name = || format!("`{}` is not its scratch", self.func.buffers[b].name);
            require(self.locals.get(&a) == Some(&b), name)?;
            require(wanted.indices.len() == found.indices.len(), name)?;
            return wanted.indices.iter().zip(found.indices).try_for_each(|(i, j)| self.expr(i, j));
        }
        let (x, y) = (&self.description.buffers[a], &self.func.buffers[b]);
        require(x.dtype == y.dtype, || format!("`{}` holds {}", y.name, y.dtype))?;
        let indices = wanted.indices.to_vec();
        self.accesses.push((a, indices, b, found.indices.to_vec()));
        Ok(())
    }

    fn expr(&mut self, wanted: &Expr, found: &Expr) -> Same {
        use ExprKind as K;
        let same = match (wanted.kind(), found.kind()) {
            (K::Load { buffer: a, indices: i, .. }, K::Load { buffer: b, indices: j, .. }) => {
                let found = Element { buffer: *b, indices: j };
                return self.access(Element { buffer: *a, indices: i }, found);
            }
            (K::Var { var: a, .. }, K::Var { var: b, .. }) => self.vars.get(a) == Some(b),
            (K::Int { .. } | K::Float { .. }, _) => wanted == found,
            (K::Binary { op: a, .. }, K::Binary { op: b, .. }) => a == b,
            (K::Compare { op: a, .. }, K::Compare { op: b, .. }) => a == b,
            (K::Call { op: a, .. }, K::Call { op: b, .. }) => a == b,
            (K::And(..), K::And(..)) | (K::Or(..), K::Or(..)) | (K::Not(_), K::Not(_)) => true,
            (K::Select { .. }, K::Select { .. }) | (K::Cast { .. }, K::Cast { .. }) => true,
            _ => false,
        };
        let (a, b) = (wanted.children(), found.children());
        let same = same && wanted.dtype() == found.dtype() && a.len() == b.len();
        require(same, || "it computes something else".into())?;
        a.into_iter().zip(b).try_for_each(|(a, b)| self.expr(a, b))
    }

    /// The operands, in the description's order.
    fn operands(&self, intrinsic: &TensorIntrin) -> Result<Vec<StridedRows>, String> {
        let mut operands: Vec<StridedRows> = vec![];
        for (n, param) in self.description.buffer_params().enumerate() {
            let mut found: Option<StridedRows> = None;
            for (_, wanted, buffer, at) in self.accesses.iter().filter(|a| a.0 == param) {
                let element = Element { buffer: *buffer, indices: at };
                let rows = match n < intrinsic.registers {
                    true => self.register(param, wanted, element)?,
                    false => self.memory(wanted, element)?,
                };
                let same = found.as_ref().is_none_or(|f| *f == rows);
                let name = &self.func.buffers[*buffer].name;
                require(same, || format!("`{name}` is accessed at more than one position"))?;
                found = Some(rows);
            }
            let rows = found.ok_or_else(|| "an operand is missing".to_string())?;
            let fresh = operands.iter().all(|o| o.buffer != rows.buffer);
            let name = &self.func.buffers[rows.buffer].name;
            require(fresh, || format!("two operands are `{name}`"))?;
            operands.push(rows);
        }
        Ok(operands)
    }

    /// A whole buffer in a matrix register, whose indices are the description's.
    fn register(
        &self,
        param: Buffer,
        wanted: &[Expr],
        found: Element<'_>,
    ) -> Result<StridedRows, String> {
        let Element { buffer, indices: at } = found;
        let data = &self.func.buffers[buffer];
        let dim = |e: &Expr| e.as_var().and_then(|v| self.dims.get(&v)).copied();
        let shape = self.description.buffers[param].shape.iter().map(dim);
        let whole = data.scope == Scope::Tile && shape.eq(data.shape.iter().map(Expr::as_int));
        let plain = wanted.len() == at.len()
            && wanted.iter().zip(at).all(|(w, f)| {
                let var = w.as_var().and_then(|v| self.vars.get(&v));
                var.is_some() && f.as_var() == var.copied()
            });
        require(whole && plain, || format!("`{}` is no such matrix register", data.name))?;
        let stride = data.shape[1].clone();
        Ok(StridedRows { buffer, first: Expr::i64(0), stride })
    }

    /// Evenly strided rows in memory.
    fn memory(&self, wanted: &[Expr], found: Element<'_>) -> Result<StridedRows, String> {
        let Element { buffer, indices: at } = found;
        let data = &self.func.buffers[buffer];
        require(data.scope != Scope::Tile, || format!("`{}` is a matrix register", data.name))?;
        let offset = self.func.row_major(buffer, at);
        let facts = Analyzer::new();
        let [Some(row), Some(column)] =
            [0, 1].map(|n| wanted[n].as_var().and_then(|v| self.vars.get(&v)).copied())
        else {
            return Err("its description is not over rows".into());
        };
        let at = |i: i64, j: i64| {
            facts.simplify(&offset.substitute(&|v| match v {
                v if v == row => Some(Expr::i64(i)),
                v if v == column => Some(Expr::i64(j)),
                _ => None,
            }))
        };
        let first = at(0, 0);
        let stride = facts.simplify(&(at(1, 0) - first.clone()));
        let even = first.clone() + Expr::var(row) * stride.clone() + column;
        let rest = facts.simplify(&(offset.clone() - even));
        let fixed = |e: &Expr| {
            let mut fixed = true;
            e.visit(&mut |e| {
                fixed &= !matches!(e.kind(), ExprKind::Load { .. });
                fixed &= e.as_var().is_none_or(|v| !self.vars.values().any(|b| *b == v));
            });
            fixed
        };
        let is = rest.as_int() == Some(0) && fixed(&first) && fixed(&stride);
        require(is, || format!("`{}` is not read by even rows", data.name))?;
        Ok(StridedRows { buffer, first, stride })
    }
}
