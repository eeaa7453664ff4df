//! Loads a library that TVM built, and runs its kernels.
//!
//! The library is made by the Python interpreter that `REFLEX_TVM_PYTHON` names; the
//! tests are recorded as skipped where the variable is not set.

#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use reflex_runtime::array::Array;
use reflex_runtime::bundle::LIBRARY_KIND;
use reflex_runtime::dtype::DType;
use reflex_runtime::exports::EXPORTED_SYMBOLS;
use reflex_runtime::library::Library;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::threads;
use reflex_runtime::value::{Any, AnyView};

/// `add1` is a kernel with a parallel loop; `main` calls it from bytecode.
const BUILD: &str = r#"
import sys
import tvm
from tvm.script import ir as I, relax as R, tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def add1(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for i in T.parallel(64):
            with T.sblock("add"):
                v = T.axis.spatial(64, i)
                y[v] = x[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((64,), "float32")) -> R.Tensor((64,), "float32"):
        cls = Module
        with R.dataflow():
            out = R.call_tir(cls.add1, (x,), out_ty=R.Tensor((64,), "float32"))
            R.output(out)
        return out

tvm.compile(Module, target="llvm").export_library(sys.argv[1])
"#;

/// The library's file, or None, recorded as a skip.
fn add1() -> Option<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let python = skip::variable("REFLEX_TVM_PYTHON")?;
    Some(BUILT.get_or_init(|| build(&python)))
}

fn build(python: &OsStr) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("add1.so");
    let script = path.with_extension("py");
    std::fs::write(&script, BUILD).unwrap();
    let status = Command::new(python).arg(&script).arg(&path).status().unwrap();
    assert!(status.success(), "TVM could not build the library");
    path
}

#[test]
fn this_executable_exports_nothing() {
    for name in EXPORTED_SYMBOLS {
        let name = std::ffi::CString::new(*name).unwrap();
        // SAFETY: a lookup by name in the global scope.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        assert!(address.is_null(), "{name:?}: the tests below would show nothing");
    }
}

#[test]
fn a_kernel_of_tvm_runs() {
    let Some(path) = add1() else { return };
    // SAFETY: TVM has just built the library, and the test trusts its code.
    let library = unsafe { Library::open(path) }.unwrap();
    let add1 = library.function("add1").expect("the kernel is there");
    assert!(library.function("add2").is_none());
    let values: Vec<f32> = (0..64).map(|value| value as f32).collect();
    let x = Tensor::from_slice(&[64], &values).unwrap();
    drop(library);
    for count in [1, 2] {
        let y = Tensor::zeros(&[64], DType::F32).unwrap();
        let args = [AnyView::from(&x), AnyView::from(&y)];
        threads::with_threads(count, || add1.call(&args)).unwrap();
        let expected: Vec<f32> = values.iter().map(|value| value + 1.0).collect();
        assert_eq!(y.to_vec::<f32>().unwrap(), expected);
    }
    assert!(!x.is_shared());
}

#[test]
fn a_kernel_of_tvm_reports_bad_arguments() {
    let Some(path) = add1() else { return };
    // SAFETY: TVM has just built the library, and the test trusts its code.
    let library = unsafe { Library::open(path) }.unwrap();
    let add1 = library.function("add1").unwrap();
    let x = Tensor::zeros(&[64], DType::F32).unwrap();
    let wrong = Tensor::zeros(&[63], DType::F64).unwrap();
    for args in [
        &[AnyView::from(&x)][..],
        &[AnyView::from(&x), AnyView::from(&wrong)],
        &[AnyView::from(&x), AnyView::from(1_i64)],
    ] {
        let error = add1.call(args).unwrap_err();
        assert!(["TypeError", "ValueError"].contains(&&*error.kind()), "{error}");
        assert!(error.message().contains("add1"), "{error}");
    }
    let tuple = Array::new([Any::from(x)]);
    assert!(add1.call(&[AnyView::from(&tuple), AnyView::from(&tuple)]).is_err());
}

#[test]
fn the_bundle_of_tvm_is_read() {
    let Some(path) = add1() else { return };
    // SAFETY: TVM has just built the library, and the test trusts its code.
    let library = unsafe { Library::open(path) }.unwrap();
    let bundle = library.bundle().unwrap();
    let executable = bundle.find("relax.VMExecutable").unwrap();
    assert!(bundle.find(LIBRARY_KIND).is_some());
    let bytes = library.bundle_bytes(executable.bytes.clone());
    let magic = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    assert_eq!(magic, 0xD225_DE2F_4214_151E);
    assert!(library.bundle_bytes(0..usize::MAX).is_empty());
}

#[test]
fn what_is_not_a_library_is_refused() {
    // SAFETY: neither file has code that could run.
    unsafe {
        let error = Library::open(Path::new("/nonexistent/library.so")).unwrap_err();
        assert!(error.message().contains("No such file"), "{error}");
        assert!(Library::open(Path::new(file!())).is_err());
    }
}
