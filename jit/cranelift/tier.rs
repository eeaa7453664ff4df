//! The tier that programs attach: method compilation and tracing over one compiler.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reflex_vm::abi::Trampolines;
use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::{ArrivalFrom, Bailout, Compiled, HotAction, Recorder, Tier};

use crate::assemble::Assembler;
use crate::compiler::Compiler;
use crate::error::JitError;
use crate::evict::NO_SESSION;
use crate::method::{self, Shown};
use crate::options::{CompileMode, TierOptions};
use crate::penalty::{Decision, SiteKey};
use crate::report::{MethodReport, Pending, TraceReport};
use crate::saved_code::{self, SavedCodeError};
use crate::side_exits::{ExitPolicy, ExitRef, SideExits};
use crate::store::CodeStore;
use crate::trace::record::TraceRecorder;
use crate::trampolines;
use crate::worker::{JobState, Worker};

/// Machine code for VM functions, by Cranelift.
#[derive(Debug)]
pub struct CraneliftTier {
    compiler: Arc<Compiler>,
    trampolines: Trampolines,
    threshold: u32,
    record_delay: Duration,
    max_attempts: u32,
    /// The time at which each hot site that is not recorded yet became hot.
    hot_since: Mutex<HashMap<SiteKey, Instant>>,
    /// Recordings that were delayed.
    delayed: AtomicUsize,
}

impl CraneliftTier {
    /// A tier with the default options.
    pub fn new() -> Result<Self, JitError> {
        Self::with_options(TierOptions::default())
    }

    /// A tier for this process.
    pub fn with_options(options: TierOptions) -> Result<Self, JitError> {
        Self::with_assembler(Assembler::new(&options)?, options)
    }

    /// A tier that starts with code which [`CraneliftTier::save_code`] serialised. Code that does
    /// not fit `program` is ignored, and the reason returned. Otherwise attach the tier to
    /// `program`; [`CraneliftTier::install_saved_code`] then makes the code run.
    pub fn with_saved_code(
        options: TierOptions,
        program: &Program,
        bytes: &[u8],
    ) -> Result<(Self, Result<(), SavedCodeError>), JitError> {
        let assembler = Assembler::new(&options)?;
        let loaded = saved_code::load(&assembler, program, bytes);
        let tier = Self::with_assembler(assembler, options)?;
        let fits = loaded.map(|saved| {
            tier.compiler.store.saved().insert(program.id(), saved);
        });
        Ok((tier, fits))
    }

    fn with_assembler(assembler: Assembler, options: TierOptions) -> Result<Self, JitError> {
        let trampolines = trampolines::trampolines()?;
        let exit_policy = ExitPolicy {
            interpreter: trampolines.exit,
            threshold: u64::from(options.exit_threshold.max(1)).next_power_of_two(),
        };
        let (budget, mode) = (Arc::clone(&assembler.budget), options.compile_mode);
        let store = CodeStore::new(budget, exit_policy, mode, u64::from(options.threshold));
        let worker = (mode == CompileMode::Background).then(Worker::default);
        let compiler = Arc::new_cyclic(|this| Compiler {
            assembler,
            store,
            forced_exits: options.forced_exits,
            trace_limit: options.trace_limit,
            worker,
            this: this.clone(),
        });
        let background = compiler.worker.is_some();
        Ok(Self {
            compiler,
            trampolines,
            threshold: options.threshold.max(1),
            record_delay: if background { options.record_delay } else { Duration::ZERO },
            max_attempts: options.max_attempts,
            hot_since: Mutex::default(),
            delayed: AtomicUsize::new(0),
        })
    }

    /// Serialises the code of every function of a program that can be compiled. Returns the bytes
    /// and the number of functions.
    pub fn save_code(&self, program: &Program) -> Result<(Vec<u8>, usize), JitError> {
        saved_code::serialise(&self.compiler.assembler, program)
    }

    /// Installs code that was loaded from a file at every site that has no other code.
    pub fn install_saved_code(&self, program: &Program) {
        let saved = self.compiler.store.saved();
        let functions = saved.get(&program.id()).into_iter().flat_map(|saved| &saved.functions);
        for (site, compiled) in functions.flat_map(|(_, sites)| sites) {
            program.install(*site, compiled);
        }
    }

    /// Functions of a program whose code was loaded from a file, and the bytes of that code.
    pub fn saved_functions(&self, program: &Program) -> (usize, usize) {
        let saved = self.compiler.store.saved();
        saved.get(&program.id()).map_or((0, 0), |it| (it.functions.len(), it.code_bytes))
    }

    /// Machine functions that were translated so far, of any program.
    pub fn translated(&self) -> usize {
        self.compiler.assembler.translated()
    }

    /// The Cranelift IR (CLIF) of a function compiled as a method.
    pub fn method_clif(&self, program: &Program, func: &FuncCode) -> Result<String, Bailout> {
        Ok(method::compile(self.compiler.assembler.unit(""), program, func, None, Shown::Nothing)?
            .unit
            .text())
    }

    /// Returns true if a hot site of a function of `operations` operations has been hot for long
    /// enough to be recorded.
    fn is_worth_recording(&self, key: SiteKey, operations: usize) -> bool {
        if self.record_delay.is_zero() {
            return true;
        }
        let mut hot_since = self.hot_since.lock();
        let since = *hot_since.entry(key).or_insert_with(Instant::now);
        let delay = self.record_delay * u32::try_from(operations).unwrap_or(u32::MAX);
        let due = since.elapsed() >= delay;
        if due {
            hot_since.remove(&key);
        }
        due
    }

    /// The next step for a hot site, if it is not compiled yet.
    pub(crate) fn pending(&self, key: SiteKey) -> Option<Pending> {
        let hot_since = self.hot_since.lock();
        if hot_since.contains_key(&key) {
            return Some(Pending::Recording);
        }
        let worker = self.compiler.worker.as_ref();
        worker.is_some_and(|worker| worker.is_pending(key)).then_some(Pending::Compilation)
    }

    /// The reason why a trace was not compiled that the interpreter has not asked for yet.
    pub(crate) fn unreported_failure(&self, key: SiteKey) -> Option<Bailout> {
        self.compiler.worker.as_ref()?.unreported_failure(key)
    }

    /// All code of the tier.
    pub(crate) fn store(&self) -> &CodeStore {
        &self.compiler.store
    }

    /// Waits until every request was compiled or refused.
    pub fn wait(&self) {
        if let Some(worker) = &self.compiler.worker {
            worker.wait();
        }
    }

    /// A number that changes with everything the tier does: recordings, delayed or not, traces,
    /// methods and evictions.
    pub fn progress(&self) -> usize {
        let store = &self.compiler.store;
        let (traces, methods) = (store.traces().len(), store.method_keys().len());
        store.penalties.events() + traces + methods + self.delayed.load(Ordering::Relaxed)
    }

    /// The traces of a program compiled so far.
    pub fn traces(&self, program: &Program) -> Vec<TraceReport> {
        let traces = self.compiler.store.traces();
        traces.iter().filter(|report| report.program == program.id()).cloned().collect()
    }

    /// Traces and methods of a program that were evicted so far.
    pub fn evictions(&self, program: &Program) -> usize {
        let histories = self.compiler.store.penalties.of(program.id());
        histories.values().map(|history| history.evicted as usize).sum()
    }

    /// Bytes of machine code that exist, of any program, and the code-cache budget.
    pub fn code_bytes(&self) -> (usize, usize) {
        let budget = &self.compiler.store.budget;
        (budget.live(), budget.limit())
    }

    /// The functions of a program compiled as methods so far.
    pub fn methods(&self, program: &Program) -> Vec<MethodReport> {
        let methods = self.compiler.store.methods();
        methods.iter().filter(|report| report.program == program.id()).cloned().collect()
    }

    /// Decides whether a hot site is recorded, as far as code of the site is concerned: `None` if it
    /// has none and none is being compiled.
    fn pending_action(&self, program: &Arc<Program>, key: SiteKey) -> Option<HotAction> {
        match self.compiler.worker.as_ref().and_then(|worker| worker.take(key)) {
            Some(JobState::Pending) => return Some(HotAction::Backoff),
            // The site backs off, see `penalty`.
            Some(JobState::Failed(Bailout::CodeMemoryFull)) => {
                program.count_bailout(key.site, &Bailout::CodeMemoryFull);
                return Some(HotAction::Backoff);
            }
            Some(JobState::Failed(reason)) => return Some(HotAction::Blacklist(reason)),
            None => {}
        }
        let func = program.code().sites.get(key.site.0 as usize).map(|site| site.func)?;
        self.compiler.store.is_method(program, func).then_some(HotAction::Backoff)
    }
}

// SAFETY: the trampolines are compiled once per process, never freed, and do what `Trampolines` says.
unsafe impl Tier for CraneliftTier {
    fn name(&self) -> &'static str {
        "cranelift"
    }

    fn trampolines(&self) -> Trampolines {
        self.trampolines
    }

    fn compile(&self, program: &Program, func: &FuncCode) -> Result<Compiled, Bailout> {
        let saved = self.compiler.store.saved_function(program.id(), func.index);
        let compile = || Ok(self.compiler.method(program, func, None, NO_SESSION)?.sites);
        let sites = saved.map_or_else(compile, Ok)?;
        let mut sites = sites.into_iter();
        let entry = sites.next().map(|(_, compiled)| compiled);
        entry.ok_or_else(|| Bailout::Codegen { message: "a function without an entry".to_owned() })
    }

    fn compile_watched(&self, program: &Arc<Program>, func: &FuncCode) {
        self.compiler.request_watched(program, func.index);
    }

    fn on_hot_site(&self, program: &Arc<Program>, site: SiteId, from: ArrivalFrom) -> HotAction {
        let key = SiteKey { program: program.id(), site };
        if let Some(action) = self.pending_action(program, key) {
            return action;
        }
        let func = program.code().sites.get(site.0 as usize).map(|site| site.func);
        let func = func.and_then(|func| program.function(func));
        if func.is_some_and(|func| func.is_foreign) {
            let what = "native code of TVM's compiled mode".to_owned();
            return HotAction::Blacklist(Bailout::Unsupported { what });
        }
        if !self.is_worth_recording(key, func.map_or(0, |func| func.ops.len())) {
            self.delayed.fetch_add(1, Ordering::Relaxed);
            return HotAction::Backoff;
        }
        let attempt = match self.compiler.store.penalties.decide(key, self.max_attempts) {
            Decision::Record(attempt) => attempt,
            Decision::Wait => return HotAction::Backoff,
            Decision::Blacklisted => return HotAction::Blacklist(Bailout::Blacklisted),
        };
        // A trace of the callee would begin and end with each call, where methods call each other
        // natively.
        if let (ArrivalFrom::NativeCode, Some(func)) = (from, func) {
            self.compiler.request_method_from(program, func.index, NO_SESSION);
            return HotAction::Backoff;
        }
        let sink = Arc::clone(&self.compiler) as _;
        match TraceRecorder::at_site(sink, program, site, attempt) {
            Ok(recorder) => HotAction::Record(Box::new(recorder)),
            Err(reason) => HotAction::Blacklist(reason),
        }
    }

    fn on_hot_exit(
        &self,
        program: &Arc<Program>,
        exit: u64,
    ) -> Option<(SiteId, Box<dyn Recorder>)> {
        let (trace, exit) = SideExits::of_number(exit);
        let exits = self.compiler.store.exits(trace)?;
        let site = exits.site;
        let sink = Arc::clone(&self.compiler) as _;
        let recorder = TraceRecorder::at_side_exit(sink, program, ExitRef { exits, exit });
        Some((site, Box::new(recorder)))
    }

    fn hot_threshold(&self) -> u32 {
        self.threshold
    }
}
