//! Traces as text, and the VM's own files in every tier.
//!
//! A file of `tests/filetests/trace` is a listing (see `reflex_vm::listing`), runs `> main(3)`,
//! and the traces of these runs, on lines that start with `|`: as recorded, as compiled if a pass
//! changed them, and whether they were evicted. A line `; at most 2 pages of code` sets the
//! code-cache budget. In a file of `tests/filetests/compiled`, such lines show the lowering of the
//! builtins of each function. A file of `tests/filetests/passes` is named after a pass, and shows each
//! trace before and after that pass. `REFLEX_BLESS=1` writes the observed lines.
//! The files of `tests/filetests/vm` must have the same outcomes in compiled mode and traced.

#[path = "common/kernels.rs"]
mod kernels;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex_codemem::pages::PAGE;
use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions, TraceReport};
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

fn library() -> HashMap<String, Function> {
    let int = |f: fn(i64, i64) -> i64| {
        Function::new(move |args| {
            Ok(Any::from(f(function::arg(args, 0)?, function::arg(args, 1)?)))
        })
    };
    let fail = Function::new(|_| Err(Error::value_error("asked to fail")));
    let first = Function::new(|args| {
        let tensor: Tensor = function::arg(args, 0)?;
        Ok(Any::from(f64::from(tensor.to_vec::<f32>()?[0])))
    });
    let (add, lt) = (int(i64::wrapping_add), int(|a, b| i64::from(a < b)));
    let count = Function::new(|args| {
        let tuple: Array = function::arg(args, 0)?;
        Ok(Any::from(tuple.len() as i64))
    });
    [("add", add), ("lt", lt), ("fail", fail), ("first", first), ("count", count)]
        .map(|(name, function)| (name.to_owned(), function))
        .into()
}

/// An argument as the files write it: see the VM's test of its files.
fn read(text: &str) -> Any {
    let extents = |list: &str| -> Vec<i64> {
        list.split(',').filter_map(|extent| extent.trim().parse().ok()).collect()
    };
    match text.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some(("", list)) => return Shape::new(&extents(list)).into(),
        Some((dtype, list)) => {
            let dtype: DType = dtype.parse().unwrap();
            return Tensor::zeros(&extents(list), dtype).unwrap().into();
        }
        None => {}
    }
    let int = text.parse::<i64>().map(Any::from);
    let float = || text.parse::<f64>().map(Any::from);
    int.or_else(|_| float()).unwrap_or_else(|_| match text {
        "none" => Any::NONE,
        text => text.into(),
    })
}

fn split_args(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// The program of a file, or none when it does not load.
fn load(text: &str, options: TierOptions) -> Option<(Arc<Program>, Arc<CraneliftTier>)> {
    let is_code = |line: &&str| !line.starts_with(['>', '=', '!', '|']);
    let code: String = text.lines().filter(is_code).map(|line| format!("{line}\n")).collect();
    let exec = verify(listing::parse(&code).unwrap()).ok()?;
    let program = Program::load(exec, &[&kernels::WithKernel(library())]).ok()?;
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn reflex_vm::tier::Tier>);
    Some((Arc::new(program), tier))
}

/// Outcome of each run of a file, `times` times each.
fn outcomes(program: &Arc<Program>, mode: Mode, text: &str, times: usize) -> Vec<String> {
    let options = Options { mode, depth_limit: 1000, ..Options::default() };
    let mut session = Session::new(program, options).unwrap();
    let mut seen = Vec::new();
    for run in text.lines().filter_map(|line| line.strip_prefix("> ")) {
        let (name, args) = run.strip_suffix(')').and_then(|r| r.split_once('(')).unwrap();
        let args: Vec<Any> = split_args(args).into_iter().map(read).collect();
        for _ in 0..times {
            session.set_fuel(Some(100_000));
            let outcome = session.call(name, &args);
            let outcome = outcome.map_err(|error| error.to_string()).map(|v| v.type_index());
            seen.push(format!("{run}: {outcome:?}, fuel {}", session.fuel()));
        }
    }
    seen
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests").join(folder);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// The modules in a folder of the crate.
fn sources(folder: &str) -> impl Iterator<Item = String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let modules = paths.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    modules.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
}

#[test]
fn files_say_what_is_traced() {
    for path in files("trace") {
        let text = std::fs::read_to_string(&path).unwrap();
        let limit = text.lines().find_map(|line| line.strip_prefix("; at most "));
        let limit = limit.and_then(|line| line.strip_suffix(" pages of code"));
        let pages = limit.map(|limit| limit.parse::<usize>().expect("a number"));
        let options = TierOptions {
            threshold: 2,
            compile_mode: CompileMode::Synchronous,
            code_cache_limit: pages.map_or(usize::MAX, |pages| pages * PAGE),
            ..TierOptions::default()
        };
        let (program, tier) = load(&text, options).expect("a valid program");
        outcomes(&program, Mode::Tiered, &text, 1);
        let both = |trace: &TraceReport| {
            let evicted = if trace.evicted() { "evicted\n" } else { "" };
            let (recorded, text) = (trace.recorded(), trace.text());
            match recorded == text {
                true => format!("as recorded: {text}{evicted}"),
                false => format!("recorded: {recorded}compiled: {text}{evicted}"),
            }
        };
        let traces: String = tier.traces(&program).iter().map(both).collect();
        check(&path, &text, &traces);
    }
}

/// Options for traces of what runs a second time.
fn eager() -> TierOptions {
    TierOptions { threshold: 2, compile_mode: CompileMode::Synchronous, ..TierOptions::default() }
}

#[test]
fn files_say_what_each_pass_does() {
    let mut shown = BTreeSet::new();
    for path in files("passes") {
        let text = std::fs::read_to_string(&path).unwrap();
        let (program, tier) = load(&text, eager()).expect("a valid program");
        outcomes(&program, Mode::Tiered, &text, 1);
        let pass = path.file_stem().unwrap().to_str().unwrap();
        let mut observed = String::new();
        for trace in tier.traces(&program) {
            let mut before = trace.recorded();
            for (name, after) in trace.stages(&program) {
                if name == pass {
                    observed += &format!("before: {before}after: {after}");
                }
                before = after;
            }
            assert_eq!(before, trace.text());
        }
        assert!(!observed.is_empty(), "{pass} changes no trace");
        check(&path, &text, &observed);
        shown.insert(pass.to_owned());
    }
    // Passes use the modules `arena` and `lifetimes`, which are none.
    let passes =
        sources("trace/optimise").filter(|name| !["arena", "lifetimes"].contains(&name.as_str()));
    assert_eq!(shown, passes.collect(), "each pass has its file");
}

/// The lines of a file that start with `|` are what was observed.
fn check(path: &Path, text: &str, observed: &str) {
    let kept = text.lines().filter(|line| !line.starts_with('|'));
    let found: String = kept
        .map(str::to_owned)
        .chain(observed.lines().map(|line| format!("| {line}")))
        .map(|line| format!("{line}\n"))
        .collect();
    if std::env::var_os("REFLEX_BLESS").is_some() {
        std::fs::write(path, found).unwrap();
    } else {
        assert_eq!(found, text, "{} (REFLEX_BLESS=1 accepts)", path.display());
    }
}

#[test]
fn files_say_how_builtins_become_machine_code() {
    for path in files("compiled") {
        let text = std::fs::read_to_string(&path).unwrap();
        let (program, tier) = load(&text, TierOptions::default()).expect("a valid program");
        assert_eq!(program.compile_ahead_of_time(), []);
        let mut observed = String::new();
        for function in tier.methods(&program) {
            observed += &format!("@{}\n", program.name(function.func));
            function.lowered.iter().for_each(|builtin| observed += &format!("  {builtin}\n"));
        }
        check(&path, &text, &observed);
        // Recycled objects behave like new ones.
        let expected = outcomes(&program, Mode::Bytecode, &text, 6);
        assert_eq!(expected, outcomes(&program, Mode::Compiled, &text, 6), "{}", path.display());
    }
}

#[test]
fn the_files_of_the_vm_hold_in_every_tier() {
    for path in files("vm") {
        let text = std::fs::read_to_string(&path).unwrap();
        let Some((program, _)) = load(&text, TierOptions::default()) else { continue };
        assert_eq!(program.compile_ahead_of_time(), []);
        let expected = outcomes(&program, Mode::Bytecode, &text, 4);
        assert_eq!(expected, outcomes(&program, Mode::Compiled, &text, 4), "{}", path.display());
        let Some((program, _)) = load(&text, eager()) else { continue };
        assert_eq!(expected, outcomes(&program, Mode::Tiered, &text, 4), "{}", path.display());
    }
}
