//! Cold code is evicted for hot code, wherever sessions are meanwhile.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reflex_codemem::pages::PAGE;
use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::function::{self, Function};
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// Functions `f0`, `f1` and so on, which add their number and one. Every trace and method of these tests
/// takes a page.
fn adders(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        let one = number + 1;
        let _ =
            writeln!(text, "@f{number}(n) regs=2:\n  call  add in: %0, i{one} dst: %1\n  ret   %1");
    }
    text
}

/// `down(n)` calls itself `n` times, then `bottom`; the result is `n` more than that of `bottom`.
const DOWN: &str = "
@down(n) regs=3:
  call  lt in: i0, %0 dst: %1
  If    %1, 5
  call  add in: %0, i-1 dst: %1
  call  down in: %1 dst: %2
  call  add in: %2, i1 dst: %2
  ret   %2
  call  bottom in: dst: %2
  ret   %2
";

/// The same with another call of itself, which never runs: a function with several recursive calls
/// is compiled as a method.
fn method() -> String {
    format!("{DOWN}  call  down in: i0 dst: %2\n  ret   %2\n")
}

/// Evicts what there is, then lets its loop become hot; what `look` saw is the result.
const BOTTOM: &str = "
@bottom() regs=3:
  call  poke in: dst: %void
  call  vm.builtin.copy in: i8 dst: %0
  call  add in: %0, i-1 dst: %0
  call  lt in: i0, %0 dst: %1
  If    %1, 2
  goto  -3
  call  look in: dst: %2
  ret   %2
";

type Loaded = (Arc<Program>, Arc<CraneliftTier>);
type Hook = Arc<dyn Fn() -> i64 + Send + Sync>;

fn load(text: &str, limit: usize, hooks: &[(&str, Hook)]) -> Loaded {
    load_with(text, limit, hooks, CompileMode::Synchronous)
}

fn load_with(
    text: &str,
    limit: usize,
    hooks: &[(&str, Hook)],
    compile_mode: CompileMode,
) -> Loaded {
    let int = |f: fn(i64, i64) -> i64| {
        Function::new(move |args| {
            Ok(Any::from(f(function::arg(args, 0)?, function::arg(args, 1)?)))
        })
    };
    let mut library: HashMap<String, Function> =
        [("add", int(i64::wrapping_add)), ("lt", int(|a, b| i64::from(a < b)))]
            .map(|(name, function)| (name.to_owned(), function))
            .into();
    for (name, hook) in hooks {
        let hook = Arc::clone(hook);
        library.insert((*name).to_owned(), Function::new(move |_| Ok(Any::from(hook()))));
    }
    let program = verify(listing::parse(text).unwrap()).unwrap();
    let program = Program::load(program, &[&library]).unwrap();
    let options = TierOptions {
        threshold: 2,
        exit_threshold: 4,
        code_cache_limit: limit,
        compile_mode,
        record_delay: Duration::ZERO,
        ..TierOptions::default()
    };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    (Arc::new(program), tier)
}

fn session(program: &Arc<Program>) -> Session {
    let options = Options { mode: Mode::Tiered, ..Options::default() };
    Session::new(program, options).unwrap()
}

fn call(session: &mut Session, name: &str, arg: i64) -> i64 {
    session.call(name, &[Any::from(arg)]).unwrap().view().as_int().unwrap()
}

/// Calls function `number` of [`adders`] so often.
fn add(session: &mut Session, number: i64, times: usize) {
    for at in 0..times as i64 {
        assert_eq!(call(session, &format!("f{number}"), at), at + number + 1);
    }
}

/// The functions whose traces are there, in order.
fn traced((program, tier): &Loaded) -> Vec<u32> {
    let traces = tier.traces(program);
    let there = traces.iter().filter(|trace| trace.machine_code().is_some());
    let mut functions: Vec<u32> = there.map(|trace| trace.site.0).collect();
    functions.sort_unstable();
    functions
}

#[test]
fn the_coldest_trace_is_evicted() {
    let loaded = load(&adders(4), 2 * PAGE, &[]);
    let (program, tier) = &loaded;
    let mut session = session(program);
    let place = |name| program.find(name).unwrap();
    let (f0, f1, f2) = (place("f0"), place("f1"), place("f2"));
    add(&mut session, 0, 40);
    add(&mut session, 1, 10);
    assert_eq!(traced(&loaded), [f0, f1]);
    assert_eq!((tier.evictions(program), tier.code_bytes()), (0, (2 * PAGE, 2 * PAGE)));
    // The requesting session releases evicted code, so the new code fits immediately.
    add(&mut session, 2, 10);
    assert_eq!(traced(&loaded), [f0, f2]);
    assert_eq!(tier.evictions(program), 1);
    assert_eq!(program.bailouts().get("code-memory-full"), None);
    let text = tier.overview(program, None, None).to_string();
    assert!(text.contains("entry: evicted 1 times"), "{text}");
    assert!(text.contains(" bytes, ran 8 times, evicted"), "{text}");
    let stated = format!("code: {0} bytes of at most {0}, 1 pieces evicted", 2 * PAGE);
    assert!(text.contains(&stated), "{text}");
    // It is compiled again once it is hot again, after its penalty; the limit holds throughout.
    for _ in 0..20 {
        add(&mut session, 1, 1);
        assert!(tier.code_bytes().0 <= 2 * PAGE);
    }
    assert_eq!(traced(&loaded), [f0, f1]);
    assert_eq!(tier.evictions(program), 2);
}

/// Adds to `n` one, or a hundred where `n` is not less than 5.
const BRANCH: &str = "
@main(n) regs=3:
  call  lt in: %0, i5 dst: %1
  If    %1, 3
  call  add in: %0, i1 dst: %2
  ret   %2
  call  add in: %0, i100 dst: %2
  ret   %2
";

#[test]
fn a_side_trace_whose_parent_is_evicted_for_it_is_abandoned() {
    let loaded = load(&format!("{}{BRANCH}", adders(1)), 2 * PAGE, &[]);
    let (program, tier) = &loaded;
    let mut session = session(program);
    (0..8).for_each(|_| assert_eq!(call(&mut session, "main", 1), 2));
    add(&mut session, 0, 100);
    let sites = [program.find("f0").unwrap(), program.find("main").unwrap()];
    assert_eq!(traced(&loaded), sites);
    // The trace of `main` is the coldest code when its exit gets a side trace.
    (0..8).for_each(|_| assert_eq!(call(&mut session, "main", 7), 107));
    assert_eq!(program.bailouts(), [("evicted", 1)].into());
    let text = tier.overview(program, None, None).to_string();
    assert!(text.contains("  entry: not compiled: evicted 1\n"), "{text}");
}

#[test]
fn traces_that_compete_for_the_budget_replace_each_other_ever_more_rarely() {
    let loaded = load(&adders(3), PAGE, &[]);
    let (program, tier) = &loaded;
    let mut session = session(program);
    let mut compiled = Vec::new();
    for round in 1..=4096 {
        for number in 0..3 {
            add(&mut session, number, 2);
        }
        if round & (round - 1) == 0 {
            compiled.push(tier.traces(program).len());
        }
    }
    // Each is compiled once more when its number of calls has doubled, at most.
    assert!(compiled.last().is_some_and(|&last| (4..=3 * 13).contains(&last)), "{compiled:?}");
}

/// The program that hooks find, once it is loaded.
type Later = Arc<Mutex<Option<Loaded>>>;

/// Runs `down` with `bottom`, which has what there is evicted and then looks whether the code of
/// `down` is there; gives what it saw in each of a few calls of one session.
fn down(bottom: &str, depth: i64) -> Vec<bool> {
    let (later, seen) = (Later::default(), Arc::<Mutex<Vec<bool>>>::default());
    let (found, log) = (Arc::clone(&later), Arc::clone(&seen));
    let poke: Hook = Arc::new(move || {
        let (program, _) = found.lock().unwrap().clone().expect("loaded");
        let mut other = session(&program);
        add(&mut other, 0, 20);
        0
    });
    let found = Arc::clone(&later);
    let look: Hook = Arc::new(move || {
        let (program, tier) = found.lock().unwrap().clone().expect("loaded");
        let functions = tier.methods(&program);
        log.lock().unwrap().extend(functions.last().map(|code| code.machine_code().is_some()));
        100
    });
    let (first, then) = (Arc::clone(&poke), Arc::clone(&look));
    let both: Hook = Arc::new(move || first() + then());
    let text = format!("{}{}{bottom}", adders(1), method());
    let loaded = load(&text, PAGE, &[("poke", poke), ("look", look), ("both", both)]);
    *later.lock().unwrap() = Some(loaded.clone());
    let (program, tier) = &loaded;
    let mut session = session(program);
    for _ in 0..12 {
        assert_eq!(call(&mut session, "down", depth), depth + 100);
    }
    let functions = tier.methods(program);
    assert!(functions.iter().any(|code| code.evicted()), "{}", tier.overview(program, None, None));
    for code in functions.iter().filter(|code| code.evicted()) {
        assert!(code.machine_code().is_none(), "no session is inside");
    }
    later.lock().unwrap().take();
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn frames_continue_when_the_code_of_their_function_is_evicted() {
    // Deeper than native code calls native code, and not.
    for depth in [5, 50, 200] {
        // The interpreter runs in between and takes over the frames, so no session is inside the code.
        assert!(!down(BOTTOM, depth)[0], "depth {depth}");
        // Native code waits for the function that evicts it.
        let direct = "@bottom() regs=1:\n  call  both in: dst: %0\n  ret   %0\n";
        assert!(down(direct, depth).contains(&true), "depth {depth}");
    }
}

#[test]
fn sessions_come_and_go_while_code_does() {
    let bottom = "@bottom() regs=1:\n  call  add in: i3, i4 dst: %0\n  ret   %0\n";
    for down in [DOWN.to_owned(), method()] {
        come_and_go(&format!("{}{down}{bottom}", adders(5)));
    }
}

fn come_and_go(text: &str) {
    let (program, tier) = load_with(text, 2 * PAGE, &[], CompileMode::Background);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let program = &program;
            scope.spawn(move || {
                for round in 0..40 {
                    let mut session = session(program);
                    for at in 0..12 {
                        add(&mut session, (round + at / 3 + thread) % 5, 4);
                        assert_eq!(call(&mut session, "down", 70 + at), 77 + at);
                    }
                }
            });
        }
    });
    tier.wait();
    assert!(tier.code_bytes().0 <= 2 * PAGE);
    assert!(tier.evictions(&program) > 0, "{}", tier.overview(&program, None, None));
}
