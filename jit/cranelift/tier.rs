//! The tier that programs attach: compiled mode and tracing over one assembler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reflex_vm::abi::Glue;
use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled, Hot, Tier};

use crate::assemble::{Assembler, Published, Unit, UnitFunc};
use crate::compile;
use crate::error::JitError;
use crate::force::ForcedExits;
use crate::glue;
use crate::trace::make::{Maker, Reports, TraceReport};
use crate::trace::record::{Engine, TraceRecorder};
use crate::trace::worker::{Job, Worker};

/// Recordings of one site before it is left to the interpreter.
const MAX_ATTEMPTS: u32 = 3;

/// How a tier behaves.
#[derive(Clone, Debug)]
pub struct TierOptions {
    /// Arrivals that make a function entry or a loop hot.
    pub threshold: u32,
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
        Self { threshold: 50, force: None, compiling: Compiling::default() }
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
        let assembler = Assembler::new()?;
        let glue = glue::glue(&assembler)?;
        let reports = Reports::default();
        let worker = (options.compiling == Compiling::Background).then(Worker::default);
        let maker = Arc::new(Maker { assembler, force: options.force, reports });
        let engine = Engine { maker, worker };
        let attempts = Mutex::default();
        Ok(Self { engine: Arc::new(engine), glue, threshold: options.threshold.max(1), attempts })
    }

    /// The intermediate code of a whole function, as text.
    pub fn text(&self, program: &Program, func: &FuncCode) -> Result<String, Bailout> {
        Ok(compile::compile(self.engine.maker.assembler.unit(), program, func)?.unit.text())
    }

    /// The traces of a program compiled so far.
    pub fn traces(&self, program: &Program) -> Vec<TraceReport> {
        let reports = self.engine.maker.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.iter().filter(|report| report.program == program.id()).cloned().collect()
    }

    fn publish(&self, unit: Unit, entry: UnitFunc) -> Result<Compiled, Bailout> {
        let code: Arc<Published> =
            Arc::new(self.engine.maker.assembler.publish(unit).map_err(bailout)?);
        // SAFETY: `compile` writes code that follows the protocol of `reflex_vm::abi` for the
        // entry of the function it is given, and the owner keeps it mapped.
        Ok(unsafe { Compiled::new(code.address(entry), code) })
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
        let function = compile::compile(self.engine.maker.assembler.unit(), program, func)?;
        self.publish(function.unit, function.entry)
    }

    fn hot(&self, program: &Arc<Program>, site: SiteId) -> Hot {
        match self.engine.job((program.id(), site)) {
            Some(Job::Pending) => return Hot::Later,
            Some(Job::Done(compiled)) => return Hot::Install(compiled),
            Some(Job::Failed(reason)) => return Hot::Never(reason),
            None => {}
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
