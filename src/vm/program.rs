//! A loaded program: what all sessions of one executable share.
//!
//! It holds the decoded code, the constants, the packed functions, the code cells and what tiers
//! keep, but no running state. [`crate::load`] makes it.

use std::any::Any as StdAny;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::value::Any;

use crate::abi::{CodePtr, Trampolines};
use crate::call_sites::CallSites;
use crate::decode::{Callee, Code, FuncCode, SiteId};
use crate::epoch::Epochs;
use crate::executable::Executable;
use crate::instrument::CallSite;
use crate::kernel::Packed;
use crate::tier::{Bailout, Compiled, Tier};
use crate::verify::Verified;
use crate::watched::WatchedCode;

/// A loaded program.
pub struct Program {
    id: u64,
    device: DLDevice,
    exec: Verified<Executable>,
    code: Code,
    consts: Box<[Any]>,
    packed: Box<[Option<Packed>]>,
    names: HashMap<String, u32>,
    call_sites: OnceLock<CallSites>,
    cells: Box<[AtomicPtr<u8>]>,
    watched: WatchedCode,
    tier: OnceLock<Arc<dyn Tier>>,
    /// Machine code that cells or other code may lead to.
    retained: Mutex<Vec<Compiled>>,
    /// Shared, so that [`Retirement`] need not keep the program alive.
    epochs: Arc<Epochs>,
    bailouts: Mutex<BTreeMap<(SiteId, &'static str), u64>>,
}

/// The parts of a program that loading provides.
pub(crate) struct Parts {
    pub id: u64,
    /// Where tensor constants are.
    pub device: DLDevice,
    pub exec: Verified<Executable>,
    pub code: Code,
    /// By index in the constant table.
    pub consts: Box<[Any]>,
    /// By entry of the function table.
    pub packed: Box<[Option<Packed>]>,
}

/// Releases code of kernels while a program lives, without a part in its life: a thread that replaces
/// kernels must never be the one that drops the program's values, of which some may be Python's, and a
/// thread of ours cannot take Python's lock when Python ends.
#[derive(Clone, Debug)]
pub struct Retirement(Weak<Epochs>);

impl Retirement {
    /// True as long as there is the program.
    pub fn is_possible(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Releases a kernel's code, which no entry that the program was loaded with leads to any more. It
    /// is dropped when no session can be inside by a raw entry.
    pub fn retire_kernel(&self, code: Arc<dyn StdAny + Send + Sync>) {
        if let Some(epochs) = self.0.upgrade() {
            epochs.retire(Box::new(code));
            epochs.reclaim();
        }
    }
}

impl Program {
    /// A program without machine code.
    pub(crate) fn new(parts: Parts) -> Program {
        let Parts { id, device, exec, code, consts, packed } = parts;
        let cells = code.sites.iter().map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
        let names =
            exec.functions.iter().enumerate().map(|(i, f)| (f.name.clone(), i as u32)).collect();
        let watched = WatchedCode::new(exec.functions.len());
        Program {
            id,
            device,
            exec,
            code,
            consts,
            packed,
            names,
            call_sites: OnceLock::new(),
            cells,
            watched,
            tier: OnceLock::new(),
            retained: Mutex::default(),
            epochs: Arc::new(Epochs::new()),
            bailouts: Mutex::default(),
        }
    }

    /// The executable.
    pub fn executable(&self) -> &Verified<Executable> {
        &self.exec
    }

    /// The first device of its sessions, where tensor constants are.
    #[inline]
    pub fn device(&self) -> DLDevice {
        self.device
    }

    /// The decoded code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// VM function number `func`, if it is one (native code of TVM's compiled mode counts).
    #[inline(always)]
    pub fn function(&self, func: u32) -> Option<&FuncCode> {
        self.code.functions.get(func as usize)?.as_ref()
    }

    /// Index of the VM function called `name`.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied().filter(|&func| self.function(func).is_some())
    }

    /// The name of entry `func` of the function table.
    pub fn name(&self, func: u32) -> &str {
        self.exec.functions.get(func as usize).map_or("<no such function>", |f| f.name.as_str())
    }

    /// The name of a callee in bytecode.
    pub(crate) fn callee_name(&self, callee: Callee) -> &str {
        match callee {
            Callee::Function(func) => self.name(func),
            Callee::Builtin(builtin) => builtin.name(),
        }
    }

    /// Operation `pc` of `func` as the call that an instrument sees; None if it is not a call. It never
    /// moves, and lives as long as the program.
    #[inline]
    pub fn call_site(&self, func: u32, pc: u32) -> Option<&CallSite> {
        let made = || CallSites::of(self.id, &self.exec, &self.code, &self.packed);
        self.call_sites.get_or_init(made).get(func, pc)
    }

    /// Packed function number `callee`; None for builtins and VM functions.
    #[inline(always)]
    pub fn packed(&self, callee: u32) -> Option<&Packed> {
        self.packed.get(callee as usize)?.as_ref()
    }

    /// The constant table: never moves, lives as long as the program.
    #[inline(always)]
    pub fn consts(&self) -> &[Any] {
        &self.consts
    }

    /// Code cells by site; see [`crate::abi::SessionAbi::cells`].
    #[inline(always)]
    pub fn cells(&self) -> &[AtomicPtr<u8>] {
        &self.cells
    }

    /// Identity in this process, which closures carry.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The attached tier.
    pub fn tier(&self) -> Option<&Arc<dyn Tier>> {
        self.tier.get()
    }

    /// The trampolines through which sessions enter and leave machine code.
    pub fn trampolines(&self) -> Trampolines {
        self.tier.get().map_or(Trampolines::NONE, |tier| tier.trampolines())
    }

    /// Attaches the tier of this program; only the first one is taken. Sessions made
    /// before do not see it.
    pub fn attach(&self, tier: Arc<dyn Tier>) -> bool {
        let exit = tier.trampolines().exit.cast_mut();
        if self.tier.set(tier).is_err() {
            return false;
        }
        for cell in &self.cells {
            cell.store(exit, Ordering::Release);
        }
        true
    }

    /// Compiles every VM function ahead of time with the attached tier. Functions it
    /// refuses stay with the interpreter; they are returned with the reason.
    pub fn compile_ahead_of_time(&self) -> Vec<(u32, Bailout)> {
        let Some(tier) = self.tier.get() else {
            return Vec::new();
        };
        let mut refused = Vec::new();
        for func in self.code.functions.iter().flatten().filter(|func| !func.is_foreign) {
            match tier.compile(self, func) {
                Ok(compiled) => self.install(SiteId(func.index), &compiled),
                Err(bailout) => {
                    self.count_bailout(SiteId(func.index), &bailout);
                    refused.push((func.index, bailout));
                }
            }
        }
        refused
    }

    /// Makes `compiled` the code that runs at `site`. The code lives as long as the program, unless
    /// it is [retired](Program::retire).
    pub fn install(&self, site: SiteId, compiled: &Compiled) {
        self.retain(compiled);
        self.cells[site.0 as usize].store(compiled.code().cast_mut(), Ordering::Release);
    }

    /// [`Program::install`] where no code is installed yet; returns true if that was so.
    pub fn install_if_vacant(&self, site: SiteId, compiled: &Compiled) -> bool {
        self.retain(compiled);
        let (cell, exit) = (&self.cells[site.0 as usize], self.trampolines().exit.cast_mut());
        let code = compiled.code().cast_mut();
        let vacant = cell.compare_exchange(exit, code, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !vacant {
            // No session has seen it.
            drop(self.remove_retained(&[compiled.code()]));
        }
        vacant
    }

    /// Leaves `site` to the interpreter if `code` is installed there; returns true if it was.
    pub fn uninstall(&self, site: SiteId, code: CodePtr) -> bool {
        let (cell, exit) = (&self.cells[site.0 as usize], self.trampolines().exit.cast_mut());
        let code = code.cast_mut();
        // Other code that was installed since then stays.
        cell.compare_exchange(code, exit, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Code that shows its calls to an instrument.
    #[inline(always)]
    pub(crate) fn watched(&self) -> &WatchedCode {
        &self.watched
    }

    /// Makes `compiled` the code of function number `func` in runs that an instrument watches, as long
    /// as the program lives.
    pub fn install_watched(&self, func: u32, compiled: &Compiled) {
        self.retain(compiled);
        self.watched.install(func, compiled.code());
    }

    /// Keeps code alive as long as the program, or until it is [retired](Program::retire).
    pub fn retain(&self, compiled: &Compiled) {
        self.retained.lock().push(compiled.clone());
    }

    /// Releases code by the addresses that it was installed or retained with. Nothing leads to it
    /// any more: no cell, and no other code that is not retired with it. It is freed when no
    /// session can be inside.
    pub fn retire(&self, codes: &[CodePtr]) {
        let code = self.remove_retained(codes);
        if !code.is_empty() {
            self.epochs.retire(Box::new(code));
        }
    }

    /// Returns what releases code of kernels that entries of this program led to.
    pub fn retirement(&self) -> Retirement {
        Retirement(Arc::downgrade(&self.epochs))
    }

    /// Code that was retained under these addresses, and is so no longer.
    fn remove_retained(&self, codes: &[CodePtr]) -> Vec<Compiled> {
        let mut retained = self.retained.lock();
        retained.extract_if(.., |compiled| codes.contains(&compiled.code())).collect()
    }

    /// Frees retired code that no session can be inside of; returns true if some remains.
    pub fn reclaim(&self) -> bool {
        self.epochs.reclaim()
    }

    /// The epochs by which retired code is freed.
    #[inline(always)]
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Counts a bailout at a site.
    pub fn count_bailout(&self, site: SiteId, bailout: &Bailout) {
        let mut counts = self.bailouts.lock();
        *counts.entry((site, bailout.name())).or_default() += 1;
    }

    /// Counts of bailouts by reason.
    pub fn bailouts(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for ((_, name), count) in self.bailouts_by_site() {
            *sums.entry(name).or_default() += count;
        }
        sums
    }

    /// Counts of bailouts by site and reason.
    pub fn bailouts_by_site(&self) -> BTreeMap<(SiteId, &'static str), u64> {
        self.bailouts.lock().clone()
    }
}
