//! Statuses of the driver's functions: numbers, names and words.

use std::ffi::CStr;

/// A status.
pub type Status = u32;

macro_rules! statuses {
    ($($name:ident = $number:literal, $symbol:literal, $words:literal;)*) => {
        $(pub const $name: Status = $number;)*

        /// The name and the words of a status.
        pub fn describe(status: Status) -> Option<(&'static CStr, &'static CStr)> {
            match status {
                $($number => Some(($symbol, $words)),)*
                _ => None,
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    NO_BINARY_FOR_GPU = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated";
    MISALIGNED_ADDRESS = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
}

/// Whether a device with this error gives it for ever.
pub fn is_final(status: Status) -> bool {
    status == ECC_UNCORRECTABLE
        || status == ILLEGAL_ADDRESS
        || (LAUNCH_TIMEOUT..=LAUNCH_FAILED).contains(&status)
}
