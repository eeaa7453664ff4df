//! The driver's library: found, of a known version, and complete, before anything else calls it.
//!
//! `cudarc` looks functions up when they are first called, and panics where one is missing. So
//! every function that this crate uses is looked up here first.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use libloading::Library;
use reflex_runtime::error::Error;

/// The library's name, by which the driver's package installs it.
pub const LIBRARY: &str = "libcuda.so.1";
/// The oldest version of the driver's interface, as `cuDriverGetVersion` tells it: CUDA 12.0.
const OLDEST: c_int = 12_000;

/// Every function of the driver that this crate calls.
pub const FUNCTIONS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphAddKernelNode_v2",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeTiled",
];

/// Opens and checks the driver, once for the process.
pub fn probe() -> Result<(), Error> {
    static PROBED: OnceLock<Result<(), String>> = OnceLock::new();
    PROBED.get_or_init(check).clone().map_err(|why| Error::new("DriverError", why))
}

fn check() -> Result<(), String> {
    // SAFETY: the driver's library has constructors that are fit to run in any process, as the
    // driver's users rely on.
    let library = unsafe { Library::new(LIBRARY) };
    let library = library.map_err(|why| {
        format!("there is no NVIDIA driver: {LIBRARY} cannot be opened ({why}); install the driver, 525 or newer")
    })?;
    check_version(&library)?;
    let missing: Vec<&str> =
        FUNCTIONS.iter().copied().filter(|name| address(&library, name).is_none()).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(format!(
            "the driver's {LIBRARY} lacks {missing}; install the driver, 525 or newer"
        ));
    }
    check_same(&library)?;
    // The process keeps the driver: its contexts live as long.
    std::mem::forget(library);
    Ok(())
}

fn address(library: &Library, name: &str) -> Option<*const c_void> {
    let name = format!("{name}\0");
    // SAFETY: the symbol is looked up, not called.
    let symbol = unsafe { library.get::<*const c_void>(name.as_bytes()) };
    symbol.ok().map(|symbol| *symbol)
}

fn check_version(library: &Library) -> Result<(), String> {
    let lacks = || format!("{LIBRARY} lacks cuDriverGetVersion: it is not the NVIDIA driver");
    let version = address(library, "cuDriverGetVersion").ok_or_else(lacks)?;
    // SAFETY: the driver's function of this name has this type in every version.
    let version: unsafe extern "C" fn(*mut c_int) -> u32 = unsafe { std::mem::transmute(version) };
    let mut found = 0;
    // SAFETY: it writes one integer, and may be called before anything else.
    let status = unsafe { version(&mut found) };
    if status != 0 {
        return Err(format!("the driver does not tell its version: error {status}"));
    }
    if found < OLDEST {
        let (major, minor) = (found / 1000, found % 1000 / 10);
        return Err(format!(
            "the driver is for CUDA {major}.{minor}, and 12.0 is needed; install the driver, 525 or newer"
        ));
    }
    Ok(())
}

/// Whether `cudarc`, which tries other names first, has opened the library that was checked.
fn check_same(library: &Library) -> Result<(), String> {
    // SAFETY: its last candidate is the library that is open by now, so one of them opens.
    let theirs = unsafe { sys::culib() };
    match address(theirs, "cuInit") == address(library, "cuInit") {
        true => Ok(()),
        false => Err(format!(
            "a libcuda.so on the search path is another library than {LIBRARY}, the driver's; remove it from the path"
        )),
    }
}
