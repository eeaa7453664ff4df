//! Values for C: making them, looking into them, and packed functions by name.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use reflex_runtime::abi::{DLTensor, SafeCall, TVMFFIAny, type_index};
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error as RaisedError;
use reflex_runtime::function::Function;
use reflex_runtime::registry;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use super::{ReflexStatus, give, live, quiet, slice, status, text, views};
use crate::error::{Error, ErrorKind, Result};
use crate::global_func::get_global_func;
use crate::library_function::library_function;
use crate::shared_session::arguments::kept;

pub(super) fn runtime<T>(
    outcome: std::result::Result<T, reflex_runtime::error::Error>,
) -> Result<T> {
    outcome.map_err(|error| Error::raised(ErrorKind::Run, error))
}

/// # Safety
/// `value` is null or a valid value that outlives `'a`.
unsafe fn view<'a>(value: *const TVMFFIAny) -> Result<AnyView<'a>> {
    // SAFETY: the caller passes a value that is null or valid.
    Ok(unsafe { views(value, 1) }?[0])
}

/// Kinds of values. Views are of the kind of what they show.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReflexKind {
    /// Nothing.
    None = 0,
    /// An integer, in `payload.v_int64`.
    Int = 1,
    /// A boolean, in `payload.v_int64`.
    Bool = 2,
    /// A float, in `payload.v_float64`.
    Float = 3,
    /// A string, for `reflex_as_string`.
    String = 4,
    /// A tensor, for `reflex_as_tensor`.
    Tensor = 5,
    /// A tuple or array, for `reflex_count` and `reflex_item`.
    Tuple = 6,
    /// A shape, for `reflex_count` and `reflex_item`.
    Shape = 7,
    /// A packed function, for `reflex_call_function`.
    Function = 8,
    /// Another value, such as a closure, a map or a module.
    Other = 9,
}

/// Returns the kind of a value; that of nothing for null.
///
/// ```c
/// ReflexValue text = reflex_string_view("cpu"), number = reflex_float(0.5);
/// CHECK(reflex_kind(&text) == REFLEX_KIND_STRING);
/// CHECK(reflex_kind(&number) == REFLEX_KIND_FLOAT);
/// CHECK(reflex_kind(&args[0]) == REFLEX_KIND_TENSOR);
/// ```
///
/// # Safety
/// `value` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_kind(value: *const TVMFFIAny) -> ReflexKind {
    let mut kind = ReflexKind::None;
    quiet(|| {
        // SAFETY: the caller passes a value that is null or valid.
        if let Ok(view) = unsafe { view(value) } {
            kind = kind_of(view);
        }
    });
    kind
}

fn kind_of(view: AnyView<'_>) -> ReflexKind {
    match view.type_index() {
        type_index::NONE => ReflexKind::None,
        type_index::INT => ReflexKind::Int,
        type_index::BOOL => ReflexKind::Bool,
        type_index::FLOAT => ReflexKind::Float,
        _ if view.as_str().is_some() => ReflexKind::String,
        _ if view.as_dltensor().is_some() => ReflexKind::Tensor,
        _ if view.downcast_ref::<Array>().is_some() => ReflexKind::Tuple,
        _ if view.downcast_ref::<Shape>().is_some() => ReflexKind::Shape,
        _ if view.downcast_ref::<Function>().is_some() => ReflexKind::Function,
        _ => ReflexKind::Other,
    }
}

/// Returns the value that stands for nothing.
///
/// ```c
/// ReflexValue none = reflex_none();
/// CHECK(reflex_as_tensor(&none) == NULL);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_none() -> TVMFFIAny {
    TVMFFIAny::NONE
}

/// Makes an integer.
///
/// ```c
/// CHECK(reflex_int(7).payload.v_int64 == 7);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_int(value: i64) -> TVMFFIAny {
    TVMFFIAny::int_like(type_index::INT, value)
}

/// Makes a boolean.
///
/// ```c
/// CHECK(reflex_bool(true).payload.v_int64 == 1);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_bool(value: bool) -> TVMFFIAny {
    TVMFFIAny::int_like(type_index::BOOL, value.into())
}

/// Makes a float.
///
/// ```c
/// CHECK(reflex_float(0.5).payload.v_float64 == 0.5);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_float(value: f64) -> TVMFFIAny {
    Any::from(value).into_raw()
}

/// Makes a view of a tensor of the caller's, for the call that it is an argument of.
///
/// ```c
/// float data[2] = {1, 2};
/// int64_t shape[] = {2};
/// ReflexTensor tensor = {data, {1, 0}, 1, f32, shape, NULL, 0};
/// ReflexValue view = reflex_tensor_view(&tensor);
/// CHECK(reflex_as_tensor(&view) == &tensor);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_tensor_view(tensor: *mut DLTensor) -> TVMFFIAny {
    TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor.cast())
}

/// Makes a view of a string of the caller's, for the call that it is an argument of.
///
/// ```c
/// const char *data;
/// size_t size;
/// ReflexValue text = reflex_string_view("cpu");
/// CHECK_OK(reflex_as_string(&text, &data, &size));
/// CHECK(size == 3);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_string_view(text: *const c_char) -> TVMFFIAny {
    TVMFFIAny::pointer(type_index::RAW_STR, text.cast_mut().cast())
}

/// Makes a tensor with memory of its own; `data`, when not null, is copied into it, else it is zero.
///
/// ```c
/// int64_t shape[] = {2, 3};
/// ReflexValue zeros;
/// CHECK_OK(reflex_tensor(f32, shape, 2, NULL, &zeros));
/// reflex_free(&zeros);
/// ```
///
/// # Safety
/// `shape` is `ndim` dimensions, `data` null or as many elements in row-major order, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_tensor(
    dtype: DType,
    shape: *const i64,
    ndim: u32,
    data: *const c_void,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes as many items as it counts.
        let shape = unsafe { slice(shape, ndim as usize, "the shape") }?;
        let tensor = runtime(Tensor::zeros(shape, dtype))?;
        if !data.is_null() {
            // SAFETY: the caller has as many bytes as the new tensor, which is unshared.
            unsafe { tensor.data_ptr().copy_from(data.cast(), tensor.nbytes()) };
        }
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(tensor).into_raw()) }
    })
}

/// Makes a string of `size` bytes of UTF-8, which are copied, NUL among them or not.
///
/// ```c
/// const char *data;
/// size_t size;
/// ReflexValue text;
/// CHECK_OK(reflex_string("a\0b", 3, &text));
/// CHECK_OK(reflex_as_string(&text, &data, &size));
/// CHECK(size == 3);
/// reflex_free(&text);
/// ```
///
/// # Safety
/// `data` is `size` bytes, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_string(
    data: *const c_char,
    size: usize,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes as many bytes as it counts.
        let bytes = unsafe { slice(data.cast::<u8>(), size, "the string") }?;
        let text = str::from_utf8(bytes).map_err(|_| Error::input("the string is not UTF-8"))?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(text).into_raw()) }
    })
}

/// Makes a shape.
///
/// ```c
/// int64_t dims[] = {2, 3};
/// ReflexValue shape;
/// CHECK_OK(reflex_shape(dims, 2, &shape));
/// CHECK(reflex_count(&shape) == 2);
/// reflex_free(&shape);
/// ```
///
/// # Safety
/// `dims` is `count` dimensions, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_shape(
    dims: *const i64,
    count: u32,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes as many items as it counts.
        let dims = unsafe { slice(dims, count as usize, "the shape") }?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(Shape::new(dims)).into_raw()) }
    })
}

/// Makes a tuple of copies of `items`; views of tensors and strings among them are copied.
///
/// ```c
/// ReflexValue pair;
/// CHECK_OK(reflex_tuple(args, 2, &pair));
/// CHECK(reflex_count(&pair) == 2);
/// reflex_free(&pair);
/// ```
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
        // SAFETY: the caller passes as many valid values as it counts.
        let items = kept(unsafe { views(items, count) }?)?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(Array::new(items)).into_raw()) }
    })
}

/// The tensors that results are copied into.
pub(super) fn targets(args: &[AnyView<'_>]) -> Result<Vec<Tensor>> {
    let target = |arg: &AnyView<'_>| match arg.downcast_ref::<Tensor>() {
        Some(tensor) if tensor.is_compact() => Ok(tensor.clone()),
        Some(_) => Err(Error::input("an output is bound to a strided tensor; bind a compact one")),
        None => Err(Error::input(format!("an output is bound to a {}", arg.type_key()))),
    };
    args.iter().map(target).collect()
}

/// Makes another reference to the same value; both are freed.
///
/// ```c
/// ReflexValue owned;
/// CHECK_OK(reflex_copy(&args[0], &owned));
/// reflex_free(&owned);
/// ```
///
/// # Safety
/// `value` is null or valid, `out` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_copy(value: *const TVMFFIAny, out: *mut TVMFFIAny) -> ReflexStatus {
    // SAFETY: the caller passes a value and a result pointer that are null or valid; the result
    // may be written.
    status(|| unsafe { give(out, runtime(view(value)?.to_owned_copy())?.into_raw()) })
}

/// Frees a value and replaces it by none. Values that hold no object are left alone, so every value
/// may be freed.
///
/// ```c
/// ReflexValue none = reflex_none();
/// reflex_free(&none); // every value may be freed
/// ```
///
/// # Safety
/// `value` is null or an owned value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_free(value: *mut TVMFFIAny) {
    quiet(|| {
        if !value.is_null() {
            // SAFETY: the caller passes null or an owned value, which is None afterwards.
            drop(unsafe { Any::from_raw(value.replace(TVMFFIAny::NONE)) });
        }
    });
}

/// Returns the tensor in a value, valid as long as the value; null for a value of another type.
///
/// ```c
/// CHECK(reflex_as_tensor(&args[0])->shape[1] == 8);
/// ReflexValue number = reflex_int(1);
/// CHECK(reflex_as_tensor(&number) == NULL);
/// ```
///
/// # Safety
/// `value` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_as_tensor(value: *const TVMFFIAny) -> *const DLTensor {
    // SAFETY: the caller passes a pointer that is null or valid.
    let tensor = unsafe { value.as_ref() }.and_then(|value| {
        // SAFETY: as above; the pointer does not outlive the value.
        unsafe { AnyView::from_raw(*value) }.as_dltensor().map(std::ptr::from_ref)
    });
    tensor.unwrap_or(std::ptr::null())
}

/// Returns the string in a value: its first byte (it need not end in NUL) and size, valid as long as
/// the value stays where it is.
///
/// ```c
/// const char *data;
/// size_t size;
/// ReflexValue text;
/// CHECK_OK(reflex_program_print(program, REFLEX_TEXT_TEXT, &text));
/// CHECK_OK(reflex_as_string(&text, &data, &size));
/// printf("%.*s", (int)size, data);
/// reflex_free(&text);
/// ```
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
        // SAFETY: the caller passes a value that is null or valid. The view is not copied, as short
        // strings are inside it.
        let view = unsafe { live(value.cast::<AnyView<'_>>(), "the value") }?;
        let mismatch = || view.mismatch("ffi.String");
        let text = runtime(view.as_str().ok_or_else(mismatch))?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe {
            give(data, text.as_ptr().cast())?;
            give(size, text.len())
        }
    })
}

/// Returns the number of items of a tuple or of dimensions of a shape; -1 for anything else.
///
/// ```c
/// ReflexValue number = reflex_int(1);
/// CHECK(reflex_count(&number) == -1);
/// ```
///
/// # Safety
/// `value` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_count(value: *const TVMFFIAny) -> i64 {
    // SAFETY: the caller passes a value that is null or valid.
    let Ok(view) = (unsafe { view(value) }) else { return -1 };
    let tuple = view.downcast_ref::<Array>().map(|items| items.len());
    let shape = || view.downcast_ref::<Shape>().map(|dims| dims.len());
    tuple.or_else(shape).map_or(-1, |count| count as i64)
}

/// Returns item `index` of a tuple or dimension `index` of a shape; the caller frees it.
///
/// ```c
/// int64_t dims[] = {2, 3};
/// ReflexValue shape, last;
/// CHECK_OK(reflex_shape(dims, 2, &shape));
/// CHECK_OK(reflex_item(&shape, 1, &last));
/// CHECK(last.payload.v_int64 == 3);
/// reflex_free(&shape);
/// ```
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
        // SAFETY: the caller passes a value that is null or valid.
        let (view, index) = (unsafe { view(value) }?, index as usize);
        let missing = || Error::input(format!("the value has no item {index}"));
        let item = match (view.downcast_ref::<Array>(), view.downcast_ref::<Shape>()) {
            (Some(items), _) => items.get(index).cloned(),
            (_, Some(dims)) => dims.get(index).map(|dim| Any::from(*dim)),
            _ => None,
        };
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, item.ok_or_else(missing)?.into_raw()) }
    })
}

/// Makes a packed function without a name, as an argument or a result; `deleter`, when not null, frees
/// `self_` with the function. The caller frees the value.
///
/// ```c
/// ReflexValue function, two, one = reflex_int(1);
/// CHECK_OK(reflex_function(add_one, NULL, NULL, &function));
/// CHECK_OK(reflex_call_function(&function, &one, 1, &two));
/// CHECK(two.payload.v_int64 == 2);
/// reflex_free(&function);
/// ```
///
/// # Safety
/// `call` keeps tvm-ffi's calling convention with `self_` as its first argument, from any
/// thread; `deleter` may be called from any thread; `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_function(
    call: SafeCall,
    self_: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a function of tvm-ffi's calling convention that any thread may
        // call.
        let function = unsafe { Function::from_callback(call, self_, deleter) };
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(function).into_raw()) }
    })
}

/// Sets the error of a packed function of the caller's, which returns the result of this: -1.
///
/// ```c
/// // In a packed function:
/// //     return reflex_raise("ValueError", "the argument is negative");
/// CHECK(reflex_raise("ValueError", "never taken") == -1);
/// ```
///
/// # Safety
/// `kind` and `message` are null or end in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_raise(kind: *const c_char, message: *const c_char) -> i32 {
    quiet(|| {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let (kind, message) = unsafe { (lossy(kind, "RuntimeError"), lossy(message, "")) };
        RaisedError::new(&kind, message).raise();
    });
    -1
}

/// # Safety
/// `text` is null or ends in NUL.
unsafe fn lossy(text: *const c_char, default: &str) -> String {
    if text.is_null() {
        return default.to_owned();
    }
    // SAFETY: the caller passes a string that ends in NUL.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Registers a packed function that programs and other languages find by `name`, as
/// `tvm.register_global_func` does; `deleter`, when not null, frees `self_` with the function.
///
/// ```c
/// CHECK_OK(reflex_register_global_func("docs.add_one", add_one, NULL, NULL));
/// ```
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
        // SAFETY: the caller passes a function of tvm-ffi's calling convention that any thread may
        // call.
        let function = unsafe { Function::from_callback(call, self_, deleter) };
        // SAFETY: the caller passes strings that are null or end in NUL.
        runtime(registry::register(unsafe { text(name, "the name") }?, function))
    })
}

/// Returns the packed function that programs find under a name, a builtin or one that was registered;
/// the caller frees it.
///
/// ```c
/// ReflexValue function, two, one = reflex_int(1);
/// CHECK_OK(reflex_register_global_func("docs.found", add_one, NULL, NULL));
/// CHECK_OK(reflex_get_global_func("docs.found", &function));
/// CHECK_OK(reflex_call_function(&function, &one, 1, &two));
/// CHECK(two.payload.v_int64 == 2);
/// reflex_free(&function);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_get_global_func(
    name: *const c_char,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let name = unsafe { text(name, "the name") }?;
        let missing = || Error::input(format!("no function is registered as `{name}`"));
        let function = get_global_func(name).ok_or_else(missing)?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(function).into_raw()) }
    })
}

/// Returns the packed function `name` of a shared library, where its symbol is `__tvm_ffi_<name>`; the
/// caller frees it, and the library stays loaded with it. Opening a library runs machine code of
/// its author's choice.
///
/// ```c
/// ReflexValue function;
/// CHECK(reflex_library_function("no/such.so", "f", &function) == REFLEX_STATUS_IO);
/// ```
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
        // SAFETY: the caller passes strings that are null or end in NUL.
        let (path, name) = unsafe { (text(path, "the path")?, text(name, "the name")?) };
        let function = library_function(Path::new(path), name)?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(function).into_raw()) }
    })
}

/// Calls a packed function.
///
/// ```c
/// ReflexValue function, two, one = reflex_int(1);
/// CHECK_OK(reflex_register_global_func("docs.called", add_one, NULL, NULL));
/// CHECK_OK(reflex_get_global_func("docs.called", &function));
/// CHECK_OK(reflex_call_function(&function, &one, 1, &two));
/// CHECK(two.payload.v_int64 == 2);
/// reflex_free(&function);
/// ```
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
        // SAFETY: the caller passes a function that is null or valid, and as many valid arguments
        // as it counts.
        let (view, args) = unsafe { (view(function)?, views(args, count)?) };
        let mismatch = || view.mismatch("ffi.Function");
        let function = runtime(view.downcast_ref::<Function>().ok_or_else(mismatch))?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, runtime(function.call(args))?.into_raw()) }
    })
}
