//! Kernels from cubins and PTX.

use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute as Attribute, CUjit_option, CUmodule, CUtensorMap,
};
use reflex_runtime::alloc::device::DeviceAllocator;
use reflex_runtime::device::batch::{RecordedLaunch, note_launch};
use reflex_runtime::device::{
    CodeSource, Image, KernelCode, KernelSpec, Launch, LoadedKernels, PreparedLaunch, Stream,
};
use reflex_runtime::error::Error;

use crate::call::{Failure, cu};
use crate::gpu::Gpu;
use crate::images::{capability, choose, is_cubin, is_fatbin};
use crate::launches::KernelName;
use crate::settings::{compiles_texts, synchronous};
use crate::tensor_maps::Encoded;

/// Parameters of a kernel, in a list on the stack.
const FEW: usize = 16;
/// Dynamic shared memory that a kernel may use without being told, bytes.
const USUAL_SHARED: u32 = 48 << 10;
/// Bytes of the driver's messages about a text.
const LOG: usize = 4096;

/// The kernels of one text or cubin, on one device.
pub(crate) struct Module {
    gpu: &'static Gpu,
    raw: Handle<CUmodule>,
    kernels: Vec<Kernel>,
    source: CodeSource,
}

struct Kernel {
    name: KernelName,
    raw: Handle<CUfunction>,
    /// Most bytes of dynamic shared memory that the driver was told.
    shared_bytes: AtomicU32,
    maps: Encoded,
}

/// Code of a program that another compiler made, in one piece.
pub(crate) enum ForeignCode<'a> {
    Ptx(&'a str),
    /// A cubin or a fatbin.
    Binary(&'a [u8]),
}

struct Handle<T>(T);

// SAFETY: modules and functions are the driver's, which takes them from any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as for `Send`: the driver locks what it changes.
unsafe impl<T> Sync for Handle<T> {}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kernels.iter().map(|kernel| kernel.name.text())).finish()
    }
}

/// Returns why code for an architecture, such as `sm_90a`, does not run on a device of this compute
/// capability.
fn misfit(target: &str, device: (u32, u32)) -> Option<String> {
    let (major, minor, exact) = capability(target)?;
    let fits = if exact { device == (major, minor) } else { device >= (major, minor) };
    let (major, minor) = device;
    (!fits).then(|| format!("is for {target}, and the device is sm_{major}{minor}"))
}

/// The architecture that a PTX text names.
fn target(text: &str) -> Option<&str> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(".target"))?;
    line.split(',').next().map(str::trim)
}

impl Module {
    pub(crate) fn load(
        gpu: &'static Gpu,
        code: &KernelCode<'_>,
        kernels: &[KernelSpec],
    ) -> Result<Module, Error> {
        use reflex_runtime::device::Device;
        let id = DeviceAllocator::device(gpu);
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let names = names.join(", ");
        let bad = |what: String| Error::value_error(format!("{id}: the code of {names} {what}"));
        let properties = Device::properties(&gpu);
        let device = properties.compute_capability.unwrap_or_default();
        let target =
            target(code.text).ok_or_else(|| bad("is no PTX: it names no target".into()))?;
        if let Some(why) = misfit(target, device) {
            return Err(bad(why));
        }
        let most = properties.max_shared_bytes;
        if let Some(kernel) = kernels.iter().find(|kernel| kernel.shared_bytes > most) {
            let (name, bytes) = (&kernel.name, kernel.shared_bytes);
            let text =
                format!("{id}: {name} needs {bytes} bytes of shared memory, of at most {most}");
            return Err(Error::value_error(text));
        }
        let text = CString::new(code.text).map_err(|_| bad("has a null character".into()))?;
        gpu.enter()?;
        let images = if compiles_texts() { &[] } else { code.images };
        let linked = choose(images, device).map(|image| link(gpu, image, &names)).transpose();
        let (raw, source) = match linked {
            Ok(Some(found)) => found,
            Ok(None) => (compile(gpu, &text, &names)?, CodeSource::Text { refused: None }),
            Err(Refusal::Version(why)) => {
                tracing::warn!(device = %id, kernels = names, why, "compiles PTX instead of a cubin");
                (compile(gpu, &text, &names)?, CodeSource::Text { refused: Some(why) })
            }
            Err(Refusal::Other(error)) => return Err(error),
        };
        let mut module = Module { gpu, raw: Handle(raw), kernels: vec![], source };
        for kernel in kernels {
            let found = module.find(kernel)?;
            module.kernels.push(found);
        }
        Ok(module)
    }

    /// Loads code as it is. Launches say what they need of shared memory.
    pub(crate) fn of_foreign(
        gpu: &'static Gpu,
        code: &ForeignCode<'_>,
        kernels: &[&str],
    ) -> Result<Module, Error> {
        use reflex_runtime::device::Device;
        let id = DeviceAllocator::device(gpu);
        let names = kernels.join(", ");
        let bad = |what: String| Error::value_error(format!("{id}: the code of {names} {what}"));
        gpu.enter()?;
        let (raw, source) = match code {
            ForeignCode::Ptx(text) => {
                let device = Device::properties(&gpu).compute_capability.unwrap_or_default();
                let target = target(text);
                let target =
                    target.ok_or_else(|| bad("is no PTX: it names no target".to_owned()))?;
                if let Some(why) = misfit(target, device) {
                    return Err(bad(why));
                }
                let text = CString::new(*text).map_err(|_| bad("has a null character".into()))?;
                (compile(gpu, &text, &names)?, CodeSource::Text { refused: None })
            }
            ForeignCode::Binary(bytes) if !is_cubin(bytes) && !is_fatbin(bytes) => {
                return Err(bad("is neither a cubin nor a fatbin".to_owned()));
            }
            ForeignCode::Binary(bytes) => {
                // SAFETY: the bytes are whole, as was just found, and tell their own length.
                let raw = unsafe { load_binary(bytes) };
                let raw = raw.map_err(|why| {
                    let error = gpu.error(why);
                    let text = format!("the code of {names}: {}", error.message());
                    Error::new(&error.kind(), text)
                })?;
                (raw, CodeSource::Image("the device".to_owned()))
            }
        };
        let mut module = Module { gpu, raw: Handle(raw), kernels: vec![], source };
        for name in kernels {
            let spec = KernelSpec { name: (*name).to_owned(), shared_bytes: 0 };
            let found = module.find(&spec)?;
            module.kernels.push(found);
        }
        Ok(module)
    }

    fn find(&self, spec: &KernelSpec) -> Result<Kernel, Error> {
        let named = |error: Error| {
            let text = format!("kernel {}: {}", spec.name, error.message());
            Error::new(&error.kind(), text)
        };
        let name = CString::new(spec.name.as_str())
            .map_err(|_| Error::value_error("the name of a kernel has a null character"))?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is loaded, and the call writes one handle.
        unsafe { cu!(cuModuleGetFunction(&mut raw, self.raw.0, name.as_ptr())) }
            .map_err(|why| named(self.gpu.error(why)))?;
        let shared_bytes = AtomicU32::new(USUAL_SHARED);
        let (name, maps) = (KernelName::new(&spec.name), Encoded::default());
        let kernel = Kernel { name, raw: Handle(raw), shared_bytes, maps };
        self.allow_shared(&kernel, spec.shared_bytes).map_err(named)?;
        Ok(kernel)
    }

    /// Lets a kernel have so many bytes of dynamic shared memory.
    fn allow_shared(&self, kernel: &Kernel, bytes: u32) -> Result<(), Error> {
        if bytes <= kernel.shared_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is one of the module's.
        unsafe { cu!(cuFuncSetAttribute(kernel.raw.0, most, bytes as i32)) }
            .map_err(|why| self.gpu.error(why))?;
        // Of two threads the one with more may be told first; a launch then fails, and names itself.
        kernel.shared_bytes.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Why a launch is beyond the device's limits.
    fn refusal(&self, launch: &Launch<'_>) -> Option<String> {
        use reflex_runtime::device::Device;
        let most = Device::properties(&self.gpu);
        let beyond = |given: &[u32; 3], most: &[u32; 3]| given.iter().zip(most).any(|(g, m)| g > m);
        if beyond(&launch.grid, &most.max_grid) {
            return Some(format!("{:?} blocks, of at most {:?}", launch.grid, most.max_grid));
        }
        let threads = launch.block.iter().try_fold(1_u32, |n, extent| n.checked_mul(*extent));
        let threads = threads.filter(|n| (1..=most.max_threads).contains(n));
        if threads.is_none() || beyond(&launch.block, &most.max_block) {
            let (block, most) = (launch.block, most.max_threads);
            return Some(format!("{block:?} threads in a block, of at most {most}"));
        }
        let (shared, most) = (launch.shared_bytes, most.max_shared_bytes);
        (shared > most).then(|| format!("{shared} bytes of shared memory, of at most {most}"))
    }
}

/// Why the driver does not take a cubin.
enum Refusal {
    /// It is for other devices or drivers, which the words say.
    Version(String),
    Other(Error),
}

/// Loads a cubin.
fn link(gpu: &Gpu, image: &Image, names: &str) -> Result<(CUmodule, CodeSource), Refusal> {
    let Image { arch, bytes } = image;
    if !is_cubin(bytes) {
        let text = format!("the code of {names}: what it has for {arch} is no cubin");
        return Err(Refusal::Other(Error::value_error(text)));
    }
    // SAFETY: the bytes are a whole cubin, as was just found, which tells its own length.
    match unsafe { load_binary(bytes) } {
        Ok(raw) => Ok((raw, CodeSource::Image(arch.clone()))),
        Err(why) if why.is_of_version() => {
            Err(Refusal::Version(format!("the cubin for {arch}: {why}")))
        }
        Err(why) => {
            let error = gpu.error(why);
            let text = format!("the code of {names} for {arch}: {}", error.message());
            Err(Refusal::Other(Error::new(&error.kind(), text)))
        }
    }
}

/// Loads code that is no text.
///
/// # Safety
/// The length that the code says is its own: the driver is not told it.
unsafe fn load_binary(bytes: &[u8]) -> Result<CUmodule, Failure> {
    let mut raw = std::ptr::null_mut();
    let (none, values) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: as the caller promises; the call writes one handle.
    unsafe { cu!(cuModuleLoadDataEx(&mut raw, bytes.as_ptr().cast(), 0, none, values)) }?;
    Ok(raw)
}

/// Lets the driver compile a text.
fn compile(gpu: &Gpu, text: &CString, names: &str) -> Result<CUmodule, Error> {
    let mut log = vec![0_u8; LOG];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        CUjit_option::CU_JIT_TARGET_FROM_CUCONTEXT,
    ];
    // The last option has no value.
    let log_bytes = std::ptr::without_provenance_mut(LOG);
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log_bytes, std::ptr::null_mut()];
    let (mut raw, count) = (std::ptr::null_mut(), options.len() as u32);
    let image = text.as_ptr().cast::<c_void>();
    // SAFETY: the text ends with a null character, and the log has as many bytes as are said.
    let loaded = unsafe {
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
        cu!(cuModuleLoadDataEx(&mut raw, image, count, options, values))
    };
    loaded.map_err(|why| {
        let error = gpu.error(why);
        let log: Vec<u8> = log.into_iter().take_while(|byte| *byte != 0).collect();
        let log = String::from_utf8_lossy(&log);
        let more = if log.trim().is_empty() { String::new() } else { format!(": {}", log.trim()) };
        Error::new(&error.kind(), format!("the code of {names}: {}{more}", error.message()))
    })?;
    Ok(raw)
}

impl LoadedKernels for Module {
    fn source(&self) -> &CodeSource {
        &self.source
    }

    unsafe fn launch(&self, stream: Stream, launch: &Launch<'_>) -> Result<(), Error> {
        let Some(kernel) = self.kernels.get(launch.kernel) else {
            return Err(Error::value_error(format!("a module has no kernel {}", launch.kernel)));
        };
        if let Some(why) = self.refusal(launch) {
            return Err(kernel.named(Error::value_error(why)));
        }
        if launch.grid.contains(&0) {
            return Ok(());
        }
        if !launch.maps.is_empty() || launch.shared_bytes > kernel.shared_bytes() {
            self.gpu.enter()?;
        }
        self.allow_shared(kernel, launch.shared_bytes).map_err(|error| kernel.named(error))?;
        let maps = kernel.maps.of(launch.maps, launch.params);
        let maps = maps.map_err(|why| kernel.named(self.gpu.error(why)))?;
        // SAFETY: as the caller says; the launch is within the device's limits.
        unsafe { self.enqueue(kernel, stream, launch, &maps) }
    }

    fn prepare(self: Arc<Self>, launch: &Launch<'_>) -> Option<Box<dyn PreparedLaunch>> {
        let kernel = self.kernels.get(launch.kernel)?;
        let is_plain = launch.maps.is_empty() && !launch.grid.contains(&0);
        let is_allowed = launch.shared_bytes <= kernel.shared_bytes();
        if !is_plain || !is_allowed || self.refusal(launch).is_some() {
            return None;
        }
        let launch = Launch { params: &[], maps: &[], ..*launch };
        Some(Box::new(Prepared { module: self, launch }))
    }
}

/// A launch within the device's limits, but for its parameters.
#[derive(Debug)]
struct Prepared {
    module: Arc<Module>,
    launch: Launch<'static>,
}

impl PreparedLaunch for Prepared {
    unsafe fn launch(&self, stream: Stream, params: &[u64]) -> Result<(), Error> {
        let (module, launch) = (&self.module, Launch { params, ..self.launch });
        // SAFETY: as the caller says; the launch is within the device's limits.
        unsafe { module.enqueue(&module.kernels[launch.kernel], stream, &launch, &[]) }
    }
}

impl Module {
    /// Enqueues a launch of a kernel with these tensor maps.
    ///
    /// # Safety
    /// As for [`LoadedKernels::launch`]. The launch is within the device's limits, and the kernel may have its shared
    /// memory.
    #[inline]
    unsafe fn enqueue(
        &self,
        kernel: &Kernel,
        stream: Stream,
        launch: &Launch<'_>,
        maps: &[CUtensorMap],
    ) -> Result<(), Error> {
        let gpu = self.gpu;
        gpu.is_alive()?;
        let state = gpu.stream(stream)?;
        let address = |word: &u64| std::ptr::from_ref(word).cast_mut().cast::<c_void>();
        let of_maps = maps.iter().map(|map| std::ptr::from_ref(map).cast_mut().cast());
        // Most kernels have few parameters, whose list needs no memory of the heap.
        let (mut few, mut many) = ([std::ptr::null_mut(); FEW], vec![]);
        let count = launch.params.len() + maps.len();
        let params: &mut [*mut c_void] = match few.get_mut(..count) {
            Some(few) => few,
            None => {
                many.resize(count, std::ptr::null_mut());
                &mut many
            }
        };
        let places = launch.params.iter().map(address).chain(of_maps);
        params.iter_mut().zip(places).for_each(|(param, place)| *param = place);
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        let (function, shared, raw) = (kernel.raw.0, launch.shared_bytes, state.raw());
        let (list, none) = (params.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the function is of this module, which lives; the driver copies the parameters,
        // which the caller says are those of the kernel.
        let call = || unsafe {
            cu!(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, raw, list, none))
        };
        gpu.enqueue(call).map_err(|why| kernel.named(gpu.stream_error(why, &state)))?;
        note_launch(DeviceAllocator::device(gpu), || RecordedLaunch {
            kernel: function.expose_provenance() as u64,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            params: launch.params.to_vec(),
            addresses: launch.addresses,
            maps: launch.maps.to_vec(),
        });
        let stream = state.launched(kernel.name);
        if synchronous() { gpu.wait_for(stream) } else { Ok(()) }
    }
}

impl Kernel {
    /// Most bytes of dynamic shared memory that the driver was told.
    fn shared_bytes(&self) -> u32 {
        self.shared_bytes.load(Ordering::Relaxed)
    }

    /// An error that names the kernel.
    #[cold]
    fn named(&self, error: Error) -> Error {
        let text = format!("kernel {}: {}", self.name.text(), error.message());
        Error::new(&error.kind(), text)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.gpu.enter().is_err() || self.gpu.wait_for_all().is_err() {
            return;
        }
        // SAFETY: the module is loaded, and no stream has a launch of it left.
        let _ = unsafe { cu!(cuModuleUnload(self.raw.0)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_fits_its_architecture_and_later_ones() {
        assert_eq!(misfit("sm_80", (8, 0)), None);
        assert_eq!(misfit("sm_80", (9, 0)), None);
        assert_eq!(misfit("sm_90a", (9, 0)), None);
        assert!(misfit("sm_90a", (10, 0)).is_some(), "only on 9.0 exactly");
        let why = misfit("sm_80", (7, 5)).unwrap();
        assert_eq!(why, "is for sm_80, and the device is sm_75");
    }

    #[test]
    fn the_target_is_a_line_of_the_text() {
        assert_eq!(target(".version 8.0\n.target sm_80\n"), Some("sm_80"));
        assert_eq!(target(".target sm_90a, debug\n"), Some("sm_90a"));
        assert_eq!(target("ELF"), None);
    }
}
