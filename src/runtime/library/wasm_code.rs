//! A library as a WebAssembly module, which the host instantiates beside this one: on its memory, with
//! its functions in this module's table.
//!
//! Code cannot be loaded from within WebAssembly, so the host does what a dynamic linker does: the
//! functions of `reflex_host` are its `dlopen`, `dlsym` and `dlclose`. The module is one that
//! `wasm-ld -shared` writes. Data that only Reflex reads is in custom sections with the names that
//! symbols have in a shared library.
//!
//! Source: "WebAssembly Dynamic Linking", the convention of the tool-conventions repository.
//!
//! Decision: docs/decisions/0104-webassembly.md

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use super::loading::{BundleAccess, Reason, Slot};
use crate::aligned_bytes::AlignedBytes;
use crate::exports;

/// The function by which kernels raise errors.
const ERROR_HOOK: &str = "TVMFFIErrorSetRaisedFromCStrParts";

/// A name and what the host links it to.
#[repr(C)]
struct Binding {
    name: *const u8,
    name_len: usize,
    /// The table index of a function, or the address of a pointer variable.
    address: usize,
}

#[link(wasm_import_module = "reflex_host")]
unsafe extern "C" {
    /// Instantiates a module, with these functions as its imports, and these pointer variables. Returns its
    /// number, or 0 and the start of a message, whose length goes to `message_len`.
    fn open(
        bytes: *const u8,
        len: usize,
        functions: *const Binding,
        functions_len: usize,
        variables: *const Binding,
        variables_len: usize,
        message: *mut u8,
        message_len: *mut usize,
    ) -> u32;
    /// The table index of a function that a module exports, or 0.
    fn symbol(module: u32, name: *const u8, len: usize) -> usize;
    /// Forgets a module.
    fn close(module: u32);
    /// 1 if the host knows relaxed SIMD, and its `f32x4.relaxed_madd` and `f64x2.relaxed_madd` round once.
    fn has_fused_relaxed_madd() -> u32;
}

/// Whether modules may use relaxed SIMD for fused multiply-adds: WebAssembly leaves it to the host whether
/// `relaxed_madd` rounds once or twice.
pub fn fused_relaxed_madd() -> bool {
    // SAFETY: it takes nothing.
    unsafe { has_fused_relaxed_madd() != 0 }
}

/// An instantiated module.
#[derive(Debug)]
pub(super) struct LoadedCode {
    number: u32,
    path: PathBuf,
    /// The module's file. Programs may write to constants in it.
    _bytes: AlignedBytes,
    start: NonNull<u8>,
    sections: HashMap<String, Range<usize>>,
    /// The pointer variables of the module.
    _variables: Box<[*mut c_void]>,
}

// SAFETY: there is one thread.
unsafe impl Send for LoadedCode {}
// SAFETY: as for Send.
unsafe impl Sync for LoadedCode {}

impl Drop for LoadedCode {
    fn drop(&mut self) {
        // SAFETY: the number is of a module that is open; nothing that came from it is left.
        unsafe { close(self.number) };
    }
}

impl LoadedCode {
    /// Loads the module at `path`.
    ///
    /// # Safety
    /// The module's code is trusted, and symbols with the names of slots are pointer variables.
    pub(super) unsafe fn open(path: &Path, slots: &[Slot]) -> Result<LoadedCode, Reason> {
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        // SAFETY: as the caller vouches.
        let mut code = unsafe { LoadedCode::from_bytes(&bytes, slots)? };
        code.path = path.to_owned();
        Ok(code)
    }

    /// Loads a module that is in memory.
    ///
    /// # Safety
    /// As for [`LoadedCode::open`].
    pub(super) unsafe fn from_bytes(bytes: &[u8], slots: &[Slot]) -> Result<LoadedCode, Reason> {
        let sections = custom_sections(bytes).ok_or("not a WebAssembly module")?;
        let mut bytes = AlignedBytes::copy_of(bytes);
        let start = NonNull::from(bytes.as_mut()).cast();
        let variables: Box<[*mut c_void]> = slots.iter().map(|slot| slot.value).collect();
        let named = slots.iter().zip(&variables).map(|(slot, variable)| Binding {
            name: slot.name.as_ptr(),
            name_len: slot.name.len(),
            address: std::ptr::from_ref(variable).addr(),
        });
        let named: Vec<Binding> = named.collect();
        let hook = exports::address_of(ERROR_HOOK).map(|address| (ERROR_HOOK, address.addr()));
        let of_c = FUNCTIONS.iter().map(|(name, address)| (*name, address.addr()));
        let functions: Vec<Binding> = of_c
            .chain(hook)
            .map(|(name, address)| Binding { name: name.as_ptr(), name_len: name.len(), address })
            .collect();
        let mut message = [0; 1024];
        let mut message_len = message.len();
        // SAFETY: the host reads the bindings and what they name, and writes to the message.
        let number = unsafe {
            open(
                bytes.as_ref().as_ptr(),
                bytes.as_ref().len(),
                functions.as_ptr(),
                functions.len(),
                named.as_ptr(),
                named.len(),
                message.as_mut_ptr(),
                &raw mut message_len,
            )
        };
        if number == 0 {
            let message = message.get(..message_len).unwrap_or(&message);
            return Err(String::from_utf8_lossy(message).into_owned());
        }
        let path = PathBuf::new();
        Ok(LoadedCode { number, path, _bytes: bytes, start, sections, _variables: variables })
    }

    /// The file it came from; empty for one in memory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Each open has its own variables.
    pub(super) fn is_of_the_system(&self) -> bool {
        false
    }

    /// The address of a custom section, or the table index of a function.
    pub(super) fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        if let Some(range) = self.sections.get(name) {
            // SAFETY: the section is within the bytes.
            return Some(unsafe { self.start.add(range.start) }.cast());
        }
        // SAFETY: the host reads the name.
        let found = unsafe { symbol(self.number, name.as_ptr(), name.len()) };
        NonNull::new(found as *mut c_void)
    }

    /// The bytes of a custom section.
    pub(super) fn data(&self, name: &str) -> Option<&[u8]> {
        let range = self.sections.get(name)?;
        // SAFETY: the section is within the bytes; data that is asked for does not change.
        Some(unsafe {
            std::slice::from_raw_parts(self.start.add(range.start).as_ptr(), range.len())
        })
    }

    /// Sections are memory of this module.
    pub(super) fn make_writable(&self, _name: &str) -> Result<BundleAccess, Reason> {
        Ok(BundleAccess::CopyOnWrite)
    }
}

/// Memory for the host, all zeros; null where there is none. The alignment is a power of two.
///
/// # Safety
/// It has no requirements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_allocate(size: usize, align: usize) -> *mut u8 {
    match Layout::from_size_align(size.max(1), align) {
        // SAFETY: the layout has a size.
        Ok(layout) => unsafe { alloc_zeroed(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// Frees memory of the host.
///
/// # Safety
/// `data` came from [`reflex_allocate`] with this size and alignment, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_deallocate(data: *mut u8, size: usize, align: usize) {
    if let Ok(layout) = Layout::from_size_align(size.max(1), align) {
        // SAFETY: as the caller vouches.
        unsafe { dealloc(data, layout) };
    }
}

/// The contents of a module's custom sections, by name.
fn custom_sections(bytes: &[u8]) -> Option<HashMap<String, Range<usize>>> {
    const CUSTOM: u8 = 0;
    let mut at = bytes.starts_with(b"\0asm\x01\0\0\0").then_some(8)?;
    let mut found = HashMap::new();
    while at < bytes.len() {
        let kind = bytes[at];
        let (size, start) = leb128(bytes, at + 1)?;
        let end = start.checked_add(size).filter(|end| *end <= bytes.len())?;
        if kind == CUSTOM {
            let (name, contents) = leb128(bytes, start)?;
            let name = contents..contents.checked_add(name).filter(|at| *at <= end)?;
            let contents = name.end..end;
            found.insert(str::from_utf8(&bytes[name]).ok()?.to_owned(), contents);
        }
        at = end;
    }
    Some(found)
}

/// A number of at most 32 bits, and where it ends.
fn leb128(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut value = 0_u64;
    for (index, byte) in bytes.get(at..)?.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, at + index + 1));
        }
    }
    None
}

macro_rules! functions {
    ($($name:ident ( $($arg:ty),* ) $(-> $ret:ty)?;)*) => {
        mod host {
            use super::c_void;
            unsafe extern "C" {
                $(pub(super) fn $name($(_: $arg),*) $(-> $ret)?;)*
            }
        }

        /// Functions of the C library that kernels may import.
        const FUNCTIONS: [(&str, *const ()); [$(stringify!($name)),*].len()] =
            [$((stringify!($name), host::$name as *const ()),)*];
    };
}

functions! {
    memcpy(*mut c_void, *const c_void, usize) -> *mut c_void;
    memmove(*mut c_void, *const c_void, usize) -> *mut c_void;
    memset(*mut c_void, i32, usize) -> *mut c_void;
    memcmp(*const c_void, *const c_void, usize) -> i32;
    // The product of two 128-bit integers, which a check for overflow takes.
    __multi3(*mut c_void, i64, i64, i64, i64);
    acos(f64) -> f64; acosf(f32) -> f32; acosh(f64) -> f64; acoshf(f32) -> f32;
    asin(f64) -> f64; asinf(f32) -> f32; asinh(f64) -> f64; asinhf(f32) -> f32;
    atan(f64) -> f64; atanf(f32) -> f32; atanh(f64) -> f64; atanhf(f32) -> f32;
    atan2(f64, f64) -> f64; atan2f(f32, f32) -> f32;
    cbrt(f64) -> f64; cbrtf(f32) -> f32;
    cos(f64) -> f64; cosf(f32) -> f32; cosh(f64) -> f64; coshf(f32) -> f32;
    erf(f64) -> f64; erff(f32) -> f32; erfc(f64) -> f64; erfcf(f32) -> f32;
    exp(f64) -> f64; expf(f32) -> f32; exp2(f64) -> f64; exp2f(f32) -> f32;
    exp10(f64) -> f64; exp10f(f32) -> f32; expm1(f64) -> f64; expm1f(f32) -> f32;
    fma(f64, f64, f64) -> f64; fmaf(f32, f32, f32) -> f32;
    fmax(f64, f64) -> f64; fmaxf(f32, f32) -> f32;
    fmin(f64, f64) -> f64; fminf(f32, f32) -> f32;
    fmod(f64, f64) -> f64; fmodf(f32, f32) -> f32;
    hypot(f64, f64) -> f64; hypotf(f32, f32) -> f32;
    ldexp(f64, i32) -> f64; ldexpf(f32, i32) -> f32;
    lgamma(f64) -> f64; lgammaf(f32) -> f32;
    log(f64) -> f64; logf(f32) -> f32; log10(f64) -> f64; log10f(f32) -> f32;
    log1p(f64) -> f64; log1pf(f32) -> f32; log2(f64) -> f64; log2f(f32) -> f32;
    nextafter(f64, f64) -> f64; nextafterf(f32, f32) -> f32;
    pow(f64, f64) -> f64; powf(f32, f32) -> f32;
    round(f64) -> f64; roundf(f32) -> f32;
    sin(f64) -> f64; sinf(f32) -> f32; sinh(f64) -> f64; sinhf(f32) -> f32;
    tan(f64) -> f64; tanf(f32) -> f32;
    tanh(f64) -> f64; tanhf(f32) -> f32; tgamma(f64) -> f64; tgammaf(f32) -> f32;
}
