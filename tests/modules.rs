//! Modules as values: programs and libraries by the functions of their modules, in every mode, in Rust and
//! in a process with TVM; the modules that a library carries.

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use programs::run_python;
use reflex::{
    Any, Engine, Function, Functions, Imports, Mode, ModelFormat, ModelSource, RaisedError,
    RuntimeModule, Tensor, register_global_func,
};

const SOURCE: &str = "tests/filetests/relax/mlp.py";

/// A packed function, one that calls a function of an imported module, and a bundle if there is one.
const LIBRARY: &str = r#"
typedef struct { int type; unsigned zero; union { long long i; double f; void* p; } v; } Any;
void* __tvm_ffi__library_ctx;
int (*__TVMFFIFunctionCall)(void* function, Any* args, int count, Any* result);
int (*__TVMFFIEnvModLookupFromImports)(void* context, const char* name, void** out);

int __tvm_ffi_twice(void* self, const Any* args, int count, Any* result) {
  result->type = 1;
  result->v.i = 2 * args[0].v.i;
  return 0;
}

int __tvm_ffi_imported(void* self, const Any* args, int count, Any* result) {
  void* found;
  if (__TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, "answer", &found)) return -1;
  return __TVMFFIFunctionCall(found, (Any*)args, count, result);
}
"#;

/// Builds the library, with the bytes of a bundle.
fn library(name: &str, bundle: Option<&[u8]>) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join(name).with_extension("c"), folder.join(name));
    let mut text = LIBRARY.to_owned();
    if let Some(bundle) = bundle {
        let size = (bundle.len() as u64).to_le_bytes();
        let bytes: Vec<String> = size.iter().chain(bundle).map(u8::to_string).collect();
        let bytes = bytes.join(",");
        text += &format!("const unsigned char __tvm_ffi__library_bin[] = {{{bytes}}};\n");
    }
    std::fs::write(&source, text).expect("writes");
    let mut built = Command::new("cc");
    built.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    let output = built.output().expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// A bundle of a library that imports a module of a kind.
fn bundle(kind: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    // Module 0, the library, imports module 1.
    for word in [3_u64, 0, 1, 1, 1, 1] {
        out.extend(word.to_le_bytes());
    }
    for text in [&b"_lib"[..], kind.as_bytes(), bytes] {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text);
    }
    out
}

/// A module that answers with a number of its bytes.
struct Answer(i64);

impl Functions for Answer {
    fn kind(&self) -> &str {
        "test.answer"
    }

    fn function(&self, name: &str) -> Result<Option<Function>, RaisedError> {
        let answer = self.0;
        Ok((name == "answer").then(|| Function::new(move |_| Ok(Any::from(answer)))))
    }
}

fn call(module: &RuntimeModule, name: &str, args: &[Any]) -> Any {
    let args: Vec<_> = args.iter().map(Any::view).collect();
    module.require(name).and_then(|function| function.call(&args)).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn stateful_modules_answer_as_sessions_do() {
    let engine = Engine::new().expect("an engine");
    let x = Tensor::from_slice(&[2, 8], &[0.25_f32; 16]).expect("a tensor");
    let w = Tensor::from_slice(&[8, 5], &[0.5_f32; 40]).expect("a tensor");
    for mode in Mode::ALL {
        let program = engine.load(SOURCE).expect("compiles");
        let args = [Any::from(x.clone()), Any::from(w.clone())];
        let session = program.session(mode);
        let expected = session.and_then(|mut s| s.call_values("main", &args)).expect("runs");
        let expected = Tensor::try_from(expected).expect("a tensor");
        let factory = engine.load_module(SOURCE, mode).expect("compiles");
        let model = RuntimeModule::try_from(call(&factory, "main", &[])).expect("a module");
        call(&model, "set_input", &[Any::from("x"), x.clone().into()]);
        call(&model, "set_input", &[Any::from(1_i64), w.clone().into()]);
        for _ in 0..3 {
            call(&model, "run", &[]);
            let y = Tensor::try_from(call(&model, "get_output", &[Any::from(0_i64)]));
            assert_eq!(y.expect("a tensor").to_bytes().unwrap(), expected.to_bytes().unwrap());
        }
    }
}

/// A program whose `main` calls a packed function.
const OUTWARD: &str = r#"
@I.ir_module
class Module:
    @R.function
    def inner(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.multiply(x, x)

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.call_packed("test.modules.inward", x, ty_args=R.Tensor((2,), "float32"))
        return y
"#;

#[test]
fn a_function_that_a_session_calls_calls_functions_of_its_module() {
    static INNER: Mutex<Option<Function>> = Mutex::new(None);
    let inward = Function::new(|args| {
        let inner = INNER.lock().unwrap().clone().expect("set below");
        inner.call(args)
    });
    register_global_func("test.modules.inward", inward).unwrap();
    let source = ModelSource::bytes(ModelFormat::Script, OUTWARD.as_bytes());
    let program = Engine::new().and_then(|engine| engine.load(source)).expect("compiles");
    for mode in Mode::ALL {
        let vm = call(&program.module(mode), "vm_load_executable", &[]);
        let vm = RuntimeModule::try_from(vm).unwrap();
        *INNER.lock().unwrap() = Some(vm.require("inner").unwrap());
        let x = Tensor::from_slice(&[2], &[3.0_f32, 4.0]).unwrap();
        for _ in 0..3 {
            let y = Tensor::try_from(call(&vm, "main", &[x.clone().into()])).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), [9.0, 16.0]);
        }
    }
    *INNER.lock().unwrap() = None;
}

#[test]
fn modules_in_a_library_are_made_by_the_loader_of_their_kind() {
    let engine = Engine::new().expect("an engine");
    let plain = engine.load_module(library("modules-plain.so", None), Mode::Tiered).unwrap();
    assert_eq!(plain.kind().unwrap(), "library");
    assert_eq!(i64::try_from(call(&plain, "twice", &[Any::from(4_i64)])).unwrap(), 8);
    let path = library("modules-kind.so", Some(&bundle("test.answer", b"\x2a")));
    let error = engine.load_module(&*path, Mode::Tiered).unwrap_err().to_string();
    assert!(error.contains("a module of kind `test.answer`, and no function"), "{error}");
    let loader = Function::new(|args| {
        let bytes = args[0].as_bytes().ok_or_else(|| RaisedError::type_error("no bytes"))?;
        Ok(RuntimeModule::new(Answer(bytes[0].into())).into())
    });
    register_global_func("ffi.Module.load_from_bytes.test.answer", loader).unwrap();
    let module = engine.load_module(&*path, Mode::Tiered).unwrap();
    assert_eq!(module.imports().unwrap()[0].kind().unwrap(), "test.answer");
    let find = |imports| module.function("answer", imports).unwrap();
    assert!(find(Imports::Skip).is_none() && find(Imports::Search).is_some());
    // By the library's own code, too.
    assert_eq!(i64::try_from(call(&module, "imported", &[])).unwrap(), 42);
}

#[test]
fn modules_are_those_of_tvm_in_a_process_with_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let model = folder.join("modules-mlp.so");
    let loaded = Engine::new().and_then(|engine| engine.load(SOURCE));
    loaded.and_then(|program| program.save(&model)).expect("compiles");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_modules.py");
    let library = library("modules-python.so", None);
    let Some(said) = run_python(&[&script, &model, &library]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}
