//! The tier that programs attach: compiled mode and tracing over one assembler.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reflex_vm::abi::Trampolines;
use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled, HotAction, Recorder, Tier};

use crate::assemble::Assembler;
use crate::bridge::Exits;
use crate::compile;
use crate::engine::{Engine, NOBODY};
use crate::error::JitError;
use crate::glue;
use crate::image::{self, SavedCodeError};
use crate::options::{CompileMode, TierOptions};
use crate::report::{MethodReport, Pending, TraceReport};
use crate::trace::record::TraceRecorder;
use crate::tries::{Due, Tries};
use crate::worker::{Job, Worker};

/// Machine code for VM functions, by Cranelift.
#[derive(Debug)]
pub struct CraneliftTier {
    pub(crate) engine: Arc<Engine>,
    glue: Trampolines,
    threshold: u32,
    settle: Duration,
    max_attempts: u32,
    /// Since when places have been hot that are not recorded yet, and how often they were put off.
    waiting: Mutex<HashMap<(u64, SiteId), Instant>>,
    put_off: AtomicUsize,
}

impl CraneliftTier {
    /// A tier with the usual options.
    pub fn new() -> Result<Self, JitError> {
        Self::with_options(TierOptions::default())
    }

    /// A tier for this process.
    pub fn with_options(options: TierOptions) -> Result<Self, JitError> {
        Self::over(Assembler::new(&options)?, options)
    }

    /// A tier that begins with the code of an image which [`CraneliftTier::save_code`] made. An image
    /// that does not fit `program` is left alone, and the reason given; otherwise the tier is to
    /// be attached to `program`, and [`CraneliftTier::install_saved_code`] makes the code run.
    pub fn with_saved_code(
        options: TierOptions,
        program: &Program,
        image: &[u8],
    ) -> Result<(Self, Result<(), SavedCodeError>), JitError> {
        let assembler = Assembler::new(&options)?;
        let placed = image::place(&assembler, program, image);
        let tier = Self::over(assembler, options)?;
        let fits = placed.map(|saved| {
            let mut all = tier.engine.saved.lock();
            all.insert(program.id(), saved);
        });
        Ok((tier, fits))
    }

    fn over(assembler: Assembler, options: TierOptions) -> Result<Self, JitError> {
        let glue = glue::glue()?;
        let worker = (options.compile_mode == CompileMode::Background).then(Worker::default);
        let engine = Arc::new_cyclic(|this| Engine {
            assembler,
            force: options.forced_exits,
            exit_threshold: u64::from(options.exit_threshold.max(1)).next_power_of_two(),
            trace_limit: options.trace_limit,
            worker,
            traces: Mutex::default(),
            functions: Mutex::default(),
            saved: Mutex::default(),
            exits: Mutex::default(),
            exit: glue.exit,
            whole: Mutex::default(),
            residents: Mutex::default(),
            tries: Tries::default(),
            warmth: u64::from(options.threshold),
            this: this.clone(),
        });
        let settle = if engine.worker.is_some() { options.record_delay } else { Duration::ZERO };
        Ok(Self {
            engine,
            glue,
            threshold: options.threshold.max(1),
            settle,
            max_attempts: options.max_attempts,
            waiting: Mutex::default(),
            put_off: AtomicUsize::new(0),
        })
    }

    /// The code of every function of a program that can be compiled, to be kept in a file, and
    /// how many functions that are.
    pub fn save_code(&self, program: &Program) -> Result<(Vec<u8>, usize), JitError> {
        image::make(&self.engine.assembler, program)
    }

    /// Makes code that was found in a file run wherever nothing else has been installed.
    pub fn install_saved_code(&self, program: &Program) {
        let saved = self.engine.saved.lock();
        let functions = saved.get(&program.id()).into_iter().flat_map(|saved| &saved.functions);
        for (site, compiled) in functions.flat_map(|(_, sites)| sites) {
            program.install(*site, compiled);
        }
    }

    /// Functions of a program whose code was found in a file, and its bytes.
    pub fn saved_functions(&self, program: &Program) -> (usize, usize) {
        let saved = self.engine.saved.lock();
        saved.get(&program.id()).map_or((0, 0), |it| (it.functions.len(), it.code_bytes))
    }

    /// Machine functions that were translated so far, of any program.
    pub fn translated(&self) -> usize {
        self.engine.assembler.translated()
    }

    /// The intermediate code of a whole function, as text.
    pub fn method_clif(&self, program: &Program, func: &FuncCode) -> Result<String, Bailout> {
        Ok(compile::compile(self.engine.assembler.unit(""), program, func, None)?.unit.text())
    }

    /// Whether a place of a function of so many operations has been hot for long enough.
    fn has_settled(&self, place: (u64, SiteId), operations: usize) -> bool {
        if self.settle.is_zero() {
            return true;
        }
        let mut waiting = self.waiting.lock();
        let since = *waiting.entry(place).or_insert_with(Instant::now);
        let settled =
            since.elapsed() >= self.settle * u32::try_from(operations).unwrap_or(u32::MAX);
        if settled {
            waiting.remove(&place);
        }
        settled
    }

    /// What a place waits for.
    pub(crate) fn pending(&self, place: (u64, SiteId)) -> Option<Pending> {
        let waiting = self.waiting.lock();
        if waiting.contains_key(&place) {
            return Some(Pending::Recording);
        }
        self.engine.is_being_compiled(place).then_some(Pending::Compilation)
    }

    /// Waits until everything that was asked for has been compiled, or refused.
    pub fn wait(&self) {
        if let Some(worker) = &self.engine.worker {
            worker.wait();
        }
    }

    /// How much the tier has done so far, as a number that changes with everything it does:
    /// recordings, put off or not, traces, functions.
    pub fn progress(&self) -> usize {
        let (recorded, evicted) = self.engine.tries.sums();
        let traces = self.engine.traces.lock().len();
        let whole = self.engine.whole.lock().len();
        recorded + evicted + traces + whole + self.put_off.load(Ordering::Relaxed)
    }

    /// The traces of a program compiled so far.
    pub fn traces(&self, program: &Program) -> Vec<TraceReport> {
        let traces = self.engine.traces.lock();
        traces.iter().filter(|report| report.program == program.id()).cloned().collect()
    }

    /// Pieces of code of a program that made room for others so far.
    pub fn evictions(&self, program: &Program) -> usize {
        let tried = self.engine.tries.of(program.id());
        tried.values().map(|tried| tried.evicted as usize).sum()
    }

    /// Bytes of machine code that there are, of any program, and the most there may be.
    pub fn code_bytes(&self) -> (usize, usize) {
        let room = &self.engine.assembler.room;
        (room.live(), room.limit())
    }

    /// The functions of a program compiled whole so far.
    pub fn methods(&self, program: &Program) -> Vec<MethodReport> {
        let functions = self.engine.functions.lock();
        functions.iter().filter(|report| report.program == program.id()).cloned().collect()
    }
}

/// How a failure of code generation is counted.
pub(crate) fn bailout(error: JitError) -> Bailout {
    if error.is_memory() {
        return Bailout::CodeMemoryFull;
    }
    Bailout::Codegen { message: error.to_string() }
}

// SAFETY: the glue is compiled once per process, never freed, and does what `Trampolines` says.
unsafe impl Tier for CraneliftTier {
    fn name(&self) -> &'static str {
        "cranelift"
    }

    fn trampolines(&self) -> Trampolines {
        self.glue
    }

    fn compile(&self, program: &Program, func: &FuncCode) -> Result<Compiled, Bailout> {
        let saved = self.engine.saved_function(program.id(), func.index);
        let sites =
            saved.map_or_else(|| Ok(self.engine.function(program, func, None, NOBODY)?.0), Ok)?;
        let mut sites = sites.into_iter();
        let entry = sites.next().map(|(_, compiled)| compiled);
        entry.ok_or_else(|| Bailout::Codegen { message: "a function without an entry".to_owned() })
    }

    fn on_hot_site(&self, program: &Arc<Program>, site: SiteId) -> HotAction {
        match self.engine.job((program.id(), site)) {
            Some(Job::Pending) => return HotAction::Backoff,
            // It waits for its turn, see `tries`.
            Some(Job::Failed(Bailout::CodeMemoryFull)) => {
                program.count_bailout(site, &Bailout::CodeMemoryFull);
                return HotAction::Backoff;
            }
            Some(Job::Failed(reason)) => return HotAction::Blacklist(reason),
            None => {}
        }
        let func = program.code().sites.get(site.0 as usize).map(|site| site.func);
        if func.is_some_and(|func| self.engine.is_whole(program, func)) {
            return HotAction::Backoff;
        }
        let func = func.and_then(|func| program.function(func));
        if func.is_some_and(|func| func.is_foreign) {
            let what = "native code of TVM's compiled mode".to_owned();
            return HotAction::Blacklist(Bailout::Unsupported { what });
        }
        if !self.has_settled((program.id(), site), func.map_or(0, |func| func.ops.len())) {
            self.put_off.fetch_add(1, Ordering::Relaxed);
            return HotAction::Backoff;
        }
        let chance = match self.engine.tries.due((program.id(), site), self.max_attempts) {
            Due::Now(chance) => chance,
            Due::Later => return HotAction::Backoff,
            Due::Never => return HotAction::Blacklist(Bailout::Blacklisted),
        };
        match TraceRecorder::new(Arc::clone(&self.engine), program, site, chance) {
            Ok(recorder) => HotAction::Record(Box::new(recorder)),
            Err(reason) => HotAction::Blacklist(reason),
        }
    }

    fn on_hot_exit(
        &self,
        program: &Arc<Program>,
        exit: u64,
    ) -> Option<(SiteId, Box<dyn Recorder>)> {
        let (trace, exit) = Exits::of_number(exit);
        let exits = self.engine.exits(trace)?;
        let (site, engine) = (exits.site, Arc::clone(&self.engine));
        Some((site, Box::new(TraceRecorder::after(engine, program, exits, exit))))
    }

    fn hot_threshold(&self) -> u32 {
        self.threshold
    }
}
