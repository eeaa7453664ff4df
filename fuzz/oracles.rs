//! Oracles, named by the sentence they assert.

use std::ops::AddAssign;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use reflex_cranelift::{CompileMode, CraneliftTier, ForcedExits, TierOptions, TraceReport};
use reflex_runtime::abi::type_index;
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::shape::Shape;
use reflex_runtime::value::Any;
use reflex_vm::executable::FuncKind;
use reflex_vm::instrument::Instrument;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

use crate::host;
use crate::kernels::{self, Host, Layout};
use crate::programs::{DIMS, Input, LONGER, ProgramCase, SHAPES};
use crate::watcher::Watcher;

/// Most frames of a session; one program in four overflows the register stack first.
const DEPTH_LIMIT: u32 = 150;
const STACK_SLOTS: usize = 4096;

/// A configuration to run a program in, other than the interpreter.
#[derive(Clone, Copy, Debug)]
enum Config {
    /// Every function method-compiled ahead of time.
    Compiled,
    /// The same code, saved and loaded again.
    Saved,
    /// Compiled to show its calls to an instrument, which skips some and fails at some.
    Watched,
    /// Traced: one guard in `one_in` is forced to fail (0: none), and a side exit is hot after
    /// `exit_threshold` times.
    Traced { one_in: u32, exit_threshold: u32, budget: CodeBudget },
}

/// The code-cache budget of a configuration.
#[derive(Clone, Copy, Debug)]
enum CodeBudget {
    Usual,
    /// That of the case, under which code is evicted all the time.
    Tiny,
}

const CONFIGS: [Config; 8] = [
    Config::Compiled,
    Config::Saved,
    Config::Watched,
    Config::Traced { one_in: 0, exit_threshold: 3, budget: CodeBudget::Usual },
    Config::Traced { one_in: 1, exit_threshold: 4, budget: CodeBudget::Usual },
    Config::Traced { one_in: 1, exit_threshold: u32::MAX, budget: CodeBudget::Usual },
    Config::Traced { one_in: 12, exit_threshold: 2, budget: CodeBudget::Usual },
    Config::Traced { one_in: 3, exit_threshold: 2, budget: CodeBudget::Tiny },
];

/// The weights of configurations for programs that run in one: indices into [`CONFIGS`]. Traces whose
/// guards hold find the most.
const WEIGHTED: [usize; 13] = [0, 0, 1, 2, 3, 3, 3, 3, 4, 5, 6, 7, 7];

/// Interpreter, compiled code and traces give the same results, write the same elements, call the
/// host in the same order, fail with the same errors at the same instructions, leave the same fuel
/// and the same objects alive; whichever guards of the traces fail.
pub fn tiers(case: &ProgramCase) -> Tally {
    in_configs(case, &CONFIGS)
}

/// The same, in one configuration, which the case chooses: for many programs in little time.
pub fn one_tier(case: &ProgramCase) -> Tally {
    in_configs(case, &[CONFIGS[WEIGHTED[(case.guard_seed >> 8) as usize % WEIGHTED.len()]]])
}

fn in_configs(case: &ProgramCase, configs: &[Config]) -> Tally {
    kernels::raw_calls();
    let interpreted = run(case, &load(case, None).0, Mode::Bytecode);
    let mut tally = Tally::default();
    for config in configs {
        let mut expected = &interpreted;
        let watched;
        let (found, program, tier) = match *config {
            Config::Compiled => {
                let (program, tier) = load(case, Some(options(case, *config)));
                let refused = program.compile_ahead_of_time();
                assert!(refused.is_empty(), "compiled mode refused {refused:?}");
                (run(case, &program, Mode::Compiled), program, tier)
            }
            Config::Watched => {
                watched = run_watched(case, &load(case, None).0, Mode::Bytecode);
                expected = &watched;
                let (program, tier) = load(case, Some(options(case, *config)));
                (run_watched(case, &program, Mode::Compiled), program, tier)
            }
            Config::Saved => {
                let program = saved(case);
                (run(case, &program, Mode::Tiered), program, None)
            }
            Config::Traced { .. } => {
                let (program, tier) = load(case, Some(options(case, *config)));
                (run(case, &program, Mode::Tiered), program, tier)
            }
        };
        compare(case, &format!("{config:?}"), expected, &found);
        let usual = !matches!(config, Config::Traced { one_in: 1.., .. } | Config::Watched);
        if let (Some(tier), true) = (&tier, usual && configs.len() > 1) {
            overview_is_complete(case, tier, &program);
        }
        if let (Some(tier), Config::Traced { .. }) = (tier, config) {
            tally += Tally::of(&tier, &program);
        }
    }
    tally.raw = kernels::raw_calls();
    tally
}

/// A tier's overview of a program lists each of its functions, and each of the guards of its traces.
fn overview_is_complete(case: &ProgramCase, tier: &CraneliftTier, program: &Program) {
    let overview = tier.overview(program, None, None).to_string();
    for function in case.executable.functions.iter().filter(|it| it.kind == FuncKind::Vm) {
        assert!(overview.contains(&function.name), "{} is not in:\n{overview}", function.name);
    }
    for trace in tier.traces(program) {
        let (recorded, text) = (trace.recorded(), trace.text());
        let lines = text.lines().count();
        assert!(lines > trace.guards(), "recorded:\n{recorded}\nas compiled:\n{text}");
    }
}

fn options(case: &ProgramCase, config: Config) -> TierOptions {
    // Most programs are translated without optimisation, in a third of the time.
    let optimise_limit = if case.guard_seed & 63 == 0 { usize::MAX } else { 0 };
    // In one of eight, functions are split into several bodies.
    let body_limit = match case.guard_seed >> 16 & 7 {
        0 => 1 + (case.guard_seed >> 19 & 7) as usize,
        _ => usize::MAX,
    };
    let mut usual = TierOptions { optimise_limit, body_limit, ..TierOptions::default() };
    if let Config::Watched = config {
        usual.compile_mode = CompileMode::Synchronous;
    }
    let Config::Traced { one_in, exit_threshold, budget } = config else { return usual };
    // In one of eight, most recordings exceed the trace limit.
    let trace_limit = match case.guard_seed >> 22 & 7 {
        0 => (case.guard_seed >> 25 & 31) as usize,
        _ => usual.trace_limit,
    };
    TierOptions {
        threshold: case.threshold,
        trace_limit,
        code_cache_limit: match budget {
            CodeBudget::Tiny => case.code_limit,
            CodeBudget::Usual => usual.code_cache_limit,
        },
        exit_threshold,
        forced_exits: (one_in > 0).then(|| Arc::new(ForcedExits::new(case.guard_seed, one_in))),
        compile_mode: CompileMode::Synchronous,
        ..usual
    }
}

/// Sessions that come and go on several threads, while code is compiled in the background, replaced,
/// evicted and refused, each give the results of a session that runs alone.
pub fn threads(case: &ProgramCase) -> Tally {
    let only_own = |mut seen: Vec<String>| {
        // All share the constants.
        seen.pop();
        seen
    };
    // Where native recursion ends depends on the stack; on this one no program gets there with its fuel.
    let builder = || std::thread::Builder::new().stack_size(256 << 20);
    let expected = std::thread::scope(|scope| {
        let alone = || only_own(run(case, &load(case, None).0, Mode::Bytecode));
        let thread = builder().spawn_scoped(scope, alone).expect("a thread starts");
        thread.join().expect("the interpreter answers")
    });
    let options = TierOptions {
        threshold: case.threshold,
        record_delay: std::time::Duration::ZERO,
        exit_threshold: 2,
        code_cache_limit: case.code_limit,
        forced_exits: Some(Arc::new(ForcedExits::new(case.guard_seed, 4))),
        ..TierOptions::default()
    };
    let (program, tier) = load(case, Some(options));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (program, expected) = (&program, &expected);
            let run_thrice = move || {
                for _ in 0..3 {
                    let found = only_own(run(case, program, Mode::Tiered));
                    compare(case, &format!("thread {thread}"), expected, &found);
                }
            };
            builder().spawn_scoped(scope, run_thrice).expect("a thread starts");
        }
    });
    let tier = tier.expect("the program has a tier");
    tier.wait();
    Tally::of(&tier, &program)
}

/// Coverage of one run: counts of the events that an oracle is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Traces that were compiled.
    pub traces: usize,
    /// Side traces.
    pub side_traces: usize,
    /// Traces that loop through a level of a recursion, up or down.
    pub recursive: usize,
    /// Loops that carry unboxed values in CPU registers.
    pub carried: usize,
    /// Distinct side exits that were taken.
    pub exits: usize,
    /// Functions that were method-compiled because their traces took side exits too often.
    pub methods: usize,
    /// Kernels called by their raw entries.
    pub raw: usize,
    /// Traces and functions that were evicted.
    pub evicted: usize,
}

impl Tally {
    fn of(tier: &CraneliftTier, program: &Program) -> Tally {
        let traces = tier.traces(program);
        let taken = |trace: &TraceReport| trace.exits().iter().filter(|&&taken| taken > 0).count();
        Tally {
            traces: traces.len(),
            recursive: traces.iter().filter(|trace| trace.is_recursive()).count(),
            carried: traces.iter().filter(|trace| trace.has_carried_values()).count(),
            side_traces: traces.iter().filter(|trace| trace.parent.is_some()).count(),
            exits: traces.iter().map(taken).sum(),
            methods: tier.methods(program).len(),
            raw: 0,
            evicted: tier.evictions(program),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.traces += other.traces;
        self.side_traces += other.side_traces;
        self.recursive += other.recursive;
        self.carried += other.carried;
        self.exits += other.exits;
        self.methods += other.methods;
        self.raw += other.raw;
        self.evicted += other.evicted;
    }
}

/// The program with machine code that was saved by another program of the same bytecode.
fn saved(case: &ProgramCase) -> Arc<Program> {
    let (from, tier) = load(case, Some(options(case, Config::Saved)));
    let tier = tier.expect("the program has a tier");
    let (bytes, functions) = tier.save_code(&from).expect("code can be kept");
    let (program, _) = load(case, None);
    let loaded = CraneliftTier::with_saved_code(TierOptions::default(), &program, &bytes);
    let (tier, fits) = loaded.expect("generated code runs here");
    fits.expect("the code was saved for this bytecode");
    let tier = Arc::new(tier);
    assert!(program.attach(Arc::clone(&tier) as Arc<dyn reflex_vm::tier::Tier>));
    tier.install_saved_code(&program);
    assert_eq!(tier.saved_functions(&program).0, functions);
    program
}

/// The host functions that programs call, created once.
static HOST: LazyLock<Host> = LazyLock::new(|| Host(host::library()));

type Loaded = (Arc<Program>, Option<Arc<CraneliftTier>>);

fn load(case: &ProgramCase, options: Option<TierOptions>) -> Loaded {
    let executable = verify(case.executable.clone()).expect("the generator makes valid programs");
    let program = Program::load(executable, &[&*HOST]).expect("every function exists");
    let tier = options.map(|options| {
        let tier = CraneliftTier::with_options(options).expect("generated code runs here");
        let tier = Arc::new(tier);
        assert!(program.attach(Arc::clone(&tier) as Arc<dyn reflex_vm::tier::Tier>));
        tier
    });
    (Arc::new(program), tier)
}

/// Everything observable of a run, one line each.
fn run(case: &ProgramCase, program: &Arc<Program>, mode: Mode) -> Vec<String> {
    run_with(case, program, mode, None)
}

/// [`run`] under an instrument, with what it saw.
fn run_watched(case: &ProgramCase, program: &Arc<Program>, mode: Mode) -> Vec<String> {
    let watcher = Arc::new(Mutex::new(Watcher::new(case.guard_seed)));
    let mut seen = run_with(case, program, mode, Some(Box::new(Arc::clone(&watcher))));
    seen.append(&mut watcher.lock().seen());
    seen
}

fn run_with(
    case: &ProgramCase,
    program: &Arc<Program>,
    mode: Mode,
    instrument: Option<Box<dyn Instrument>>,
) -> Vec<String> {
    host::take_log();
    let alive = host::live_objects();
    let counts = constant_counts(program);
    let mut seen = Vec::new();
    let mut options = Options { mode, depth_limit: DEPTH_LIMIT, ..Options::default() };
    if case.guard_seed >> 16 & 3 == 0 {
        (options.depth_limit, options.stack_slots) = (u32::MAX, STACK_SLOTS);
    }
    let mut session = Session::new(program, options).expect("a session can be made");
    host::cancels(session.canceller());
    session.set_instrument(instrument);
    for inputs in &case.calls {
        let args = inputs.map(input);
        session.set_fuel(Some(case.fuel));
        let outcome = session.call("main", &args);
        session.canceller().reset();
        seen.extend(host::take_log());
        seen.push(match outcome {
            Ok(value) => format!("= {}", host::describe(value.view())),
            Err(error) => format!("! {:?} {error}", error.reason()),
        });
        seen.push(format!("fuel {}", session.fuel()));
        // The result is gone; only the host refers to its arguments, unless a leaked cycle does.
        for arg in &args {
            let holders = arg.object_ref().map_or(1, |object| object.strong_count());
            seen.push(format!("{} held {holders} times", host::describe(arg.view())));
        }
    }
    drop(session);
    seen.push(format!("{} objects left alive", host::live_objects() - alive));
    let kept = constant_counts(program).iter().zip(&counts).any(|(now, before)| now != before);
    seen.push(format!("constants kept: {kept}"));
    seen
}

/// Reference counts of the program's constants; not of the host's functions, which programs on other
/// threads share.
fn constant_counts(program: &Program) -> Vec<u32> {
    let own = |value: &&Any| value.type_index() != type_index::FUNCTION;
    let count = |value: &Any| value.object_ref().map_or(0, |object| object.strong_count());
    program.consts().iter().filter(own).map(count).collect()
}

fn input(input: Input) -> Any {
    let shape = |which: u8| SHAPES[usize::from(which) % SHAPES.len()];
    match input {
        Input::None => Any::NONE,
        Input::Int(value) => i64::from(value).into(),
        Input::Bool(value) => value.into(),
        Input::Tensor(which) => kernels::tensor(shape(which), DType::F32),
        Input::IntTensor(which) => kernels::tensor(shape(which), DType::I32),
        Input::Strided(which) => {
            let layout = [Layout::Rows, Layout::Rows, Layout::Columns, Layout::Elements];
            kernels::strided(3 + i64::from(which % 3), layout[usize::from(which >> 2 & 3)])
        }
        Input::Tall(which) => kernels::tensor(&[3, 2 + i64::from(which & 1)], DType::F32),
        Input::Flag(which) => kernels::flag(which),
        Input::Foreign(which) => kernels::foreign(which),
        Input::Half(value) => (f64::from(value) / 2.0).into(),
        Input::Text(false) => "short".into(),
        Input::Text(true) => "text beyond seven bytes".into(),
        Input::Recorder => host::recorder(),
        Input::ForeignClosure(which) => {
            host::foreign_closure(u32::from(which & 3 > 0), usize::from(which >> 2) % 3)
        }
        Input::Shape(which) => Shape::new(shape(which)).into(),
        Input::Longer => Shape::new(LONGER).into(),
        Input::Pair(left, right) => {
            Array::new([i64::from(left).into(), i64::from(right).into()]).into()
        }
        Input::Items(count) => {
            let items: Vec<Any> = (0..i64::from(count % 4)).map(Any::from).collect();
            Array::new(items).into()
        }
        Input::Data(which) => host::data(which),
        Input::Dim(which) => DIMS[usize::from(which) % DIMS.len()].into(),
        Input::Entries(which) => kernels::entries(which),
        Input::Inner(which) => kernels::inner(3 + i64::from(which % 3)),
    }
}

#[track_caller]
fn compare(case: &ProgramCase, name: &str, expected: &[String], found: &[String]) {
    if expected == found {
        return;
    }
    let at = expected.iter().zip(found).position(|(left, right)| left != right);
    let at = at.unwrap_or_else(|| expected.len().min(found.len()));
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "<nothing>".to_owned());
    panic!(
        "{name} differs from the interpreter in line {at}:\n  interpreter: {}\n  {name}: {}\n\
         calls {:?} fuel {} seed {}\n{}",
        line(expected),
        line(found),
        case.calls,
        case.fuel,
        case.guard_seed,
        reflex_vm::text::as_text(&case.executable),
    );
}
