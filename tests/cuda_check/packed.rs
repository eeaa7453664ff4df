//! The folder that is taken to the machine with the GPU.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use reflex::{Array, DType};
use serde::{Deserialize, Serialize};

/// Version of [`Manifest`].
pub const VERSION: u32 = 2;
/// The manifest's file.
const MANIFEST: &str = "pack.json";
/// The file with inputs and expected outputs.
pub const DATA: &str = "data.bin";

/// The program that times PyTorch.
pub const ANCHORS: &str = "anchors.py";

/// The contents of a folder.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// [`VERSION`].
    pub version: u32,
    /// The release that packed it.
    pub reflex: String,
    /// Single instructions.
    pub probes: Vec<Probe>,
    /// Programs.
    pub cases: Vec<Case>,
}

/// A kernel around one instruction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// The instruction, such as `fma.rn.f32`.
    pub form: String,
    /// A module with the kernel `probe`.
    pub ptx: String,
    /// BLAKE3 of the words that threads write, all NaNs being the same. What they read follows from the
    /// form.
    pub hash: String,
    /// The words, in the data file, where they are few.
    pub expected: Option<Span>,
    /// The compute capability that alone gives these words; every one where there is none.
    pub capability: Option<(u32, u32)>,
}

/// A program with inputs and the outputs that it has to have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The library, in the folder.
    pub file: String,
    /// Inputs of `main` by name.
    pub inputs: Vec<(String, Input)>,
    /// Outputs in order.
    pub outputs: Vec<Expected>,
    /// Whether calls are timed.
    pub is_timed: bool,
    /// The compute capability that alone gives these outputs, where tensor cores do; every one where there
    /// is none.
    pub capability: Option<(u32, u32)>,
}

/// An input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// Elements in the data file.
    Stored {
        /// Type and shape.
        ty: TensorType,
        /// Where.
        at: Span,
    },
    /// Elements in -1 to 1, by a generator.
    Seeded {
        /// Type and shape.
        ty: TensorType,
        /// The seed.
        seed: u64,
    },
}

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorType {
    /// Element type, as it is written.
    pub dtype: String,
    /// Shape.
    pub shape: Vec<i64>,
}

/// A range of the data file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
}

/// An expected output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Expected {
    /// Type and shape.
    pub ty: TensorType,
    /// Elements that are known: all, or the first ones.
    pub known: u64,
    /// BLAKE3 of those, all NaNs of which are the same.
    pub hash: String,
    /// The elements, where they are few.
    pub data: Option<Span>,
}

impl TensorType {
    /// The type of an array.
    pub fn of(array: &Array) -> TensorType {
        TensorType { dtype: array.dtype.to_string(), shape: array.shape.clone() }
    }
}

/// A folder that is open.
pub struct Pack {
    folder: PathBuf,
    /// Its contents.
    pub manifest: Manifest,
}

impl Pack {
    /// Writes the manifest of a folder.
    pub fn write(folder: &Path, manifest: &Manifest) -> Result<(), String> {
        let path = folder.join(MANIFEST);
        let text = serde_json::to_vec(manifest).map_err(|e| e.to_string())?;
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Opens a folder.
    pub fn open(folder: &Path) -> Result<Pack, String> {
        let path = folder.join(MANIFEST);
        let wrong = |why: String| format!("{}: {why}", path.display());
        let text = std::fs::read(&path).map_err(|e| wrong(e.to_string()))?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        match manifest.version {
            VERSION => Ok(Pack { folder: folder.to_owned(), manifest }),
            other => Err(wrong(format!("version {other}, and this program reads {VERSION}"))),
        }
    }

    /// The path of a file in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Reads a range of the data file.
    pub fn read(&self, span: Span) -> Result<Vec<u8>, String> {
        let path = self.path(DATA);
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(span.start))?;
            let mut bytes = vec![];
            file.take(span.bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|e| format!("{}: {e}", path.display()))?;
        match bytes.len() as u64 == span.bytes {
            true => Ok(bytes),
            false => Err(format!("{}: ends before its contents do", path.display())),
        }
    }

    /// The array of an input.
    pub fn input(&self, input: &Input) -> Result<Array, String> {
        match input {
            Input::Seeded { ty, seed } => {
                let dtype = ty.dtype.parse().map_err(|_| format!("no type {}", ty.dtype))?;
                seeded(dtype, &ty.shape, *seed)
            }
            Input::Stored { ty, at } => {
                let dtype = ty.dtype.parse().map_err(|_| format!("no type {}", ty.dtype))?;
                Ok(Array { dtype, shape: ty.shape.clone(), data: self.read(*at)? })
            }
        }
    }
}

/// Numbers in -1 to 1, of float32 or 16 bits: the n-th comes from the seed and n alone (splitmix64; Steele,
/// Lea and Flood, 2014).
pub fn seeded(dtype: DType, shape: &[i64], seed: u64) -> Result<Array, String> {
    let count: i64 = shape.iter().product();
    let value = |n: i64| {
        let bits = mix(seed.wrapping_add((n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        (bits >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    let values = (0..count).map(value);
    let data: Vec<u8> = match dtype {
        DType::F32 => values.flat_map(f32::to_le_bytes).collect(),
        DType::F16 => values.flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect(),
        DType::BF16 => values.flat_map(|x| half::bf16::from_f32(x).to_le_bytes()).collect(),
        other => return Err(format!("no generator of {other}")),
    };
    Ok(Array { dtype, shape: shape.to_vec(), data })
}

/// The output function of splitmix64.
pub fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
