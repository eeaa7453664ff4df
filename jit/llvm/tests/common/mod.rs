//! Runs compiled kernels: loads objects with codemem and calls their packed entries.
#![allow(dead_code)]

#[path = "../../../../tests/common/kernel_host.rs"]
mod kernel_host;

use std::ffi::{CStr, c_char, c_void};
use std::sync::LazyLock;

#[allow(unused_imports)] // each test binary uses a part
pub use kernel_host::set_tasks;
use kernel_host::{ERROR, alloc_workspace, free_workspace, launch};
use reflex_codemem::imports::Imports;
use reflex_codemem::pages::CodeSpace;
use reflex_codemem::relocate::LoadedObject;
use reflex_runtime::abi::{SafeCall, TVMFFIAny};
use reflex_runtime::exports;
use reflex_runtime::library::Context;
use reflex_tir::abi::raw_signature;
use reflex_tir::codegen::{CpuTarget, KernelTier, ObjectFile, OptLevel};
use reflex_tir::eval::{EvalArg, Scalar};
use reflex_tir::{PrimFunc, Scope};

/// Where kernels look packed functions up.
static CONTEXT: LazyLock<Context> = LazyLock::new(Context::default);

unsafe extern "C" fn set_error(kind: *const c_char, parts: *const *const c_char, n: i32) {
    // SAFETY: the packed entry passes NUL-terminated strings and `n` parts.
    let text = unsafe {
        let parts = std::slice::from_raw_parts(parts, n as usize);
        let message: String = parts.iter().map(|p| CStr::from_ptr(*p).to_str().unwrap()).collect();
        format!("{}: {message}", CStr::from_ptr(kind).to_str().unwrap())
    };
    ERROR.with(|e| *e.borrow_mut() = Some(text));
}

fn exported(name: &str) -> usize {
    exports::address_of(name).unwrap().addr()
}

pub struct Kernel {
    pub object: ObjectFile,
    code: LoadedObject,
}

impl Kernel {
    pub fn new(func: &PrimFunc, opt: OptLevel) -> Kernel {
        Kernel::for_target(func, opt, &CpuTarget::host())
    }

    pub fn for_target(func: &PrimFunc, opt: OptLevel, target: &CpuTarget) -> Kernel {
        Kernel::load(reflex_llvm::compile_with_asm(func, target, opt).unwrap())
    }

    /// Cranelift's code.
    pub fn baseline(func: &PrimFunc, target: &CpuTarget) -> Kernel {
        Kernel::load(reflex_baseline::compile(func, target).unwrap())
    }

    /// Cranelift's code that is to be replaced soon.
    pub fn quick_baseline(func: &PrimFunc, target: &CpuTarget) -> Kernel {
        Kernel::load(reflex_baseline::compile_quickly(func, target).unwrap())
    }

    /// C text, compiled by the system's compiler as a user would.
    pub fn source(func: &PrimFunc) -> Kernel {
        let text = reflex_source::c(std::slice::from_ref(func)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [source, object] = ["kernel.c", "kernel.o"].map(|name| folder.path().join(name));
        std::fs::write(&source, &text).unwrap();
        let flags = "-std=c11 -O2 -ffp-contract=off -fPIC -Wall -Wextra -Wno-unused-parameter -Wno-unused-but-set-variable -Werror -DREFLEX_EXTERN_SLOTS -c -o";
        let output = std::process::Command::new("cc")
            .args(flags.split(' '))
            .args([&object, &source])
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
        let (elf, signature) = (std::fs::read(&object).unwrap(), raw_signature(func));
        let (tier, asm) = (KernelTier::Baseline, Some(text));
        Kernel::load(ObjectFile { signature, tier, elf, asm, micros: 0 })
    }

    fn load(object: ObjectFile) -> Kernel {
        let imports = Imports::host()
            .function("TVMFFIErrorSetRaisedFromCStrParts", set_error as *const () as usize)
            .slot("__TVMBackendParallelLaunch", launch as *const () as usize)
            .slot("__TVMBackendAllocWorkspace", alloc_workspace as *const () as usize)
            .slot("__TVMBackendFreeWorkspace", free_workspace as *const () as usize)
            .slot("__TVMFFIEnvModLookupFromImports", exported("TVMFFIEnvModLookupFromImports"))
            .slot("__TVMFFIFunctionCall", exported("TVMFFIFunctionCall"))
            .slot("__tvm_ffi__library_ctx", std::ptr::from_ref(&*CONTEXT).addr());
        let space = CodeSpace::shared().unwrap();
        let code =
            LoadedObject::load(&space, &object.signature.name, &object.elf, &imports).unwrap();
        Kernel { object, code }
    }

    pub fn asm(&self) -> &str {
        self.object.asm.as_deref().unwrap()
    }

    /// The assembly of the raw entry alone.
    pub fn raw_asm(&self) -> &str {
        let label = format!("__reflex_raw_{}:", self.object.signature.name);
        let start = self.asm().find(&label).unwrap();
        let end = self.asm()[start..].find(".Lfunc_end").unwrap();
        &self.asm()[start..start + end]
    }

    /// Whether only the packed entry calls the raw one.
    pub fn raw_is_hidden(&self) -> bool {
        self.code.symbol(&format!("__reflex_raw_{}", self.object.signature.name)).is_none()
    }

    pub fn raw(&self) -> *const c_void {
        let name = format!("__reflex_raw_{}", self.object.signature.name);
        self.code.symbol(&name).unwrap().as_ptr().cast()
    }

    /// Calls the packed entry with these values.
    pub fn call(&self, args: &[TVMFFIAny]) -> Result<(), String> {
        let name = format!("__tvm_ffi_{}", self.object.signature.name);
        let entry = self.code.symbol(&name).unwrap();
        // SAFETY: the object's signature says that the symbol is a packed entry, so it has this type.
        let entry: SafeCall = unsafe { std::mem::transmute(entry) };
        // SAFETY: it is the kernel's.
        unsafe { kernel_host::call(entry, args) }
    }

    /// Calls the packed entry as the evaluator would be called.
    pub fn run(&self, args: &mut [EvalArg]) -> Result<(), String> {
        kernel_host::with_values(args, |values| self.call(values))
    }
}

/// Runs `func` at both levels, by Cranelift and by the evaluator; all must agree bit for bit (any
/// NaN equals any other). Returns the arguments after the run.
pub fn check(func: &PrimFunc, args: &[EvalArg]) -> Vec<EvalArg> {
    if !uses_matrix_registers(func) {
        check_source(func, args);
    }
    check_for(func, args, &CpuTarget::host())
}

/// C text has the evaluator's bits.
pub fn check_source(func: &PrimFunc, args: &[EvalArg]) {
    let (mut expected, mut actual) = (args.to_vec(), args.to_vec());
    reflex_tir::eval::eval(func, &mut expected).unwrap();
    Kernel::source(func).run(&mut actual).unwrap();
    assert_same(func, "C", &expected, &actual);
}

/// [`check`] with code for another CPU, which this one must be able to run.
pub fn check_for(func: &PrimFunc, args: &[EvalArg], target: &CpuTarget) -> Vec<EvalArg> {
    let mut expected = args.to_vec();
    reflex_tir::eval::eval(func, &mut expected).unwrap();
    for opt in [OptLevel::O0, OptLevel::O3] {
        let mut actual = args.to_vec();
        Kernel::for_target(func, opt, target).run(&mut actual).unwrap();
        assert_same(func, &format!("{opt:?}"), &expected, &actual);
    }
    for kernel in [Kernel::baseline(func, target), Kernel::quick_baseline(func, target)] {
        let mut actual = args.to_vec();
        kernel.run(&mut actual).unwrap();
        assert_same(func, "Cranelift", &expected, &actual);
    }
    expected
}

/// Whether C refuses the function.
fn uses_matrix_registers(func: &PrimFunc) -> bool {
    func.buffers.values().any(|b| b.scope == Scope::Tile)
}

/// O0, O3 and Cranelift agree bit for bit.
pub fn check_levels(func: &PrimFunc, args: &[EvalArg]) -> Vec<EvalArg> {
    let mut plain = args.to_vec();
    Kernel::new(func, OptLevel::O0).run(&mut plain).unwrap();
    let mut optimised = args.to_vec();
    Kernel::new(func, OptLevel::O3).run(&mut optimised).unwrap();
    assert_same(func, "O3 against O0", &plain, &optimised);
    let host = CpuTarget::host();
    for kernel in [Kernel::baseline(func, &host), Kernel::quick_baseline(func, &host)] {
        let mut baseline = args.to_vec();
        kernel.run(&mut baseline).unwrap();
        assert_same(func, "Cranelift against O0", &plain, &baseline);
    }
    let mut source = args.to_vec();
    Kernel::source(func).run(&mut source).unwrap();
    assert_same(func, "C against O0", &plain, &source);
    plain
}

pub fn assert_same(func: &PrimFunc, what: &str, expected: &[EvalArg], actual: &[EvalArg]) {
    for (i, (a, b)) in expected.iter().zip(actual).enumerate() {
        let (EvalArg::Tensor(a), EvalArg::Tensor(b)) = (a, b) else { continue };
        assert_eq!(a.shape, b.shape);
        for k in 0..a.len() {
            let (x, y) = (a.get(k).unwrap(), b.get(k).unwrap());
            let nan = |v: Scalar| v.as_f64().is_nan();
            let bits = |v: Scalar| match v {
                Scalar::Int(x) => x as u64,
                other => other.as_f64().to_bits(),
            };
            let same = bits(x) == bits(y) || (nan(x) && nan(y));
            assert!(same, "{} {what}: argument {i} element {k}: {x:?} and {y:?}", func.name);
        }
    }
}
