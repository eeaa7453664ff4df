//! Making room: the coldest code is given up.
//!
//! Traces, bridges and functions that were compiled whole because they were hot are *residents*.
//! When there is no room for more code, those that ran the least go, with the bridges that follow
//! on them: every cell that leads to them is set back to the interpreter, and the program frees
//! their pages when no session can be inside (`reflex_vm::program::Program::retire`). How often a
//! resident ran counts half as much each time that room is made; what is new is taken to have run
//! as often as it took to become hot. When a place is due again is in `tries`.
//!
//! Functions that were compiled ahead of time, or found in a file, are no residents: sessions in
//! compiled mode count nothing, so nothing would bring them back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::MutexGuard;
use reflex_vm::abi::CodePtr;
use reflex_vm::decode::SiteId;
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Compiled};

use crate::bridge::Exits;
use crate::engine::{Engine, LetGo};
use crate::room::Share;

/// How long the engine's thread waits for sessions to leave what was given up, a few times.
const PATIENCE: Duration = Duration::from_millis(1);
const ROUNDS: usize = 8;

/// What is known of a piece of code, also when it is gone.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Times that it was entered; generated code counts here.
    pub(crate) runs: AtomicU64,
    pub(crate) evicted: AtomicBool,
}

/// Code that may be given up.
#[derive(Debug)]
pub(crate) struct Resident {
    program: Weak<Program>,
    what: What,
    share: Arc<Share>,
    /// How much it ran until room was made last, and its count then.
    heat: u64,
    seen: u64,
}

#[derive(Debug)]
enum What {
    Trace {
        code: Address,
        exits: Arc<Exits>,
    },
    /// A trace that an exit of another one leads to.
    Bridge {
        code: Address,
        exits: Arc<Exits>,
        from: Arc<Exits>,
        exit: u32,
    },
    Whole {
        func: u32,
        sites: Vec<(SiteId, Address)>,
        usage: Arc<Usage>,
    },
}

/// Where code is, to be compared.
#[derive(Clone, Copy, Debug)]
struct Address(CodePtr);

// SAFETY: an address that nothing is read through.
unsafe impl Send for Address {}

impl Resident {
    fn new(program: &Arc<Program>, what: What, share: Arc<Share>, heat: u64) -> Resident {
        Resident { program: Arc::downgrade(program), what, share, heat, seen: 0 }
    }

    fn usage(&self) -> &Usage {
        match &self.what {
            What::Trace { exits, .. } | What::Bridge { exits, .. } => &exits.usage,
            What::Whole { usage, .. } => usage,
        }
    }

    /// Counts what ran since the last time.
    fn cool(&mut self) {
        let runs = self.usage().runs.load(Ordering::Relaxed);
        self.heat = self.heat / 2 + runs.saturating_sub(self.seen);
        self.seen = runs;
    }

    fn follows_on(&self, trace: &Exits) -> bool {
        matches!(&self.what, What::Bridge { from, .. } if from.id == trace.id)
    }

    fn exits(&self) -> Option<&Arc<Exits>> {
        match &self.what {
            What::Trace { exits, .. } | What::Bridge { exits, .. } => Some(exits),
            What::Whole { .. } => None,
        }
    }
}

impl Engine {
    fn residents(&self) -> MutexGuard<'_, Vec<Resident>> {
        self.residents.lock()
    }

    /// Makes a trace what runs where it was recorded, unless something else does meanwhile.
    pub(crate) fn settle_trace(
        &self,
        program: &Arc<Program>,
        exits: Arc<Exits>,
        compiled: &Compiled,
        share: Arc<Share>,
    ) {
        let mut residents = self.residents();
        if program.install_if_vacant(exits.site, compiled) {
            let what = What::Trace { code: Address(compiled.code()), exits };
            residents.push(Resident::new(program, what, share, self.warmth));
        }
    }

    /// Makes a trace what runs behind exit number `exit` of another, if that is still there.
    pub(crate) fn settle_bridge(
        &self,
        program: &Arc<Program>,
        (from, exit): (&Arc<Exits>, u32),
        exits: Arc<Exits>,
        compiled: &Compiled,
        share: Arc<Share>,
    ) -> Result<(), Bailout> {
        let mut residents = self.residents();
        if from.usage.evicted.load(Ordering::Relaxed) {
            return Err(Bailout::Evicted);
        }
        program.retain(compiled);
        from.link(exit, compiled.code());
        let (code, from) = (Address(compiled.code()), Arc::clone(from));
        let what = What::Bridge { code, exits, from, exit };
        residents.push(Resident::new(program, what, share, self.warmth));
        Ok(())
    }

    /// Makes a function that was compiled whole what runs at its entry and its loops.
    pub(crate) fn settle_whole(
        &self,
        program: &Arc<Program>,
        func: u32,
        sites: &[(SiteId, Compiled)],
        (share, usage): (Arc<Share>, Arc<Usage>),
    ) {
        let mut residents = self.residents();
        for (site, compiled) in sites {
            program.install(*site, compiled);
        }
        let sites = sites.iter().map(|(site, code)| (*site, Address(code.code()))).collect();
        let what = What::Whole { func, sites, usage };
        residents.push(Resident::new(program, what, share, self.warmth));
    }

    /// Gives up code until `bytes` of it would fit; whether they do now. Sessions may still be in
    /// what was given up: the one that asks lets go of it, the engine's thread waits for others a
    /// little.
    pub(crate) fn make_room(&self, bytes: usize, let_go: LetGo<'_>) -> bool {
        let room = &self.assembler.room;
        let mut residents = self.residents();
        residents.retain(|resident| resident.program.strong_count() > 0);
        let mut programs: Vec<Arc<Program>> = Vec::new();
        for program in residents.iter().filter_map(|resident| resident.program.upgrade()) {
            if !programs.iter().any(|known| known.id() == program.id()) {
                programs.push(program);
            }
        }
        // Earlier evictions may be over by now.
        programs.iter().for_each(|program| _ = program.reclaim());
        let Some(missing) = room.missing(bytes) else { return false };
        if missing > 0 {
            let all: usize = residents.iter().map(|resident| resident.share.bytes()).sum();
            if all < missing {
                return false;
            }
            residents.iter_mut().for_each(Resident::cool);
            let mut gone = 0;
            while gone < missing {
                let coldest = (0..residents.len()).min_by_key(|&at| residents[at].heat);
                let Some(coldest) = coldest else { break };
                gone += self.evict(&mut residents, coldest);
            }
        }
        drop(residents);
        let_go();
        for _ in 0..if self.worker.is_some() { ROUNDS } else { 1 } {
            programs.iter().for_each(|program| _ = program.reclaim());
            if room.has(bytes) {
                break;
            }
            if self.worker.is_some() {
                std::thread::sleep(PATIENCE);
            }
        }
        room.has(bytes)
    }

    /// Gives up a resident and the bridges that follow on it; returns their bytes.
    fn evict(&self, residents: &mut Vec<Resident>, at: usize) -> usize {
        let (mut bytes, mut codes) = (0, Vec::new());
        let first = residents.swap_remove(at);
        let program = first.program.upgrade();
        let mut open = vec![first];
        while let Some(resident) = open.pop() {
            if let Some(exits) = resident.exits() {
                open.extend(residents.extract_if(.., |other| other.follows_on(exits)));
            }
            resident.usage().evicted.store(true, Ordering::Relaxed);
            bytes += resident.share.bytes();
            resident.share.leave();
            if let Some(program) = &program {
                self.unlink(program, &resident.what, &mut codes);
            }
        }
        if let Some(program) = program {
            program.retire(&codes);
        }
        bytes
    }

    /// Sets every cell that leads to code back to the interpreter.
    fn unlink(&self, program: &Program, what: &What, codes: &mut Vec<CodePtr>) {
        let key = |site| (program.id(), site);
        match what {
            What::Trace { code, exits } => {
                codes.push(code.0);
                // What was replaced does not have to wait for its turn.
                if program.uninstall(exits.site, code.0) {
                    self.tries.put_off(key(exits.site));
                }
                self.tries.count_eviction(key(exits.site));
            }
            What::Bridge { code, exits, from, exit } => {
                codes.push(code.0);
                from.unlink(*exit, code.0, (self.exit, self.exit_threshold));
                self.tries.count_eviction(key(exits.site));
            }
            What::Whole { func, sites, .. } => {
                for (site, code) in sites {
                    codes.push(code.0);
                    program.uninstall(*site, code.0);
                    self.tries.put_off(key(*site));
                }
                self.tries.count_eviction(key(SiteId(*func)));
                let mut whole = self.whole.lock();
                whole.remove(&key(SiteId(*func)));
            }
        }
    }
}
