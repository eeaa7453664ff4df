//! The packed entry of a kernel whose code can be replaced.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use parking_lot::Mutex;
use reflex_codemem::call_cells::CallCells;
use reflex_runtime::abi::{SafeCall, TVMFFIAny};
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::Function;

use super::signal::Signal;
use crate::kernels::jit::LoadedKernel;

/// Replaces the code of a kernel before a call of it.
pub(super) type Exchange = Box<dyn Fn() + Send + Sync>;

/// Code of one kernel, and the number of its calls by packed entry.
///
/// A call holds the code that it runs, so that it needs no session; once code is final, nothing is
/// counted or held.
pub(super) struct PackedEntry {
    code: Mutex<LoadedKernel>,
    /// The packed entry of final code, which `code` holds for ever; null before.
    settled: AtomicPtr<c_void>,
    calls: AtomicU64,
    signal: Arc<Signal>,
    /// Where raw entries are called.
    cells: Arc<CallCells>,
    exchange: Option<Exchange>,
}

impl PackedEntry {
    pub(super) fn new(
        code: LoadedKernel,
        signal: Arc<Signal>,
        cells: Arc<CallCells>,
        exchange: Option<Exchange>,
    ) -> PackedEntry {
        let (settled, calls) = (AtomicPtr::default(), AtomicU64::new(0));
        PackedEntry { code: Mutex::new(code), settled, calls, signal, cells, exchange }
    }

    /// Returns the function that calls this entry and keeps it.
    pub(super) fn function(self: &Arc<Self>) -> Function {
        let handle = Arc::into_raw(self.clone()).cast_mut().cast::<c_void>();
        // SAFETY: `call` takes such a handle from any thread and does not unwind, as kernels do not;
        // `release` gives back the reference that the handle is.
        unsafe { Function::from_callback(call, handle, Some(release)) }
    }

    /// Counts calls by the packed entry.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn cells(&self) -> &CallCells {
        &self.cells
    }

    /// Makes `code` what calls run from now on, and returns what they ran before.
    pub(super) fn replace(&self, code: LoadedKernel) -> LoadedKernel {
        std::mem::replace(&mut *self.code.lock(), code)
    }

    /// Declares the code final: it is never replaced.
    pub(super) fn settle(&self) {
        let packed = self.code.lock().packed as *mut c_void;
        self.settled.store(packed, Ordering::Release);
    }

    /// Counts a call, and returns the code for it.
    #[cold]
    fn provisional(&self) -> LoadedKernel {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            self.signal.raise();
        }
        if let Some(exchange) = &self.exchange {
            exchange();
        }
        self.code.lock().clone()
    }
}

/// # Safety
/// `handle` is that of [`PackedEntry::function`], and the rest is as the calling convention says.
unsafe extern "C" fn call(
    handle: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> c_int {
    // SAFETY: the function holds the entry that its handle is.
    let entry = unsafe { &*handle.cast_const().cast::<PackedEntry>() };
    let settled = entry.settled.load(Ordering::Acquire);
    if !settled.is_null() {
        // SAFETY: `settle` stored a packed entry, whose code is never replaced, so that `entry` holds
        // it; it does not interpret its first argument.
        return unsafe {
            let packed = std::mem::transmute::<*mut c_void, SafeCall>(settled);
            packed(std::ptr::null_mut(), args, count, result)
        };
    }
    let code = catch_unwind(AssertUnwindSafe(|| entry.provisional()));
    match code {
        // SAFETY: a packed entry, whose code this call holds; it does not interpret its first argument.
        Ok(code) => unsafe { (code.packed)(std::ptr::null_mut(), args, count, result) },
        Err(_) => {
            Raised::runtime_error("the replacement of a kernel panicked").raise();
            -1
        }
    }
}

/// # Safety
/// `handle` is that of [`PackedEntry::function`], which is gone.
unsafe extern "C" fn release(handle: *mut c_void) {
    // SAFETY: the handle is a reference that `function` took.
    drop(unsafe { Arc::from_raw(handle.cast_const().cast::<PackedEntry>()) });
}
