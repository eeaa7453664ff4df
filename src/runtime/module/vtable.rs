//! The virtual functions of modules that C++ code calls.
//!
//! A C++ object with virtual functions has a pointer to their table before tvm-ffi's header, by the
//! Itanium C++ ABI; values of class type are returned through a pointer that is the first argument. The
//! table is a copy of that of `ModuleObj` in libtvm_ffi, whose defaults stay, with ours for what it
//! leaves open. Whether slots are where we take them to be is checked against the library's symbols.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::LazyLock;

use super::{RUNNABLE, cell_at};
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::error::Error;
use crate::function::{Function, guard};
use crate::host;
use crate::object::ObjectType;
use crate::string::Str;
use crate::value::{self, Any};

/// Words before the first slot: the offset to the top, and the type information.
const HEAD: usize = 2;
/// Slots, in the order of the class.
const SLOTS: usize = 12;
const KIND: usize = 0;
const PROPERTY_MASK: usize = 1;
const GET_FUNCTION: usize = 2;
const INSPECT_SOURCE: usize = 9;
const IMPORT_MODULE: usize = 10;
const CLEAR_IMPORTS: usize = 11;

/// A table of virtual functions, with what stands before its slots.
pub(super) struct Table([*const c_void; HEAD + SLOTS]);

// SAFETY: addresses of code and constants, which nothing writes to.
unsafe impl Send for Table {}
// SAFETY: as for Send.
unsafe impl Sync for Table {}

impl Table {
    /// The first slot, which objects point to.
    pub(super) fn as_ptr(&self) -> *const c_void {
        self.0[HEAD..].as_ptr().cast()
    }
}

/// The modules of the libtvm_ffi in the process.
pub(super) enum Host {
    /// There is no such library.
    None,
    /// Its modules have a layout that is not known here.
    Unknown,
    /// They have this table.
    Table(Table),
}

/// The host's modules, found once.
pub(super) fn of_host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(find);
    &HOST
}

fn find() -> Host {
    if host::get().is_none() {
        return Host::None;
    }
    let symbol = |name: &CStr| host::global_symbol(name).map(|found| found.cast_const());
    let table = symbol(c"_ZTVN3tvm3ffi9ModuleObjE");
    let import = symbol(c"_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE");
    let clear = symbol(c"_ZN3tvm3ffi9ModuleObj12ClearImportsEv");
    let (Some(table), Some(import), Some(clear)) = (table, import, clear) else {
        return Host::Unknown;
    };
    // SAFETY: a table of the class has at least these words in every version of the library that has both
    // functions, which are its last slots.
    let mut words = unsafe { table.cast::<[*const c_void; HEAD + SLOTS]>().read() };
    let slots = &words[HEAD..];
    // The two functions without a default share one address, that of the handler for such calls.
    let is_known = words[0].is_null()
        && slots[IMPORT_MODULE] == import
        && slots[CLEAR_IMPORTS] == clear
        && slots[KIND] == slots[GET_FUNCTION]
        && slots.iter().filter(|slot| **slot == slots[KIND]).count() == 2;
    if !is_known {
        return Host::Unknown;
    }
    words[HEAD + KIND] = kind as *const c_void;
    words[HEAD + PROPERTY_MASK] = property_mask as *const c_void;
    words[HEAD + GET_FUNCTION] = get_function as *const c_void;
    words[HEAD + INSPECT_SOURCE] = inspect_source as *const c_void;
    Host::Table(Table(words))
}

/// The header of an object that C++ code points to with its table.
///
/// # Safety
/// `this` is a live C++ object with one table pointer before its header.
unsafe fn header(this: *mut c_void) -> *mut TVMFFIObject {
    // SAFETY: as the caller vouches.
    unsafe { this.cast::<*const c_void>().add(1).cast() }
}

unsafe extern "C" fn kind(this: *mut c_void) -> *const c_char {
    // SAFETY: C++ calls this on a live module with our table.
    unsafe { cell_at(header(this)) }.kind.as_ptr()
}

unsafe extern "C" fn property_mask(_: *mut c_void) -> c_int {
    RUNNABLE
}

/// A string of C++, as text.
///
/// # Safety
/// `text` points to a live `ffi::String`.
unsafe fn text<'a>(text: *const TVMFFIAny) -> &'a str {
    // SAFETY: an `ffi::String` is one value, which outlives the call.
    value::str_of(unsafe { &*text }).unwrap_or_default()
}

/// Writes the function called `name`, or null. Errors of the look-up cannot be thrown through here:
/// they become those of the function's calls.
unsafe extern "C" fn get_function(
    result: *mut *mut TVMFFIObject,
    this: *mut c_void,
    name: *const TVMFFIAny,
) -> *mut *mut TVMFFIObject {
    // SAFETY: C++ calls this on a live module with our table, and a string.
    let (cell, name) = unsafe { (cell_at(header(this)), text(name)) };
    let found = guard(|| cell.own_function(name)).unwrap_or_else(|error| Some(failing(error)));
    let found = found.map_or(std::ptr::null_mut(), |found| found.into_object().into_raw().as_ptr());
    // SAFETY: the caller passes room for a reference.
    unsafe { result.write(found) };
    result
}

/// A function whose calls raise an error.
fn failing(error: Error) -> Function {
    Function::new(move |_| Err::<Any, _>(error.clone()))
}

unsafe extern "C" fn inspect_source(
    result: *mut TVMFFIAny,
    this: *mut c_void,
    format: *const TVMFFIAny,
) -> *mut TVMFFIAny {
    // SAFETY: C++ calls this on a live module with our table, and a string.
    let (cell, format) = unsafe { (cell_at(header(this)), text(format)) };
    let source = guard(|| Ok(cell.functions.source(format))).unwrap_or_default();
    // SAFETY: the caller passes room for a string.
    unsafe { result.write(Any::from(Str::new(&source)).into_raw()) };
    result
}
