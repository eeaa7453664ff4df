//! Finding and replacing loops and blocks.

use crate::{Block, Expr, For, Stmt, Var};

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
    root.children().into_iter().find_map(|child| {
        let mut rest = path(child, is)?;
        rest.insert(0, root);
        Some(rest)
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
        | Stmt::If { .. }
        | Stmt::Let { .. }
        | Stmt::Allocate { .. }
        | Stmt::While { .. } => {
            Some(root.map_children(&mut |s| remove(s, is).unwrap_or_else(Stmt::nop)))
        }
    }
}
