//! The driver's own launches, without anything of ours around them.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libloading::Library;
use reflex_runtime::error::Error;

type Handle = *mut c_void;
type Load = unsafe extern "C" fn(*mut Handle, *const c_void) -> u32;
type Find = unsafe extern "C" fn(*mut Handle, Handle, *const i8) -> u32;
type Launch = unsafe extern "C" fn(
    Handle,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    Handle,
    *mut Handle,
    *mut Handle,
) -> u32;

fn check(status: u32) -> Result<(), Error> {
    match status {
        0 => Ok(()),
        _ => Err(Error::new("DriverError", format!("status {status}"))),
    }
}

/// The shortest of some runs of `count` launches in a row, of the kernel `empty` of a text, on the default
/// stream. This thread has the
/// context of the device that was used last.
pub fn launches_of(text: &str, count: u32, runs: u32) -> Result<Duration, Error> {
    let missing = |why: libloading::Error| Error::new("DriverError", why.to_string());
    let text = CString::new(text).map_err(|e| Error::value_error(e.to_string()))?;
    // SAFETY: the functions have these types in the driver's header; the kernel reads no parameter,
    // and the text lives until the module is loaded.
    unsafe {
        let driver = Library::new("libcuda.so.1").map_err(missing)?;
        let load = driver.get::<Load>(b"cuModuleLoadData\0").map_err(missing)?;
        let find = driver.get::<Find>(b"cuModuleGetFunction\0").map_err(missing)?;
        let launch = driver.get::<Launch>(b"cuLaunchKernel\0").map_err(missing)?;
        let wait = driver.get::<unsafe extern "C" fn() -> u32>(b"cuCtxSynchronize\0");
        let wait = wait.map_err(missing)?;
        let (mut module, mut kernel) = (null_mut(), null_mut());
        check(load(&mut module, text.as_ptr().cast()))?;
        check(find(&mut kernel, module, c"empty".as_ptr()))?;
        let mut word = 0_u64;
        let mut params = [std::ptr::from_mut(&mut word).cast::<c_void>()];
        let mut best = Duration::MAX;
        for _ in 0..=runs {
            let start = Instant::now();
            for _ in 0..count {
                let list = params.as_mut_ptr();
                check(launch(kernel, 1, 1, 1, 32, 1, 1, 0, null_mut(), list, null_mut()))?;
            }
            best = best.min(start.elapsed());
            check(wait())?;
        }
        Ok(best)
    }
}
