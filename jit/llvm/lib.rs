//! Code generation with LLVM 19: loop IR in lowered form to relocatable ELF objects.
//!
//! This is the only crate that links LLVM. The engine reaches it through the process
//! `reflex-codegen`, which speaks [`process`] on a pipe: a [`Request`] in, a [`Response`] out.
//! Tools and tests call [`compile`] or [`LlvmCodegen`] in process.
//!
//! - `emit` turns expressions and statements into LLVM IR for any target. Values inside a vectorized
//!   loop are uniform, a ramp or varying; conditions that vary become masks.
//! - `cpu` adds the two entry points of a kernel (packed and raw, see [`reflex_tir::abi`]), parallel
//!   regions on the host's thread pool, and workspaces.
//! - `nvptx` makes kernels of a GPU function's launches, as PTX.
//!
//! Loops run as the function says: nothing is scheduled here, LLVM's loop and SLP vectorizers are off,
//! and there are no fast-math flags and no contraction, so results have the same bits at `O0` and
//! `O3`.
//!
//! ```
//! use reflex_tir::codegen::{OptLevel, CpuTarget};
//! use reflex_tir::{DType, builder::FuncBuilder, lower};
//!
//! let mut f = FuncBuilder::new("twice");
//! let x = f.input("x", DType::F32, vec![4.into()]);
//! f.output("compute", "y", DType::F32, vec![4.into()], |f, i| f.at(x, i) + f.at(x, i));
//! let object = reflex_llvm::compile(&lower::lower(&f.finish()), &CpuTarget::host(), OptLevel::O3)?;
//! assert!(object.elf.starts_with(b"\x7fELF") && object.signature.num_outputs == 1);
//! # Ok::<(), reflex_llvm::CodegenError>(())
//! ```

mod cpu;
mod emit;
mod error;
pub mod nvptx;
mod passes;
pub mod process;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use reflex_tir::PrimFunc;
use reflex_tir::abi::raw_signature;
use reflex_tir::codegen::{
    Codegen, CpuTarget, KernelTier, ObjectFile, OptLevel, PROTOCOL, Request, Response, Target,
};
use reflex_tir::verify::{IrForm, verify};

use cpu::{shared_code, target_machine};
pub use error::{CodegenError, Result};

/// LLVM in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct LlvmCodegen;

impl Codegen for LlvmCodegen {
    fn compile(&self, request: &Request) -> Response {
        if request.protocol != PROTOCOL {
            let message =
                format!("the request speaks protocol {}, this is {PROTOCOL}", request.protocol);
            return Response::Failed { func: String::new(), message };
        }
        match &request.target {
            Target::Cpu(cpu) => {
                let compile = match request.want_asm {
                    true => compile_with_asm,
                    false => compile,
                };
                let objects = each(&request.funcs, |func| compile(func, cpu, request.opt));
                objects.map_or_else(|failed| failed, Response::Objects)
            }
            Target::Gpu(gpu) => {
                let codes = each(&request.funcs, |func| nvptx::compile(func, gpu, request.opt));
                codes.map_or_else(|failed| failed, Response::Device)
            }
        }
    }
}

/// Compiles every function, or says which one failed.
fn each<T>(
    funcs: &[PrimFunc],
    compile: impl Fn(&PrimFunc) -> Result<T>,
) -> std::result::Result<Vec<T>, Response> {
    let one = |func: &PrimFunc| {
        let compiled = catch_unwind(AssertUnwindSafe(|| compile(func)));
        // An ill-typed function can panic inside inkwell; the process goes on.
        let panicked = || Err(CodegenError::new("the generator panicked"));
        compiled.unwrap_or_else(|_| panicked()).map_err(|error| {
            let (func, message) = (func.name.clone(), error.to_string());
            Response::Failed { func, message }
        })
    };
    funcs.iter().map(one).collect()
}

/// Compiles one function to an object file.
pub fn compile(func: &PrimFunc, target: &CpuTarget, opt: OptLevel) -> Result<ObjectFile> {
    Ok(compile_with(func, target, opt, |_, _| Ok(()))?.0)
}

/// Compiles one function to an object file with its assembly text.
pub fn compile_with_asm(func: &PrimFunc, target: &CpuTarget, opt: OptLevel) -> Result<ObjectFile> {
    // Generating code changes the module, so the text comes from a copy.
    let text =
        |module: &Module<'_>, machine: &TargetMachine| passes::assembly(&module.clone(), machine);
    let (object, asm) = compile_with(func, target, opt, text)?;
    Ok(ObjectFile { asm: Some(asm), ..object })
}

/// Compiles one function; `inspect` sees the optimised module before code is generated from it.
fn compile_with<T>(
    func: &PrimFunc,
    target: &CpuTarget,
    opt: OptLevel,
    inspect: impl FnOnce(&Module<'_>, &TargetMachine) -> Result<T>,
) -> Result<(ObjectFile, T)> {
    let start = Instant::now();
    verify(func, IrForm::Lowered).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
        CodegenError::new(format!("not a lowered function: {}", list.join("; ")))
    })?;
    let context = Context::create();
    let machine = target_machine::of(target, opt)?;
    let module = cpu::build_module(&context, func, target)?;
    passes::optimise(&module, &machine, opt, passes::FOR_CPU)?;
    let inspected = inspect(&module, &machine)?;
    shared_code::add(&module, &machine, target, opt)?;
    let elf = target_machine::object(&module, &machine)?;
    let micros = start.elapsed().as_micros() as u64;
    let (signature, tier) = (raw_signature(func), KernelTier::Optimised);
    let object = ObjectFile { signature, tier, elf, asm: None, micros };
    Ok((object, inspected))
}

/// The LLVM IR of one function before optimisation, for people.
pub fn llvm_ir(func: &PrimFunc, target: &CpuTarget) -> Result<String> {
    let context = Context::create();
    Ok(cpu::build_module(&context, func, target)?.print_to_string().to_string())
}
