//! What makes code for the sites of programs: of recorded traces, and of whole functions.
//!
//! Code is made on the calling thread or on the engine's own, as the tier's options say.
//!
//! A trace follows one way through the code. What follows on a guard that fails often becomes a
//! trace too (`bridge`). When these are many, or a function calls itself, all ways matter, and the
//! function at hand is compiled whole: its code is put in the cells of its entry and its loops,
//! where it takes the place of traces. Rejected: traces alone (a tree of code for every combination
//! of branches; what is shared behind them is compiled again and again).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use reflex_vm::abi::CodePtr;
use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled};

use crate::assemble::{Assembler, Published};
use crate::bridge::Exits;
use crate::compile;
use crate::force::ForcedExits;
use crate::image::Saved;
use crate::report::{CodeReport, TraceReport};
use crate::tier::bailout;
use crate::trace::codegen::{self, Attached};
use crate::trace::ir::Trace;
use crate::trace::materialise::Recipes;
use crate::trace::optimise::optimise;
use crate::trace::record::Goal;
use crate::worker::{Job, Order, Work, Worker};

/// Makes code, on whichever thread.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) assembler: Assembler,
    pub(crate) force: Option<Arc<ForcedExits>>,
    /// Each time a guard has failed so often (a power of two), it is asked whether the function
    /// should be compiled whole.
    pub(crate) exit_threshold: u64,
    /// Most instructions of a trace.
    pub(crate) trace_limit: usize,
    /// Compiles behind the interpreter's back; without it, code is made at once.
    pub(crate) worker: Option<Worker>,
    /// Reports of the traces and functions compiled so far.
    pub(crate) traces: Mutex<Vec<TraceReport>>,
    pub(crate) functions: Mutex<Vec<CodeReport>>,
    /// Code that was found in a file, by program.
    pub(crate) saved: Mutex<HashMap<u64, Saved>>,
    /// Exits of traces, by the trace's number.
    pub(crate) exits: Mutex<HashMap<u64, Weak<Exits>>>,
    /// Where exits go on that have no bridge.
    pub(crate) exit: CodePtr,
    /// Functions that are or will be compiled whole, by program.
    pub(crate) whole: Mutex<HashSet<(u64, u32)>>,
    /// The engine, for code that outlives whoever asked for it.
    pub(crate) this: Weak<Engine>,
}

// SAFETY: `exit` is the address of immutable code; everything else may be shared.
unsafe impl Send for Engine {}
// SAFETY: as for Send.
unsafe impl Sync for Engine {}

/// Everything that the code of one trace refers to.
#[derive(Debug)]
pub(crate) struct TraceCode {
    pub(crate) published: Published,
    _force: Option<Arc<ForcedExits>>,
    _recipes: Arc<Recipes>,
    pub(crate) exits: Arc<Exits>,
}

impl Engine {
    /// What the interpreter does with a complete trace.
    pub(crate) fn complete(
        &self,
        program: &Arc<Program>,
        goal: Goal,
        trace: Trace,
    ) -> Result<Option<Compiled>, Bailout> {
        let Some(worker) = &self.worker else {
            return match goal {
                Goal::Site(site) => self.trace(program, site, None, trace).map(Some),
                Goal::Exit(exits, exit) => self.bridge(program, &exits, exit, trace).map(|()| None),
            };
        };
        let work = match goal {
            Goal::Site(site) => Work::Trace(site, Box::new(trace)),
            Goal::Exit(exits, exit) => Work::Bridge(exits, exit, Box::new(trace)),
        };
        worker.submit(
            Order { program: Arc::downgrade(program), work },
            program.id(),
            &self.this,
        )?;
        Ok(None)
    }

    /// The state of a trace that was handed to the worker.
    pub(crate) fn job(&self, key: (u64, SiteId)) -> Option<Job> {
        self.worker.as_ref().and_then(|worker| worker.take(key))
    }

    /// Whether a function is or will be compiled whole.
    pub(crate) fn is_whole(&self, program: &Program, func: u32) -> bool {
        let whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        whole.contains(&(program.id(), func))
    }

    /// Has a function compiled whole and installed at its entry and loops, once.
    pub(crate) fn whole(&self, program: &Arc<Program>, func: u32) {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if !whole.insert((program.id(), func)) {
            return;
        }
        drop(whole);
        let Some(worker) = &self.worker else {
            return self.install_whole(program, func);
        };
        let order = Order { program: Arc::downgrade(program), work: Work::Whole(func) };
        if let Err(reason) = worker.submit(order, program.id(), &self.this) {
            program.count(SiteId(func), &reason);
        }
    }

    /// Compiles a function whole and installs it at its entry and loops.
    pub(crate) fn install_whole(&self, program: &Program, func: u32) {
        let code = program.function(func).filter(|code| !code.is_foreign);
        let Some(code) = code else { return };
        match self.function(program, code) {
            Ok(sites) => {
                for (site, compiled) in sites {
                    program.install(site, &compiled);
                }
            }
            Err(reason) => program.count(SiteId(func), &reason),
        }
    }

    /// Code of a function that was found in a file: for its entry, then for its loops.
    pub(crate) fn saved_function(
        &self,
        program: u64,
        func: u32,
    ) -> Option<Vec<(SiteId, Compiled)>> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.get(&program)?.functions.get(&func).cloned()
    }

    /// Compiles a function whole: code for its entry, then for its loops.
    pub(crate) fn function(
        &self,
        program: &Program,
        func: &FuncCode,
    ) -> Result<Vec<(SiteId, Compiled)>, Bailout> {
        let unit = self.assembler.unit(format!("reflex {}", program.name(func.index)));
        let function = compile::compile(unit, program, func)?;
        let code = self.assembler.publish(function.unit, Some(program)).map_err(bailout)?;
        let code = Arc::new(code);
        let report =
            CodeReport { program: program.id(), func: func.index, code_bytes: code.size() };
        self.functions.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        let entries = std::iter::once((SiteId(func.index), function.entry)).chain(function.loops);
        let sites = entries.map(|(site, entry)| {
            // SAFETY: `compile` writes code that follows the protocol of `reflex_vm::abi` for the
            // entry and the loops of the function it is given, and the owner keeps it mapped.
            (site, unsafe { Compiled::new(code.address(entry), Arc::clone(&code) as _) })
        });
        Ok(sites.collect())
    }

    /// The exits of a trace that is still there.
    pub(crate) fn exits(&self, trace: u64) -> Option<Arc<Exits>> {
        let all = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&trace)?.upgrade()
    }

    /// Compiles a trace recorded from an exit and links it there.
    pub(crate) fn bridge(
        &self,
        program: &Arc<Program>,
        exits: &Exits,
        exit: u32,
        trace: Trace,
    ) -> Result<(), Bailout> {
        let made = self.trace(program, exits.site, Some((exits, exit)), trace);
        exits.link(exit, &made.inspect_err(|_| exits.refuse())?);
        Ok(())
    }

    /// Compiles a trace recorded at `site` of `program`, or from an exit of a trace there.
    pub(crate) fn trace(
        &self,
        program: &Arc<Program>,
        site: SiteId,
        from: Option<(&Exits, u32)>,
        mut trace: Trace,
    ) -> Result<Compiled, Bailout> {
        let recorded = trace.to_string();
        optimise(program, &mut trace);
        let parent = from.map(|(exits, _)| exits);
        let (place, exits) = ((site, trace.frames[0].func), (trace.exits.len(), self.exit));
        let exits = Arc::new(Exits::new(&self.this, program, place, exits, parent));
        let attached = Attached {
            force: self.force.clone(),
            exits: Arc::clone(&exits),
            exit_threshold: self.exit_threshold,
            recipes: Arc::new(Recipes::of(&trace)),
        };
        let label = format!("reflex trace {}@{}", trace.frames[0].name, trace.start_pc);
        let mut unit = self.assembler.unit(label);
        let entry = codegen::translate(&mut unit, program, &trace, &attached)?;
        let published = self.assembler.publish(unit, Some(program)).map_err(bailout)?;
        let (address, code_bytes) = (published.address(entry), published.size());
        let owner = Arc::new(TraceCode {
            published,
            _force: attached.force,
            _recipes: attached.recipes,
            exits: Arc::clone(&exits),
        });
        let mut all = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, exits| exits.strong_count() > 0);
        all.insert(exits.id, Arc::downgrade(&exits));
        drop(all);
        let report = TraceReport {
            program: program.id(),
            site,
            bridge: from.map(|(exits, exit)| (exits.id, exit)),
            number: exits.id,
            recorded,
            text: trace.to_string(),
            guards: trace.guards(),
            exit_names: trace.exits.iter().map(|exit| trace.name(exit)).collect(),
            code_bytes,
            taken: Arc::clone(&exits.taken),
            code: Arc::downgrade(&owner),
        };
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        // SAFETY: the trace was recorded at this site and its code follows the protocol of
        // `reflex_vm::abi`; the owner keeps the code and all that it refers to, except for the
        // program, whose cells are the only way to reach it.
        Ok(unsafe { Compiled::new(address, owner) })
    }
}
