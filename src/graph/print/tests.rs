use reflex_tir::{DType, Expr};

use crate::builder::FuncBuilder;
use crate::{Binary, Literal, Module, Op, TensorType};

#[test]
fn functions_print_as_relax() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let n = Expr::var(b.sym("n"));
    let x = b.param("x", TensorType::new(DType::F32, vec![n.clone(), Expr::i64(8)]));
    let w = b.param("w", TensorType::new(DType::F32, vec![Expr::i64(8), Expr::i64(5)]));
    let h = b.emit1(Op::MatMul, &[x, w]).unwrap();
    let zero = b.constant(Literal::from_f32(vec![], &[0.0]));
    let r = b.emit1(Op::Binary(Binary::Max), &[h, zero]).unwrap();
    let bias = b.constant(Literal::from_f32(vec![5], &[0.5, -1.0, 2.0, 3.0, 1e-5]));
    let big = b.constant(Literal::from_f32(vec![20, 5], &[1.0; 100]));
    let r = b.emit1(Op::Binary(Binary::Add), &[r, bias]).unwrap();
    let r = b.emit1(Op::Concat { axis: 0 }, &[r, big]).unwrap();
    b.finish(vec![r], vec!["output0".into()]);
    let text = super::module(&module);
    let expected = r#"# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), w: R.Tensor((8, 5), dtype="float32")) -> R.Tensor(("n + 20", 5), dtype="float32"):
        gv: R.Tensor((n, 5), dtype="float32") = R.matmul(x, w, out_dtype=None)
        gv1: R.Tensor((n, 5), dtype="float32") = R.nn.relu(gv)
        gv2: R.Tensor((n, 5), dtype="float32") = R.add(gv1, R.const([0.5, -1.0, 2.0, 3.0, 9.9999997473787516e-06], "float32"))
        gv3: R.Tensor((n + 20, 5), dtype="float32") = R.concat((gv2, metadata["ir.GenericConst"][0]), axis=0)
        return gv3

# Metadata omitted: 1 constants, 400 bytes.
# metadata["ir.GenericConst"][0]: float32[20, 5], 400 bytes
"#;
    assert_eq!(text, expected);
}
