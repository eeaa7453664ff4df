//! A text form of executables that reads back: TVM's instruction lines, plus what
//! `as_text` leaves out (constants, scopes, parameters, register counts).
//!
//! ```text
//! const c[0] = shape [2, 4]
//! @main(x) regs=3:
//!   call  vm.builtin.copy  in: %0           dst: %1
//!   If    %1, 2
//!   ret   %1
//!   ret   %0
//! @add1 packed_func;
//! ```
//!
//! The function table keeps the order of the text. Code is laid out in that order too,
//! so reading back gives the same executable up to the placement of functions' code.
//! Text from `;` on is a comment. Functions that are called but not declared are
//! declared packed, at the end.

use std::fmt::Write;

use reflex_runtime::dtype::DType;

use crate::bytecode::{Arg, Instr};
use crate::executable::{Constant, Executable, FuncKind, Function};
use crate::text::{func_name, instr_range};

mod parse;

pub use parse::parse;

/// Why text is not a listing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// The mistake there.
    pub reason: String,
}

/// Prints `exec`.
pub fn print(exec: &Executable) -> String {
    let mut out = String::new();
    for (index, constant) in exec.constants.iter().enumerate() {
        let _ = writeln!(out, "const c[{index}] = {}", constant_text(constant));
    }
    for (index, scope) in &exec.memory_scopes {
        let _ = writeln!(out, "scope c[{index}] {scope:?}");
    }
    for function in &exec.functions {
        print_function(&mut out, exec, function);
    }
    out
}

fn print_function(out: &mut String, exec: &Executable, f: &Function) {
    let (name, regs) = (name_text(&f.name), f.register_file_size);
    let params = if f.param_names.is_empty() {
        f.num_args.to_string()
    } else {
        f.param_names.iter().map(|p| name_text(p)).collect::<Vec<_>>().join(", ")
    };
    let _ = match f.kind {
        FuncKind::Packed => writeln!(out, "@{name} packed_func;"),
        FuncKind::VmTir => writeln!(out, "@{name}({params}) regs={regs} vm_tir_func;"),
        FuncKind::Vm => writeln!(out, "@{name}({params}) regs={regs}:"),
    };
    if f.kind != FuncKind::Vm {
        return;
    }
    for index in instr_range(f) {
        let Ok(instr) = exec.instr(index) else { break };
        let _ = writeln!(out, "{}", instr_text(exec, instr));
    }
}

fn instr_text(exec: &Executable, instr: Instr<'_>) -> String {
    let Instr::Call { dst, callee, args } = instr else {
        return crate::text::instr_text(exec, instr);
    };
    let callee = name_text(func_name(exec, callee));
    let args = args.iter().map(|arg| match arg {
        Ok(Arg::Reg(reg)) => reg.to_string(),
        Ok(Arg::Imm(value)) => format!("i{value}"),
        Ok(Arg::Const(index)) => format!("c[{index}]"),
        Ok(Arg::Func(index)) => format!("f[{}]", name_text(func_name(exec, index.into()))),
        Err(error) => format!("<{error}>"),
    });
    let args = args.collect::<Vec<_>>().join(", ");
    format!("  {:<6}{callee:<16} in: {args:<12} dst: {dst}", "call")
}

/// The name, quoted when it could be mistaken for something else.
fn name_text(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.$:-".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && name.chars().all(plain) { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() || c == ';' => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn constant_text(constant: &Constant) -> String {
    match constant {
        Constant::Int(value) => format!("int {value}"),
        Constant::Float(value) if value.is_nan() => format!("float 0x{:016x}", value.to_bits()),
        Constant::Float(value) => format!("float {value:?}"),
        Constant::DType(dtype) => {
            format!("dtype {} {} {}", dtype.code, dtype.bits, dtype.lanes)
        }
        Constant::Str(text) => format!("str {}", quoted(text)),
        Constant::Shape(shape) => format!("shape {shape:?}"),
        Constant::Tensor(t) => {
            let hex: String = t.data.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            let DType { code, bits, lanes } = t.dtype;
            format!("tensor {code} {bits} {lanes} {:?} {}", t.shape, quoted(&hex))
        }
    }
}
