use super::*;
use crate::{FuncData, Module, script};

fn module(params: &str, lines: &[&str]) -> Module {
    let body: String = lines.iter().map(|line| format!("        {line}\n")).collect();
    let text =
        format!("@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n{body}");
    script::parse(&text, "test.py").unwrap()
}

/// Number of values of `main` that the pattern matches, and of bindings of the last match.
fn count(module: &Module, pattern: &Pattern) -> (usize, usize) {
    let FuncData::Graph(main) = module.funcs.values().last().unwrap() else { panic!() };
    let matcher = Matcher::new(module, main, &main.body);
    let found: Vec<Match> =
        main.values.keys().filter_map(|value| matcher.find(pattern, value)).collect();
    (found.len(), found.last().map_or(0, |found| found.bindings.len()))
}

fn network() -> Module {
    module(
        "x: R.Tensor((2, 4), \"float32\"), w: R.Tensor((4, 4), \"float32\")",
        &[
            "a = R.matmul(x, w)",
            "b = R.add(a, R.const([1.0, 2.0, 3.0, 4.0], \"float32\"))",
            "c = R.nn.relu(b)",
            "d = R.nn.softmax(c, axis=1)",
            "e = R.matmul(d, w)",
            "f = R.nn.relu(e)",
            "g = R.sum(f, axis=[1], keepdims=True)",
            "h = R.reshape(R.concat((e, f), axis=0), (16,))",
            "return (g, h, R.astype(f, \"float16\"))",
        ],
    )
}

#[test]
fn operators_match_by_name_operands_attributes_and_types() {
    let (network, any) = (network(), wildcard);
    let matmul = is_op("relax.matmul").call([any(), any()]);
    let relu = |x| is_op("relax.nn.relu").call([x]);
    let cases = [
        (matmul.clone(), (2, 1)),
        (is_op("matmul"), (2, 1)),
        (is_op("relax.matmul").call([any()]), (0, 0)),
        (is_op("relax.matmul").call_with_more([is_var("x")]), (1, 1)),
        (relu(matmul.clone()), (1, 2)),
        (relu(matmul.clone() | is_op("relax.add").call([matmul.clone(), is_const()])), (2, 2)),
        (is_op("relax.add").call([any(), is_const()]), (1, 1)),
        (is_op("relax.add").call([any(), !is_const()]), (0, 0)),
        (is_op("relax.nn.softmax").has_attr([("axis", 1.into())]), (1, 1)),
        (is_op("relax.nn.softmax").has_attr([("axis", 0.into())]), (0, 0)),
        (
            is_op("relax.sum").has_attr([("keepdims", true.into()), ("axis", vec![1].into())]),
            (1, 1),
        ),
        (matmul.has_dtype(DType::F32), (2, 1)),
        (matmul.has_dtype(DType::F16), (0, 0)),
        (matmul.has_shape([Some(2), None]), (2, 1)),
        (matmul.has_shape([Some(2)]), (0, 0)),
        (is_op("relax.astype").has_attr([("dtype", "float16".into())]), (1, 1)),
        (is_op("relax.reshape").call([any(), is_shape([Some(16)])]), (1, 1)),
        (is_op("relax.reshape").call([any(), is_shape([None, None])]), (0, 0)),
        (is_op("relax.concat").call([is_tuple([any(), relu(any())])]), (1, 2)),
        (is_op("relax.concat").call([is_tuple([any()])]), (0, 0)),
        (matmul.clone() & is_op("relax.matmul").has_shape([None, Some(4)]), (2, 1)),
        (make_fused_bias_activation_pattern("relax.matmul", true, Some("relax.nn.relu")), (1, 3)),
        (is_var(""), (2, 0)),
        (is_const(), (1, 0)),
    ];
    for (at, (pattern, expected)) in cases.into_iter().enumerate() {
        let expected = match at {
            // The zero of `relu` is a constant of the graph.
            23 => (count(&network, &pattern).0.max(1), 0),
            _ => expected,
        };
        assert_eq!(count(&network, &pattern), expected, "case {at}: {pattern:?}");
    }
}

#[test]
fn one_pattern_is_one_value() {
    let squares = module(
        "x: R.Tensor((2,), \"float32\"), y: R.Tensor((2,), \"float32\")",
        &["a = R.multiply(x, x)", "b = R.multiply(x, y)", "return (a, b)"],
    );
    let x = wildcard();
    assert_eq!(count(&squares, &is_op("relax.multiply").call([x.clone(), x])).0, 1);
    assert_eq!(count(&squares, &is_op("relax.multiply").call([wildcard(), wildcard()])).0, 2);
}

#[test]
fn chains_follow_uses() {
    let network = network();
    let (matmul, relu, sum) = (is_op("relax.matmul"), is_op("relax.nn.relu"), is_op("relax.sum"));
    // `e` is read by `concat` too, and `f` by others.
    assert_eq!(count(&network, &(matmul.clone() ^ relu.clone())), (1, 2));
    assert_eq!(count(&network, &(matmul.clone() >> relu.clone())), (0, 0));
    assert_eq!(count(&network, &(matmul.clone() ^ relu.clone() ^ sum)), (1, 3));
    let softmax = is_op("relax.nn.softmax");
    assert_eq!(count(&network, &(is_op("relax.add") >> relu.clone() >> softmax)), (1, 3));
}

#[test]
fn results_of_several_are_items() {
    let top = module(
        "x: R.Tensor((2, 4), \"float32\")",
        &["t = R.topk(x, k=2, axis=1)", "return R.negative(t[0])"],
    );
    let item = |index| is_tuple_get_item(is_op("relax.topk"), index);
    assert_eq!(count(&top, &item(None)).0, 2);
    assert_eq!(count(&top, &is_op("relax.negative").call([item(Some(0))])).0, 1);
    assert_eq!(count(&top, &is_op("relax.negative").call([item(Some(1))])).0, 0);
}

#[test]
fn patterns_are_read_from_json() {
    let text = r#"{"nodes": [{"kind": "wildcard"}, {"kind": "const"},
        {"kind": "op", "name": "relax.matmul", "args": [0, 0], "more": false},
        {"kind": "op", "name": "relax.matmul", "args": null},
        {"kind": "op", "name": "relax.add", "args": [3, 1]},
        {"kind": "dtype", "pattern": 4, "dtype": "float32"},
        {"kind": "shape", "pattern": 5, "dims": [2, null]},
        {"kind": "attrs", "pattern": 3, "attrs": {"out_dtype": 1}},
        {"kind": "chain", "patterns": [3, 4], "only": [true]},
        {"kind": "or", "left": 6, "right": 7}], "root": 9}"#;
    let (pattern, nodes) = from_json(text).unwrap();
    assert_eq!((count(&network(), &pattern).0, nodes.len()), (1, 10));
    assert_eq!(count(&network(), &nodes[8]), (1, 2));
    let wrong = [
        (r#"{"nodes": [], "root": 0}"#, "no node 0"),
        (r#"{"nodes": [{"kind": "not", "pattern": 0}], "root": 0}"#, "does not come before"),
        (r#"{"nodes": [{"kind": "dtype", "pattern": 0, "dtype": "x"}], "root": 0}"#, "no type"),
        (r#"{"nodes": [{"kind": "chain", "patterns": [], "only": []}], "root": 0}"#, "a chain"),
        (r#"{"nodes": [{"kind": "thing"}], "root": 0}"#, "unknown variant"),
        ("[", "a pattern: "),
    ];
    for (text, expected) in wrong {
        let why = from_json(text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn fields_match_in_any_order() {
    let joined = module(
        "x: R.Tensor((2,), \"float32\"), y: R.Tensor((2,), \"float32\")",
        &[
            "a = R.exp(x)",
            "b = R.negative(y)",
            "c = R.concat((a, b, x), axis=0)",
            "t = (a, b)",
            "return (c, t)",
        ],
    );
    let (exp, negative) = (is_op("relax.exp"), is_op("relax.negative"));
    let concat = |fields: &[&Pattern]| {
        is_op("relax.concat").call([is_unordered_tuple(fields.iter().copied().cloned())])
    };
    // A wildcard first takes what another field needs, and gives it back.
    assert_eq!(count(&joined, &concat(&[&wildcard(), &negative, &exp])), (1, 3));
    assert_eq!(count(&joined, &concat(&[&is_var("x"), &exp, &negative])).0, 1);
    assert_eq!(count(&joined, &concat(&[&negative, &exp])).0, 0);
    assert_eq!(count(&joined, &concat(&[&negative, &negative.dup(), &exp])).0, 0);
    assert_eq!(count(&joined, &is_unordered_tuple([negative, exp])).0, 1);
}

#[test]
fn shapes_are_those_of_other_parts() {
    let sums = module(
        "x: R.Tensor((\"n\", 4), \"float32\"), y: R.Tensor((\"n\", 4), \"float32\"), z: R.Tensor((4,), \"float32\")",
        &["a = R.add(x, y)", "b = R.add(x, z)", "return (a, b)"],
    );
    let add = |same: bool| {
        let left = wildcard();
        let right = if same { wildcard().same_shape_as([left.clone()]) } else { wildcard() };
        is_op("relax.add").call([left, right])
    };
    assert_eq!((count(&sums, &add(false)).0, count(&sums, &add(true)).0), (2, 1));
    // Also where the other part is met later.
    let right = wildcard();
    let pattern = is_op("relax.add").call([wildcard().same_shape_as([right.clone()]), right]);
    assert_eq!(count(&sums, &pattern).0, 1);
}

#[test]
fn patterns_match_together_where_they_share_a_part() {
    let params = "x: R.Tensor((2, 4), \"float32\"), y: R.Tensor((2, 4), \"float32\"), w: R.Tensor((4, 4), \"float32\")";
    let lines =
        ["a = R.matmul(y, w)", "b = R.matmul(x, w)", "c = R.matmul(x, w)", "return (a, b, c)"];
    let network = module(params, &lines);
    let FuncData::Graph(main) = network.funcs.values().last().unwrap() else { panic!() };
    let matcher = Matcher::new(&network, main, &main.body);
    let input = wildcard();
    let product = |input: &Pattern| is_op("relax.matmul").call([input.clone(), wildcard()]);
    let pair = [product(&input), product(&input)];
    let found = matcher.find_together(&pair).unwrap().unwrap();
    let name = |part: &Pattern| main.values[found.value(part).unwrap()].name.as_str();
    // `a` has another input than all others.
    assert_eq!([name(&pair[0]), name(&pair[1]), name(&input)], ["b", "c", "x"]);
    assert_eq!(found.bindings.len(), 2);
    let three = [product(&input), product(&input), product(&input)];
    assert!(matcher.find_together(&three).unwrap().is_none());
    assert!(
        matcher.find_together(&[product(&wildcard()), product(&wildcard())]).unwrap().is_some()
    );
    // Two patterns are never one value.
    let (x, y) = (is_var("x"), is_var("y"));
    assert!(matcher.find_together(&[product(&y), product(&y)]).unwrap().is_none());
    assert!(matcher.find_together(&[product(&y), product(&x)]).unwrap().is_some());
    let text = r#"{"nodes": [{"kind": "wildcard"}, {"kind": "op", "name": "matmul", "args": [0], "more": true},
        {"kind": "op", "name": "matmul", "args": [0], "more": true},
        {"kind": "unordered_tuple", "fields": [0]}, {"kind": "same_shape", "pattern": 0, "others": [1]}], "roots": [1, 2]}"#;
    let (roots, nodes) = together_from_json(text).unwrap();
    assert_eq!((roots.len(), nodes.len()), (2, 5));
    let found = matcher.find_together(&roots).unwrap().unwrap();
    assert_eq!(main.values[found.value(&nodes[0]).unwrap()].name, "x");
    let mut many: Vec<String> = vec![];
    for at in 0..60 {
        many.push(format!("v{at} = R.add(x, y)"));
    }
    many.push("return v0".to_owned());
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    let network = module(params, &lines);
    let FuncData::Graph(main) = network.funcs.values().last().unwrap() else { panic!() };
    let matcher = Matcher::new(&network, main, &main.body);
    let adds = [(); 4].map(|()| is_op("relax.add"));
    assert!(matcher.find_together(&adds).unwrap().is_some());
    let never = [&adds[..], &[is_op("relax.exp")]].concat();
    assert!(matcher.find_together(&never).unwrap_err().contains("too many ways"));
}

#[test]
fn functions_match_by_parameters_and_result() {
    let text = r#"
@I.ir_module
class Module:
    @R.function
    def square(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.multiply(a, a)

    @R.function
    def product(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.multiply(a, b)

    @R.function
    def again(f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")), a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        r: R.Tensor((2,), "float32") = f(a)
        return r

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        cls = Module
        y = cls.square(x)
        z = cls.product(x, y)
        w = cls.again(cls.square, z)
        return R.exp(w)
"#;
    let module = script::parse(text, "test.py").unwrap();
    let (x, any) = (wildcard(), wildcard);
    let product = |a: &Pattern, b: &Pattern| is_op("relax.multiply").call([a.clone(), b.clone()]);
    let of_one = function(Some(vec![x.clone()]), product(&x, &x));
    let of_any = function(None, product(&any(), &any()));
    let nested = is_gv("again");
    let inside = |call: Pattern| is_op("relax.exp").call([call]);
    let cases = [
        // As values: `square` is an argument.
        (of_one.clone(), 1),
        (is_gv("square"), 1),
        (is_gv("product"), 0),
        // As calls.
        (of_one.call([any()]), 1),
        (of_one.call([any(), any()]), 0),
        (of_one.call([is_var("x")]), 1),
        (of_any.call([any(), of_one.call([is_var("x")])]), 1),
        (of_any.call_with_more([is_var("x")]), 2),
        (function(Some(vec![any(), any()]), product(&x, &x)).call([any(), any()]), 0),
        (function(None, is_op("relax.add")).call_with_more([]), 0),
        (is_gv("").call_with_more([]), 3),
        (is_gv("product").call([any(), any()]), 1),
        (inside(nested.call([of_one.clone(), any()])), 1),
        (inside(nested.call([is_gv("product"), any()])), 0),
    ];
    for (at, (pattern, expected)) in cases.into_iter().enumerate() {
        assert_eq!(count(&module, &pattern).0, expected, "case {at}: {pattern:?}");
    }
    let json = |nodes: &str, root: usize| {
        from_json(&format!("{{\"nodes\": [{nodes}], \"root\": {root}}}"))
    };
    let nodes = r#"{"kind": "wildcard"}, {"kind": "op", "name": "relax.multiply", "args": [0, 0]},
        {"kind": "function", "params": [0], "body": 1}, {"kind": "wildcard"},
        {"kind": "call_function", "function": 2, "args": [3]}"#;
    assert_eq!(count(&module, &json(nodes, 4).unwrap().0).0, 1);
    let wrong = r#"{"kind": "wildcard"}, {"kind": "call_function", "function": 0, "args": null}"#;
    assert!(json(wrong, 1).unwrap_err().contains("no pattern of a function"));
}

#[test]
fn constants_variables_and_packed_functions_match_as_what_they_are() {
    let text = r#"
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        a = R.add(x, R.const(1.0, "float32"))
        b = R.add(a, R.const(2.0, "float32"))
        c: R.Tensor((2,), "float32") = R.call_packed("library.scale", b, ty_args=R.Tensor((2,), "float32"))
        return c
"#;
    let module = script::parse(text, "test.py").unwrap();
    let number = |value: f32| is_expr(crate::Literal::from_f32(vec![], &[value]));
    let add = |constant: Pattern| is_op("relax.add").call([wildcard(), constant]);
    let scale = || is_extern_func("library.scale");
    let cases = [
        (add(is_const()), 2),
        (add(number(1.0)), 1),
        (add(number(-1.0)), 0),
        (add(is_expr(crate::Literal::from_f32(vec![1], &[1.0]))), 0),
        (add(is_expr(crate::Literal::from_i64(vec![], &[1]))), 0),
        // `c` is returned, and `x` is a parameter.
        (is_dfv(""), 2),
        (is_dfv("b"), 1),
        (is_dfv("c"), 0),
        (is_op("relax.add").call([is_dfv("a"), wildcard()]), 1),
        (scale().call([is_dfv("b")]), 1),
        (scale().call([is_var("x")]), 0),
        (is_extern_func("library.other").call([wildcard()]), 0),
        (scale(), 0),
    ];
    for (at, (pattern, expected)) in cases.into_iter().enumerate() {
        assert_eq!(count(&module, &pattern).0, expected, "case {at}: {pattern:?}");
    }
    let json = |nodes: &str, root: usize| {
        from_json(&format!("{{\"nodes\": [{nodes}], \"root\": {root}}}"))
    };
    let nodes = r#"{"kind": "wildcard"},
        {"kind": "literal", "dtype": "float32", "shape": [], "bytes": "0000803f"},
        {"kind": "op", "name": "add", "args": [0, 1]},
        {"kind": "extern_func", "name": "library.scale"}, {"kind": "dataflow_var", "name": ""},
        {"kind": "call_function", "function": 3, "args": [4]}"#;
    assert_eq!(count(&module, &json(nodes, 2).unwrap().0).0, 1);
    assert_eq!(count(&module, &json(nodes, 5).unwrap().0).0, 1);
    for bytes in ["0000803", "0000803x", "0000"] {
        let node = format!(
            "{{\"kind\": \"literal\", \"dtype\": \"float32\", \"shape\": [], \"bytes\": \"{bytes}\"}}"
        );
        assert!(json(&node, 0).unwrap_err().contains("a constant"), "{bytes}");
    }
}
