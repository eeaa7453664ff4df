//! A session: one thread's running state of a program, and the host's way in.
//!
//! A session owns a register stack and fuel. Sessions of one program are independent and may run on
//! different threads at once. After an error the session is as before the call: frames and
//! registers are released.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use reflex_runtime::abi::{TVMFFIAny, type_index};
use reflex_runtime::alloc::{free_tensors, pool};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::value::{Any, AnyView};

use crate::abi::{NATIVE_CALLS, SessionAbi, Trampolines};
use crate::builtins::{Closure, GraphCache};
use crate::calls::wrong_arity;
use crate::decode::SiteId;
use crate::devices::{CpuAllocators, Devices};
use crate::instrument::Instrument;
use crate::libcalls::LIBCALLS;
use crate::mode::Mode;
use crate::program::Program;
use crate::reentry::{self, LentLimits, Reentry, failed, nothing_to_store, unknown};
use crate::run_error::RunError;
use crate::stack::Stack;
use crate::state::{CANCEL, DEADLINE, RecycleSlots, Saved, State};

pub use crate::state::SavedResult;

/// Limits and mode of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tiers to execute with.
    pub mode: Mode,
    /// Slots of the register stack (16 bytes each, committed when touched).
    pub stack_slots: usize,
    /// Most frames at once.
    pub depth_limit: u32,
    /// The allocators of the session's storages.
    pub allocators: CpuAllocators,
    /// The devices that the program's indices stand for.
    pub devices: Devices,
}

impl Default for Options {
    fn default() -> Options {
        // Miri touches all memory it maps.
        // Where it takes memory at once, it is small.
        let stack_slots = match () {
            () if cfg!(miri) => 1 << 13,
            () if cfg!(unix) => 1 << 24,
            () => 1 << 16,
        };
        let allocators = CpuAllocators::default();
        let devices = Devices::default();
        Options { mode: Mode::default(), stack_slots, depth_limit: 1_000_000, allocators, devices }
    }
}

/// Running state of one thread.
///
/// ```
/// use std::sync::Arc;
/// use reflex_runtime::value::Any;
/// use reflex_vm::{builder::ExecBuilder, bytecode::Reg, program::Program, verify::verify};
/// use reflex_vm::session::{Options, Session};
///
/// let mut b = ExecBuilder::new();
/// b.function("second", 1)?;
/// b.emit_call("vm.builtin.tuple_getitem", &[b.r(0), b.imm(1)?], b.r(1))?;
/// b.emit_ret(Reg(1))?;
/// b.end_function()?;
/// let program = Arc::new(Program::load(verify(b.finish()?)?, &[])?);
/// let mut session = Session::new(&program, Options::default())?;
/// let pair = reflex_runtime::array::Array::new([Any::from(1_i64), Any::from(2_i64)]);
/// let second = session.call("second", &[pair.into()])?;
/// assert_eq!(i64::try_from(second)?, 2);
/// let error = session.call("second", &[Any::from(5_i64)]).unwrap_err();
/// assert_eq!(error.frames()[0].function, "second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    state: NonNull<State>,
}

// SAFETY: the session owns the state; every field of it may move between threads.
unsafe impl Send for Session {}

/// Stops a session's run from another thread.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<AtomicU32>);

impl Canceller {
    /// Makes the current run (and later ones, until [`Canceller::reset`]) fail soon.
    pub fn cancel(&self) {
        self.0.fetch_or(CANCEL, Ordering::Relaxed);
    }

    /// Allows runs again.
    pub fn reset(&self) {
        self.0.fetch_and(!CANCEL, Ordering::Relaxed);
    }
}

impl Session {
    /// A session of `program`. `Compiled` and `Tiered` need a tier attached to it. The first device is the program's.
    pub fn new(program: &Arc<Program>, options: Options) -> Result<Session, Error> {
        let (first, wanted) = (options.devices.first(), program.device());
        if first != wanted {
            return Err(Error::value_error(format!(
                "the program is for {wanted}, and the session's first device is {first}"
            )));
        }
        let tier = match options.mode {
            Mode::Bytecode => None,
            Mode::Compiled | Mode::Tiered => Some(program.tier().cloned().ok_or_else(|| {
                Error::value_error(
                    "this mode needs a code generator, and the program has none: attach a tier \
                     before the session is made, or use the mode `bytecode`",
                )
            })?),
        };
        let stack = Stack::reserve(options.stack_slots)?;
        let interrupt = Arc::new(AtomicU32::new(0));
        let counters = match (&tier, options.mode) {
            (Some(tier), Mode::Tiered) => {
                vec![tier.hot_threshold().max(1); program.code().sites.len()].into()
            }
            _ => Box::default(),
        };
        let recycle_slots =
            RecycleSlots::new(tier.as_ref().map_or(0, |_| program.code().recycle_slots()));
        let participant = tier.is_some().then(|| program.epochs().register());
        let abi = SessionAbi {
            regs: std::ptr::null_mut(),
            fuel: i64::MAX,
            interrupt: Arc::as_ptr(&interrupt),
            pc: 0,
            depth: 0,
            depth_limit: options.depth_limit,
            native_calls: NATIVE_CALLS,
            stack_limit: stack.limit(),
            consts: program.consts().as_ptr().cast(),
            cells: program.cells().as_ptr(),
            vm_value: TVMFFIAny::NONE,
            libcalls: &LIBCALLS,
            trampolines: if tier.is_some() { program.trampolines() } else { Trampolines::NONE },
            recycled: recycle_slots.as_ptr(),
            hot_exit: 0,
            program: program.id(),
            object_lists: pool::lists(),
            uncompiled_call: 0,
            tensor_lists: free_tensors::no_lists(),
        };
        let state = Box::new(State {
            abi,
            program: Arc::clone(program),
            mode: options.mode,
            tier,
            allocators: options.allocators,
            devices: options.devices,
            stack,
            error: None,
            result: Any::NONE,
            counters,
            recording: None,
            instrument: None,
            deadline: None,
            interrupt,
            recycle_slots,
            runs: 0,
            participant,
            saved: HashMap::new(),
            graphs: GraphCache::default(),
        });
        let state = NonNull::from(Box::leak(state));
        let vm_value = TVMFFIAny::pointer(type_index::OPAQUE_PTR, state.as_ptr().cast());
        // SAFETY: the state was just made and is exclusively ours.
        unsafe { (*state.as_ptr()).abi.vm_value = vm_value };
        Ok(Session { state })
    }

    fn state(&self) -> &State {
        // SAFETY: the state lives as long as the session, and no run is in progress while
        // the host holds the session.
        unsafe { self.state.as_ref() }
    }

    fn state_mut(&mut self) -> &mut State {
        // SAFETY: as for `state`: the session owns the state; `&mut self` makes the borrow exclusive.
        unsafe { self.state.as_mut() }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.state().program
    }

    /// The tiers that the session executes with.
    pub fn mode(&self) -> Mode {
        self.state().mode
    }

    /// Calls the function `name`, of the program or saved.
    pub fn call(&mut self, name: &str, args: &[Any]) -> Result<Any, RunError> {
        self.call_views(name, AnyView::slice(args))
    }

    /// [`Session::call`] on borrowed values.
    pub fn call_views(&mut self, name: &str, args: &[AnyView<'_>]) -> Result<Any, RunError> {
        // SAFETY: the session owns its state, and the host holds it: no run is in progress.
        unsafe { reentry::call_by_name(self.state.as_ptr(), name, args) }
    }

    /// Calls VM function number `func` (see [`Program::find`]).
    pub fn call_func(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<Any, RunError> {
        let mut result = Any::NONE;
        self.call_into(func, args, &mut result)?;
        Ok(result)
    }

    /// [`Session::call_func`] that stores the result in place: hosts that are callees themselves
    /// return values without a copy at each step.
    pub fn call_into(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<(), RunError> {
        // SAFETY: the session owns its state, and the host holds it: no run is in progress.
        unsafe { reentry::run_parts(self.state.as_ptr(), func, [args, &[]], result) }
    }

    /// Calls a closure that a function returned, or a function value.
    pub fn invoke_closure(
        &mut self,
        callee: &AnyView<'_>,
        args: &[AnyView<'_>],
    ) -> Result<Any, RunError> {
        // SAFETY: the session owns its state, and the host holds it: no run is in progress.
        unsafe { reentry::invoke(self.state.as_ptr(), callee, args) }
    }

    /// The way back in for native code that the session's runs call.
    pub fn reentry(&self) -> Reentry {
        Reentry::new(self.state.as_ptr(), Arc::clone(&self.state().interrupt))
    }

    /// Checks the number of arguments of VM function number `func`.
    #[inline]
    pub fn check_arity(&self, func: u32, given: usize) -> Result<(), RunError> {
        let program = self.program();
        match program.function(func) {
            Some(code) if code.num_args as usize == given => Ok(()),
            Some(_) => Err(failed(wrong_arity(program, func, given))),
            None => Err(unknown(program.name(func))),
        }
    }

    /// The hot count of a site (arrivals since it was last offered to the tier), and the threshold
    /// at which it is hot. None in sessions that do not count, and for a blacklisted site.
    pub fn hot_count(&self, site: SiteId) -> Option<(u32, u32)> {
        let threshold = self.state().tier.as_ref()?.hot_threshold().max(1);
        let left = *self.state().counters.get(site.0 as usize)?;
        Some((threshold.checked_sub(left)?, threshold))
    }

    /// Limits how much later runs may do: one unit for each VM function entered and each
    /// backward jump. None is no limit.
    pub fn set_fuel(&mut self, fuel: Option<u64>) {
        let fuel = fuel.map_or(i64::MAX, |units| i64::try_from(units).unwrap_or(i64::MAX));
        self.state_mut().abi.fuel = fuel;
    }

    /// The remaining fuel.
    pub fn fuel(&self) -> u64 {
        u64::try_from(self.state().abi.fuel).unwrap_or(0)
    }

    /// Whether there is a limit. No run lives long enough to use up half of what there is without one.
    pub fn has_fuel_limit(&self) -> bool {
        self.state().abi.fuel < i64::MAX / 2
    }

    /// Makes runs fail that exceed `deadline`. A packed call is not interrupted.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        let state = self.state_mut();
        state.deadline = deadline;
        if deadline.is_some() {
            state.interrupt.fetch_or(DEADLINE, Ordering::Relaxed);
        } else {
            state.interrupt.fetch_and(!DEADLINE, Ordering::Relaxed);
        }
    }

    /// Makes this session's runs stop with those of the session that `canceller` came from.
    pub fn follow(&mut self, canceller: &Canceller) {
        let state = self.state_mut();
        state.interrupt = Arc::clone(&canceller.0);
        state.abi.interrupt = Arc::as_ptr(&state.interrupt);
    }

    /// Runs `body` on this session with the fuel, deadline and instrument of `host`, which keeps what
    /// is left of them.
    pub fn with_limits_of<T>(
        &mut self,
        host: &mut Session,
        body: impl FnOnce(&mut Session) -> T,
    ) -> T {
        // SAFETY: two live sessions that nothing else uses until the limits are given back; the body
        // gets this one, and runs that it nests in it take the limits with them, one after another.
        let _lent = unsafe { LentLimits::lend(host.state.as_ptr(), self.state.as_ptr()) };
        body(self)
    }

    /// Runs `body` without machine code, which keeps memory from run to run: runs in it allocate all that they use.
    pub fn without_machine_code<T>(&mut self, body: impl FnOnce(&mut Session) -> T) -> T {
        let mode = std::mem::replace(&mut self.state_mut().mode, Mode::Bytecode);
        let result = body(self);
        self.state_mut().mode = mode;
        result
    }

    /// Whether a limit or an instrument watches runs, or they are to stop.
    pub fn has_limits(&self) -> bool {
        let state = self.state();
        self.has_fuel_limit()
            || state.deadline.is_some()
            || state.instrument.is_some()
            || state.interrupt.load(Ordering::Relaxed) != 0
    }

    /// Whether an instrument watches calls.
    pub fn has_instrument(&self) -> bool {
        self.state().instrument.is_some()
    }

    /// Shows every call to `instrument`, until it is replaced or taken away.
    pub fn set_instrument(&mut self, instrument: Option<Box<dyn Instrument>>) {
        self.state_mut().instrument = instrument;
    }

    /// The instrument, taken away.
    pub fn take_instrument(&mut self) -> Option<Box<dyn Instrument>> {
        self.state_mut().instrument.take()
    }

    /// A handle to stop runs from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.state().interrupt))
    }

    /// Saves function `name`, of the program or saved, with `args` under the name `saved`; calls of
    /// `saved` append the stored arguments to their own, and then those that were stored before.
    /// Calls give None if the result of any of these is dropped.
    pub fn save_function(
        &mut self,
        name: &str,
        saved: &str,
        result: SavedResult,
        args: Vec<Any>,
    ) -> Result<(), RunError> {
        let program = self.program();
        let (func, inner, kept) = match (program.find(name), self.state().saved.get(name)) {
            (Some(func), _) => (func, &[][..], SavedResult::Keep),
            (None, Some(Saved { closure, result })) => {
                (closure.func, &closure.captured[..], *result)
            }
            (None, None) => return Err(nothing_to_store(name)),
        };
        if program.find(saved).is_some() {
            return Err(failed(Error::value_error(format!(
                "`{saved}` is a function of the program and cannot name a saved one"
            ))));
        }
        let captured: Vec<Any> = args.into_iter().chain(inner.iter().cloned()).collect();
        let captured = Array::new(captured);
        let closure = Closure { program: program.id(), func, captured };
        let result = if kept == SavedResult::Drop { kept } else { result };
        let before = self.state_mut().saved.insert(saved.to_owned(), Saved { closure, result });
        // Destructors of what it held may call back, once nothing borrows the table.
        drop(before);
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the state came from a box and nothing refers to it any more. No frame is
        // on the stack: every run ends with its base frame released.
        let state = unsafe { Box::from_raw(self.state.as_ptr()) };
        if let Some(participant) = &state.participant {
            state.program.epochs().unregister(participant);
        }
    }
}
