//! Samples, buffers and launches for tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;

use reflex_ptx::{Counters, Device, Fault, LaunchOptions, Limits, Module, Params};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("samples")
}

/// Names of all samples.
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let texts = paths.filter(|path| path.extension().is_some_and(|e| e == "ptx"));
    texts.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
}

/// The text of a sample.
pub fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.ptx"))).expect("a sample")
}

/// A sample, parsed.
pub fn load(name: &str) -> Module {
    Module::parse(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Bytes of numbers.
pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Numbers of bytes.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|word| f32::from_le_bytes(word.try_into().expect("four"))).collect()
}

/// A device with a module.
pub struct Run {
    pub device: Device,
    pub module: Module,
    pub shared: u32,
}

impl Run {
    /// A device with a sample.
    pub fn new(name: &str) -> Run {
        Run { device: Device::new(Limits::default()), module: load(name), shared: 0 }
    }

    /// A device with a kernel `k` of a body, whose parameters are `p`, `q` (u64) and `n` (u32).
    pub fn body(body: &str) -> Run {
        Run { device: Device::new(Limits::default()), module: kernel(body), shared: 0 }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let address = self.device.alloc(bytes.len() as u64).expect("memory");
        self.device.write(address, bytes).expect("inside");
        address
    }

    pub fn floats(&mut self, values: &[f32]) -> u64 {
        self.bytes(&bytes(values))
    }

    pub fn empty(&mut self, size: u64) -> u64 {
        self.device.alloc(size).expect("memory")
    }

    pub fn params(&self) -> Params {
        Params::new()
    }

    pub fn read(&mut self, address: u64, size: usize) -> Vec<u8> {
        self.device.read(address, size).expect("inside")
    }

    pub fn read_floats(&mut self, address: u64, count: usize) -> Vec<f32> {
        floats(&self.read(address, 4 * count))
    }

    pub fn go(
        &mut self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        params: Params,
        options: &LaunchOptions,
    ) -> Result<Counters, Fault> {
        let (module, shared) = (&self.module, self.shared);
        self.device.launch(module, kernel, grid, block, shared, &params.bytes, options)
    }
}

/// A module with a kernel `k` of a body.
pub fn kernel(body: &str) -> Module {
    let target = if body.contains("bulk") { "sm_90a" } else { "sm_80" };
    let text = format!(
        ".version 8.0\n.target {target}\n.address_size 64\n.extern .shared .align 16 .b8 dyn[];
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n) {{
.reg .pred %p<8>; .reg .b16 %rs<16>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
.reg .f32 %f<16>; .reg .f64 %fd<8>;
{body}\nret;\n}}\n"
    );
    Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
