//! Damaged nodes of ai.onnx.ml and of strings and sequences: an error that names the node, or a module that verifies;
//! never a panic.

use prost::Message;
use prost::bytes::Bytes;
use reflex_onnx::import_bytes;
use reflex_onnx::proto::*;

const ML: &str = "ai.onnx.ml";

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: kind, ..Default::default() }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { ints: ints.to_vec(), ..attribute(name, attribute_type::INTS) }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i, ..attribute(name, attribute_type::INT) }
}

fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    AttributeProto { floats: floats.to_vec(), ..attribute(name, attribute_type::FLOATS) }
}

fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { f, ..attribute(name, attribute_type::FLOAT) }
}

fn text(name: &str, text: &str) -> AttributeProto {
    AttributeProto {
        s: Bytes::copy_from_slice(text.as_bytes()),
        ..attribute(name, attribute_type::STRING)
    }
}

fn texts(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|t| Bytes::copy_from_slice(t.as_bytes())).collect();
    AttributeProto { strings, ..attribute(name, attribute_type::STRINGS) }
}

fn bytes(name: &str, data_type: i32, values: &[u8]) -> AttributeProto {
    let size = if data_type == data_type::FLOAT { 4 } else { 1 };
    let t = TensorProto {
        dims: vec![(values.len() / size) as i64],
        data_type,
        raw_data: Some(Bytes::copy_from_slice(values)),
        ..Default::default()
    };
    AttributeProto { t: Some(t), ..attribute(name, attribute_type::TENSOR) }
}

fn numbers(name: &str, values: &[f32]) -> AttributeProto {
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    bytes(name, data_type::FLOAT, &raw)
}

/// A model of one node, whose inputs have three columns of a type.
fn model(domain: &str, op: &str, types: &[i32], attribute: Vec<AttributeProto>) -> ModelProto {
    let dim = |value| DimensionProto { value: Some(value) };
    let input = |(index, elem_type): (usize, &i32)| {
        let dim = vec![dim(DimensionValue::DimParam("n".into())), dim(DimensionValue::DimValue(3))];
        let shape = Some(TensorShapeProto { dim });
        let tensor_type = Some(TensorTypeProto { elem_type: *elem_type, shape });
        let ty = TypeProto { tensor_type, ..Default::default() };
        ValueInfoProto { name: format!("x{index}"), r#type: Some(ty) }
    };
    let input: Vec<ValueInfoProto> = types.iter().enumerate().map(input).collect();
    let node = NodeProto {
        input: input.iter().map(|i| i.name.clone()).collect(),
        output: vec!["y".into()],
        name: "the_node".into(),
        op_type: op.into(),
        domain: domain.into(),
        attribute,
        ..Default::default()
    };
    let output = vec![ValueInfoProto { name: "y".into(), r#type: None }];
    let graph = GraphProto { input, output, node: vec![node], ..Default::default() };
    let opset = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let opset_import = vec![opset("", 20), opset(ML, if op == "TreeEnsemble" { 5 } else { 4 })];
    ModelProto { ir_version: 10, opset_import, graph: Some(graph), ..Default::default() }
}

fn nodes_of_trees() -> Vec<AttributeProto> {
    vec![
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[1, 0, 0]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        floats("nodes_values", &[0.5, 0.0, 0.0]),
        texts("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
    ]
}

/// One well-formed model for each operator.
fn models() -> Vec<ModelProto> {
    let (f, i, s) = (data_type::FLOAT, data_type::INT64, data_type::STRING);
    let leaves = |prefix: &str| {
        vec![
            ints(&format!("{prefix}_ids"), &[0, 1]),
            ints(&format!("{prefix}_nodeids"), &[1, 2]),
            ints(&format!("{prefix}_treeids"), &[0, 0]),
            floats(&format!("{prefix}_weights"), &[1.0, 2.0]),
        ]
    };
    let machine = vec![
        floats("coefficients", &[0.5, -0.5]),
        floats("support_vectors", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        floats("rho", &[0.5]),
        floats("kernel_params", &[0.5, 0.0, 2.0]),
        text("kernel_type", "POLY"),
    ];
    let classes = ints("classlabels_ints", &[4, 7]);
    let trees = vec![
        ints("tree_roots", &[0]),
        ints("nodes_featureids", &[1, 2]),
        ints("nodes_truenodeids", &[1, 0]),
        ints("nodes_falsenodeids", &[0, 1]),
        ints("nodes_trueleafs", &[0, 1]),
        ints("nodes_falseleafs", &[1, 1]),
        ints("leaf_targetids", &[0, 1]),
        int("n_targets", 2),
        bytes("nodes_modes", data_type::UINT8, &[0, 6]),
        numbers("nodes_splits", &[0.5, 0.0]),
        numbers("leaf_weights", &[1.0, 2.0]),
        numbers("membership_values", &[3.0, 4.0]),
    ];
    let grams = vec![
        int("min_gram_length", 1),
        int("max_gram_length", 2),
        int("max_skip_count", 1),
        ints("ngram_counts", &[0, 2]),
        ints("ngram_indexes", &[0, 1, 2]),
        text("mode", "TFIDF"),
        floats("weights", &[1.0, 2.0, 3.0]),
    ];
    let with = |a: &[AttributeProto], b: &[AttributeProto]| [a, b].concat();
    vec![
        model(ML, "Scaler", &[f], vec![floats("offset", &[1.0; 3]), floats("scale", &[2.0])]),
        model(ML, "Normalizer", &[i], vec![text("norm", "L2")]),
        model(ML, "Binarizer", &[f], vec![float("threshold", 0.5)]),
        model(ML, "ArrayFeatureExtractor", &[s, i], vec![]),
        model(ML, "FeatureVectorizer", &[f, i], vec![ints("inputdimensions", &[2, 5])]),
        model(
            ML,
            "Imputer",
            &[f],
            vec![
                floats("imputed_value_floats", &[1.0, 2.0, 3.0]),
                float("replaced_value_float", f32::NAN),
            ],
        ),
        model(
            ML,
            "LinearRegressor",
            &[f],
            vec![
                floats("coefficients", &[1.0; 6]),
                floats("intercepts", &[1.0; 2]),
                int("targets", 2),
                text("post_transform", "SOFTMAX_ZERO"),
            ],
        ),
        model(
            ML,
            "LinearClassifier",
            &[f],
            vec![
                floats("coefficients", &[1.0; 6]),
                floats("intercepts", &[1.0; 2]),
                texts("classlabels_strings", &["a", "bc"]),
            ],
        ),
        model(ML, "SVMRegressor", &[f], with(&machine, &[int("n_supports", 2)])),
        model(
            ML,
            "SVMClassifier",
            &[f],
            with(
                &machine,
                &[
                    ints("vectors_per_class", &[1, 1]),
                    floats("prob_a", &[-1.0]),
                    floats("prob_b", &[0.5]),
                    classes,
                ],
            ),
        ),
        model(
            ML,
            "TreeEnsembleRegressor",
            &[f],
            with(&with(&nodes_of_trees(), &leaves("target")), &[int("n_targets", 2)]),
        ),
        model(
            ML,
            "TreeEnsembleClassifier",
            &[f],
            with(
                &with(&nodes_of_trees(), &leaves("class")),
                &[ints("classlabels_int64s", &[4, 7]), floats("base_values", &[1.0, 2.0])],
            ),
        ),
        model(ML, "TreeEnsemble", &[f], trees),
        model(
            ML,
            "LabelEncoder",
            &[s],
            vec![
                texts("keys_strings", &["a", "bc"]),
                texts("values_strings", &["x", ""]),
                text("default_string", "?"),
            ],
        ),
        model(
            ML,
            "LabelEncoder",
            &[f],
            vec![floats("keys_floats", &[1.0, f32::NAN]), ints("values_int64s", &[1, 2])],
        ),
        model(
            ML,
            "OneHotEncoder",
            &[s],
            vec![texts("cats_strings", &["a", "bc"]), int("zeros", 0)],
        ),
        model(ML, "ZipMap", &[f], vec![texts("classlabels_strings", &["a", "bc", "d"])]),
        model("", "TfIdfVectorizer", &[i], with(&grams, &[ints("pool_int64s", &[1, 2, 1, 2])])),
        model(
            "",
            "TfIdfVectorizer",
            &[s],
            with(&grams, &[texts("pool_strings", &["a", "", "a", ""])]),
        ),
        model("", "StringConcat", &[s, s], vec![]),
        model(
            ML,
            "CategoryMapper",
            &[s],
            vec![texts("cats_strings", &["a", "bc"]), ints("cats_int64s", &[4, 7])],
        ),
        model("", "RegexFullMatch", &[s], vec![text("pattern", "a+(b|c)")]),
        model("", "StringSplit", &[s], vec![text("delimiter", ","), int("maxsplit", 2)]),
        model("", "Cast", &[s], vec![int("to", i64::from(data_type::FLOAT))]),
        model("", "Cast", &[f], vec![int("to", i64::from(data_type::STRING))]),
        model("", "CastLike", &[s, i], vec![]),
        model("", "CastLike", &[i, s], vec![]),
        model("", "Equal", &[s, s], vec![]),
        model("", "Concat", &[s, s], vec![int("axis", 1)]),
        model("", "SplitToSequence", &[f], vec![int("axis", 0)]),
    ]
}

/// Imports a model; what is imported has to verify, and what is refused names its place.
fn survives(model: &ModelProto, what: &str) {
    match import_bytes(model.encode_to_vec(), None) {
        Ok(module) => assert_eq!(reflex_graph::verify::verify(&module), Ok(()), "{what}"),
        Err(error) => {
            let message = error.to_string();
            let place = ["the_node", "input `", "output `"].iter().any(|p| message.contains(p));
            assert!(place, "{what}: {message}");
        }
    }
}

fn node(model: &mut ModelProto) -> &mut NodeProto {
    &mut model.graph.as_mut().expect("a graph").node[0]
}

#[test]
fn every_model_is_imported() {
    for mut model in models() {
        let op = node(&mut model).op_type.clone();
        let module =
            import_bytes(model.encode_to_vec(), None).unwrap_or_else(|e| panic!("{op}: {e}"));
        assert_eq!(reflex_graph::verify::verify(&module), Ok(()), "{op}");
    }
}

#[test]
fn missing_and_short_attributes_are_survived() {
    for mut model in models() {
        let op = node(&mut model).op_type.clone();
        for at in 0..node(&mut model).attribute.len() {
            let name = node(&mut model).attribute[at].name.clone();
            let mut without = model.clone();
            node(&mut without).attribute.remove(at);
            survives(&without, &format!("{op} without {name}"));
            let mut short = model.clone();
            let a = &mut node(&mut short).attribute[at];
            a.ints.pop();
            a.floats.pop();
            a.strings.pop();
            survives(&short, &format!("{op} with a short {name}"));
            for odd in [0, -1, 1 << 40, i64::MAX, i64::MIN] {
                let mut wrong = model.clone();
                let a = &mut node(&mut wrong).attribute[at];
                a.i = odd;
                a.ints.iter_mut().for_each(|v| *v = odd);
                survives(&wrong, &format!("{op} with {odd} in {name}"));
            }
            let mut cyclic = model.clone();
            node(&mut cyclic).attribute[at].ints.iter_mut().for_each(|v| *v = 0);
            survives(&cyclic, &format!("{op} with zeros in {name}"));
        }
    }
}

#[test]
fn inputs_of_other_types_and_ranks_are_survived() {
    for model in models() {
        for index in 0..model.graph.as_ref().expect("a graph").input.len() {
            for elem_type in 1..=28 {
                for rank in 0..4 {
                    let mut other = model.clone();
                    let input = &mut other.graph.as_mut().expect("a graph").input[index];
                    let tensor = input.r#type.as_mut().and_then(|t| t.tensor_type.as_mut());
                    let tensor = tensor.expect("a tensor");
                    tensor.elem_type = elem_type;
                    let dims = &mut tensor.shape.as_mut().expect("a shape").dim;
                    dims.resize(rank, DimensionProto { value: None });
                    survives(
                        &other,
                        &format!("{} of {elem_type}", node(&mut other.clone()).op_type),
                    );
                }
            }
        }
    }
}

#[test]
fn flipped_bits_are_survived() {
    for model in models() {
        let bytes = model.encode_to_vec();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let _ = import_bytes(damaged, None);
        }
    }
}
