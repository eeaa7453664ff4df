//! Statuses of the driver's functions as errors.

use std::ffi::{CStr, c_char};
use std::fmt;

use cudarc::driver::sys::{self, CUresult};

/// A function of the driver has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The function.
    pub(crate) function: &'static str,
    /// Its status.
    pub(crate) status: CUresult,
}

/// The outcome of a function of the driver.
pub(crate) fn check(function: &'static str, status: CUresult) -> Result<(), Failure> {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(Failure { function, status }),
    }
}

/// Calls a function of the driver by name and checks its status.
macro_rules! cu {
    ($function:ident($($arg:expr),* $(,)?)) => {
        $crate::call::check(stringify!($function), cudarc::driver::sys::$function($($arg),*))
    };
}
pub(crate) use cu;

impl Failure {
    /// Whether the context is of no use any more: the errors that the driver's manual says leave
    /// the process in an inconsistent state.
    pub(crate) fn is_final(&self) -> bool {
        use CUresult as R;
        matches!(
            self.status,
            R::CUDA_ERROR_ILLEGAL_ADDRESS
                | R::CUDA_ERROR_LAUNCH_TIMEOUT
                | R::CUDA_ERROR_ASSERT
                | R::CUDA_ERROR_HARDWARE_STACK_ERROR
                | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | R::CUDA_ERROR_MISALIGNED_ADDRESS
                | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | R::CUDA_ERROR_INVALID_PC
                | R::CUDA_ERROR_LAUNCH_FAILED
                | R::CUDA_ERROR_ECC_UNCORRECTABLE
                | R::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | R::CUDA_ERROR_DEVICE_UNAVAILABLE
                | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
                | R::CUDA_ERROR_EXTERNAL_DEVICE
        )
    }

    /// Whether an image was refused for what it is made for: another architecture, or a driver that is
    /// newer. Images are whole, so one that is not valid is of another version.
    pub(crate) fn is_of_version(&self) -> bool {
        use CUresult as R;
        matches!(
            self.status,
            R::CUDA_ERROR_INVALID_IMAGE
                | R::CUDA_ERROR_NO_BINARY_FOR_GPU
                | R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        )
    }

    /// Whether memory was short.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.status == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = describe(self.status);
        write!(f, "{}: {name} ({text})", self.function)
    }
}

/// The driver's name of a status, and its words.
fn describe(status: CUresult) -> (String, String) {
    let text = |of: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: both functions write the address of a text that lives as long as the driver, or
        // leave null.
        unsafe {
            of(status, &mut text);
            match text.is_null() {
                true => format!("status {}", status as u32),
                false => CStr::from_ptr(text).to_string_lossy().into_owned(),
            }
        }
    };
    (text(sys::cuGetErrorName), text(sys::cuGetErrorString))
}
