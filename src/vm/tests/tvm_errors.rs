//! Bugs of TVM's virtual machine that this one must not have, as far as they concern printed
//! executables and error messages. Deep recursion, discarded results, threads and memory are in the
//! tests of these subjects.

use std::sync::Arc;

use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::executable::Executable;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;
use reflex_vm::{listing, serialize, text};

const LISTING: &str = r#"
const c[0] = dtype float32
const c[1] = str "at x"
const c[2] = float 0.5
const c[3] = shape [2, 3]
scope c[3] "global"
@half() regs=1:
  call  vm.builtin.copy in: c[2] dst: %0
  ret   %0
@main(x) regs=2:
  call  vm.builtin.alloc_shape_heap in: %vm, i1 dst: %1
  call  vm.builtin.check_tensor_info in: %0, i2, c[0], c[1] dst: %void
  call  vm.builtin.match_shape in: %0, %1, i2, i0, i2, i1, i0, c[1] dst: %void
  ret   %0
"#;

fn session(exec: Executable) -> Session {
    let program = Arc::new(Program::load(verify(exec).unwrap(), &[]).unwrap());
    Session::new(&program, Options::default()).unwrap()
}

/// TVM's `stats` throws on a float constant.
#[test]
fn stats_print_a_float_constant() {
    let stats = text::stats(&listing::parse(LISTING).unwrap());
    let pool = "Constant pool (# 4): [float32, \"at x\", 0.5, shapetuple[2, 3]]\n";
    assert!(stats.contains(pool), "{stats}");
}

/// In TVM, a program that is started gets an empty scope for each constant that has none, and
/// saves them.
#[test]
fn running_a_program_invents_no_memory_scopes() {
    let saved = serialize::to_bytes(&listing::parse(LISTING).unwrap());
    let mut s = session(serialize::from_bytes(&saved).unwrap());
    assert_eq!(f64::try_from(s.call("half", &[]).unwrap()).unwrap(), 0.5);
    let exec = s.program().executable();
    assert_eq!(exec.memory_scopes, [(3, "global".to_owned())]);
    assert_eq!(serialize::to_bytes(exec), saved);
}

/// TVM names slots of its shape heap.
#[test]
fn errors_name_function_instruction_parameter_expected_and_actual() {
    let mut s = session(listing::parse(LISTING).unwrap());
    let mut error = |args: &[Any]| s.call("main", args).unwrap_err().to_string();
    let zeros = |extents: &[i64], dtype| Any::from(Tensor::zeros(extents, dtype).unwrap());
    let seen = [
        error(&[]),
        error(&[Any::from(3_i64)]),
        error(&[zeros(&[2], DType::F32)]),
        error(&[zeros(&[2, 3], DType::I32)]),
        error(&[zeros(&[3, 3], DType::F32)]),
    ];
    let place =
        |instr, callee| format!("in function `main`, instruction {instr}, calling `{callee}`");
    let (check, bind) =
        (place(1, "vm.builtin.check_tensor_info"), place(2, "vm.builtin.match_shape"));
    let expected = [
        "InternalError: `main` expects 1 argument (x), 0 given".to_owned(),
        format!("TypeError: at x expect a Tensor but get int\n  {check}"),
        format!("ValueError: at x expect Tensor with ndim 2 but get 1\n  {check}"),
        format!("ValueError: at x expect Tensor with dtype float32 but get int32\n  {check}"),
        format!(
            "RuntimeError: at x match_cast error, shape[0] mismatch to specified constant: \
             3 given, 2 expected\n  {bind}"
        ),
    ];
    assert_eq!(seen, expected);
}
