//! Runs compiled kernels: loads objects with codemem and calls their packed entries.
#![allow(dead_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex};

use reflex_codemem::imports::Imports;
use reflex_codemem::pages::CodeSpace;
use reflex_codemem::relocate::LoadedObject;
use reflex_runtime::abi::{
    DLDevice, DLTensor, ParallelLambda, SafeCall, TVMFFIAny, TVMParallelGroupEnv, type_index,
};
use reflex_runtime::error::Error;
use reflex_runtime::exports;
use reflex_runtime::library::Context;
use reflex_tir::codegen::{CpuTarget, ObjectFile, OptLevel};
use reflex_tir::eval::{EvalArg, Scalar};
use reflex_tir::{PrimFunc, Scope};

thread_local! {
    static ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
    static TASKS: RefCell<i32> = const { RefCell::new(3) };
}
/// Where kernels look packed functions up.
static CONTEXT: LazyLock<Context> = LazyLock::new(Context::default);
static WORKSPACES: Mutex<Option<HashMap<usize, Layout>>> = Mutex::new(None);

unsafe extern "C" fn set_error(kind: *const c_char, parts: *const *const c_char, n: i32) {
    // SAFETY: the packed entry passes NUL-terminated strings and `n` parts.
    let text = unsafe {
        let parts = std::slice::from_raw_parts(parts, n as usize);
        let message: String = parts.iter().map(|p| CStr::from_ptr(*p).to_str().unwrap()).collect();
        format!("{}: {message}", CStr::from_ptr(kind).to_str().unwrap())
    };
    ERROR.with(|e| *e.borrow_mut() = Some(text));
}

unsafe extern "C" fn launch(f: ParallelLambda, data: *mut c_void, num_task: c_int) -> c_int {
    let num_task = if num_task == 0 { TASKS.with(|t| *t.borrow()) } else { num_task };
    let mut env = TVMParallelGroupEnv { sync_handle: std::ptr::null_mut(), num_task };
    // Backwards, so that nothing relies on order.
    for task in (0..num_task).rev() {
        // SAFETY: the lambda and its data come from the kernel that calls.
        let status = unsafe { f(task, &raw mut env, data) };
        if status != 0 {
            return status;
        }
    }
    0
}

unsafe extern "C" fn alloc_workspace(
    _: c_int,
    _: c_int,
    bytes: u64,
    _: c_int,
    _: c_int,
) -> *mut c_void {
    let Ok(layout) = Layout::from_size_align(bytes as usize, 64) else {
        let text = format!("a workspace of {bytes} bytes");
        ERROR.with(|e| *e.borrow_mut() = Some(text));
        return std::ptr::null_mut();
    };
    // SAFETY: the size is at least 1 by the kernel's contract.
    let pointer = unsafe { alloc(layout) };
    WORKSPACES.lock().unwrap().get_or_insert_default().insert(pointer as usize, layout);
    pointer.cast()
}

unsafe extern "C" fn free_workspace(_: c_int, _: c_int, pointer: *mut c_void) -> c_int {
    let layout = WORKSPACES.lock().unwrap().as_mut().unwrap().remove(&(pointer as usize));
    // SAFETY: the pointer is ours with this layout, or the `unwrap` ends the test.
    unsafe { dealloc(pointer.cast(), layout.unwrap()) };
    0
}

fn exported(name: &str) -> usize {
    exports::address_of(name).unwrap().addr()
}

/// Sets how many tasks a parallel loop of this thread becomes.
pub fn set_tasks(n: i32) {
    TASKS.with(|t| *t.borrow_mut() = n);
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
        let mut ret = TVMFFIAny::NONE;
        // SAFETY: `args` lives through the call; the kernel checks what is in it.
        let status =
            unsafe { entry(std::ptr::null_mut(), args.as_ptr(), args.len() as i32, &raw mut ret) };
        match status {
            0 => Ok(()),
            _ => {
                let raised = Error::take_raised().map(|e| format!("{}: {}", e.kind(), e.message()));
                let own = ERROR.with(|e| e.borrow_mut().take());
                Err(own.or(raised).expect("a failure sets an error"))
            }
        }
    }

    /// Calls the packed entry as the evaluator would be called.
    pub fn run(&self, args: &mut [EvalArg]) -> Result<(), String> {
        let mut tensors: Vec<DLTensor> = vec![];
        let mut shapes: Vec<Vec<i64>> = vec![];
        for arg in args.iter_mut() {
            if let EvalArg::Tensor(t) = arg {
                shapes.push(t.shape.clone());
                tensors.push(DLTensor {
                    data: t.bytes.as_mut_ptr().cast(),
                    device: DLDevice::CPU,
                    ndim: t.shape.len() as i32,
                    dtype: t.dtype,
                    shape: std::ptr::null_mut(),
                    strides: std::ptr::null_mut(),
                    byte_offset: 0,
                });
            }
        }
        for (tensor, shape) in tensors.iter_mut().zip(&mut shapes) {
            tensor.shape = shape.as_mut_ptr();
        }
        let mut next = tensors.iter_mut();
        let anys: Vec<TVMFFIAny> = args
            .iter()
            .map(|arg| match arg {
                EvalArg::Tensor(_) => {
                    let tensor: *mut DLTensor = next.next().unwrap();
                    TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor.cast())
                }
                EvalArg::Scalar(Scalar::Int(x)) => TVMFFIAny::int_like(type_index::INT, *x),
                EvalArg::Scalar(x) => {
                    TVMFFIAny::int_like(type_index::FLOAT, x.as_f64().to_bits() as i64)
                }
            })
            .collect();
        self.call(&anys)
    }
}

/// Runs `func` at both levels, by Cranelift and by the evaluator; all must agree bit for bit (any
/// NaN equals any other). Returns the arguments after the run.
pub fn check(func: &PrimFunc, args: &[EvalArg]) -> Vec<EvalArg> {
    check_for(func, args, &CpuTarget::host())
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
    if !uses_matrix_registers(func) {
        for kernel in [Kernel::baseline(func, target), Kernel::quick_baseline(func, target)] {
            let mut actual = args.to_vec();
            kernel.run(&mut actual).unwrap();
            assert_same(func, "Cranelift", &expected, &actual);
        }
    }
    expected
}

/// Whether Cranelift refuses the function.
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
