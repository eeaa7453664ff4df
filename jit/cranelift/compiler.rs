//! The compiler: turns recorded traces and functions into installed code.
//!
//! It works on the calling thread or on the background thread, as the options of the tier say.
//!
//! A trace follows one path through the code. Where one of its guards fails often, the
//! continuation becomes a side trace (`side_exits`). When side traces are many, or a function calls
//! itself at several positions, all paths matter: the function is compiled as a method, and the
//! method replaces the traces in the cells of its entry and loops. Rejected: traces alone (a tree of
//! code for every combination of branches, which compiles the common tail again and again).
//!
//! Decision: docs/decisions/0012-traces-and-method-compilation.md

use std::sync::{Arc, Weak};

use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled, Step};

use crate::assemble::budget::Reservation;
use crate::assemble::{Assembler, CodeUnit, PublishedCode};
use crate::error::JitError;
use crate::evict::{NO_SESSION, Quiesce};
use crate::forced_exits::ForcedExits;
use crate::method::{self, Shown};
use crate::penalty::SiteKey;
use crate::report::{MethodReport, ParentExit, TraceReport};
use crate::side_exits::{ExitRef, MethodCompiler, SideExits, TraceOrigin};
use crate::store::{CodeStore, CompiledTrace, Entries};
use crate::trace::codegen::{self, RuntimeHooks};
use crate::trace::ir::Trace;
use crate::trace::materialise::VirtualObjects;
use crate::trace::optimise::optimise;
use crate::trace::record::{TraceAnchor, TraceSink};
use crate::usage::Usage;
use crate::worker::{BackgroundCompiler, CompileRequest, CompileTask, Worker};

/// Compiles traces and methods, on any thread.
#[derive(Debug)]
pub(crate) struct Compiler {
    pub(crate) assembler: Assembler,
    pub(crate) store: CodeStore,
    pub(crate) forced_exits: Option<Arc<ForcedExits>>,
    /// Most instructions of a trace.
    pub(crate) trace_limit: usize,
    /// Compiles in the background; `None` compiles on the calling thread.
    pub(crate) worker: Option<Worker>,
    /// The compiler itself, for code that may outlive it.
    pub(crate) this: Weak<Compiler>,
}

/// Everything that the code of a trace refers to.
#[derive(Debug)]
struct TraceCode {
    _published: Arc<PublishedCode>,
    _forced_exits: Option<Arc<ForcedExits>>,
    _virtual_objects: Arc<VirtualObjects>,
    _exits: Arc<SideExits>,
}

/// Everything that the code of a method refers to.
#[derive(Debug)]
struct MethodCode {
    _published: Arc<PublishedCode>,
    _usage: Option<Arc<Usage>>,
}

impl Compiler {
    fn submit(&self, program: &Arc<Program>, task: CompileTask) -> Option<Result<(), Bailout>> {
        let worker = self.worker.as_ref()?;
        let request = CompileRequest { program: Arc::downgrade(program), task };
        let this: Weak<dyn BackgroundCompiler> = self.this.clone();
        Some(worker.submit(request, program.id(), &this))
    }

    /// Compiles a function as a method and installs it, once.
    pub(crate) fn request_method_from(
        &self,
        program: &Arc<Program>,
        func: u32,
        quiesce: Quiesce<'_>,
    ) {
        let site = SiteId(func);
        if !self.store.method_keys().insert(SiteKey { program: program.id(), site }) {
            return;
        }
        match self.submit(program, CompileTask::Method(func)) {
            None => self.install_method(program, func, quiesce),
            Some(Ok(())) => {}
            Some(Err(reason)) => program.count_bailout(site, &reason),
        }
    }

    /// Compiles a function as a method and installs it at its entry and loops.
    fn install_method(&self, program: &Arc<Program>, func: u32, quiesce: Quiesce<'_>) {
        let code = program.function(func).filter(|code| !code.is_foreign);
        let Some(code) = code else { return };
        let usage = Arc::<Usage>::default();
        match self.method(program, code, Some(&usage), quiesce) {
            Ok(method) => {
                self.store.install_method(program, func, &method.sites, usage, method.reservation);
            }
            Err(reason) => {
                tracing::debug!(function = program.name(func), %reason, "function not compiled");
                let key = SiteKey { program: program.id(), site: SiteId(func) };
                if reason == Bailout::CodeMemoryFull {
                    self.store.penalties.penalise(key);
                    self.store.method_keys().remove(&key);
                }
                program.count_bailout(key.site, &reason);
            }
        }
    }

    /// Compiles a unit and publishes its code, for which cold code is evicted if necessary.
    fn publish(
        &self,
        unit: CodeUnit,
        program: &Program,
        quiesce: Quiesce<'_>,
    ) -> Result<Arc<PublishedCode>, Bailout> {
        let (assembler, budget) = (&self.assembler, &self.store.budget);
        // Code that will not fit need not be compiled.
        if !budget.fits(1) && !self.store.evict_for(1, quiesce) {
            return Err(Bailout::CodeMemoryFull);
        }
        let compiled = assembler.assemble(unit).map_err(bailout)?;
        let bytes = compiled.text.len();
        let reservation = budget.reserve(bytes).or_else(|full: JitError| {
            match self.store.evict_for(bytes, quiesce) {
                true => budget.reserve(bytes),
                false => Err(full),
            }
        });
        let published =
            reservation.and_then(|it| assembler.publish_reserved(it, compiled, Some(program)));
        published.map(Arc::new).map_err(bailout)
    }

    /// Compiles a function as a method. With `usage`, the code counts its runs there.
    pub(crate) fn method(
        &self,
        program: &Program,
        func: &FuncCode,
        usage: Option<&Arc<Usage>>,
        quiesce: Quiesce<'_>,
    ) -> Result<CompiledMethod, Bailout> {
        let unit = self.assembler.unit(format!("reflex {}", program.name(func.index)));
        let runs = usage.map(|usage| &usage.runs);
        let method = method::compile(unit, program, func, runs, Shown::Nothing)?;
        let published = self.publish(method.unit, program, quiesce)?;
        let usage = usage.cloned();
        let name = program.name(func.index);
        tracing::debug!(function = name, bytes = published.size(), "function compiled");
        let code = MethodCode { _published: Arc::clone(&published), _usage: usage.clone() };
        let code = Arc::new(code);
        self.store.methods().push(MethodReport {
            program: program.id(),
            func: func.index,
            code_bytes: published.size(),
            lowered: method.lowered,
            usage,
            code: Arc::downgrade(&published),
        });
        let entries = std::iter::once((SiteId(func.index), method.entry)).chain(method.loops);
        let sites = entries.map(|(site, entry)| {
            let address = published.address(entry);
            // SAFETY: `method::compile` writes code that follows the protocol of `reflex_vm::abi`
            // for the entry and the loops of this function, and the owner keeps it mapped.
            (site, unsafe { Compiled::new(address, Arc::clone(&code) as _) })
        });
        let reservation = Arc::clone(&published.reservation);
        Ok(CompiledMethod { sites: sites.collect(), reservation })
    }

    /// Compiles a function as a method that shows its calls to an instrument, and installs it, or has
    /// the background thread do so.
    pub(crate) fn request_watched(&self, program: &Arc<Program>, func: u32) {
        match self.submit(program, CompileTask::WatchedMethod(func)) {
            None => self.install_watched(program, func),
            Some(Ok(())) => {}
            Some(Err(reason)) => program.count_bailout(SiteId(func), &reason),
        }
    }

    fn install_watched(&self, program: &Arc<Program>, func: u32) {
        let Some(code) = program.function(func) else { return };
        match self.watched_method(program, code) {
            Ok(compiled) => program.install_watched(func, &compiled),
            Err(reason) => program.count_bailout(SiteId(func), &reason),
        }
    }

    fn watched_method(&self, program: &Program, func: &FuncCode) -> Result<Compiled, Bailout> {
        let unit = self.assembler.unit(format!("reflex watched {}", program.name(func.index)));
        let method = method::compile(unit, program, func, None, Shown::Calls)?;
        let published = self.publish(method.unit, program, NO_SESSION)?;
        let address = published.address(method.entry);
        // SAFETY: `method::compile` writes code that follows the protocol of `reflex_vm::abi` for the
        // entry of this function, and the owner keeps it mapped.
        Ok(unsafe { Compiled::new(address, published) })
    }

    /// Compiles a root trace and installs it at its site.
    fn root_trace(
        &self,
        program: &Arc<Program>,
        site: SiteId,
        trace: Trace,
        quiesce: Quiesce<'_>,
    ) -> Result<(), Bailout> {
        let func = trace.frames[0].func;
        let origin = TraceOrigin { program, site, func, parent: None };
        let made = self.trace(&origin, None, trace, quiesce);
        let compiled = made.inspect_err(|reason| {
            if *reason == Bailout::CodeMemoryFull {
                self.store.penalties.penalise(SiteKey { program: program.id(), site });
            }
        })?;
        self.store.install_root_trace(program, compiled);
        Ok(())
    }

    /// Compiles a side trace and links it to its side exit.
    fn side_trace(
        &self,
        program: &Arc<Program>,
        from: &ExitRef,
        trace: Trace,
        quiesce: Quiesce<'_>,
    ) -> Result<(), Bailout> {
        let ExitRef { exits, exit } = from;
        let func = trace.frames[0].func;
        let origin = TraceOrigin { program, site: exits.site, func, parent: Some(exits) };
        let parent = ParentExit { trace: exits.id, exit: *exit };
        let made = self.trace(&origin, Some(parent), trace, quiesce);
        let compiled = made.inspect_err(|reason| match reason {
            Bailout::CodeMemoryFull => exits.back_off(*exit, self.store.exit_policy.threshold),
            _ => exits.fall_back_to_method(),
        })?;
        self.store.link_side_trace(program, from, compiled)
    }

    /// Optimises, compiles and publishes a trace.
    fn trace(
        &self,
        origin: &TraceOrigin<'_>,
        parent: Option<ParentExit>,
        mut trace: Trace,
        quiesce: Quiesce<'_>,
    ) -> Result<CompiledTrace, Bailout> {
        let (program, recorded) = (origin.program, trace.clone());
        optimise(program, &mut trace);
        let compiler: Weak<dyn MethodCompiler> = self.this.clone();
        let policy = self.store.exit_policy;
        let exits = Arc::new(SideExits::new(compiler, origin, trace.snapshots.len(), policy));
        let hooks = RuntimeHooks {
            forced_exits: self.forced_exits.clone(),
            exits: Arc::clone(&exits),
            exit_threshold: policy.threshold,
            virtual_objects: Arc::new(VirtualObjects::of(program, &trace)),
        };
        let label = format!("reflex trace {}@{}", trace.frames[0].name, trace.start_pc);
        let mut unit = self.assembler.unit(label);
        let entry = codegen::translate(&mut unit, program, &trace, &hooks)?;
        let published = self.publish(unit, program, quiesce)?;
        let owner = TraceCode {
            _published: Arc::clone(&published),
            _forced_exits: hooks.forced_exits,
            _virtual_objects: hooks.virtual_objects,
            _exits: Arc::clone(&exits),
        };
        tracing::debug!(
            function = &*trace.frames[0].name,
            pc = trace.start_pc,
            side_trace = parent.is_some(),
            bytes = published.size(),
            "trace compiled"
        );
        self.store.add_exits(&exits);
        self.store.traces().push(TraceReport {
            program: program.id(),
            site: origin.site,
            parent,
            number: exits.id,
            recorded: Arc::new(recorded),
            trace: Arc::new(trace),
            code_bytes: published.size(),
            taken: Arc::clone(&exits.taken),
            usage: Arc::clone(&exits.usage),
            code: Arc::downgrade(&published),
        });
        // SAFETY: the trace was recorded at this site, and `codegen::translate` follows the
        // protocol of `reflex_vm::abi`. The owner keeps the code and all that it refers to, except
        // for the program, whose cells are the only way to reach it.
        let code = unsafe { Compiled::new(published.address(entry), Arc::new(owner)) };
        let reservation = Arc::clone(&published.reservation);
        Ok(CompiledTrace { code, exits, reservation })
    }
}

/// A method that was compiled, with its share of the budget.
pub(crate) struct CompiledMethod {
    pub(crate) sites: Entries,
    pub(crate) reservation: Arc<Reservation>,
}

impl TraceSink for Compiler {
    fn trace_limit(&self) -> usize {
        self.trace_limit
    }

    fn is_method(&self, program: &Program, func: u32) -> bool {
        self.store.is_method(program, func)
    }

    fn complete(
        &self,
        program: &Arc<Program>,
        anchor: TraceAnchor,
        trace: Trace,
        step: &Step<'_>,
    ) -> Result<(), Bailout> {
        if self.worker.is_none() {
            return match anchor {
                TraceAnchor::Site(site) => self.root_trace(program, site, trace, step.quiesce),
                TraceAnchor::SideExit(from) => self.side_trace(program, &from, trace, step.quiesce),
            };
        }
        let task = match anchor {
            TraceAnchor::Site(site) => CompileTask::RootTrace(site, Box::new(trace)),
            TraceAnchor::SideExit(from) => CompileTask::SideTrace(from, Box::new(trace)),
        };
        self.submit(program, task).unwrap_or(Ok(()))
    }

    fn compile_method(&self, program: &Arc<Program>, func: u32, step: &Step<'_>) {
        self.request_method_from(program, func, step.quiesce);
    }
}

impl MethodCompiler for Compiler {
    fn request_method(&self, program: &Arc<Program>, func: u32) {
        self.request_method_from(program, func, NO_SESSION);
    }
}

impl BackgroundCompiler for Compiler {
    fn compile(&self, program: &Arc<Program>, task: CompileTask) -> Result<(), Bailout> {
        match task {
            CompileTask::RootTrace(site, trace) => {
                return self.root_trace(program, site, *trace, NO_SESSION);
            }
            CompileTask::SideTrace(from, trace) => {
                if let Err(reason) = self.side_trace(program, &from, *trace, NO_SESSION) {
                    program.count_bailout(from.exits.site, &reason);
                }
            }
            CompileTask::Method(func) => self.install_method(program, func, NO_SESSION),
            CompileTask::WatchedMethod(func) => self.install_watched(program, func),
        }
        Ok(())
    }

    fn code_bytes(&self) -> usize {
        self.store.budget.live()
    }
}

/// The bailout reason that a failure of code generation is counted as.
fn bailout(error: JitError) -> Bailout {
    if error.is_memory() {
        return Bailout::CodeMemoryFull;
    }
    Bailout::Codegen { message: error.to_string() }
}
