//! A session: one thread's running state of a program, with dispatch by shape.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::session as vm;

use crate::error::Result;
use crate::prepared::Prepared;
use crate::signature::{KernelOperations, OutputNames};
use batches::BatchReport;
use bound_call::BoundCall;
use outputs::Outputs;
use plain::{PlainReentry, PlainSession};
use router::{Route, ShapeRouter};
use slow_call::CallWatch;

pub(crate) mod batches;
mod bound_call;
pub(crate) mod io_binding;
pub(crate) mod outputs;
pub(crate) mod plain;
pub(crate) mod router;
#[cfg_attr(not(unix), path = "no_slow_call.rs")]
mod slow_call;
mod stream;
pub(crate) mod timing;
mod virtual_machine;

/// Runs a program on the calling thread. After an error it can be used again.
pub struct Session {
    plain: PlainSession,
    outputs: Arc<OutputNames>,
    operations: Arc<KernelOperations>,
    /// Dispatch to specialised programs; `None` in sessions that run the general program alone.
    router: Option<ShapeRouter>,
    /// The calls with stored arguments, by function.
    bound: Vec<BoundCall>,
    /// Calls that take this long are reported.
    slow_call: Option<Duration>,
}

impl Session {
    pub(crate) fn new(
        plain: PlainSession,
        outputs: Arc<OutputNames>,
        operations: Arc<KernelOperations>,
    ) -> Session {
        Session { plain, outputs, operations, router: None, bound: vec![], slow_call: None }
    }

    /// Dispatches later calls by their shapes.
    pub(crate) fn with_router(mut self, router: Option<ShapeRouter>) -> Session {
        self.router = router;
        self
    }

    /// Reports later calls that take as long as `threshold`.
    pub(crate) fn with_slow_call(mut self, threshold: Option<Duration>) -> Session {
        self.slow_call = threshold;
        self
    }

    /// Calls a function. The host's floating-point state and thread count are restored.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// let mut session = program.session(Mode::Tiered)?;
    /// let outputs = session.call(&prepared)?;
    /// assert_eq!(outputs.arrays()?[0].1.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn call(&mut self, prepared: &Prepared) -> Result<Outputs> {
        let value = self.call_index(prepared.func, AnyView::slice(&prepared.args))?;
        Ok(Outputs { value, func: prepared.func, names: self.outputs.clone() })
    }

    /// Calls the function that [`Session::function_index`] gave the index of.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let main = session.function_index("main")?;
    /// let y = Tensor::try_from(session.call_index(main, &[x.view()])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_index(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<Any> {
        let mut result = Any::NONE;
        self.call_into(func, args, &mut result)?;
        Ok(result)
    }

    /// [`Session::call_index`] whose results are written to `outputs`: one compact host tensor of the
    /// result's type and shape for a tensor result, one per item for a tuple. Kernels write results of
    /// more than 64 KiB there themselves, if the program calls nothing but kernels of ours; others are
    /// copied.
    /// After an error the outputs hold unspecified values.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let main = session.function_index("main")?;
    /// let y = Tensor::from_slice(&[1, 2], &[0.0_f32; 2])?;
    /// session.call_index_into(main, vec![x], vec![y.clone()])?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_index_into(
        &mut self,
        func: u32,
        args: Vec<Any>,
        outputs: Vec<Tensor>,
    ) -> Result<()> {
        let mut call = BoundCall::new(func, args);
        call.bind_outputs(outputs);
        let in_place = self.plain.writes_outputs_in_place();
        call.run(in_place, |func, args, result| self.call_into(func, args, result))
    }

    /// [`Session::call_index`] with the result in place.
    #[inline]
    pub(crate) fn call_into(
        &mut self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<()> {
        if self.router.is_some() || self.slow_call.is_some() {
            return self.call_watched(func, args, result);
        }
        self.plain.call_into(func, args, result)
    }

    /// Calls by shape, and reports the call if it is slow.
    #[cold]
    #[inline(never)]
    fn call_watched(&mut self, func: u32, args: &[AnyView<'_>], result: &mut Any) -> Result<()> {
        let Some(threshold) = self.slow_call else { return self.call_routed(func, args, result) };
        let watch = CallWatch::start(self.plain.tier_progress());
        let outcome = self.call_routed(func, args, result);
        let function = self.plain.vm.program().name(func);
        watch.finish(threshold, function, self.plain.tier_progress());
        outcome
    }

    fn call_routed(&mut self, func: u32, args: &[AnyView<'_>], result: &mut Any) -> Result<()> {
        let route = self.router.as_mut().map(|router| router.route(func, args)).transpose()?;
        let counted = match route {
            Some(Route::Specialised(session, func)) => {
                return session.call_with_limits_of(&mut self.plain, func, args, result);
            }
            Some(Route::Variant(func)) => return self.plain.call_into(func, args, result),
            Some(Route::Counted(profile)) => Some((profile, Instant::now())),
            Some(Route::General) | None => None,
        };
        self.plain.call_into(func, args, result)?;
        if let (Some((profile, start)), Some(router)) = (counted, &self.router) {
            router.count(&profile, start.elapsed(), &|| router::tensor_copies(args));
        }
        Ok(())
    }

    /// Calls a function until nothing more of it is being compiled, for the shapes of these
    /// arguments too: later calls with arguments like these run machine code from the start.
    /// Returns the number of calls, at least one; a session that compiles nothing makes one.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// let mut session = program.session(Mode::Bytecode)?;
    /// assert_eq!(session.warm_up(&prepared)?, 1, "the interpreter compiles nothing");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn warm_up(&mut self, prepared: &Prepared) -> Result<usize> {
        self.warm_up_func(prepared.func, AnyView::slice(&prepared.args))
    }

    /// [`Session::warm_up`] of the function that [`Session::function_index`] gave the index of.
    ///
    /// ```
    /// # use reflex::{Any, Engine, Mode, Tensor};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// # let x = Any::from(Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0])?);
    /// let main = session.function_index("main")?;
    /// session.warm_up_func(main, &[x.view()])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn warm_up_func(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<usize> {
        let variant = self.router.as_ref().and_then(|router| router.variant(func, args));
        let mut calls = self.plain.warm_up(variant.unwrap_or(func), args)?;
        if let Some(router) = self.router.as_ref().filter(|_| variant.is_none()) {
            router.specialise_now(func, args);
            self.call_index(func, args)?;
            calls += 1;
        }
        Ok(calls)
    }

    /// [`Session::warm_up`] of interleaved calls. Nothing is specialised if these are more than
    /// [`TierPolicy::max_shapes`](crate::TierPolicy::max_shapes), as they would evict each other.
    /// Returns the number of calls.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// let mut session = program.session(Mode::Bytecode)?;
    /// assert_eq!(session.warm_up_all(&[prepared])?, 1);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn warm_up_all(&mut self, calls: &[Prepared]) -> Result<usize> {
        let few = self.router.as_ref().is_none_or(|router| calls.len() <= router.max_shapes());
        let mut made = 0;
        for call in calls {
            let args = AnyView::slice(&call.args);
            made += match few {
                true => self.warm_up_func(call.func, args)?,
                false => self.plain.warm_up(call.func, args)?,
            };
        }
        Ok(made)
    }

    /// Waits for the work that calls have given to a device, and reports its errors: calls return when
    /// it is enqueued, and reading a result waits for that result. On a CPU there is nothing to
    /// wait for.
    ///
    /// ```
    /// # use reflex::{Engine, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// program.session(Mode::Tiered)?.synchronize()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn synchronize(&self) -> Result<()> {
        self.plain.synchronize()
    }

    /// Returns what became of calls on a GPU as batches: in tiered mode, the launches of a call are
    /// recorded for arguments of the same shapes, and replayed as one.
    ///
    /// ```
    /// # use reflex::{Engine, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.session(Mode::Tiered)?.batches().ready.is_empty(), "a CPU has none");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn batches(&self) -> BatchReport {
        self.plain.batch_report()
    }

    /// Returns the way back in for native code that a run of the session called: to the general
    /// program, without dispatch by shape.
    pub(crate) fn reentry(&self) -> PlainReentry {
        self.plain.reentry()
    }

    /// Returns the VM's session to read.
    pub(crate) fn vm_state(&self) -> &vm::Session {
        &self.plain.vm
    }
}
