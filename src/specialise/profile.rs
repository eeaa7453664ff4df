//! The profile of one function with one set of argument shapes.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::AnyView;

use crate::program::loaded::LoadedProgram;

/// The reason why a set of shapes has no specialised program.
pub(crate) type Reason = String;

/// The shapes of a call: one list of dimensions per argument.
pub(crate) type Shapes = Vec<Vec<i64>>;

/// Counts the calls of a function with one set of shapes, and holds their specialised program.
pub(crate) struct ShapeProfile {
    func: u32,
    name: String,
    shapes: Shapes,
    calls: AtomicU32,
    nanos: AtomicU64,
    /// The specialiser's clock at the last look-up.
    used: AtomicU64,
    claimed: AtomicBool,
    evicted: AtomicBool,
    decision: OnceLock<Result<SpecialisedProgram, Reason>>,
}

/// A program specialised for one set of shapes.
pub(crate) struct SpecialisedProgram {
    pub(crate) program: LoadedProgram,
    /// The index of the specialised function.
    pub(crate) func: u32,
    pub(crate) report: String,
}

impl ShapeProfile {
    /// Starts a profile of a call's shapes; `None` if an argument is not a tensor.
    pub(super) fn new(
        name: &str,
        func: u32,
        args: &[AnyView<'_>],
        now: u64,
    ) -> Option<ShapeProfile> {
        let shapes = args.iter().map(|arg| Some(arg.downcast_ref::<Tensor>()?.shape().to_vec()));
        Some(ShapeProfile {
            func,
            name: name.to_owned(),
            shapes: shapes.collect::<Option<_>>()?,
            calls: AtomicU32::new(0),
            nanos: AtomicU64::new(0),
            used: AtomicU64::new(now),
            claimed: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            decision: OnceLock::new(),
        })
    }

    pub(super) fn func(&self) -> u32 {
        self.func
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// Returns true if a call of `func` on `args` has these shapes.
    pub(crate) fn matches(&self, func: u32, args: &[AnyView<'_>]) -> bool {
        self.func == func
            && self.shapes.len() == args.len()
            && self.shapes.iter().zip(args).all(|(shape, arg)| {
                arg.downcast_ref::<Tensor>().is_some_and(|tensor| tensor.shape() == shape)
            })
    }

    /// Returns the program to call instead of the general one, if there is one.
    pub(crate) fn specialised(&self) -> Option<&SpecialisedProgram> {
        self.decision.get()?.as_ref().ok()
    }

    /// Returns true while calls are still counted.
    pub(crate) fn is_counting(&self) -> bool {
        !self.claimed.load(Ordering::Relaxed)
    }

    /// Returns true if the specialiser has evicted these shapes.
    pub(crate) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    pub(super) fn evict(&self) {
        self.evicted.store(true, Ordering::Relaxed);
    }

    pub(super) fn touch(&self, now: u64) {
        self.used.store(now, Ordering::Relaxed);
    }

    pub(super) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts a call; returns the calls so far and the time that they took.
    pub(super) fn count(&self, took: Duration) -> (u32, Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let nanos = self.nanos.fetch_add(took, Ordering::Relaxed).saturating_add(took);
        (calls, Duration::from_nanos(nanos))
    }

    /// Ends counting; true for the first caller, which makes the one request.
    pub(super) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Sets the decision. Only the request calls it; its drop after a decision has no effect.
    pub(super) fn decide(&self, decision: Result<SpecialisedProgram, Reason>) {
        let _ = self.decision.set(decision);
    }

    pub(super) fn is_decided(&self) -> bool {
        self.decision.get().is_some()
    }
}

impl fmt::Display for ShapeProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = |dims: &Vec<i64>| {
            let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
            format!("[{}]", dims.join(", "))
        };
        let shapes: Vec<String> = self.shapes.iter().map(shape).collect();
        write!(f, "shapes {}({}): ", self.name, shapes.join(", "))?;
        match self.decision.get() {
            Some(Ok(specialised)) => write!(f, "in use, {}", specialised.report),
            Some(Err(reason)) => write!(f, "not used: {reason}"),
            None if self.is_counting() => {
                write!(f, "{} calls", self.calls.load(Ordering::Relaxed))
            }
            None => f.write_str("being compiled"),
        }
    }
}
