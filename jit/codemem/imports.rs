//! The closed list of symbols that kernels may import, and where they come from.
//!
//! One table serves the loader (addresses in this process) and the ELF writer (`DT_NEEDED`
//! names). A kernel that asks for anything else does not load and is not written: a new import is
//! a decision, made by adding a line here.
//!
//! Decision: docs/decisions/0019-code-pages.md

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

/// The error hook of the packed-function convention; the host process exports it.
pub const ERROR_HOOK: &str = "TVMFFIErrorSetRaisedFromCStrParts";

/// Pointer variables that the loader of a library fills after opening it (each is named `__`
/// followed by the function it points to, except for the library context).
pub const SLOTS: &[&str] = &[
    "__TVMBackendAllocWorkspace",
    "__TVMBackendFreeWorkspace",
    "__TVMBackendParallelBarrier",
    "__TVMBackendParallelLaunch",
    "__TVMFFIEnvModLookupFromImports",
    "__TVMFFIErrorSetRaisedFromCStr",
    "__TVMFFIFunctionCall",
    "__TVMFFIHandleInitOnce",
    "__tvm_ffi__library_ctx",
];

/// Where an imported function lives at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The C library.
    LibC,
    /// The mathematics library.
    LibM,
    /// The process that opens the library.
    Host,
}

impl Origin {
    /// The shared library to name in `DT_NEEDED`; none for the host itself.
    pub fn library(self) -> Option<&'static str> {
        match self {
            Origin::LibC => Some("libc.so.6"),
            Origin::LibM => Some("libm.so.6"),
            Origin::Host => None,
        }
    }
}

/// Where the import called `name` comes from, or `None` when kernels may not use it.
pub fn origin(name: &str) -> Option<Origin> {
    if name == ERROR_HOOK {
        return Some(Origin::Host);
    }
    TABLE.binary_search_by_key(&name, |row| row.0).ok().map(|at| TABLE[at].1)
}

/// Whether `name` is one of the pointer variables in [`SLOTS`].
pub fn is_slot(name: &str) -> bool {
    SLOTS.binary_search(&name).is_ok()
}

macro_rules! functions {
    ($($origin:ident { $($name:ident ( $($arg:ty),* ) $(-> $ret:ty)?;)* })*) => {
        mod host {
            use super::{c_int, c_void};
            unsafe extern "C" {
                $($(pub(super) fn $name($(_: $arg),*) $(-> $ret)?;)*)*
            }
        }

        /// Every function of the C and mathematics libraries that kernels may import.
        const UNSORTED: &[(&str, Origin)] = &[$($((stringify!($name), Origin::$origin),)*)*];

        /// Addresses of the same functions in this process.
        fn host_functions() -> impl Iterator<Item = (&'static str, usize)> {
            [$($((stringify!($name), host::$name as *const () as usize),)*)*].into_iter()
        }
    };
}

functions! {
    LibC {
        memcpy(*mut c_void, *const c_void, usize) -> *mut c_void;
        memmove(*mut c_void, *const c_void, usize) -> *mut c_void;
        memset(*mut c_void, c_int, usize) -> *mut c_void;
        memcmp(*const c_void, *const c_void, usize) -> c_int;
        bcmp(*const c_void, *const c_void, usize) -> c_int;
    }
    LibM {
        acos(f64) -> f64; acosf(f32) -> f32; acosh(f64) -> f64; acoshf(f32) -> f32;
        asin(f64) -> f64; asinf(f32) -> f32; asinh(f64) -> f64; asinhf(f32) -> f32;
        atan(f64) -> f64; atanf(f32) -> f32; atanh(f64) -> f64; atanhf(f32) -> f32;
        atan2(f64, f64) -> f64; atan2f(f32, f32) -> f32;
        cbrt(f64) -> f64; cbrtf(f32) -> f32; ceil(f64) -> f64; ceilf(f32) -> f32;
        copysign(f64, f64) -> f64; copysignf(f32, f32) -> f32;
        cos(f64) -> f64; cosf(f32) -> f32; cosh(f64) -> f64; coshf(f32) -> f32;
        erf(f64) -> f64; erff(f32) -> f32; erfc(f64) -> f64; erfcf(f32) -> f32;
        exp(f64) -> f64; expf(f32) -> f32; exp2(f64) -> f64; exp2f(f32) -> f32;
        exp10(f64) -> f64; exp10f(f32) -> f32; expm1(f64) -> f64; expm1f(f32) -> f32;
        fabs(f64) -> f64; fabsf(f32) -> f32; floor(f64) -> f64; floorf(f32) -> f32;
        fma(f64, f64, f64) -> f64; fmaf(f32, f32, f32) -> f32;
        fmax(f64, f64) -> f64; fmaxf(f32, f32) -> f32;
        fmin(f64, f64) -> f64; fminf(f32, f32) -> f32;
        fmod(f64, f64) -> f64; fmodf(f32, f32) -> f32;
        hypot(f64, f64) -> f64; hypotf(f32, f32) -> f32;
        ldexp(f64, c_int) -> f64; ldexpf(f32, c_int) -> f32;
        lgamma(f64) -> f64; lgammaf(f32) -> f32;
        log(f64) -> f64; logf(f32) -> f32; log10(f64) -> f64; log10f(f32) -> f32;
        log1p(f64) -> f64; log1pf(f32) -> f32; log2(f64) -> f64; log2f(f32) -> f32;
        nearbyint(f64) -> f64; nearbyintf(f32) -> f32;
        nextafter(f64, f64) -> f64; nextafterf(f32, f32) -> f32;
        pow(f64, f64) -> f64; powf(f32, f32) -> f32; rint(f64) -> f64; rintf(f32) -> f32;
        round(f64) -> f64; roundf(f32) -> f32;
        roundeven(f64) -> f64; roundevenf(f32) -> f32;
        sin(f64) -> f64; sinf(f32) -> f32; sinh(f64) -> f64; sinhf(f32) -> f32;
        sqrt(f64) -> f64; sqrtf(f32) -> f32; tan(f64) -> f64; tanf(f32) -> f32;
        tanh(f64) -> f64; tanhf(f32) -> f32; tgamma(f64) -> f64; tgammaf(f32) -> f32;
        trunc(f64) -> f64; truncf(f32) -> f32;
    }
}

const TABLE: [(&str, Origin); UNSORTED.len()] = sorted();

const fn sorted() -> [(&'static str, Origin); UNSORTED.len()] {
    let mut table = [("", Origin::Host); UNSORTED.len()];
    let mut filled = 0;
    while filled < UNSORTED.len() {
        let mut at = filled;
        while at > 0 && precedes(UNSORTED[filled].0, table[at - 1].0) {
            table[at] = table[at - 1];
            at -= 1;
        }
        table[at] = UNSORTED[filled];
        filled += 1;
    }
    table
}

const fn precedes(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() {
        if left[at] != right[at] {
            return left[at] < right[at];
        }
        at += 1;
    }
    left.len() < right.len()
}

/// Addresses for the imports of objects that are loaded into this process.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    functions: BTreeMap<&'static str, usize>,
    slots: BTreeMap<&'static str, usize>,
}

impl Imports {
    /// The functions of the C and mathematics libraries, and nothing else.
    pub fn host() -> Self {
        Self { functions: host_functions().collect(), slots: BTreeMap::new() }
    }

    /// Adds or replaces the function `name` at `address`.
    #[must_use]
    pub fn function(mut self, name: &'static str, address: usize) -> Self {
        self.functions.insert(name, address);
        self
    }

    /// Adds or replaces the pointer variable `name`, which will hold `value`.
    #[must_use]
    pub fn slot(mut self, name: &'static str, value: usize) -> Self {
        self.slots.insert(name, value);
        self
    }

    pub(crate) fn function_address(&self, name: &str) -> Option<usize> {
        self.functions.get(name).copied()
    }

    pub(crate) fn slot_value(&self, name: &str) -> Option<usize> {
        self.slots.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_complete() {
        assert!(TABLE.is_sorted_by(|left, right| left.0 < right.0));
        assert!(SLOTS.is_sorted());
        assert_eq!(origin("memcpy"), Some(Origin::LibC));
        assert_eq!(origin("tanhf"), Some(Origin::LibM));
        assert_eq!(origin(ERROR_HOOK), Some(Origin::Host));
        assert_eq!(origin("system"), None);
        let host = Imports::host();
        for (name, _) in TABLE {
            assert!(host.function_address(name).is_some_and(|address| address != 0), "{name}");
        }
    }
}
