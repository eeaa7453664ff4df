//! Code generation with Cranelift: loop IR in lowered form to relocatable ELF objects, in process.
//!
//! The quick one of two kernel generators, which needs nothing installed. Its code is to have the
//! same bits as LLVM's and as the evaluator, and the same two entries (see [`reflex_tir::abi`]), so
//! that the kernel cache, the loader and artifacts take its objects as they take LLVM's.
//!
//! Decision: docs/decisions/0068-baseline-kernels.md
//!
//! - `emit` turns expressions and statements into Cranelift IR. A vectorized loop runs four lanes of
//!   32 bits at once where its body has that form, and in order where it does not.
//! - `cpu` adds the two entry points, parallel regions on the host's thread pool, and workspaces.
//!
//! - `micro_kernel` has what Cranelift has no instructions for, written by an assembler: contractions in the CPU's
//!   widest vectors, and matrix registers (AMX).
//!
//! Not here: code for GPUs.
//!
//! ```
//! use reflex_tir::codegen::CpuTarget;
//! use reflex_tir::{DType, builder::FuncBuilder, lower};
//!
//! let mut f = FuncBuilder::new("twice");
//! let x = f.input("x", DType::F32, vec![4.into()]);
//! f.output("compute", "y", DType::F32, vec![4.into()], |f, i| f.at(x, i) + f.at(x, i));
//! let object = reflex_baseline::compile(&lower::lower(&f.finish()), &CpuTarget::host())?;
//! assert!(object.elf.starts_with(b"\x7fELF") && object.signature.num_outputs == 1);
//! # Ok::<(), reflex_baseline::BaselineError>(())
//! ```

mod cpu;
mod effort;
mod emit;
mod error;
mod hoist;
mod micro_kernel;
mod position;
mod shared_code;
mod target;
mod unit;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::Instant;

use reflex_tir::PrimFunc;
use reflex_tir::abi::raw_signature;
use reflex_tir::codegen::{
    Codegen, CpuTarget, KernelTier, ObjectFile, PROTOCOL, Request, Response, Target,
};
use reflex_tir::lower;
use reflex_tir::verify::{IrForm, verify};

pub use effort::Effort;
pub use error::{BaselineError, Result};
use unit::Unit;

/// Tells versions of Cranelift apart, for the kernel cache, whose keys hold a hash of this crate's
/// source too.
pub static IDENTITY: LazyLock<String> =
    LazyLock::new(|| format!("cranelift {}", cranelift_codegen::VERSION));

/// The same for [`Effort::Quick`], whose kernels are slower.
pub static QUICK_IDENTITY: LazyLock<String> = LazyLock::new(|| format!("{} quick", *IDENTITY));

/// Cranelift in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct CraneliftCodegen {
    /// The use of the kernels.
    pub effort: Effort,
}

impl Codegen for CraneliftCodegen {
    fn compile(&self, request: &Request) -> Response {
        let refused = |func: &str, message: String| {
            let func = func.to_owned();
            Response::Failed { func, message }
        };
        if request.protocol != PROTOCOL {
            let message =
                format!("the request speaks protocol {}, this is {PROTOCOL}", request.protocol);
            return refused("", message);
        }
        let Target::Cpu(target) = &request.target else {
            return refused("", "Cranelift has no code for a GPU; LLVM has".to_owned());
        };
        let mut objects = vec![];
        for func in &request.funcs {
            let text = if request.want_asm { Text::Wanted } else { Text::Unwanted };
            // An ill-typed function can panic inside Cranelift; the host goes on.
            let one = || compile_with(func, target, self.effort, text);
            let compiled = catch_unwind(AssertUnwindSafe(one));
            let panicked = || Err(BaselineError::new("the generator panicked"));
            match compiled.unwrap_or_else(|_| panicked()) {
                Ok(object) => objects.push(object),
                Err(error) => return refused(&func.name, error.to_string()),
            }
        }
        Response::Objects(objects)
    }
}

/// Whether the assembly is returned too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Wanted,
    Unwanted,
}

/// Compiles one function to an object file.
pub fn compile(func: &PrimFunc, target: &CpuTarget) -> Result<ObjectFile> {
    compile_with(func, target, Effort::Full, Text::Unwanted)
}

/// Compiles one function to an object file that is to be replaced soon.
pub fn compile_quickly(func: &PrimFunc, target: &CpuTarget) -> Result<ObjectFile> {
    compile_with(func, target, Effort::Quick, Text::Unwanted)
}

/// Compiles one function to an object file with its assembly text.
pub fn compile_with_asm(func: &PrimFunc, target: &CpuTarget) -> Result<ObjectFile> {
    compile_with(func, target, Effort::Full, Text::Wanted)
}

fn compile_with(
    func: &PrimFunc,
    target: &CpuTarget,
    effort: Effort,
    text: Text,
) -> Result<ObjectFile> {
    let start = Instant::now();
    verify(func, IrForm::Lowered).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
        BaselineError::new(format!("not a lowered function: {}", list.join("; ")))
    })?;
    // Dot products of bfloat16 as fused multiply-adds without subnormals: the same bits.
    let signature = raw_signature(func);
    let func = hoist::hoist(lower::lower_bf16_dots(func));
    let mut unit = Unit::new(&func, target, effort, text == Text::Wanted)?;
    cpu::build(&mut unit)?;
    let (elf, asm) = unit.finish()?;
    let micros = start.elapsed().as_micros() as u64;
    Ok(ObjectFile { signature, tier: KernelTier::Baseline, elf, asm, micros })
}
