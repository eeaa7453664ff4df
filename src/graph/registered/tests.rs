use reflex_tir::DType;

use super::*;
use crate::{EvalValue, FuncData, Literal, Module, eval_func, print, script, verify};

const AFFINE: &str = r#"
@T.prim_func(s_tir=True)
def affine(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("affine"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(SCALE) + T.float32(1)
"#;

fn affine(name: &str) -> OpDef {
    OpDef::new(name)
        .attr("scale", AttrKind::Float, Some(2.0.into()))
        .infer(|call| Ok(vec![call.args[0].clone()]))
        .kernel(|call, _| {
            let Some(AttrValue::Float(scale)) = call.attr("scale") else {
                return Err("no scale".into());
            };
            let text = AFFINE.replace("SCALE", &format!("{scale:?}"));
            reflex_tir::script::parse(&text).map_err(|e| e.to_string())
        })
        .fusion(FusionKind::Elementwise)
}

fn module(call: &str) -> Result<Module, String> {
    let text = format!(
        r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")):
        y = {call}
        return y
"#
    );
    script::parse(&text, "test.py").map_err(|e| e.to_string())
}

#[test]
fn an_operator_is_read_verified_evaluated_and_printed() {
    register(affine("test_ops.affine")).unwrap();
    let module = module("R.test_ops.affine(x, scale=3)").unwrap();
    verify::verify(&module).unwrap();
    let printed = print::module(&module);
    assert!(printed.contains("R.test_ops.affine(x, scale=3.0)"), "{printed}");
    let again = script::parse(&printed, "again.py").unwrap();
    assert_eq!(print::module(&again), printed);
    let main = module.funcs.iter().find(|(_, f)| matches!(f, FuncData::Graph(_))).unwrap().0;
    let x = EvalValue::Tensor(Literal::from_f32(vec![1, 2], &[1.0, -2.0]));
    let results = eval_func(&module, main, &[x]).unwrap();
    assert_eq!(results[0].as_tensor(), Some(&Literal::from_f32(vec![1, 2], &[4.0, -5.0])));
}

#[test]
fn definitions_that_mean_nothing_are_refused() {
    let refused = |def: OpDef| register(def).unwrap_err();
    register(affine("test_ops.twice_registered")).unwrap();
    let text = refused(affine("relax.test_ops.twice_registered"));
    assert_eq!(text, "operator \"test_ops.twice_registered\" is registered already");
    for name in ["affine", "nn.affine", "reflex.affine", "a.for", "a..b", "", "a.b c"] {
        assert!(refused(affine(name)).starts_with("operator "), "{name}");
    }
    let cases = [
        (affine("t.a").operands(2, 1), "it cannot take 2 to 1 operands"),
        (affine("t.a").operands(0, 1), "it cannot take 0 to 1 operands"),
        (affine("t.a").packed("f"), "it has two implementations"),
        (affine("t.a").attr("scale", AttrKind::Int, None), "\"scale\" is declared twice"),
        (affine("t.a").attr("k", AttrKind::Int, Some("x".into())), "the default of the attribute"),
        (OpDef::new("t.a").packed("f"), "it has no inference"),
        (OpDef::new("t.a").infer(|_| Ok(vec![])), "it has no implementation"),
        (OpDef::new("t.a").infer(|_| Ok(vec![])).kernel_text("x = 1"), "its kernel: "),
        (
            OpDef::new("t.a").infer(|_| Ok(vec![])).packed("f").fusion(FusionKind::Broadcast),
            "a packed function fuses with nothing: it is not broadcast",
        ),
    ];
    for (def, expected) in cases {
        let text = refused(def);
        assert!(text.contains(expected) && text.starts_with("operator t.a: "), "{text}");
    }
}

#[test]
fn calls_that_do_not_fit_name_operator_and_reason() {
    register(affine("test_ops.strict")).unwrap();
    let inferred = |name: &str, infer: fn(&CallTypes<'_>) -> Result<Vec<TensorType>, String>| {
        register(OpDef::new(name).infer(infer).kernel_text(&AFFINE.replace("SCALE", "1"))).unwrap();
    };
    use crate::TensorType;
    inferred("test_ops.nothing", |_| Ok(vec![]));
    inferred("test_ops.refuses", |_| Err("not today".into()));
    inferred("test_ops.half", |call| {
        Ok(vec![TensorType::new(DType::F16, call.args[0].shape.clone())])
    });
    inferred("test_ops.wider", |call| {
        let [n, m] = &call.args[0].shape[..] else { return Err("a matrix".into()) };
        Ok(vec![TensorType::new(DType::F32, vec![n.clone(), m.clone() + 1])])
    });
    inferred("test_ops.two", |call| Ok(vec![call.args[0].clone(), call.args[0].clone()]));
    inferred("test_ops.negative", |_| Ok(vec![TensorType::new(DType::F32, vec![(-1).into()])]));
    let reducing = AFFINE.replace("SCALE", "1").replace("\"SS\"", "\"SR\"");
    let def = OpDef::new("test_ops.reduces").infer(|call| Ok(vec![call.args[0].clone()]));
    register(def.kernel_text(&reducing).fusion(FusionKind::Elementwise)).unwrap();
    let cases = [
        ("strict(x, factor=1)", "no attribute \"factor\"; it has scale"),
        ("strict(x, scale=\"a\")", "the attribute \"scale\" is no float"),
        ("strict(x, x)", "it takes 1 operands, not 2"),
        ("nothing(x)", "inference: it gives 0 types"),
        ("refuses(x)", "inference: not today"),
        ("half(x)", "its kernel: its parameter B is of float32 and rank 2, the tensor of float16"),
        ("wider(x)", "its kernel: dimension 1 of its parameter B is 2, that of the tensor 3"),
        ("two(x)", "its kernel: it takes 2 tensors, not 1 operands and 2 results"),
        ("negative(x)", "inference: an extent would be -1"),
        ("reduces(x)", "it has blocks that reduce, so it is not elementwise"),
    ];
    for (call, expected) in cases {
        let text = module(&format!("R.test_ops.{call}")).expect_err(call);
        assert!(text.contains(expected) && text.contains("operator test_ops."), "{call}: {text}");
        assert!(text.starts_with("test.py:6: "), "{text}");
    }
    assert!(module("R.test_ops.unknown(x)").unwrap_err().contains("is not supported"));
}

#[test]
fn dimensions_are_text_both_ways() {
    let def = OpDef::new("test_ops.text")
        .infer(|call| {
            let shape = &call.args[0].shape;
            let text = call.dim_text(&(shape[0].clone() * 2 + 1));
            assert_eq!(text, "n * 2 + 1");
            assert!(call.parse_dim("k").is_err() && call.parse_dim("n +").is_err());
            let dim = call.parse_dim("(n + 1) // 2")?;
            Ok(vec![TensorType::new(call.args[0].dtype, vec![dim])])
        })
        .packed("test_ops.text");
    use crate::TensorType;
    register(def).unwrap();
    let text = print::module(&module("R.test_ops.text(x)").unwrap());
    assert!(text.contains("R.Tensor(((n + 1) // 2,), dtype=\"float32\")"), "{text}");
}
