//! Finding and replacing loops and blocks; sequences, nests and conjunctions.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::{Block, Expr, ExprKind, For, ForKind, PrimFunc, Stmt, Var};

/// The statements from `root` to the loop of `var`, both included.
pub(super) fn path_to_loop(root: &Stmt, var: Var) -> Option<Vec<&Stmt>> {
    path(root, &|s| matches!(s, Stmt::For(l) if l.var == var))
}

/// The statements from `root` to the block `name`, both included.
pub(super) fn path_to_block<'a>(root: &'a Stmt, name: &str) -> Option<Vec<&'a Stmt>> {
    path(root, &|s| matches!(s, Stmt::Block(b) if b.name == name))
}

fn path<'a>(root: &'a Stmt, is: &dyn Fn(&Stmt) -> bool) -> Option<Vec<&'a Stmt>> {
    if is(root) {
        return Some(vec![root]);
    }
    let mut found = None;
    root.for_each_child(&mut |child| {
        if found.is_none() {
            found = path(child, is);
        }
    });
    found.map(|mut rest| {
        rest.insert(0, root);
        rest
    })
}

/// The loops of a path, outermost first.
pub(super) fn loops_of<'p>(path: &'p [&Stmt]) -> impl DoubleEndedIterator<Item = &'p For> {
    path.iter().filter_map(|s| if let Stmt::For(l) = s { Some(&**l) } else { None })
}

/// `root` with the loop of `var` replaced.
pub(super) fn replace_loop(root: &Stmt, var: Var, f: impl Fn(&For) -> Stmt) -> Stmt {
    root.replace(&mut |s| match s {
        Stmt::For(l) if l.var == var => Some(f(l)),
        _ => None,
    })
}

/// `root` with the block `name` replaced.
pub(super) fn replace_block(root: &Stmt, name: &str, f: impl Fn(&Block) -> Stmt) -> Stmt {
    root.replace(&mut |s| match s {
        Stmt::Block(b) if b.name == name => Some(f(b)),
        _ => None,
    })
}

/// The blocks under `stmt` that are not inside other blocks.
pub(super) fn blocks(stmt: &Stmt) -> Vec<&Block> {
    match stmt {
        Stmt::Block(b) => vec![b],
        _ => stmt.children().into_iter().flat_map(blocks).collect(),
    }
}

/// The first block under `stmt`.
fn first_block(stmt: &Stmt) -> Option<&Block> {
    match stmt {
        Stmt::Block(b) => Some(b),
        _ => stmt.children().into_iter().find_map(first_block),
    }
}

/// Makes `stmt` run only where `cond` holds: blocks take it into their predicate, other
/// statements go under an `If`.
pub(super) fn guard(stmt: &Stmt, cond: &Expr) -> Stmt {
    match stmt {
        Stmt::Block(b) => {
            let mut block = b.as_ref().clone();
            block.predicate = block.predicate.and(cond.clone());
            Stmt::Block(Box::new(block))
        }
        Stmt::For(_) | Stmt::Seq(_) | Stmt::Allocate { .. } => {
            stmt.map_children(&mut |s| guard(s, cond))
        }
        Stmt::Store { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_)
        | Stmt::If { .. }
        | Stmt::Let { .. }
        | Stmt::While { .. } => {
            Stmt::If { cond: cond.clone(), then: Box::new(stmt.clone()), otherwise: None }
        }
    }
}

/// Whether `expr` mentions `var`.
pub(super) fn mentions(expr: &Expr, var: Var) -> bool {
    let mut found = false;
    expr.visit(&mut |e| found |= e.as_var() == Some(var));
    found
}

/// Removes the first statement for which `is` holds, and loops, sequences and conditionals
/// left empty by that.
pub(super) fn remove(root: &Stmt, is: &dyn Fn(&Stmt) -> bool) -> Option<Stmt> {
    if is(root) {
        return None;
    }
    match root {
        Stmt::Seq(list) => {
            let mut kept: Vec<Stmt> = list.iter().filter_map(|s| remove(s, is)).collect();
            match kept.len() {
                0 => None,
                1 => Some(kept.remove(0)),
                _ => Some(Stmt::Seq(kept)),
            }
        }
        Stmt::For(l) => {
            let body = remove(&l.body, is)?;
            Some(Stmt::For(Box::new(l.with_body(body))))
        }
        Stmt::Block(b) => {
            let body = remove(&b.body, is).unwrap_or_else(Stmt::nop);
            Some(Stmt::Block(Box::new(b.with_body(b.init.clone(), body))))
        }
        Stmt::Store { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_)
        | Stmt::If { .. }
        | Stmt::Let { .. }
        | Stmt::Allocate { .. }
        | Stmt::While { .. } => {
            Some(root.map_children(&mut |s| remove(s, is).unwrap_or_else(Stmt::nop)))
        }
    }
}

pub(super) fn is_block(stmt: &Stmt, name: &str) -> bool {
    matches!(stmt, Stmt::Block(b) if b.name == name)
}

/// The operands of a chain of `and`.
pub(super) fn conjuncts(e: &Expr) -> Vec<Expr> {
    match e.kind() {
        ExprKind::And(a, b) => [conjuncts(a), conjuncts(b)].concat(),
        ExprKind::Int { value, .. } if *value != 0 => vec![],
        _ => vec![e.clone()],
    }
}

/// The statements one after the other, flattened.
pub(super) fn sequence(list: impl IntoIterator<Item = Stmt>) -> Stmt {
    let mut flat = vec![];
    for stmt in list {
        match stmt {
            Stmt::Seq(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    match flat.len() {
        1 => flat.remove(0),
        _ => Stmt::Seq(flat),
    }
}

/// Whether `top` is nothing but loops around the block.
pub(super) fn holds_only_block(top: &Stmt, name: &str) -> bool {
    match top {
        Stmt::For(l) => holds_only_block(&l.body, name),
        Stmt::Block(b) => b.name == name,
        _ => false,
    }
}

/// The loops, outermost first, around `body`.
pub(super) fn nested(loops: &[For], body: Stmt) -> Stmt {
    loops.iter().rev().fold(body, |body, l| Stmt::For(Box::new(l.with_body(body))))
}

/// A loop from 0 without annotations.
pub(super) fn plain_loop(var: Var, extent: Expr) -> For {
    let (min, annotations) = (Expr::i64(0), BTreeMap::new());
    For { var, min, extent, kind: ForKind::Serial, annotations, body: Stmt::nop() }
}

/// Loops that share a name with others, as they are told apart: by the first block in them, and
/// where that is the same by their order.
pub(super) fn labels<'f>(func: &'f PrimFunc) -> FxHashMap<Var, String> {
    let mut loops: Vec<&'f For> = vec![];
    func.body.visit(&mut |s| {
        if let Stmt::For(l) = s {
            loops.push(l);
        }
    });
    let hint = |l: &For| -> &'f str { &func.vars[l.var].name };
    let mut times: FxHashMap<&str, usize> = FxHashMap::default();
    loops.iter().for_each(|l| *times.entry(hint(l)).or_default() += 1);
    let shared = |l: &&For| times[hint(l)] > 1;
    let mut seen: FxHashMap<(&str, Option<&str>), usize> = FxHashMap::default();
    let label = |l: &'f For| {
        let of = (hint(l), first_block(&l.body).map(|b| b.name.as_str()));
        let count = seen.entry(of).or_default();
        *count += 1;
        let mut label = of.0.to_owned();
        if let Some(block) = of.1 {
            label.extend([" of ", block]);
        }
        if *count > 1 {
            label.push_str(&format!(" #{count}"));
        }
        (l.var, label)
    };
    loops.iter().copied().filter(shared).map(label).collect()
}

/// The loops of a path that holds nothing but loops and sequences.
pub(super) fn loops_between(path: &[&Stmt]) -> Option<Vec<For>> {
    let mut loops = vec![];
    for stmt in path {
        match stmt {
            Stmt::For(l) => loops.push(l.as_ref().clone()),
            Stmt::Seq(_) => {}
            _ => return None,
        }
    }
    Some(loops)
}

/// `root` with `new` in front of the loop `at`.
pub(super) fn splice_before(root: &Stmt, at: Var, new: &Stmt) -> Stmt {
    let is_at = |s: &Stmt| matches!(s, Stmt::For(l) if l.var == at);
    root.replace(&mut |s| match s {
        Stmt::Seq(list) if list.iter().any(is_at) => {
            let parts = list.iter().flat_map(|s| match is_at(s) {
                true => vec![new.clone(), s.clone()],
                false => vec![s.clone()],
            });
            Some(sequence(parts))
        }
        s if is_at(s) => Some(sequence([new.clone(), s.clone()])),
        _ => None,
    })
}
