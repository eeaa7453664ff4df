//! Loops of a launch whose iterations are pipelined: copies of boxes run ahead of products of warpgroups, through as
//! many buffers of each tile as the loop has stages.
//!
//! ```text
//! for k in groups (stages = 4):
//!     barrier
//!     thread 0: a_tile, b_tile = boxes of both operands        the producer's part
//!     barrier
//!     acc += a_tile * b_tile                                   the consumers' part
//! ```
//!
//! The loop means what it says, one iteration after the other, with one buffer for each tile. Code generation gives the
//! copies to a warpgroup of its own and lets both parts run on their own (warp specialisation). That is the same if
//! nothing else passes between threads, and each iteration reads what it copied; [`Pipeline::of`] looks.
//!
//! Blocks of a cluster (a loop over `clusterCtaIdx.x`) do the same iterations. A box that is the same one for all of them
//! is copied once: each block copies a part of its rows, to the shared memory of all (multicast).
//!
//! Decisions: docs/decisions/0105-warp-specialisation.md, docs/decisions/0112-clusters.md

use std::collections::{BTreeMap, BTreeSet};

use crate::arith::Analyzer;
use crate::box_copy::BoxCopy;
use crate::launch::{Launch, Varying};
use crate::mma::{PANEL, Team};
use crate::thread::{PIPELINE_STAGES, ThreadAxis, WARP};
use crate::tile::TileOp;
use crate::uses::Uses;
use crate::{Buffer, Expr, ExprKind, For, ForKind, PrimFunc, Scope, Stmt, Var};

/// Alignment of a tile: eight rows of a panel, bytes.
pub const TILE_ALIGN: i64 = 1024;
/// Bytes of a barrier object.
pub const BARRIER_BYTES: i64 = 8;
/// The most blocks of a cluster that every GPU takes.
pub const MOST_CLUSTER: i64 = 8;

/// The pipelined loops of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Buffers of each tile.
    pub stages: i64,
    /// The tiles, which are all of the launch's shared memory.
    pub tiles: BTreeSet<Buffer>,
    /// Warpgroups that multiply.
    pub consumers: i64,
    /// Bytes that an iteration copies.
    pub copied_bytes: i64,
    /// The tensors that boxes are copied from, each once, with the boxes that one block copies.
    pub maps: Vec<BoxCopy>,
    /// Blocks of a cluster.
    pub cluster: i64,
    /// Copies that are the same for all blocks of a cluster, so that each block makes a part of them for all.
    pub multicast: Vec<BoxCopy>,
}

/// The parts of a pipelined loop's body.
#[derive(Debug, Default)]
pub struct Parts<'s> {
    /// Copies of boxes.
    pub copies: Vec<&'s Stmt>,
    /// Products.
    pub products: Vec<&'s Stmt>,
}

/// Whether a loop is pipelined.
pub fn is_pipelined(l: &For) -> bool {
    l.annotations.contains_key(PIPELINE_STAGES)
}

/// Whether any pipelined loop is in a statement.
pub fn has_pipelined(s: &Stmt) -> bool {
    let mut any = false;
    s.visit(&mut |s| any |= matches!(s, Stmt::For(l) if is_pipelined(l)));
    any
}

/// The copies of boxes in a statement.
pub fn boxes(s: &Stmt) -> Vec<&BoxCopy> {
    let mut found = vec![];
    s.visit(&mut |s| {
        if let Stmt::Tile(TileOp::Box(copy)) = s {
            found.push(&**copy);
        }
    });
    found
}

/// Whether two copies are of the same tensor, by boxes of the same size.
pub fn same_map(a: &BoxCopy, b: &BoxCopy) -> bool {
    let dims = |copy: &BoxCopy| -> Vec<_> {
        copy.dims.iter().map(|d| (d.extent.clone(), d.stride.clone(), d.count)).collect()
    };
    a.from == b.from && dims(a) == dims(b)
}

/// The parts of a pipelined loop: barriers, copies, products, barriers.
pub fn parts(l: &For) -> Result<Parts<'_>, String> {
    let mut found = Parts::default();
    split(&l.body, &mut found)?;
    Ok(found)
}

fn split<'s>(s: &'s Stmt, found: &mut Parts<'s>) -> Result<(), String> {
    let copies = !boxes(s).is_empty();
    match s {
        Stmt::Barrier(_) => Ok(()),
        Stmt::Seq(list) => list.iter().try_for_each(|s| split(s, found)),
        _ if copies && !found.products.is_empty() => {
            Err("copies behind products in a pipelined loop".to_owned())
        }
        _ => {
            let mut others = false;
            s.visit(&mut |s| {
                others |= match s {
                    Stmt::Tile(TileOp::Box(_)) => !copies,
                    Stmt::Tile(TileOp::Mma(mma)) => copies || mma.team == Team::Warp,
                    Stmt::If { otherwise, .. } => !copies || otherwise.is_some(),
                    Stmt::For(l) => l.kind != ForKind::Unrolled,
                    Stmt::Seq(_) => false,
                    _ => true,
                }
            });
            if others {
                return Err("a pipelined loop does more than copy boxes and multiply".to_owned());
            }
            if copies { &mut found.copies } else { &mut found.products }.push(s);
            Ok(())
        }
    }
}

impl Pipeline {
    /// The pipelined loops of a launch, if it has any; or why their parts cannot run on their own.
    pub fn of(func: &PrimFunc, launch: &Launch<'_>) -> Result<Option<Pipeline>, String> {
        let mut loops = vec![];
        launch.body.visit(&mut |s| {
            if let Stmt::For(l) = s
                && is_pipelined(l)
            {
                loops.push(&**l);
            }
        });
        let all = boxes(launch.body);
        let Some(first) = loops.first() else {
            return match all.is_empty() {
                true => Ok(None),
                false => Err("a copy of a box outside of a pipelined loop".to_owned()),
            };
        };
        let stages = |l: &For| l.annotations[PIPELINE_STAGES].parse::<i64>().ok();
        let Some(number @ 2..=16) = stages(first) else {
            return Err("a pipelined loop of other than 2 to 16 stages".to_owned());
        };
        let consumers = consumers(launch)?;
        let (mut inside, mut copied_bytes) = (0, None);
        for l in &loops {
            if l.kind != ForKind::Serial || stages(l) != Some(number) {
                return Err("pipelined loops of different kinds".to_owned());
            }
            let parts = parts(l)?;
            let own: Vec<&BoxCopy> = parts.copies.iter().flat_map(|s| boxes(s)).collect();
            inside += own.len();
            let bytes = covered(func, launch, l, &parts)?;
            if copied_bytes.is_some_and(|other| other != bytes) {
                return Err("pipelined loops that copy different numbers of bytes".to_owned());
            }
            copied_bytes = Some(bytes);
        }
        if inside != all.len() {
            return Err("a copy of a box outside of a pipelined loop".to_owned());
        }
        let tiles: BTreeSet<Buffer> = all.iter().map(|copy| copy.to).collect();
        apart(func, launch, &tiles)?;
        let (cluster, multicast) = cluster(func, launch)?;
        let copied_bytes = copied_bytes.unwrap_or(0);
        let maps = vec![];
        let mut found =
            Pipeline { stages: number, tiles, consumers, copied_bytes, maps, cluster, multicast };
        for copy in all {
            let part = found.part(copy);
            if !found.maps.iter().any(|map| same_map(map, &part)) {
                found.maps.push(part);
            }
        }
        Ok(Some(found))
    }

    /// Whether each block of a cluster makes a part of a copy, for all of them.
    pub fn is_multicast(&self, copy: &BoxCopy) -> bool {
        self.multicast.contains(copy)
    }

    /// The part of a copy that the first block of a cluster makes: as many rows are each other block's.
    pub fn part(&self, copy: &BoxCopy) -> BoxCopy {
        let mut part = copy.clone();
        if let (true, Some(rows)) = (self.is_multicast(copy), part.dims.get_mut(1)) {
            rows.count /= self.cluster;
        }
        part
    }

    /// Bytes of shared memory: the tiles of all stages, and two barrier objects for each stage.
    pub fn shared_bytes(&self, func: &PrimFunc) -> i64 {
        self.stages * (self.stage_bytes(func) + 2 * BARRIER_BYTES)
    }

    /// Bytes of the tiles of a stage.
    pub fn stage_bytes(&self, func: &PrimFunc) -> i64 {
        self.tiles.iter().map(|tile| tile_bytes(func, *tile)).sum()
    }
}

/// Bytes of a tile, whole panels.
pub fn tile_bytes(func: &PrimFunc, tile: Buffer) -> i64 {
    let data = &func.buffers[tile];
    let count: i64 = data.shape.iter().map(|n| n.as_int().unwrap_or(0)).product();
    let bytes = count * data.dtype.itemsize() as i64;
    (bytes + TILE_ALIGN - 1) / TILE_ALIGN * TILE_ALIGN
}

/// The warpgroups of a block.
fn consumers(launch: &Launch<'_>) -> Result<i64, String> {
    let extent = |axis| launch.thread(axis).map_or(Some(1), |l| l.extent.as_int());
    let [x, y, z] = [ThreadAxis::ThreadX, ThreadAxis::ThreadY, ThreadAxis::ThreadZ].map(extent);
    match (x, y, z) {
        (Some(threads), Some(consumers @ 1..=3), Some(1))
            if threads == 4 * WARP && launch.thread(ThreadAxis::ThreadY).is_some() =>
        {
            Ok(consumers)
        }
        _ => {
            Err("a pipelined loop whose threads are not 1 to 3 warpgroups along threadIdx.y".into())
        }
    }
}

/// The number of blocks in a cluster, and the copies that are the same for all of them. Blocks of a cluster have to do the
/// same loops, as each waits for what others copy.
fn cluster(func: &PrimFunc, launch: &Launch<'_>) -> Result<(i64, Vec<BoxCopy>), String> {
    let bound = ForKind::ThreadBinding(ThreadAxis::ClusterX);
    let Some(blocks) = launch.blocks.iter().find(|l| l.kind == bound) else {
        return Ok((1, vec![]));
    };
    let Some(count @ 1..=MOST_CLUSTER) = blocks.extent.as_int() else {
        return Err(format!("a cluster of other than 1 to {MOST_CLUSTER} blocks"));
    };
    let mut same = vec![];
    if count > 1 {
        let own = Varying::of_loops([*blocks]);
        same_for_all(func, launch.body, own, &mut |copy| same.push(copy.clone()))?;
        // Parts are neighbours in memory, and whole groups of eight rows, as swizzling has them.
        let whole = |copy: &BoxCopy| match &copy.dims[..] {
            [_, rows, others @ ..] => {
                rows.count % (8 * count) == 0 && others.iter().all(|d| d.count == 1)
            }
            _ => false,
        };
        same.retain(whole);
    }
    Ok((count, same))
}

/// Visits copies with expressions in which no variable of `own` is.
fn same_for_all(
    func: &PrimFunc,
    s: &Stmt,
    mut own: Varying,
    found: &mut dyn FnMut(&BoxCopy),
) -> Result<(), String> {
    own.enter(func, s);
    if has_pipelined(s) && own.parts(func, s) {
        return Err("a pipelined loop that differs between blocks of a cluster".to_owned());
    }
    if let Stmt::Tile(TileOp::Box(copy)) = s
        && !copy.exprs().iter().any(|e| own.varies(func, e))
    {
        found(copy);
    }
    let mut done = Ok(());
    s.for_each_child(&mut |child| {
        if done.is_ok() {
            done = same_for_all(func, child, own.clone(), found);
        }
    });
    done
}

/// Checks that an iteration copies every element of the tiles that it multiplies, by the first thread alone. Returns
/// the bytes.
fn covered(
    func: &PrimFunc,
    launch: &Launch<'_>,
    l: &For,
    parts: &Parts<'_>,
) -> Result<i64, String> {
    let threads: Vec<Var> = launch.threads.iter().map(|l| l.var).collect();
    let first_thread = |e: &Expr| {
        let first = e.substitute(&|v| threads.contains(&v).then(|| Expr::i64(0)));
        Analyzer::new().simplify(&first)
    };
    let varies = |e: &Expr, of: &dyn Fn(Var) -> bool| {
        let mut any = false;
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => any |= of(*var),
            ExprKind::Load { .. } => any = true,
            _ => {}
        });
        any
    };
    let mut ranges: BTreeMap<Buffer, Vec<[i64; 2]>> = BTreeMap::new();
    let mut fault = None;
    for s in &parts.copies {
        s.visit(&mut |s| match s {
            Stmt::If { cond, .. } if first_thread(cond).as_int() != Some(1) => {
                fault = Some("a copy of a box under a condition");
            }
            Stmt::For(_) => fault = Some("copies of boxes in a loop"),
            Stmt::Tile(TileOp::Box(copy)) => {
                let moves = |e: &&Expr| varies(e, &|var| threads.contains(&var));
                match copy.first.as_int() {
                    Some(first) if first % PANEL == 0 && !copy.exprs().iter().any(moves) => {
                        let range = [first, first + copy.elements()];
                        ranges.entry(copy.to).or_default().push(range);
                    }
                    _ => {
                        fault = Some("a box at a place that is not constant, or differs in a block")
                    }
                }
                if copy.dims.iter().any(|d| varies(&d.extent, &|v| v == l.var)) {
                    fault = Some("a tensor that differs between iterations");
                }
            }
            _ => {}
        });
    }
    if let Some(fault) = fault {
        return Err(fault.to_owned());
    }
    let mut bytes = 0;
    for (buffer, ranges) in &mut ranges {
        ranges.sort_unstable();
        let data = &func.buffers[*buffer];
        let size: i64 = data.shape.iter().map(|n| n.as_int().unwrap_or(0)).product();
        let end = ranges.iter().try_fold(0, |end, [first, last]| (*first == end).then_some(*last));
        if end != Some(size) {
            return Err(format!("boxes that do not fill `{}`, each element once", data.name));
        }
        bytes += size * data.dtype.itemsize() as i64;
    }
    let copied = |buffer: &Buffer| ranges.contains_key(buffer);
    let mut only = !parts.products.is_empty();
    for s in &parts.products {
        s.visit(&mut |s| {
            if let Stmt::Tile(TileOp::Mma(mma)) = s {
                only &= copied(&mma.a.rows.buffer) && copied(&mma.b.rows.buffer);
            }
        });
    }
    match only {
        true => Ok(bytes),
        false => Err("a product of what its iteration has not copied".to_owned()),
    }
}

/// Checks that threads of a launch pass nothing but tiles to each other, and those in pipelined loops alone.
fn apart(func: &PrimFunc, launch: &Launch<'_>, tiles: &BTreeSet<Buffer>) -> Result<(), String> {
    let shared: BTreeSet<Buffer> = launch.shared.iter().copied().collect();
    if shared != *tiles {
        return Err("shared memory that is no tile of a pipelined loop".to_owned());
    }
    let (mut written, mut read) = (BTreeSet::new(), BTreeSet::new());
    let mut outside = false;
    walk(launch.body, &mut |s| {
        let global = |buffer: &Buffer| func.buffers[*buffer].scope == Scope::Global;
        written.extend(s.written().filter(|buffer| global(buffer)));
        let uses = Uses::of_exprs(s).buffers;
        outside |= uses.iter().chain(&s.touched()).any(|buffer| tiles.contains(buffer));
        read.extend(uses);
    });
    if outside {
        return Err("a tile that is touched outside of pipelined loops".to_owned());
    }
    match written.is_disjoint(&read) {
        true => Ok(()),
        false => Err("results that are read in the launch".to_owned()),
    }
}

/// Visits what is outside of pipelined loops.
fn walk<'s>(s: &'s Stmt, f: &mut dyn FnMut(&'s Stmt)) {
    if matches!(s, Stmt::For(l) if is_pipelined(l)) {
        return;
    }
    f(s);
    s.for_each_child(&mut |child| walk(child, f));
}
