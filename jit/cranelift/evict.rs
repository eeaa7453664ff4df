//! Eviction: the coldest code leaves the code cache when the budget is used up.
//!
//! The residents that ran the least are evicted, with the side traces that are linked to them.
//! Every cell that leads to them is set back to the interpreter. The program frees their pages when
//! no session can be inside (`reflex_vm::program::Program::retire`). The heat of a resident halves
//! at each eviction; new code is credited with the runs that made its site hot. `penalty` decides
//! when a site is recorded again.
//!
//! Decision: docs/decisions/0014-code-eviction.md

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reflex_vm::abi::CodePtr;
use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;

use crate::options::CompileMode;
use crate::penalty::SiteKey;
use crate::side_exits::SideExits;
use crate::store::{CodeStore, Resident, ResidentKind};
use crate::usage::Usage;

/// Times that the background thread waits for sessions to leave evicted code, and for how long.
const RECLAIM_ROUNDS: usize = 8;
const RECLAIM_WAIT: Duration = Duration::from_millis(1);

/// Makes the requesting session release evicted code, as far as it can.
pub(crate) type Quiesce<'a> = &'a dyn Fn();

/// For requests that come from no session, or from one that runs native code.
pub(crate) const NO_SESSION: Quiesce<'static> = &|| {};

impl Resident {
    fn usage(&self) -> &Usage {
        match &self.kind {
            ResidentKind::RootTrace { exits, .. } | ResidentKind::SideTrace { exits, .. } => {
                &exits.usage
            }
            ResidentKind::Method { usage, .. } => usage,
        }
    }

    /// Halves the heat and adds the runs since the last eviction.
    fn decay(&mut self) {
        let runs = self.usage().runs.load(Ordering::Relaxed);
        self.heat = self.heat / 2 + runs.saturating_sub(self.counted);
        self.counted = runs;
    }

    /// Returns true if this is a side trace of `trace`.
    fn is_side_trace_of(&self, trace: &SideExits) -> bool {
        match &self.kind {
            ResidentKind::SideTrace { parent, .. } => parent.exits.id == trace.id,
            ResidentKind::RootTrace { .. } | ResidentKind::Method { .. } => false,
        }
    }

    fn exits(&self) -> Option<&Arc<SideExits>> {
        match &self.kind {
            ResidentKind::RootTrace { exits, .. } | ResidentKind::SideTrace { exits, .. } => {
                Some(exits)
            }
            ResidentKind::Method { .. } => None,
        }
    }
}

impl CodeStore {
    /// Evicts code until `bytes` more fit; returns true if they fit now. Sessions may still be
    /// inside evicted code: the requesting one releases it, the background thread waits a little
    /// for the others.
    pub(crate) fn evict_for(&self, bytes: usize, quiesce: Quiesce<'_>) -> bool {
        let mut residents = self.residents();
        residents.retain(|resident| resident.program.strong_count() > 0);
        let programs = programs_of(&residents);
        // Earlier evictions may be over by now.
        programs.iter().for_each(|program| _ = program.reclaim());
        let Some(missing) = self.budget.bytes_to_evict(bytes) else { return false };
        if missing > 0 {
            let all: usize = residents.iter().map(|resident| resident.reservation.bytes()).sum();
            if all < missing {
                return false;
            }
            residents.iter_mut().for_each(Resident::decay);
            let mut evicted = 0;
            while evicted < missing {
                let coldest = (0..residents.len()).min_by_key(|&at| residents[at].heat);
                let Some(coldest) = coldest else { break };
                evicted += self.evict(&mut residents, coldest);
            }
        }
        drop(residents);
        quiesce();
        self.reclaim(&programs, bytes)
    }

    /// Frees evicted code that no session is inside of; returns true if `bytes` fit now.
    fn reclaim(&self, programs: &[Arc<Program>], bytes: usize) -> bool {
        let waits = self.compile_mode == CompileMode::Background;
        for _ in 0..if waits { RECLAIM_ROUNDS } else { 1 } {
            programs.iter().for_each(|program| _ = program.reclaim());
            if self.budget.fits(bytes) {
                break;
            }
            if waits {
                std::thread::sleep(RECLAIM_WAIT);
            }
        }
        self.budget.fits(bytes)
    }

    /// Evicts a resident and the side traces that are linked to it; returns their bytes.
    fn evict(&self, residents: &mut Vec<Resident>, at: usize) -> usize {
        let (mut bytes, mut codes) = (0, Vec::new());
        let first = residents.swap_remove(at);
        let program = first.program.upgrade();
        let mut open = vec![first];
        while let Some(resident) = open.pop() {
            if let Some(exits) = resident.exits() {
                open.extend(residents.extract_if(.., |other| other.is_side_trace_of(exits)));
            }
            resident.usage().mark_evicted();
            bytes += resident.reservation.bytes();
            resident.reservation.retire();
            if let Some(program) = &program {
                self.unlink(program, &resident.kind, &mut codes);
            }
        }
        if let Some(program) = program {
            program.retire(&codes);
        }
        bytes
    }

    /// Sets every cell that leads to a resident back to the interpreter.
    fn unlink(&self, program: &Program, kind: &ResidentKind, codes: &mut Vec<CodePtr>) {
        let key = |site| SiteKey { program: program.id(), site };
        match kind {
            ResidentKind::RootTrace { code, exits } => {
                codes.push(code.0);
                // A trace that was replaced at its site brings no penalty.
                if program.uninstall(exits.site, code.0) {
                    self.penalties.penalise(key(exits.site));
                }
                self.penalties.count_eviction(key(exits.site));
            }
            ResidentKind::SideTrace { code, exits, parent } => {
                codes.push(code.0);
                parent.exits.unlink(parent.exit, code.0, self.exit_policy);
                self.penalties.count_eviction(key(exits.site));
            }
            ResidentKind::Method { func, sites, .. } => {
                for (site, code) in sites {
                    codes.push(code.0);
                    program.uninstall(*site, code.0);
                    self.penalties.penalise(key(*site));
                }
                self.penalties.count_eviction(key(SiteId(*func)));
                self.method_keys().remove(&key(SiteId(*func)));
            }
        }
    }
}

/// The programs of residents, each once.
fn programs_of(residents: &[Resident]) -> Vec<Arc<Program>> {
    let mut programs: Vec<Arc<Program>> = Vec::new();
    for program in residents.iter().filter_map(|resident| resident.program.upgrade()) {
        if !programs.iter().any(|known| known.id() == program.id()) {
            programs.push(program);
        }
    }
    programs
}
