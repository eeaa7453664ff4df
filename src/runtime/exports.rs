//! The C functions of tvm-ffi, implemented by this crate: values, functions, types.
//!
//! Each does what the header `tvm/ffi/c_api.h` says. A failure, a panic included,
//! leaves an error in the thread's slot and returns -1. Functions for compiled
//! kernels are in [`backend`].
//!
//! Libraries that [`library`](crate::library) loads are bound to these functions, whatever the
//! executable exports. Those with thread-local variables go to the system's loader, which finds
//! them in the process's global scope only: an executable that opens one passes the linker argument
//! `-Wl,--export-dynamic-symbol=<name>` for each name in [`EXPORTED_SYMBOLS`], which build scripts
//! of direct dependents find in `DEP_REFLEX_RUNTIME_EXPORTED_SYMBOLS`.

#![expect(non_snake_case, reason = "the names are the C ABI's")]

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;

use crate::abi::{
    DLManagedTensor, DLManagedTensorVersioned, SafeCall, TVMFFIAny, TVMFFIByteArray,
    TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFIObject, TVMFFITypeAttrColumn, TVMFFITypeInfo,
    TVMFFITypeMetadata,
};
use crate::backend;
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{Function, guard};
use crate::object::{self, ObjectRef, ObjectType};
use crate::string::{Bytes, Str};
use crate::tensor::Tensor;
use crate::value::{Any, AnyView, slice_of};
use crate::{registry, type_info, types};

/// Names that an executable exports for libraries with thread-local variables.
pub const EXPORTED_SYMBOLS: &[&str] = &include!("exported_symbols.rs");

/// `TVMFFIObjectHandle`.
type Handle = *mut TVMFFIObject;

/// The tvm-ffi version whose ABI this is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TVMFFIVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Patch number.
    pub patch: u32,
}

/// Runs the body of an export: 0, or -1 with the error raised.
pub(crate) fn status(body: impl FnOnce() -> Result<(), Error>) -> c_int {
    match guard(body) {
        Ok(()) => 0,
        Err(error) => {
            error.raise();
            -1
        }
    }
}

/// Runs the body of an export that cannot report errors. Only running out of memory
/// can go wrong in these, and that aborts.
fn quiet(body: impl FnOnce()) {
    let _ = guard(|| {
        body();
        Ok(())
    });
}

/// # Safety
/// `array` points to a live byte array, which outlives `'a`.
unsafe fn text<'a>(array: *const TVMFFIByteArray) -> Cow<'a, str> {
    // SAFETY: the caller passes a live array that outlives `'a`.
    String::from_utf8_lossy(unsafe { slice_of(array) })
}

/// # Safety
/// `object` is null or a live object that the caller keeps.
unsafe fn share(object: Handle) -> Option<ObjectRef> {
    let object = NonNull::new(object)?;
    // SAFETY: live, so a reference can be added, which the result then owns.
    unsafe {
        object::increment(object.as_ptr());
        Some(ObjectRef::from_raw(object))
    }
}

/// # Safety
/// `object` is null or a live object that the caller keeps.
unsafe fn share_as<T: ObjectType>(object: Handle) -> Result<T, Error> {
    // SAFETY: the caller passes null or a live object.
    let Some(object) = (unsafe { share(object) }) else {
        return Err(Error::type_error(format!("expected `{}`, got a null handle", T::KEY)));
    };
    if object.type_index() != T::type_index() {
        return Err(AnyView::from(&object).mismatch(T::KEY));
    }
    // SAFETY: the check above shows that the object is a `T`.
    Ok(unsafe { T::from_object_unchecked(object) })
}

/// # Safety
/// `out` may be written.
unsafe fn write_handle(out: *mut Handle, object: impl ObjectType) {
    // SAFETY: the caller passes an `out` that may be written.
    unsafe { out.write(object.into_object().into_raw().as_ptr()) };
}

/// Defines the functions of a C header of TVM: each as a Rust function and as an exported symbol.
macro_rules! exports {
    ($header:literal: $($(#[doc = $doc:literal])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block)*) => {
        $(
            $(#[doc = $doc])*
            ///
            /// # Safety
            #[doc = concat!("As in `", $header, "`: pointers are valid for their use, and handles are live.")]
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? $body
        )*

        /// The symbols. Rust code uses the functions above, since another library's
        /// symbol of the same name may interpose one of these.
        mod symbols {
            use super::*;
            $(
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
                    // SAFETY: the caller's obligations are those of the function of the same name.
                    unsafe { super::$name($($arg),*) }
                }
            )*
        }

        /// Every export of this file, with the address of its code.
        pub(crate) fn table() -> impl Iterator<Item = (&'static str, *mut c_void)> {
            [$((stringify!($name), $name as *mut c_void)),*].into_iter()
        }
    };
}

pub(crate) use exports;

exports! { "c_api.h":
    /// The version of the ABI.
    fn TVMFFIGetVersion(out: *mut TVMFFIVersion) {
        // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
        unsafe { out.write(TVMFFIVersion { major: 0, minor: 1, patch: 14 }) };
    }

    /// Adds a strong reference.
    fn TVMFFIObjectIncRef(object: Handle) -> c_int {
        // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
        unsafe { object::increment(object) };
        0
    }

    /// Releases a strong reference.
    fn TVMFFIObjectDecRef(object: Handle) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe { object::decrement(object) };
            Ok(())
        })
    }

    /// The index of a type key that is known.
    fn TVMFFITypeKeyToIndex(key: *const TVMFFIByteArray, out: *mut i32) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            let key = unsafe { text(key) };
            let index = types::find(&key)
                .ok_or_else(|| Error::new("KeyError", format!("unknown type key `{key}`")))?;
            // SAFETY: the caller passes a writable `out`, as `c_api.h` demands.
            unsafe { out.write(index) };
            Ok(())
        })
    }

    /// The index of a type key, new if need be.
    fn TVMFFITypeGetOrAllocIndex(
        key: *const TVMFFIByteArray,
        static_index: i32,
        _depth: i32,
        _child_slots: i32,
        _can_overflow: i32,
        parent: i32,
    ) -> i32 {
        const QUERY_ONLY: i32 = -2;
        let mut index = QUERY_ONLY;
        quiet(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            let key = unsafe { text(key) };
            index = match types::find(&key) {
                Some(known) => known,
                None if parent == QUERY_ONLY => QUERY_ONLY,
                None => type_info::insert(&key, static_index, parent),
            };
        });
        index
    }

    /// The facts about a type, which stay for ever; null for an index without one.
    fn TVMFFIGetTypeInfo(index: i32) -> *const TVMFFITypeInfo {
        let mut found = std::ptr::null();
        quiet(|| found = type_info::record(index).unwrap_or(std::ptr::null()));
        found
    }

    /// Adds a field to a type.
    fn TVMFFITypeRegisterField(index: i32, field: *const TVMFFIFieldInfo) -> c_int {
        // SAFETY: the caller passes a valid pointer to what `c_api.h` demands.
        status(|| unsafe { type_info::add_field(index, &*field) })
    }

    /// Adds a method to a type.
    fn TVMFFITypeRegisterMethod(index: i32, method: *const TVMFFIMethodInfo) -> c_int {
        // SAFETY: the caller passes a valid pointer to what `c_api.h` demands.
        status(|| unsafe { type_info::add_method(index, &*method) })
    }

    /// Sets the metadata of a type.
    fn TVMFFITypeRegisterMetadata(index: i32, metadata: *const TVMFFITypeMetadata) -> c_int {
        // SAFETY: the caller passes a valid pointer to what `c_api.h` demands.
        status(|| unsafe { type_info::set_metadata(index, &*metadata) })
    }

    /// Sets an attribute of a type.
    fn TVMFFITypeRegisterAttr(
        index: i32,
        name: *const TVMFFIByteArray,
        value: *const TVMFFIAny,
    ) -> c_int {
        // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
        status(|| unsafe { type_info::set_attribute(index, &text(name), &*value) })
    }

    /// An attribute of all types, which stays for ever; null where no type has it.
    fn TVMFFIGetTypeAttrColumn(name: *const TVMFFIByteArray) -> *const TVMFFITypeAttrColumn {
        let mut found = std::ptr::null();
        // SAFETY: the caller passes valid pointers, as `c_api.h` demands.
        quiet(|| found = type_info::column(&unsafe { text(name) }));
        found
    }

    /// A function from a C callback.
    fn TVMFFIFunctionCreate(
        this: *mut c_void,
        call: SafeCall,
        deleter: Option<unsafe extern "C" fn(*mut c_void)>,
        out: *mut Handle,
    ) -> c_int {
        status(|| {
            // SAFETY: the caller passes a callback that `from_callback` accepts, and a writable
            // `out`, as `c_api.h` demands.
            unsafe { write_handle(out, Function::from_callback(call, this, deleter)) };
            Ok(())
        })
    }

    /// A global function, or null.
    fn TVMFFIFunctionGetGlobal(name: *const TVMFFIByteArray, out: *mut Handle) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe {
                match registry::get(&text(name)) {
                    Some(function) => write_handle(out, function),
                    None => out.write(std::ptr::null_mut()),
                }
            }
            Ok(())
        })
    }

    /// Registers a global function.
    fn TVMFFIFunctionSetGlobal(
        name: *const TVMFFIByteArray,
        function: Handle,
        allow_override: c_int,
    ) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            let (name, function) = unsafe { (text(name), share_as::<Function>(function)?) };
            if allow_override == 0 {
                return registry::register(&name, function);
            }
            drop(registry::replace(&name, function));
            Ok(())
        })
    }

    /// An owned value from a borrowed one.
    fn TVMFFIAnyViewToOwnedAny(view: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe { out.write(AnyView::from_raw(*view).to_owned().into_raw()) };
            Ok(())
        })
    }

    /// Calls a function.
    fn TVMFFIFunctionCall(
        function: Handle,
        args: *mut TVMFFIAny,
        count: i32,
        result: *mut TVMFFIAny,
    ) -> c_int {
        // SAFETY: the caller passes a live function and its arguments, as `c_api.h` demands; callees do
        // not unwind.
        unsafe {
            let cell = function.add(1).cast::<crate::abi::TVMFFIFunctionCell>();
            ((*cell).safe_call)(function.cast(), args, count, result)
        }
    }

    /// Takes this thread's error, or null.
    fn TVMFFIErrorMoveFromRaised(out: *mut Handle) {
        let raised = Error::take_raised();
        // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
        unsafe {
            match raised {
                Some(error) => write_handle(out, error),
                None => out.write(std::ptr::null_mut()),
            }
        }
    }

    /// Sets this thread's error.
    fn TVMFFIErrorSetRaised(error: Handle) {
        quiet(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            match unsafe { share_as::<Error>(error) } {
                Ok(error) => error.raise(),
                Err(mismatch) => mismatch.raise(),
            }
        });
    }

    /// Sets this thread's error from strings.
    fn TVMFFIErrorSetRaisedFromCStr(kind: *const c_char, message: *const c_char) {
        // SAFETY: the caller passes two strings, as `c_api.h` demands; one message is one part.
        unsafe { TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1) };
    }

    /// Sets this thread's error from a kind and the parts of a message.
    fn TVMFFIErrorSetRaisedFromCStrParts(
        kind: *const c_char,
        parts: *const *const c_char,
        count: i32,
    ) {
        quiet(|| {
            let mut message = String::new();
            for part in 0..usize::try_from(count).unwrap_or(0) {
                // SAFETY: the caller passes `count` strings or nulls, as `c_api.h` demands.
                unsafe {
                    let part = *parts.add(part);
                    if !part.is_null() {
                        message.push_str(&CStr::from_ptr(part).to_string_lossy());
                    }
                }
            }
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            let kind = unsafe { CStr::from_ptr(kind) }.to_string_lossy();
            Error::new(&kind, message).raise();
        });
    }

    /// An error object.
    fn TVMFFIErrorCreate(
        kind: *const TVMFFIByteArray,
        message: *const TVMFFIByteArray,
        backtrace: *const TVMFFIByteArray,
        out: *mut Handle,
    ) -> c_int {
        let (cause, context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
        unsafe {
            TVMFFIErrorCreateWithCauseAndExtraContext(kind, message, backtrace, cause, context, out)
        }
    }

    /// An error object with everything it can carry.
    fn TVMFFIErrorCreateWithCauseAndExtraContext(
        kind: *const TVMFFIByteArray,
        message: *const TVMFFIByteArray,
        backtrace: *const TVMFFIByteArray,
        cause: Handle,
        context: Handle,
        out: *mut Handle,
    ) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe {
                let (cause, context) = (share(cause), share(context));
                let message = text(message);
                write_handle(out, Error::with_context(&text(kind), &message, &text(backtrace), cause, context));
            }
            Ok(())
        })
    }

    /// Takes over a DLPack tensor.
    fn TVMFFITensorFromDLPack(
        from: *mut DLManagedTensor,
        alignment: i32,
        contiguous: i32,
        out: *mut Handle,
    ) -> c_int {
        status(|| {
            let from = NonNull::new(from).ok_or_else(|| Error::value_error("a null tensor"))?;
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe {
                check_import(&from.as_ref().dl_tensor, alignment, contiguous)?;
                write_handle(out, Tensor::from_dlpack(from)?);
            }
            Ok(())
        })
    }

    /// Takes over a versioned DLPack tensor.
    fn TVMFFITensorFromDLPackVersioned(
        from: *mut DLManagedTensorVersioned,
        alignment: i32,
        contiguous: i32,
        out: *mut Handle,
    ) -> c_int {
        status(|| {
            let from = NonNull::new(from).ok_or_else(|| Error::value_error("a null tensor"))?;
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe {
                check_import(&from.as_ref().dl_tensor, alignment, contiguous)?;
                write_handle(out, Tensor::from_dlpack_versioned(from)?);
            }
            Ok(())
        })
    }

    /// Hands a tensor to another framework.
    fn TVMFFITensorToDLPack(from: Handle, out: *mut *mut DLManagedTensor) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe { out.write(share_as::<Tensor>(from)?.to_dlpack().as_ptr()) };
            Ok(())
        })
    }

    /// Hands a tensor to another framework, versioned.
    fn TVMFFITensorToDLPackVersioned(
        from: Handle,
        out: *mut *mut DLManagedTensorVersioned,
    ) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe { out.write(share_as::<Tensor>(from)?.to_dlpack_versioned().as_ptr()) };
            Ok(())
        })
    }

    /// A string value.
    fn TVMFFIStringFromByteArray(from: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe { out.write(Any::from(Str::new(&text(from))).into_raw()) };
            Ok(())
        })
    }

    /// A bytes value.
    fn TVMFFIBytesFromByteArray(from: *const TVMFFIByteArray, out: *mut TVMFFIAny) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe { out.write(Any::from(Bytes::new(slice_of(from))).into_raw()) };
            Ok(())
        })
    }

    /// The element type that text names.
    fn TVMFFIDataTypeFromString(from: *const TVMFFIByteArray, out: *mut DType) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            let dtype = unsafe { text(from) }.parse();
            let dtype = dtype.map_err(|error: crate::dtype::ParseDTypeError| {
                Error::value_error(error.to_string())
            })?;
            // SAFETY: the caller passes a writable `out`, as `c_api.h` demands.
            unsafe { out.write(dtype) };
            Ok(())
        })
    }

    /// The text that names an element type.
    fn TVMFFIDataTypeToString(from: *const DType, out: *mut TVMFFIAny) -> c_int {
        status(|| {
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            unsafe { out.write(Any::from(Str::new(&(*from).to_string())).into_raw()) };
            Ok(())
        })
    }

    /// Fills `*handle` by `init` unless that was done before; threads wait for each
    /// other.
    fn TVMFFIHandleInitOnce(
        handle: *mut *mut c_void,
        init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    ) -> c_int {
        status(|| {
            // SAFETY: the caller passes a valid pointer that only these functions change, as `c_api.h`
            // demands.
            let slot = unsafe { AtomicPtr::from_ptr(handle) };
            if !slot.load(Ordering::Acquire).is_null() {
                return Ok(());
            }
            let _lock = HANDLES.lock();
            if !slot.load(Ordering::Acquire).is_null() {
                return Ok(());
            }
            let mut made = std::ptr::null_mut();
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            if unsafe { init(&mut made) } != 0 {
                return Err(Error::of_failed_call());
            }
            slot.store(made, Ordering::Release);
            Ok(())
        })
    }

    /// Empties `*handle` by `deinit` if it is filled.
    fn TVMFFIHandleDeinitOnce(
        handle: *mut *mut c_void,
        deinit: unsafe extern "C" fn(*mut c_void) -> c_int,
    ) -> c_int {
        status(|| {
            let _lock = HANDLES.lock();
            // SAFETY: the caller passes a valid pointer that only these functions change, as `c_api.h`
            // demands.
            let old = unsafe { AtomicPtr::from_ptr(handle) }
                .swap(std::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: the caller passes valid pointers and live handles, as `c_api.h` demands.
            if !old.is_null() && unsafe { deinit(old) } != 0 {
                return Err(Error::of_failed_call());
            }
            Ok(())
        })
    }
}

/// Serialises the initialisation of handles.
static HANDLES: Mutex<()> = Mutex::new(());

/// # Safety
/// `dl` describes live data.
unsafe fn check_import(
    dl: &crate::abi::DLTensor,
    alignment: i32,
    contiguous: i32,
) -> Result<(), Error> {
    let address = dl.data.addr().wrapping_add(dl.byte_offset as usize);
    if alignment > 0 && !address.is_multiple_of(alignment as usize) {
        return Err(Error::value_error(format!("the data is not aligned to {alignment} bytes")));
    }
    // SAFETY: the caller vouches for the description of live data.
    if contiguous != 0 && !unsafe { crate::tensor::is_compact(dl) } {
        return Err(Error::value_error("the data is not contiguous"));
    }
    Ok(())
}

/// The address of an exported function, by name.
pub fn address_of(name: &str) -> Option<*mut c_void> {
    let own = table().find(|(known, _)| *known == name).map(|(_, address)| address);
    own.or_else(|| backend::address_of(name))
}

#[cfg(test)]
mod tests;
