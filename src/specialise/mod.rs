//! Shape specialisation: programs compiled for the shapes that calls really have.
//!
//! Code for any shape leaves open what shapes decide: trip counts, tails, how loops are cut, which
//! operators share a kernel. A function that is called again and again with equal shapes is
//! compiled once more with them as constants, from its operators on, so that fusion starts anew. A
//! thread of low priority compiles it and then runs both programs interleaved on a copy of the
//! arguments. The specialised program is used if it is faster by 2% and no bit of its results
//! differs. The number of shapes is limited; the least recently used are evicted.
//!
//! Decision: docs/decisions/0016-shape-specialisation.md

#[cfg(feature = "compiler")]
pub(crate) mod bind;
pub(crate) mod profile;
mod trial;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reflex_runtime::alloc::device::{CPU, DeviceAllocator};
use reflex_runtime::alloc::heap;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use crate::jit::CompileMode;
use crate::program::loaded::LoadedProgram;
use crate::tier_policy::{Specialise, TierPolicy};
use profile::{Reason, ShapeProfile, Shapes, SpecialisedProgram};
use trial::Trial;

/// Compiles the function named first for the shapes of its arguments. The new program shares the
/// constants of the general one.
pub(crate) type Compile =
    Arc<dyn Fn(&str, &Shapes, &LoadedProgram) -> Result<LoadedProgram, Reason> + Send + Sync>;

/// Specialises the functions of one general program, and holds the specialised programs.
pub(crate) struct Specialiser {
    compile: Compile,
    policy: TierPolicy,
    profiles: Mutex<Vec<Arc<ShapeProfile>>>,
    /// Look-ups so far: the time by which the least recently used shapes are found.
    clock: AtomicU64,
    /// Set while a request is open. There is one at a time: a process that serves many shapes must
    /// not compile for all of them at once.
    busy: AtomicBool,
}

impl Specialiser {
    pub(crate) fn new(policy: TierPolicy, compile: Compile) -> Specialiser {
        Specialiser {
            compile,
            policy,
            profiles: Mutex::default(),
            clock: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        }
    }

    /// Returns a specialiser of the same model that has specialised nothing yet.
    pub(crate) fn fresh(&self) -> Specialiser {
        Specialiser::new(self.policy.clone(), self.compile.clone())
    }

    /// Returns the most sets of shapes that have a specialised program at a time.
    pub(crate) fn max_shapes(&self) -> usize {
        self.policy.max_shapes
    }

    /// Returns the profile of a call's shapes, a new one if need be; `None` if an argument is not a
    /// tensor.
    pub(crate) fn profile(
        &self,
        name: &str,
        func: u32,
        args: &[AnyView<'_>],
    ) -> Option<Arc<ShapeProfile>> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut profiles = self.profiles.lock();
        if let Some(found) = profiles.iter().find(|profile| profile.matches(func, args)) {
            found.touch(now);
            return Some(found.clone());
        }
        let made = Arc::new(ShapeProfile::new(name, func, args, now)?);
        if profiles.len() >= self.max_shapes() {
            let oldest = (0..profiles.len()).min_by_key(|i| profiles[*i].last_used());
            let evicted = profiles.swap_remove(oldest?);
            tracing::debug!(profile = %evicted, "least recently used shapes evicted");
            evicted.evict();
        }
        profiles.push(made.clone());
        Some(made)
    }

    /// Counts a call that took `took`. Shapes that have become hot are specialised: on a thread of
    /// its own, or at once if the policy says so. `args` makes copies of the arguments.
    pub(crate) fn count(
        self: &Arc<Self>,
        profile: &Arc<ShapeProfile>,
        took: Duration,
        general: &Arc<LoadedProgram>,
        args: &dyn Fn() -> Vec<Any>,
    ) {
        let (calls, time) = profile.count(took);
        let TierPolicy { shape_calls, shape_time, shape_stream_calls, .. } = self.policy;
        let hot = calls >= shape_calls && (time >= shape_time || calls >= shape_stream_calls);
        let request = hot.then(|| self.request(profile, general, args)).flatten();
        let Some(request) = request else { return };
        match self.policy.compile_mode {
            CompileMode::Synchronous => request.carry_out(),
            CompileMode::Background => {
                let thread = std::thread::Builder::new().name("reflex-shapes".to_owned());
                // Without a thread the request is dropped, which records that reason.
                let _ = thread.spawn(move || {
                    // SAFETY: a system call on the calling thread only; a refusal leaves its
                    // priority, and that of the code generators it starts, as it was.
                    #[cfg(unix)]
                    unsafe {
                        libc::setpriority(libc::PRIO_PROCESS, 0, 19)
                    };
                    request.carry_out();
                });
            }
        }
    }

    /// Specialises for these shapes unless that was done, or waits for the thread that does it.
    pub(crate) fn specialise_now(
        self: &Arc<Self>,
        profile: &Arc<ShapeProfile>,
        general: &Arc<LoadedProgram>,
        args: &dyn Fn() -> Vec<Any>,
    ) {
        while !profile.is_decided() {
            match self.request(profile, general, args) {
                Some(request) => request.carry_out(),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Returns the request for shapes that have none yet, while no other request is open.
    fn request(
        self: &Arc<Self>,
        profile: &Arc<ShapeProfile>,
        general: &Arc<LoadedProgram>,
        args: &dyn Fn() -> Vec<Any>,
    ) -> Option<Request> {
        // Only models are specialised, and without the compiler there are none.
        if !cfg!(feature = "compiler") || self.busy.swap(true, Ordering::AcqRel) {
            return None;
        }
        if !profile.claim() {
            self.busy.store(false, Ordering::Release);
            return None;
        }
        Some(Request {
            specialiser: self.clone(),
            profile: profile.clone(),
            general: general.clone(),
            args: args(),
        })
    }

    fn specialise(&self, request: &Request) -> Result<SpecialisedProgram, Reason> {
        let Request { profile, general, args, .. } = request;
        let start = Instant::now();
        let program = (self.compile)(profile.name(), profile.shapes(), general)?;
        let func = program
            .function_index(profile.name())
            .ok_or("the specialised program lacks the function")?;
        let built = start.elapsed();
        let trial = Trial { general, general_func: profile.func(), special: &program, func, args };
        let medians = trial.run()?;
        let report = format!(
            "compiled in {} ms; {:.1} us instead of {:.1}",
            built.as_millis(),
            medians.special.as_secs_f64() * 1e6,
            medians.general.as_secs_f64() * 1e6,
        );
        let faster = medians.special * 50 <= medians.general * 49;
        if !faster && self.policy.specialise == Specialise::IfFaster {
            return Err(format!("not faster by 2% ({report})"));
        }
        Ok(SpecialisedProgram { program, func, report })
    }
}

/// A program to be specialised.
struct Request {
    specialiser: Arc<Specialiser>,
    profile: Arc<ShapeProfile>,
    general: Arc<LoadedProgram>,
    args: Vec<Any>,
}

impl Request {
    fn carry_out(&self) {
        tracing::info!(profile = %self.profile, "shape specialisation started");
        // This thread's free memory would be held in addition to that of the two programs.
        CPU.trim();
        let specialised =
            std::panic::catch_unwind(AssertUnwindSafe(|| self.specialiser.specialise(self)));
        let specialised =
            specialised.unwrap_or_else(|_| Err("its compilation panicked".to_owned()));
        heap::trim();
        self.profile.decide(specialised);
        tracing::info!(profile = %self.profile, "shape specialisation decided");
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.profile.decide(Err("no thread to compile it on".to_owned()));
        self.specialiser.busy.store(false, Ordering::Release);
    }
}

/// Copies arguments, so that the caller's later writes do not reach them.
pub(crate) fn copies<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Vec<Any> {
    let copy = |t: &Tensor| Tensor::from_bytes(t.shape(), t.dtype(), &t.to_bytes().ok()?).ok();
    tensors.map(|tensor| copy(tensor).unwrap_or_else(|| tensor.clone()).into()).collect()
}

impl fmt::Display for Specialiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.profiles.lock().iter().try_for_each(|profile| writeln!(f, "{profile}"))
    }
}
