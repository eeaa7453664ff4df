//! Device modules of TVM's executables: kernels as packed functions that host functions call.
//!
//! A host function sets the device of its tensors (`__tvm_set_device`) and calls a kernel with its
//! parameters, then the sizes of the launch. Kernels run on the thread's current stream of that device. The
//! code is loaded once for each device.
//!
//! Decision: docs/decisions/0084-tvm-device-modules.md

mod blob;
mod params;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use reflex_runtime::abi::DLDevice;
use reflex_runtime::bundle::LOADER_PREFIX;
use reflex_runtime::device::{Launch, LoadedKernels, batch, current, current_stream};
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::module::{Functions, Module as RuntimeModule};
use reflex_runtime::registry;
use reflex_runtime::value::{Any, AnyView};

use crate::gpu::{Gpu, OPEN};
use crate::images::{is_cubin, is_fatbin};
use crate::module::{ForeignCode, Module};
use blob::{Blob, Entry, Extent, Format, Param, fault};

/// The kind of TVM's modules for CUDA devices.
pub const KIND: &str = "cuda";
/// The global function that compiles CUDA C++, which TVM's Python package registers.
const COMPILER: &str = "tvm_callback_cuda_compile";

/// A device module.
pub struct DeviceModule(Arc<Shared>);

struct Shared {
    format: Format,
    code: Vec<u8>,
    entries: Vec<Entry>,
    /// As it was read.
    bytes: Vec<u8>,
    /// The code on each device that a kernel was called on.
    loaded: Mutex<BTreeMap<i32, Arc<Module>>>,
}

/// Registers the function that makes modules of this kind, unless another one is registered.
pub fn register_loader() {
    let load = Function::new(|args| {
        let bytes = args.first().and_then(AnyView::as_bytes);
        let bytes =
            bytes.ok_or_else(|| Error::type_error("argument 0 is the bytes of a module"))?;
        Ok(RuntimeModule::new(DeviceModule::read(bytes)?).into())
    });
    // Where it is registered already, that stays.
    let _ = registry::register(&format!("{LOADER_PREFIX}{KIND}"), load);
}

impl DeviceModule {
    /// Reads the serialized form of a module, and checks its code as far as the driver does not.
    pub fn read(bytes: &[u8]) -> Result<DeviceModule, Error> {
        let Blob { format, entries, code } = Blob::read(bytes)?;
        let (format, code) = match format {
            Format::Source => compiled(code)?,
            format => (format, code.to_vec()),
        };
        let bad = || fault(&format!("code that is no {}", format.name()));
        match format {
            Format::Ptx => params::check(text(&code).ok_or_else(bad)?, &entries)?,
            Format::Cubin if is_cubin(&code) => {}
            Format::Fatbin if is_fatbin(&code) => {}
            Format::Cubin | Format::Fatbin | Format::Source => return Err(bad()),
        }
        let (bytes, loaded) = (bytes.to_vec(), Mutex::default());
        Ok(DeviceModule(Arc::new(Shared { format, code, entries, bytes, loaded })))
    }

    /// Loads the code onto a device that is open, so that what it lacks is told before a call.
    pub fn load_on(&self, device: DLDevice) -> Result<(), Error> {
        self.0.on(device).map(drop)
    }
}

/// PTX or machine code of CUDA C++.
fn compiled(source: &[u8]) -> Result<(Format, Vec<u8>), Error> {
    let compiler = registry::get(COMPILER).ok_or_else(|| {
        let text = format!(
            "a module of kind cuda holds CUDA C++, and no function `{COMPILER}` is registered that \
             compiles it; export it where TVM compiles for a GPU"
        );
        Error::new("NotImplementedError", text)
    })?;
    let source = Any::from(text(source).ok_or_else(|| fault("a source that is not UTF-8"))?);
    let code = compiler.call(&[source.view()])?;
    let code = code.view().as_bytes().map(<[u8]>::to_vec);
    let code = code.ok_or_else(|| Error::type_error(format!("`{COMPILER}` returns no bytes")))?;
    let format = match &code[..] {
        [b'/', ..] => Format::Ptx,
        code if is_fatbin(code) => Format::Fatbin,
        _ => Format::Cubin,
    };
    Ok((format, code))
}

/// The text without the null characters at its end.
fn text(code: &[u8]) -> Option<&str> {
    let end = code.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    std::str::from_utf8(&code[..end]).ok()
}

impl Functions for DeviceModule {
    fn kind(&self) -> &str {
        KIND
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        let Some(at) = self.0.entries.iter().position(|entry| entry.name == name) else {
            return Ok(None);
        };
        let shared = Arc::clone(&self.0);
        Ok(Some(Function::new(move |args| shared.call(at, args))))
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        Some(self.0.bytes.clone())
    }

    fn source(&self, format: &str) -> String {
        let asked = format == self.0.format.name() || format.is_empty();
        let code = (asked && self.0.format == Format::Ptx).then(|| text(&self.0.code)).flatten();
        code.unwrap_or_default().to_owned()
    }
}

impl Shared {
    /// The code on a device.
    fn on(&self, device: DLDevice) -> Result<(&'static Gpu, Arc<Module>), Error> {
        let gpu = OPEN.lock().get(&device.device_id).copied().ok_or_else(|| {
            Error::value_error(format!("device {device} is not open; an engine for it opens it"))
        })?;
        let mut loaded = self.loaded.lock();
        if let Some(module) = loaded.get(&device.device_id) {
            return Ok((gpu, Arc::clone(module)));
        }
        let code = match self.format {
            Format::Ptx => ForeignCode::Ptx(text(&self.code).expect("it was checked")),
            _ => ForeignCode::Binary(&self.code),
        };
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        let module = Arc::new(Module::of_foreign(gpu, &code, &names)?);
        loaded.insert(device.device_id, Arc::clone(&module));
        Ok((gpu, module))
    }

    /// Launches a kernel on the current device.
    fn call(&self, at: usize, args: &[AnyView<'_>]) -> Result<Any, Error> {
        let entry = &self.entries[at];
        let arguments = entry.arguments(args)?;
        let (gpu, module) = self.on(current::of_kind(DLDevice::KIND_CUDA))?;
        if arguments.addresses < entry.count_of_addresses() {
            batch::spoil(gpu.id, "a kernel with an address after a number");
        }
        let launch = Launch {
            kernel: at,
            grid: arguments.grid,
            block: arguments.block,
            shared_bytes: arguments.shared_bytes,
            params: &arguments.params,
            addresses: arguments.addresses,
            maps: &[],
        };
        // SAFETY: parameters are as many and as large as those of the kernel, as `params::check` found in a
        // text; machine code is trusted. A host function passes addresses of its tensors, which its
        // caller keeps as for every kernel.
        unsafe { module.launch(current_stream(gpu.id), &launch)? };
        Ok(Any::NONE)
    }
}

/// The arguments of a packed call, as a launch has them.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    params: Vec<u64>,
    addresses: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

impl Entry {
    fn count_of_addresses(&self) -> usize {
        self.params.iter().filter(|param| **param == Param::Address).count()
    }

    fn arguments(&self, args: &[AnyView<'_>]) -> Result<Arguments, Error> {
        let name = &self.name;
        let expected =
            self.params.len() + self.extents.len() + usize::from(self.has_dynamic_shared);
        if args.len() != expected {
            let given = args.len();
            let text = format!("kernel {name} takes {expected} arguments, and {given} are given");
            return Err(Error::type_error(text));
        }
        let wrong = |n: usize, what: &str| {
            Error::type_error(format!("kernel {name}: argument {n} is no {what}"))
        };
        let (values, sizes) = args.split_at(self.params.len());
        let mut params = Vec::with_capacity(values.len());
        for (n, (param, value)) in self.params.iter().zip(values).enumerate() {
            let word = match param {
                Param::Address => value.as_opaque().map(|address| address.addr() as u64),
                Param::Int64 => value.as_int().map(|int| int as u64),
                Param::Int32 => value.as_int().map(|int| u64::from(int as u32)),
                Param::Float64 => value.as_float().map(f64::to_bits),
                Param::Float32 => value.as_float().map(|x| u64::from((x as f32).to_bits())),
            };
            let what = if *param == Param::Address { "address" } else { "number" };
            params.push(word.ok_or_else(|| wrong(n, what))?);
        }
        let addresses = self.params.iter().take_while(|param| **param == Param::Address).count();
        let size = |n: usize| {
            let size = sizes[n].as_int().and_then(|size| u32::try_from(size).ok());
            size.ok_or_else(|| wrong(self.params.len() + n, "size of a launch"))
        };
        let (mut grid, mut block) = ([1; 3], [1; 3]);
        for (n, extent) in self.extents.iter().enumerate() {
            // A tensor without elements makes a size of 0, for which TVM launches one.
            let size = size(n)?.max(1);
            match extent {
                Extent::Grid(axis) => grid[*axis] = size,
                Extent::Block(axis) => block[*axis] = size,
            }
        }
        let shared_bytes = if self.has_dynamic_shared { size(self.extents.len())? } else { 0 };
        Ok(Arguments { params, addresses, grid, block, shared_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::blob::tests::serialized;
    use super::*;

    const TEXT: &str = ".target sm_80\n.entry k(.param .u64 a, .param .f32 b, .param .u32 c) {}";
    const TYPES: [[u8; 4]; 3] = [[3, 64, 1, 0], [2, 32, 1, 0], [0, 32, 1, 0]];
    const TAGS: [&str; 3] = ["blockIdx.x", "threadIdx.y", "tirx.use_dyn_shared_memory"];

    fn module(format: &str, code: &str) -> Result<DeviceModule, Error> {
        DeviceModule::read(&serialized(format, ["k", "k"], &TYPES, &TAGS, &[0; 3], code))
    }

    #[test]
    fn arguments_are_parameters_and_then_sizes() {
        let module = module("ptx", TEXT).unwrap();
        let entry = &module.0.entries[0];
        let address = Any::opaque(std::ptr::without_provenance_mut(64));
        let args = |sizes: [i64; 3]| {
            let numbers = [Any::from(1.5_f64), Any::from(-1_i64)];
            let sizes = sizes.map(Any::from);
            [address.clone()].into_iter().chain(numbers).chain(sizes).collect::<Vec<_>>()
        };
        let given = args([7, 0, 2048]);
        let expected = Arguments {
            params: vec![64, u64::from(1.5_f32.to_bits()), 0xFFFF_FFFF],
            addresses: 1,
            grid: [7, 1, 1],
            block: [1, 1, 1],
            shared_bytes: 2048,
        };
        assert_eq!(entry.arguments(AnyView::slice(&given)).unwrap(), expected);
        let said = |args: &[Any]| {
            let error = entry.arguments(AnyView::slice(args)).unwrap_err();
            error.message().into_owned()
        };
        assert_eq!(said(&given[..5]), "kernel k takes 6 arguments, and 5 are given");
        assert_eq!(said(&args([-1, 1, 1])), "kernel k: argument 3 is no size of a launch");
        assert_eq!(said(&args([1, 1, 1 << 40])), "kernel k: argument 5 is no size of a launch");
        let mut swapped = args([1; 3]);
        swapped.swap(0, 1);
        assert_eq!(said(&swapped), "kernel k: argument 0 is no address");
    }

    #[test]
    fn code_is_what_its_format_says() {
        assert_eq!(module("ptx", TEXT).unwrap().source(""), TEXT);
        let said = |format: &str, code: &str| {
            module(format, code).err().expect(format).message().into_owned()
        };
        for (format, code, words) in [
            ("cubin", "no ELF", "code that is no cubin"),
            ("fatbin", "", "code that is no fatbin"),
            ("ptx", ".entry j() {}", "no kernel `k` in its PTX"),
            ("ptx", ".entry k() {}", "a kernel `k` whose parameters in the PTX are others"),
            ("cuda", "__global__ void k();", "no function `tvm_callback_cuda_compile`"),
        ] {
            let said = said(format, code);
            assert!(said.contains(words), "{format}: {said}");
        }
    }
}
