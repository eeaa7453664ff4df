//! A kernel's blocks as stages: the computation, free of loops.
//!
//! Schedule rules do not edit loop nests; they read stages and write the nest they want. A
//! statement that is no stage is kept as it is.

use std::collections::HashSet;

use reflex_tir::{Block, Buffer, Expr, ExprKind, For, ForKind, IterKind, Stmt, Var};

use crate::schedule::core::affine::same;

/// A loop axis: an iterator and its extent.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Runs from 0.
    pub var: Var,
    /// To here.
    pub extent: Expr,
}

impl Axis {
    /// Whether an index is the axis' own: its variable, or 0 where the extent is 1.
    pub fn is_index(&self, index: &Expr) -> bool {
        let only = self.extent.as_int() == Some(1) && index.as_int() == Some(0);
        only || index.as_var() == Some(self.var)
    }
}

/// `buffer[indices] = value` for all of `spatial`; with `reduce`, `value` reads the element it
/// replaces and is applied for all of `reduce` in order, after `init`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The block's name.
    pub name: String,
    /// Independent iterators.
    pub spatial: Vec<Axis>,
    /// Reduction iterators; not empty exactly when there is an `init`.
    pub reduce: Vec<Axis>,
    /// The buffer that is written.
    pub buffer: Buffer,
    /// Where, over `spatial`.
    pub indices: Vec<Expr>,
    /// Value before a reduction.
    pub init: Option<Expr>,
    /// The value, over both.
    pub value: Expr,
    /// A copy made on purpose: not to be inlined again.
    pub kept: bool,
}

/// A part of a kernel's body.
#[derive(Clone, Debug)]
pub enum Item {
    /// A stage.
    Stage(Stage),
    /// A serial loop around items (the time loop of a recurrent layer).
    Loop {
        /// Loop variable, from 0.
        var: Var,
        /// Iterations.
        extent: Expr,
        /// Body.
        items: Vec<Item>,
    },
    /// Statements left alone, without blocks.
    Opaque(Stmt),
}

/// The items of a body.
pub fn items_of(body: &Stmt) -> Vec<Item> {
    match body {
        Stmt::Seq(list) => list.iter().flat_map(items_of).collect(),
        other => vec![item_of(other)],
    }
}

fn item_of(stmt: &Stmt) -> Item {
    if let Some(stage) = stage_of(stmt) {
        return Item::Stage(stage);
    }
    match stmt {
        Stmt::For(l)
            if l.kind == ForKind::Serial
                && l.min == Expr::i64(0)
                && matches!(l.body, Stmt::Seq(_)) =>
        {
            Item::Loop { var: l.var, extent: l.extent.clone(), items: items_of(&l.body) }
        }
        _ => Item::Opaque(without_blocks(stmt)),
    }
}

/// Reads a perfect nest of serial loops whose block binds each iterator to one of them.
fn stage_of(stmt: &Stmt) -> Option<Stage> {
    let mut loops: Vec<&For> = vec![];
    let mut inner = stmt;
    while let Stmt::For(l) = inner {
        if l.kind != ForKind::Serial || l.min != Expr::i64(0) {
            return None;
        }
        loops.push(l);
        inner = &l.body;
    }
    let Stmt::Block(block) = inner else { return None };
    if block.iters.len() != loops.len()
        || !block.allocs.is_empty()
        || block.predicate.as_int() != Some(1)
    {
        return None;
    }
    let Stmt::Store { buffer, indices, value } = &block.body else { return None };
    let (mut spatial, mut reduce) = (vec![], vec![]);
    for (iter, l) in block.iters.iter().zip(&loops) {
        if iter.value.as_var() != Some(l.var) || !same(&iter.extent, &l.extent) {
            return None;
        }
        let axis = Axis { var: iter.var, extent: iter.extent.clone() };
        match iter.kind {
            IterKind::Spatial if reduce.is_empty() => spatial.push(axis),
            IterKind::Reduce => reduce.push(axis),
            IterKind::Spatial | IterKind::Opaque => return None,
        }
    }
    let init = match &block.init {
        Some(Stmt::Store { buffer: b, indices: at, value }) if b == buffer && at == indices => {
            Some(value.clone())
        }
        Some(_) => return None,
        None => None,
    };
    if init.is_some() == reduce.is_empty() {
        return None;
    }
    Some(Stage {
        name: block.name.clone(),
        spatial,
        reduce,
        buffer: *buffer,
        indices: indices.clone(),
        init,
        value: value.clone(),
        kept: false,
    })
}

/// The same statements with every block replaced by its body over the loops.
pub fn without_blocks(stmt: &Stmt) -> Stmt {
    match stmt {
        Stmt::Block(block) => block_body(block),
        other => other.map_children(&mut without_blocks),
    }
}

fn block_body(block: &Block) -> Stmt {
    let bind = |v: Var| block.iters.iter().find(|i| i.var == v).map(|i| i.value.clone());
    let mut body = without_blocks(&block.body).substitute(&bind);
    if let Some(init) = &block.init {
        let first = block
            .iters
            .iter()
            .filter(|i| i.kind == IterKind::Reduce)
            .fold(Expr::bool(true), |all, i| all.and(i.value.clone().equal(0)));
        let init = Box::new(without_blocks(init).substitute(&bind));
        body = Stmt::Seq(vec![Stmt::If { cond: first, then: init, otherwise: None }, body]);
    }
    for buffer in block.allocs.iter().rev() {
        body = Stmt::Allocate { buffer: *buffer, body: Box::new(body) };
    }
    match block.predicate.as_int() {
        Some(1) => body,
        _ => Stmt::If { cond: block.predicate.clone(), then: Box::new(body), otherwise: None },
    }
}

impl Stage {
    /// Whether each element is written once, at the index of its iterators.
    pub fn is_identity(&self) -> bool {
        self.indices.len() == self.spatial.len()
            && self.indices.iter().zip(&self.spatial).all(|(i, a)| i.as_var() == Some(a.var))
    }

    /// Whether it reads `buffer`.
    pub fn reads(&self, buffer: Buffer) -> bool {
        !loads_of(&self.value, buffer).is_empty()
    }

    /// The variables of `spatial`.
    pub fn spatial_vars(&self) -> Vec<Var> {
        self.spatial.iter().map(|a| a.var).collect()
    }

    /// An element of `buffer` for each of `spatial`, made on purpose.
    pub fn fill(name: &str, buffer: Buffer, spatial: Vec<Axis>, value: Expr) -> Stage {
        Stage {
            name: name.into(),
            indices: spatial.iter().map(|a| a.var.into()).collect(),
            spatial,
            reduce: vec![],
            buffer,
            init: None,
            value,
            kept: true,
        }
    }

    /// A part of the stage: over `spatial`, with its variables replaced by `position`. Accesses to the
    /// first buffers of `moved` go to the second ones, at the indices that `within` gives.
    pub fn slice(
        &self,
        spatial: Vec<Axis>,
        position: &dyn Fn(Var) -> Option<Expr>,
        moved: &[(Buffer, Buffer)],
        within: &dyn Fn(usize, &[Expr]) -> Vec<Expr>,
    ) -> Stage {
        let each = moved.iter().enumerate();
        let value = each.fold(self.value.clone(), |value, (n, (from, to))| {
            value.replace_loads(*from, &mut |at, dtype| Expr::load(*to, within(n, at), dtype))
        });
        let (buffer, indices) = match moved.iter().position(|(from, _)| *from == self.buffer) {
            Some(n) => (moved[n].1, within(n, &self.indices)),
            None => (self.buffer, self.indices.clone()),
        };
        Stage {
            spatial,
            value: value.substitute(position),
            buffer,
            indices: indices.iter().map(|i| i.substitute(position)).collect(),
            ..self.clone()
        }
    }

    /// The stage with variables replaced in every expression (not in the axes' variables).
    pub fn substitute(&self, f: &dyn Fn(Var) -> Option<Expr>) -> Stage {
        let all = |list: &[Expr]| list.iter().map(|e| e.substitute(f)).collect::<Vec<_>>();
        let axes = |list: &[Axis]| {
            let axis = |a: &Axis| Axis { var: a.var, extent: a.extent.substitute(f) };
            list.iter().map(axis).collect()
        };
        Stage {
            name: self.name.clone(),
            spatial: axes(&self.spatial),
            reduce: axes(&self.reduce),
            buffer: self.buffer,
            indices: all(&self.indices),
            init: self.init.as_ref().map(|e| e.substitute(f)),
            value: self.value.substitute(f),
            kept: self.kept,
        }
    }

    /// Without the axes of extent 1.
    pub fn squeezed(&self) -> Stage {
        let one = |a: &&Axis| a.extent.as_int() == Some(1);
        let unit: Vec<Var> =
            self.spatial.iter().chain(&self.reduce).filter(one).map(|a| a.var).collect();
        let mut stage = self.substitute(&|v| unit.contains(&v).then(|| Expr::i64(0)));
        stage.spatial.retain(|a| !unit.contains(&a.var));
        stage.reduce.retain(|a| !unit.contains(&a.var));
        if stage.reduce.is_empty()
            && let Some(init) = stage.init.take()
        {
            stage.value = stage.value.replace_loads(stage.buffer, &mut |_, _| init.clone());
        }
        stage
    }

    /// The plainest nest: loops in order, the reduction innermost.
    pub fn naive(&self) -> Stmt {
        let store = |e: &Expr| Stmt::store(self.buffer, self.indices.clone(), e.clone());
        let nest = |axes: &[Axis], body: Stmt| {
            axes.iter().rev().fold(body, |s, a| Stmt::serial(a.var, a.extent.clone(), s))
        };
        let update = nest(&self.reduce, store(&self.value));
        let body = match &self.init {
            Some(init) => Stmt::Seq(vec![store(init), update]),
            None => update,
        };
        nest(&self.spatial, body)
    }
}

impl Item {
    /// The stage, if it is one.
    pub fn stage(&self) -> Option<&Stage> {
        match self {
            Item::Stage(stage) => Some(stage),
            Item::Loop { .. } | Item::Opaque(_) => None,
        }
    }

    /// The plainest statement of it.
    pub fn naive(&self) -> Stmt {
        match self {
            Item::Stage(stage) => stage.naive(),
            Item::Loop { var, extent, items } => {
                let body = Stmt::Seq(items.iter().map(Item::naive).collect());
                Stmt::serial(*var, extent.clone(), body)
            }
            Item::Opaque(stmt) => stmt.clone(),
        }
    }

    /// Whether any part reads `buffer`.
    pub fn reads(&self, buffer: Buffer) -> bool {
        match self {
            Item::Stage(s) => s.reads(buffer),
            Item::Loop { items, .. } => items.iter().any(|i| i.reads(buffer)),
            Item::Opaque(stmt) => {
                let mut found = false;
                stmt.visit_exprs(&mut |e| found |= !loads_of(e, buffer).is_empty());
                found
            }
        }
    }

    /// Whether any part writes `buffer`.
    pub fn writes(&self, buffer: Buffer) -> bool {
        match self {
            Item::Stage(s) => s.buffer == buffer,
            Item::Loop { items, .. } => items.iter().any(|i| i.writes(buffer)),
            Item::Opaque(stmt) => {
                let mut found = false;
                stmt.visit(&mut |s| {
                    found |= s.written() == Some(buffer);
                });
                found
            }
        }
    }
}

/// Buffers that `items` read or write.
pub fn touched<'a>(items: impl IntoIterator<Item = &'a Item>) -> HashSet<Buffer> {
    fn note(item: &Item, found: &mut HashSet<Buffer>) {
        let mut note_loads = |e: &Expr| {
            if let ExprKind::Load { buffer, .. } = e.kind() {
                found.insert(*buffer);
            }
        };
        match item {
            Item::Stage(s) => {
                s.value.visit(&mut note_loads);
                found.insert(s.buffer);
            }
            Item::Loop { items, .. } => items.iter().for_each(|i| note(i, found)),
            Item::Opaque(stmt) => {
                stmt.visit_exprs(&mut |e| e.visit(&mut note_loads));
                stmt.visit(&mut |s| found.extend(s.touched()));
            }
        }
    }
    let mut found = HashSet::new();
    items.into_iter().for_each(|i| note(i, &mut found));
    found
}

/// Buffers touched by the items but those of `range`, and by what is around the items.
pub fn touched_outside(
    items: &[Item],
    range: std::ops::Range<usize>,
    around: &HashSet<Buffer>,
) -> HashSet<Buffer> {
    let mut found = touched(items[..range.start].iter().chain(&items[range.end..]));
    found.extend(around);
    found
}

/// Index lists of the loads from `buffer` in `e`.
pub fn loads_of(e: &Expr, buffer: Buffer) -> Vec<Vec<Expr>> {
    let mut found = vec![];
    e.visit(&mut |e| {
        if let ExprKind::Load { buffer: b, indices, .. } = e.kind()
            && *b == buffer
        {
            found.push(indices.clone());
        }
    });
    found
}
