//! Libraries in an application that exports nothing: TVM's in both exec modes, opened several
//! times, beside TVM's own VM, and with programs that write their constants.

#[path = "common/linked.rs"]
mod linked;
#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;
#[path = "tvm/values.rs"]
#[allow(dead_code, reason = "the tests of TVM use the rest")]
mod values;

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use object::{Object, ObjectSymbol};
use reflex::{Any, DType, Dialect, Engine, Mode, Program, Tensor};
use reflex_runtime::exports::EXPORTED_SYMBOLS;
use reflex_vm::executable::{Constant, Executable};
use reflex_vm::listing;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn load(path: &Path) -> Program {
    Engine::new().and_then(|engine| engine.load(path)).unwrap_or_else(|e| panic!("{e}"))
}

/// The folder of small modules that TVM built.
fn modules() -> Option<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let python = programs::skip::variable("REFLEX_TVM_PYTHON")?;
    Some(BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-small-modules");
        let script = root().join("tests/tvm/modules.py");
        programs::run(Command::new(python).arg(script).arg(&folder).arg("--small"));
        folder
    }))
}

/// Names of the modules that TVM compiled to native code.
fn compiled(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("an entry"));
    let names = files.map(|file| file.file_name().into_string().expect("UTF-8"));
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".compiled.so")?.to_owned())).collect();
    names.sort();
    assert!(names.len() >= 30, "{names:?}");
    names
}

/// The answers of recorded calls of a module that are not TVM's.
fn wrong_answers(program: &Program, folder: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("recorded");
    let calls: Value = serde_json::from_str(&text).expect("JSON");
    let mut session = program.session(Mode::Tiered).expect(name);
    let mut faults = vec![];
    for (at, call) in calls.as_array().expect("a list").iter().enumerate() {
        let args = call["args"].as_array().expect("a list").iter();
        let args: Vec<Any> = args.map(|arg| values::any(folder, arg)).collect();
        let found = match session.call_values(call["func"].as_str().expect("a name"), &args) {
            Ok(value) => serde_json::json!({ "result": values::json(&value) }),
            Err(error) => serde_json::json!({ "error": error.to_object().kind() }),
        };
        if found != call["answer"]["compiled"] {
            faults.push(format!("{name}, call {at}: {found}"));
        }
    }
    faults
}

#[test]
fn this_application_exports_nothing_and_the_command_line_does() {
    for name in EXPORTED_SYMBOLS {
        let name = CString::new(*name).expect("no NUL");
        // SAFETY: a lookup by name in the global scope.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        assert!(address.is_null(), "{name:?}: the tests below would show nothing");
    }
    let data = std::fs::read(env!("CARGO_BIN_EXE_reflex")).expect("built");
    let file = object::File::parse(&*data).expect("ELF");
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names: Vec<&str> = symbols.map(|symbol| symbol.name().expect("UTF-8")).collect();
    for name in EXPORTED_SYMBOLS {
        assert!(names.contains(name), "{name}: the system's loader would not find it");
    }
}

#[test]
fn an_artifact_runs_and_its_kernels_raise_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("softmax.so");
    load(&root().join("examples/softmax.py")).save(&path).expect("saves");
    let program = load(&path);
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        let x = Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0]).expect("a tensor");
        let y = session.call_values("main", &[x.into()]).expect("runs");
        let y = Tensor::try_from(y).expect("a tensor");
        assert_eq!(y.to_vec::<f32>().expect("floats"), [0.5, 0.5]);
    }
    let kernels = listing_of(&program);
    let kernel = kernels.first().expect("a kernel");
    let error = reflex::library_function(&path, kernel).expect("found").call(&[]).unwrap_err();
    assert!(error.message().contains(kernel.as_str()), "{error}");
}

/// Names of the packed functions of a program that are not builtins.
fn listing_of(program: &Program) -> Vec<String> {
    let text = program.as_text();
    let packed = text.lines().filter_map(|line| line.strip_prefix('@')?.split_once(" packed_func"));
    let names = packed.map(|(name, _)| name.trim_end_matches([':', ';']).to_owned());
    names.filter(|name| !name.starts_with("vm.")).collect()
}

#[test]
fn compiled_libraries_may_be_open_several_times() {
    let Some(folder) = modules() else { return };
    let mut faults = vec![];
    for name in compiled(folder) {
        let path = folder.join(format!("{name}.compiled.so"));
        let (first, second) = (load(&path), load(&path));
        for program in [&first, &second, &first] {
            faults.extend(wrong_answers(program, folder, &name));
        }
        let fork = first.fork().expect("forks");
        drop(first);
        faults.extend(wrong_answers(&second, folder, &name));
        faults.extend(wrong_answers(&fork, folder, &name));
        drop((second, fork));
        faults.extend(wrong_answers(&load(&path), folder, &name));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn compiled_libraries_run_in_python_without_tvm_and_beside_it() {
    let Some(folder) = modules() else { return };
    let script = root().join("tests/tvm/beside.py");
    for mode in ["alone", "tvm-first", "reflex-first"] {
        let Some(said) = programs::run_python(&[&script, folder, Path::new(mode)]) else { return };
        assert!(said.ends_with("modules agree\n"), "{mode}: {said}");
    }
}

#[test]
fn the_command_line_finds_functions_of_compiled_libraries() {
    let Some(folder) = modules() else { return };
    let library = folder.join("chain.compiled.so");
    let input = folder.join("chain.npy");
    let x = reflex::Array::of(&[1], &[1.0_f32]).expect("an array");
    reflex::numpy::write_npy(&input, &x).expect("writes");
    let reflex = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.arg(args[0]).arg(&library).args(&args[1..]).output().expect("runs")
    };
    let parameter = &load(&library).signature("main").expect("main").inputs[0].name;
    let output = reflex(&["run", "--input", &format!("{parameter}={}", input.display())]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("float32 [1] = [3.000000]"), "{said}");
    let output = reflex(&["run"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("--input {parameter}=FILE.npy")), "{error}");
    assert!(reflex(&["info"]).status.success());
}

/// `bump` adds one to every element, in place.
const BUMP: &str = r#"
typedef struct { void* data; int device[2]; int ndim; int dtype; long long* shape; } Tensor;
typedef struct { int type; unsigned zero; union { long long i; char* object; Tensor* view; } v; } Any;
int __tvm_ffi_bump(void* self, const Any* args, int count, Any* result) {
  Tensor* x = args[0].type == 70 ? (Tensor*)(args[0].v.object + 24) : args[0].v.view;
  for (long long i = 0; i < x->shape[0]; i++) ((float*)x->data)[i] += 1;
  return 0;
}
"#;

/// `main` increments a constant of two floats and returns it; `get` returns it.
fn counter() -> Executable {
    let text = r#"
const c[0] = tensor float32 [2] "0000803f00000040"
@main() regs=1:
  call  bump in: c[0] dst: %void
  call  vm.builtin.copy in: c[0] dst: %0
  ret   %0
@get() regs=1:
  call  vm.builtin.copy in: c[0] dst: %0
  ret   %0
@bump packed_func;
"#;
    listing::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn constants_can_be_written_and_each_program_has_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("counter.so");
    linked::library(&path, &counter(), BUMP);
    let before = std::fs::read(&path).expect("written");
    let (one, other) = (load(&path), load(&path));
    let call = |program: &Program, func: &str, mode: Mode| {
        let value = program.session(mode).and_then(|mut s| s.call_values(func, &[])).expect("runs");
        Tensor::try_from(value).expect("a tensor")
    };
    for (turn, mode) in Mode::ALL.into_iter().enumerate() {
        let turn = turn as f32;
        let result = call(&one, "main", mode);
        assert_eq!(result.to_vec::<f32>().expect("floats"), [2.0 + turn, 3.0 + turn]);
        assert!(result.is_read_only(), "it is the constant itself");
    }
    assert_eq!(call(&other, "get", Mode::Bytecode).to_vec::<f32>().expect("floats"), [1.0, 2.0]);
    assert!(std::fs::read(&path).expect("there") == before, "the file is as it was");
}

#[test]
fn results_that_are_constants_are_copies_in_python() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("counter.so");
    linked::library(&path, &counter(), BUMP);
    let script = folder.path().join("write.py");
    let text = "
import sys, numpy as np, reflex
session = reflex.load(sys.argv[1]).session()
for turn in range(3):
    y = np.from_dlpack(session['get']())
    assert y.flags.writeable and y.tolist() == [1.0, 2.0], y
    y[:] = 9
session.set_input('get')
session.invoke_stateful('get')
y = np.from_dlpack(session.get_outputs('get'))
y[:] = 9
assert np.from_dlpack(session.call('get')).tolist() == [1.0, 2.0]
print('done')
";
    std::fs::write(&script, text).expect("writes");
    let Some(said) = programs::run_python(&[&script, &path]) else { return };
    assert_eq!(said, "done\n");
}

/// Executables whose counts and ranks are out of all bounds.
fn hostile() -> Vec<(&'static str, Executable)> {
    let text = "
const c[0] = dtype float32
const c[1] = str \"x\"
@main(x) regs=1:
  call  vm.builtin.check_tensor_info in: %0, i2, c[0], c[1] dst: %void
  ret   %0
";
    let sound = listing::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let changed = |change: &dyn Fn(&mut Executable)| {
        let mut exec = sound.clone();
        change(&mut exec);
        exec
    };
    let rank = |rank: &str| {
        let text = text.replace("i2", rank);
        listing::parse(&text).unwrap_or_else(|e| panic!("{e}"))
    };
    vec![
        ("a rank of many", rank("i36028797018963967")),
        ("a rank of none", rank("i-36028797018963968")),
        ("parameters", changed(&|exec| exec.functions[0].num_args = i64::MAX)),
        ("fewer than no parameters", changed(&|exec| exec.functions[0].num_args = i64::MIN)),
        ("instructions", changed(&|exec| exec.functions[0].end_instr = i64::MAX)),
        ("registers", changed(&|exec| exec.functions[0].register_file_size = i64::MAX)),
        (
            "a type of no bytes",
            changed(&|exec| {
                exec.constants[0] = Constant::DType(DType { code: 0, bits: 0, lanes: 1 });
            }),
        ),
    ]
}

#[test]
fn counts_out_of_bounds_are_errors_of_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    for (what, exec) in hostile() {
        let path = folder.path().join("hostile.so");
        linked::library(&path, &exec, "");
        let info = Engine::info(&path).map(|info| info.inputs.len());
        let loaded = Engine::new().and_then(|engine| engine.load(&path));
        assert_eq!(info.is_ok(), loaded.is_ok(), "{what}");
        for command in ["info", "run"] {
            let mut reflex = Command::new(env!("CARGO_BIN_EXE_reflex"));
            let output = reflex.arg(command).arg(&path).output().expect("runs");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(0..=2)), "{what}, {command}: {error}");
            assert!(!error.contains("panicked"), "{what}, {command}: {error}");
        }
    }
}

/// C text of a model's kernels is a library like any other, once the system's compiler has read it; and its module
/// answers with the text.
#[test]
fn text_in_c_is_a_library_of_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    let [text, library] = ["kernels.c", "kernels.so"].map(|name| folder.path().join(name));
    let model = root().join("examples/softmax.py");
    let engine = Engine::new().expect("an engine");
    let source = engine.source(&model, Dialect::C, None).unwrap_or_else(|e| panic!("{e}"));
    std::fs::write(&text, &source).expect("a file");
    let flags = "-std=c11 -O2 -ffp-contract=off -fPIC -shared -o";
    let mut compiler = Command::new("cc");
    programs::run(compiler.args(flags.split(' ')).args([&library, &text]).arg("-lm"));

    let softmax = reflex::library_function(&library, "softmax").unwrap_or_else(|e| panic!("{e}"));
    let values: Vec<f32> = (0..30_u8).map(|i| f32::from(i * 7 % 11) / 3.0 - 1.5).collect();
    let tensor =
        |values: &[f32]| Any::from(Tensor::from_slice(&[3, 10], values).expect("a tensor"));
    let (x, y) = (tensor(&values), tensor(&[0.0; 30]));
    softmax.call(&[x.view(), y.view()]).unwrap_or_else(|e| panic!("{}", e.message()));
    let program = load(&model);
    let mut session = program.session(Mode::Bytecode).expect("a session");
    let wanted = session.call_values("main", std::slice::from_ref(&x)).expect("an answer");
    let bits = |value: Any| {
        let values = Tensor::try_from(value).expect("a tensor").to_vec::<f32>();
        values.expect("float32").into_iter().map(f32::to_bits).collect::<Vec<u32>>()
    };
    assert_eq!(bits(y), bits(wanted));
    let error = softmax.call(&[x.view()]).map(drop).expect_err("two arguments");
    assert_eq!(error.message(), "softmax: expected 2 arguments, got 1");

    let module = program.module(Mode::Bytecode);
    assert_eq!(module.source("c").expect("text"), source);
    assert!(module.source("cl").expect("text").contains("__kernel"));
}
