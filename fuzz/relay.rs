//! Executables of TVM's Relay virtual machine from outside.
//!
//! Each instruction of a file has a hash over its fields. It protects nothing from those who mean
//! harm, so [`change`] damages instructions and leaves the hashes right.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use reflex_relay::executable::Executable;
use reflex_relay::instr::Instr;
use reflex_relay::kernels::Kernels;
use reflex_relay::lower::{RESERVED, lower};
use reflex_relay::read::read;
use reflex_relay::text;
use reflex_relay::verify::verify;
use reflex_relay::write::write;
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::executable::Executable as Bytecode;
use reflex_vm::program::Program;

use crate::blobs::{Everything, Reached, in_every_mode};

/// Bytes are refused with an offset inside them, or are an executable that is written and read back as
/// it was, and is refused by the verifier or runs, in every mode, to a result or an error.
pub fn file(bytes: &[u8]) -> Reached {
    match read(bytes) {
        Ok(exec) => executable(exec),
        Err(error) => {
            assert!(error.offset <= bytes.len(), "{error}");
            Reached::Nothing
        }
    }
}

/// The oracle over any executable, well formed or not.
pub fn executable(exec: Executable) -> Reached {
    assert_eq!(read(&write(&exec)).as_ref(), Ok(&exec), "written and read back is something else");
    reads_back(&exec);
    let Ok(verified) = verify(exec) else { return Reached::Read };
    let Ok(bytecode) = lower(&verified) else { return Reached::Verified };
    let bytecode = reflex_vm::verify::verify(bytecode).expect("what is lowered is well formed");
    let program = Program::load(bytecode, &[&Kernels(Everything)]);
    let Ok(program) = program else { return Reached::Verified };
    in_every_mode(&Arc::new(program), &argument);
    Reached::Ran
}

/// The listing is read as it was printed, if names are plain words.
fn reads_back(exec: &Executable) {
    let plain = |name: &String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let named = |f: &reflex_relay::executable::Function| {
        plain(&f.name) && f.params.iter().all(plain) && f.registers >= 0
    };
    if exec.functions.iter().all(named) {
        let printed = text::listing(exec);
        let again =
            text::parse(&printed, exec.dialect).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        let code = |functions: &[reflex_relay::executable::Function]| -> Vec<Vec<Instr>> {
            functions.iter().map(|f| f.code.clone()).collect()
        };
        assert_eq!(code(&again), code(&exec.functions), "{printed}");
    }
}

/// A list of tensors, as callers have it, for parameters with even numbers; bodies, which Relay's code
/// calls, get tensors.
fn argument(exec: &Bytecode, func: u32, param: u32) -> Any {
    let tensor = || Tensor::zeros(&[1], DType::F32).map_or(Any::NONE, Any::from);
    let is_inner = exec.functions[func as usize].name.starts_with(RESERVED);
    if is_inner || !param.is_multiple_of(2) {
        return tensor();
    }
    let nil = Any::from(Array::new([Any::from(-99_i64)]));
    (0..3).fold(nil, |rest, _| Array::new([Any::from(-100_i64), tensor(), rest]).into())
}

/// Changes fields of a few instructions.
pub fn change(u: &mut Unstructured<'_>, exec: &mut Executable) -> Result<()> {
    for _ in 0..u.int_in_range(1..=2)? {
        let count = exec.functions.len();
        if count == 0 {
            return Ok(());
        }
        let function = &mut exec.functions[u.choose_index(count)?];
        if function.code.is_empty() {
            continue;
        }
        let at = u.choose_index(function.code.len())?;
        let mut opcode = function.code[at].opcode();
        let mut fields = function.code[at].fields(exec.dialect);
        match u.int_in_range(0..=9)? {
            0 => opcode = u.int_in_range(0..=20)?,
            1 => function.registers = u.int_in_range(0..=20)?,
            2 => fields.push(u.int_in_range(0..=4)?),
            _ if fields.is_empty() => {}
            kind => {
                let field = u.choose_index(fields.len())?;
                fields[field] = match kind {
                    3 => fields[field] ^ (1 << u.int_in_range(0..=63)?),
                    _ => u.int_in_range(-2..=16)?,
                };
            }
        }
        if let Ok(instr) = Instr::decode(exec.dialect, opcode, &fields) {
            function.code[at] = instr;
        }
    }
    Ok(())
}
