//! Script text: what TVM prints is read, means what TVM computed, and prints again the same.
//!
//! The corpus is `tests/filetests/relax/*.py`, made by `generate.py` there. What we print for
//! each file is next to it in `printed/`; `REFLEX_BLESS=1` rewrites that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cranelift_entity::EntityRef;
use reflex_graph::dims::simplify;
use reflex_graph::print::{module, module_with_metadata};
use reflex_graph::script::{Script, parse, parse_file};
use reflex_graph::{EvalValue, FuncData, FuncId, LeafExpr, Literal, Module, Node, eval_func};
use reflex_tir::{DType, Expr};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/relax")
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .filter(|path| path.file_name().is_some_and(|n| n != "generate.py"))
        .collect();
    files.sort();
    assert!(files.len() > 10, "the corpus is missing");
    files
}

fn read(path: &Path) -> Module {
    parse_file(path).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn text_round_trips() {
    for path in files() {
        let first = module_with_metadata(&read(&path));
        let again =
            parse(&first, "printed").unwrap_or_else(|e| panic!("{}: {e}\n{first}", path.display()));
        assert_eq!(module_with_metadata(&again), first, "{}", path.display());
    }
}

/// Operators that raise for an index out of range, which TVM's do not, say so in the text.
#[test]
fn the_meaning_of_bad_indices_round_trips() {
    let text = |call: &str| {
        format!(
            "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((4, 3), \
             dtype=\"float32\"), i: R.Tensor((2, 3), dtype=\"int64\"), u: R.Tensor((2, 3), \
             dtype=\"float32\"), c: R.Tensor((5, 2), dtype=\"int64\"), v: R.Tensor((5,), \
             dtype=\"float32\")):\n        y = {call}\n        return y\n"
        )
    };
    let calls = [
        ("R.take(x, i, axis=0", ", mode=\"fast\")"),
        ("R.gather_elements(x, i, axis=0", ")"),
        ("R.gather_nd(x, c, batch_dims=0", ")"),
        ("R.scatter_elements(x, i, u, axis=0, reduction=\"add\"", ")"),
        ("R.scatter_nd(x, c, v, reduction=\"update\"", ")"),
    ];
    for (call, clamped) in calls {
        for end in [clamped, ", mode=\"raise\")"] {
            let call = format!("{call}{end}");
            let printed = module(&parse(&text(&call), "test").unwrap_or_else(|e| panic!("{e}")));
            assert!(printed.contains(&call), "{call} is not in {printed}");
            let again = parse(&printed, "printed").unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(module(&again), printed);
        }
    }
}

#[test]
fn a_script_prints_as_it_was_written() {
    for path in files() {
        let script = Script::read_file(&path).unwrap_or_else(|e| panic!("{e}"));
        let text = script.print();
        let again = Script::read(&text, "printed").unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again.print(), text, "{}", path.display());
        let meant = |script: &Script| module_with_metadata(&script.lower().unwrap());
        assert_eq!(meant(&again), meant(&script), "{}", path.display());
    }
    let written = "@I.ir_module\nclass Module:\n    @R.function\n    \
        def main(x: R.Tensor((2, 4), dtype=\"float32\")) -> R.Tensor((2, 4), dtype=\"float32\"):\n        \
        with R.dataflow():\n            y = R.nn.gelu(x)\n            z = (y - (x - y)) * (-y)\n            \
        R.output(z)\n        return z\n";
    let text = Script::read(written, "gelu.py").unwrap().print();
    // What is rewritten to be compiled stands there as it was; brackets only where they matter.
    for part in ["with R.dataflow():", "y = R.nn.gelu(x)", "z = (y - (x - y)) * -y", "R.output(z)"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

/// The gradient is for TVM's pass that makes gradients.
#[test]
fn a_kernel_with_a_gradient_is_called_as_one_without() {
    let path = corpus().join("with_gradient.py");
    let text = std::fs::read_to_string(path).expect("the corpus");
    let plain = text
        .replace("R.call_tir_with_grad(", "R.call_tir(")
        .replace(", te_grad_name=\"add1_grad\", te_grad_kwargs={\"k\": 1.0}", "");
    assert!(plain != text && !plain.contains("grad"), "{plain}");
    let [one, other] = [text, plain].map(|text| module(&parse(&text, "test").unwrap()));
    assert_eq!(one, other);
}

/// Values that are not tensors, functions in functions, and functions as values.
#[test]
fn shapes_numbers_and_functions_are_values() {
    let text = "
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((\"n\", 2), dtype=\"float32\"), k: T.int64):
        n = T.int64()

        @R.function
        def inner(a: R.Tensor((2,), dtype=\"float32\")) -> R.Tensor((2,), dtype=\"float32\"):
            return R.add(a, R.sum(x, axis=[0]))

        y: R.Tensor((2,), dtype=\"float32\") = inner(R.sum(x, axis=[0]))
        s = R.shape([n + k, 2])
        return (y, s, k, R.str(\"word\"))
";
    let module = parse(text, "values.py").unwrap_or_else(|e| panic!("{e}"));
    let printed = module_with_metadata(&module);
    for part in [
        "def main_inner(a: R.Tensor((2,), dtype=\"float32\"), x: R.Tensor((n, 2), dtype=\"float32\"))",
        "R.call_packed(\"vm.builtin.make_closure\"",
        "R.call_packed(\"vm.builtin.invoke_closure\"",
        "R.shape([n + k, 2])",
        "R.str(\"word\")",
    ] {
        assert!(printed.contains(part), "{part} in\n{printed}");
    }
}

#[test]
fn printed_text_is_as_recorded() {
    let folder = corpus().join("printed");
    let bless = std::env::var_os("REFLEX_BLESS").is_some();
    for path in files() {
        let text = module(&read(&path));
        let golden = folder.join(path.file_name().unwrap());
        if bless {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&golden, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(text, expected, "{} (REFLEX_BLESS=1 accepts)", golden.display());
    }
}

/// A tensor of a `# in` or `# out` line.
fn tensor(line: &str) -> Literal {
    let mut words = line.split_whitespace();
    let dtype: DType = words.next().unwrap().parse().unwrap();
    let shape = words.next().unwrap().trim_matches(['(', ')']);
    let shape = shape.split(',').filter(|d| !d.is_empty()).map(|d| d.parse().unwrap()).collect();
    let mut bytes = vec![];
    for word in words {
        match dtype {
            DType::F64 => bytes.extend(word.parse::<f64>().unwrap().to_le_bytes()),
            DType::F32 => bytes.extend(word.parse::<f32>().unwrap().to_le_bytes()),
            DType::I64 => bytes.extend(word.parse::<i64>().unwrap().to_le_bytes()),
            DType::I32 => bytes.extend(word.parse::<i32>().unwrap().to_le_bytes()),
            DType::BOOL => bytes.push(word.parse::<u8>().unwrap()),
            _ => panic!("{dtype} in the corpus: {line:.60}"),
        }
    }
    Literal::new(dtype, shape, Arc::new(bytes)).unwrap()
}

fn close(found: &Literal, expected: &Literal) -> Result<(), String> {
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return Err(format!("{found:?} for {expected:?}"));
    }
    if found.dtype() != DType::F32 {
        return match found == expected {
            true => Ok(()),
            false => Err(format!("{:?} for {:?}", found.to_i64(), expected.to_i64())),
        };
    }
    let floats = |l: &Literal| -> Vec<f32> {
        l.bytes().chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
    };
    for (a, b) in floats(found).into_iter().zip(floats(expected)) {
        let same = a == b || a.is_nan() && b.is_nan();
        if !same && (a - b).abs() > 1e-5 + 1e-4 * b.abs() {
            return Err(format!("{a} for {b}"));
        }
    }
    Ok(())
}

fn fields(value: EvalValue, out: &mut Vec<Literal>) {
    match value {
        EvalValue::Tensor(literal) => out.push(literal),
        EvalValue::Tuple(items) => items.into_iter().for_each(|item| fields(item, out)),
        other => panic!("{other:?} is no result of the corpus"),
    }
}

/// Texts with kernels and packed functions, which the evaluator does not run; `tests/script.rs` at the root compiles them.
const COMPILED_ONLY: [&str; 2] = ["allocations.py", "legal.py"];

#[test]
fn answers_are_those_of_tvm() {
    let mut cases = 0;
    let mut wrong = vec![];
    let compiled_only = |path: &PathBuf| COMPILED_ONLY.iter().any(|name| path.ends_with(name));
    for path in files().into_iter().filter(|path| !compiled_only(path)) {
        let text = std::fs::read_to_string(&path).unwrap();
        let module = read(&path);
        let main = module.funcs.iter().find(|(_, f)| f.name() == "main");
        let main = main.map_or(FuncId::new(0), |(id, _)| id);
        for case in text.split("# case\n").skip(1) {
            cases += 1;
            let tagged = |tag| case.lines().filter_map(move |l| l.strip_prefix(tag)).map(tensor);
            let inputs: Vec<EvalValue> = tagged("# in ").map(EvalValue::Tensor).collect();
            let answers = eval_func(&module, main, &inputs);
            let answers = answers.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let mut found = vec![];
            answers.into_iter().for_each(|a| fields(a, &mut found));
            let expected: Vec<Literal> = tagged("# out ").collect();
            assert_eq!(found.len(), expected.len(), "{}", path.display());
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                if let Err(reason) = close(found, expected) {
                    let name = path.file_name().unwrap().to_string_lossy();
                    wrong.push(format!("{name}, result {index}: {reason}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases >= 15, "only {cases} cases were run");
}

#[test]
fn kernels_come_along() {
    let module = read(&corpus().join("mlp_fused.py"));
    let kernels = module.funcs.values().filter(|f| matches!(f, FuncData::Prim(_))).count();
    assert_eq!((module.funcs.len(), kernels), (2, 1));
}

/// TVM's virtual machine answers `[3, 2, 16, 1, 2, 12, 0, 0]` for a float16 tensor of shape [2, 3, 4]; the text is TVM's.
#[test]
fn fields_of_descriptors_are_those_of_tvm() {
    let text = r#"
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 3, 4), dtype="float16")) -> R.Tuple(T.int32, T.uint8, T.uint8, T.uint16, T.int64, T.int64, T.uint64, T.uint64):
        with R.dataflow():
            lv: T.int32 = R.inspect.tensor_ndim(x)
            lv1: T.uint8 = R.inspect.tensor_dtype_code(x)
            lv2: T.uint8 = R.inspect.tensor_dtype_bits(x)
            lv3: T.uint16 = R.inspect.tensor_dtype_lanes(x)
            lv4: T.int64 = R.inspect.tensor_shape_i(x, 0)
            lv5: T.int64 = R.inspect.tensor_stride_i(x, 0)
            lv6: T.uint64 = R.inspect.tensor_byte_offset(x)
            lv7: T.uint64 = R.inspect.tensor_elem_offset(x)
            gv: R.Tuple(T.int32, T.uint8, T.uint8, T.uint16, T.int64, T.int64, T.uint64, T.uint64) = lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7
            R.output(gv)
        return gv
"#;
    let module = parse(text, "inspect.py").unwrap_or_else(|e| panic!("{e}"));
    let Some(FuncData::Graph(main)) = module.funcs.values().last() else { panic!("no function") };
    let mut found = vec![];
    main.body.walk(&mut |binding| {
        if let Node::Leaf(LeafExpr::Int(field)) = &binding.node {
            found.push(simplify(&field.substitute(&|_| Some(Expr::i64(2)))).as_int());
        }
    });
    assert_eq!(found, [3, 2, 16, 1, 2, 12, 0, 0].map(Some));
}
