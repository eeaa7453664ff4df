//! An intermediate that holds the window a loop uses, and keeps what its iterations share.

use super::access::{self, AccessKind};
use super::state::{Schedule, ScheduleError};
use super::tree::{self, loops_of};
use crate::arith::Analyzer;
use crate::{Block, Buffer, Expr, For, ForKind, IterKind, Stmt, Var};

/// One dimension of what an iteration of the loops around the block writes: `width` elements from
/// `first` on.
struct Window {
    /// Over the loops that producer and readers share.
    first: Expr,
    width: i64,
    /// The block's own loop along it, where there is more than one element.
    along: Option<Var>,
}

/// A dimension whose windows overlap from one iteration of a loop to the next.
struct Rolling {
    dim: usize,
    at: Var,
    /// The place of the loop among those around the block.
    depth: usize,
    step: i64,
}

impl Schedule {
    /// `for i { for ax in 0..w { X[i * s + ax] = f(i * s + ax) }; ..X[i * s + k].. }`, where `k < w` and
    /// `s < w`, becomes `for i { for ax in 0..w { if i < 1 or w - s <= ax { X[(i * s + ax) % w] = .. } };
    /// ..X[(i * s + k) % w].. }`: the intermediate has room for one window, and an iteration computes what the
    /// one before it did not. Of several such dimensions the one of the outermost loop is folded, and all of them
    /// skip what was computed.
    ///
    /// Needs a block that [`compute_at`](Schedule::compute_at) put under a loop of all its readers, serial loops of
    /// constant extents from there inwards, and readers below it that stay within the window. Iterators in folded
    /// indices become opaque.
    pub fn rolling_buffer(&mut self, name: &str) -> Result<(), ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("rolling_buffer", name)?;
        let refuse = |why: &str| self.refuse("rolling_buffer", name, why);
        let (buffer, indices) = self.movable("rolling_buffer", name, &block)?;
        self.require_stable("rolling_buffer", &block)?;
        let path = self.path_to_block("rolling_buffer", name)?;
        let shared = self.shared_loops(&path, &block, buffer).map_err(|why| refuse(&why))?;
        let inner = shared.last().expect("a loop around all readers");
        let upto = path.iter().position(|s| matches!(s, Stmt::For(l) if l.var == inner.var));
        let facts = self.facts(&path[..=upto.expect("it is on the path")]);
        let own: Vec<&For> = loops_of(&path).skip(shared.len()).collect();
        let windows =
            windows(&facts, &block, &indices, &shared, &own).map_err(|why| refuse(&why))?;
        self.require_reads_within(&facts, &inner.body, buffer, &windows)
            .map_err(|why| refuse(&why))?;
        let rolling = rolling(&facts, &windows, &shared);
        let Some(outermost) = rolling.iter().min_by_key(|r| r.depth) else {
            return Err(refuse("what two iterations of a loop around it compute does not overlap"));
        };
        let (dim, width) = (outermost.dim, windows[outermost.dim].width);
        if self.func.buffers[buffer].shape[dim].as_int().is_none_or(|n| n <= width) {
            return Err(refuse("the intermediate is not larger than the window"));
        }
        let first = Expr::bool(true);
        let guard = rolling.iter().fold(first, |all, r| {
            let window = &windows[r.dim];
            let along = Expr::var(window.along.expect("it has several elements"));
            let kept = Expr::i64(window.width - r.step);
            all.and(Expr::var(r.at).lt(1).or(kept.le(along)))
        });
        let before = self.func.clone();
        let body = tree::replace_block(&before.body, name, |b| {
            let predicate = b.predicate.clone().and(guard.clone());
            Stmt::Block(Box::new(Block { predicate, ..b.clone() }))
        });
        let body = opaque_along(&body, buffer, dim);
        let folded = |at: &[Expr]| {
            let mut at = at.to_vec();
            at[dim] = at[dim].clone().floormod(width);
            at
        };
        let body = body.map_accesses(buffer, buffer, &folded);
        self.func.buffers[buffer].shape[dim] = Expr::i64(width);
        let body = self.refreshed(&body, &[buffer]);
        if let Err(refused) = self.commit("rolling_buffer", name, body, &[]) {
            self.func = before;
            return Err(refused);
        }
        self.padded.insert(buffer);
        self.note(format!("rolling_buffer {name}"));
        Ok(())
    }

    /// The loops around both the block and all that read its result, outermost first.
    fn shared_loops<'p>(
        &self,
        path: &[&'p Stmt],
        block: &Block,
        buffer: Buffer,
    ) -> Result<Vec<&'p For>, String> {
        let readers: Vec<String> =
            self.readers(buffer).into_iter().filter(|r| *r != block.name).collect();
        if readers.is_empty() {
            return Err("nothing reads its result".into());
        }
        let around = |l: &&For| {
            let below: Vec<&str> = tree::blocks(&l.body).iter().map(|b| b.name.as_str()).collect();
            readers.iter().all(|r| below.contains(&r.as_str()))
        };
        let shared: Vec<&For> = path
            .iter()
            .filter_map(|s| if let Stmt::For(l) = s { Some(&**l) } else { None })
            .collect();
        let shared: Vec<&For> = shared.into_iter().take_while(around).collect();
        let Some(inner) = shared.last() else {
            return Err("no loop is around it and all that read its result".into());
        };
        let below = tree::blocks(&inner.body);
        let users = below.iter().find(|b| b.name == block.name || readers.contains(&b.name));
        match users {
            Some(first) if first.name == block.name => Ok(shared),
            _ => Err("its result is read before it in the loop".into()),
        }
    }

    /// Every access under the loop must be within the windows.
    fn require_reads_within(
        &self,
        facts: &Analyzer,
        body: &Stmt,
        buffer: Buffer,
        windows: &[Window],
    ) -> Result<(), String> {
        let accesses = access::collect(body, &mut facts.clone());
        let rank = windows.len();
        if accesses.list.iter().any(|a| a.buffer == buffer && a.indices.len() != rank) {
            return Err("its result is accessed by position".into());
        }
        let read = self.touched(facts, body, buffer, AccessKind::Read).unwrap_or_default();
        for (dim, ((min, extent), window)) in read.into_iter().zip(windows).enumerate() {
            let last = window.first.clone() + window.width;
            let within = min.clone().ge(window.first.clone()).and((min + extent).le(last));
            if !facts.prove(&within) {
                return Err(format!(
                    "an iteration may read what an earlier one computed in dimension {dim}"
                ));
            }
        }
        Ok(())
    }
}

/// The window of each dimension, where every iterator has a loop of its own or one value.
fn windows(
    facts: &Analyzer,
    block: &Block,
    indices: &[Var],
    shared: &[&For],
    own: &[&For],
) -> Result<Vec<Window>, String> {
    let outside = |e: &Expr| shared.iter().any(|l| tree::mentions(e, l.var));
    if block.reduction_iters().any(|i| outside(&i.value)) {
        return Err("a loop of its reduction is around its readers".into());
    }
    let window = |index: &Var| {
        let iter = block.iters.iter().find(|i| i.var == *index).expect("one of its iterators");
        let mentioned: Vec<&&For> =
            own.iter().filter(|l| tree::mentions(&iter.value, l.var)).collect();
        let (along, width) = match mentioned[..] {
            [] => (None, 1),
            [l] if l.min.as_int() == Some(0) && l.kind == ForKind::Serial => {
                (Some(l.var), l.extent.as_int()?)
            }
            _ => return None,
        };
        let first = iter.value.substitute(&|v| (Some(v) == along).then(|| Expr::i64(0)));
        let first = facts.simplify(&first);
        let offset = along.map_or_else(|| Expr::i64(0), Expr::var);
        let rest = facts.simplify(&(iter.value.clone() - first.clone() - offset));
        (rest.as_int() == Some(0)).then_some(Window { first, width, along })
    };
    let windows: Option<Vec<Window>> = indices.iter().map(window).collect();
    windows.ok_or_else(|| "its loops are not one of constant extent for each iterator".into())
}

/// The dimensions that move by less than their width along one loop, which moves no other one.
fn rolling(facts: &Analyzer, windows: &[Window], shared: &[&For]) -> Vec<Rolling> {
    let plain = |l: &For| {
        let (min, extent) = (l.min.as_int(), l.extent.as_int());
        l.kind == ForKind::Serial && min == Some(0) && extent.is_some()
    };
    let of = |(dim, window): (usize, &Window)| {
        let poly = facts.poly(&window.first)?;
        let [(factors, step)] = &poly.terms[..] else { return None };
        let [factor] = &factors[..] else { return None };
        let at = factor.as_var()?;
        let depth = shared.iter().position(|l| l.var == at)?;
        let alone = windows.iter().filter(|w| tree::mentions(&w.first, at)).count() == 1;
        let several = shared[depth].extent.as_int()? > 1;
        // Between two iterations of the loop, others of the loops inside it run in full.
        let in_order = shared[depth..].iter().all(|l| plain(l));
        let overlaps = 0 < *step && *step < window.width;
        (alone && several && in_order && overlaps).then_some(Rolling {
            dim,
            at,
            depth,
            step: *step,
        })
    };
    windows.iter().enumerate().filter_map(of).collect()
}

/// Iterators that index dimension `dim` of the buffer no longer say which element they are about.
fn opaque_along(body: &Stmt, buffer: Buffer, dim: usize) -> Stmt {
    body.replace(&mut |s| {
        let Stmt::Block(block) = s else { return None };
        let mut along: Vec<Var> = vec![];
        let accesses = access::collect(&block.body, &mut Analyzer::new());
        for access in accesses.list.iter().filter(|a| a.buffer == buffer) {
            access.indices[dim].visit(&mut |e| along.extend(e.as_var()));
        }
        let mut block = block.clone();
        for iter in block.iters.iter_mut().filter(|i| i.kind == IterKind::Spatial) {
            if along.contains(&iter.var) {
                iter.kind = IterKind::Opaque;
            }
        }
        (!along.is_empty()).then_some(Stmt::Block(block))
    })
}
