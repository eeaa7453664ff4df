//! Contractions of 16-bit floats on tensor cores: a block computes a tile of results from tiles of both
//! operands in shared memory, each team of threads a part of it: a warpgroup by `wgmma` where the GPU has that, or a
//! warp by `mma.sync`.
//!
//! ```text
//! for by, bx in blocks:                       tiles of 128 x 128 results
//!     for ty, tx in threads(2, 128):          a warpgroup for each ty
//!         acc[1, 1, 64] = 0                   64 x 128 results of the warpgroup
//!         a_tile[..2], b_tile[..2] = the first tiles of both operands
//!         for k0 in steps of 3 * 64:
//!             for s in 3:                     three buffers: one is filled while the others are read or full
//!                 acc += a_tile[s] * b_tile[s]
//!                 a_tile[(s + 2) % 3], b_tile[(s + 2) % 3] = the tiles two further
//!         y[..] = acc
//! ```
//!
//! Copies from global memory are on their way while tensor cores multiply (software pipelining), and a warpgroup's
//! products go on while its threads begin others. Operands that are more than a load, or one with padding around it, go through registers. Tiles lie as the operand's memory does, so that both
//! sides of a copy are 16 bytes; `ldmatrix` and `wgmma` transpose. A warp's have padded rows, a
//! warpgroup's are panels with swizzled rows (`reflex_tir::mma`). Sums are those of the device's tensor cores. Operands of float32 are rounded to bfloat16 on the way
//! where the kernel's precision says so.
//!
//! Decisions: docs/decisions/0082-tensor-cores.md, docs/decisions/0085-warpgroups.md

use reflex_tir::arith::Analyzer;
use reflex_tir::codegen::{GpuTarget, Target};
use reflex_tir::mma::{PANEL, SIDE, Team};
use reflex_tir::thread::{ASYNC_COPY, WARP};
use reflex_tir::tile::{Mma, MmaOperand, StridedRows, TileOp, swizzled_in_row};
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Intrin, Scope, Stmt};

use crate::precision::BF16_ATTR;
use crate::schedule::core::affine::mentions;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Axis;
use crate::schedule::gpu::cost::{TileCost, fastest};
use crate::schedule::gpu::gemm::{Operand, Position, Product, unit_step};
use crate::schedule::gpu::grid::{Grid, count, decoded, guarded, threads};
use crate::schedule::gpu::pipelined::{Pipelined, stages_of};
use crate::schedule::gpu::work::Work;

/// Elements of 16 bytes, the widest access.
const VECTOR: i64 = 8;

/// Bytes of a 16-bit float.
const HALF: i64 = 2;

/// Operands in global memory, and as they are multiplied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    /// Bytes of an element.
    pub(super) element: i64,
    /// Terms of an element, of 16 bits each.
    pub(super) terms: i64,
    /// Products of terms for each product.
    pub(super) passes: i64,
    /// Instructions that fill tiles with eight elements.
    pub(super) instructions: i64,
}

/// Operands of 16 bits that are multiplied as they are.
const PLAIN: Operands = Operands { element: HALF, terms: 1, passes: 1, instructions: 2 };

/// The tile of a block, rows and columns, and its teams along both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub(super) tile: [i64; 2],
    pub(super) teams: [i64; 2],
    pub(super) team: Team,
    /// Tiles of each operand in shared memory.
    pub(super) stages: usize,
    /// Registers of a thread, at most.
    registers: i64,
}

const fn warps(tile: i64, teams: [i64; 2], stages: usize, registers: i64) -> Tiling {
    Tiling { tile: [tile; 2], teams, team: Team::Warp, stages, registers }
}

/// Tiles whose rows are shared by warpgroups of 64.
pub(super) const fn warpgroups(tile: [i64; 2], stages: usize, registers: i64) -> Tiling {
    let team = Team::Warpgroup { columns: tile[1] };
    Tiling { tile, teams: [tile[0] / 64, 1], team, stages, registers }
}

/// The largest first; for contractions of unknown extents, the last but one.
const OF_WARPS: [Tiling; 3] =
    [warps(128, [2, 4], 3, 128), warps(64, [2, 2], 3, 96), warps(32, [2, 1], 3, 64)];
const OF_WARPGROUPS: [Tiling; 3] =
    [warpgroups([128, 128], 3, 128), warpgroups([64, 64], 4, 96), warps(32, [2, 1], 3, 64)];

impl Tiling {
    fn of(product: &Product<'_>, target: &Target) -> Tiling {
        let all = if has_warpgroups(target) { &OF_WARPGROUPS } else { &OF_WARPS };
        Tiling::among(product, target, all, PLAIN)
    }

    /// The tiles that take the least time; where extents are not known, the last but one.
    pub(super) fn among(
        product: &Product<'_>,
        target: &Target,
        all: &[Tiling],
        operands: Operands,
    ) -> Tiling {
        match (product.extents(), target) {
            (Some(extents), Target::Gpu(gpu)) => {
                *fastest(gpu, extents, all, &|t| t.cost(gpu, operands))
            }
            _ => all[all.len() - 2],
        }
    }

    /// [`TileCost::note`] of tiles.
    pub(super) fn note(
        &self,
        product: &Product<'_>,
        target: &Target,
        operands: Operands,
    ) -> String {
        match target {
            Target::Gpu(gpu) => self.cost(gpu, operands).note(gpu, product.extents()),
            Target::Cpu(_) => String::new(),
        }
    }

    /// The cost of tiles.
    fn cost(&self, gpu: &GpuTarget, operands: Operands) -> TileCost {
        let Operands { element, terms, passes, instructions } = operands;
        let ([rows, columns], depth) = (self.part(), self.depth());
        let [teams, threads] = self.block();
        // A warp keeps what it has read; warpgroups read both operands of each product.
        let reads = match self.team {
            Team::Warp => rows + columns,
            Team::Warpgroup { columns } => {
                let [down, right] = self.products();
                down * right * (self.team.rows() + columns) * passes
            }
        };
        let elements = (self.tile[0] + self.tile[1]) * depth;
        let filled = (self.tile[0] + self.tile[1]) * terms;
        let bytes = |elements: i64| elements * depth * HALF;
        TileCost {
            tile: self.tile,
            depth,
            stages: self.stages as i64,
            threads: teams * threads,
            registers: self.registers,
            shared_bytes: bytes(filled) * self.stages as i64,
            rate: i64::from(gpu.mma_per_cycle),
            passes,
            instructions: elements / VECTOR * instructions / WARP,
            traffic: bytes(filled + teams * reads),
            element,
        }
    }

    /// Steps of the reduction between two barriers.
    pub(super) fn depth(self) -> i64 {
        match self.team {
            Team::Warp => 32,
            Team::Warpgroup { .. } => PANEL,
        }
    }

    /// Groups of steps of a reduction.
    pub(super) fn groups(self, product: &Product<'_>) -> Expr {
        let steps = count(&product.stage.reduce);
        Analyzer::new().simplify(&steps.ceildiv(self.depth()))
    }

    /// The threads of a block: teams, and those of a team.
    pub(super) fn block(self) -> [i64; 2] {
        [self.teams[0] * self.teams[1], self.team.threads()]
    }

    /// Rows and columns of a team.
    pub(super) fn part(self) -> [i64; 2] {
        [self.tile[0] / self.teams[0], self.tile[1] / self.teams[1]]
    }

    /// Products of a team, along rows and columns.
    pub(super) fn products(self) -> [i64; 2] {
        let [rows, columns] = self.part();
        [rows / self.team.rows(), columns / self.team.columns()]
    }
}

/// The work with the reduced axis last along which elements of an operand are neighbours in memory, so that those are
/// loaded at once: the channels of a convolution's window. Sums of tensor cores are in another order anyway.
fn along_memory(nest: &Nest<'_>, work: &Work) -> Work {
    let mut stage = work.stage.clone();
    let along = |axis: &Axis| unit_step(nest, &stage.value, std::slice::from_ref(axis));
    let last = stage.reduce.len().saturating_sub(1);
    if let Some(at) = stage.reduce.iter().rposition(along) {
        stage.reduce[at..=last].rotate_left(1);
    }
    Work { stage, epilogue: work.epilogue.clone() }
}

/// A load, or one where a condition holds and elsewhere 0, such as padding: the condition and the load.
fn guarded_load(e: &Expr) -> Option<(Option<&Expr>, &Expr)> {
    match e.kind() {
        ExprKind::Load { .. } => Some((None, e)),
        ExprKind::Call { op: Intrin::IfThenElse, args, .. }
            if args[2] == Expr::float(0.0, e.dtype()) =>
        {
            matches!(args[1].kind(), ExprKind::Load { .. }).then_some((Some(&args[0]), &args[1]))
        }
        _ => None,
    }
}

fn is_half(e: &Expr) -> bool {
    matches!(e.dtype(), DType::F16 | DType::BF16)
}

/// Whether warpgroups multiply on a target.
pub(super) fn has_warpgroups(target: &Target) -> bool {
    matches!(target, Target::Gpu(gpu) if gpu.has_warpgroups())
}

/// The launch of a contraction of 16-bit floats, or of what is rounded to them, with its epilogue where results are stored.
pub fn tensor_core(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let work = &along_memory(nest, work);
    let product = Product::of(nest, &work.stage)?;
    let tiling = Tiling::of(&product, nest.target);
    let rounds = nest.func.attrs.contains_key(BF16_ATTR);
    let a = Source::of(&product, &product.a, &product.rows, (tiling, 0), rounds)?;
    let b = Source::of(&product, &product.b, &product.columns, (tiling, 1), rounds)?;
    if a.dtype != b.dtype {
        return Err(Refusal::ElementType);
    }
    let [down, right] = tiling.products();
    let ([teams, threads], [rows, columns]) = (tiling.block(), tiling.part());
    let team = if tiling.team == Team::Warp { "warps" } else { "warpgroups" };
    nest.steps.push(format!(
        "{}: tensor cores, tiles of {} x {} in shared memory, {} steps at once, \
         {teams} {team} of {rows} x {columns} results; {}",
        work.stage.name,
        tiling.tile[0],
        tiling.tile[1],
        tiling.depth(),
        tiling.note(&product, nest.target, PLAIN),
    ));
    let mut shared = |source: &Source<'_>, name| {
        let shape = source.shape().map(Expr::i64).to_vec();
        nest.func.new_buffer(name, source.dtype, shape, Scope::Shared)
    };
    let stages = stages_of(tiling.stages, &tiling.groups(&product));
    let tiles: Vec<[Buffer; 2]> =
        (0..stages).map(|_| [shared(&a, "a_tile"), shared(&b, "b_tile")]).collect();
    let acc = nest.local("acc", DType::F32, &[down, right, tiling.team.each()]);
    let next = [("next_a", &a), ("next_b", &b)].map(|(name, source)| {
        let each = source.extent * tiling.depth() / (teams * threads);
        (!source.copied).then(|| nest.local(name, source.dtype, &[each]))
    });
    let kernel = Kernel { work, product: &product, tiling, sources: [a, b], acc, next };
    let grid = Grid {
        batch: &product.batch,
        rows: count(&product.rows),
        columns: count(&product.columns),
        tile: tiling.tile,
    };
    Ok(grid.launch(nest, &tiles.concat(), |nest, y, x| kernel.block(nest, &tiles, [y, x])))
}

/// An operand as tiles are filled from it.
pub(super) struct Source<'p> {
    pub(super) operand: &'p Operand,
    /// The element, of 16 bits, or one of float32 whose terms are.
    pub(super) value: Expr,
    pub(super) dtype: DType,
    pub(super) own: &'p [Axis],
    pub(super) steps: &'p [Axis],
    /// Rows (or columns) of a tile, and its steps.
    extent: i64,
    depth: i64,
    team: Team,
    /// Elements of an access.
    pub(super) vector: i64,
    /// Whether accesses are copied to shared memory, not loaded to registers and stored.
    copied: bool,
}

impl<'p> Source<'p> {
    pub(super) fn of(
        product: &'p Product<'_>,
        operand: &'p Operand,
        own: &'p [Axis],
        at: (Tiling, usize),
        rounds: bool,
    ) -> Result<Source<'p>, Refusal> {
        let (value, plain) = match operand.value.kind() {
            ExprKind::Cast { value, .. } if is_half(value) => (value.clone(), value.clone()),
            _ if rounds => (operand.value.clone().cast(DType::BF16), operand.value.clone()),
            _ => return Err(Refusal::ElementType),
        };
        Ok(Source::plain(product, operand, own, at, (value, plain)))
    }

    /// An operand of float32 as it is loaded for its terms.
    pub(super) fn of_terms(
        product: &'p Product<'_>,
        operand: &'p Operand,
        own: &'p [Axis],
        at: (Tiling, usize),
    ) -> Result<Source<'p>, Refusal> {
        let value = operand.value.clone();
        match value.dtype() {
            DType::F32 => Ok(Source::plain(product, operand, own, at, (value.clone(), value))),
            _ => Err(Refusal::ElementType),
        }
    }

    /// The operand whose elements are `value`, and are made of `plain`.
    fn plain(
        product: &'p Product<'_>,
        operand: &'p Operand,
        own: &'p [Axis],
        (tiling, side): (Tiling, usize),
        (value, plain): (Expr, Expr),
    ) -> Source<'p> {
        let dtype = value.dtype();
        // Neighbours in memory are whole vectors where the axis along which they are is.
        let steps = &product.stage.reduce[..];
        let along = if operand.across { own } else { steps };
        let whole = along.last().is_some_and(|axis| {
            let alike = |cond: &Expr| !mentions(cond, axis.var);
            let load = guarded_load(&plain).filter(|(cond, _)| cond.is_none_or(alike));
            load.is_some() && axis.extent.as_int().is_some_and(|n| n % VECTOR == 0)
        });
        let vector = if whole { VECTOR } else { 1 };
        let (extent, depth, team) = (tiling.tile[side], tiling.depth(), tiling.team);
        let copied = vector == VECTOR && is_half(&value) && guarded_load(&value).is_some();
        Source { operand, value, dtype, own, steps, extent, depth, team, vector, copied }
    }

    /// Rows of a tile as the operand has them, and the elements of a row.
    pub(super) fn rows(&self) -> [i64; 2] {
        let Source { extent, depth, .. } = *self;
        if self.operand.across { [depth, extent] } else { [extent, depth] }
    }

    /// The shape of a tile. A warp's rows are 16 bytes longer, so that the eight rows of a matrix lie in
    /// different banks; those of a warpgroup are cut in panels.
    pub(super) fn shape(&self) -> [i64; 2] {
        let [far, near] = self.rows();
        match self.team {
            Team::Warp => [far, near + VECTOR],
            Team::Warpgroup { .. } => [near / PANEL * far, PANEL],
        }
    }

    /// Row and element of the `n`-th access of a tile: that of its first element.
    pub(super) fn access(&self, n: &Expr) -> [Expr; 2] {
        let row = self.rows()[1] / self.vector;
        [n.clone().floordiv(row), n.clone().floormod(row) * self.vector]
    }

    /// Where a tile keeps the element `lane` of the `n`-th access.
    pub(super) fn place(&self, n: &Expr, lane: Expr) -> Vec<Expr> {
        let [far, near] = self.rows();
        if self.team == Team::Warp {
            let [far, near] = self.access(n);
            return vec![far, near + lane];
        }
        // Accesses of a row of a panel, and of each vector.
        let (row, vector) = (PANEL / self.vector, VECTOR / self.vector);
        let (at, within) = (n.clone().floordiv(near / self.vector), n.clone().floormod(row));
        let panel = n.clone().floordiv(row).floormod(near / PANEL);
        let first = swizzled_in_row(&at, within.clone().floordiv(vector));
        let lane = within.floormod(vector) * self.vector + lane;
        vec![panel * far + at, first + lane]
    }

    /// The element at indices of the tile whose first row (or column) and step are given; 0 outside
    /// of the operand. `lane` is its number in its access.
    pub(super) fn element(
        &self,
        [far, near]: [Expr; 2],
        lane: &Expr,
        first: &Expr,
        step: &Expr,
    ) -> Expr {
        let (across, along) = if self.operand.across { (near, far) } else { (far, near) };
        self.at((first.clone() + across, step.clone() + along), lane.clone())
    }

    /// The element `lane` behind a row (or column) and a step; 0 where there is none.
    pub(super) fn at(&self, (across, along): (Expr, Expr), lane: impl Into<Expr>) -> Expr {
        let inside = across.clone().lt(count(self.own)).and(along.clone().lt(count(self.steps)));
        let mut places = decoded(self.own, &across);
        places.extend(decoded(self.steps, &along));
        // An access is along the last axis, and never past its end.
        let last = if self.operand.across { self.own.last() } else { self.steps.last() };
        if let Some(place) = last.and_then(|axis| places.get_mut(&axis.var)) {
            *place = place.clone() + lane;
        }
        let element = self.value.substitute(&|v| places.get(&v).cloned());
        let zero = Expr::float(0.0, self.dtype);
        match guarded_load(&element) {
            Some((Some(cond), load)) => {
                Expr::if_then_else(inside.and(cond.clone()), load.clone(), zero)
            }
            _ => Expr::if_then_else(inside, element, zero),
        }
    }

    /// The operand of a product of 16 steps from `step` on, of the rows (or columns) from `across` on.
    fn of_tile(&self, tile: Buffer, across: Expr, step: Expr) -> MmaOperand {
        let transposed = self.operand.across;
        let (far, near) = if transposed { (step, across) } else { (across, step) };
        let (first, stride) = match self.team {
            Team::Warp => {
                let stride = self.shape()[1];
                (far * stride + near, stride)
            }
            // Teams begin with a panel.
            Team::Warpgroup { .. } if transposed => {
                let panel = self.depth * PANEL;
                (near.floordiv(PANEL) * panel + far * PANEL, panel)
            }
            Team::Warpgroup { .. } => (far * PANEL + near, 0),
        };
        let rows = StridedRows { buffer: tile, first, stride: stride.into() };
        MmaOperand { rows, transposed }
    }
}

/// A contraction whose tiles are chosen.
pub(super) struct Kernel<'p> {
    pub(super) work: &'p Work,
    pub(super) product: &'p Product<'p>,
    pub(super) tiling: Tiling,
    pub(super) sources: [Source<'p>; 2],
    pub(super) acc: Buffer,
    /// A thread's share of tiles that are on their way, of operands that go through registers.
    pub(super) next: [Option<Buffer>; 2],
}

impl Kernel<'_> {
    /// The statement of the block of a row tile and a column tile.
    fn block(&self, nest: &mut Nest<'_>, tiles: &[[Buffer; 2]], at: [&Expr; 2]) -> Stmt {
        let [down, right] = self.tiling.tile;
        let firsts = [at[0].clone() * down, at[1].clone() * right];
        let (block, depth) = (self.tiling.block(), self.tiling.depth());
        threads(nest, block, &mut |nest, ty, tx| {
            let thread = ty.clone() * block[1] + tx.clone();
            let origin = self.origin(&ty);
            let start = self.start(nest);
            let groups = self.tiling.groups(self.product);
            let copy = |nest: &mut Nest<'_>, s: usize, group: Expr| {
                self.copy(nest, tiles[s], &firsts, &(group * depth))
            };
            let load = |nest: &mut Nest<'_>, group: Expr| {
                self.load(nest, &thread, &firsts, &(group * depth))
            };
            let multiply = |nest: &mut Nest<'_>, s: usize| {
                self.multiply(nest, self.acc, tiles[s], &origin, &tx)
            };
            let fill = |nest: &mut Nest<'_>, s: usize| self.fill(nest, tiles[s]);
            let stages = tiles.len();
            let parts =
                Pipelined { stages, copy: &copy, load: &load, fill: &fill, multiply: &multiply };
            let sums = parts.reduce(nest, &groups);
            let all = vec![start, sums, self.store(nest, &firsts, &origin, &tx)];
            let next = self.next.into_iter().flatten();
            [self.acc].into_iter().chain(next).fold(Stmt::Seq(all), |body, buffer| Stmt::Allocate {
                buffer,
                body: Box::new(body),
            })
        })
    }

    /// Sets the sums to what they begin with.
    pub(super) fn start(&self, nest: &mut Nest<'_>) -> Stmt {
        let init = self.product.stage.init.clone().expect("a contraction");
        self.each(nest, &mut |nest, i, j| {
            nest.repeat(ForKind::Unrolled, "n", self.tiling.team.each(), |_, n| {
                Stmt::store(self.acc, vec![i, j, n], init.clone())
            })
        })
    }

    /// The first row and column of a team in the tile.
    pub(super) fn origin(&self, team: &Expr) -> [Expr; 2] {
        let right = self.tiling.teams[1];
        let [rows, columns] = self.tiling.part();
        [team.clone().floordiv(right) * rows, team.clone().floormod(right) * columns]
    }

    /// Loops over the products of a team.
    pub(super) fn each(
        &self,
        nest: &mut Nest<'_>,
        body: &mut dyn FnMut(&mut Nest<'_>, Expr, Expr) -> Stmt,
    ) -> Stmt {
        let [down, right] = self.tiling.products();
        nest.repeat(ForKind::Unrolled, "i", down, |nest, i| {
            nest.repeat(ForKind::Unrolled, "j", right, |nest, j| body(nest, i.clone(), j))
        })
    }

    /// A thread's accesses of a tile: what `body` makes of the number of an access in the tile and in the thread's share.
    pub(super) fn each_access(
        &self,
        nest: &mut Nest<'_>,
        source: &Source<'_>,
        thread: &Expr,
        body: &mut dyn FnMut(&mut Nest<'_>, &Expr, Expr) -> Stmt,
    ) -> Stmt {
        let [teams, threads] = self.tiling.block();
        let threads = teams * threads;
        let accesses = source.extent * source.depth / source.vector / threads;
        nest.repeat(ForKind::Unrolled, "e", accesses, |nest, e| {
            body(nest, &(e.clone() * threads + thread.clone()), e)
        })
    }

    /// The lanes of a thread's accesses: what `body` makes of the number of an access in the tile, that of its
    /// first element in the thread's share, and the lane.
    fn accesses(
        &self,
        nest: &mut Nest<'_>,
        source: &Source<'_>,
        thread: &Expr,
        body: &dyn Fn(&Expr, Expr, Expr) -> Stmt,
    ) -> Stmt {
        self.each_access(nest, source, thread, &mut |nest, n, e| {
            let mut all = nest.lanes_of(source.vector, |_, lane| body(n, e * source.vector, lane));
            if let Stmt::For(l) = &mut all
                && source.copied
            {
                l.annotations.insert(ASYNC_COPY.to_owned(), "1".to_owned());
            }
            all
        })
    }

    /// Copies both operands' tiles from step `step` on, where they need no register on the way.
    fn copy(
        &self,
        nest: &mut Nest<'_>,
        tiles: [Buffer; 2],
        firsts: &[Expr; 2],
        step: &Expr,
    ) -> Stmt {
        if self.next.iter().all(Option::is_some) {
            return Stmt::Seq(vec![]);
        }
        let block = self.tiling.block();
        threads(nest, block, &mut |nest, ty, tx| {
            let thread = ty * block[1] + tx;
            let copied = [0, 1].into_iter().filter(|side| self.next[*side].is_none());
            let copies = copied.map(|side| {
                let source = &self.sources[side];
                self.accesses(nest, source, &thread, &|n, _, lane| {
                    let element = source.element(source.access(n), &lane, &firsts[side], step);
                    Stmt::store(tiles[side], source.place(n, lane), element)
                })
            });
            Stmt::Seq(copies.collect())
        })
    }

    /// The operands that go through registers, with these.
    fn through_registers(&self) -> impl Iterator<Item = (usize, Buffer)> {
        [0, 1].into_iter().filter_map(|side| Some((side, self.next[side]?)))
    }

    /// Loads the share of the other operands' tiles from step `step` on.
    fn load(&self, nest: &mut Nest<'_>, thread: &Expr, firsts: &[Expr; 2], step: &Expr) -> Stmt {
        let loads = self.through_registers().map(|(side, next)| {
            let source = &self.sources[side];
            self.accesses(nest, source, thread, &|n, to, lane| {
                let at = source.access(n);
                let element = source.element(at, &lane, &firsts[side], step);
                Stmt::store(next, vec![to + lane], element)
            })
        });
        Stmt::Seq(loads.collect())
    }

    /// Stores the share into their tiles.
    fn fill(&self, nest: &mut Nest<'_>, tiles: [Buffer; 2]) -> Stmt {
        if self.next == [None; 2] {
            return Stmt::Seq(vec![]);
        }
        let block = self.tiling.block();
        threads(nest, block, &mut |nest, ty, tx| {
            let thread = ty * block[1] + tx;
            let stores = self.through_registers().map(|(side, next)| {
                let source = &self.sources[side];
                self.accesses(nest, source, &thread, &|n, from, lane| {
                    let value = Expr::load(next, vec![from + lane.clone()], source.dtype);
                    Stmt::store(tiles[side], source.place(n, lane), value)
                })
            });
            Stmt::Seq(stores.collect())
        })
    }

    /// Adds the product of two tiles to a sum.
    pub(super) fn multiply(
        &self,
        nest: &mut Nest<'_>,
        sum: Buffer,
        tiles: [Buffer; 2],
        [row, column]: &[Expr; 2],
        lane: &Expr,
    ) -> Stmt {
        let (team, right) = (self.tiling.team, self.tiling.products()[1]);
        nest.repeat(ForKind::Unrolled, "kk", self.tiling.depth() / SIDE, |nest, kk| {
            let step = kk * SIDE;
            self.each(nest, &mut |_, i, j| {
                let first = (i.clone() * right + j.clone()) * team.each();
                let [a, b] = &self.sources;
                let a = a.of_tile(tiles[0], row.clone() + i * team.rows(), step.clone());
                let b = b.of_tile(tiles[1], column.clone() + j * team.columns(), step.clone());
                let mma = Mma { team, sum, first, a, b, lane: lane.clone() };
                Stmt::Tile(TileOp::Mma(Box::new(mma)))
            })
        })
    }

    /// Stores the team's results: two neighbours of a row at once, where rows are pairs.
    pub(super) fn store(
        &self,
        nest: &mut Nest<'_>,
        firsts: &[Expr; 2],
        origin: &[Expr; 2],
        lane: &Expr,
    ) -> Stmt {
        let even = |axis: &Axis| axis.extent.as_int().is_some_and(|n| n % 2 == 0);
        let pair = if self.product.columns.last().is_some_and(even) { 2 } else { 1 };
        self.each(nest, &mut |nest, i, j| {
            nest.repeat(ForKind::Unrolled, "n", self.tiling.team.each() / pair, |nest, n| {
                let n = n * pair;
                let at = self.position(firsts, origin, lane, [&i, &j, &n]);
                let inside = self.is_inside(&at);
                let store = nest.lanes_of(pair, |_, l| {
                    let from = vec![i.clone(), j.clone(), n.clone() + l.clone()];
                    let result = Expr::load(self.acc, from, DType::F32);
                    self.store_result(&Position { column: at.column + l, row: at.row }, result)
                });
                guarded(inside, store)
            })
        })
    }

    /// The position of a thread's `n`-th result of the products `i` along rows and `j` along columns.
    pub(super) fn position(
        &self,
        firsts: &[Expr; 2],
        origin: &[Expr; 2],
        lane: &Expr,
        [i, j, n]: [&Expr; 3],
    ) -> Position {
        let team = self.tiling.team;
        // As `mma::element`.
        let of = |divisor: i64, modulus: i64| n.clone().floordiv(divisor).floormod(modulus);
        let [down, right] = team.origin(lane);
        let down = down + of(2, 2) * 8;
        let right = right + n.clone().floordiv(4) * 8 + of(1, 2);
        let at = |side: usize, product: Expr| firsts[side].clone() + origin[side].clone() + product;
        Position {
            row: at(0, i.clone() * team.rows()) + down,
            column: at(1, j.clone() * team.columns()) + right,
        }
    }

    /// Whether there is a result at a position.
    pub(super) fn is_inside(&self, at: &Position) -> Expr {
        let Product { rows, columns, .. } = self.product;
        at.row.clone().lt(count(rows)).and(at.column.clone().lt(count(columns)))
    }

    /// Stores a result.
    pub(super) fn store_result(&self, at: &Position, result: Expr) -> Stmt {
        let places = self.product.places(at);
        let (buffer, indices, value) = self.work.placed(result, &|v| places.get(&v).cloned());
        Stmt::store(buffer, indices, value)
    }
}
