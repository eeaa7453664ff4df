//! One thread's running state of a program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use reflex_cranelift::CraneliftTier;
use reflex_runtime::alloc::device::AllocatorKind;
use reflex_runtime::array::Array as Tuple;
use reflex_runtime::fp::FpEnv;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::threads::ThreadScope;
use reflex_runtime::value::{Any, AnyView};
use reflex_tir::flops::FlopCount;
use reflex_vm::mode::Mode as ExecutionMode;
use reflex_vm::run_error::RunError;
use reflex_vm::session as vm;

use crate::array::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Mode;
use crate::program::{Prepared, Program};
use crate::tier_report::{TierDetail, TierReport};
use router::{Extents, Route};

mod io_binding;
pub(crate) mod router;
mod timing;
mod virtual_machine;

pub use io_binding::IoBinding;
pub use timing::{Timing, TimingOptions};

/// Most calls of a warm-up: programs whose ways keep changing are never done.
const MAX_WARM_UP: usize = 100_000;

/// Names of the outputs, by function number.
pub(crate) type OutputNames = BTreeMap<u32, Vec<String>>;

/// How many operations a call of a kernel takes, by its name, where that is known.
pub(crate) type KernelOperations = BTreeMap<String, FlopCount>;

/// Runs a program on the calling thread. After an error it can go on being used.
pub struct Session {
    vm: vm::Session,
    tier: Option<Arc<CraneliftTier>>,
    threads: usize,
    outputs: Arc<OutputNames>,
    /// How many operations calls of kernels take.
    operations: Arc<KernelOperations>,
    /// Programs for the extents of calls; none in sessions that do without.
    extents: Option<Extents>,
}

/// The result of a call.
pub struct Outputs {
    value: Any,
    func: u32,
    names: Arc<OutputNames>,
}

impl Session {
    pub(crate) fn open(
        program: &Arc<reflex_vm::program::Program>,
        (mode, tier, allocator): (Mode, Option<Arc<CraneliftTier>>, AllocatorKind),
        threads: usize,
        (outputs, operations): (Arc<OutputNames>, Arc<KernelOperations>),
    ) -> Result<Session> {
        let mode = match mode {
            Mode::Bytecode => ExecutionMode::Bytecode,
            Mode::Compiled => ExecutionMode::Compiled,
            Mode::Tiered => ExecutionMode::Tiered,
        };
        let options = vm::Options { mode, allocator, ..vm::Options::default() };
        let vm = vm::Session::new(program, options)
            .map_err(|e| Error::new(ErrorKind::Run, e.message()))?;
        Ok(Session { vm, tier, threads, outputs, operations, extents: None })
    }

    /// Calls a function. The host's floating-point state and thread count are put back.
    pub fn call(&mut self, prepared: &Prepared) -> Result<Outputs> {
        let value = self.route(prepared.func, AnyView::slice(&prepared.args))?;
        Ok(Outputs { value, func: prepared.func, names: self.outputs.clone() })
    }

    /// Calls a function in the program for the extents of its arguments, or in the general one.
    fn route(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<Any> {
        let mut result = Any::NONE;
        self.call_into(func, args, &mut result)?;
        Ok(result)
    }

    /// [`Session::route`] with the result in place.
    #[inline]
    pub(crate) fn call_into(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<()> {
        if self.extents.is_some() {
            return self.call_for_extents(func, args, result);
        }
        let code = self.vm.program().function(func);
        if code.is_some_and(|code| code.calls_builtins_only) {
            // No kernel runs, so nothing depends on threads or the floating-point state.
            return Ok(self.vm.call_into(func, args, result)?);
        }
        self.enter(|vm| vm.call_into(func, args, result))
    }

    #[cold]
    #[inline(never)]
    fn call_for_extents(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<()> {
        let route = self.extents.as_mut().map(|extents| extents.route(func, args)).transpose()?;
        let counted = match route {
            Some(Route::Special(session, func)) => return session.call_into(func, args, result),
            Some(Route::Counted(variant)) => Some((variant, Instant::now())),
            Some(Route::General) | None => None,
        };
        self.enter(|vm| vm.call_into(func, args, result))?;
        if let (Some((variant, start)), Some(extents)) = (counted, &self.extents) {
            extents.note(&variant, start.elapsed(), &|| router::tensors(args));
        }
        Ok(())
    }

    /// Threads for parallel kernels, the caller's included, from now on.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// The programs for extents beside the general one.
    pub(crate) fn extents(&self) -> Option<&Extents> {
        self.extents.as_ref()
    }

    /// Programs for the extents of calls, from now on.
    pub(crate) fn with_extents(mut self, extents: Option<Extents>) -> Session {
        self.extents = extents;
        self
    }

    /// Calls a function again and again until nothing more of it is being compiled, for the
    /// extents of these arguments too: later calls with arguments like these run machine code from
    /// the start. Returns how often it was called, which is at least once; a session that compiles
    /// nothing calls it once.
    pub fn warm_up(&mut self, prepared: &Prepared) -> Result<usize> {
        self.warm_up_func(prepared.func, AnyView::slice(&prepared.args))
    }

    /// [`Session::warm_up`] of the function that [`Session::function_index`] gave the index of.
    pub fn warm_up_func(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<usize> {
        let mut calls = self.warm(func, args)?;
        if let Some(extents) = &mut self.extents {
            extents.settle(func, args);
            self.route(func, args)?;
            calls += 1;
        }
        Ok(calls)
    }

    /// [`Session::warm_up`] of calls that take turns. Where these are more than programs for
    /// extents are kept, which would drive each other out, none is made. Returns how many calls
    /// there were.
    pub fn warm_up_all(&mut self, calls: &[Prepared]) -> Result<usize> {
        let few = self.extents.as_ref().is_none_or(|extents| calls.len() <= extents.most());
        let mut made = 0;
        for call in calls {
            let args = AnyView::slice(&call.args);
            made += match few {
                true => self.warm_up_func(call.func, args)?,
                false => self.warm(call.func, args)?,
            };
        }
        Ok(made)
    }

    fn warm(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<usize> {
        let call = |vm: &mut vm::Session| vm.call_func(func, args).map(drop);
        let tier = self.tier.clone().filter(|_| self.vm.mode() == ExecutionMode::Tiered);
        let Some(tier) = tier else { return self.enter(call).map(|()| 1) };
        let mut calls = 0;
        loop {
            let before = tier.progress();
            // Finished code is installed when its place is hot again.
            for _ in 0..=reflex_vm::tier::Tier::hot_threshold(&*tier) {
                self.enter(call)?;
                calls += 1;
            }
            tier.wait();
            if tier.progress() == before || calls >= MAX_WARM_UP {
                return Ok(calls);
            }
        }
    }

    /// What the tiers made of a program, and what this session has counted of it.
    pub fn tiers(&self, program: &Program, code: TierDetail) -> TierReport {
        program.tiers_of(Some(&self.vm), code)
    }

    /// Runs `body` with the session's threads and floating-point state, and puts the host's
    /// back.
    fn enter<T>(
        &mut self,
        body: impl FnOnce(&mut vm::Session) -> std::result::Result<T, RunError>,
    ) -> Result<T> {
        let _threads = ThreadScope::enter(self.threads);
        let _environment = FpEnv::enter();
        body(&mut self.vm).map_err(Error::from)
    }

    /// Stores tensors that runs of [`Session::run_bound`] read and write.
    pub(crate) fn bind_tensors(
        &mut self,
        inputs: Prepared,
        outputs: Vec<Tensor>,
    ) -> Result<vm::BindingId> {
        let id = self.vm.set_input_of(inputs.func, inputs.args)?;
        self.vm.bind_outputs(id, outputs);
        Ok(id)
    }

    pub(crate) fn run_bound(&mut self, id: vm::BindingId) -> Result<()> {
        self.enter(|vm| vm.run_bound(id))
    }

    /// The VM's own session, for what the facade does not wrap. What is set there holds for the
    /// general program, so all later calls go to that.
    pub fn vm(&mut self) -> &mut vm::Session {
        self.extents = None;
        &mut self.vm
    }
}

impl Outputs {
    /// The tensors, in order; those of nested tuples one after another.
    pub fn tensors(&self) -> Result<Vec<Tensor>> {
        let mut tensors = vec![];
        flatten(&self.value, &mut tensors)?;
        Ok(tensors)
    }

    /// Names and copies of the tensors, in order. Outputs that the program does not name are
    /// called `output0`, `output1`, ...
    pub fn arrays(&self) -> Result<Vec<(String, Array)>> {
        let names = self.names.get(&self.func).map_or(&[][..], Vec::as_slice);
        let array = |(i, tensor): (usize, Tensor)| {
            let name = names.get(i).cloned().unwrap_or_else(|| format!("output{i}"));
            Ok((name, Array::of_tensor(&tensor)?))
        };
        self.tensors()?.into_iter().enumerate().map(array).collect()
    }
}

fn flatten(value: &Any, tensors: &mut Vec<Tensor>) -> Result<()> {
    if let Some(items) = value.downcast_ref::<Tuple>() {
        return items.iter().try_for_each(|item| flatten(item, tensors));
    }
    let tensor = value.downcast_ref::<Tensor>().ok_or_else(|| {
        let what = value.view().type_key();
        Error::new(ErrorKind::Run, format!("a result is a {what}, not a tensor"))
    })?;
    tensors.push(tensor.clone());
    Ok(())
}
