//! Saved code runs as if it had been compiled in this process, or is refused with a named reason.
//! The oracle `tiers` of `fuzz/` compares it with the interpreter.

use std::collections::HashMap;
use std::sync::Arc;

use reflex_cranelift::{CraneliftTier, SavedCodeError, TierOptions};
use reflex_runtime::function::{Function, arg};
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// `main(n) = n > 0 ? n + main(n - 1) : 0`, with a storage and a shape made on the way.
const SUM: &str = r#"
const c[0] = shape [16]
const c[1] = dtype float32
const c[2] = str "global"
@main(n) regs=5:
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[1], c[2] dst: %4
  call  vm.builtin.make_shape in: %void, i1, i0, i3 dst: %3
  call  vm.builtin.null_value in:  dst: %4
  call  lt in: i0, %0 dst: %1
  If    %1, 5
  call  add in: %0, i-1 dst: %2
  call  main in: %2 dst: %2
  call  add in: %0, %2 dst: %2
  ret   %2
  call  vm.builtin.copy in: i0 dst: %2
  ret   %2
"#;

fn program(text: &str) -> Arc<Program> {
    let int = |f: fn(i64, i64) -> i64| {
        Function::new(move |args| Ok(Any::from(f(arg(args, 0)?, arg(args, 1)?))))
    };
    let library = [("add", int(i64::wrapping_add)), ("lt", int(|a, b| i64::from(a < b)))];
    let library: HashMap<String, Function> =
        library.map(|(name, function)| (name.to_owned(), function)).into();
    let exec = verify(listing::parse(text).unwrap()).unwrap();
    Arc::new(Program::load(exec, &[&library]).unwrap())
}

fn image() -> Vec<u8> {
    let tier = CraneliftTier::with_options(TierOptions::default()).unwrap();
    let (image, functions) = tier.save_code(&program(SUM)).unwrap();
    assert_eq!(functions, 1);
    image
}

/// The reason why saved code is not used for a program, which runs without it.
fn refusal(text: &str, image: &[u8]) -> SavedCodeError {
    let program = program(text);
    let (tier, fits) =
        CraneliftTier::with_saved_code(TierOptions::default(), &program, image).unwrap();
    let tier = Arc::new(tier);
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    tier.install_saved_code(&program);
    assert_eq!(program.compile_ahead_of_time(), []);
    assert!(tier.translated() > 0);
    assert_eq!(sum(&program, Mode::Compiled), Some(55));
    fits.unwrap_err()
}

fn sum(program: &Arc<Program>, mode: Mode) -> Option<i64> {
    let mut session = Session::new(program, Options { mode, ..Options::default() }).unwrap();
    session.call("main", &[Any::from(10_i64)]).unwrap().view().as_int()
}

#[test]
fn saved_code_runs_and_nothing_is_translated() {
    let image = image();
    let program = program(SUM);
    let (tier, fits) =
        CraneliftTier::with_saved_code(TierOptions::default(), &program, &image).unwrap();
    assert_eq!(fits, Ok(()));
    let tier = Arc::new(tier);
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    tier.install_saved_code(&program);
    assert_eq!(program.compile_ahead_of_time(), []);
    for mode in [Mode::Compiled, Mode::Tiered] {
        for _ in 0..100 {
            assert_eq!(sum(&program, mode), Some(55));
        }
    }
    assert_eq!((tier.saved_functions(&program).0, tier.translated()), (1, 0));
    assert!(tier.overview(&program, None, None).to_string().contains("saved code"));
}

#[test]
fn saved_code_that_does_not_fit_is_refused_by_name() {
    let image = image();
    assert_eq!(refusal(SUM, b""), SavedCodeError::Format);
    let mut other = image.clone();
    other[0] ^= 1;
    assert_eq!(refusal(SUM, &other), SavedCodeError::Format);
    // One constant differs.
    let changed = SUM.replace("i1, i0, i3 dst", "i1, i0, i4 dst");
    assert_ne!(changed, SUM);
    assert_eq!(refusal(&changed, &image), SavedCodeError::Program);
    let host = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86-64" };
    let level = image.windows(host.len()).position(|bytes| bytes == host.as_bytes()).unwrap();
    let mut other = image.clone();
    let made_for = "z".repeat(host.len());
    other[level..level + host.len()].copy_from_slice(made_for.as_bytes());
    assert_eq!(refusal(SUM, &other), SavedCodeError::Processor { made_for });
    assert!(matches!(refusal(SUM, &image[..image.len() - 1]), SavedCodeError::Malformed { .. }));
}
