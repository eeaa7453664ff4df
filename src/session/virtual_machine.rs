//! Calls by name on values, functions with stored inputs, saved functions, and limits: what
//! TVM's virtual machine offers its hosts.

use std::time::{Duration, Instant};

use reflex_runtime::array::Array;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::instrument::Instrument;
use reflex_vm::session::{Canceller, SavedResult};

use super::Session;
use super::bound_call::BoundCall;
use crate::error::{Error, ErrorKind, Result};

impl Session {
    /// Calls the function `name`, of the program or saved, on values.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let y = Tensor::try_from(session.call_values("main", &[x])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    ///
    /// A function with several results returns a [`Tuple`](crate::Tuple).
    pub fn call_values(&mut self, name: &str, args: &[Any]) -> Result<Any> {
        self.call_views(name, AnyView::slice(args))
    }

    /// [`Session::call_values`] on borrowed values.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let y = session.call_views("main", &[x.view()])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_views(&mut self, name: &str, args: &[AnyView<'_>]) -> Result<Any> {
        match self.plain.vm.program().find(name) {
            Some(func) => self.call_index(func, args),
            None => self.plain.enter(|vm| vm.call_views(name, args)),
        }
    }

    /// Returns the index of a function, which saves [`Session::call_index`] the look-up.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let main = session.function_index("main")?;
    /// let y = session.call_index(main, &[x.view()])?;
    /// assert!(session.function_index("nothing").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn function_index(&self, name: &str) -> Result<u32> {
        let unknown = || Error::input(format!("the program has no function `{name}`"));
        self.plain.vm.program().find(name).ok_or_else(unknown)
    }

    /// Calls a closure that a function of this program returned, or a function value.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Function, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let count = Any::from(Function::new(|args| Ok(Any::from(args.len() as i64))));
    /// let given = [Any::from(7_i64), Any::from(8_i64)];
    /// let value = session.invoke_closure(&count, &[given[0].view(), given[1].view()])?;
    /// assert_eq!(i64::try_from(value)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invoke_closure(&mut self, closure: &Any, args: &[AnyView<'_>]) -> Result<Any> {
        self.plain.enter(|vm| vm.invoke_closure(&closure.view(), args))
    }

    /// Returns the names of the parameters of a function; empty where its file has none.
    ///
    /// ```
    /// # use reflex::{Engine, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// let session = program.session(Mode::Bytecode)?;
    /// assert_eq!(session.param_names("main")?, ["x"]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn param_names(&self, name: &str) -> Result<Vec<String>> {
        self.plain.reentry().param_names(name).map(<[String]>::to_vec)
    }

    /// Stores the arguments of `name` for [`Session::invoke_stateful`].
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_input("main", vec![x])?;
    /// session.invoke_stateful("main")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_input(&mut self, name: &str, inputs: Vec<Any>) -> Result<()> {
        let func = self.function_index(name)?;
        self.plain.vm.check_arity(func, inputs.len())?;
        match self.bound.iter_mut().find(|call| call.func() == func) {
            Some(call) => call.set_inputs(inputs),
            None => self.bound.push(BoundCall::new(func, inputs)),
        }
        Ok(())
    }

    /// Makes [`Session::invoke_stateful`] write the results of `name` to `targets`: one tensor
    /// for a tensor result, one per item for a tuple. Inputs must be set first. Large results are not
    /// copied ([`Session::call_index_into`]): those that [`Session::get_output`] gives are the targets'
    /// memory then.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let y = Tensor::from_slice(&[1, 2], &[0.0_f32; 2])?;
    /// session.set_input("main", vec![x])?;
    /// session.bind_outputs("main", vec![y.clone()])?;
    /// session.invoke_stateful("main")?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind_outputs(&mut self, name: &str, targets: Vec<Tensor>) -> Result<()> {
        let at = self.bound_call(name)?;
        self.bound[at].bind_outputs(targets);
        Ok(())
    }

    /// Runs `name` on its stored arguments and keeps the result.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_input("main", vec![x])?;
    /// session.invoke_stateful("main")?;
    /// assert_eq!(session.get_outputs("main")?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invoke_stateful(&mut self, name: &str) -> Result<()> {
        let at = self.bound_call(name)?;
        let mut call = std::mem::take(&mut self.bound[at]);
        let in_place = self.plain.writes_outputs_in_place();
        let outcome = call.run(in_place, |func, args, result| self.call_into(func, args, result));
        self.bound[at] = call;
        outcome
    }

    /// Returns the number of items of the kept result of `name`, -1 when it is not a tuple. `path`
    /// walks into nested tuples first.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_input("main", vec![x])?;
    /// session.invoke_stateful("main")?;
    /// assert_eq!(session.output_arity("main", &[])?, -1, "a tensor");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output_arity(&self, name: &str, path: &[usize]) -> Result<i64> {
        let value = self.output_at(name, path)?;
        Ok(value.downcast_ref::<Array>().map_or(-1, |items| items.len() as i64))
    }

    /// Returns an item of the kept result of `name`; a tuple is refused.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_input("main", vec![x])?;
    /// session.invoke_stateful("main")?;
    /// let y = Tensor::try_from(session.get_output("main", &[])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_output(&self, name: &str, path: &[usize]) -> Result<Any> {
        let value = self.output_at(name, path)?;
        if value.downcast_ref::<Array>().is_some() {
            let text = format!("output {path:?} of `{name}` is a tuple; ask for its items");
            return Err(Error::raised(ErrorKind::Run, Raised::value_error(text)));
        }
        Ok(value.clone())
    }

    /// Returns the kept result of `name`, item by item.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_input("main", vec![x])?;
    /// session.invoke_stateful("main")?;
    /// let y = Tensor::try_from(session.get_outputs("main")?.remove(0))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_outputs(&self, name: &str) -> Result<Vec<Any>> {
        match usize::try_from(self.output_arity(name, &[])?) {
            Ok(arity) => (0..arity).map(|at| self.get_output(name, &[at])).collect(),
            Err(_) => Ok(vec![self.get_output(name, &[])?]),
        }
    }

    /// Returns the index of the call of `name` that [`Session::set_input`] stored.
    fn bound_call(&self, name: &str) -> Result<usize> {
        let func = self.function_index(name)?;
        let missing = || Error::input(format!("no inputs are set for function `{name}`"));
        self.bound.iter().position(|call| call.func() == func).ok_or_else(missing)
    }

    /// Returns an item of the kept result of `name`.
    fn output_at(&self, name: &str, path: &[usize]) -> Result<&Any> {
        let call = &self.bound[self.bound_call(name)?];
        let mut value = call.result().ok_or_else(|| {
            Error::input(format!(
                "no output is kept for function `{name}`: call `invoke_stateful` first, and it must succeed"
            ))
        })?;
        for &index in path {
            value = value.downcast_ref::<Array>().and_then(|items| items.get(index)).ok_or_else(
                || {
                    let text = format!("`{name}` has no output at {path:?}");
                    Error::raised(ErrorKind::Run, Raised::new("IndexError", text))
                },
            )?;
        }
        Ok(value)
    }

    /// Saves `name`, a function of the program or a saved one, with its last arguments under the name
    /// `saved`.
    ///
    /// ```
    /// use reflex::SavedResult;
    ///
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.save_function("main", "of_x", SavedResult::Keep, vec![x])?;
    /// let y = session.call_values("of_x", &[])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// away. Meanwhile everything is interpreted. A call whose shapes are specialised shows the
    /// calls of the specialised program, which fuses more.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use reflex::{AnyView, CallEvent, Instrument, Verdict};
    ///
    /// /// Collects the names of the functions that are called.
    /// struct Names(Arc<Mutex<Vec<String>>>);
    ///
    /// impl Instrument for Names {
    ///     fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, reflex::RaisedError> {
    ///         self.0.lock().unwrap().push(call.callee().to_owned());
    ///         Ok(Verdict::Run)
    ///     }
    ///
    ///     fn after(&mut self, _: &CallEvent<'_>, _: AnyView<'_>) -> Result<(), reflex::RaisedError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let names = Arc::new(Mutex::new(vec![]));
    /// session.set_instrument(Some(Box::new(Names(names.clone()))));
    /// session.call_values("main", &[x])?;
    /// assert!(!names.lock().unwrap().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_instrument(&mut self, instrument: Option<Box<dyn Instrument>>) {
        self.plain.vm.set_instrument(instrument);
    }

    /// Limits what later runs may do: a unit of fuel for each function entered and each backward
    /// jump. `None` removes the limit.
    ///
    /// ```
    /// use reflex::ErrorKind;
    ///
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_fuel(Some(0));
    /// let error = session.call_values("main", &[x.clone()]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::FuelExhausted);
    /// session.set_fuel(None);
    /// session.call_values("main", &[x])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_fuel(&mut self, fuel: Option<u64>) {
        self.plain.vm.set_fuel(fuel);
    }

    /// Returns the fuel that is left; `u64::MAX` if there is no limit.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_fuel(Some(100));
    /// session.call_values("main", &[x])?;
    /// assert!(session.fuel() < 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fuel(&self) -> u64 {
        if self.plain.vm.has_fuel_limit() { self.plain.vm.fuel() } else { u64::MAX }
    }

    /// Makes runs fail that go on for longer than `after` from now; `None` removes the deadline. A
    /// kernel is not interrupted.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use reflex::ErrorKind;
    ///
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// session.set_deadline(Some(Duration::ZERO));
    /// let error = session.call_values("main", &[x.clone()]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    /// session.set_deadline(None);
    /// session.call_values("main", &[x])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_deadline(&mut self, after: Option<Duration>) {
        self.plain.vm.set_deadline(after.and_then(|after| Instant::now().checked_add(after)));
    }

    /// Returns a handle that stops runs from another thread.
    ///
    /// ```
    /// use reflex::ErrorKind;
    ///
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let canceller = session.canceller();
    /// std::thread::spawn(move || canceller.cancel()).join().unwrap();
    /// let error = session.call_values("main", &[x.clone()]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
    /// session.canceller().reset();
    /// session.call_values("main", &[x])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn canceller(&self) -> Canceller {
        self.plain.vm.canceller()
    }
}
