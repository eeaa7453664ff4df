//! Code generation with LLVM: loop IR in lowered form to relocatable objects.
//!
//! `emit` turns statements into LLVM IR for any target; `cpu` adds what a CPU kernel has
//! around its body. The crate is the only one that links LLVM. It is normally reached through
//! the `reflex-codegen` process ([`process`]); tools and tests may call [`LlvmCodegen`] in
//! process. It schedules nothing: loops run as the function says.

mod cpu;
mod emit;
mod error;
pub mod process;

use std::panic::catch_unwind;
use std::time::Instant;

use inkwell::context::Context;
use reflex_tir::PrimFunc;
use reflex_tir::abi::raw_signature;
use reflex_tir::codegen::{Codegen, ObjectFile, OptLevel, PROTOCOL, Request, Response, Target};
use reflex_tir::verify::{IrForm, verify};

use cpu::machine;
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
        let mut objects = vec![];
        for func in &request.funcs {
            let compiled =
                catch_unwind(|| compile(func, &request.target, request.opt, request.want_asm));
            // An ill-typed function can panic inside inkwell; the process goes on.
            match compiled.unwrap_or_else(|_| Err(CodegenError::new("the generator panicked"))) {
                Ok(object) => objects.push(object),
                Err(error) => {
                    let (func, message) = (func.name.clone(), error.to_string());
                    return Response::Failed { func, message };
                }
            }
        }
        Response::Objects(objects)
    }
}

/// Compiles one function.
pub fn compile(
    func: &PrimFunc,
    target: &Target,
    opt: OptLevel,
    want_asm: bool,
) -> Result<ObjectFile> {
    let start = Instant::now();
    verify(func, IrForm::Lowered).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
        CodegenError::new(format!("not a lowered function: {}", list.join("; ")))
    })?;
    let context = Context::create();
    let machine = machine::create(target, opt)?;
    let module = cpu::build_module(&context, func, target)?;
    machine::optimise(&module, &machine, opt)?;
    // Generating code changes the module, so the text comes from a copy.
    let asm = match want_asm {
        true => Some(machine::assembly(&module.clone(), &machine)?),
        false => None,
    };
    let elf = machine::object(&module, &machine)?;
    let micros = start.elapsed().as_micros() as u64;
    Ok(ObjectFile { signature: raw_signature(func), elf, asm, micros })
}

/// The LLVM IR of one function before optimisation, for people.
pub fn llvm_ir(func: &PrimFunc, target: &Target) -> Result<String> {
    let context = Context::create();
    Ok(cpu::build_module(&context, func, target)?.print_to_string().to_string())
}
