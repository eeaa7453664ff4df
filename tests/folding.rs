//! Constant folding is held against ONNX's expected outputs: every node case that passes, with its
//! inputs turned into constants, folds to them.
//!
//! Folding calls the graph's reference evaluator, so its oracle has to be another implementation:
//! here the outputs that ONNX ships, in `src/lower/tests/folding.rs` scheduled kernels. The cases
//! are in the folder that `REFLEX_ONNX_CASES` names, as `./x test` lays them out.

#[path = "../src/onnx/tests/common/mod.rs"]
mod comparison;
#[path = "common/skip.rs"]
mod skip;

use std::path::Path;
use std::sync::Arc;

use reflex_graph::{Func, FuncData, Literal, Module, Node, Value};
use reflex_lower::graph::{MAX_GROWN, fold_constants};
use reflex_onnx::proto::{Message, ModelProto, TensorProto, data_type};
use reflex_onnx::{ModelInfo, import_bytes, read_tensor_pb};
use reflex_runtime::aligned_bytes::AlignedBytes;

/// Cases of which every output folds, at least; the others have loops.
const FOLDED: usize = 1393;

#[test]
fn node_cases_fold_to_the_outputs_of_onnx() {
    let Some(folder) = skip::variable("REFLEX_ONNX_CASES") else { return };
    let list = std::fs::read_to_string("tests/onnx/expected.txt").expect("the list");
    let (mut folded, mut wrong) = (0, vec![]);
    let drawn = |name: &&str| {
        let model = Path::new(&folder).join(name).join("model.onnx");
        ModelInfo::read(&model).is_ok_and(|info| info.draws_random_numbers())
    };
    let passing = list.lines().filter_map(|line| line.strip_prefix("pass "));
    for name in passing.filter(|name| !drawn(name)) {
        match fold(&Path::new(&folder).join(name)) {
            Ok(Outcome::Folded) => folded += 1,
            Ok(Outcome::Computed(what)) => println!("not folded: {name}: {what}"),
            Err(reason) => wrong.push(format!("{name}: {reason}")),
        }
    }
    println!("{folded} folded");
    assert!(wrong.is_empty(), "{} cases fold to something else: {wrong:#?}", wrong.len());
    assert!(folded >= FOLDED, "{folded} cases fold, and {FOLDED} did");
}

enum Outcome {
    Folded,
    /// A program is left, for this reason.
    Computed(String),
}

/// Folds the model of a case over its first set of inputs, made initialisers.
fn fold(case: &Path) -> Result<Outcome, String> {
    let set = case.join("test_data_set_0");
    let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    let bytes = read(&case.join("model.onnx"))?;
    let mut model = ModelProto::decode(&*bytes).map_err(|e| e.to_string())?;
    let graph = model.graph.as_mut().ok_or("no graph")?;
    for (index, input) in std::mem::take(&mut graph.input).into_iter().enumerate() {
        let bytes = read(&set.join(format!("input_{index}.pb")))?;
        let tensor = TensorProto::decode(&*bytes).map_err(|e| e.to_string())?;
        graph.initializer.push(TensorProto { name: input.name, ..tensor });
    }
    let mut module = match import_bytes(model.encode_to_vec(), Some(case)) {
        Ok(module) => module,
        Err(error) => return Ok(Outcome::Computed(error.to_string())),
    };
    fold_constants(&mut module, MAX_GROWN).map_err(|e| e.to_string())?;
    let main = module.funcs.values().find_map(|data| match data {
        FuncData::Graph(func) if func.name == "main" => Some(func),
        _ => None,
    });
    let main = main.ok_or("no main")?;
    for (index, result) in main.body.results.iter().enumerate() {
        let Some(found) = constant(&module, main, *result) else {
            return Ok(Outcome::Computed(format!("output {index}")));
        };
        let path = set.join(format!("output_{index}.pb"));
        let mut expected = read_tensor_pb(&path).map_err(|e| e.to_string())?;
        let proto = TensorProto::decode(&*read(&path)?).map_err(|e| e.to_string())?;
        let mut found = found.clone();
        if proto.data_type == data_type::STRING {
            (found, expected) = (unpadded(&found), unpadded(&expected));
        }
        let (rtol, atol) = comparison::tolerance(case, &found);
        comparison::compare(&found, &expected, rtol, atol)?;
    }
    Ok(Outcome::Folded)
}

/// Strings, which are rows of bytes, without the zeros after the longest.
fn unpadded(strings: &Literal) -> Literal {
    let (shape, bytes) = (strings.shape(), strings.bytes());
    let width = usize::try_from(shape[shape.len() - 1]).expect("a width").max(1);
    let length = |row: &[u8]| row.iter().rposition(|byte| *byte != 0).map_or(1, |at| at + 1);
    let longest = bytes.chunks(width).map(length).max().unwrap_or(1);
    let kept: Vec<u8> =
        bytes.chunks(width).flat_map(|row| row[..longest].iter().copied()).collect();
    let mut shape = shape.to_vec();
    *shape.last_mut().expect("the axis of bytes") = longest as i64;
    Literal::new(strings.dtype(), shape, Arc::new(AlignedBytes::copy_of(&kept)))
        .expect("rows of bytes")
}

/// The constant that a value of the body is.
fn constant<'a>(module: &'a Module, func: &Func, value: Value) -> Option<&'a Literal> {
    match func.body.bindings.iter().find(|b| b.outputs.contains(&value))?.node {
        Node::Const(id) => Some(&module.consts[id]),
        _ => None,
    }
}
