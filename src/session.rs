//! One thread's running state of a program.

use std::collections::BTreeMap;
use std::sync::Arc;

use reflex_cranelift::CraneliftTier;
use reflex_runtime::array::Array as Tuple;
use reflex_runtime::fp::FpEnv;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::threads::ThreadScope;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::run_error::RunError;
use reflex_vm::session as vm;

use crate::error::{Error, ErrorKind, Result};
use crate::npz::Array;
use crate::options::Mode;
use crate::program::{Prepared, Program};

mod measure;
mod values;

pub use measure::{Timing, TimingOptions};

/// Most calls of a warm-up: programs whose ways keep changing are never done.
const MAX_WARM_UP: usize = 100_000;

/// Names of the outputs, by function number.
pub(crate) type OutputNames = BTreeMap<u32, Vec<String>>;

/// Runs a program on the calling thread. After an error it can go on being used.
pub struct Session {
    vm: vm::Session,
    tier: Option<Arc<CraneliftTier>>,
    threads: usize,
    outputs: Arc<OutputNames>,
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
        (mode, tier): (Mode, Option<Arc<CraneliftTier>>),
        threads: usize,
        outputs: Arc<OutputNames>,
    ) -> Result<Session> {
        let mode = match mode {
            Mode::Bytecode => vm::Mode::Bytecode,
            Mode::Compiled => vm::Mode::Compiled,
            Mode::Tiered => vm::Mode::Tiered,
        };
        let options = vm::Options { mode, ..vm::Options::default() };
        let vm = vm::Session::new(program, options)
            .map_err(|e| Error::new(ErrorKind::Run, e.message()))?;
        Ok(Session { vm, tier, threads, outputs })
    }

    /// Calls a function. The host's floating-point state and thread count are put back.
    pub fn call(&mut self, prepared: &Prepared) -> Result<Outputs> {
        let value = self.enter(|vm| vm.call_func(prepared.func, AnyView::slice(&prepared.args)))?;
        Ok(Outputs { value, func: prepared.func, names: self.outputs.clone() })
    }

    /// Calls a function again and again until nothing more of it is being compiled: later calls
    /// with arguments like these run machine code from the start. Returns how often it was called,
    /// which is at least once; a session that compiles nothing calls it once.
    pub fn warm_up(&mut self, prepared: &Prepared) -> Result<usize> {
        let args = AnyView::slice(&prepared.args);
        self.warm(|vm| vm.call_func(prepared.func, args).map(drop))
    }

    pub(crate) fn warm(
        &mut self,
        mut call: impl FnMut(&mut vm::Session) -> std::result::Result<(), RunError>,
    ) -> Result<usize> {
        let tier = self.tier.clone().filter(|_| self.vm.mode() == vm::Mode::Tiered);
        let Some(tier) = tier else { return self.enter(call).map(|()| 1) };
        let mut calls = 0;
        loop {
            let before = tier.steps();
            // Finished code is installed when its place is hot again.
            for _ in 0..=reflex_vm::tier::Tier::threshold(&*tier) {
                self.enter(&mut call)?;
                calls += 1;
            }
            tier.wait();
            if tier.steps() == before || calls >= MAX_WARM_UP {
                return Ok(calls);
            }
        }
    }

    /// What the tiers made of a program, and what this session has counted of it.
    pub fn tiers(&self, program: &Program) -> String {
        program.tiers_of(Some(&self.vm))
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

    /// The VM's own session, for what the facade does not wrap.
    pub fn vm(&mut self) -> &mut vm::Session {
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
