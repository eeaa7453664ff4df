//! The contract with code generators: what is asked, what is answered.
//!
//! Cranelift answers in process (the crate `reflex-baseline`), LLVM in a process of its own:
//! `reflex-codegen` speaks the contract on a pipe. Each message is a little-endian u64 length followed
//! by the postcard encoding of [`Request`] or [`Response`].

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::abi::RawSignature;
use crate::{Buffer, Expr, PrimFunc, Var};

/// Version of the request and response encoding; a mismatch is an error, never a guess.
pub const PROTOCOL: u32 = 9;

/// The kind of device that kernels are scheduled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    /// A CPU.
    Cpu(CpuTarget),
    /// A GPU.
    Gpu(GpuTarget),
}

/// An instruction set that kernels are compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// AArch64, little-endian.
    Aarch64,
    /// WebAssembly with 32-bit addresses.
    Wasm32,
}

impl Arch {
    /// Every one.
    pub const ALL: [Arch; 3] = [Arch::X86_64, Arch::Aarch64, Arch::Wasm32];

    /// That of this process.
    pub const HOST: Arch = if cfg!(target_arch = "wasm32") {
        Arch::Wasm32
    } else if cfg!(target_arch = "aarch64") {
        Arch::Aarch64
    } else {
        Arch::X86_64
    };

    /// Bytes of a pointer.
    pub const fn pointer_bytes(self) -> usize {
        match self {
            Arch::X86_64 | Arch::Aarch64 => 8,
            Arch::Wasm32 => 4,
        }
    }

    /// The LLVM triple of Linux on it, or of WebAssembly.
    pub fn triple(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-linux-gnu",
            Arch::Aarch64 => "aarch64-unknown-linux-gnu",
            Arch::Wasm32 => "wasm32-unknown-unknown",
        }
    }
}

/// As its makers call it.
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Arch::X86_64 => "x86-64",
            Arch::Aarch64 => "AArch64",
            Arch::Wasm32 => "WebAssembly",
        })
    }
}

/// A CPU to generate code for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuTarget {
    /// LLVM triple.
    pub triple: String,
    /// LLVM feature names that are present, such as `avx512f`, read from the CPU.
    pub features: BTreeSet<String>,
    /// Bytes of the vectors that kernels are scheduled in (16, 32 or 64): of the widest register, or of two
    /// where there are many narrow ones.
    pub vector_bytes: u32,
    /// Level 1 data cache per core, bytes.
    pub l1d_bytes: u64,
    /// Level 2 cache per core, bytes.
    pub l2_bytes: u64,
}

impl CpuTarget {
    /// Its architecture; `None` for a triple of another one.
    pub fn arch(&self) -> Option<Arch> {
        let name = self.triple.split('-').next();
        let of = |arch: &Arch| arch.triple().split('-').next() == name;
        Arch::ALL.into_iter().find(of)
    }

    /// Whether it has AVX512_BF16, which is [`crate::Intrin::DotBf16`], for vectors of every length.
    pub fn has_avx512_bf16(&self) -> bool {
        let has = |feature: &str| self.features.contains(feature);
        self.vector_bytes == 64 && has("avx512bf16") && has("avx512vl")
    }

    /// Whether it has AVX512_VNNI, which is [`crate::Intrin::DotI8`] of uint8 by int8, for vectors of
    /// every length.
    pub fn has_avx512_vnni(&self) -> bool {
        let has = |feature: &str| self.features.contains(feature);
        has("avx512vnni") && has("avx512vl")
    }

    /// Whether it has an instruction for [`crate::Intrin::DotI8`] of uint8 by int8.
    pub fn has_int8_dots(&self) -> bool {
        self.features.contains("avxvnni") || self.has_avx512_vnni()
    }

    /// Whether it has AMX-BF16, which is [`crate::tile::TileOp`], as well as AVX512_BF16.
    pub fn has_amx_bf16(&self) -> bool {
        let has = |feature: &str| self.features.contains(feature);
        self.has_avx512_bf16() && has("amx-tile") && has("amx-bf16")
    }

    /// Whether it has AMX-INT8, which is [`crate::tile::TileOp::DotI8`], as well as AVX-512.
    pub fn has_amx_int8(&self) -> bool {
        let has = |feature: &str| self.features.contains(feature);
        self.vector_bytes == 64 && has("avx512vl") && has("amx-tile") && has("amx-int8")
    }

    /// Whether its fused multiply-adds are instructions. Without, they are exact sequences of others.
    pub fn has_fma(&self) -> bool {
        match self.arch() {
            Some(Arch::X86_64) => self.features.contains("fma"),
            Some(Arch::Wasm32) => self.features.contains("relaxed-simd"),
            Some(Arch::Aarch64) | None => true,
        }
    }

    /// Whether code for `other` runs on this CPU.
    pub fn runs(&self, other: &CpuTarget) -> bool {
        other.arch() == self.arch() && other.features.is_subset(&self.features)
    }
}

/// A GPU that kernels are scheduled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GpuTarget {
    /// Its name: `cuda:sm_80`.
    pub name: String,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Shared memory that one block may use, bytes.
    pub shared_bytes: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers: u32,
    /// Level 2 cache, bytes.
    pub l2_bytes: u64,
    /// Bytes that all multiprocessors read from it in a cycle.
    pub l2_bytes_per_cycle: u32,
    /// Cycles of a multiprocessor in a microsecond.
    pub clock_mhz: u32,
    /// Bytes of memory in a nanosecond.
    pub memory_gbps: u32,
    /// Multiply-adds of float32 of a multiprocessor in a cycle.
    pub fma_per_cycle: u32,
    /// Those of 16-bit floats of its tensor cores.
    pub mma_per_cycle: u32,
}

impl GpuTarget {
    /// Threads of a block.
    pub const MAX_THREADS: i64 = 1024;
    /// Threads of a block along `threadIdx.z`.
    pub const MAX_THREADS_Z: i64 = 64;

    /// Whether warpgroups multiply together (`wgmma`).
    pub fn has_warpgroups(&self) -> bool {
        self.name == "cuda:sm_90a"
    }

    /// The GPUs that are known, by the architecture's first product: NVIDIA's A100 and H100, in their sockets. Figures are
    /// those of the white papers of both.
    pub fn known() -> [GpuTarget; 2] {
        let ampere = GpuTarget {
            name: "cuda:sm_80".to_owned(),
            sms: 108,
            shared_bytes: 163 << 10,
            registers: 64 << 10,
            l2_bytes: 40 << 20,
            l2_bytes_per_cycle: 5120,
            clock_mhz: 1410,
            memory_gbps: 1555,
            fma_per_cycle: 64,
            mma_per_cycle: 1024,
        };
        let hopper = GpuTarget {
            name: "cuda:sm_90a".to_owned(),
            sms: 132,
            shared_bytes: 227 << 10,
            l2_bytes: 50 << 20,
            clock_mhz: 1830,
            memory_gbps: 3350,
            fma_per_cycle: 128,
            mma_per_cycle: 2048,
            ..ampere.clone()
        };
        [ampere, hopper]
    }
}

impl FromStr for GpuTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<GpuTarget, String> {
        let known = GpuTarget::known();
        let names = known.each_ref().map(|gpu| gpu.name.clone()).join(" and ");
        let found = known.into_iter().find(|gpu| gpu.name == text);
        found.ok_or_else(|| format!("there is no GPU {text:?}; there are {names}"))
    }
}

/// LLVM optimisation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OptLevel {
    /// No optimisation: the oracle for the other.
    O0,
    /// The pipeline kernels ship with.
    O3,
}

/// Compile lowered functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Functions in lowered form, for a GPU with loops over blocks and threads.
    pub funcs: Vec<PrimFunc>,
    /// The device that code is generated for.
    pub target: Target,
    /// Optimisation level.
    pub opt: OptLevel,
    /// Also return assembly text.
    pub want_asm: bool,
}

/// The code generator that a kernel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KernelTier {
    /// Cranelift: quick to compile, slower to run.
    Baseline,
    /// LLVM.
    Optimised,
}

impl fmt::Display for KernelTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            KernelTier::Baseline => "cranelift",
            KernelTier::Optimised => "llvm",
        })
    }
}

/// One compiled function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectFile {
    /// Its raw signature (the name is in it).
    pub signature: RawSignature,
    /// Its code generator.
    pub tier: KernelTier,
    /// Relocatable ELF.
    #[serde(with = "bytes_at_once")]
    pub elf: Vec<u8>,
    /// Assembly, when asked for.
    pub asm: Option<String>,
    /// Time spent, microseconds.
    pub micros: u64,
}

/// Bytes as a sequence of them is encoded, without a step for each.
mod bytes_at_once {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// Code of a function for a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceCode {
    /// The PTX module.
    pub ptx: String,
    /// Its kernels: one for each launch, in program order.
    pub kernels: Vec<DeviceKernel>,
}

/// A kernel of a GPU, and how it is launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceKernel {
    /// The name of its entry.
    pub name: String,
    /// Buffers whose device addresses are its first parameters. They are multiples of 16.
    pub buffers: Vec<Buffer>,
    /// Variables of the function that are its further parameters, 64 bits each (floats as float64
    /// bits).
    pub vars: Vec<Var>,
    /// Tensor maps, parameters behind those.
    pub maps: Vec<TensorMap>,
    /// Blocks along x, y and z, over variables of the host.
    pub grid: [Expr; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

/// A tensor, and the size of the boxes of it that a kernel copies ([`crate::box_copy`]): a parameter of 128 bytes, which the
/// host encodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorMap {
    /// The tensor, one of the kernel's buffers.
    pub buffer: Buffer,
    /// Extent, elements between neighbours and elements of a box along each dimension, the contiguous one first; over
    /// variables of the host.
    pub dims: Vec<(Expr, Expr, u32)>,
}

/// The answer to a [`Request`]: code for each function, in order, or the reason why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// For a CPU, one per function.
    Objects(Vec<ObjectFile>),
    /// For a GPU, one per function.
    Device(Vec<DeviceCode>),
    /// Function name and what went wrong.
    Failed {
        /// The function, or empty when the request itself was bad.
        func: String,
        /// LLVM's message.
        message: String,
    },
}

/// Something that turns lowered functions into objects: the process, or LLVM in process.
pub trait Codegen: Send + Sync {
    /// Compiles every function of the request.
    fn compile(&self, request: &Request) -> Response;
}
