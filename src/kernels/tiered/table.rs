//! The kernels of a program, their states and the replacement of their code.
//!
//! Decision: docs/decisions/0073-tiered-kernels.md

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use reflex_codemem::call_cells::CallCells;
use reflex_runtime::function::Function;
use reflex_tir::codegen::{KernelTier, ObjectFile};
use reflex_vm::kernel::RawKernel;
use reflex_vm::load::Library;
use reflex_vm::program::{Program, Retirement};

use super::entry::{Exchange, PackedEntry};
use super::recompile::{Recompile, Urgency};
use super::signal::Signal;
use super::state::{KernelState, Phase, State};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::jit::{KernelLoader, LoadedKernel};
use crate::kernels::raw_entry::raw_kernel;
use crate::tier_policy::KernelSwaps;

/// Failures of the code generator in sequence after which no more is asked of it.
const MAX_FAILURES: u32 = 3;

/// The kernels of a program, of which some wait for better code.
pub(crate) struct TieredKernels {
    kernels: Box<[Kernel]>,
    numbers: HashMap<String, usize>,
    signal: Arc<Signal>,
    /// Programs whose sessions may be inside of replaced code.
    programs: Mutex<Vec<Retirement>>,
    shared: Mutex<Shared>,
    /// Whether a call of a session has returned.
    answered: AtomicBool,
    recompile: Arc<Recompile>,
    swaps: KernelSwaps,
}

/// Decisions that all threads share.
#[derive(Default)]
struct Shared {
    /// Kernels that no call has reached are compiled again too.
    wants_all: bool,
    /// Failures of the code generator since its last success.
    failures: u32,
}

/// One kernel.
struct Kernel {
    packed: Function,
    raw: Option<RawKernel>,
    entry: Arc<PackedEntry>,
    /// Operations of a call, as far as they are known.
    work: u64,
    /// The object that it began with; without its code, unless that takes turns.
    first: ObjectFile,
    /// Held while code is replaced, so that entries and cells lead to the same.
    replacing: Mutex<()>,
    state: Mutex<State>,
}

/// The next thing for a thread to do.
pub(super) enum Next {
    /// Compile this kernel.
    Kernel(usize),
    /// Wait for a change.
    Wait,
    /// Nothing is left.
    Done,
}

impl Kernel {
    fn new(
        object: &ObjectFile,
        entry: Arc<PackedEntry>,
        raw: Option<RawKernel>,
        work: u64,
        swaps: KernelSwaps,
    ) -> Kernel {
        let elf = match swaps {
            KernelSwaps::WhenReady => vec![],
            KernelSwaps::Forced => object.elf.clone(),
        };
        let signature = object.signature.clone();
        let ObjectFile { tier, micros, .. } = *object;
        let first = ObjectFile { signature, tier, elf, asm: None, micros };
        let state = State::of(tier);
        if state.phase == Phase::Final && swaps == KernelSwaps::WhenReady {
            entry.settle();
        }
        let (packed, replacing) = (entry.function(), Mutex::default());
        Kernel { packed, raw, entry, work, first, replacing, state: Mutex::new(state) }
    }
}

impl TieredKernels {
    /// Loads objects, found by their names without `suffix`; `work` gives the operations of a call.
    pub(super) fn load(
        objects: &[ObjectFile],
        suffix: &str,
        work: impl Fn(&str) -> u64,
        recompile: Arc<Recompile>,
        swaps: KernelSwaps,
    ) -> Result<Arc<TieredKernels>> {
        let loader = KernelLoader::new()?;
        let cells = CallCells::new(loader.space(), objects.len());
        let cells = Arc::new(cells.map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))?);
        let signal = Arc::new(Signal::default());
        let load = |object| -> Result<_> { Ok((object, loader.load(object)?)) };
        let loaded = objects.iter().map(load);
        let loaded: Vec<_> = loaded.collect::<Result<_>>()?;
        Ok(Arc::new_cyclic(|this: &Weak<TieredKernels>| {
            let kernel = |(at, (object, code)): (usize, (&ObjectFile, LoadedKernel))| {
                let name = object.signature.name.as_str();
                let exchange = (swaps == KernelSwaps::Forced).then(|| exchange_of(this, at));
                let raw = lead(&cells, at, &code, object);
                let entry = PackedEntry::new(code, signal.clone(), cells.clone(), exchange);
                let work = work(name.strip_suffix(suffix).unwrap_or(name)).max(1);
                Kernel::new(object, Arc::new(entry), raw, work, swaps)
            };
            let named = |(at, object): (usize, &ObjectFile)| {
                let name = object.signature.name.as_str();
                (name.strip_suffix(suffix).unwrap_or(name).to_owned(), at)
            };
            TieredKernels {
                numbers: objects.iter().enumerate().map(named).collect(),
                kernels: loaded.into_iter().enumerate().map(kernel).collect(),
                signal: signal.clone(),
                programs: Mutex::default(),
                shared: Mutex::default(),
                answered: AtomicBool::new(false),
                recompile,
                swaps,
            }
        }))
    }

    /// Makes replaced code wait for the sessions of `program`, which is linked to these kernels and has
    /// none yet.
    pub(crate) fn serve(&self, program: &Program) {
        let mut programs = self.programs.lock();
        programs.retain(Retirement::is_possible);
        programs.push(program.retirement());
    }

    pub(super) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Returns the calls of a kernel that were counted.
    fn calls(&self, at: usize) -> u64 {
        let entry = &self.kernels[at].entry;
        entry.calls() + entry.cells().calls(at)
    }

    /// Whether a call has reached a kernel.
    pub(super) fn was_called(&self) -> bool {
        (0..self.kernels.len()).any(|at| self.calls(at) > 0)
    }

    /// Whether a kernel waits for LLVM.
    pub(super) fn has_waiting(&self) -> bool {
        self.kernels.iter().any(|kernel| kernel.state.lock().phase == Phase::Waiting)
    }

    /// Tells that a call has returned; what LLVM does begins after the first.
    pub(crate) fn answered(&self) {
        if !self.answered.load(Ordering::Relaxed) {
            self.answered.store(true, Ordering::Relaxed);
            self.signal.raise();
        }
    }

    /// Whether a call of a session has returned.
    pub(super) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Takes the kernel that calls spend most work in, of those that wait and were called.
    pub(super) fn next(&self) -> Next {
        let wants_all = self.shared.lock().wants_all;
        let waits = |at: &usize| self.kernels[*at].state.lock().phase == Phase::Waiting;
        let heat = |at: &usize| self.calls(*at).saturating_mul(self.kernels[*at].work);
        loop {
            let waiting: Vec<usize> = (0..self.kernels.len()).filter(waits).collect();
            if waiting.is_empty() {
                return Next::Done;
            }
            let wanted = waiting.into_iter().filter(|at| wants_all || self.calls(*at) > 0);
            let Some(at) = wanted.max_by_key(heat) else { return Next::Wait };
            // Another thread may have been faster.
            if self.kernels[at].state.lock().claim() {
                return Next::Kernel(at);
            }
        }
    }

    /// Replaces the code of a kernel that was taken, or records why it stays.
    pub(super) fn finish(&self, at: usize, compiled: std::result::Result<ObjectFile, String>) {
        let calls = self.calls(at);
        let installed = compiled.and_then(|object| {
            self.install(at, &object).map_err(|error| error.to_string())?;
            Ok(object)
        });
        match installed {
            Ok(object) => {
                self.shared.lock().failures = 0;
                let name = &object.signature.name;
                tracing::debug!(kernel = %name, calls, "kernel replaced by LLVM's");
                self.kernels[at].state.lock().replaced(object, calls);
            }
            Err(reason) => {
                self.kernels[at].state.lock().keep(reason.clone());
                let failures = {
                    let mut shared = self.shared.lock();
                    shared.failures += 1;
                    shared.failures
                };
                if failures >= MAX_FAILURES {
                    self.give_up(&reason);
                } else {
                    self.warn(&reason);
                }
            }
        }
        self.signal.raise();
    }

    /// Leaves all kernels that wait as they are.
    pub(super) fn give_up(&self, reason: &str) {
        self.kernels.iter().for_each(|kernel| {
            let mut state = kernel.state.lock();
            if state.phase == Phase::Waiting {
                state.keep(reason.to_owned());
            }
        });
        self.warn(reason);
        self.signal.raise();
    }

    /// Says once in this process that kernels stay baseline.
    fn warn(&self, reason: &str) {
        static WARNED: std::sync::Once = std::sync::Once::new();
        WARNED.call_once(|| {
            tracing::warn!(%reason, "LLVM compiles no more kernels: those of Cranelift stay, and run slower");
        });
    }

    /// Loads an object, leads all calls to it, and retires the code before it.
    fn install(&self, at: usize, object: &ObjectFile) -> Result<()> {
        let kernel = &self.kernels[at];
        if object.signature != kernel.first.signature {
            let text = format!("kernel {}: another signature", object.signature.name);
            return Err(Error::new(ErrorKind::Compile, text));
        }
        let code = KernelLoader::new()?.load(object)?;
        let raw = code.raw;
        let _replacing = kernel.replacing.lock();
        let before = kernel.entry.replace(code);
        if self.swaps == KernelSwaps::WhenReady {
            kernel.entry.settle();
        }
        if let Some(raw) = raw {
            kernel.entry.cells().call(at, raw);
        }
        self.retire(before);
        Ok(())
    }

    /// Keeps replaced code until no session of a program can be inside.
    fn retire(&self, code: LoadedKernel) {
        for program in self.programs.lock().iter() {
            program.retire_kernel(code.object.clone());
        }
    }

    /// Replaces a kernel's code by other code for the same kernel, if the kernels are to be replaced at
    /// every call: by a new copy of Cranelift's and of LLVM's in turn, once there is one.
    fn exchange(&self, at: usize) {
        if self.swaps != KernelSwaps::Forced {
            return;
        }
        let kernel = &self.kernels[at];
        let object = kernel.state.lock().turn(&kernel.first);
        // Without memory for code the present one goes on.
        let _ = self.install(at, &object);
    }

    /// [`TieredKernels::exchange`] of every kernel.
    pub(crate) fn exchange_all(&self) {
        if self.swaps == KernelSwaps::Forced {
            (0..self.kernels.len()).for_each(|at| self.exchange(at));
        }
    }

    /// Returns when no kernel that was called waits for LLVM: the calling thread asks for them too, as
    /// those in the background make way for all others.
    pub(crate) fn wait(&self) {
        loop {
            let seen = self.signal.changes();
            if let Next::Kernel(at) = self.next() {
                let compiled = self.recompile.run(at, Urgency::Awaited);
                self.finish(at, compiled);
                continue;
            }
            let compiles = |kernel: &Kernel| kernel.state.lock().phase == Phase::Compiling;
            if !self.kernels.iter().any(compiles) {
                return;
            }
            self.signal.wait(seen);
        }
    }

    /// Waits until LLVM has compiled every kernel, also those that were not called.
    pub(crate) fn wait_for_all(&self) {
        self.shared.lock().wants_all = true;
        self.signal.raise();
        self.wait();
    }

    /// Returns the object of LLVM's that replaced the one named `name`.
    pub(crate) fn replacement(&self, name: &str) -> Option<ObjectFile> {
        let kernel = self.kernels.iter().find(|kernel| kernel.first.signature.name == name)?;
        kernel.state.lock().replacement()
    }

    /// Returns the state of each kernel, in order.
    pub(crate) fn states(&self) -> Vec<KernelState> {
        let state = |(at, kernel): (usize, &Kernel)| {
            let name = kernel.first.signature.name.clone();
            kernel.state.lock().describe(name, self.calls(at))
        };
        self.kernels.iter().enumerate().map(state).collect()
    }
}

/// Returns what replaces the code of kernel number `at`, as long as there are the kernels.
fn exchange_of(kernels: &Weak<TieredKernels>, at: usize) -> Exchange {
    let kernels = kernels.clone();
    Box::new(move || {
        if let Some(kernels) = kernels.upgrade() {
            kernels.exchange(at);
        }
    })
}

/// Leads a cell to a kernel's raw entry and returns the entry of the cell; `None` if the VM cannot call it.
fn lead(
    cells: &CallCells,
    at: usize,
    code: &LoadedKernel,
    object: &ObjectFile,
) -> Option<RawKernel> {
    let raw: NonNull<u8> = code.raw?;
    match object.tier {
        KernelTier::Baseline => cells.count_and_call(at, raw),
        KernelTier::Optimised => cells.call(at, raw),
    }
    // SAFETY: the cell leads to the raw entry that this signature describes, now and after `install`,
    // which compares signatures. The packed function keeps the cell and the present code; code before
    // it is kept while a session can be inside.
    unsafe { raw_kernel(cells.entry(at)?.as_ptr(), &object.signature) }
}

impl Drop for TieredKernels {
    fn drop(&mut self) {
        // Threads that wait end.
        self.signal.raise();
    }
}

impl Library for TieredKernels {
    fn function(&self, name: &str) -> Option<Function> {
        Some(self.kernels[*self.numbers.get(name)?].packed.clone())
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        self.kernels[*self.numbers.get(name)?].raw.clone()
    }
}
