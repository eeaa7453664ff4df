//! Objects of the host whose destructors call functions of the program, wherever they are released.

use std::collections::HashMap;
use std::sync::Arc;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::reentry;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// Calls a closure when it goes, and does not mind what comes of it.
struct Loud {
    vm: Any,
    closure: Any,
}

impl Drop for Loud {
    fn drop(&mut self) {
        drop(reentry::call_back(&self.vm.view(), &self.closure.view(), &[]));
    }
}

/// The results of `main` in a mode when it is called repeatedly, and the log of the calls from
/// destructors.
fn outcomes(text: &str, mode: Mode) -> Vec<String> {
    let loud = Function::new(|args| {
        let loud = Loud { vm: args[0].to_owned(), closure: args[1].to_owned() };
        Ok(Function::new(move |_| Ok(loud.vm.view().to_owned())).into())
    });
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = {
        let heard = Arc::clone(&heard);
        Function::new(move |args| {
            heard.lock().unwrap().push(format!("told {:?}", args[0].as_int()));
            Ok(Any::NONE)
        })
    };
    let fail = Function::new(|args| {
        Err(Error::value_error(format!("asked to fail with {:?}", args[0].as_int())))
    });
    let functions = [("loud", loud), ("tell", tell), ("fail", fail)];
    let functions: HashMap<String, Function> =
        functions.map(|(name, function)| (name.to_owned(), function)).into();
    let program = verify(listing::parse(text).unwrap()).unwrap();
    let program = Program::load(program, &[&functions]).unwrap();
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    let program = Arc::new(program);
    if mode == Mode::Compiled {
        assert!(program.compile_ahead_of_time().is_empty(), "every function is compiled");
    }
    let mut session = Session::new(&program, Options { mode, ..Options::default() }).unwrap();
    let mut seen = Vec::new();
    for _ in 0..6 {
        let outcome = session.call("main", &[]);
        seen.append(&mut heard.lock().unwrap());
        seen.push(match outcome.map(Array::try_from) {
            Ok(Ok(items)) => {
                format!("{:?}", items.iter().map(|item| item.view().as_int()).collect::<Vec<_>>())
            }
            Ok(Err(_)) => "no tuple".to_owned(),
            Err(error) => format!("{error}"),
        });
    }
    let fine = seen.iter().any(|line| line.starts_with('['));
    if fine && mode == Mode::Tiered {
        assert!(!tier.traces(&program).is_empty(), "nothing was traced");
    }
    seen
}

/// Every mode gives this in each of the calls.
#[track_caller]
fn always(text: &str, expected: &[&str]) {
    for mode in [Mode::Bytecode, Mode::Compiled, Mode::Tiered] {
        let seen = outcomes(text, mode);
        assert_eq!(seen, expected.repeat(6), "{mode:?}");
    }
}

/// Writes many registers, and gives a tuple of its own.
const NOISE: &str = "
@noise() regs=6:
  call  tell in: i7 dst: %void
  call  vm.builtin.make_tuple in: i30, i31 dst: %0
  call  vm.builtin.make_tuple in: i40, i41 dst: %1
  call  vm.builtin.make_tuple in: %0, %1 dst: %2
  call  vm.builtin.make_tuple in: i50, i51 dst: %3
  call  vm.builtin.make_tuple in: i60, i61 dst: %4
  call  vm.builtin.make_tuple in: i70, i71 dst: %5
  ret   %5
";

#[test]
fn a_result_replaces_what_calls_back() {
    let text = format!(
        "
@inner() regs=1:
  call  vm.builtin.make_tuple in: i1, i2 dst: %0
  ret   %0

@main() regs=1:
  call  loud in: %vm, f[noise] dst: %0
  call  inner in: dst: %0
  ret   %0
{NOISE}"
    );
    always(&text, &["told Some(7)", "[Some(1), Some(2)]"]);
}

#[test]
fn objects_released_by_a_frame_call_back() {
    let text = format!(
        "
@inner() regs=2:
  call  loud in: %vm, f[noise] dst: %0
  call  vm.builtin.make_tuple in: i1, i2 dst: %1
  ret   %1

@main() regs=2:
  call  loud in: %vm, f[noise] dst: %0
  call  inner in: dst: %1
  ret   %1
{NOISE}"
    );
    always(&text, &["told Some(7)", "told Some(7)", "[Some(1), Some(2)]"]);
}

#[test]
fn objects_released_by_a_failing_run_fail_too() {
    let text = "
@broken() regs=1:
  call  tell in: i8 dst: %void
  call  fail in: i2 dst: %0
  ret   %0

@main() regs=2:
  call  loud in: %vm, f[broken] dst: %0
  call  fail in: i1 dst: %1
  ret   %1
";
    let failed = "ValueError: asked to fail with Some(1)\n  in function `main`, instruction 1, calling `fail`";
    always(text, &["told Some(8)", failed]);
}
