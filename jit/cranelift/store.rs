//! The code store: all code that a tier has made, where it is installed, and reports of it.
//!
//! Traces, side traces and methods that were compiled because they were hot are *residents*: they
//! may be evicted for other code (`evict`). Functions that were compiled ahead of time, or loaded
//! from a file, are not: sessions in compiled mode count nothing, so nothing would compile them
//! again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use reflex_vm::abi::CodePtr;
use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled};

use crate::assemble::budget::{CodeBudget, Reservation};
use crate::options::CompileMode;
use crate::penalty::{Penalties, SiteKey};
use crate::report::{MethodReport, TraceReport};
use crate::saved_code::SavedCode;
use crate::side_exits::{ExitPolicy, ExitRef, SideExits};
use crate::usage::Usage;

/// Code for the entry of a function, then for its loops.
pub(crate) type Entries = Vec<(SiteId, Compiled)>;

/// All code of a tier.
#[derive(Debug)]
pub(crate) struct CodeStore {
    pub(crate) budget: Arc<CodeBudget>,
    pub(crate) penalties: Penalties,
    pub(crate) exit_policy: ExitPolicy,
    pub(crate) compile_mode: CompileMode,
    /// Runs that new code is credited with: as many as made its site hot.
    pub(crate) initial_heat: u64,
    traces: Mutex<Vec<TraceReport>>,
    methods: Mutex<Vec<MethodReport>>,
    /// Code that was loaded from a file, by program.
    saved: Mutex<HashMap<u64, SavedCode>>,
    /// Side exits of traces, by the number of the trace.
    exits: Mutex<HashMap<u64, Weak<SideExits>>>,
    /// Functions that are or will be compiled as methods, by the sites of their entries.
    method_keys: Mutex<HashSet<SiteKey>>,
    residents: Mutex<Vec<Resident>>,
}

/// Code that may be evicted.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) program: Weak<Program>,
    pub(crate) kind: ResidentKind,
    pub(crate) reservation: Arc<Reservation>,
    /// Decayed number of runs, as of the last eviction.
    pub(crate) heat: u64,
    /// Runs counted at the last eviction.
    pub(crate) counted: u64,
}

/// The kind of a resident, and the cells that lead to it.
#[derive(Debug)]
pub(crate) enum ResidentKind {
    RootTrace {
        code: CodeAddress,
        exits: Arc<SideExits>,
    },
    /// A trace that is linked to a side exit of its parent.
    SideTrace {
        code: CodeAddress,
        exits: Arc<SideExits>,
        parent: ExitRef,
    },
    Method {
        func: u32,
        sites: Vec<(SiteId, CodeAddress)>,
        usage: Arc<Usage>,
    },
}

/// The address of code, for comparison only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeAddress(pub(crate) CodePtr);

// SAFETY: the address is compared with others; nothing is read through it.
unsafe impl Send for CodeAddress {}

/// A trace that was compiled, with its share of the budget.
pub(crate) struct CompiledTrace {
    pub(crate) code: Compiled,
    pub(crate) exits: Arc<SideExits>,
    pub(crate) reservation: Arc<Reservation>,
}

impl Resident {
    fn new(
        program: &Arc<Program>,
        kind: ResidentKind,
        reservation: Arc<Reservation>,
        heat: u64,
    ) -> Resident {
        Resident { program: Arc::downgrade(program), kind, reservation, heat, counted: 0 }
    }
}

impl CodeStore {
    /// An empty store.
    pub(crate) fn new(
        budget: Arc<CodeBudget>,
        exit_policy: ExitPolicy,
        compile_mode: CompileMode,
        initial_heat: u64,
    ) -> CodeStore {
        CodeStore {
            budget,
            penalties: Penalties::default(),
            exit_policy,
            compile_mode,
            initial_heat,
            traces: Mutex::default(),
            methods: Mutex::default(),
            saved: Mutex::default(),
            exits: Mutex::default(),
            method_keys: Mutex::default(),
            residents: Mutex::default(),
        }
    }

    pub(crate) fn residents(&self) -> MutexGuard<'_, Vec<Resident>> {
        self.residents.lock()
    }

    pub(crate) fn traces(&self) -> MutexGuard<'_, Vec<TraceReport>> {
        self.traces.lock()
    }

    pub(crate) fn methods(&self) -> MutexGuard<'_, Vec<MethodReport>> {
        self.methods.lock()
    }

    pub(crate) fn saved(&self) -> MutexGuard<'_, HashMap<u64, SavedCode>> {
        self.saved.lock()
    }

    pub(crate) fn method_keys(&self) -> MutexGuard<'_, HashSet<SiteKey>> {
        self.method_keys.lock()
    }

    /// Returns true if a function is, is to be, or could not be compiled as a method.
    pub(crate) fn is_method(&self, program: &Program, func: u32) -> bool {
        self.method_keys().contains(&SiteKey { program: program.id(), site: SiteId(func) })
    }

    /// Code of a function that was loaded from a file: for its entry, then for its loops.
    pub(crate) fn saved_function(&self, program: u64, func: u32) -> Option<Entries> {
        self.saved().get(&program)?.functions.get(&func).cloned()
    }

    /// The side exits of a trace that still exists.
    pub(crate) fn exits(&self, trace: u64) -> Option<Arc<SideExits>> {
        let all = self.exits.lock();
        all.get(&trace)?.upgrade().filter(|exits| !exits.usage.is_evicted())
    }

    /// Registers the side exits of a new trace.
    pub(crate) fn add_exits(&self, exits: &Arc<SideExits>) {
        let mut all = self.exits.lock();
        all.retain(|_, exits| exits.strong_count() > 0);
        all.insert(exits.id, Arc::downgrade(exits));
    }

    /// Installs a trace at the site where it was recorded, unless the site has other code by now.
    pub(crate) fn install_root_trace(&self, program: &Arc<Program>, trace: CompiledTrace) {
        let CompiledTrace { code, exits, reservation } = trace;
        let mut residents = self.residents();
        if program.install_if_vacant(exits.site, &code) {
            let kind = ResidentKind::RootTrace { code: CodeAddress(code.code()), exits };
            residents.push(Resident::new(program, kind, reservation, self.initial_heat));
        }
    }

    /// Links a trace to a side exit of its parent, unless the parent was evicted.
    pub(crate) fn link_side_trace(
        &self,
        program: &Arc<Program>,
        parent: &ExitRef,
        trace: CompiledTrace,
    ) -> Result<(), Bailout> {
        let CompiledTrace { code, exits, reservation } = trace;
        let mut residents = self.residents();
        if parent.exits.usage.is_evicted() {
            return Err(Bailout::Evicted);
        }
        program.retain(&code);
        parent.exits.link(parent.exit, code.code());
        let code = CodeAddress(code.code());
        let kind = ResidentKind::SideTrace { code, exits, parent: parent.clone() };
        residents.push(Resident::new(program, kind, reservation, self.initial_heat));
        Ok(())
    }

    /// Installs a method at the entry and the loops of its function, whose traces for the returns of
    /// calls are not entered any more: each follows one of the paths that the method has all of.
    pub(crate) fn install_method(
        &self,
        program: &Arc<Program>,
        func: u32,
        sites: &[(SiteId, Compiled)],
        usage: Arc<Usage>,
        reservation: Arc<Reservation>,
    ) {
        let mut residents = self.residents();
        for (site, compiled) in sites {
            program.install(*site, compiled);
        }
        let returns = program.function(func).map(|func| &func.returns[..]).unwrap_or_default();
        for resident in residents.iter() {
            if let ResidentKind::RootTrace { code, exits } = &resident.kind
                && resident.program.as_ptr() == Arc::as_ptr(program)
                && returns.iter().any(|&(_, site)| site == exits.site)
            {
                program.uninstall(exits.site, code.0);
            }
        }
        let sites = sites.iter().map(|(site, code)| (*site, CodeAddress(code.code()))).collect();
        let kind = ResidentKind::Method { func, sites, usage };
        residents.push(Resident::new(program, kind, reservation, self.initial_heat));
    }
}
