//! Random schedule steps.

use arbtest::arbitrary::{Result, Unstructured};
use reflex_tir::schedule::Schedule;
use reflex_tir::{Scope, Stmt, Var};

/// Every loop, outermost first.
pub fn loops_of(func: &reflex_tir::PrimFunc) -> Vec<Var> {
    let mut loops = vec![];
    func.body.visit(&mut |s| {
        if let Stmt::For(l) = s {
            loops.push(l.var);
        }
    });
    loops
}

/// Tries one random primitive; tells what it did.
pub fn step(u: &mut Unstructured<'_>, s: &mut Schedule) -> Result<Option<String>> {
    let loops = loops_of(s.func());
    let blocks = s.blocks();
    if loops.is_empty() || blocks.is_empty() {
        return Ok(None);
    }
    let i = *u.choose(&loops)?;
    let block = u.choose(&blocks)?.clone();
    let around = s.get_loops(&block).unwrap();
    let scope = *u.choose(&[Scope::Global, Scope::Local])?;
    let (what, done) = match u.int_in_range(0..=13)? {
        0 | 1 => {
            let k = u.int_in_range(1..=6)?;
            (format!("split {i} {k}"), s.split(i, k).map(|_| ()))
        }
        2 => {
            let k = u.int_in_range(1..=4)?;
            (format!("split_parts {i} {k}"), s.split_parts(i, k).map(|_| ()))
        }
        3 if around.len() > 1 => {
            let at = u.int_in_range(0..=around.len() - 2)?;
            (
                format!("fuse {:?}", &around[at..at + 2]),
                s.fuse(around[at], around[at + 1]).map(|_| ()),
            )
        }
        4 if around.len() > 1 => {
            let (a, b) = (*u.choose(&around)?, *u.choose(&around)?);
            (format!("reorder {a} {b}"), s.reorder(&[a, b]))
        }
        5 => (format!("parallel {i}"), s.parallel(i)),
        6 => (format!("vectorize {i}"), s.vectorize(i)),
        7 => (format!("unroll {i}"), s.unroll(i)),
        8 => (format!("compute_at {block} {i}"), s.compute_at(&block, i)),
        9 => (format!("reverse_compute_at {block} {i}"), s.reverse_compute_at(&block, i)),
        10 => (format!("cache_write {block}"), s.cache_write(&block, scope).map(|_| ())),
        11 => {
            let reads: Vec<_> =
                s.get_block(&block).unwrap().reads.iter().map(|r| r.buffer).collect();
            match reads.is_empty() {
                true => return Ok(None),
                false => {
                    let b = *u.choose(&reads)?;
                    (format!("cache_read {block} {b}"), s.cache_read(&block, b, scope).map(|_| ()))
                }
            }
        }
        12 if !around.is_empty() => {
            let i = *u.choose(&around)?;
            (format!("decompose {block} {i}"), s.decompose_reduction(&block, i).map(|_| ()))
        }
        _ => match u.ratio(1, 2)? {
            true => (format!("inline {block}"), s.compute_inline(&block)),
            false => (format!("reverse_inline {block}"), s.reverse_compute_inline(&block)),
        },
    };
    Ok(Some(match done {
        Ok(()) => what,
        Err(why) => format!("  ({what}: {why})"),
    }))
}
