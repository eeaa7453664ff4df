//! Values for C: making them, looking into them, and packed functions by name.

use std::ffi::{c_char, c_void};
use std::path::Path;

use reflex_runtime::abi::{DLTensor, SafeCall, TVMFFIAny, type_index};
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::function::Function;
use reflex_runtime::registry;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use super::{ReflexStatus, give, live, quiet, slice, status, text, views};
use crate::error::{Error, ErrorKind, Result};
use crate::library_function::library_function;

fn runtime<T>(outcome: std::result::Result<T, reflex_runtime::error::Error>) -> Result<T> {
    outcome.map_err(|error| Error::raised(ErrorKind::Run, error))
}

/// # Safety
/// `value` is null or a valid value that outlives `'a`.
unsafe fn view<'a>(value: *const TVMFFIAny) -> Result<AnyView<'a>> {
    // SAFETY: by the caller's contract.
    Ok(unsafe { views(value, 1) }?[0])
}

/// The value that stands for nothing.
#[unsafe(no_mangle)]
pub extern "C" fn reflex_none() -> TVMFFIAny {
    TVMFFIAny::NONE
}

/// An integer.
#[unsafe(no_mangle)]
pub extern "C" fn reflex_int(value: i64) -> TVMFFIAny {
    TVMFFIAny::int_like(type_index::INT, value)
}

/// A boolean.
#[unsafe(no_mangle)]
pub extern "C" fn reflex_bool(value: bool) -> TVMFFIAny {
    TVMFFIAny::int_like(type_index::BOOL, value.into())
}

/// A float.
#[unsafe(no_mangle)]
pub extern "C" fn reflex_float(value: f64) -> TVMFFIAny {
    Any::from(value).into_raw()
}

/// A tensor of the caller's, borrowed for the call that it is an argument of.
#[unsafe(no_mangle)]
pub extern "C" fn reflex_tensor_view(tensor: *mut DLTensor) -> TVMFFIAny {
    TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor.cast())
}

/// A string of the caller's, borrowed for the call that it is an argument of.
#[unsafe(no_mangle)]
pub extern "C" fn reflex_string_view(text: *const c_char) -> TVMFFIAny {
    TVMFFIAny::pointer(type_index::RAW_STR, text.cast_mut().cast())
}

/// A tensor with memory of its own; `data`, when not null, is copied into it.
///
/// # Safety
/// `shape` is `ndim` extents, `data` null or as many elements in row-major order, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_tensor(
    dtype: DType,
    shape: *const i64,
    ndim: u32,
    data: *const c_void,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let shape = unsafe { slice(shape, ndim as usize, "the shape") }?;
        let tensor = runtime(Tensor::zeros(shape, dtype))?;
        if !data.is_null() {
            // SAFETY: the caller has as many bytes as the new tensor, which is unshared.
            unsafe { tensor.data_ptr().copy_from(data.cast(), tensor.nbytes()) };
        }
        // SAFETY: by the contract.
        unsafe { give(out, Any::from(tensor).into_raw()) }
    })
}

/// A shape.
///
/// # Safety
/// `extents` is `count` extents, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_shape(
    extents: *const i64,
    count: u32,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let extents = unsafe { slice(extents, count as usize, "the shape") }?;
        // SAFETY: by the contract.
        unsafe { give(out, Any::from(Shape::new(extents)).into_raw()) }
    })
}

/// A tuple of copies of `items`; borrowed tensors and strings among them are copied.
///
/// # Safety
/// `items` is `count` valid values, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_tuple(
    items: *const TVMFFIAny,
    count: i32,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let items = kept(unsafe { views(items, count) }?)?;
        // SAFETY: by the contract.
        unsafe { give(out, Any::from(Array::new(items)).into_raw()) }
    })
}

/// Owned values that outlive the call.
pub(super) fn kept(args: &[AnyView<'_>]) -> Result<Vec<Any>> {
    runtime(args.iter().map(AnyView::to_owned_copy).collect())
}

/// Another reference to the same value; both are freed.
///
/// # Safety
/// `value` is null or valid, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_copy(value: *const TVMFFIAny, out: *mut TVMFFIAny) -> ReflexStatus {
    // SAFETY: by the contract.
    status(|| unsafe { give(out, runtime(view(value)?.to_owned_copy())?.into_raw()) })
}

/// Gives a value back and leaves none in its place. Values that hold no object are left alone,
/// so every value may be freed.
///
/// # Safety
/// `value` is null or an owned value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_free(value: *mut TVMFFIAny) {
    quiet(|| {
        if !value.is_null() {
            // SAFETY: by the contract; None is left.
            drop(unsafe { Any::from_raw(value.replace(TVMFFIAny::NONE)) });
        }
    });
}

/// The tensor in a value, valid as long as the value; null when it is none.
///
/// # Safety
/// `value` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_as_tensor(value: *const TVMFFIAny) -> *const DLTensor {
    // SAFETY: by the contract.
    let tensor = unsafe { value.as_ref() }.and_then(|value| {
        // SAFETY: as above; the pointer does not outlive the value.
        unsafe { AnyView::from_raw(*value) }.as_dltensor().map(std::ptr::from_ref)
    });
    tensor.unwrap_or(std::ptr::null())
}

/// The string in a value: its first byte (it need not end in NUL) and size, valid as long as
/// the value stays where it is.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_as_string(
    value: *const TVMFFIAny,
    data: *mut *const c_char,
    size: *mut usize,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract; the view is not copied, as short strings are inside it.
        let view = unsafe { live(value.cast::<AnyView<'_>>(), "the value") }?;
        let mismatch = || view.mismatch("ffi.String");
        let text = runtime(view.as_str().ok_or_else(mismatch))?;
        // SAFETY: by the contract.
        unsafe {
            give(data, text.as_ptr().cast())?;
            give(size, text.len())
        }
    })
}

/// Items of a tuple or extents of a shape; -1 for anything else.
///
/// # Safety
/// `value` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_count(value: *const TVMFFIAny) -> i64 {
    // SAFETY: by the contract.
    let Ok(view) = (unsafe { view(value) }) else { return -1 };
    let tuple = view.downcast_ref::<Array>().map(|items| items.len());
    let shape = || view.downcast_ref::<Shape>().map(|extents| extents.len());
    tuple.or_else(shape).map_or(-1, |count| count as i64)
}

/// Item `index` of a tuple or extent of a shape; the caller frees it.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_item(
    value: *const TVMFFIAny,
    index: u32,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let (view, index) = (unsafe { view(value) }?, index as usize);
        let missing = || Error::input(format!("the value has no item {index}"));
        let item = match (view.downcast_ref::<Array>(), view.downcast_ref::<Shape>()) {
            (Some(items), _) => items.get(index).cloned(),
            (_, Some(extents)) => extents.get(index).map(|extent| Any::from(*extent)),
            _ => None,
        };
        // SAFETY: by the contract.
        unsafe { give(out, item.ok_or_else(missing)?.into_raw()) }
    })
}

/// Registers a packed function that programs and other languages find by `name`; `deleter`,
/// when not null, releases `self_` with the function.
///
/// # Safety
/// `call` keeps tvm-ffi's calling convention with `self_` as its first argument, from any
/// thread; `deleter` may be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_register_global_func(
    name: *const c_char,
    call: SafeCall,
    self_: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let function = unsafe { Function::from_callback(call, self_, deleter) };
        // SAFETY: by the contract.
        runtime(registry::register(unsafe { text(name, "the name") }?, function))
    })
}

/// Finds a registered packed function; the caller frees it.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_get_global_func(
    name: *const c_char,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let name = unsafe { text(name, "the name") }?;
        let missing = || Error::input(format!("no function is registered as `{name}`"));
        let function = registry::get(name).ok_or_else(missing)?;
        // SAFETY: by the contract.
        unsafe { give(out, Any::from(function).into_raw()) }
    })
}

/// The packed function `name` of a shared library, where its symbol is `__tvm_ffi_<name>`; the
/// caller frees it, and the library stays loaded with it. Opening a library runs machine code of
/// its author's choice.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_library_function(
    path: *const c_char,
    name: *const c_char,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let (path, name) = unsafe { (text(path, "the path")?, text(name, "the name")?) };
        let function = library_function(Path::new(path), name)?;
        // SAFETY: by the contract.
        unsafe { give(out, Any::from(function).into_raw()) }
    })
}

/// Calls a packed function.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_call_function(
    function: *const TVMFFIAny,
    args: *const TVMFFIAny,
    count: i32,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let (view, args) = unsafe { (view(function)?, views(args, count)?) };
        let mismatch = || view.mismatch("ffi.Function");
        let function = runtime(view.downcast_ref::<Function>().ok_or_else(mismatch))?;
        // SAFETY: by the contract.
        unsafe { give(out, runtime(function.call(args))?.into_raw()) }
    })
}
