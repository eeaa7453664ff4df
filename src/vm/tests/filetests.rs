//! Text in, result out: every file of `tests/filetests/vm`.
//!
//! A file is a listing (see `reflex_vm::listing`) followed by runs: `> main(1, [2, 3])`
//! and below it the expected outcome, `= value` or `! error` (several lines for an
//! error with frames). A program that does not verify has one `! error` and no runs.
//! `REFLEX_BLESS=1` writes the outcomes that were observed.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builtins::Builtin;
use reflex_vm::listing;
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
    [("add", int(i64::wrapping_add)), ("lt", int(|a, b| i64::from(a < b))), ("fail", fail)]
        .map(|(name, function)| (name.to_owned(), function))
        .into()
}

/// A value as the files write it.
fn show(value: AnyView<'_>) -> String {
    if let Some(items) = value.downcast_ref::<Array>() {
        let items: Vec<_> = items.iter().map(|item| show(item.view())).collect();
        return format!("({})", items.join(", "));
    }
    if let Some(shape) = value.downcast_ref::<Shape>() {
        return format!("{:?}", &**shape);
    }
    if let Some(tensor) = value.downcast_ref::<Tensor>() {
        return format!("{}{:?}", tensor.dtype(), tensor.shape());
    }
    match value.object_ref() {
        Some(object) if value.as_str().is_none() => object.type_key().to_string(),
        _ => format!("{value:?}"),
    }
}

/// `none`, an integer, a float, `[1, 2]` (a shape), `float32[2, 3]` (zeros) or text.
fn read(text: &str) -> Any {
    let extents = |list: &str| -> Vec<i64> {
        list.split(',')
            .filter(|s| !s.trim().is_empty())
            .map(|s| s.trim().parse().unwrap())
            .collect()
    };
    if text == "none" {
        return Any::NONE;
    }
    if let Ok(int) = text.parse::<i64>() {
        return int.into();
    }
    if let Ok(float) = text.parse::<f64>() {
        return float.into();
    }
    match text.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some(("", list)) => Shape::new(&extents(list)).into(),
        Some((dtype, list)) => {
            let dtype: DType = dtype.parse().unwrap();
            Tensor::zeros(&extents(list), dtype).unwrap().into()
        }
        None => text.into(),
    }
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

fn outcome(session: &mut Session, run: &str) -> String {
    let (name, args) = run.strip_suffix(')').and_then(|r| r.split_once('(')).expect("> name(args)");
    let args: Vec<Any> = split_args(args).into_iter().map(read).collect();
    match session.call(name, &args) {
        Ok(value) => format!("= {}\n", show(value.view())),
        Err(error) => prefixed(&error.to_string()),
    }
}

fn prefixed(error: &str) -> String {
    error.lines().map(|line| format!("! {line}\n")).collect()
}

/// The file as it should be.
fn replay(text: &str) -> String {
    let is_outcome = |line: &str| line.starts_with("= ") || line.starts_with("! ");
    let is_run = |line: &str| line.starts_with("> ");
    let input: String = text
        .lines()
        .filter(|line| !is_outcome(line) && !is_run(line))
        .map(|line| format!("{line}\n"))
        .collect();
    let exec = listing::parse(&input).unwrap_or_else(|error| panic!("{error}"));
    let printed = listing::print(&exec);
    assert_eq!(listing::print(&listing::parse(&printed).unwrap()), printed, "listing round trip");
    let options = Options { depth_limit: 1000, ..Options::default() };
    let mut session = match verify(exec) {
        Err(error) => Err(prefixed(&error.to_string().replace("; ", "\n"))),
        Ok(exec) => match Program::load(exec, &[&library()]) {
            Err(error) => Err(prefixed(&error.to_string())),
            Ok(program) => Ok(Session::new(&Arc::new(program), options).unwrap()),
        },
    };
    let mut out = String::new();
    for line in text.lines().filter(|line| !is_outcome(line)) {
        let _ = writeln!(out, "{line}");
        if let (Some(run), Ok(session)) = (line.strip_prefix("> "), &mut session) {
            // Endless programs take their time under Miri.
            session.set_fuel(Some(if cfg!(miri) { 3_000 } else { 100_000 }));
            out.push_str(&outcome(session, run));
        }
    }
    if let Err(refused) = session {
        out.push_str(&refused);
    }
    out
}

#[test]
fn files_say_what_happens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/vm");
    let bless = std::env::var_os("REFLEX_BLESS").is_some();
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let observed = replay(&text);
        if bless {
            std::fs::write(&path, observed).unwrap();
        } else {
            assert_eq!(observed, text, "{} (REFLEX_BLESS=1 accepts)", path.display());
        }
    }
}

#[test]
fn every_builtin_is_in_a_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/vm");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for builtin in Builtin::ALL {
        let call = format!("call  {} in:", builtin.name());
        assert!(texts.contains(&call), "no file calls `{}`", builtin.name());
    }
}
