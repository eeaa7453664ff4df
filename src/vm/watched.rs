//! Watched code: machine code of functions that shows each call to the session's instrument.
//!
//! Code that no instrument watches pays nothing for it: a function is compiled a second time when an
//! instrument first meets it. The outermost function of a run enters that code; functions of the
//! program that it calls are interpreted, as is the rest of a run in which the instrument skips a call.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::abi::CodePtr;

/// Addresses of watched code by function.
pub(crate) struct WatchedCode(Box<[WatchedFunction]>);

#[derive(Default)]
struct WatchedFunction {
    /// The tier was asked for it.
    asked: AtomicBool,
    /// Null until it is compiled.
    code: AtomicPtr<u8>,
}

impl WatchedCode {
    /// None yet, of `functions` functions.
    pub(crate) fn new(functions: usize) -> WatchedCode {
        WatchedCode((0..functions).map(|_| WatchedFunction::default()).collect())
    }

    /// The code of a function, if there is some.
    #[inline]
    pub(crate) fn code(&self, func: u32) -> Option<CodePtr> {
        let code = self.0.get(func as usize)?.code.load(Ordering::Acquire);
        (!code.is_null()).then_some(code.cast_const())
    }

    /// Returns true the first time that it is asked about a function.
    pub(crate) fn is_first_request(&self, func: u32) -> bool {
        self.0.get(func as usize).is_some_and(|it| !it.asked.swap(true, Ordering::Relaxed))
    }

    /// Enters `code` from now on. The program keeps it.
    pub(crate) fn install(&self, func: u32, code: CodePtr) {
        if let Some(function) = self.0.get(func as usize) {
            function.code.store(code.cast_mut(), Ordering::Release);
        }
    }
}
