//! Timing and profiling a function in place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reflex_runtime::function::Function;
use reflex_runtime::registry;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::timing;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::instrument::CallEvent;
use reflex_vm::profile::Profile;

use super::Session;
use super::outputs::Outputs;
use crate::error::{Error, ErrorKind, Result};
use crate::prepared::Prepared;

/// Options of [`Session::time_evaluator`]: calls and measurements.
pub use reflex_runtime::timing::TimingOptions;

/// Seconds per call, one for each measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing(pub Vec<f64>);

impl Timing {
    /// Returns the mean of the measurements.
    ///
    /// ```
    /// let timing = reflex::Timing(vec![1.0, 2.0, 6.0]);
    /// assert_eq!(timing.mean(), 3.0);
    /// ```
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the median of the measurements.
    ///
    /// ```
    /// let timing = reflex::Timing(vec![1.0, 2.0, 6.0]);
    /// assert_eq!(timing.median(), 2.0);
    /// ```
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        }
    }
}

/// The function that goes before measurements.
fn preprocessing(name: &str) -> Result<Function> {
    let missing = || Error::input(format!("no function {name:?} is registered to preprocess with"));
    registry::get(name).ok_or_else(missing)
}

/// The function that a measurement calls.
#[derive(Clone, Copy)]
enum Timed<'a> {
    /// A function of the program.
    Function(u32),
    /// A saved function.
    Saved(&'a str),
    /// A function of the program on its stored arguments.
    Stored(&'a str),
}

impl Session {
    /// Times the function `name`, of the program or saved, on `args`; `invoke_stateful` on the name of
    /// a function times that one on its stored arguments. One call goes before the first measurement.
    ///
    /// ```
    /// use reflex::TimingOptions;
    ///
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let options = TimingOptions { number: 3, repeat: 2, ..TimingOptions::default() };
    /// let timing = session.time_evaluator("main", &[x.view()], &options)?;
    /// assert_eq!(timing.0.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn time_evaluator(
        &mut self,
        name: &str,
        args: &[AnyView<'_>],
        options: &TimingOptions,
    ) -> Result<Timing> {
        if options.number == 0 || options.repeat == 0 {
            return Err(Error::input("number and repeat must be at least 1"));
        }
        let timed = self.timed(name, args);
        let preprocess = options.preprocess.as_deref().map(preprocessing).transpose()?;
        let prepare = || match &preprocess {
            Some(function) => {
                let called = function.call(args).map(drop);
                called.map_err(|error| Error::raised(ErrorKind::Run, error))
            }
            None => Ok(()),
        };
        let run = |number| self.run_times(timed, args, number);
        let timing = timing::measure(options, prepare, run)?;
        Ok(Timing(timing))
    }

    fn timed<'a>(&self, name: &'a str, args: &'a [AnyView<'_>]) -> Timed<'a> {
        match (self.plain.vm.program().find(name), name, args) {
            (Some(func), ..) => Timed::Function(func),
            (None, "invoke_stateful", [func]) => {
                func.as_str().map_or(Timed::Saved(name), Timed::Stored)
            }
            (None, ..) => Timed::Saved(name),
        }
    }

    fn run_times(
        &mut self,
        timed: Timed<'_>,
        args: &[AnyView<'_>],
        number: u32,
    ) -> Result<Duration> {
        if let Timed::Stored(func) = timed {
            let began = Instant::now();
            (0..number).try_for_each(|_| self.invoke_stateful(func))?;
            return Ok(began.elapsed());
        }
        self.plain.enter(|vm| {
            let began = Instant::now();
            for _ in 0..number {
                drop(match timed {
                    Timed::Function(func) => vm.call_func(func, args)?,
                    Timed::Saved(name) | Timed::Stored(name) => vm.call_views(name, args)?,
                });
            }
            Ok(began.elapsed())
        })
    }

    /// Calls `name` once with every call inside counted and timed, in the interpreter. The
    /// instrument that was set is put back.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let (y, profile) = session.profile("main", &[x.view()])?;
    /// print!("{}", profile.table());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn profile(&mut self, name: &str, args: &[AnyView<'_>]) -> Result<(Any, Profile)> {
        self.profiled(|session| session.call_views(name, args))
    }

    /// [`Session::profile`] of prepared arguments.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// let mut session = program.session(Mode::Bytecode)?;
    /// let (outputs, profile) = session.profile_prepared(&prepared)?;
    /// assert!(profile.trace_json().starts_with('{'));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn profile_prepared(&mut self, prepared: &Prepared) -> Result<(Outputs, Profile)> {
        self.profiled(|session| session.call(prepared))
    }

    fn profiled<T>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<(T, Profile)> {
        let operations = self.operations.clone();
        let count = move |call: &CallEvent<'_>| {
            operations
                .get(call.callee())?
                .count(|param, dim| dim_of(call.args().get(param as usize)?, dim))
        };
        let profile = Arc::new(Mutex::new(Profile::new(count)));
        let before = self.plain.vm.take_instrument();
        self.plain.vm.set_instrument(Some(Box::new(Arc::clone(&profile))));
        // The instrument sees the general program alone.
        let router = self.router.take();
        let outcome = body(self);
        self.router = router;
        self.plain.vm.set_instrument(before);
        let mut profile = profile.lock();
        Ok((outcome?, std::mem::take(&mut *profile)))
    }
}

/// Returns the size of dimension `dim` of a tensor.
fn dim_of(arg: &AnyView<'_>, dim: u32) -> Option<u64> {
    let size = *arg.downcast_ref::<Tensor>()?.shape().get(dim as usize)?;
    u64::try_from(size).ok()
}
