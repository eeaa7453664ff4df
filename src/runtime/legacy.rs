//! Libraries that TVM exported before tvm-ffi (0.8 to 0.19): their calling convention, the functions
//! that their kernels reach through slots, and the modules that they carry.
//!
//! A kernel is a C symbol without a prefix that takes values and their type codes in two arrays. It
//! reports an error by a status and a text, which `TVMAPISetLastError` keeps for the thread. Its
//! booleans are unsigned integers of one bit that take a byte; here they are [`DType::BOOL`].

#![expect(non_snake_case, reason = "the names are the C ABI's")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;

use crate::abi::{AnyPayload, DLTensor, TVMFFIAny, type_index};
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{Function, guard};
use crate::library::{Context, Library};
use crate::object::{ObjectRef, ObjectType};
use crate::value::{Any, AnyView};

/// Where such a library wants its context.
pub(crate) const CONTEXT_SYMBOL: &str = "__tvm_module_ctx";
/// The modules: a 64-bit size, then so many bytes.
const BUNDLE_SYMBOL: &str = "__tvm_dev_mblob";
/// Arguments that a call passes without allocating.
const INLINE: usize = 16;

/// Type codes of values.
mod code {
    pub const INT: i32 = 0;
    pub const FLOAT: i32 = 2;
    pub const HANDLE: i32 = 3;
    pub const NULL: i32 = 4;
    pub const DTYPE: i32 = 5;
    pub const DEVICE: i32 = 6;
    pub const DL_TENSOR: i32 = 7;
    pub const STR: i32 = 11;
    pub const ND_ARRAY: i32 = 13;
}

/// `TVMValue`.
type Payload = AnyPayload;

/// A kernel's entry: values, codes, their number, the result and its code, an unused handle.
type Entry = unsafe extern "C" fn(
    *const Payload,
    *const c_int,
    c_int,
    *mut Payload,
    *mut c_int,
    *mut c_void,
) -> c_int;

thread_local! {
    /// The text of the last error on this thread.
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The functions that kernels reach through slots, with their addresses.
pub(crate) fn slots() -> [(&'static str, *mut c_void); 3] {
    [
        ("TVMFuncCall", TVMFuncCall as *mut c_void),
        ("TVMAPISetLastError", TVMAPISetLastError as *mut c_void),
        ("TVMBackendGetFuncFromEnv", TVMBackendGetFuncFromEnv as *mut c_void),
    ]
}

/// Runs the body of a function that kernels call: 0, or -1 with the error's text kept.
fn status(body: impl FnOnce() -> Result<(), Error>) -> c_int {
    match guard(body) {
        Ok(()) => 0,
        Err(error) => {
            LAST_ERROR.with_borrow_mut(|text| *text = error.to_string());
            -1
        }
    }
}

unsafe extern "C" fn TVMAPISetLastError(text: *const c_char) {
    let _ = status(|| {
        // SAFETY: kernels pass a string.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        LAST_ERROR.with_borrow_mut(|last| *last = text.into_owned());
        Ok(())
    });
}

/// A registered function, borrowed from the library's context.
unsafe extern "C" fn TVMBackendGetFuncFromEnv(
    context: *mut c_void,
    name: *const c_char,
    out: *mut *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: libraries pass the context that the loader gave them, which lives as long as they
        // are loaded, and a string.
        let (context, name) = unsafe { (context.cast::<Context>().as_ref(), CStr::from_ptr(name)) };
        let name = name.to_string_lossy();
        let function = context.and_then(|context| context.import(&name)).ok_or_else(|| {
            Error::new("AttributeError", format!("no registered function is `{name}`"))
        })?;
        // SAFETY: `out` is writable; the context keeps the function.
        unsafe { out.write(function.handle()) };
        Ok(())
    })
}

/// A call of what `TVMBackendGetFuncFromEnv` gave.
unsafe extern "C" fn TVMFuncCall(
    function: *mut c_void,
    values: *const Payload,
    codes: *const c_int,
    count: c_int,
    result: *mut Payload,
    result_code: *mut c_int,
) -> c_int {
    status(|| {
        let function = std::ptr::NonNull::new(function.cast());
        let function = function.ok_or_else(|| Error::value_error("a call of a null function"))?;
        // SAFETY: the handle is a function object that a context keeps; forgetting the reference
        // leaves the count as it was.
        let function = std::mem::ManuallyDrop::new(unsafe {
            Function::from_object_unchecked(ObjectRef::from_raw(function))
        });
        let count = usize::try_from(count).unwrap_or_default();
        // SAFETY: kernels pass that many values and codes, which are valid for the call.
        let (values, codes) = unsafe { (slice(values, count), slice(codes, count)) };
        let args = values.iter().zip(codes).map(|(value, code)| view(*value, *code));
        let returned = function.call(&args.collect::<Result<Vec<_>, _>>()?)?;
        let (value, code) = plain(&returned)?;
        // SAFETY: kernels pass places for the result.
        unsafe {
            result.write(value);
            result_code.write(code);
        }
        Ok(())
    })
}

/// # Safety
/// `data` points to `count` values that are valid for `'a`; it may be null if there are none.
unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller vouches.
    unsafe { std::slice::from_raw_parts(data, count) }
}

/// A value of a kernel as an argument.
fn view<'a>(payload: Payload, code: i32) -> Result<AnyView<'a>, Error> {
    let type_index = match code {
        code::INT => type_index::INT,
        code::FLOAT => type_index::FLOAT,
        code::HANDLE => type_index::OPAQUE_PTR,
        code::NULL => type_index::NONE,
        code::DTYPE => type_index::DATA_TYPE,
        code::DEVICE => type_index::DEVICE,
        // The pointer of an NDArray is that of its DLTensor.
        code::DL_TENSOR | code::ND_ARRAY => type_index::DL_TENSOR_PTR,
        code::STR => type_index::RAW_STR,
        code => {
            let text = format!("a kernel calls a function with a value of type code {code}");
            return Err(Error::type_error(text));
        }
    };
    // SAFETY: a kernel's values are what their codes say, and valid for the call.
    Ok(unsafe { AnyView::from_raw(TVMFFIAny { type_index, small_len: 0, payload }) })
}

/// A result as a value of a kernel, which takes numbers and None.
fn plain(result: &Any) -> Result<(Payload, i32), Error> {
    let view = result.view();
    if result.is_none() {
        return Ok((Payload { int: 0 }, code::NULL));
    }
    match (view.as_int(), view.as_float()) {
        (Some(int), _) => Ok((Payload { int }, code::INT)),
        (None, Some(float)) => Ok((Payload { float }, code::FLOAT)),
        (None, None) => {
            let key = view.type_key();
            Err(Error::type_error(format!("a kernel's callee returns a {key}, which is no number")))
        }
    }
}

impl Library {
    /// The kernel called `name` of a library that TVM exported before tvm-ffi.
    pub fn legacy_function(&self, name: &str) -> Option<Function> {
        let symbol = self.symbol(name)?;
        // SAFETY: the library's code is trusted, as whoever opened it vouches, and its plain symbols
        // that programs name as kernels follow this convention.
        let entry = unsafe { std::mem::transmute::<*mut c_void, Entry>(symbol.as_ptr()) };
        let (library, name) = (self.clone(), name.to_owned());
        Some(Function::in_place(move |args, result| {
            // The entry is good as long as the library is loaded.
            let _: &Library = &library;
            if args.len() > INLINE {
                let mut space = vec![Slot::EMPTY; args.len()];
                return call(entry, &name, args, &mut space, result);
            }
            let mut space = [Slot::EMPTY; INLINE];
            call(entry, &name, args, &mut space[..args.len()], result)
        }))
    }

    /// The bytes of the Relay executable that a library carries; None for a library without TVM's
    /// old bundle.
    pub fn legacy_executable(&self) -> Option<Result<&[u8], Error>> {
        let bytes = self.data(BUNDLE_SYMBOL)?;
        Some(executable(bytes).map(|range| &bytes[range]))
    }
}

/// The place of an argument while a call passes it.
#[derive(Clone, Copy)]
struct Slot {
    code: c_int,
    value: Payload,
    /// The header that kernels see of a tensor of booleans.
    header: Option<DLTensor>,
}

impl Slot {
    const EMPTY: Slot = Slot { code: code::NULL, value: Payload { int: 0 }, header: None };
}

/// Booleans as these kernels know them.
const OLD_BOOL: DType = DType::new(crate::dtype::code::UINT, 1);

fn call(
    entry: Entry,
    name: &str,
    args: &[AnyView<'_>],
    space: &mut [Slot],
    result: &mut Any,
) -> Result<(), Error> {
    for (slot, arg) in space.iter_mut().zip(args) {
        *slot = fill(arg).ok_or_else(|| {
            Error::type_error(format!("kernel `{name}` was given a {}", arg.type_key()))
        })?;
    }
    let mut values = [Payload { int: 0 }; INLINE];
    let mut codes = [code::NULL; INLINE];
    let (mut more_values, mut more_codes) = (vec![], vec![]);
    let (values, codes) = match space.len() <= INLINE {
        true => (&mut values[..space.len()], &mut codes[..space.len()]),
        false => {
            more_values.resize(space.len(), Payload { int: 0 });
            more_codes.resize(space.len(), code::NULL);
            (&mut more_values[..], &mut more_codes[..])
        }
    };
    for ((slot, value), code) in space.iter_mut().zip(values.iter_mut()).zip(codes.iter_mut()) {
        *code = slot.code;
        *value = match &mut slot.header {
            Some(header) => Payload { ptr: std::ptr::from_mut(header).cast() },
            None => slot.value,
        };
    }
    let (mut returned, mut returned_code) = (Payload { int: 0 }, code::NULL);
    // SAFETY: the arrays hold as many values and codes, which the arguments keep valid for the call;
    // the entry follows this convention, as `legacy_function` demands.
    let status = unsafe {
        let count = args.len() as c_int;
        let (values, codes) = (values.as_ptr(), codes.as_ptr());
        entry(values, codes, count, &mut returned, &mut returned_code, std::ptr::null_mut())
    };
    if status != 0 {
        let text = LAST_ERROR.with_borrow_mut(std::mem::take);
        let text = if text.is_empty() { format!("kernel `{name}` failed") } else { text };
        return Err(Error::runtime_error(text));
    }
    *result = match returned_code {
        // SAFETY: the code says which payload the kernel wrote.
        code::INT => unsafe { returned.int }.into(),
        // SAFETY: as above.
        code::FLOAT => unsafe { returned.float }.into(),
        _ => Any::NONE,
    };
    Ok(())
}

/// An argument as a kernel takes it: a tensor, a number or None.
fn fill(arg: &AnyView<'_>) -> Option<Slot> {
    if let Some(tensor) = arg.as_dltensor() {
        let value = Payload { ptr: std::ptr::from_ref(tensor).cast_mut().cast() };
        let header =
            (tensor.dtype == DType::BOOL).then_some(DLTensor { dtype: OLD_BOOL, ..*tensor });
        return Some(Slot { code: code::DL_TENSOR, value, header });
    }
    let (code, value) = match (arg.is_none(), arg.as_int(), arg.as_float()) {
        (true, ..) => (code::NULL, Payload { int: 0 }),
        (_, Some(int), _) => (code::INT, Payload { int }),
        (_, None, Some(float)) => (code::FLOAT, Payload { float }),
        (_, None, None) => return None,
    };
    Some(Slot { code, value, header: None })
}

/// The bytes of the Relay executable in a bundle: the number of modules, for each its kind and, but for
/// the library itself, its bytes, and last the tree of imports.
fn executable(bytes: &[u8]) -> Result<Range<usize>, Error> {
    let bad = |text: &str, at: usize| {
        Error::value_error(format!("malformed library bundle: {text} (at byte {at})"))
    };
    let mut at = 0;
    let word = |at: &mut usize| -> Result<usize, Error> {
        let word = bytes.get(*at..).and_then(<[u8]>::first_chunk::<8>);
        let word = word.ok_or_else(|| bad("it ends in a number", *at))?;
        *at += 8;
        usize::try_from(u64::from_le_bytes(*word))
            .map_err(|_| bad("a number out of range", *at - 8))
    };
    let text = |at: &mut usize| -> Result<Range<usize>, Error> {
        let size = word(at)?;
        let end = at.checked_add(size).filter(|end| *end <= bytes.len());
        let end = end.ok_or_else(|| bad("a text past its end", *at))?;
        Ok(std::mem::replace(at, end)..end)
    };
    if word(&mut at)? > bytes.len() - at {
        return Err(bad("it is larger than the symbol that holds it", 0));
    }
    let modules = word(&mut at)?;
    for _ in 0..modules {
        let start = at;
        let kind = text(&mut at)?;
        match &bytes[kind] {
            b"VMExecutable" => return text(&mut at),
            b"_lib" => {}
            b"_import_tree" => break,
            kind => {
                let kind = String::from_utf8_lossy(kind);
                let text = format!(
                    "a module of kind `{kind}`, which is not supported; kinds are VMExecutable and _lib"
                );
                return Err(bad(&text, start));
            }
        }
    }
    Err(bad("it holds no VMExecutable", at))
}

#[cfg(test)]
mod tests;
