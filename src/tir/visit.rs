//! Walks and rewrites of statement trees.
//!
//! Rewrites rebuild only through constructors that fold constants, so a substitution never
//! leaves `0 + x` behind. Nothing here checks meaning; that is the verifier's business.

use crate::{Block, BlockIter, Buffer, DType, Expr, ExprKind, For, Intrin, Region, Stmt, Var};

impl Expr {
    /// Every load from `buffer` replaced by `f` of its indices, in which loads are replaced already,
    /// and its type.
    pub fn replace_loads(&self, buffer: Buffer, f: &mut dyn FnMut(&[Expr], DType) -> Expr) -> Expr {
        let e = self.map_children(&mut |c| c.replace_loads(buffer, f));
        match e.kind() {
            ExprKind::Load { buffer: of, indices, dtype } if *of == buffer => f(indices, *dtype),
            _ => e,
        }
    }
}

impl Stmt {
    /// The statements directly inside, in execution order (a block's init before its body).
    pub fn children(&self) -> Vec<&Stmt> {
        match self {
            Stmt::For(l) => vec![&l.body],
            Stmt::Block(b) => b.init.iter().chain([&b.body]).collect(),
            Stmt::Store { .. } | Stmt::Tile(_) | Stmt::CallPacked(_) | Stmt::Barrier(_) => vec![],
            Stmt::If { then, otherwise, .. } => {
                [&**then].into_iter().chain(otherwise.as_deref()).collect()
            }
            Stmt::Let { body, .. } | Stmt::Allocate { body, .. } | Stmt::While { body, .. } => {
                vec![body]
            }
            Stmt::Seq(list) => list.iter().collect(),
        }
    }

    /// Calls `f` on the statements directly inside, in execution order.
    pub fn for_each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        match self {
            Stmt::For(l) => f(&l.body),
            Stmt::Block(b) => {
                b.init.iter().for_each(&mut *f);
                f(&b.body);
            }
            Stmt::Store { .. } | Stmt::Tile(_) | Stmt::CallPacked(_) | Stmt::Barrier(_) => {}
            Stmt::If { then, otherwise, .. } => {
                f(then);
                otherwise.as_deref().into_iter().for_each(f);
            }
            Stmt::Let { body, .. } | Stmt::Allocate { body, .. } | Stmt::While { body, .. } => {
                f(body);
            }
            Stmt::Seq(list) => list.iter().for_each(f),
        }
    }

    /// Rebuilds the node with `f` applied to each statement directly inside.
    pub fn map_children(&self, f: &mut dyn FnMut(&Stmt) -> Stmt) -> Stmt {
        match self {
            Stmt::For(l) => Stmt::For(Box::new(l.with_body(f(&l.body)))),
            Stmt::Block(b) => {
                let init = b.init.as_ref().map(&mut *f);
                Stmt::Block(Box::new(b.with_body(init, f(&b.body))))
            }
            Stmt::Store { .. } | Stmt::Tile(_) | Stmt::CallPacked(_) | Stmt::Barrier(_) => {
                self.clone()
            }
            Stmt::If { cond, then, otherwise } => Stmt::If {
                cond: cond.clone(),
                then: Box::new(f(then)),
                otherwise: otherwise.as_ref().map(|s| Box::new(f(s))),
            },
            Stmt::Let { var, value, body } => {
                Stmt::Let { var: *var, value: value.clone(), body: Box::new(f(body)) }
            }
            Stmt::Allocate { buffer, body } => {
                Stmt::Allocate { buffer: *buffer, body: Box::new(f(body)) }
            }
            Stmt::While { cond, body } => {
                Stmt::While { cond: cond.clone(), body: Box::new(f(body)) }
            }
            Stmt::Seq(list) => Stmt::Seq(list.iter().map(f).collect()),
        }
    }

    /// Top-down rewrite: where `f` answers, its answer replaces the node and is not entered.
    pub fn replace(&self, f: &mut dyn FnMut(&Stmt) -> Option<Stmt>) -> Stmt {
        match f(self) {
            Some(new) => new,
            None => self.map_children(&mut |s| s.replace(f)),
        }
    }

    /// Calls `f` on this statement and every one below, parents first, in execution order.
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        f(self);
        self.for_each_child(&mut |child| child.visit(f));
    }

    /// Whether all it does is to ask the memory: a prefetch whose value goes where nothing reads it.
    pub fn only_prefetches(&self) -> bool {
        let Stmt::Allocate { buffer: unread, body } = self else { return false };
        let only = match &**body {
            Stmt::Seq(list) if list.len() == 1 => &list[0],
            other => other,
        };
        let Stmt::Store { buffer, value, .. } = only else { return false };
        let mut reads = false;
        value.visit(&mut |e| {
            reads |= matches!(e.kind(), ExprKind::Load { buffer, .. } if buffer == unread);
        });
        let asks = matches!(value.kind(), ExprKind::Call { op: Intrin::Prefetch, .. });
        buffer == unread && asks && !reads
    }

    /// The buffer that this node itself writes.
    pub fn written(&self) -> Option<Buffer> {
        match self {
            Stmt::Store { buffer, .. } => Some(*buffer),
            Stmt::Tile(tile) => Some(tile.written()),
            Stmt::CallPacked(call) => call.written(),
            _ => None,
        }
    }

    /// The buffers that this node itself touches other than by loads in its expressions.
    pub fn touched(&self) -> Vec<Buffer> {
        match self {
            Stmt::Store { buffer, .. } => vec![*buffer],
            Stmt::Tile(tile) => tile.buffers(),
            Stmt::CallPacked(call) => call.tensors().collect(),
            _ => vec![],
        }
    }

    /// The expressions of this node itself, block regions included; not those of children.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Stmt::For(l) => vec![&l.min, &l.extent],
            Stmt::Block(b) => {
                let iters = b.iters.iter().flat_map(|i| [&i.extent, &i.value]);
                let regions = b.reads.iter().chain(&b.writes);
                let ranges = regions.flat_map(|r| r.ranges.iter().flat_map(|(m, e)| [m, e]));
                iters.chain([&b.predicate]).chain(ranges).collect()
            }
            Stmt::Store { indices, value, .. } => indices.iter().chain([value]).collect(),
            Stmt::If { cond, .. } | Stmt::While { cond, .. } => vec![cond],
            Stmt::Let { value, .. } => vec![value],
            Stmt::Tile(t) => t.exprs(),
            Stmt::CallPacked(call) => call.exprs(),
            Stmt::Allocate { .. } | Stmt::Barrier(_) | Stmt::Seq(_) => vec![],
        }
    }

    /// Calls `f` on the expressions of this node itself, as [`Stmt::exprs`] lists them.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Stmt::For(l) => {
                f(&l.min);
                f(&l.extent);
            }
            Stmt::Store { indices, value, .. } => {
                indices.iter().for_each(&mut *f);
                f(value);
            }
            Stmt::If { cond: e, .. } | Stmt::While { cond: e, .. } | Stmt::Let { value: e, .. } => {
                f(e);
            }
            Stmt::Allocate { .. } | Stmt::Barrier(_) | Stmt::Seq(_) => {}
            Stmt::Block(_) | Stmt::Tile(_) | Stmt::CallPacked(_) => {
                self.exprs().into_iter().for_each(f);
            }
        }
    }

    /// Calls `f` on every expression node of this statement and every one below.
    pub fn visit_exprs(&self, f: &mut dyn FnMut(&Expr)) {
        self.visit(&mut |s| s.for_each_expr(&mut |expr| expr.visit(f)));
    }

    /// Applies `f` to each whole expression of this statement and every one below, block
    /// regions included. `f` gets roots, not inner nodes.
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Stmt {
        match self {
            Stmt::For(l) => {
                let (min, extent) = (f(&l.min), f(&l.extent));
                let (kind, annotations) = (l.kind.clone(), l.annotations.clone());
                let body = l.body.map_exprs(f);
                Stmt::For(Box::new(For { var: l.var, min, extent, kind, annotations, body }))
            }
            Stmt::Block(b) => Stmt::Block(Box::new(map_block(b, f))),
            Stmt::Store { buffer, indices, value } => Stmt::Store {
                buffer: *buffer,
                indices: indices.iter().map(&mut *f).collect(),
                value: f(value),
            },
            Stmt::If { cond, then, otherwise } => Stmt::If {
                cond: f(cond),
                then: Box::new(then.map_exprs(f)),
                otherwise: otherwise.as_ref().map(|s| Box::new(s.map_exprs(f))),
            },
            Stmt::While { cond, body } => {
                Stmt::While { cond: f(cond), body: Box::new(body.map_exprs(f)) }
            }
            Stmt::Let { var, value, body } => {
                Stmt::Let { var: *var, value: f(value), body: Box::new(body.map_exprs(f)) }
            }
            Stmt::Tile(t) => Stmt::Tile(t.map(&mut |b| b, f)),
            Stmt::CallPacked(call) => Stmt::CallPacked(call.map(&mut |b| b, f)),
            Stmt::Allocate { .. } | Stmt::Barrier(_) | Stmt::Seq(_) => {
                self.map_children(&mut |s| s.map_exprs(f))
            }
        }
    }

    /// Turns every load from and store to `from` into one of `to` at mapped indices.
    pub fn map_accesses(
        &self,
        from: Buffer,
        to: Buffer,
        map: &dyn Fn(&[Expr]) -> Vec<Expr>,
    ) -> Stmt {
        type Map<'m> = &'m dyn Fn(&[Expr]) -> Vec<Expr>;
        fn stores(s: &Stmt, from: Buffer, to: Buffer, map: Map<'_>) -> Stmt {
            match s {
                Stmt::Store { buffer, indices, value } if *buffer == from => {
                    Stmt::store(to, map(indices), value.clone())
                }
                _ => s.map_children(&mut |s| stores(s, from, to, map)),
            }
        }
        let mut load =
            |e: &Expr| e.replace_loads(from, &mut |at, dtype| Expr::load(to, map(at), dtype));
        stores(&self.map_exprs(&mut load), from, to, map)
    }

    /// Replaces variables in every expression; binders are not renamed.
    pub fn substitute(&self, f: &dyn Fn(Var) -> Option<Expr>) -> Stmt {
        self.map_exprs(&mut |e| e.substitute(f))
    }
}

fn map_block(b: &Block, f: &mut dyn FnMut(&Expr) -> Expr) -> Block {
    let iters = b
        .iters
        .iter()
        .map(|i| BlockIter { extent: f(&i.extent), value: f(&i.value), ..i.clone() })
        .collect();
    let predicate = f(&b.predicate);
    let mut regions =
        |list: &[Region]| -> Vec<Region> { list.iter().map(|r| r.map_exprs(&mut *f)).collect() };
    let (reads, writes) = (regions(&b.reads), regions(&b.writes));
    Block {
        name: b.name.clone(),
        iters,
        predicate,
        reads,
        writes,
        init: b.init.as_ref().map(|s| s.map_exprs(f)),
        allocs: b.allocs.clone(),
        annotations: b.annotations.clone(),
        body: b.body.map_exprs(f),
    }
}

impl Region {
    /// Applies `f` to every bound.
    pub fn map_exprs(&self, mut f: impl FnMut(&Expr) -> Expr) -> Region {
        let ranges = self.ranges.iter().map(|(min, extent)| (f(min), f(extent))).collect();
        Region { buffer: self.buffer, ranges }
    }
}
