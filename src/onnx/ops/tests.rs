//! Result types of each operator group over symbolic dimensions, and what code is left of shape
//! arithmetic.

use prost::Message;
use reflex_graph::{EvalValue, Func, FuncData, Literal, Module, Node, eval_func};
use reflex_tir::{DType, Expr};

use crate::import_bytes;
use crate::proto::*;

/// A model in the making.
#[derive(Default)]
pub(super) struct Build {
    graph: GraphProto,
    /// Version of the default operator set; 18 where none is given.
    version: Option<i64>,
}

fn attribute(name: &str) -> AttributeProto {
    AttributeProto { name: name.into(), ..Default::default() }
}

pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i, r#type: attribute_type::INT, ..attribute(name) }
}

pub(super) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { ints: ints.to_vec(), r#type: attribute_type::INTS, ..attribute(name) }
}

pub(super) fn text(name: &str, s: &'static str) -> AttributeProto {
    let s = prost::bytes::Bytes::from_static(s.as_bytes());
    AttributeProto { s, r#type: attribute_type::STRING, ..attribute(name) }
}

fn graph(name: &str, g: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(g), r#type: attribute_type::GRAPH, ..attribute(name) }
}

/// `x: f32[n, 3, ?]` or `s: i64[]`.
fn value_info(text: &str) -> ValueInfoProto {
    let (name, rest) = text.split_once(": ").unwrap();
    let (dtype, dims) = rest.trim_end_matches(']').split_once('[').unwrap();
    let elem_type = match dtype {
        "f32" => data_type::FLOAT,
        "i32" => data_type::INT32,
        "i64" => data_type::INT64,
        "u8" => data_type::UINT8,
        "i8" => data_type::INT8,
        "bool" => data_type::BOOL,
        other => panic!("{other}"),
    };
    let dim = |d: &str| DimensionProto {
        value: match (d.parse(), d) {
            (Ok(value), _) => Some(DimensionValue::DimValue(value)),
            (_, "?") => None,
            (_, name) => Some(DimensionValue::DimParam(name.into())),
        },
    };
    let dim = dims.split(", ").filter(|d| !d.is_empty()).map(dim).collect();
    let tensor = TensorTypeProto { elem_type, shape: Some(TensorShapeProto { dim }) };
    let ty = TypeProto { tensor_type: Some(tensor), ..Default::default() };
    ValueInfoProto { name: name.into(), r#type: Some(ty) }
}

impl Build {
    pub(super) fn inputs(inputs: &[&str]) -> Build {
        let input = inputs.iter().map(|i| value_info(i)).collect();
        Build { graph: GraphProto { input, ..Default::default() }, version: None }
    }

    /// The same of an older or newer operator set.
    pub(super) fn opset(self, version: i64) -> Build {
        Build { version: Some(version), ..self }
    }

    fn constant(mut self, name: &str, values: &[i64]) -> Build {
        self.graph.initializer.push(TensorProto {
            name: name.into(),
            dims: vec![values.len() as i64],
            data_type: data_type::INT64,
            int64_data: values.to_vec(),
            ..Default::default()
        });
        self
    }

    /// A constant of any type.
    pub(super) fn raw(mut self, name: &str, dims: &[i64], data_type: i32, bytes: &[u8]) -> Build {
        self.graph.initializer.push(TensorProto {
            name: name.into(),
            dims: dims.to_vec(),
            data_type,
            raw_data: Some(prost::bytes::Bytes::copy_from_slice(bytes)),
            ..Default::default()
        });
        self
    }

    fn floats(mut self, name: &str, values: &[f32]) -> Build {
        self.graph.initializer.push(TensorProto {
            name: name.into(),
            dims: vec![values.len() as i64],
            data_type: data_type::FLOAT,
            float_data: values.to_vec(),
            ..Default::default()
        });
        self
    }

    /// `y, z = Op(a, b)`
    pub(super) fn node(mut self, text: &str, attribute: Vec<AttributeProto>) -> Build {
        let (outputs, call) = text.split_once(" = ").unwrap();
        let (op, inputs) = call.trim_end_matches(')').split_once('(').unwrap();
        let names = |list: &str| list.split(", ").map(String::from).collect::<Vec<_>>();
        self.graph.node.push(NodeProto {
            input: if inputs.is_empty() { vec![] } else { names(inputs) },
            output: names(outputs),
            op_type: op.into(),
            attribute,
            ..Default::default()
        });
        self
    }

    /// The same of the domain com.microsoft; an input `_` is left out.
    pub(super) fn contrib(self, text: &str, attribute: Vec<AttributeProto>) -> Build {
        let mut build = self.node(text, attribute);
        let node = build.graph.node.last_mut().expect("just added");
        node.domain = "com.microsoft".into();
        for name in node.input.iter_mut().chain(&mut node.output).filter(|name| *name == "_") {
            name.clear();
        }
        build
    }

    fn body(mut self, outputs: &[&str]) -> GraphProto {
        let info = |name: &&str| ValueInfoProto { name: name.to_string(), r#type: None };
        self.graph.output = outputs.iter().map(info).collect();
        self.graph
    }

    pub(super) fn import(self, outputs: &[&str]) -> Result<Func, String> {
        let module = self.module(outputs)?;
        match module.funcs.values().next() {
            Some(FuncData::Graph(func)) => Ok(func.clone()),
            _ => panic!("no function"),
        }
    }

    pub(super) fn module(self, outputs: &[&str]) -> Result<Module, String> {
        let opset = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
        let opset_import = vec![opset("", self.version.unwrap_or(18)), opset("com.microsoft", 1)];
        let graph = Some(self.body(outputs));
        let model = ModelProto { ir_version: 8, opset_import, graph, ..Default::default() };
        let module: Module =
            import_bytes(model.encode_to_vec(), None).map_err(|e| e.to_string())?;
        if let Err(faults) = reflex_graph::verify::verify(&module) {
            panic!("{}", faults[0]);
        }
        Ok(module)
    }

    /// The results on tensors, by the reference evaluator.
    pub(super) fn eval(self, outputs: &[&str], args: &[&Literal]) -> Vec<Literal> {
        let module = self.module(outputs).unwrap();
        let args: Vec<EvalValue> = args.iter().map(|l| EvalValue::Tensor((*l).clone())).collect();
        let func = module.funcs.keys().next().unwrap();
        let results = eval_func(&module, func, &args).unwrap();
        results.iter().map(|r| r.as_tensor().unwrap().clone()).collect()
    }

    /// Result types with the names of symbols.
    pub(super) fn types(self, outputs: &[&str]) -> String {
        let func = self.import(outputs).unwrap();
        let types: Vec<String> = func.body.results.iter().map(|v| show(&func, *v)).collect();
        types.join(" ")
    }
}

fn show(func: &Func, value: reflex_graph::Value) -> String {
    let mut text = func.tensor(value).to_string();
    for (var, data) in func.syms.iter().collect::<Vec<_>>().into_iter().rev() {
        text = text.replace(&var.to_string(), &data.name);
    }
    text
}

pub(super) fn ops(func: &Func) -> Vec<String> {
    let op = |node: &Node| match node {
        Node::Const(_) => None,
        Node::Op { op, .. } => Some(format!("{op:?}").split([' ', '(']).next()?.to_string()),
        other => Some(format!("{other:?}").split([' ', '(']).next()?.to_string()),
    };
    func.body.bindings.iter().filter_map(|b| op(&b.node)).collect()
}

#[test]
fn updates_of_another_extent_are_checked_at_run_time() {
    let inputs = |updates| Build::inputs(&["x: f32[n, 4]", "i: i64[k, 1]", updates]);
    let func =
        inputs("u: f32[m, 4]").node("y = ScatterND(x, i, u)", vec![]).import(&["y"]).unwrap();
    assert_eq!(ops(&func), ["MatchCast", "Scatter"]);
    let func =
        inputs("u: f32[k, 4]").node("y = ScatterND(x, i, u)", vec![]).import(&["y"]).unwrap();
    assert_eq!(ops(&func), ["Scatter"]);
    let wrong = inputs("u: f32[m, 5]").node("y = ScatterND(x, i, u)", vec![]).import(&["y"]);
    assert!(wrong.is_err());
}

#[test]
fn elementwise_operators_broadcast() {
    let b = Build::inputs(&["x: f32[n, 1, 4]", "y: f32[3, 1]"]);
    let b = b.node("s = Add(x, y)", vec![]).node("c = Less(x, y)", vec![]);
    assert_eq!(b.types(&["s", "c"]), "float32[n, 3, 4] bool[n, 3, 4]");
    let b = Build::inputs(&["x: f32[n, 4]", "y: f32[m, 4]"]).node("s = Mul(x, y)", vec![]);
    assert_eq!(ops(&b.import(&["s"]).unwrap()), ["MatchCast", "Binary"]);
}

#[test]
fn reductions_drop_or_keep_axes() {
    let b = Build::inputs(&["x: f32[n, 3, m]"]).constant("axes", &[-1]);
    let b = b.node("a = ReduceMean(x, axes)", vec![int("keepdims", 0)]);
    let b = b.node("b = ReduceLogSumExp(x, axes)", vec![]);
    let b = b.node("c = ArgMax(x)", vec![int("axis", 1)]);
    assert_eq!(b.types(&["a", "b", "c"]), "float32[n, 3] float32[n, 3, 1] int64[n, 1, m]");
}

#[test]
fn shape_arithmetic_leaves_no_code() {
    let b = Build::inputs(&["x: f32[n, s, 64]"]);
    let b = b.constant("zero", &[0]).constant("one", &[1]).constant("rest", &[4, -1]);
    let b = b.node("shape = Shape(x)", vec![]);
    let b = b.node("n = Gather(shape, zero)", vec![]).node("s = Gather(shape, one)", vec![]);
    let b = b.node("t = Concat(n, s, rest)", vec![int("axis", 0)]);
    let b = b.node("y = Reshape(x, t)", vec![]);
    let func = b.import(&["y"]).unwrap();
    assert_eq!(show(&func, func.body.results[0]), "float32[n, s, 4, 16]");
    assert_eq!(ops(&func), ["Reshape"]);
}

#[test]
fn results_are_as_long_as_their_data_says() {
    let b = Build::inputs(&["x: f32[n, m]"]).node("at = NonZero(x)", vec![]);
    let x = Literal::from_f32(vec![2, 3], &[0.0, 2.0, f32::NAN, -1.0, 0.0, -0.0]);
    let at = b.eval(&["at"], &[&x]).remove(0);
    assert_eq!(at, Literal::from_i64(vec![2, 3], &[0, 0, 1, 1, 2, 0]));
    let b = Build::inputs(&["x: f32[n]"]);
    let b = b.node("y, first, back, count = Unique(x)", vec![int("sorted", 0)]);
    let x = Literal::from_f32(vec![5], &[2.0, 1.0, 1.0, 3.0, 2.0]);
    let results = b.eval(&["y", "first", "back", "count"], &[&x]);
    assert_eq!(results[0], Literal::from_f32(vec![3], &[2.0, 1.0, 3.0]));
    let numbers: Vec<_> = results[1..].iter().map(|x| x.to_i64().unwrap()).collect();
    assert_eq!(numbers, [vec![0, 1, 3], vec![0, 1, 1, 2, 0], vec![2, 2, 1]]);
}

/// The words that the authors of Philox publish for key and counter 0.
#[test]
fn random_numbers_are_those_of_philox() {
    let seed = AttributeProto { f: 0.0, r#type: attribute_type::FLOAT, ..attribute("seed") };
    let attributes = vec![ints("shape", &[4]), int("dtype", 11), seed];
    let b = Build::inputs(&[]).node("x = RandomUniform()", attributes);
    let x = b.eval(&["x"], &[]).remove(0);
    let words: [u32; 4] = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
    let bytes: Vec<u8> =
        words.iter().flat_map(|w| (f64::from(*w) * 2f64.powi(-32)).to_le_bytes()).collect();
    assert_eq!(x.bytes(), bytes);
}

#[test]
fn data_dependent_shapes_are_matched() {
    let b = Build::inputs(&["x: f32[n, 6]", "shape: i64[2]"]).node("y = Reshape(x, shape)", vec![]);
    let func = b.import(&["y"]).unwrap();
    assert_eq!(show(&func, func.body.results[0]), "float32[shape_0, shape_1]");
    assert!(ops(&func).contains(&"MatchShape".to_string()));
}

#[test]
fn slices_clamp_symbolic_extents() {
    let slice = |start: i64, end: i64, step: i64| {
        let b = Build::inputs(&["x: f32[n, 8]"]);
        let b = b.constant("s", &[start]).constant("e", &[end]).constant("a", &[0]);
        let b = b.constant("t", &[step]).node("y = Slice(x, s, e, a, t)", vec![]);
        b.types(&["y"])
    };
    assert_eq!(slice(0, i64::MAX, 1), "float32[n, 8]");
    assert_eq!(slice(1, i64::MAX, 1), "float32[Sub(n, Min(1, n)), 8]");
    assert_eq!(slice(0, 5, 1), "float32[Min(5, n), 8]");
    assert_eq!(slice(0, i64::MAX, 2), "float32[FloorDiv(Add(n, 1), 2), 8]");
    assert_eq!(slice(i64::MAX, i64::MIN, -1), "float32[n, 8]");
}

#[test]
fn joins_and_splits_add_extents() {
    let b = Build::inputs(&["x: f32[n, 4]", "y: f32[n, m]"]);
    let b = b.node("j = Concat(x, y)", vec![int("axis", 1)]);
    let b = b.node("p, q = Split(x)", vec![int("axis", 1)]);
    assert_eq!(b.types(&["j", "p", "q"]), "float32[n, Add(m, 4)] float32[n, 2] float32[n, 2]");
}

#[test]
fn windows_over_symbolic_extents() {
    let b = Build::inputs(&["x: f32[n, 3, h, w]", "k: f32[8, 3, 3, 3]"]);
    let same = vec![text("auto_pad", "SAME_UPPER"), ints("strides", &[2, 2])];
    let b = b.node("a = Conv(x, k)", vec![ints("pads", &[1, 1, 1, 1])]);
    let b = b.node("b = Conv(x, k)", same);
    let pool = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let b = b.node("c = MaxPool(x)", pool).node("d = GlobalAveragePool(x)", vec![]);
    assert!(b.types(&["a", "c", "d"]).starts_with(
        "float32[n, 8, h, w] float32[n, 3, FloorDiv(h, 2), FloorDiv(w, 2)] float32[n, 3, 1, 1]"
    ));
}

/// Elements that are all different and of both signs.
fn numbers(shape: &[i64]) -> Literal {
    let count = shape.iter().product::<i64>();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) - 50) as f32).collect();
    Literal::from_f32(shape.to_vec(), &values)
}

fn close(a: &Literal, b: &Literal) -> bool {
    let floats = |l: &Literal| -> Vec<f32> {
        l.bytes().chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
    };
    let (x, y) = (floats(a), floats(b));
    a.shape() == b.shape() && x.iter().zip(&y).all(|(x, y)| (x - y).abs() <= 1e-5 * y.abs())
}

/// Padding that depends on symbolic extents gives what it gives for the same extents in numbers.
#[test]
fn automatic_padding_of_symbolic_extents() {
    let ops: [(&str, &[&str], Vec<AttributeProto>); 6] = [
        ("Conv(x, k)", &["y"], vec![]),
        ("MaxPool(x)", &["y"], vec![]),
        ("MaxPool(x)", &["y", "at"], vec![]),
        ("AveragePool(x)", &["y"], vec![]),
        ("AveragePool(x)", &["y"], vec![int("count_include_pad", 1)]),
        ("LpPool(x)", &["y"], vec![]),
    ];
    for (call, outputs, more) in ops {
        for mode in ["SAME_UPPER", "SAME_LOWER"] {
            for (stride, extents) in [(2, [5, 6]), (3, [7, 4]), (1, [4, 3])] {
                let build = |x: &str| {
                    let kernel = [vec![ints("kernel_shape", &[3, 2])], more.clone()].concat();
                    let same = vec![text("auto_pad", mode), ints("strides", &[stride, stride])];
                    let call = format!("{} = {call}", outputs.join(", "));
                    Build::inputs(&[x, "k: f32[2, 2, 3, 2]"]).node(&call, [kernel, same].concat())
                };
                let [h, w] = extents;
                let args = [&numbers(&[2, 2, h, w]), &numbers(&[2, 2, 3, 2])];
                let symbolic = build("x: f32[2, 2, h, w]").eval(outputs, &args);
                let fixed = build(&format!("x: f32[2, 2, {h}, {w}]")).eval(outputs, &args);
                assert!(close(&symbolic[0], &fixed[0]), "{call} {mode} {stride}");
                assert_eq!(symbolic.get(1), fixed.get(1), "{call} {mode} {stride}");
            }
        }
    }
}

/// A window of nothing but the least value is still at an element of the input.
#[test]
fn positions_of_the_least_value_are_inside() {
    let pool = |x: &str| {
        let same = vec![text("auto_pad", "SAME_LOWER"), ints("strides", &[2])];
        let attributes = [same, vec![ints("kernel_shape", &[2])]].concat();
        Build::inputs(&[x]).node("y, at = MaxPool(x)", attributes)
    };
    let least = Literal::from_f32(vec![2, 1, 3], &[f32::NEG_INFINITY; 6]);
    let symbolic = pool("x: f32[2, 1, w]").eval(&["at"], &[&least]);
    assert_eq!(symbolic, pool("x: f32[2, 1, 3]").eval(&["at"], &[&least]));
}

#[test]
fn transposed_convolutions_of_symbolic_extents_have_the_output_shape() {
    for shape in [[7, 9], [4, 12]] {
        for bias in ["", ", b"] {
            let build = |x: &str| {
                let attributes = vec![ints("strides", &[2, 2]), ints("output_shape", &shape)];
                let inputs = [x, "k: f32[2, 3, 3, 3]", "b: f32[3]"];
                let call = format!("y = ConvTranspose(x, k{bias})");
                Build::inputs(&inputs).node(&call, attributes)
            };
            let args = [&numbers(&[1, 2, 3, 5]), &numbers(&[2, 3, 3, 3]), &numbers(&[3])];
            let symbolic = build("x: f32[1, 2, h, w]").eval(&["y"], &args);
            assert_eq!(symbolic, build("x: f32[1, 2, 3, 5]").eval(&["y"], &args), "{shape:?}");
        }
    }
}

#[test]
fn nodes_may_come_in_any_order() {
    let inner = Build::default().node("t = Neg(u)", vec![]).node("u = Mul(late, x)", vec![]);
    let other = Build::default().node("e = Neg(x)", vec![]).body(&["e"]);
    let branches = vec![graph("then_branch", inner.body(&["t"])), graph("else_branch", other)];
    let b = Build::inputs(&["x: f32[3]", "c: bool[]"]);
    let b = b.node("z = Add(y, v)", vec![]).node("y = If(c)", branches);
    let b = b.node("late = Exp(x)", vec![]).node("v = Neg(late)", vec![]);
    let func = b.import(&["z"]).unwrap();
    // The first node waits for all others; these keep their order where they can.
    assert_eq!(ops(&func), ["Unary", "If", "Unary", "Binary"]);
}

#[test]
fn nodes_in_order_keep_it() {
    // A name that is written twice means the last one before its use, as it always did.
    let b = Build::inputs(&["x: f32[3]"]).node("a = Neg(x)", vec![]);
    let b = b.node("b = Exp(a)", vec![]).node("a = Floor(b)", vec![]).node("c = Ceil(a)", vec![]);
    let func = b.import(&["c"]).unwrap();
    let names = |b: &reflex_graph::Binding| format!("{:?}", b.node);
    let order: Vec<String> = func.body.bindings.iter().map(names).collect();
    let expected = ["Neg", "Exp", "Floor", "Ceil"];
    assert!(order.iter().zip(expected).all(|(node, op)| node.contains(op)), "{order:?}");
}

#[test]
fn cycles_name_their_nodes() {
    let mut b = Build::inputs(&["x: f32[3]"]).node("a = Add(x, c)", vec![]);
    b = b.node("b = Neg(a)", vec![]).node("c = Exp(b)", vec![]);
    b.graph.node[0].name = "sum".into();
    let message = b.import(&["c"]).unwrap_err();
    let path =
        "node `sum` (Add) reads node `#2` (Exp) reads node `#1` (Neg) reads node `sum` (Add)";
    assert!(message.contains(path), "{message}");
    let own = Build::inputs(&["x: f32[3]"]).node("a = Add(x, a)", vec![]).import(&["a"]);
    assert!(own.unwrap_err().contains("node `#0` (Add) reads node `#0` (Add)"));
    let missing = Build::inputs(&["x: f32[3]"]).node("a = Add(x, q)", vec![]).import(&["a"]);
    assert!(missing.unwrap_err().contains("value `q` is not defined"));
}

/// A model of any length is ordered without recursion.
#[test]
fn long_chains_are_ordered() {
    let mut b = Build::inputs(&["x: f32[3]"]).node("v0 = Neg(x)", vec![]);
    for n in 0..20_000 {
        b = b.node(&format!("v{} = Neg(v{n})", n + 1), vec![]);
    }
    b.graph.node.reverse();
    b.module(&["v20000"]).unwrap();
}

#[test]
fn resizing_multiplies_extents() {
    let b = Build::inputs(&["x: f32[n, 3, h, 8]"]).floats("scales", &[1.0, 1.0, 2.0, 0.5]);
    let b = b.node("y = Resize(x, , scales)", vec![text("mode", "linear")]);
    assert_eq!(b.types(&["y"]), "float32[n, 3, Mul(h, 2), 4]");
}

#[test]
fn products_and_recurrent_layers() {
    let b = Build::inputs(&["x: f32[t, n, 5]", "w: f32[1, 16, 5]", "r: f32[1, 16, 4]"]);
    let b = b.node("y, h, c = LSTM(x, w, r)", vec![int("hidden_size", 4)]);
    let b = b.node("m = Transpose(x)", vec![]).node("p = MatMul(m, x)", vec![]);
    let types = b.node("e = Einsum(x, x)", vec![text("equation", "tni,tnj->nij")]);
    assert_eq!(
        types.types(&["y", "h", "c", "e"]),
        "float32[t, 1, n, 4] float32[1, n, 4] float32[1, n, 4] float32[n, 5, 5]"
    );
}

#[test]
fn known_conditions_choose_a_branch() {
    let then = Build::default().node("t = Relu(x)", vec![]).body(&["t"]);
    let other = Build::default().node("e = Neg(x)", vec![]).body(&["e"]);
    let b = Build::inputs(&["x: f32[n, 3]"]).constant("three", &[3]).constant("one", &[1]);
    let b = b.node("s = Shape(x)", vec![]).node("d = Gather(s, one)", vec![]);
    let b = b.node("c = Equal(d, three)", vec![]);
    let b = b.node("y = If(c)", vec![graph("then_branch", then), graph("else_branch", other)]);
    assert_eq!(ops(&b.import(&["y"]).unwrap()), ["Binary"]);
}

#[test]
fn branches_of_different_extents_get_a_symbol() {
    let then = Build::default().node("t = Relu(x)", vec![]).body(&["t"]);
    let other = Build::default().node("e = Concat(x, x)", vec![int("axis", 0)]).body(&["e"]);
    let b = Build::inputs(&["x: f32[n, 3]", "c: bool[]"]);
    let b = b.node("y = If(c)", vec![graph("then_branch", then), graph("else_branch", other)]);
    let func = b.import(&["y"]).unwrap();
    assert_eq!(show(&func, func.body.results[0]), "float32[If_0_0, 3]");
    assert_eq!(ops(&func), ["If", "MatchCast"]);
}

#[test]
fn loops_open_extents_that_grow() {
    let body = Build::inputs(&["i: i64[]", "go: bool[]", "a: f32[m, 2]"]);
    let body = body.node("b = Concat(a, x)", vec![int("axis", 0)]);
    let body = body.node("out = Identity(go)", vec![]).body(&["out", "b", "i"]);
    let b = Build::inputs(&["x: f32[1, 2]", "trips: i64[]", "go: bool[]"]);
    let b = b.node("y, z = Loop(trips, go, x)", vec![graph("body", body)]);
    assert_eq!(b.types(&["y", "z"]), "float32[Loop_0_0, 2] int64[Loop_1_trips]");
}

#[test]
fn refusals_name_operator_and_attribute() {
    let b = Build::inputs(&["x: f32[2]"]).node("y = Relu(x)", vec![int("colour", 1)]);
    let message = b.import(&["y"]).unwrap_err();
    assert!(message.contains("(Relu): attribute `colour`"), "{message}");
    let b = Build::inputs(&["x: f32[2]"]).node("y = Fold(x)", vec![]).node("z = Knit(y)", vec![]);
    let message = b.import(&["z"]).unwrap_err();
    assert!(message.contains("ai.onnx::Fold") && message.contains("ai.onnx::Knit"), "{message}");
}

#[test]
fn symbolic_elements_become_literals_when_they_are_numbers() {
    use crate::value::Tensor;
    let known = Tensor::elements(DType::I64, &[2], vec![Expr::i64(1), Expr::i64(1) + 2]).unwrap();
    assert_eq!(known.as_literal(), Some(&Literal::from_i64(vec![2], &[1, 3])));
    assert!(Tensor::elements(DType::I32, &[1], vec![Expr::i64(1 << 40)]).is_none());
}

/// 8-bit integers of any bits, and their values.
fn bytes(dtype: DType, shape: &[i64], seed: i64) -> (Literal, Vec<i32>) {
    let count: i64 = shape.iter().product();
    let bytes: Vec<u8> = (0..count).map(|n| (n * n * 37 + n * 91 + seed) as u8).collect();
    let of = |byte: &u8| if dtype == DType::U8 { i32::from(*byte) } else { i32::from(*byte as i8) };
    let values = bytes.iter().map(of).collect();
    (Literal::new(dtype, shape.to_vec(), std::sync::Arc::new(bytes)).unwrap(), values)
}

const BYTES: [(&str, DType); 2] = [("u8", DType::U8), ("i8", DType::I8)];

fn int32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn integer_products_are_those_of_differences_from_zero_points() {
    for (a_name, a_type) in BYTES {
        for (b_name, b_type) in BYTES {
            let [(a, x), (za, zx)] =
                [(&[3, 5][..], 7), (&[3][..], 250)].map(|(s, n)| bytes(a_type, s, n));
            let [(b, y), (zb, zy)] =
                [(&[5, 4][..], 3), (&[4][..], 99)].map(|(s, n)| bytes(b_type, s, n));
            let inputs = [
                format!("a: {a_name}[3, 5]"),
                format!("b: {b_name}[5, 4]"),
                format!("za: {a_name}[3]"),
                format!("zb: {b_name}[4]"),
            ];
            let model = Build::inputs(&inputs.each_ref().map(String::as_str));
            let model = model.node("y = MatMulInteger(a, b, za, zb)", vec![]);
            let element = |i: usize, j: usize| -> i32 {
                (0..5).map(|k| (x[i * 5 + k] - zx[i]) * (y[k * 4 + j] - zy[j])).sum()
            };
            let expected: Vec<i32> = (0..12).map(|n| element(n / 4, n % 4)).collect();
            let results = model.eval(&["y"], &[&a, &b, &za, &zb]);
            assert_eq!(results[0].bytes(), int32s(&expected), "{a_name} {b_name}");
        }
    }
}

#[test]
fn integer_convolutions_pad_with_the_zero_point() {
    for (x_name, x_type) in BYTES {
        for (w_name, w_type) in BYTES {
            let [(x, xs), (zx, zxs)] =
                [(&[1, 4, 5][..], 7), (&[][..], 200)].map(|(s, n)| bytes(x_type, s, n));
            let [(w, ws), (zw, zws)] =
                [(&[4, 2, 3][..], 3), (&[4][..], 99)].map(|(s, n)| bytes(w_type, s, n));
            let inputs = [
                format!("x: {x_name}[1, 4, 5]"),
                format!("w: {w_name}[4, 2, 3]"),
                format!("zx: {x_name}[]"),
                format!("zw: {w_name}[4]"),
            ];
            let model = Build::inputs(&inputs.each_ref().map(String::as_str));
            let attributes = vec![int("group", 2), ints("pads", &[1, 1])];
            let model = model.node("y = ConvInteger(x, w, zx, zw)", attributes);
            // Two groups of two channels.
            let element = |o: usize, at: usize| -> i32 {
                let tap = |c: usize, k: usize| {
                    let inside = (1..=5).contains(&(at + k));
                    let x = if inside { xs[(o / 2 * 2 + c) * 5 + at + k - 1] - zxs[0] } else { 0 };
                    x * (ws[(o * 2 + c) * 3 + k] - zws[o])
                };
                (0..6).map(|n| tap(n / 3, n % 3)).sum()
            };
            let expected: Vec<i32> = (0..20).map(|n| element(n / 5, n % 5)).collect();
            let results = model.eval(&["y"], &[&x, &w, &zx, &zw]);
            assert_eq!(results[0].bytes(), int32s(&expected), "{x_name} {w_name}");
        }
    }
}
