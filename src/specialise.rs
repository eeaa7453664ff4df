//! Programs for the extents that calls really have.
//!
//! Code for any extent leaves open what extents decide: trip counts, tails, how loops are cut,
//! which operators share a kernel. A function that is called again and again with equal extents
//! is compiled once more with them as constants, from its operators on, so that fusion starts
//! anew. A thread of low priority does that, and then runs both programs in turns on a copy of the
//! arguments: the new one is used if it is faster by 2% and no bit of its results differs. Sets of
//! extents are kept up to a limit; the one that was not called for longest goes first.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reflex_cranelift::CompileMode;
use reflex_graph::{FuncData, Module, Node};
use reflex_runtime::alloc::device::{CPU, DeviceAllocator};
use reflex_runtime::alloc::heap;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use crate::error::Result;
use crate::program::{Prepared, Program};
use crate::session::Outputs;
use crate::{Engine, Mode, Specialise, TierPolicy};

/// How long both programs run in turns to find the faster one.
const TRIAL: Duration = Duration::from_millis(200);
/// Turns of each.
const TURNS: u32 = 4;

/// Why there is no program for a set of extents.
type Reason = String;

/// Gives the module that the general program was made from.
pub(crate) type Source = Arc<dyn Fn() -> Result<Module> + Send + Sync>;

/// What makes programs for extents, and those it made.
pub(crate) struct Specialiser {
    engine: Engine,
    module: Source,
    policy: TierPolicy,
    variants: Mutex<Vec<Arc<Variant>>>,
    clock: AtomicU64,
    /// One at a time: a process that serves many shapes must not compile them all at once.
    busy: AtomicBool,
}

/// A function with one set of extents.
pub(crate) struct Variant {
    func: u32,
    name: String,
    /// One list per argument.
    extents: Vec<Vec<i64>>,
    calls: AtomicU32,
    nanos: AtomicU64,
    /// When it was last looked up, in look-ups.
    used: AtomicU64,
    ordered: AtomicBool,
    dropped: AtomicBool,
    outcome: OnceLock<std::result::Result<Special, Reason>>,
}

/// A program for one set of extents.
pub(crate) struct Special {
    pub(crate) program: Program,
    pub(crate) func: u32,
    report: String,
}

impl Variant {
    /// Whether a call of `func` on `args` has these extents.
    pub(crate) fn fits(&self, func: u32, args: &[AnyView<'_>]) -> bool {
        self.func == func
            && self.extents.len() == args.len()
            && self.extents.iter().zip(args).all(|(extents, arg)| {
                arg.downcast_ref::<Tensor>().is_some_and(|tensor| tensor.shape() == extents)
            })
    }

    /// The program to call instead, when there is one.
    pub(crate) fn special(&self) -> Option<&Special> {
        self.outcome.get()?.as_ref().ok()
    }

    /// Whether calls are still to be counted.
    pub(crate) fn counts(&self) -> bool {
        !self.ordered.load(Ordering::Relaxed)
    }

    /// Whether its place was given to other extents.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Specialiser {
    pub(crate) fn new(engine: Engine, policy: TierPolicy, module: Source) -> Specialiser {
        Specialiser {
            engine,
            module,
            policy,
            variants: Mutex::default(),
            clock: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        }
    }

    /// For how many extents programs are kept.
    pub(crate) fn most(&self) -> usize {
        self.policy.shapes
    }

    /// Another one for the same module, which has made nothing yet.
    pub(crate) fn fresh(&self) -> Specialiser {
        Specialiser::new(self.engine.clone(), self.policy.clone(), self.module.clone())
    }

    /// The variant for a call, made if need be; none when an argument is no tensor.
    pub(crate) fn variant(
        &self,
        name: &str,
        func: u32,
        args: &[AnyView<'_>],
    ) -> Option<Arc<Variant>> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut variants = self.variants.lock();
        if let Some(found) = variants.iter().find(|v| v.fits(func, args)) {
            found.used.store(now, Ordering::Relaxed);
            return Some(found.clone());
        }
        let tensors = args.iter().map(|arg| Some(arg.downcast_ref::<Tensor>()?.shape().to_vec()));
        let made = Arc::new(Variant {
            func,
            name: name.to_owned(),
            extents: tensors.collect::<Option<_>>()?,
            calls: AtomicU32::new(0),
            nanos: AtomicU64::new(0),
            used: AtomicU64::new(now),
            ordered: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
            outcome: OnceLock::new(),
        });
        if variants.len() >= self.most() {
            let oldest =
                (0..variants.len()).min_by_key(|i| variants[*i].used.load(Ordering::Relaxed));
            let gone = variants.swap_remove(oldest?);
            gone.dropped.store(true, Ordering::Relaxed);
        }
        variants.push(made.clone());
        Some(made)
    }

    /// Counts a call that took `took`; when its extents have become hot, a program for them is
    /// ordered, or made at once if the policy says so. `args` gives copies of the arguments.
    pub(crate) fn note(
        self: &Arc<Self>,
        variant: &Arc<Variant>,
        took: Duration,
        general: &Program,
        args: &dyn Fn() -> Vec<Any>,
    ) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let calls = variant.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let nanos = variant.nanos.fetch_add(took, Ordering::Relaxed).saturating_add(took);
        let hot = calls >= self.policy.shape_calls
            && Duration::from_nanos(nanos) >= self.policy.shape_time;
        let Some(order) = hot.then(|| self.order(variant, general, args)).flatten() else { return };
        match self.policy.compile {
            CompileMode::Synchronous => order.carry_out(),
            CompileMode::Background => {
                let thread = std::thread::Builder::new().name("reflex-shapes".to_owned());
                // Without a thread the order is dropped, which says so.
                let _ = thread.spawn(move || {
                    // SAFETY: a system call on the calling thread only; a refusal leaves its
                    // priority, and that of the code generators it starts, as it was.
                    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
                    order.carry_out();
                });
            }
        }
    }

    /// Makes the program for these extents if nobody has, or waits for who does.
    pub(crate) fn settle(
        self: &Arc<Self>,
        variant: &Arc<Variant>,
        general: &Program,
        args: &dyn Fn() -> Vec<Any>,
    ) {
        while variant.outcome.get().is_none() {
            match self.order(variant, general, args) {
                Some(order) => order.carry_out(),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// The order for a variant that has none, while no other is open.
    fn order(
        self: &Arc<Self>,
        variant: &Arc<Variant>,
        general: &Program,
        args: &dyn Fn() -> Vec<Any>,
    ) -> Option<Order> {
        if self.busy.swap(true, Ordering::AcqRel) {
            return None;
        }
        if variant.ordered.swap(true, Ordering::AcqRel) {
            self.busy.store(false, Ordering::Release);
            return None;
        }
        Some(Order {
            specialiser: self.clone(),
            variant: variant.clone(),
            general: general.clone(),
            args: args(),
        })
    }

    fn make(&self, order: &Order) -> std::result::Result<Special, Reason> {
        let Variant { name, extents, .. } = &*order.variant;
        let start = Instant::now();
        let mut module = (self.module)().map_err(|e| e.to_string())?;
        bind(&mut module, name, extents)?;
        let program =
            self.engine.compile_like(module, &order.general).map_err(|e| e.to_string())?;
        let func = program.number(name).ok_or("the new program lacks it")?;
        let built = start.elapsed();
        let (general, special) = self.trial(order, &program, func)?;
        let report = format!(
            "compiled in {} ms; {:.1} us instead of {:.1}",
            built.as_millis(),
            special.as_secs_f64() * 1e6,
            general.as_secs_f64() * 1e6,
        );
        if special * 50 > general * 49 && self.policy.specialise == Specialise::IfFaster {
            return Err(format!("not faster by 2% ({report})"));
        }
        Ok(Special { program, func, report })
    }

    /// Runs both programs in turns: medians, once the results are known to be the same.
    fn trial(
        &self,
        order: &Order,
        special: &Program,
        func: u32,
    ) -> std::result::Result<(Duration, Duration), Reason> {
        let failed = |e: crate::Error| e.to_string();
        // A copy of the general program: its own is in use, in whatever state its tiers are.
        let fork = order.general.fork().map_err(failed)?;
        let mut sessions = [
            (fork.session(Mode::Compiled).map_err(failed)?, order.variant.func),
            (special.session(Mode::Compiled).map_err(failed)?, func),
        ];
        // The other threads are left to the calls that go on meanwhile.
        sessions.iter_mut().for_each(|(session, _)| session.set_threads(1));
        let mut run = |which: usize| -> Result<(Duration, Outputs)> {
            let (session, func) = &mut sessions[which];
            let prepared = Prepared { func: *func, args: order.args.clone() };
            let start = Instant::now();
            let outputs = session.call(&prepared)?;
            Ok((start.elapsed(), outputs))
        };
        let (_, expected) = run(0).map_err(failed)?;
        CPU.trim();
        let (_, actual) = run(1).map_err(failed)?;
        if !same_bits(&expected.tensors().map_err(failed)?, &actual.tensors().map_err(failed)?) {
            return Err("a result differs in its bits".to_owned());
        }
        drop((expected, actual));
        let mut times = [vec![], vec![]];
        for _ in 0..TURNS {
            for (which, times) in times.iter_mut().enumerate() {
                // Memory for both at once would be more than calls ever need.
                CPU.trim();
                run(which).map_err(failed)?;
                let turn = Instant::now();
                loop {
                    times.push(run(which).map_err(failed)?.0);
                    if turn.elapsed() > TRIAL / (2 * TURNS) {
                        break;
                    }
                }
            }
        }
        let [general, special] = times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        });
        Ok((general, special))
    }
}

/// A program to be made.
struct Order {
    specialiser: Arc<Specialiser>,
    variant: Arc<Variant>,
    general: Program,
    args: Vec<Any>,
}

impl Order {
    fn carry_out(&self) {
        // What this thread keeps for the next run would be in memory beside all that is made here.
        CPU.trim();
        let made =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.specialiser.make(self)));
        let made = made.unwrap_or_else(|_| Err("its compilation panicked".to_owned()));
        heap::trim();
        // Only the order of a variant sets its outcome, and there is one.
        let _ = self.variant.outcome.set(made);
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        let _ = self.variant.outcome.set(Err("no thread to compile it on".to_owned()));
        self.specialiser.busy.store(false, Ordering::Release);
    }
}

/// Writes the extents into the function `name`.
fn bind(module: &mut Module, name: &str, extents: &[Vec<i64>]) -> std::result::Result<(), Reason> {
    let mut found = false;
    for func in module.funcs.values_mut() {
        let FuncData::Graph(func) = func else { continue };
        let mut foreign = None;
        func.body.walk(&mut |binding| {
            if let Node::CallPacked { name, .. } = &binding.node {
                foreign = Some(name.clone());
            }
        });
        if let Some(callee) = foreign {
            return Err(format!("it calls `{callee}`, which a trial would run twice"));
        }
        if func.name == name {
            let shapes: Vec<&[i64]> = extents.iter().map(Vec::as_slice).collect();
            func.bind_symbolic_vars(&func.infer_symbolic_var_map(&shapes));
            found = true;
        }
    }
    if found { Ok(()) } else { Err(format!("the model has no function {name:?} any more")) }
}

fn same_bits(a: &[Tensor], b: &[Tensor]) -> bool {
    let same = |(a, b): (&Tensor, &Tensor)| {
        let bytes = |t: &Tensor| t.to_bytes().ok();
        a.dtype() == b.dtype()
            && a.shape() == b.shape()
            && bytes(a).is_some_and(|bytes_of_a| bytes(b) == Some(bytes_of_a))
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// Arguments that the caller's later writes do not reach.
pub(crate) fn copies<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Vec<Any> {
    let copy = |t: &Tensor| Tensor::from_bytes(t.shape(), t.dtype(), &t.to_bytes().ok()?).ok();
    tensors.map(|tensor| copy(tensor).unwrap_or_else(|| tensor.clone()).into()).collect()
}

impl fmt::Display for Specialiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variants = self.variants.lock();
        for variant in variants.iter() {
            let extent = |list: &Vec<i64>| {
                let dims: Vec<String> = list.iter().map(i64::to_string).collect();
                format!("[{}]", dims.join(", "))
            };
            let extents: Vec<String> = variant.extents.iter().map(extent).collect();
            let state = match variant.outcome.get() {
                Some(Ok(special)) => format!("in use, {}", special.report),
                Some(Err(reason)) => format!("not used: {reason}"),
                None if variant.counts() => {
                    format!("{} calls", variant.calls.load(Ordering::Relaxed))
                }
                None => "being compiled".to_owned(),
            };
            writeln!(f, "extents {}({}): {state}", variant.name, extents.join(", "))?;
        }
        Ok(())
    }
}
