//! The functions of the driver, under their names and types in C.

#![allow(clippy::too_many_arguments, reason = "the driver's functions have as many")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex_ptx::Module;

use crate::driver::{Driver, Function, driver};
use crate::status::{
    INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE,
    LAUNCH_OUT_OF_RESOURCES, NO_BINARY_FOR_GPU, NO_DEVICE, NOT_FOUND, NOT_INITIALIZED, SUCCESS,
    Status, describe,
};
use crate::streams::{Goal, Launch, Work};
use crate::tensor_maps::{EncodedMap, Tiled};

/// A handle of a context is this plus its device.
const CONTEXTS: u64 = 0x1000;
/// Shared memory that a kernel may use without `cuFuncSetAttribute`.
const USUAL_SHARED: u32 = 48 << 10;
/// The first bytes of a fatbin.
const FATBIN: &[u8] = &[0x50, 0xed, 0x55, 0xba];
/// Attributes of functions and options of compilation that are known.
const MAX_DYNAMIC_SHARED: c_int = 8;
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

thread_local! {
    /// The device of this thread's context.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

type Outcome = Result<(), Status>;

/// Defines functions of the driver: each has the driver's state, unless the plan fails the call.
macro_rules! functions {
    ($($(#[$meta:meta])* fn $name:ident($driver:ident $(, $arg:ident: $type:ty)*) $body:block)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        /// Pointers are what the driver's manual says of the function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> Status {
            fn body($driver: &mut Driver $(, $arg: $type)*) -> Outcome $body
            let mut state = driver();
            if let Some(status) = state.planned(stringify!($name)) {
                return status;
            }
            match body(&mut state $(, $arg)*) {
                Ok(()) => SUCCESS,
                Err(status) => status,
            }
        }
    )* };
}

/// Writes a result.
fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the function passes the address of a variable of this type.
    unsafe { to.write(value) };
    Ok(())
}

fn current(driver: &Driver) -> Result<usize, Status> {
    let device = CURRENT.get().ok_or(INVALID_CONTEXT)?;
    match driver.lost(device) {
        Some(status) => Err(status),
        None => Ok(device),
    }
}

/// The device of a stream that launches are enqueued on: its context is this thread's.
fn launches_on(driver: &Driver, stream: u64) -> Result<usize, Status> {
    let device = driver.stream(stream)?;
    match CURRENT.get() {
        None => Err(INVALID_CONTEXT),
        Some(current) if current != device => Err(INVALID_HANDLE),
        Some(_) => Ok(device),
    }
}

functions! {
    /// Must come first.
    fn cuInit(driver, flags: c_uint) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver.initialised = true;
        if driver.plan.devices == 0 { Err(NO_DEVICE) } else { Ok(()) }
    }
    /// The planned version.
    fn cuDriverGetVersion(driver, version: *mut c_int) { put(version, driver.plan.version) }
    /// The planned number.
    fn cuDeviceGetCount(driver, count: *mut c_int) {
        if !driver.initialised {
            return Err(NOT_INITIALIZED);
        }
        put(count, driver.plan.devices as c_int)
    }
    /// Devices are their numbers.
    fn cuDeviceGet(driver, device: *mut c_int, number: c_int) {
        match (0..driver.plan.devices as c_int).contains(&number) {
            true => put(device, number),
            false => Err(INVALID_DEVICE),
        }
    }
    /// "Stand-in N".
    fn cuDeviceGetName(driver, name: *mut c_char, bytes: c_int, device: c_int) {
        let _ = driver;
        let text = format!("Stand-in {device}\0");
        if name.is_null() || (bytes as usize) < text.len() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes so many bytes.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        Ok(())
    }
    /// The planned memory.
    fn cuDeviceTotalMem_v2(driver, bytes: *mut usize, device: c_int) {
        let _ = device;
        put(bytes, driver.plan.memory as usize)
    }
    /// Limits are those of sm_80 and sm_90.
    fn cuDeviceGetAttribute(driver, value: *mut c_int, attribute: c_int, device: c_int) {
        let _ = device;
        let known = match attribute {
            1 => 1024,
            2 | 3 => 1024,
            4 => 64,
            5 => c_int::MAX,
            6 | 7 => 65535,
            16 => if driver.plan.sm >= 90 { 132 } else { 108 },
            75 => driver.plan.sm / 10,
            76 => driver.plan.sm % 10,
            97 => if driver.plan.sm >= 90 { 227 << 10 } else { 163 << 10 },
            _ => return Err(INVALID_VALUE),
        };
        put(value, known)
    }
    /// Contexts are never reset.
    fn cuDevicePrimaryCtxRetain(driver, context: *mut u64, device: c_int) {
        match (0..driver.plan.devices as c_int).contains(&device) {
            true => put(context, CONTEXTS + device as u64),
            false => Err(INVALID_DEVICE),
        }
    }
    /// Null where this thread has none.
    fn cuCtxGetCurrent(driver, context: *mut u64) {
        let _ = driver;
        put(context, CURRENT.get().map_or(0, |device| CONTEXTS + device as u64))
    }
    /// Of this thread.
    fn cuCtxSetCurrent(driver, context: u64) {
        let device = context.checked_sub(CONTEXTS).ok_or(INVALID_CONTEXT)? as usize;
        if device >= driver.plan.devices {
            return Err(INVALID_CONTEXT);
        }
        CURRENT.set(Some(device));
        Ok(())
    }
    /// A stream of the current context.
    fn cuStreamCreate(driver, stream: *mut u64, flags: c_uint) {
        let _ = flags;
        let (device, handle) = (current(driver)?, driver.new_handle());
        driver.streams.add(handle, device);
        put(stream, handle)
    }
    /// Work that the stream has still runs.
    fn cuStreamDestroy_v2(driver, stream: u64) {
        driver.stream(stream)?;
        driver.streams.end(stream);
        Ok(())
    }
    /// Runs what the stream has.
    fn cuStreamSynchronize(driver, stream: u64) {
        let device = driver.stream(stream)?;
        driver.run(Goal::Empty(stream), device)
    }
    /// Waits for the event's latest record.
    fn cuStreamWaitEvent(driver, stream: u64, event: u64, flags: c_uint) {
        let _ = flags;
        driver.stream(stream)?;
        if let Some(ticket) = *driver.events.get(&event).ok_or(INVALID_HANDLE)? {
            driver.streams.push(stream, Work::Wait(ticket));
        }
        Ok(())
    }
    /// An event that is not recorded.
    fn cuEventCreate(driver, event: *mut u64, flags: c_uint) {
        let _ = flags;
        current(driver)?;
        let handle = driver.new_handle();
        driver.events.insert(handle, None);
        put(event, handle)
    }
    /// Streams that wait for it still do.
    fn cuEventDestroy_v2(driver, event: u64) {
        driver.events.remove(&event).map(drop).ok_or(INVALID_HANDLE)
    }
    /// Records where a stream is.
    fn cuEventRecord(driver, event: u64, stream: u64) {
        driver.stream(stream)?;
        let ticket = driver.streams.new_ticket();
        *driver.events.get_mut(&event).ok_or(INVALID_HANDLE)? = Some(ticket);
        driver.streams.push(stream, Work::Record(ticket));
        Ok(())
    }
    /// Runs what is before the latest record.
    fn cuEventSynchronize(driver, event: u64) {
        let device = current(driver)?;
        match *driver.events.get(&event).ok_or(INVALID_HANDLE)? {
            Some(ticket) if !driver.streams.is_done(ticket) => {
                driver.run(Goal::Ticket(ticket), device)
            }
            _ => Ok(()),
        }
    }
    /// Memory of the current context.
    fn cuMemAlloc_v2(driver, address: *mut u64, bytes: usize) {
        let device = current(driver)?;
        let found = driver.memory.alloc(device, bytes as u64)?;
        put(address, found)
    }
    /// At once: work that comes later and uses it faults.
    fn cuMemFree_v2(driver, address: u64) {
        current(driver)?;
        driver.memory.free(address)
    }
    /// Host memory, which is never freed.
    fn cuMemHostAlloc(driver, address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let _ = flags;
        current(driver)?;
        let memory = vec![0_u64; bytes.div_ceil(8)].leak();
        put(address, memory.as_mut_ptr().cast())
    }
    /// The host's memory is read when the copy runs.
    fn cuMemcpyHtoDAsync_v2(driver, to: u64, from: *const c_void, bytes: usize, stream: u64) {
        let device = driver.stream(stream)?;
        driver.check_range(device, to, bytes)?;
        let from = from.expose_provenance();
        driver.streams.push(stream, Work::FromHost { to, from, bytes });
        Ok(())
    }
    /// The host's memory is written when the copy runs.
    fn cuMemcpyDtoHAsync_v2(driver, to: *mut c_void, from: u64, bytes: usize, stream: u64) {
        let device = driver.stream(stream)?;
        driver.check_range(device, from, bytes)?;
        let to = to.expose_provenance();
        driver.streams.push(stream, Work::ToHost { to, from, bytes });
        Ok(())
    }
    /// Within a device.
    fn cuMemcpyDtoDAsync_v2(driver, to: u64, from: u64, bytes: usize, stream: u64) {
        let device = driver.stream(stream)?;
        driver.check_range(device, to, bytes)?;
        driver.check_range(device, from, bytes)?;
        driver.streams.push(stream, Work::Copy { to, from, bytes });
        Ok(())
    }
    /// Between devices.
    fn cuMemcpyPeerAsync(
        driver, to: u64, here: u64, from: u64, there: u64, bytes: usize, stream: u64
    ) {
        driver.stream(stream)?;
        for (address, context) in [(to, here), (from, there)] {
            let device = context.checked_sub(CONTEXTS).ok_or(INVALID_CONTEXT)? as usize;
            driver.check_range(device, address, bytes)?;
        }
        driver.streams.push(stream, Work::Copy { to, from, bytes });
        Ok(())
    }
    /// One byte, many times.
    fn cuMemsetD8Async(driver, to: u64, value: u8, bytes: usize, stream: u64) {
        let device = driver.stream(stream)?;
        driver.check_range(device, to, bytes)?;
        driver.streams.push(stream, Work::Fill { to, value, bytes });
        Ok(())
    }
    /// PTX, as a text that ends with a null character, or a cubin or fatbin that the plan knows.
    fn cuModuleLoadDataEx(
        driver, module: *mut u64, image: *const c_void, count: c_uint,
        options: *mut c_int, values: *mut *mut c_void
    ) {
        current(driver)?;
        // SAFETY: the caller passes a text that ends with a null character, or whole machine code.
        let text = unsafe {
            match begins_with(image, b"\x7fELF") || begins_with(image, FATBIN) {
                true => made_of(driver.plan.cubins.as_deref(), image).ok_or(NO_BINARY_FOR_GPU)?,
                false => CStr::from_ptr(image.cast()).to_string_lossy().into_owned(),
            }
        };
        match Module::parse(&text) {
            Ok(parsed) => {
                let handle = driver.new_handle();
                driver.modules.insert(handle, Arc::new(parsed));
                put(module, handle)
            }
            Err(error) => {
                // SAFETY: the caller passes so many options and values.
                unsafe { explain(count, options, values, &error.to_string()) };
                Err(INVALID_PTX)
            }
        }
    }
    /// Work that comes later still has the module.
    fn cuModuleUnload(driver, module: u64) {
        driver.functions.retain(|_, function| function.module != module);
        driver.modules.remove(&module).map(drop).ok_or(INVALID_HANDLE)
    }
    /// A kernel by its name.
    fn cuModuleGetFunction(driver, function: *mut u64, module: u64, name: *const c_char) {
        // SAFETY: the caller passes a text that ends with a null character.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let found = driver.modules.get(&module).ok_or(INVALID_HANDLE)?;
        found.kernel(&name).ok_or(NOT_FOUND)?;
        let handle = driver.new_handle();
        let kernel = Function { module, kernel: name, shared: USUAL_SHARED };
        driver.functions.insert(handle, kernel);
        put(function, handle)
    }
    /// The most dynamic shared memory.
    fn cuFuncSetAttribute(driver, function: u64, attribute: c_int, value: c_int) {
        let function = driver.functions.get_mut(&function).ok_or(INVALID_HANDLE)?;
        if attribute != MAX_DYNAMIC_SHARED || value < 0 {
            return Err(INVALID_VALUE);
        }
        function.shared = value as u32;
        Ok(())
    }
    /// Parameters are copied now, the kernel runs later.
    fn cuLaunchKernel(
        driver, function: u64, gx: c_uint, gy: c_uint, gz: c_uint,
        bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: u64,
        params: *mut *mut c_void, extra: *mut *mut c_void
    ) {
        launches_on(driver, stream)?;
        if !driver.plan.runs_kernels {
            return driver.functions.get(&function).map(drop).ok_or(INVALID_HANDLE);
        }
        let node = NodeParams {
            function, grid: [gx, gy, gz], block: [bx, by, bz], shared, params, extra,
            kernel: 0, context: 0,
        };
        // SAFETY: the caller passes the address of each parameter of the kernel.
        let mut launch = unsafe { made(driver, &node) }?;
        launch.number = driver.next_launch();
        driver.streams.push(stream, Work::Launch(launch));
        Ok(())
    }
    /// A graph without nodes.
    fn cuGraphCreate(driver, graph: *mut u64, flags: c_uint) {
        current(driver)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.new_handle();
        driver.graphs.insert(handle, vec![]);
        put(graph, handle)
    }
    /// Nodes are chained: each depends on the one before it, and no other.
    fn cuGraphAddKernelNode_v2(
        driver, node: *mut u64, graph: u64, before: *const u64, count: usize,
        params: *const NodeParams
    ) {
        // SAFETY: the caller passes a node's parameters, with the address of each of the kernel.
        let launch = unsafe { made(driver, &*params) }?;
        let handle = driver.new_handle();
        let nodes = driver.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
        let last = nodes.last().map(|(node, _)| *node);
        // SAFETY: the caller passes so many nodes.
        let first = (count > 0).then(|| unsafe { *before });
        if count > 1 || first != last {
            return Err(INVALID_VALUE);
        }
        nodes.push((handle, launch));
        put(node, handle)
    }
    /// A copy of the graph as it is now.
    fn cuGraphInstantiateWithFlags(driver, exec: *mut u64, graph: u64, flags: u64) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let nodes = driver.graphs.get(&graph).ok_or(INVALID_HANDLE)?.clone();
        let handle = driver.new_handle();
        driver.executables.insert(handle, nodes);
        put(exec, handle)
    }
    /// Later launches have other parameters, of the same kernel.
    fn cuGraphExecKernelNodeSetParams_v2(driver, exec: u64, node: u64, params: *const NodeParams) {
        // SAFETY: the caller passes a node's parameters, with the address of each of the kernel.
        let launch = unsafe { made(driver, &*params) }?;
        let nodes = driver.executables.get_mut(&exec).ok_or(INVALID_HANDLE)?;
        let found = nodes.iter_mut().find(|(handle, _)| *handle == node).ok_or(INVALID_HANDLE)?;
        if found.1.kernel != launch.kernel {
            return Err(INVALID_VALUE);
        }
        found.1 = launch;
        Ok(())
    }
    /// All of its launches, in order.
    fn cuGraphLaunch(driver, exec: u64, stream: u64) {
        launches_on(driver, stream)?;
        let nodes = driver.executables.get(&exec).ok_or(INVALID_HANDLE)?;
        if !driver.plan.runs_kernels {
            return Ok(());
        }
        let nodes = nodes.clone();
        for (_, mut launch) in nodes {
            launch.number = driver.next_launch();
            driver.streams.push(stream, Work::Launch(launch));
        }
        Ok(())
    }
    /// Its launches that are enqueued still run.
    fn cuGraphExecDestroy(driver, exec: u64) {
        driver.executables.remove(&exec).map(drop).ok_or(INVALID_HANDLE)
    }
    /// Executables made of it stay.
    fn cuGraphDestroy(driver, graph: u64) {
        driver.graphs.remove(&graph).map(drop).ok_or(INVALID_HANDLE)
    }
    /// A map in an encoding of its own, of a tensor and a box that a device copies.
    fn cuTensorMapEncodeTiled(
        driver, map: *mut EncodedMap, dtype: c_uint, rank: c_uint, address: u64,
        extents: *const u64, strides: *const u64, counts: *const u32, steps: *const u32,
        interleave: c_uint, swizzle: c_uint, promotion: c_uint, fill: c_uint
    ) {
        let _ = (driver, promotion);
        let missing = extents.is_null() || strides.is_null() || counts.is_null() || steps.is_null();
        if !(1..=5).contains(&rank) || missing || interleave != 0 || fill != 0 {
            return Err(INVALID_VALUE);
        }
        let rank = rank as usize;
        // SAFETY: the caller passes as many numbers as there are dimensions, one stride less.
        let tiled = unsafe {
            Tiled {
                dtype,
                address,
                extents: std::slice::from_raw_parts(extents, rank),
                strides: std::slice::from_raw_parts(strides, rank - 1),
                counts: std::slice::from_raw_parts(counts, rank),
                steps: std::slice::from_raw_parts(steps, rank),
                swizzle,
            }
        };
        put(map, tiled.encode().ok_or(INVALID_VALUE)?)
    }
    /// The name in the manual.
    fn cuGetErrorName(driver, status: Status, text: *mut *const c_char) {
        let _ = driver;
        let known = describe(status).ok_or(INVALID_VALUE)?;
        put(text, known.0.as_ptr())
    }
    /// The words in the manual.
    fn cuGetErrorString(driver, status: Status, text: *mut *const c_char) {
        let _ = driver;
        let known = describe(status).ok_or(INVALID_VALUE)?;
        put(text, known.1.as_ptr())
    }
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub struct NodeParams {
    function: u64,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    kernel: u64,
    context: u64,
}

/// A launch, with its parameters copied, that has no number yet.
///
/// # Safety
/// There is an address of as many bytes for each parameter of the kernel.
unsafe fn made(driver: &Driver, node: &NodeParams) -> Result<Launch, Status> {
    let NodeParams { function, grid, block, shared, params, extra, kernel, context } = *node;
    let found = driver.functions.get(&function).ok_or(INVALID_HANDLE)?.clone();
    let module = Arc::clone(driver.modules.get(&found.module).ok_or(INVALID_HANDLE)?);
    let high = grid[1] > 65535 || grid[2] > 65535 || !extra.is_null();
    if grid.contains(&0) || block.contains(&0) || high || kernel != 0 || context != 0 {
        return Err(INVALID_VALUE);
    }
    let threads: u64 = block.iter().map(|n| u64::from(*n)).product();
    if threads > 1024 || shared > found.shared {
        return Err(LAUNCH_OUT_OF_RESOURCES);
    }
    let kernel = module.kernel(&found.kernel).ok_or(NOT_FOUND)?;
    // SAFETY: as the caller says.
    let params = unsafe { gather(kernel, params) };
    let kernel = found.kernel;
    Ok(Launch { module, kernel, grid, block, shared, params, number: 0 })
}

/// Whether an image begins with these bytes. It is read up to the first other one.
///
/// # Safety
/// The image has at least the bytes up to there.
unsafe fn begins_with(image: *const c_void, bytes: &[u8]) -> bool {
    // SAFETY: as the caller says.
    (0..bytes.len()).all(|n| unsafe { *image.cast::<u8>().add(n) } == bytes[n])
}

/// The PTX that a cubin or fatbin of the folder was made of: no machine code runs here, so one that is known to the
/// byte stands for its text.
///
/// # Safety
/// The image is whole machine code: none that is longer has all of its bytes at its begin.
unsafe fn made_of(folder: Option<&Path>, image: *const c_void) -> Option<String> {
    let files = std::fs::read_dir(folder?).ok()?.filter_map(|file| Some(file.ok()?.path()));
    let is_code = |path: &PathBuf| path.extension().is_some_and(|e| e == "cubin" || e == "fatbin");
    let mut codes = files.filter(is_code);
    let is_same = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        // SAFETY: as the caller says; headers, which come first, tell the length.
        !bytes.is_empty() && unsafe { begins_with(image, &bytes) }
    };
    std::fs::read_to_string(codes.find(is_same)?.with_extension("ptx")).ok()
}

/// Writes a message to the log that options of a compilation name.
///
/// # Safety
/// There are so many options and values, and the log has as many bytes as they say.
unsafe fn explain(count: c_uint, options: *mut c_int, values: *mut *mut c_void, text: &str) {
    let (mut log, mut bytes) = (std::ptr::null_mut::<u8>(), 0);
    for n in 0..count as usize {
        // SAFETY: the caller passes so many.
        let (option, value) = unsafe { (*options.add(n), *values.add(n)) };
        match option {
            ERROR_LOG => log = value.cast(),
            ERROR_LOG_BYTES => bytes = value.addr(),
            _ => {}
        }
    }
    let length = text.len().min(bytes.saturating_sub(1));
    if !log.is_null() && bytes > 0 {
        // SAFETY: the log has more bytes than these.
        unsafe {
            log.copy_from_nonoverlapping(text.as_ptr(), length);
            log.add(length).write(0);
        }
    }
}

/// The parameters of a kernel at their offsets.
///
/// # Safety
/// There is an address of as many bytes for each parameter.
unsafe fn gather(kernel: &reflex_ptx::Kernel, params: *mut *mut c_void) -> Vec<u8> {
    let mut bytes = vec![0; kernel.param_size as usize];
    for (n, param) in kernel.params.iter().enumerate() {
        let (offset, size) = (param.offset as usize, param.size as usize);
        // SAFETY: the caller passes an address for each, of so many bytes.
        unsafe {
            let from = (*params.add(n)).cast::<u8>();
            bytes.as_mut_ptr().add(offset).copy_from_nonoverlapping(from, size);
        }
    }
    bytes
}
