//! The printers that TVM has for executables, `as_text`, `as_python` and `stats`, and `as_rust`.
//!
//! `as_text` and `stats` are TVM's text, character for character, and also cover what
//! TVM's printers throw on (float constants). `as_python` differs where TVM's output is
//! not Python: special registers are named and constants are created, so that the
//! script runs. The text form that can be read back is [`crate::listing`].

use std::fmt::{self, Write};

use reflex_runtime::dtype::DType;

use crate::bytecode::{Arg, Args, BadWord, Instr, Reg};
use crate::executable::{Constant, Executable, FuncKind, Function, TensorConst};

mod rust;

pub use rust::as_rust;

/// Tensors of at most this many bytes are written inline in `as_python` and `as_rust`.
const MAX_INLINE_BYTES: usize = 4096;

/// The instructions of every function, as TVM's `as_text` prints them.
pub fn as_text(exec: &Executable) -> String {
    let mut out = String::new();
    for function in &exec.functions {
        write_function(&mut out, exec, function).expect("writing to a String cannot fail");
    }
    out
}

fn write_function(out: &mut String, exec: &Executable, f: &Function) -> fmt::Result {
    match f.kind {
        FuncKind::Packed => writeln!(out, "@{} packed_func;\n", f.name),
        FuncKind::VmTir => writeln!(out, "@{} num_inputs={} vm_tir_func;\n", f.name, f.num_args),
        FuncKind::Vm => {
            writeln!(out, "@{}:", f.name)?;
            for index in instr_range(f) {
                match exec.instr(index) {
                    Ok(instr) => writeln!(out, "{}", instr_text(exec, instr))?,
                    Err(BadWord::Truncated) => {
                        writeln!(out, "  <code ends at instruction {index}>")?;
                        break;
                    }
                    Err(error) => writeln!(out, "  <{error}>")?,
                }
            }
            out.push('\n');
            Ok(())
        }
    }
}

/// The instruction numbers a function claims; empty when they make no sense.
pub(crate) fn instr_range(f: &Function) -> std::ops::Range<usize> {
    let bound = |word: i64| usize::try_from(word).unwrap_or(0);
    bound(f.start_instr)..bound(f.end_instr)
}

/// The functions in bytecode, in the order of their code, which need not be that of the table.
pub(crate) fn by_code(exec: &Executable) -> Vec<&Function> {
    let mut functions: Vec<_> = exec.functions.iter().filter(|f| f.kind == FuncKind::Vm).collect();
    functions.sort_by_key(|f| f.start_instr);
    functions
}

/// One instruction, as `as_text` prints it.
pub(crate) fn instr_text(exec: &Executable, instr: Instr<'_>) -> String {
    match instr {
        Instr::Call { dst, callee, args } => {
            let callee = func_name(exec, callee);
            let args = args_text(exec, args);
            format!("  {:<6}{callee:<16} in: {args:<12} dst: {dst}", "call")
        }
        Instr::Ret { result } => format!("  {:<6}{result}", "ret"),
        Instr::Goto { offset } => format!("  {:<6}{offset}", "goto"),
        Instr::If { cond, false_offset } => format!("  {:<6}{cond}, {false_offset}", "If"),
    }
}

/// Name of a function table entry, or a mark that there is none.
pub(crate) fn func_name(exec: &Executable, index: i64) -> &str {
    usize::try_from(index)
        .ok()
        .and_then(|i| exec.functions.get(i))
        .map_or("<no such function>", |f| f.name.as_str())
}

fn args_text(exec: &Executable, args: Args<'_>) -> String {
    let each = args.iter().map(|arg| match arg {
        Ok(Arg::Reg(reg)) => reg.to_string(),
        Ok(Arg::Imm(value)) => format!("i{value}"),
        Ok(Arg::Const(index)) => format!("c[{index}]"),
        Ok(Arg::Func(index)) => format!("f[{}]", func_name(exec, index.into())),
        Err(error) => format!("<{error}>"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// A Python script that builds the executable with TVM's `ExecBuilder`.
pub fn as_python(exec: &Executable) -> String {
    let mut out = String::from("ib = rx.ExecBuilder()\n");
    // In table order: a function may be called before it is defined.
    for f in exec.functions.iter().filter(|f| f.kind != FuncKind::VmTir) {
        writeln!(out, "ib.declare_function({}, {})", python_string(&f.name), f.kind as i32)
            .expect("writing to a String cannot fail");
    }
    // By what the builder makes of each: it shares equal constants.
    out.push_str("c = []\n");
    for constant in &exec.constants {
        python_constant(&mut out, constant).expect("writing to a String cannot fail");
    }
    for f in by_code(exec) {
        python_function(&mut out, exec, f).expect("writing to a String cannot fail");
    }
    out
}

fn python_constant(out: &mut String, constant: &Constant) -> fmt::Result {
    match constant {
        Constant::Int(value) => python_append(out, &value.to_string()),
        Constant::Float(value) => {
            python_append(out, &format!("float.fromhex({:?})", hex_float(*value)))
        }
        Constant::DType(dtype) => python_append(out, &format!("tvm.DataType(\"{dtype}\")")),
        Constant::Str(text) => python_append(out, &python_string(text)),
        Constant::Shape(shape) => python_append(out, &format!("tvm.runtime.ShapeTuple({shape:?})")),
        Constant::Tensor(tensor) => python_tensor(out, tensor),
    }
}

fn python_append(out: &mut String, value: &str) -> fmt::Result {
    writeln!(out, "c.append(ib.convert_constant({value}))")
}

/// NumPy makes the elements that it has; others are a view of their bytes.
fn python_tensor(out: &mut String, t: &TensorConst) -> fmt::Result {
    let (shape, bytes) = (&t.shape, t.data.bytes());
    let known = numpy_has(t.dtype);
    let made = if known { t.dtype.to_string() } else { "uint8".to_owned() };
    let array = if bytes.len() > MAX_INLINE_BYTES {
        writeln!(out, "# {} bytes of data left out", bytes.len())?;
        format!(
            "np.zeros({}, dtype=\"{made}\")",
            bytes.len() / if known { t.dtype.itemsize() } else { 1 }
        )
    } else {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("np.frombuffer(bytes.fromhex(\"{hex}\"), dtype=\"{made}\")")
    };
    if known {
        return python_append(out, &format!("tvm.runtime.tensor({array}.reshape({shape:?}))"));
    }
    let view = format!("tvm.runtime.tensor({array})._create_view({shape:?}, \"{}\")", t.dtype);
    python_append(out, &view)
}

/// Whether NumPy has elements of this type, by this name.
fn numpy_has(dtype: DType) -> bool {
    let integers = [DType::I8, DType::I16, DType::I32, DType::I64];
    let naturals = [DType::U8, DType::U16, DType::U32, DType::U64];
    let others = [DType::BOOL, DType::F16, DType::F32, DType::F64];
    [integers, naturals, others].iter().any(|types| types.contains(&dtype))
}

/// The value in the form that Python's `float.fromhex` reads exactly.
fn hex_float(value: f64) -> String {
    if !value.is_finite() {
        return format!("{value}").to_lowercase();
    }
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (exponent, fraction) = ((bits >> 52) & 0x7FF, bits & ((1 << 52) - 1));
    match exponent {
        0 => format!("{sign}0x0.{fraction:013x}p-1022"),
        _ => format!("{sign}0x1.{fraction:013x}p{}", exponent as i64 - 1023),
    }
}

fn python_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn python_function(out: &mut String, exec: &Executable, f: &Function) -> fmt::Result {
    write!(out, "with ib.function({}, num_inputs={}", python_string(&f.name), f.num_args)?;
    if !f.param_names.is_empty() {
        let names: Vec<_> = f.param_names.iter().map(|name| python_string(name)).collect();
        write!(out, ", param_names=[{}]", names.join(", "))?;
    }
    out.push_str("):\n");
    for index in instr_range(f) {
        let Ok(instr) = exec.instr(index) else { break };
        out.push_str("    ");
        match instr {
            Instr::Call { dst, callee, args } => {
                let args: Vec<_> =
                    args.iter().map_while(Result::ok).map(|arg| python_arg(exec, arg)).collect();
                write!(
                    out,
                    "ib.emit_call(\"{}\", args=[{}]",
                    func_name(exec, callee),
                    args.join(", ")
                )?;
                if !dst.discards() {
                    write!(out, ", dst={}", python_reg(dst))?;
                }
                out.push_str(")\n");
            }
            Instr::Ret { result } => writeln!(out, "ib.emit_ret({})", python_reg(result))?,
            Instr::Goto { offset } => writeln!(out, "ib.emit_goto({offset})")?,
            Instr::If { cond, false_offset } => {
                writeln!(out, "ib.emit_if({}, {false_offset})", python_reg(cond))?;
            }
        }
    }
    Ok(())
}

fn python_reg(reg: Reg) -> String {
    match reg {
        Reg::VOID => "ib.void_arg()".to_owned(),
        Reg::VM => "ib.vm_state()".to_owned(),
        Reg(index) => format!("ib.r({index})"),
    }
}

fn python_arg(exec: &Executable, arg: Arg) -> String {
    match arg {
        Arg::Reg(reg) => python_reg(reg),
        Arg::Imm(value) => format!("ib.imm({value})"),
        Arg::Const(index) => format!("c[{index}]"),
        Arg::Func(index) => format!("ib.f(\"{}\")", func_name(exec, index.into())),
    }
}

/// The constant pool and the function table, as TVM's `stats` prints them.
pub fn stats(exec: &Executable) -> String {
    let constants: Vec<_> = exec.constants.iter().map(stats_constant).collect();
    let names: Vec<_> = exec.functions.iter().map(|f| f.name.as_str()).collect();
    format!(
        "Relax VM executable statistics:\n  Constant pool (# {}): [{}]\n  Globals (#{}): [{}]\n",
        constants.len(),
        constants.join(", "),
        names.len(),
        names.join(", ")
    )
}

fn stats_constant(constant: &Constant) -> String {
    match constant {
        Constant::Int(value) => value.to_string(),
        Constant::Float(value) => value.to_string(),
        Constant::DType(dtype) => dtype.to_string(),
        Constant::Str(text) => format!("\"{text}\""),
        Constant::Shape(shape) => format!("shapetuple{shape:?}"),
        Constant::Tensor(tensor) if tensor.shape.is_empty() => "scalar".to_owned(),
        Constant::Tensor(tensor) => format!("{:?}", tensor.shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::ExecBuilder;

    fn sample() -> Executable {
        let mut b = ExecBuilder::new();
        b.function("main", 1).unwrap();
        let shape = b.shape(&[1, 2]);
        let half = b.float(0.5);
        b.emit_call("vm.builtin.null_value", &[], b.r(4)).unwrap();
        b.emit_call("f", &[b.r(0), b.void_arg(), b.vm_state(), b.imm(-3).unwrap()], Reg::VOID)
            .unwrap();
        b.emit_call("g", &[shape, half], b.r(9)).unwrap();
        b.emit_ret(Reg(9)).unwrap();
        b.end_function().unwrap();
        b.finish().unwrap()
    }

    #[test]
    fn prints_what_tvm_prints() {
        let exec = sample();
        assert_eq!(
            as_text(&exec),
            "@main:\n  \
               call  vm.builtin.null_value in:              dst: %1\n  \
               call  f                in: %0, %void, %vm, i-3 dst: %void\n  \
               call  g                in: c[0], c[1]   dst: %2\n  \
               ret   %2\n\n\
             @vm.builtin.null_value packed_func;\n\n\
             @f packed_func;\n\n\
             @g packed_func;\n\n"
        );
        assert_eq!(
            stats(&exec),
            "Relax VM executable statistics:\n  Constant pool (# 2): [shapetuple[1, 2], 0.5]\n  \
             Globals (#4): [main, vm.builtin.null_value, f, g]\n"
        );
    }

    #[test]
    fn python_names_special_registers_and_constants() {
        let python = as_python(&sample());
        assert!(python.contains("ib.convert_constant(float.fromhex(\"0x1.0000000000000p-1\"))"));
        assert!(python.contains(
            "ib.emit_call(\"f\", args=[ib.r(0), ib.void_arg(), ib.vm_state(), ib.imm(-3)])\n"
        ));
    }
}
