//! Damaged models through the façade, as an application or the command line uses it: `info`, `load`,
//! `prepare` and a call in every mode.
//!
//! A library is damaged in its executable only, and in its description without a call: its machine
//! code, and what it says of that code, are trusted. Its kernels are the real ones.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use arbitrary::{Result, Unstructured};
use reflex::{Array, DType, Dim, Engine, Feed, Mode, Program, Signature, memory};
use reflex_vm::serialize::MAGIC_V2;

use crate::blobs::Reached;
use crate::mutate;

/// The limits of a call.
const FUEL: u64 = 2_000;
const MEMORY: usize = 256 << 20;
/// The largest input, in elements.
const MAX_ELEMENTS: usize = 1 << 16;
/// The size of dimensions that a call chooses.
const DIM: i64 = 2;

/// A sound model to start from.
pub struct Model {
    ending: String,
    bytes: Vec<u8>,
}

/// A damaged model.
pub struct Case<'m> {
    ending: &'m str,
    bytes: Vec<u8>,
    calls: Calls,
}

/// Whether functions of a model may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    Made,
    /// The description of machine code may be wrong.
    Left,
}

impl Model {
    /// Reads a model; its name says the format.
    pub fn read(path: &Path) -> std::io::Result<Model> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Model { ending, bytes: std::fs::read(path)? })
    }

    /// The model with some damage.
    pub fn damaged(&self, u: &mut Unstructured<'_>) -> Result<Case<'_>> {
        let (ending, mut bytes, mut calls) = (&*self.ending, self.bytes.clone(), Calls::Made);
        match ending {
            "so" => calls = self.damage_library(u, &mut bytes)?,
            "py" => bytes = mutate::text(u, &String::from_utf8_lossy(&bytes))?.into_bytes(),
            _ => mutate::bytes(u, &mut bytes)?,
        }
        Ok(Case { ending, bytes, calls })
    }

    fn damage_library(&self, u: &mut Unstructured<'_>, bytes: &mut [u8]) -> Result<Calls> {
        let executable = executable_in(bytes);
        let description = find(bytes, b"{\"version\":").map(|at| {
            let end = bytes[at..].iter().position(|byte| *byte == 0).unwrap_or(0);
            at..at + end
        });
        let (range, calls) = match description {
            Some(range) if u.ratio(1, 8)? => (range, Calls::Left),
            _ => (executable, Calls::Made),
        };
        for _ in 0..u.int_in_range(1..=2)? {
            // Code comes last, and is most of what matters.
            let size = if u.arbitrary()? { range.len() } else { range.len().min(4096) };
            let at = range.end - size + u.choose_index(size)?;
            match u.int_in_range(0..=3)? {
                0 => bytes[at] = u.arbitrary()?,
                _ => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
            }
        }
        Ok(calls)
    }
}

/// Where the executable of a library lies in its file.
fn executable_in(bytes: &[u8]) -> std::ops::Range<usize> {
    let at = find(bytes, &MAGIC_V2.to_le_bytes()).expect("a library holds an executable");
    let size = bytes[..at].last_chunk().map_or(0, |size| u64::from_le_bytes(*size));
    at..at + size as usize
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// A place for damaged models, and the engine that opens them.
pub struct Driver {
    folder: PathBuf,
    engine: Engine,
    /// Its kernels are replaced at every call.
    swapping: Engine,
}

impl Driver {
    /// Works in a folder of its own, where compiled kernels stay.
    pub fn new(folder: &Path) -> Driver {
        let engine = |policy: &str| {
            let policy = policy.parse().expect("a policy");
            let engine = Engine::builder().cache(folder.join("cache")).tier(policy).build();
            engine.expect("the options are sound")
        };
        let (plain, swapping) = (engine(""), engine("kernels=tiered,kernel-swaps=forced"));
        Driver { folder: folder.to_owned(), engine: plain, swapping }
    }

    /// A damaged model is refused with an error, or is loaded, and its functions run in every mode to
    /// a result or an error. If it is compiled here, results are the same where Cranelift's kernels and
    /// LLVM's take turns.
    pub fn model(&self, case: &Case<'_>) -> Reached {
        let path = self.folder.join("case").with_extension(case.ending);
        // A new file: what is still mapped of the last one stays as it is.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, &case.bytes).expect("the folder can be written");
        memory::set_memory_limit(MEMORY);
        let info = Engine::info(&path);
        if let Ok(info) = &info {
            black_box(format!("{info:?}"));
        }
        let program = match self.engine.load(&path) {
            Ok(program) => program,
            Err(error) => {
                black_box(error.to_string());
                return if info.is_ok() { Reached::Read } else { Reached::Nothing };
            }
        };
        black_box((program.as_text(), program.stats()));
        match case.calls {
            Calls::Left => Reached::Verified,
            Calls::Made => {
                // Without LLVM there is one generator only.
                let swapping = (case.ending != "so").then(|| self.swapping.load(&path));
                calls(&program, swapping.and_then(reflex::Result::ok).as_ref())
            }
        }
    }
}

/// Calls every function in every mode, also of `swapping`, if there is one.
fn calls(program: &Program, swapping: Option<&Program>) -> Reached {
    let mut reached = Reached::Verified;
    for func in program.functions() {
        let Some(feed) = program.signature(&func).ok().and_then(|s| feed(&s)) else { continue };
        for mode in Mode::ALL {
            let Some(outcome) = call(program, &func, &feed, mode) else { continue };
            reached = Reached::Ran;
            let other = swapping.and_then(|other| call(other, &func, &feed, mode));
            if let (Ok(arrays), Some(Ok(others))) = (&outcome, &other) {
                let same = arrays.iter().zip(others).all(|(a, b)| a.1.data == b.1.data);
                assert!(same && arrays.len() == others.len(), "{func}, {mode}: other kernels");
            }
            black_box(outcome.map_or_else(|e| e.to_string().len(), |arrays| arrays.len()));
        }
    }
    reached
}

/// The results of a call, or its error; `None` if it cannot be made.
fn call(
    program: &Program,
    func: &str,
    feed: &Feed,
    mode: Mode,
) -> Option<reflex::Result<Vec<(String, Array)>>> {
    let prepared = program.prepare(func, feed).ok()?;
    let mut session = program.session(mode).ok()?;
    session.set_fuel(Some(FUEL));
    Some(session.call(&prepared).and_then(|outputs| outputs.arrays()))
}

/// Inputs for a function, if they are small enough.
fn feed(signature: &Signature) -> Option<Feed> {
    let mut feed = Feed::new();
    for input in &signature.inputs {
        let dim = |dim: &Dim| match dim {
            Dim::Const(size) => *size,
            Dim::Symbol(_) => DIM,
        };
        let shape: Vec<i64> = input.shape.iter().map(dim).collect();
        let mut sizes = shape.iter().map(|size| usize::try_from(*size).ok());
        let count = sizes.try_fold(1_usize, |all, size| all.checked_mul(size?))?;
        let dtype = if input.dtype == DType::VOID { DType::F32 } else { input.dtype };
        let data = vec![0; dtype.bytes_for(count).filter(|_| count <= MAX_ELEMENTS)?];
        feed.insert(input.name.clone(), Array { dtype, shape, data });
    }
    Some(feed)
}
