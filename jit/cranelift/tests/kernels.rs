//! Kernels by their raw entries: called if their arguments pass the checks, and by the packed entry,
//! with its errors, if not.

#[path = "common/kernels.rs"]
mod kernels;

use std::collections::HashMap;
use std::sync::Arc;

use kernels::{WithKernel, calls};
use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::dtype::DType;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// Three calls: onto a tensor made here, from it onto a parameter, and onto itself.
const CALLS: &str = r#"
const c[0] = dtype float32
const c[1] = shape [2, 3]
@main(x, y) regs=4:
  call  vm.builtin.alloc_storage in: %vm, c[1], i0, c[0] dst: %2
  call  vm.builtin.alloc_tensor in: %2, i0, c[1], c[0] dst: %3
  call  grow in: %0, %3 dst: %void
  call  grow in: %3, %1 dst: %void
  call  grow in: %1, %1 dst: %void
  ret   %1
"#;

/// A program with its kernel and a tier.
fn load(text: &str) -> Program {
    let program = verify(listing::parse(text).unwrap()).unwrap();
    let library = WithKernel(HashMap::<String, Function>::new());
    let program = Program::load(program, &[&library]).unwrap();
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    let tier = CraneliftTier::with_options(options).unwrap();
    program.attach(Arc::new(tier) as Arc<dyn Tier>);
    program
}

fn open(program: Program, mode: Mode) -> Session {
    Session::new(&Arc::new(program), Options { mode, ..Options::default() }).unwrap()
}

fn session(mode: Mode) -> Session {
    let program = load(CALLS);
    if mode == Mode::Compiled {
        assert_eq!(program.compile_ahead_of_time(), []);
    }
    open(program, mode)
}

fn floats(rows: i64) -> Any {
    let values: Vec<f32> = (0..3 * rows).map(|at| at as f32).collect();
    Tensor::from_slice(&[rows, 3], &values).unwrap().into()
}

/// The outcome of a call: the elements of the result, or the error.
fn outcome(session: &mut Session, args: &[Any]) -> Result<Vec<f32>, String> {
    let result = session.call("main", args).map_err(|error| error.to_string())?;
    Ok(result.view().downcast_ref::<Tensor>().unwrap().to_vec().unwrap())
}

#[test]
fn raw_entries_compute_what_packed_ones_do() {
    let expected = outcome(&mut session(Mode::Bytecode), &[floats(2), floats(2)]).unwrap();
    assert_eq!(calls(), (3, 0));
    assert_eq!(expected[..2], [6.0, 7.0]);
    for mode in [Mode::Compiled, Mode::Tiered] {
        let mut session = session(mode);
        for _ in 0..4 {
            assert_eq!(outcome(&mut session, &[floats(2), floats(2)]), Ok(expected.clone()));
        }
        let (packed, raw) = calls();
        // A trace begins in the third run.
        let native = if mode == Mode::Compiled { 4 } else { 2 };
        assert_eq!((packed, raw), (12 - 3 * native, 3 * native), "{mode:?}");
    }
}

/// Two rows that do not lie one behind the other.
fn every_second_row() -> Any {
    let managed = Tensor::zeros(&[4, 3], DType::F32).unwrap().to_dlpack();
    // SAFETY: this function owns the only reference to the tensor, and the rows lie within it.
    unsafe {
        let dl = &mut (*managed.as_ptr()).dl_tensor;
        (*dl.shape, *dl.strides) = (2, 6);
        Tensor::from_dlpack(managed).unwrap().into()
    }
}

#[test]
fn other_arguments_go_by_the_packed_entry() {
    let wrong = [
        [floats(3), floats(2)],
        [floats(2), floats(3)],
        [floats(2), Any::from(1)],
        [Any::NONE, floats(2)],
        [floats(2), Tensor::zeros(&[2, 3], DType::I64).unwrap().into()],
        [floats(2), Tensor::zeros(&[6], DType::F32).unwrap().into()],
        [Tensor::zeros(&[2, 4], DType::F32).unwrap().into(), floats(2)],
        [every_second_row(), floats(2)],
    ];
    for mode in [Mode::Compiled, Mode::Tiered] {
        for args in &wrong {
            let mut session = session(mode);
            for _ in 0..4 {
                outcome(&mut session, &[floats(2), floats(2)]).unwrap();
            }
            let expected = outcome(&mut self::session(Mode::Bytecode), args);
            assert!(expected.is_err());
            assert_eq!(outcome(&mut session, args), expected, "{mode:?}");
        }
    }
    calls();
}

/// A function of one call, so that its dimensions are unconstrained.
const ONE: &str = "@main(x) regs=1:\n  call  grow in: %0, %0 dst: %void\n  ret   %0\n";

#[test]
fn a_kernel_that_fails_is_an_error_at_its_call() {
    for mode in [Mode::Bytecode, Mode::Compiled, Mode::Tiered] {
        let program = load(ONE);
        assert_eq!(program.compile_ahead_of_time(), []);
        let mut session = open(program, mode);
        for rows in [1, 2, 3, 4, 7] {
            let expected = match rows {
                7 => Err("ValueError: seven rows in main at call of grow (pc 0)".to_owned()),
                _ => Ok((0..3 * rows).map(|at| (at + rows) as f32).collect()),
            };
            let found = outcome(&mut session, &[floats(rows)]);
            match (&found, &expected) {
                (Err(found), Err(_)) => assert!(found.contains("seven rows"), "{found}"),
                _ => assert_eq!(found, expected, "{mode:?}"),
            }
        }
        let (packed, raw) = calls();
        assert_eq!(packed > 0, mode == Mode::Bytecode, "{mode:?}: {packed} packed, {raw} raw");
    }
}
