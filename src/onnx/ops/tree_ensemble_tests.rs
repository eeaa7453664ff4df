//! Random tree ensembles through the evaluator against a walker of one row at a time.

use prost::Message;
use prost::bytes::Bytes;
use reflex_graph::{EvalValue, FuncData, Literal, Module, eval_func};

use crate::import_bytes;
use crate::proto::*;

const FEATURES: usize = 3;
const CLASSES: usize = 3;

/// One node: tree, number, test, feature, threshold, successors, whether NaN is true, weights.
#[derive(Clone, Default)]
struct Node {
    tree: i64,
    id: i64,
    test: &'static str,
    feature: i64,
    threshold: f32,
    yes: i64,
    no: i64,
    nan: i64,
    weights: Vec<f32>,
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    /// Small multiples of 1/4, so that sums are exact and thresholds are met.
    fn number(&mut self) -> f32 {
        self.below(33) as f32 / 4.0 - 4.0
    }
}

const TESTS: [&str; 6] =
    ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];

fn grow(nodes: &mut Vec<Node>, rng: &mut Numbers, tree: i64, id: &mut i64, depth: u64) -> i64 {
    let (own, at) = (*id, nodes.len());
    *id += 1;
    nodes.push(Node { tree, id: own, test: "LEAF", ..Node::default() });
    if depth == 0 || (depth < 4 && rng.below(4) == 0) {
        nodes[at].weights = (0..CLASSES).map(|_| rng.number()).collect();
        return own;
    }
    nodes[at].test = TESTS[rng.below(6) as usize];
    nodes[at].feature = rng.below(FEATURES as u64) as i64;
    nodes[at].threshold = rng.number();
    nodes[at].nan = rng.below(2) as i64;
    nodes[at].yes = grow(nodes, rng, tree, id, depth - 1);
    nodes[at].no = grow(nodes, rng, tree, id, depth - 1);
    own
}

fn walk(nodes: &[Node], row: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; CLASSES];
    let find = |tree, id| nodes.iter().find(|n| n.tree == tree && n.id == id).unwrap();
    let trees = nodes.iter().map(|n| n.tree).max().unwrap() + 1;
    for tree in 0..trees {
        let mut at = find(tree, 0);
        while at.test != "LEAF" {
            let (x, t) = (row[at.feature as usize], at.threshold);
            let passed = match at.test {
                "BRANCH_LEQ" => x <= t,
                "BRANCH_LT" => x < t,
                "BRANCH_GTE" => x >= t,
                "BRANCH_GT" => x > t,
                "BRANCH_EQ" => x == t,
                _ => x != t,
            };
            let passed = passed || (x.is_nan() && at.nan == 1);
            at = find(tree, if passed { at.yes } else { at.no });
        }
        sums.iter_mut().zip(&at.weights).for_each(|(s, w)| *s += w);
    }
    sums
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: kind, ..Default::default() }
}

fn ints(name: &str, ints: Vec<i64>) -> AttributeProto {
    AttributeProto { ints, ..attribute(name, attribute_type::INTS) }
}

fn floats(name: &str, floats: Vec<f32>) -> AttributeProto {
    AttributeProto { floats, ..attribute(name, attribute_type::FLOATS) }
}

fn structure(nodes: &[Node]) -> Vec<AttributeProto> {
    let list = |f: fn(&Node) -> i64| nodes.iter().map(f).collect::<Vec<i64>>();
    let modes = nodes.iter().map(|n| Bytes::from_static(n.test.as_bytes())).collect();
    vec![
        ints("nodes_treeids", list(|n| n.tree)),
        ints("nodes_nodeids", list(|n| n.id)),
        ints("nodes_featureids", list(|n| n.feature)),
        ints("nodes_truenodeids", list(|n| n.yes)),
        ints("nodes_falsenodeids", list(|n| n.no)),
        ints("nodes_missing_value_tracks_true", list(|n| n.nan)),
        floats("nodes_values", nodes.iter().map(|n| n.threshold).collect()),
        AttributeProto { strings: modes, ..attribute("nodes_modes", attribute_type::STRINGS) },
    ]
}

fn weights(nodes: &[Node], prefix: &str, classes: usize) -> Vec<AttributeProto> {
    let leaves: Vec<&Node> = nodes.iter().filter(|n| n.test == "LEAF").collect();
    let of = |f: &dyn Fn(&Node, usize) -> i64| {
        leaves.iter().flat_map(|n| (0..classes).map(move |c| f(n, c))).collect::<Vec<i64>>()
    };
    let values = leaves.iter().flat_map(|n| n.weights[..classes].to_vec()).collect();
    vec![
        ints(&format!("{prefix}_treeids"), of(&|n, _| n.tree)),
        ints(&format!("{prefix}_nodeids"), of(&|n, _| n.id)),
        ints(&format!("{prefix}_ids"), of(&|_, c| c as i64)),
        floats(&format!("{prefix}_weights"), values),
    ]
}

/// Both ways to compute an ensemble: rows of unknown width are walked.
fn import_ways(
    op: &str,
    outputs: &[&str],
    attribute: &[AttributeProto],
) -> Result<[Module; 2], String> {
    let known = DimensionValue::DimValue(FEATURES as i64);
    let chosen = import(op, outputs, attribute.to_vec(), known)?;
    let walked = import(op, outputs, attribute.to_vec(), DimensionValue::DimParam("m".into()))?;
    Ok([chosen, walked])
}

fn import(
    op: &str,
    outputs: &[&str],
    attribute: Vec<AttributeProto>,
    width: DimensionValue,
) -> Result<Module, String> {
    let dim = |value| DimensionProto { value: Some(value) };
    let shape =
        TensorShapeProto { dim: vec![dim(DimensionValue::DimParam("n".into())), dim(width)] };
    let tensor = TensorTypeProto { elem_type: data_type::FLOAT, shape: Some(shape) };
    let ty = TypeProto { tensor_type: Some(tensor), ..Default::default() };
    let node = NodeProto {
        input: vec!["x".into()],
        output: outputs.iter().map(ToString::to_string).collect(),
        op_type: op.into(),
        domain: "ai.onnx.ml".into(),
        attribute,
        ..Default::default()
    };
    let info = |name: &&str| ValueInfoProto { name: name.to_string(), r#type: None };
    let graph = GraphProto {
        input: vec![ValueInfoProto { name: "x".into(), r#type: Some(ty) }],
        output: outputs.iter().map(info).collect(),
        node: vec![node],
        ..Default::default()
    };
    let opset = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let opset_import = vec![opset("", 18), opset("ai.onnx.ml", 3)];
    let model =
        ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..Default::default() };
    import_bytes(model.encode_to_vec(), None).map_err(|e| e.to_string())
}

fn run(module: &Module, rows: &[f32]) -> Vec<Literal> {
    let (id, _) =
        module.funcs.iter().find(|(_, f)| matches!(f, FuncData::Graph(_))).expect("a function");
    let x = Literal::from_f32(vec![(rows.len() / FEATURES) as i64, FEATURES as i64], rows);
    let outputs = eval_func(module, id, &[EvalValue::Tensor(x)]).unwrap();
    outputs.iter().map(|v| v.as_tensor().unwrap().clone()).collect()
}

fn f32s(x: &Literal) -> Vec<f32> {
    x.bytes().chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

fn forest(seed: u64) -> (Vec<Node>, Vec<f32>) {
    let mut rng = Numbers(seed);
    let mut nodes = vec![];
    for tree in 0..1 + seed as i64 % 4 {
        grow(&mut nodes, &mut rng, tree, &mut 0, seed % 6);
    }
    let number = |rng: &mut Numbers| if rng.below(8) == 0 { f32::NAN } else { rng.number() };
    let rows = (0..20 * FEATURES).map(|_| number(&mut rng)).collect();
    (nodes, rows)
}

#[test]
fn ensembles_reach_the_leaves_that_a_walker_reaches() {
    for seed in 0..24 {
        let (nodes, rows) = forest(seed);
        let wanted: Vec<Vec<f32>> = rows.chunks(FEATURES).map(|r| walk(&nodes, r)).collect();
        let mut attributes = structure(&nodes);
        attributes.extend(weights(&nodes, "target", CLASSES));
        let targets =
            AttributeProto { i: CLASSES as i64, ..attribute("n_targets", attribute_type::INT) };
        attributes.push(targets);
        for module in import_ways("TreeEnsembleRegressor", &["y"], &attributes).unwrap() {
            assert_eq!(f32s(&run(&module, &rows)[0]), wanted.concat(), "seed {seed}");
        }

        let mut attributes = structure(&nodes);
        attributes.extend(weights(&nodes, "class", CLASSES));
        attributes.push(ints("classlabels_int64s", vec![7, 5, 9]));
        let best = |row: &Vec<f32>| {
            let top = row.iter().copied().fold(f32::MIN, f32::max);
            [7, 5, 9][row.iter().position(|s| *s == top).unwrap()]
        };
        let labels: Vec<i64> = wanted.iter().map(best).collect();
        let outputs = ["label", "scores"];
        for module in import_ways("TreeEnsembleClassifier", &outputs, &attributes).unwrap() {
            let found = run(&module, &rows);
            assert_eq!(f32s(&found[1]), wanted.concat(), "seed {seed}");
            assert_eq!(found[0].to_i64().unwrap(), labels, "seed {seed}");
        }
    }
}

#[test]
fn weights_for_one_class_speak_for_the_second_label() {
    for (scale, limit) in [(1.0f32, 0.0f32), (0.0, 0.5)] {
        let (mut nodes, rows) = forest(9);
        // Frequencies where the scale is 0: no weight is negative.
        nodes.iter_mut().flat_map(|n| &mut n.weights).for_each(|w| {
            *w = if scale == 0.0 { w.abs() / 16.0 } else { *w };
        });
        let mut attributes = structure(&nodes);
        attributes.extend(weights(&nodes, "class", 1));
        attributes.push(ints("classlabels_int64s", vec![4, 6]));
        let score: Vec<f32> = rows.chunks(FEATURES).map(|r| walk(&nodes, r)[0]).collect();
        let labels: Vec<i64> = score.iter().map(|s| if *s > limit { 6 } else { 4 }).collect();
        let both = |s: &f32| [if scale == 0.0 { 1.0 - s } else { -s }, *s];
        let both: Vec<f32> = score.iter().flat_map(both).collect();
        let outputs = ["label", "scores"];
        for module in import_ways("TreeEnsembleClassifier", &outputs, &attributes).unwrap() {
            let found = run(&module, &rows);
            assert_eq!(found[0].to_i64().unwrap(), labels);
            assert_eq!(f32s(&found[1]), both);
        }
    }
}

/// A regressor gives the scores of the walker by both evaluations, for one target and three.
#[test]
fn aggregates_are_alike_where_trees_are_walked_and_where_all_tests_are_made() {
    for (seed, kind) in (10..34).zip(["SUM", "AVERAGE", "MIN", "MAX"].iter().cycle()) {
        let (nodes, rows) = forest(seed);
        let targets = 1 + 2 * (seed as usize % 2);
        let mut attributes = structure(&nodes);
        attributes.extend(weights(&nodes, "target", targets));
        let count = attribute("n_targets", attribute_type::INT);
        attributes.push(AttributeProto { i: targets as i64, ..count });
        let how = attribute("aggregate_function", attribute_type::STRING);
        attributes.push(AttributeProto { s: Bytes::from_static(kind.as_bytes()), ..how });
        let ways = import_ways("TreeEnsembleRegressor", &["y"], &attributes).unwrap();
        let [chosen, walked] = ways.map(|module| f32s(&run(&module, &rows)[0]));
        assert_eq!(chosen, walked, "seed {seed} {kind}");
    }
}

/// A full tree of some depth, by one test; the number of its root.
fn full(nodes: &mut Vec<Node>, depth: u64) -> i64 {
    let (at, id) = (nodes.len(), nodes.len() as i64);
    nodes.push(Node { id, test: "LEAF", weights: vec![id as f32], ..Node::default() });
    if depth > 0 {
        let (yes, no) = (full(nodes, depth - 1), full(nodes, depth - 1));
        let feature = id % FEATURES as i64;
        nodes[at] = Node {
            id,
            test: "BRANCH_LEQ",
            feature,
            threshold: id as f32,
            yes,
            no,
            ..Node::default()
        };
    }
    id
}

#[test]
fn shallow_trees_make_all_tests_and_deep_ones_are_walked() {
    let text = |depth: u64| {
        let mut nodes = vec![];
        full(&mut nodes, depth);
        let mut attributes = structure(&nodes);
        attributes.extend(weights(&nodes, "target", 1));
        let known = DimensionValue::DimValue(FEATURES as i64);
        let module = import("TreeEnsembleRegressor", &["y"], attributes, known).unwrap();
        reflex_graph::print::module(&module)
    };
    let (shallow, deep) = (text(4), text(8));
    assert!(shallow.contains("R.where") && !shallow.contains("R.take"), "{shallow}");
    assert!(!deep.contains("R.where") && deep.contains("R.take"), "{deep}");
}

#[test]
fn nodes_that_are_no_trees_are_refused() {
    let (mut nodes, _) = forest(5);
    let inner = nodes.iter().position(|n| n.test != "LEAF").unwrap();
    nodes[inner].no = 0;
    let mut attributes = structure(&nodes);
    attributes.extend(weights(&nodes, "target", 1));
    let message = import_ways("TreeEnsembleRegressor", &["y"], &attributes).unwrap_err();
    assert!(message.contains("no trees"), "{message}");
}
