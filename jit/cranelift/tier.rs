//! The tier that programs attach: compiled mode and tracing over one assembler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reflex_vm::abi::Glue;
use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled, Hot, Tier};

use crate::assemble::Assembler;
use crate::compile;
use crate::engine::Engine;
use crate::error::JitError;
use crate::force::ForcedExits;
use crate::glue;
use crate::report::{CodeReport, TraceReport};
use crate::trace::record::TraceRecorder;
use crate::worker::{Job, Worker};

/// Recordings of one site before it is left to the interpreter.
const MAX_ATTEMPTS: u32 = 3;

/// How a tier behaves.
#[derive(Clone, Debug)]
pub struct TierOptions {
    /// Arrivals that make a function entry or a loop hot.
    pub threshold: u32,
    /// Failures of one guard after which a trace gives way to its function compiled whole, if
    /// they are not rare among its runs. A power of two, or rounded up to one.
    pub exit_threshold: u32,
    /// Most bytes of machine code at any time; what does not fit stays with the interpreter.
    pub code_limit: usize,
    /// Makes guards of traces fail, for tests.
    pub force: Option<Arc<ForcedExits>>,
    /// When traces are compiled.
    pub compiling: Compiling,
}

/// When traces are compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compiling {
    /// On a thread of the tier, while the interpreter goes on.
    #[default]
    Background,
    /// As soon as they are recorded, for runs that must be repeatable.
    AtOnce,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self {
            threshold: 50,
            exit_threshold: 512,
            code_limit: 64 << 20,
            force: None,
            compiling: Compiling::default(),
        }
    }
}

/// Machine code for VM functions, by Cranelift.
#[derive(Debug)]
pub struct CraneliftTier {
    engine: Arc<Engine>,
    glue: Glue,
    threshold: u32,
    /// Recordings begun, by program and site.
    attempts: Mutex<HashMap<(u64, SiteId), u32>>,
}

impl CraneliftTier {
    /// A tier with the usual options.
    pub fn new() -> Result<Self, JitError> {
        Self::with_options(TierOptions::default())
    }

    /// A tier for this process.
    pub fn with_options(options: TierOptions) -> Result<Self, JitError> {
        let assembler = Assembler::new(options.code_limit)?;
        let glue = glue::glue()?;
        let worker = (options.compiling == Compiling::Background).then(Worker::default);
        let engine = Arc::new_cyclic(|this| Engine {
            assembler,
            force: options.force,
            exit_threshold: u64::from(options.exit_threshold.max(1)).next_power_of_two(),
            worker,
            traces: Mutex::default(),
            functions: Mutex::default(),
            whole: Mutex::default(),
            this: this.clone(),
        });
        let attempts = Mutex::default();
        Ok(Self { engine, glue, threshold: options.threshold.max(1), attempts })
    }

    /// The intermediate code of a whole function, as text.
    pub fn text(&self, program: &Program, func: &FuncCode) -> Result<String, Bailout> {
        Ok(compile::compile(self.engine.assembler.unit(""), program, func)?.unit.text())
    }

    /// The traces of a program compiled so far.
    pub fn traces(&self, program: &Program) -> Vec<TraceReport> {
        let traces = self.engine.traces.lock().unwrap_or_else(PoisonError::into_inner);
        traces.iter().filter(|report| report.program == program.id()).cloned().collect()
    }

    /// Recordings begun at the sites of a program.
    pub(crate) fn attempts(&self, program: &Program) -> HashMap<SiteId, u32> {
        let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let of = attempts.iter().filter(|((id, _), _)| *id == program.id());
        of.map(|((_, site), &count)| (*site, count)).collect()
    }

    /// The functions of a program compiled whole so far.
    pub fn functions(&self, program: &Program) -> Vec<CodeReport> {
        let functions = self.engine.functions.lock().unwrap_or_else(PoisonError::into_inner);
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

// SAFETY: the glue is compiled once per process, never freed, and does what `Glue` says.
unsafe impl Tier for CraneliftTier {
    fn name(&self) -> &'static str {
        "cranelift"
    }

    fn glue(&self) -> Glue {
        self.glue
    }

    fn compile(&self, program: &Program, func: &FuncCode) -> Result<Compiled, Bailout> {
        let mut sites = self.engine.function(program, func)?.into_iter();
        let entry = sites.next().map(|(_, compiled)| compiled);
        entry.ok_or_else(|| Bailout::Codegen { message: "a function without an entry".to_owned() })
    }

    fn hot(&self, program: &Arc<Program>, site: SiteId) -> Hot {
        match self.engine.job((program.id(), site)) {
            Some(Job::Pending) => return Hot::Later,
            Some(Job::Done(compiled)) => return Hot::Install(compiled),
            Some(Job::Failed(reason)) => return Hot::Never(reason),
            None => {}
        }
        let func = program.code().sites.get(site.0 as usize).map(|site| site.func);
        if func.is_some_and(|func| self.engine.is_whole(program, func)) {
            return Hot::Later;
        }
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry((program.id(), site)).or_default();
        if *count == MAX_ATTEMPTS {
            return Hot::Never(Bailout::GaveUp);
        }
        *count += 1;
        drop(attempts);
        match TraceRecorder::new(Arc::clone(&self.engine), program, site) {
            Ok(recorder) => Hot::Record(Box::new(recorder)),
            Err(reason) => Hot::Never(reason),
        }
    }

    fn threshold(&self) -> u32 {
        self.threshold
    }
}
