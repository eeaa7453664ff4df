//! What makes code for the sites of programs: of recorded traces, and of whole functions.
//!
//! Code is made on the calling thread or on the engine's own, as the tier's options say.
//!
//! A trace follows one way through the code. What follows on a guard that fails often becomes a
//! trace too (`bridge`). When these are many, or a function calls itself at several places, all ways
//! matter, and the function at hand is compiled whole: its code is put in the cells of its entry and
//! its loops, where it takes the place of traces. Rejected: traces alone (a tree of code for every combination
//! of branches; what is shared behind them is compiled again and again).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use reflex_vm::abi::CodePtr;
use reflex_vm::decode::{FuncCode, SiteId};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled};

use crate::assemble::{Assembler, Published, Unit};
use crate::bridge::Exits;
use crate::compile;
use crate::error::JitError;
use crate::evict::{Resident, Usage};
use crate::force::ForcedExits;
use crate::image::Saved;
use crate::report::{MethodReport, ParentExit, TraceReport};
use crate::room::Share;
use crate::tier::bailout;
use crate::trace::codegen::{self, Attached};
use crate::trace::ir::Trace;
use crate::trace::materialise::Recipes;
use crate::trace::optimise::optimise;
use crate::trace::record::Goal;
use crate::tries::{Key, Tries};
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
    pub(crate) functions: Mutex<Vec<MethodReport>>,
    /// Code that was found in a file, by program.
    pub(crate) saved: Mutex<HashMap<u64, Saved>>,
    /// Exits of traces, by the trace's number.
    pub(crate) exits: Mutex<HashMap<u64, Weak<Exits>>>,
    /// Where exits go on that have no bridge.
    pub(crate) exit: CodePtr,
    /// Functions that are or will be compiled whole, by their entries.
    pub(crate) whole: Mutex<HashSet<Key>>,
    /// Code that makes room for other code; see `evict`.
    pub(crate) residents: Mutex<Vec<Resident>>,
    /// What was tried where.
    pub(crate) tries: Tries,
    /// How often new code is taken to have run.
    pub(crate) warmth: u64,
    /// The engine, for code that outlives whoever asked for it.
    pub(crate) this: Weak<Engine>,
}

// SAFETY: `exit` is the address of immutable code; everything else may be shared.
unsafe impl Send for Engine {}
// SAFETY: as for Send.
unsafe impl Sync for Engine {}

/// Has the session that asks for code let go of code that was evicted, as far as it can.
pub(crate) type LetGo<'a> = &'a dyn Fn();

/// Of whoever is no session, or is in native code.
pub(crate) const NOBODY: LetGo<'static> = &|| {};

/// Code for the entry of a function, then for its loops.
pub(crate) type Entries = Vec<(SiteId, Compiled)>;

/// Everything that the code of one trace refers to.
#[derive(Debug)]
pub(crate) struct TraceCode {
    pub(crate) published: Published,
    _force: Option<Arc<ForcedExits>>,
    _recipes: Arc<Recipes>,
    _exits: Arc<Exits>,
}

/// Everything that the code of a function that was compiled whole refers to.
#[derive(Debug)]
pub(crate) struct WholeCode {
    pub(crate) published: Published,
    _usage: Option<Arc<Usage>>,
}

impl Engine {
    /// What the interpreter does with a complete trace.
    pub(crate) fn complete(
        &self,
        program: &Arc<Program>,
        goal: Goal,
        trace: Trace,
        let_go: LetGo<'_>,
    ) -> Result<(), Bailout> {
        let Some(worker) = &self.worker else {
            return match goal {
                Goal::Site(site) => self.root(program, site, trace, let_go),
                Goal::Exit(exits, exit) => self.bridge(program, (&exits, exit), trace, let_go),
            };
        };
        let work = match goal {
            Goal::Site(site) => Work::Trace(site, Box::new(trace)),
            Goal::Exit(exits, exit) => Work::Bridge(exits, exit, Box::new(trace)),
        };
        let order = Order { program: Arc::downgrade(program), work };
        worker.submit(order, program.id(), &self.this)
    }

    /// The state of a trace that was handed to the worker.
    pub(crate) fn job(&self, key: (u64, SiteId)) -> Option<Job> {
        self.worker.as_ref().and_then(|worker| worker.take(key))
    }

    /// Whether a trace was handed to the worker, which has not said what became of it.
    pub(crate) fn is_being_compiled(&self, key: (u64, SiteId)) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.is_pending(key))
    }

    /// Why a trace was not compiled, where nobody has asked since.
    pub(crate) fn untold(&self, key: (u64, SiteId)) -> Option<Bailout> {
        self.worker.as_ref().and_then(|worker| worker.untold(key))
    }

    /// Whether a function is or will be compiled whole.
    pub(crate) fn is_whole(&self, program: &Program, func: u32) -> bool {
        let whole = self.whole.lock();
        whole.contains(&(program.id(), SiteId(func)))
    }

    /// Has a function compiled whole and installed at its entry and loops, once.
    pub(crate) fn whole(&self, program: &Arc<Program>, func: u32, let_go: LetGo<'_>) {
        let mut whole = self.whole.lock();
        if !whole.insert((program.id(), SiteId(func))) {
            return;
        }
        drop(whole);
        let Some(worker) = &self.worker else {
            return self.install_whole(program, func, let_go);
        };
        let order = Order { program: Arc::downgrade(program), work: Work::Whole(func) };
        if let Err(reason) = worker.submit(order, program.id(), &self.this) {
            program.count_bailout(SiteId(func), &reason);
        }
    }

    /// Compiles a function whole and installs it at its entry and loops.
    pub(crate) fn install_whole(&self, program: &Arc<Program>, func: u32, let_go: LetGo<'_>) {
        let code = program.function(func).filter(|code| !code.is_foreign);
        let Some(code) = code else { return };
        let usage = Arc::<Usage>::default();
        match self.function(program, code, Some(&usage), let_go) {
            Ok((sites, share)) => self.settle_whole(program, func, &sites, (share, usage)),
            Err(reason) => {
                let key = (program.id(), SiteId(func));
                if reason == Bailout::CodeMemoryFull {
                    self.tries.put_off(key);
                    self.whole.lock().remove(&key);
                }
                program.count_bailout(key.1, &reason);
            }
        }
    }

    /// Code of a function that was found in a file: for its entry, then for its loops.
    pub(crate) fn saved_function(&self, program: u64, func: u32) -> Option<Entries> {
        let saved = self.saved.lock();
        saved.get(&program)?.functions.get(&func).cloned()
    }

    /// Compiles a unit and publishes its code, for which room is made.
    fn publish(
        &self,
        unit: Unit,
        program: &Program,
        let_go: LetGo<'_>,
    ) -> Result<Published, Bailout> {
        let (assembler, room) = (&self.assembler, &self.assembler.room);
        // What will not fit need not be compiled.
        if !room.has(1) && !self.make_room(1, let_go) {
            return Err(Bailout::CodeMemoryFull);
        }
        let assembled = assembler.assemble(unit).map_err(bailout)?;
        let bytes = assembled.text.len();
        let share =
            room.share(bytes).or_else(|full: JitError| match self.make_room(bytes, let_go) {
                true => room.share(bytes),
                false => Err(full),
            });
        let placed = share.and_then(|share| assembler.place_in(share, assembled, Some(program)));
        placed.map_err(bailout)
    }

    /// Compiles a function whole: code for its entry, then for its loops. Code that may be evicted
    /// counts its use.
    pub(crate) fn function(
        &self,
        program: &Program,
        func: &FuncCode,
        usage: Option<&Arc<Usage>>,
        let_go: LetGo<'_>,
    ) -> Result<(Entries, Arc<Share>), Bailout> {
        let unit = self.assembler.unit(format!("reflex {}", program.name(func.index)));
        let function = compile::compile(unit, program, func, usage.map(|usage| &usage.runs))?;
        let published = self.publish(function.unit, program, let_go)?;
        let usage = usage.cloned();
        let code = Arc::new(WholeCode { published, _usage: usage.clone() });
        let report = MethodReport {
            program: program.id(),
            func: func.index,
            code_bytes: code.published.size(),
            lowered: function.lowered,
            usage,
            code: Arc::downgrade(&code),
        };
        self.functions.lock().push(report);
        let entries = std::iter::once((SiteId(func.index), function.entry)).chain(function.loops);
        let sites = entries.map(|(site, entry)| {
            let address = code.published.address(entry);
            // SAFETY: `compile` writes code that follows the protocol of `reflex_vm::abi` for the
            // entry and the loops of the function it is given, and the owner keeps it mapped.
            (site, unsafe { Compiled::new(address, Arc::clone(&code) as _) })
        });
        Ok((sites.collect(), Arc::clone(&code.published.share)))
    }

    /// The exits of a trace that is still there.
    pub(crate) fn exits(&self, trace: u64) -> Option<Arc<Exits>> {
        let all = self.exits.lock();
        all.get(&trace)?.upgrade().filter(|exits| !exits.usage.evicted.load(Ordering::Relaxed))
    }

    /// Compiles a trace recorded at a site and installs it there.
    pub(crate) fn root(
        &self,
        program: &Arc<Program>,
        site: SiteId,
        trace: Trace,
        let_go: LetGo<'_>,
    ) -> Result<(), Bailout> {
        let made = self.trace(program, (site, None), trace, let_go);
        let (code, exits, share) = made.inspect_err(|reason| {
            if *reason == Bailout::CodeMemoryFull {
                self.tries.put_off((program.id(), site));
            }
        })?;
        self.settle_trace(program, exits, &code, share);
        Ok(())
    }

    /// Compiles a trace recorded from an exit and links it there.
    pub(crate) fn bridge(
        &self,
        program: &Arc<Program>,
        (exits, exit): (&Arc<Exits>, u32),
        trace: Trace,
        let_go: LetGo<'_>,
    ) -> Result<(), Bailout> {
        let made = self.trace(program, (exits.site, Some((exits, exit))), trace, let_go);
        let (code, own, share) = made.inspect_err(|reason| match reason {
            Bailout::CodeMemoryFull => exits.put_off(exit, self.exit_threshold),
            _ => exits.refuse(),
        })?;
        self.settle_bridge(program, (exits, exit), own, &code, share)
    }

    /// Compiles a trace recorded at `site` of `program`, or from an exit of a trace there.
    pub(crate) fn trace(
        &self,
        program: &Arc<Program>,
        (site, from): (SiteId, Option<(&Exits, u32)>),
        mut trace: Trace,
        let_go: LetGo<'_>,
    ) -> Result<(Compiled, Arc<Exits>, Arc<Share>), Bailout> {
        let recorded = trace.clone();
        optimise(program, &mut trace);
        let parent = from.map(|(exits, _)| exits);
        let (place, exits) = ((site, trace.frames[0].func), (trace.exits.len(), self.exit));
        let exits = Arc::new(Exits::new(&self.this, program, place, exits, parent));
        let attached = Attached {
            force: self.force.clone(),
            exits: Arc::clone(&exits),
            exit_threshold: self.exit_threshold,
            recipes: Arc::new(Recipes::of(program, &trace)),
        };
        let label = format!("reflex trace {}@{}", trace.frames[0].name, trace.start_pc);
        let mut unit = self.assembler.unit(label);
        let entry = codegen::translate(&mut unit, program, &trace, &attached)?;
        let published = self.publish(unit, program, let_go)?;
        let share = Arc::clone(&published.share);
        let (address, code_bytes) = (published.address(entry), published.size());
        let owner = Arc::new(TraceCode {
            published,
            _force: attached.force,
            _recipes: attached.recipes,
            _exits: Arc::clone(&exits),
        });
        let mut all = self.exits.lock();
        all.retain(|_, exits| exits.strong_count() > 0);
        all.insert(exits.id, Arc::downgrade(&exits));
        drop(all);
        let report = TraceReport {
            program: program.id(),
            site,
            parent: from.map(|(exits, exit)| ParentExit { trace: exits.id, exit }),
            number: exits.id,
            recorded: Arc::new(recorded),
            trace: Arc::new(trace),
            code_bytes,
            taken: Arc::clone(&exits.taken),
            usage: Arc::clone(&exits.usage),
            code: Arc::downgrade(&owner),
        };
        self.traces.lock().push(report);
        // SAFETY: the trace was recorded at this site and its code follows the protocol of
        // `reflex_vm::abi`; the owner keeps the code and all that it refers to, except for the
        // program, whose cells are the only way to reach it.
        Ok((unsafe { Compiled::new(address, owner) }, exits, share))
    }
}
