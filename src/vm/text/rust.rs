//! An executable as a Rust function that builds it again with `ExecBuilder`.

use std::fmt::{self, Write};

use super::{MAX_INLINE_BYTES, by_code, func_name, instr_range};
use crate::bytecode::{Arg, Instr, Reg};
use crate::executable::{Constant, Executable, Function};

/// A Rust function `build` that makes the executable with `ExecBuilder`: the same function
/// table, constants and code. Native functions of TVM's compiled mode are declared only.
pub fn as_rust(exec: &Executable) -> String {
    let mut out = String::new();
    write(&mut out, exec).expect("writing to a String cannot fail");
    out
}

fn write(out: &mut String, exec: &Executable) -> fmt::Result {
    out.push_str(
        "use reflex_vm::builder::{BuildError, ExecBuilder};\n\
         use reflex_vm::bytecode::{Arg, Reg};\n\
         use reflex_vm::executable::{ConstData, Constant, Executable, FuncKind, TensorConst};\n\n\
         /// Builds the executable.\n\
         pub fn build() -> Result<Executable, BuildError> {\n    \
             let mut b = ExecBuilder::new();\n",
    );
    for f in &exec.functions {
        writeln!(out, "    b.declare_function({:?}, FuncKind::{:?});", f.name, f.kind)?;
    }
    writeln!(out, "    let c: [Arg; {}] = [", exec.constants.len())?;
    for constant in &exec.constants {
        out.push_str("        b.c(");
        write_constant(out, constant)?;
        out.push_str("),\n");
    }
    out.push_str("    ];\n");
    if exec.constants.is_empty() {
        out.push_str("    let _ = c;\n");
    }
    for f in by_code(exec) {
        write_function(out, exec, f)?;
    }
    out.push_str("    b.finish()\n}\n");
    Ok(())
}

fn write_constant(out: &mut String, constant: &Constant) -> fmt::Result {
    match constant {
        Constant::Int(value) => write!(out, "Constant::Int({value})"),
        Constant::Float(value) => {
            write!(out, "Constant::Float(f64::from_bits({:#018x}))", value.to_bits())
        }
        Constant::DType(dtype) => {
            write!(out, "Constant::DType({:?}.parse().expect(\"a type\"))", dtype.to_string())
        }
        Constant::Str(text) => write!(out, "Constant::Str({:?}.into())", &**text),
        Constant::Shape(shape) => write!(out, "Constant::Shape([{}].into())", dims(shape)),
        Constant::Tensor(t) => {
            let (dtype, bytes) = (t.dtype.to_string(), t.data.bytes());
            let data = if bytes.len() > MAX_INLINE_BYTES {
                format!("vec![0; {}] /* data left out */", bytes.len())
            } else {
                format!("{bytes:?}")
            };
            write!(
                out,
                "Constant::Tensor(TensorConst {{ dtype: {dtype:?}.parse().expect(\"a type\"), \
                 shape: [{}].into(), data: ConstData::copy_of(&{data}) }})",
                dims(&t.shape)
            )
        }
    }
}

/// Dimensions as literals whose type is known even when there are none.
fn dims(shape: &[i64]) -> String {
    match shape {
        [] => "0_i64; 0".to_owned(),
        _ => shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn write_function(out: &mut String, exec: &Executable, f: &Function) -> fmt::Result {
    if f.param_names.is_empty() {
        writeln!(out, "    b.function({:?}, {})?;", f.name, f.num_args)?;
    } else {
        writeln!(out, "    b.function_with_params({:?}, &{:?})?;", f.name, f.param_names)?;
    }
    for index in instr_range(f) {
        let Ok(instr) = exec.instr(index) else { break };
        out.push_str("    ");
        match instr {
            Instr::Call { dst, callee, args } => {
                let args: Vec<_> = args.iter().map_while(Result::ok).map(argument).collect();
                let callee = func_name(exec, callee);
                writeln!(out, "b.emit_call({callee:?}, &[{}], {})?;", args.join(", "), reg(dst))?;
            }
            Instr::Ret { result } => writeln!(out, "b.emit_ret({})?;", reg(result))?,
            Instr::Goto { offset } => writeln!(out, "b.emit_goto_by({offset})?;")?,
            Instr::If { cond, false_offset } => {
                writeln!(out, "b.emit_if_by({}, {false_offset})?;", reg(cond))?;
            }
        }
    }
    out.push_str("    b.end_function()?;\n");
    Ok(())
}

fn reg(reg: Reg) -> String {
    match reg {
        Reg::VOID => "Reg::VOID".to_owned(),
        Reg::VM => "Reg::VM".to_owned(),
        Reg(index) => format!("Reg({index})"),
    }
}

fn argument(arg: Arg) -> String {
    match arg {
        Arg::Reg(register) => format!("Arg::Reg({})", reg(register)),
        Arg::Imm(value) => format!("Arg::Imm({value})"),
        Arg::Const(index) => format!("c[{index}]"),
        Arg::Func(index) => format!("Arg::Func({index})"),
    }
}
