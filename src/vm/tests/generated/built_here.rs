// What `as_rust` makes of `built_here` in `tests/tvm.rs`.

use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::bytecode::{Arg, Reg};
use reflex_vm::executable::{ConstData, Constant, Executable, FuncKind, TensorConst};

/// Builds the executable.
pub fn build() -> Result<Executable, BuildError> {
    let mut b = ExecBuilder::new();
    b.declare_function("pass", FuncKind::Vm);
    b.declare_function("vm.builtin.copy", FuncKind::Packed);
    b.declare_function("main", FuncKind::Vm);
    b.declare_function("vm.builtin.check_tensor_info", FuncKind::Packed);
    b.declare_function("vm.builtin.alloc_shape_heap", FuncKind::Packed);
    b.declare_function("vm.builtin.match_shape", FuncKind::Packed);
    b.declare_function("vm.builtin.read_if_cond", FuncKind::Packed);
    b.declare_function("vm.builtin.null_value", FuncKind::Packed);
    b.declare_function("vm.builtin.make_shape", FuncKind::Packed);
    b.declare_function("vm.builtin.invoke_closure", FuncKind::Packed);
    b.declare_function("vm.builtin.make_tuple", FuncKind::Packed);
    let c: [Arg; 5] = [
        b.c(Constant::DType("float32".parse().expect("a type"))),
        b.c(Constant::Str("in \"main\"\n".into())),
        b.c(Constant::Tensor(TensorConst { dtype: "float32".parse().expect("a type"), shape: [2].into(), data: ConstData::copy_of(&[0, 0, 128, 63, 0, 0, 0, 64]) })),
        b.c(Constant::Int(-9223372036854775808)),
        b.c(Constant::Float(f64::from_bits(0x3fe0000000000000))),
    ];
    b.function("pass", 1)?;
    b.emit_call("vm.builtin.copy", &[Arg::Reg(Reg(0))], Reg(1))?;
    b.emit_ret(Reg(1))?;
    b.end_function()?;
    b.function("main", 2)?;
    b.emit_call("vm.builtin.check_tensor_info", &[Arg::Reg(Reg(1)), Arg::Imm(2), c[0], c[1]], Reg::VOID)?;
    b.emit_call("vm.builtin.alloc_shape_heap", &[Arg::Reg(Reg::VM), Arg::Imm(3)], Reg(2))?;
    b.emit_call("vm.builtin.match_shape", &[Arg::Reg(Reg(1)), Arg::Reg(Reg(2)), Arg::Imm(2), Arg::Imm(1), Arg::Imm(1), Arg::Imm(0), Arg::Imm(3), c[1]], Reg::VOID)?;
    b.emit_call("vm.builtin.read_if_cond", &[Arg::Reg(Reg(0))], Reg(3))?;
    b.emit_if_by(Reg(3), 2)?;
    b.emit_call("vm.builtin.null_value", &[], Reg(3))?;
    b.emit_call("vm.builtin.make_shape", &[Arg::Reg(Reg(2)), Arg::Imm(2), Arg::Imm(1), Arg::Imm(1), Arg::Imm(0), Arg::Imm(-7)], Reg(4))?;
    b.emit_call("vm.builtin.invoke_closure", &[Arg::Reg(Reg::VM), Arg::Func(0), Arg::Reg(Reg(0))], Reg(5))?;
    b.emit_call("pass", &[c[2]], Reg(6))?;
    b.emit_call("vm.builtin.make_tuple", &[c[3], c[4]], Reg(7))?;
    b.emit_call("vm.builtin.make_tuple", &[Arg::Reg(Reg(5)), Arg::Reg(Reg(4)), Arg::Reg(Reg(6)), c[1]], Reg(8))?;
    b.emit_ret(Reg(8))?;
    b.end_function()?;
    b.finish()
}
