//! Calls by name on values, functions with stored inputs, saved functions, and limits: what
//! TVM's virtual machine offers its hosts.

use std::time::{Duration, Instant};

use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::instrument::Instrument;
use reflex_vm::session::{Canceller, SavedResult};

use super::Session;
use crate::error::{Error, Result};

impl Session {
    /// Calls the function `name`, of the program or saved, on values.
    ///
    /// ```no_run
    /// use reflex::{Engine, Mode, Tensor};
    ///
    /// let program = Engine::builder().build()?.load("model.so".as_ref())?;
    /// let mut session = program.session(Mode::Tiered)?;
    /// let x = Tensor::from_slice(&[1, 3], &[1.0_f32, 2.0, 3.0]).map_err(|e| e.to_string())?;
    /// let y = session.call_values("main", &[x.into()])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_values(&mut self, name: &str, args: &[Any]) -> Result<Any> {
        self.call_views(name, AnyView::slice(args))
    }

    /// [`Session::call_values`] on borrowed values.
    pub fn call_views(&mut self, name: &str, args: &[AnyView<'_>]) -> Result<Any> {
        match self.plain.vm.program().find(name) {
            Some(func) => self.call_index(func, args),
            None => self.plain.enter(|vm| vm.call_views(name, args)),
        }
    }

    /// The index of a function, which saves [`Session::call_index`] the look-up.
    pub fn function_index(&self, name: &str) -> Result<u32> {
        let unknown = || Error::input(format!("the program has no function `{name}`"));
        self.plain.vm.program().find(name).ok_or_else(unknown)
    }

    /// Stores the arguments of `name` for [`Session::invoke_stateful`].
    pub fn set_input(&mut self, name: &str, inputs: Vec<Any>) -> Result<()> {
        Ok(self.plain.vm.set_input(name, inputs).map(drop)?)
    }

    /// Makes [`Session::invoke_stateful`] copy the results of `name` into `targets`: one tensor
    /// for a tensor result, one per item for a tuple. Inputs must be set first.
    pub fn bind_outputs(&mut self, name: &str, targets: Vec<Tensor>) -> Result<()> {
        let missing = || Error::input(format!("no inputs are set for function `{name}`"));
        let binding = self.plain.vm.binding(name).ok_or_else(missing)?;
        self.plain.vm.bind_outputs(binding, targets);
        Ok(())
    }

    /// Runs `name` on its stored arguments and keeps the result.
    pub fn invoke_stateful(&mut self, name: &str) -> Result<()> {
        self.plain.enter(|vm| vm.invoke_stateful(name))
    }

    /// Items of the kept result of `name`, -1 when it is not a tuple. `path` walks into nested
    /// tuples first.
    pub fn output_arity(&self, name: &str, path: &[usize]) -> Result<i64> {
        Ok(self.plain.vm.output_arity(name, path)?)
    }

    /// An item of the kept result of `name`; a tuple is refused.
    pub fn get_output(&self, name: &str, path: &[usize]) -> Result<Any> {
        Ok(self.plain.vm.get_output(name, path)?)
    }

    /// The kept result of `name`, item by item.
    pub fn get_outputs(&self, name: &str) -> Result<Vec<Any>> {
        match usize::try_from(self.output_arity(name, &[])?) {
            Ok(arity) => (0..arity).map(|at| self.get_output(name, &[at])).collect(),
            Err(_) => Ok(vec![self.get_output(name, &[])?]),
        }
    }

    /// Saves `name` with its last arguments under the name `saved`.
    pub fn save_function(
        &mut self,
        name: &str,
        saved: &str,
        result: SavedResult,
        args: Vec<Any>,
    ) -> Result<()> {
        Ok(self.plain.vm.save_function(name, saved, result, args)?)
    }

    /// Shows every call to `instrument` and lets it skip calls, until it is replaced or taken
    /// away. Meanwhile everything is interpreted.
    pub fn set_instrument(&mut self, instrument: Option<Box<dyn Instrument>>) {
        self.vm().set_instrument(instrument);
    }

    /// Limits what later runs may do: one unit for each function entered and each backward
    /// jump. None is no limit.
    pub fn set_fuel(&mut self, fuel: Option<u64>) {
        self.vm().set_fuel(fuel);
    }

    /// What is left of the fuel.
    pub fn fuel(&self) -> u64 {
        self.plain.vm.fuel()
    }

    /// Makes runs fail that go on for longer than `after` from now. A kernel is not interrupted.
    pub fn set_deadline(&mut self, after: Option<Duration>) {
        self.vm().set_deadline(after.and_then(|after| Instant::now().checked_add(after)));
    }

    /// A handle to stop runs from another thread.
    pub fn canceller(&self) -> Canceller {
        self.plain.vm.canceller()
    }
}
