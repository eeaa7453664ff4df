// What `as_rust` makes of TVM's `pool` in `tests/tvm/subjects.py`.

use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::bytecode::{Arg, Reg};
use reflex_vm::executable::{ConstData, Constant, Executable, FuncKind, TensorConst};

/// Builds the executable.
pub fn build() -> Result<Executable, BuildError> {
    let mut b = ExecBuilder::new();
    b.declare_function("main", FuncKind::Vm);
    b.declare_function("vm.builtin.make_tuple", FuncKind::Packed);
    let c: [Arg; 40] = [
        b.c(Constant::Int(1152921504606846976)),
        b.c(Constant::Int(-4611686018427387904)),
        b.c(Constant::Str("".into())),
        b.c(Constant::Str("a \"word\"\né".into())),
        b.c(Constant::DType("float8_e4m3fn".parse().expect("a type"))),
        b.c(Constant::DType("float32x4".parse().expect("a type"))),
        b.c(Constant::Shape([0_i64; 0].into())),
        b.c(Constant::Shape([-1, 1099511627776].into())),
        b.c(Constant::Tensor(TensorConst { dtype: "bool".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 1, 1]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "int8".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 1, 1]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "int16".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 1, 0, 1, 0]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "int32".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "int64".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "uint8".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 1, 1]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "uint16".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 1, 0, 1, 0]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "uint32".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "uint64".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float16".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 0, 60, 0, 60]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float32".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 128, 63]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float64".parse().expect("a type"), shape: [1, 3].into(), data: ConstData::copy_of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 240, 63, 0, 0, 0, 0, 0, 0, 240, 63]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "bfloat16".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3, 4, 5, 6]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e3m4".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e4m3".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e4m3b11fnuz".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e4m3fn".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e4m3fnuz".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e5m2".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e5m2fnuz".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float8_e8m0fnu".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float6_e2m3fn".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float6_e3m2fn".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float4_e2m1fn".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float4_e2m1fnx2".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "int1".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "int2".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "int4".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "uint1".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "uint2".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "uint4".parse().expect("a type"), shape: [3].into(), data: ConstData::copy_of(&[1, 2, 3]) })),
        b.c(Constant::Tensor(TensorConst { dtype: "float32".parse().expect("a type"), shape: [0_i64; 0].into(), data: ConstData::copy_of(&[0, 0, 32, 64]) })),
    ];
    b.function("main", 1)?;
    b.emit_call("vm.builtin.make_tuple", &[Arg::Reg(Reg(0)), c[0], c[1], c[2], c[3], c[6], c[7], c[8], c[9], c[10], c[11], c[12], c[13], c[14], c[15], c[16], c[17], c[18], c[19], c[20], c[21], c[22], c[23], c[24], c[25], c[26], c[27], c[28], c[29], c[30], c[31], c[32], c[33], c[34], c[35], c[36], c[37], c[38], c[39]], Reg(1))?;
    b.emit_ret(Reg(1))?;
    b.end_function()?;
    b.finish()
}
