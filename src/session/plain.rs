//! A session on one loaded program: threads, floating-point state, warm-up.

use std::sync::Arc;

use reflex_runtime::error::Error as Raised;
use reflex_runtime::fp::FpEnv;
use reflex_runtime::threads::ThreadScope;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::devices::{CpuAllocators, Devices};
use reflex_vm::mode::Mode as ExecutionMode;
use reflex_vm::program::Program;
use reflex_vm::reentry::Reentry;
use reflex_vm::run_error::RunError;
use reflex_vm::session as vm;

use super::batches::{BatchReport, Batches};
use super::stream::{PlacedArgs, SessionStream};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::tiered::TieredKernels;
use crate::options::Mode;
use crate::program::tier::SessionTier;

fn raised(error: reflex_runtime::error::Error) -> Error {
    Error::raised(ErrorKind::Run, error)
}

/// Most calls of a warm-up: a program whose hot paths keep changing never stops compiling.
const MAX_WARM_UP: usize = 100_000;

/// The state in which one thread runs one program, without shape specialisation.
pub(crate) struct PlainSession {
    pub(super) vm: vm::Session,
    tier: Option<SessionTier>,
    kernels: Option<Arc<TieredKernels>>,
    threads: usize,
    /// Calls on the stream that are enqueued as one, in tiered mode.
    batches: Option<Box<Batches>>,
    /// Of a program for a device that is no CPU.
    stream: Option<Arc<SessionStream>>,
    /// Whether kernels may write results in memory of a caller's.
    outputs_in_place: bool,
}

/// A session's way back in for native code that one of its runs called.
pub(crate) struct PlainReentry {
    vm: Reentry,
    program: Arc<Program>,
    threads: usize,
    stream: Option<Arc<SessionStream>>,
}

impl PlainReentry {
    /// Returns the index of a function.
    pub(crate) fn function_index(&self, name: &str) -> Result<u32> {
        let unknown = || Error::input(format!("the program has no function `{name}`"));
        self.program.find(name).ok_or_else(unknown)
    }

    /// Returns the names of the parameters of a function; empty where its file has none.
    pub(crate) fn param_names(&self, name: &str) -> Result<&[String]> {
        let func = self.function_index(name)?;
        Ok(&self.program.executable().functions[func as usize].param_names)
    }

    /// Returns true if a run of the session called the native code that this thread runs.
    pub(crate) fn is_inside(&self) -> bool {
        self.vm.is_inside()
    }

    /// Runs `body` with the session's threads and floating-point state, and restores those around.
    pub(crate) fn enter<T>(
        &self,
        body: impl FnOnce(&Reentry) -> std::result::Result<T, RunError>,
    ) -> Result<T> {
        let _threads = ThreadScope::enter(self.threads);
        let _environment = FpEnv::enter();
        let _stream = self.stream.as_deref().map(SessionStream::enter);
        body(&self.vm).map_err(Error::from)
    }
}

/// The options of a [`PlainSession`], with its program's tier.
pub(crate) struct PlainOptions {
    pub(crate) mode: Mode,
    pub(crate) tier: Option<SessionTier>,
    /// Kernels that are replaced while calls go on.
    pub(crate) kernels: Option<Arc<TieredKernels>>,
    pub(crate) allocators: CpuAllocators,
    pub(crate) devices: Devices,
    /// Threads for parallel kernels, the caller's included.
    pub(crate) threads: usize,
    /// Why launches of calls do not follow from the shapes of arguments, if they do not.
    pub(crate) impurity: Option<String>,
    /// Whether kernels may write results in memory of a caller's.
    pub(crate) outputs_in_place: bool,
}

impl PlainSession {
    pub(crate) fn open(program: &Arc<Program>, options: PlainOptions) -> Result<PlainSession> {
        let PlainOptions {
            mode,
            tier,
            kernels,
            allocators,
            devices,
            threads,
            impurity,
            outputs_in_place,
        } = options;
        let mode = match mode {
            Mode::Bytecode => ExecutionMode::Bytecode,
            Mode::Compiled => ExecutionMode::Compiled,
            Mode::Tiered => ExecutionMode::Tiered,
        };
        let options = vm::Options { mode, allocators, devices, ..vm::Options::default() };
        let vm = vm::Session::new(program, options)
            .map_err(|e| Error::new(ErrorKind::Run, e.message()))?;
        let stream = SessionStream::open(program.device()).map_err(raised)?;
        let of_mode = stream.as_ref().filter(|_| mode == ExecutionMode::Tiered);
        let batches = of_mode.map(|stream| Box::new(stream.batches(impurity)));
        let stream = stream.map(Arc::new);
        Ok(PlainSession { vm, tier, kernels, threads, batches, stream, outputs_in_place })
    }

    /// Whether kernels may write results in memory of a caller's: an instrument may keep tensors.
    pub(crate) fn writes_outputs_in_place(&self) -> bool {
        self.outputs_in_place && !self.vm.has_instrument()
    }

    /// Calls a function.
    pub(crate) fn call(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<Any> {
        let mut result = Any::NONE;
        self.call_into(func, args, &mut result)?;
        Ok(result)
    }

    /// Calls a function and writes its result in place.
    #[inline]
    pub(crate) fn call_into(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<()> {
        if self.stream.is_some() {
            return self.call_on_device(func, args, result);
        }
        let code = self.vm.program().function(func);
        if code.is_some_and(|code| code.calls_builtins_only) {
            // No kernel runs, so nothing depends on threads or the floating-point state.
            return Ok(self.vm.call_into(func, args, result)?);
        }
        if let Some(kernels) = &self.kernels {
            kernels.exchange_all();
        }
        let ran = self.enter(|vm| vm.call_into(func, args, result));
        if let Some(kernels) = &self.kernels {
            kernels.answered();
        }
        ran
    }

    /// [`PlainSession::call_into`] on a device: arguments are copied there. It returns when the work is
    /// enqueued, but for what the host has to read.
    #[cold]
    #[inline(never)]
    fn call_on_device(&mut self, func: u32, args: &[AnyView<'_>], result: &mut Any) -> Result<()> {
        let Some(stream) = self.stream.as_deref() else { return Ok(()) };
        let mut placed = PlacedArgs::default();
        let entered = stream.enter();
        stream.place(args, &mut placed).map_err(raised)?;
        let batches = self.batches.as_mut().filter(|_| !self.vm.has_limits());
        let replayed =
            batches.and_then(|batches| placed.with(args, |args| batches.replay(func, args)));
        drop(entered);
        let ran = match replayed {
            Some(replayed) => replayed.map(|value| *result = value).map_err(raised),
            None => placed.with(args, |args| self.interpret_on_device(func, args, result)),
        };
        let left = self.stream.as_deref().map_or(Ok(()), |stream| stream.leave(&placed));
        ran.and(left.map_err(raised))
    }

    /// Interprets a call, and records it as a batch where it is time.
    fn interpret_on_device(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<()> {
        let watched = self.vm.has_limits();
        self.enter(|vm| vm.call_into(func, args, result))?;
        let Some(mut batches) = self.batches.take_if(|_| !watched) else { return Ok(()) };
        if batches.interpreted(func, args) {
            let stream = self.stream.clone();
            let _stream = stream.as_deref().map(SessionStream::enter);
            batches.record(func, args, |args| {
                // Later runs use what machine code keeps: it is no memory of the batch's.
                let call = |vm: &mut vm::Session| {
                    vm.without_machine_code(|vm| vm.call_func(func, AnyView::slice(args)))
                };
                self.enter(call).map_err(|e| Raised::new("RuntimeError", e.to_string()))
            });
        }
        self.batches = Some(batches);
        Ok(())
    }

    /// The calls that are batches, and those that cannot be.
    pub(super) fn batch_report(&self) -> BatchReport {
        self.batches.as_ref().map(|batches| batches.report()).unwrap_or_default()
    }

    /// Waits for the device's work, and reports its errors; on a CPU there is none.
    pub(super) fn synchronize(&self) -> Result<()> {
        self.stream.as_ref().map_or(Ok(()), |stream| stream.synchronize().map_err(raised))
    }

    /// The way back in for native code that a run of the session called.
    pub(crate) fn reentry(&self) -> PlainReentry {
        let program = Arc::clone(self.vm.program());
        let stream = self.stream.clone();
        PlainReentry { vm: self.vm.reentry(), program, threads: self.threads, stream }
    }

    /// Runs `body` with the session's threads and floating-point state, and restores the host's.
    pub(super) fn enter<T>(
        &mut self,
        body: impl FnOnce(&mut vm::Session) -> std::result::Result<T, RunError>,
    ) -> Result<T> {
        let _threads = ThreadScope::enter(self.threads);
        let _environment = FpEnv::enter();
        let stream = self.stream.clone();
        let _stream = stream.as_deref().map(SessionStream::enter);
        body(&mut self.vm).map_err(Error::from)
    }

    /// Calls a function until its tier compiles nothing more, with kernels that nothing better comes for.
    /// Returns the number of calls.
    pub(super) fn warm_up(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<usize> {
        let mut placed = PlacedArgs::default();
        if let Some(stream) = self.stream.as_deref() {
            let _stream = stream.enter();
            stream.place(args, &mut placed).map_err(raised)?;
        }
        placed.with(args, |args| self.warm_up_on_device(func, args))
    }

    fn warm_up_on_device(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<usize> {
        let call = |vm: &mut vm::Session| vm.call_func(func, args).map(drop);
        let kernels = self.kernels.clone();
        let mut calls = 0;
        if let Some(kernels) = kernels {
            // The first call says which kernels are needed.
            self.enter(call)?;
            calls = 1;
            kernels.wait();
        }
        let tier = self.tier.clone().filter(|_| self.vm.mode() == ExecutionMode::Tiered);
        let Some(tier) = tier else { return self.enter(call).map(|()| calls + 1) };
        loop {
            let before = tier.progress();
            // Finished code is installed when its entry is hot again.
            for _ in 0..=tier.hot_threshold() {
                self.enter(call)?;
                calls += 1;
            }
            tier.wait();
            if tier.progress() == before || calls >= MAX_WARM_UP {
                return Ok(calls);
            }
        }
    }

    /// [`PlainSession::call_into`] with the fuel, deadline and instrument of `host`.
    pub(super) fn call_with_limits_of(
        &mut self,
        host: &mut PlainSession,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<()> {
        self.enter(|vm| vm.with_limits_of(&mut host.vm, |vm| vm.call_into(func, args, result)))
    }

    /// Returns a number that changes when the tier records, compiles or evicts something.
    pub(super) fn tier_progress(&self) -> usize {
        self.tier.as_ref().map_or(0, |tier| tier.progress())
    }

    /// Sets the threads for parallel kernels, the caller's included.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// Returns the handle that stops this session's runs.
    pub(crate) fn canceller(&self) -> vm::Canceller {
        self.vm.canceller()
    }

    /// Makes runs stop when `canceller` says so.
    pub(super) fn follow(&mut self, canceller: &vm::Canceller) {
        self.vm.follow(canceller);
    }
}
