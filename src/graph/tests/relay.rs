//! Relay text: what TVM prints is read and printed back, and means what TVM's Relay VM answers.
//!
//! The cases are in `tests/relay_text/cases`; `record.py` beside them records the answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex_graph::relay::RelayText;
use reflex_graph::{EvalValue, FuncData, FuncId, Literal, Module, eval_func, print, script};
use reflex_tir::{DType, half_float};
use serde_json::Value as Json;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/relay_text/cases");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "relay")).collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn read(path: &Path) -> RelayText {
    let text = std::fs::read_to_string(path).unwrap();
    RelayText::read(&text, &name(path)).unwrap_or_else(|e| panic!("{e}"))
}

fn lower(path: &Path) -> Module {
    read(path).lower().unwrap_or_else(|e| panic!("{e}"))
}

fn tensor(json: &Json) -> Literal {
    let dtype: DType = json["dtype"].as_str().unwrap().parse().unwrap();
    let shape = json["shape"].as_array().unwrap().iter().map(|d| d.as_i64().unwrap()).collect();
    let mut bytes = vec![];
    for value in json["values"].as_array().unwrap() {
        let float = || value.as_f64().unwrap();
        match dtype {
            DType::F64 => bytes.extend(float().to_le_bytes()),
            DType::F32 => bytes.extend((float() as f32).to_le_bytes()),
            DType::F16 => bytes.extend(half_float::f64_to_f16(float()).to_le_bytes()),
            DType::I64 => bytes.extend(value.as_i64().unwrap().to_le_bytes()),
            DType::I32 => bytes.extend((value.as_i64().unwrap() as i32).to_le_bytes()),
            DType::BOOL => bytes.push(u8::from(value.as_bool().unwrap())),
            _ => panic!("{dtype} in a case"),
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
        if a != b && (a - b).abs() > 1e-5 + 1e-4 * b.abs() {
            return Err(format!("{a} for {b}"));
        }
    }
    Ok(())
}

fn leaves(value: EvalValue, out: &mut Vec<Literal>) {
    match value {
        EvalValue::Tensor(literal) => out.push(literal),
        EvalValue::Tuple(items) => items.into_iter().for_each(|item| leaves(item, out)),
        other => panic!("{other:?} is no result of a case"),
    }
}

fn main_of(module: &Module) -> FuncId {
    module.funcs.iter().find(|(_, f)| f.name() == "main").unwrap().0
}

/// Evaluates a case and compares it with what TVM answered.
fn check(name: &str, module: &Module, case: &Json) -> Result<(), String> {
    let inputs = case["inputs"].as_array().unwrap().iter().map(tensor);
    let inputs: Vec<EvalValue> = inputs.map(EvalValue::Tensor).collect();
    let answers = eval_func(module, main_of(module), &inputs);
    if case["fails"].as_bool().unwrap_or(false) {
        let error = answers.err().map(|e| e.to_string()).unwrap_or_default();
        let told = error.contains("no arm of a `match`");
        return if told { Ok(()) } else { Err(format!("{name}: no failure: {error}")) };
    }
    let mut found = vec![];
    let answers = answers.map_err(|e| format!("{name}: {e}"))?;
    answers.into_iter().for_each(|a| leaves(a, &mut found));
    let expected: Vec<Literal> = case["outputs"].as_array().unwrap().iter().map(tensor).collect();
    assert_eq!(found.len(), expected.len(), "{name}");
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        close(found, expected).map_err(|reason| format!("{name}, result {index}: {reason}"))?;
    }
    Ok(())
}

#[test]
fn what_tvm_prints_is_printed_back() {
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(read(&path).to_string(), text, "{}", name(&path));
    }
}

#[test]
fn answers_are_those_of_tvm() {
    let mut wrong = vec![];
    let files = files();
    for path in &files {
        let module = match read(path).lower() {
            Ok(module) => module,
            Err(e) => {
                wrong.push(e.to_string());
                continue;
            }
        };
        let case = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let case = serde_json::from_str(&case).unwrap();
        wrong.extend(check(&name(path), &module, &case).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 16, "only {} cases were run", files.len());
}

/// Values of data types have a form in Reflex's own text.
#[test]
fn graphs_of_relay_are_printed_and_read_again() {
    for path in files() {
        let module = lower(&path);
        let text = print::module_with_metadata(&module);
        let again = script::parse(&text, &name(&path)).unwrap_or_else(|e| panic!("{e}\n{text}"));
        // A tuple that a call returns is read as one value for each of its items.
        let second = print::module_with_metadata(&again);
        let third = script::parse(&second, &name(&path)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(print::module_with_metadata(&third), second, "{}", name(&path));
        let case = std::fs::read_to_string(path.with_extension("json")).unwrap();
        check(&name(&path), &again, &serde_json::from_str(&case).unwrap()).unwrap();
    }
}

/// The error of a text whose body is `main`'s.
fn refused(definitions: &str, body: &str) -> String {
    let text = format!(
        "#[version = \"0.0.5\"]\n{definitions}\ndef @main(%x: Tensor[(2), float32]) {{\n{body}\n}}\n"
    );
    match RelayText::read(&text, "t").and_then(|text| text.lower()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(e) => e.to_string(),
    }
}

const LIST: &str = "type List[A] { Cons(A, List[A]), Nil, }";

#[test]
fn errors_have_lines_and_columns() {
    let cases = [
        ("", "%x +", "t:5:1: expected an expression, found `}`"),
        ("", "add(%x, %y)", "t:4:9: `%y` is not defined here"),
        ("", "nn.gru(%x)", "t:4:1: operator `nn.gru` is not supported"),
        ("", "nn.relu(%x, depth=2)", "t:4:13: attribute `depth` of `nn.relu` is not supported"),
        ("", "  ref(%x)", "t:4:3: `ref`: references are not supported; pass values on instead"),
        ("", "@f(%x)", "t:4:1: there is no function `@f`"),
        ("", "%x.0", "t:4:1: item 0 of Tensor[(2), float32]"),
        ("", "if (%x) { %x } else { %x }", "t:4:1: expected bool, found Tensor[(2), float32]"),
        (
            "",
            "let %f = tanh; %f",
            "t:4:10: `tanh` is no constructor; an operator is a value only where a function is expected",
        ),
        ("", "300u8", "t:4:1: `300u8` is out of range"),
        (LIST, "Cons(%x)", "t:4:1: 1 arguments for 2 parameters"),
        (
            LIST,
            "Cons(%x, Cons(1, Nil))",
            "t:4:10: expected List[Tensor[(2), float32]], found List[int32]",
        ),
        (
            LIST,
            "match (Cons(%x, Nil)) { Cons(%a, Nil) => { %a } }",
            "t:4:1: no arm handles `Cons(_, Cons(_, _))`: add one, or write `match?`",
        ),
        (
            "",
            "meta[relay.Constant][0]",
            "t:4:1: `meta[relay.Constant][0]` is not in the metadata; \
             print the module with `astext(show_meta_data=True)`",
        ),
        ("", "let %f = fn (%f) { %f(%f) }; %f", "t:4:23: expected _, found fn (_) -> _"),
    ];
    for (definitions, body, expected) in cases {
        assert_eq!(refused(definitions, body), expected, "{body}");
    }
}

/// Weights of depthwise convolutions with channels last, as TVM's MobileNet has them.
#[test]
fn depthwise_weights_may_begin_with_spatial_axes() {
    let text = "#[version = \"0.0.5\"]\n\
                def @main(%x: Tensor[(1, 2, 2, 2), float32], %w: Tensor[(2, 2, 2, 1), float32]) {\n  \
                nn.conv2d(%x, %w, padding=[0, 0, 0, 0], groups=2, channels=2, kernel_size=[2, 2], \
                data_layout=\"NHWC\", kernel_layout=\"HWOI\")\n}\n";
    let numbers = |first: u8| -> Vec<Json> { (first..first + 8).map(Json::from).collect() };
    let case = serde_json::json!({
        "inputs": [
            {"dtype": "float32", "shape": [1, 2, 2, 2], "values": numbers(0)},
            {"dtype": "float32", "shape": [2, 2, 2, 1], "values": numbers(1)},
        ],
        "outputs": [{"dtype": "float32", "shape": [1, 1, 1, 2], "values": [68, 100]}],
    });
    let module = RelayText::read(text, "t").unwrap().lower().unwrap_or_else(|e| panic!("{e}"));
    check("depthwise", &module, &case).unwrap();
    let other = text.replace("HWOI", "WHOI");
    let error = RelayText::read(&other, "t").unwrap().lower().unwrap_err().to_string();
    assert!(error.contains("layout WHOI is not supported"), "{error}");
}

/// Adaptive pools have windows that their results' sizes divide the extents into.
#[test]
fn adaptive_pools_divide_their_extents() {
    let cases = [
        (
            "nn.adaptive_avg_pool2d",
            "(1, 1, 2, 4)",
            "output_size=[1, 2]",
            vec![1, 1, 1, 2],
            vec![2.5, 4.5],
        ),
        (
            "nn.adaptive_max_pool1d",
            "(1, 2, 4)",
            "output_size=[2]",
            vec![1, 2, 2],
            vec![1., 3., 5., 7.],
        ),
        (
            "nn.adaptive_avg_pool3d",
            "(1, 1, 2, 2, 2)",
            "output_size=[1, 1, 1]",
            vec![1; 5],
            vec![3.5],
        ),
        (
            "nn.adaptive_max_pool2d",
            "(1, 2, 2, 2)",
            "output_size=[2, 1], layout=\"NHWC\"",
            vec![1, 2, 1, 2],
            vec![2., 3., 6., 7.],
        ),
    ];
    for (name, shape, attrs, dims, values) in cases {
        let text = format!(
            "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[{shape}, float32]) {{\n  {name}(%x, {attrs})\n}}\n"
        );
        let extents: Vec<i64> =
            shape.trim_matches(['(', ')']).split(", ").map(|n| n.parse().unwrap()).collect();
        let case = serde_json::json!({
            "inputs": [{
                "dtype": "float32",
                "shape": extents,
                "values": (0..8).collect::<Vec<_>>(),
            }],
            "outputs": [{"dtype": "float32", "shape": dims, "values": values}],
        });
        let module = RelayText::read(&text, "t").unwrap().lower().unwrap_or_else(|e| panic!("{e}"));
        check(name, &module, &case).unwrap();
    }
    let error = refused("", "nn.adaptive_avg_pool1d(%x, output_size=[3, 1])");
    assert!(error.contains("`output_size` has 1 numbers"), "{error}");
    let text = "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(1, 1, 4), float32]) {\n  \
                nn.adaptive_avg_pool1d(%x, output_size=[3])\n}\n";
    let error = RelayText::read(text, "t").unwrap().lower().unwrap_err().to_string();
    assert!(error.contains("does not divide the extents"), "{error}");
}

/// Neither depth nor size of a text, its types or its branches ends in anything but an error.
#[test]
fn hostile_texts_are_refused() {
    let many = 20_000;
    let deep = |open: &str, close: &str| format!("{}%x{}", open.repeat(many), close.repeat(many));
    let chain = |link: &str| format!("%x{}", link.repeat(many));
    for body in [deep("(", ")"), deep("nn.relu(", ")"), chain("(%x)"), chain(".0"), chain(" + %x")]
    {
        assert!(refused("", &body).contains("levels deep"));
    }
    assert!(refused("", &deep("if (True) {", "} else { %x }")).contains("levels deep"));
    let pairs: String = (0..80).map(|n| format!("let %y{} = (%y{n}, %y{n}); ", n + 1)).collect();
    assert!(refused("", &format!("let %y0 = (%x, %x); {pairs} %y80")).contains("too many parts"));
    let arms: String = (0..500).map(|n| format!("C{n} => {{ %x }}, ")).collect();
    let constructors: String = (0..500).map(|n| format!("C{n}, ")).collect();
    let wide = format!("type Wide {{ {constructors} }}");
    assert!(refused(&wide, &format!("match (C7) {{ {arms} }}")).contains("tests in a row"));
}

/// `Inline` and `Primitive` ask for calls of a function to be inlined; what is written inside of another is private.
#[test]
fn attributes_mark_functions_to_be_inlined() {
    let text = "#[version = \"0.0.5\"]
def @f(%x: float32, Primitive=1) -> float32 { %x }
def @g(%x: float32, Inline=0) -> float32 { %x }
def @main(%x: float32) {
  let %h = fn (%y: float32, Inline=1) -> float32 { tanh(%y) };
  %h(@f(@g(%x)))
}
";
    let module = RelayText::read(text, "marks").and_then(|text| text.lower()).unwrap();
    let marks = |module: &Module| -> Vec<(bool, bool)> {
        let marks = module.funcs.values().map(|func| match func {
            FuncData::Graph(func) => (func.is_private, func.inline),
            FuncData::Prim(_) => panic!("a kernel"),
        });
        marks.collect()
    };
    let expected = [(false, true), (false, false), (false, false), (true, true)];
    assert_eq!(marks(&module), expected);
    let text = print::module(&module);
    assert_eq!(text.matches("@R.function(private=True)").count(), 1, "{text}");
    assert_eq!(marks(&script::parse(&text, "marks").unwrap()), expected, "{text}");
}
