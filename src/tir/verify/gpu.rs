//! Lowered functions for a GPU: blocks outside, threads inside, the limits of the GPU, and barriers
//! where all threads come.

use super::{Fault, IrForm, verify};
use crate::codegen::GpuTarget;
use crate::launch::{Launch, Varying};
use crate::mma::Team;
use crate::pipeline::Pipeline;
use crate::thread::{ThreadAxis, ThreadLevel, WARP};
use crate::tile::{Mma, StridedRows, TileOp};
use crate::{Buffer, Expr, ExprKind, For, ForKind, PackedCall, PrimFunc, Scope, Stmt, Var};

/// Checks `func`, which is lowered for `gpu`; the error lists every fault.
pub fn verify_gpu(func: &PrimFunc, gpu: &GpuTarget) -> Result<(), Vec<Fault>> {
    verify(func, IrForm::Lowered)?;
    let mut v = GpuVerifier {
        func,
        gpu,
        at: format!("function `{}`", func.name),
        faults: vec![],
        lanes: Lanes::default(),
    };
    v.host(&func.body);
    if v.faults.is_empty() { Ok(()) } else { Err(v.faults) }
}

struct GpuVerifier<'f> {
    func: &'f PrimFunc,
    gpu: &'f GpuTarget,
    at: String,
    faults: Vec<Fault>,
    lanes: Lanes,
}

/// The threads of a warp or a warpgroup, where they are those along threadIdx.x.
#[derive(Default)]
struct Lanes {
    var: Option<Var>,
    /// Their number.
    count: i64,
    /// The variables that differ between them.
    in_team: Varying,
}

impl Lanes {
    fn of(launch: &Launch<'_>) -> Lanes {
        let team = launch.thread(ThreadAxis::ThreadX);
        let threads = team.into_iter().collect();
        let launch = Launch { threads, ..launch.clone() };
        let count = team.and_then(|l| l.extent.as_int()).unwrap_or(0);
        Lanes { var: team.map(|l| l.var), count, in_team: Varying::of(&launch) }
    }
}

impl<'f> GpuVerifier<'f> {
    fn fault(&mut self, what: impl Into<String>) {
        self.faults.push(Fault { at: self.at.clone(), what: what.into() });
    }

    fn var_name(&self, var: Var) -> &'f str {
        &self.func.vars[var].name
    }

    fn buffer_name(&self, buffer: Buffer) -> &'f str {
        &self.func.buffers[buffer].name
    }

    /// Checks a statement of the host, which launches and allocates, and touches no memory of the GPU.
    fn host(&mut self, stmt: &'f Stmt) {
        if let Some(launch) = Launch::of(stmt) {
            let first = launch.blocks.first().or(launch.threads.first());
            let name = first.map_or("", |l| self.var_name(l.var));
            let outer = std::mem::replace(&mut self.at, format!("launch `{name}`"));
            self.launch(&launch);
            self.at = outer;
            return;
        }
        for buffer in stmt.exprs().into_iter().filter_map(loaded) {
            self.fault(format!("the host reads `{}`", self.buffer_name(buffer)));
        }
        match stmt {
            Stmt::For(l) if l.kind != ForKind::Serial => {
                self.fault(format!(
                    "the host runs the {:?} loop `{}`",
                    l.kind,
                    self.var_name(l.var)
                ));
            }
            Stmt::Store { buffer, .. } => {
                self.fault(format!("the host writes `{}`", self.buffer_name(*buffer)));
            }
            Stmt::Allocate { buffer, .. } => self.allocates(*buffer, Scope::Global, "the host"),
            Stmt::Tile(_) => self.fault("matrix registers of a CPU"),
            Stmt::CallPacked(call) => self.packed(call),
            Stmt::Barrier(_) => self.fault("a barrier outside of a launch"),
            Stmt::For(_)
            | Stmt::Block(_)
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::While { .. }
            | Stmt::Seq(_) => {}
        }
        stmt.children().into_iter().for_each(|s| self.host(s));
    }

    fn packed(&mut self, call: &PackedCall) {
        self.fault(format!(
            "a call of the packed function `{}`, which only a CPU makes",
            call.name
        ));
    }

    fn allocates(&mut self, buffer: Buffer, allowed: Scope, by: &str) {
        let data = &self.func.buffers[buffer];
        if data.scope != allowed {
            self.fault(format!("{by} allocates `{}` in {:?} memory", data.name, data.scope));
        }
    }

    fn launch(&mut self, launch: &Launch<'f>) {
        let loops: Vec<&For> = launch.blocks.iter().chain(&launch.threads).copied().collect();
        let own = |e: &Expr| e.as_var().is_some_and(|var| loops.iter().any(|l| l.var == var));
        for (n, l) in loops.iter().enumerate() {
            let ForKind::ThreadBinding(axis) = l.kind else { continue };
            if loops[..n].iter().any(|o| o.kind == l.kind) {
                self.fault(format!("{axis} is bound twice"));
            }
            if l.min.as_int() != Some(0) {
                self.fault(format!("{axis} does not begin at 0"));
            }
            let mut depends = false;
            l.extent.visit(&mut |e| depends |= own(e));
            if depends {
                self.fault(format!("the extent of {axis} depends on another axis"));
            }
            if axis.level() == ThreadLevel::Thread && l.extent.as_int().is_none() {
                self.fault(format!("the extent of {axis} is not constant"));
            }
        }
        let cluster = ForKind::ThreadBinding(ThreadAxis::ClusterX);
        if launch.blocks.iter().any(|l| l.kind == cluster) && !self.gpu.has_warpgroups() {
            self.fault(format!("a cluster of blocks, which {} does not have", self.gpu.name));
        }
        let most = GpuTarget::MAX_THREADS;
        if let Some(threads) = launch.threads_per_block().filter(|n| !(1..=most).contains(n)) {
            self.fault(format!("{threads} threads in a block, of at most {most}"));
        }
        let deep = launch.thread(ThreadAxis::ThreadZ).and_then(|l| l.extent.as_int());
        if deep.is_some_and(|n| n > GpuTarget::MAX_THREADS_Z) {
            self.fault("too many threads along threadIdx.z");
        }
        self.shared(launch);
        self.lanes = Lanes::of(launch);
        self.thread(launch.body, &Varying::of(launch), None);
    }

    /// A product of tensor cores: all threads of a warp or warpgroup come, with the same operands in shared memory.
    fn mma(&mut self, mma: &Mma, varying: &Varying, parted: Option<&'static str>) {
        let (team, threads) = match mma.team {
            Team::Warp => ("warp", WARP),
            Team::Warpgroup { .. } => ("warpgroup", 4 * WARP),
        };
        if mma.team != Team::Warp && !self.gpu.has_warpgroups() {
            self.fault(format!("a product of a warpgroup, which {} does not have", self.gpu.name));
        }
        if let Some(part) = parted {
            self.fault(format!("a product of a {team} in {part} that differs between threads"));
        }
        let whole = self.lanes.count == threads && self.lanes.var.is_some();
        if !whole || mma.lane.as_var() != self.lanes.var {
            self.fault(format!(
                "a product of a {team} whose threads are not those along threadIdx.x, {threads}"
            ));
        }
        let differs = |e: &Expr| self.lanes.in_team.varies(self.func, e);
        let operands = [&mma.a.rows, &mma.b.rows];
        let apart = operands.iter().any(|rows| differs(&rows.first) || differs(&rows.stride));
        let outside = |rows: &&StridedRows| self.func.buffers[rows.buffer].scope != Scope::Shared;
        if apart || operands.iter().any(outside) {
            self.fault(format!(
                "operands of a product that differ in a {team}, or are not in shared memory"
            ));
        }
        if varying.varies(self.func, &mma.first) {
            self.fault(format!("a sum of a {team} at a place that differs between threads"));
        }
    }

    fn shared(&mut self, launch: &Launch<'_>) {
        let mut bytes = 0;
        for buffer in &launch.shared {
            self.allocates(*buffer, Scope::Shared, "a block");
            let data = &self.func.buffers[*buffer];
            let count: i64 = data.shape.iter().map(|n| n.as_int().unwrap_or(0)).product();
            bytes += count * data.dtype.itemsize() as i64;
        }
        match Pipeline::of(self.func, launch) {
            Ok(Some(_)) if !self.gpu.has_warpgroups() => {
                self.fault(format!("copies of boxes, which {} does not have", self.gpu.name));
            }
            Ok(Some(pipeline)) => bytes = pipeline.shared_bytes(self.func),
            Ok(None) => {}
            Err(fault) => self.fault(fault),
        }
        let most = self.gpu.shared_bytes;
        if bytes > i64::from(most) {
            self.fault(format!("{bytes} bytes of shared memory, of at most {most}"));
        }
    }

    /// Checks a statement of one thread; `parted` names where threads may have diverged.
    fn thread(&mut self, stmt: &'f Stmt, varying: &Varying, parted: Option<&'static str>) {
        let mut inside = varying.clone();
        inside.enter(self.func, stmt);
        self.lanes.in_team.enter(self.func, stmt);
        let here = match stmt {
            Stmt::For(_) => "a loop",
            Stmt::While { .. } => "a `while`",
            _ => "an `if`",
        };
        let parted = parted.or(varying.parts(self.func, stmt).then_some(here));
        match stmt {
            Stmt::For(l) => match l.kind {
                ForKind::ThreadBinding(axis) => {
                    let name = self.var_name(l.var);
                    self.fault(format!("`{name}` is bound to {axis} inside of a thread"));
                }
                ForKind::Parallel => {
                    let name = self.var_name(l.var);
                    self.fault(format!("`{name}` is parallel inside of a thread"));
                }
                ForKind::Serial | ForKind::Vectorized | ForKind::Unrolled => {}
            },
            Stmt::Allocate { buffer, .. } => self.allocates(*buffer, Scope::Local, "a thread"),
            Stmt::Barrier(_) => {
                if let Some(part) = parted {
                    self.fault(format!("a barrier in {part} that differs between threads"));
                }
            }
            Stmt::Tile(TileOp::Mma(mma)) => self.mma(mma, varying, parted),
            // `Pipeline::of` has looked.
            Stmt::Tile(TileOp::Box(_)) => {}
            Stmt::Tile(_) => self.fault("matrix registers of a CPU"),
            Stmt::CallPacked(call) => self.packed(call),
            Stmt::Block(_)
            | Stmt::Store { .. }
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::While { .. }
            | Stmt::Seq(_) => {}
        }
        for child in stmt.children() {
            self.thread(child, &inside, parted);
        }
    }
}

/// A buffer that an expression loads from.
fn loaded(e: &Expr) -> Option<Buffer> {
    let mut found = None;
    e.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind() {
            found = Some(*buffer);
        }
    });
    found
}
