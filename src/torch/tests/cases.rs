//! Exported programs through the importer and the graph's reference evaluator, against PyTorch's own answers; and those
//! that are refused, by their words. `tests/pytorch/make.py` writes them; compiled kernels are held to the same answers by
//! `tests/torch.rs`.

#[path = "../../../tests/common/torch_case.rs"]
mod torch_case;

use std::path::Path;
use std::sync::Arc;

use reflex_graph::{EvalValue, FuncData, Literal, eval_func};
use reflex_torch::import;

use torch_case::{Array, compare};

#[test]
fn programs_answer_as_pytorch_does() {
    let archives = torch_case::archives(false);
    let mut failed = vec![];
    let only = std::env::var("REFLEX_TORCH_CASE").ok();
    for archive in &archives {
        let name = archive.file_stem().unwrap().to_string_lossy();
        if only.as_ref().is_some_and(|only| **only != *name) {
            continue;
        }
        match std::panic::catch_unwind(|| run(archive)) {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => failed.push(format!("{name}: {reason}")),
            Err(_) => failed.push(format!("{name}: panicked")),
        }
    }
    failed.iter().for_each(|line| println!("FAIL {line}"));
    assert!(failed.is_empty(), "{} of {} programs are wrong", failed.len(), archives.len());
    assert!(archives.len() > 100);
}

fn run(archive: &Path) -> Result<(), String> {
    let module = import(archive).map_err(|e| e.to_string())?;
    if let Err(faults) = reflex_graph::verify::verify(&module) {
        return Err(faults[0].to_string());
    }
    let text = reflex_graph::print::module(&module);
    let main = module.funcs.iter().find_map(|(id, f)| match f {
        FuncData::Graph(f) if f.name == "main" => Some((id, f)),
        _ => None,
    });
    let (id, func) = main.ok_or("no main")?;
    let case = torch_case::read(archive);
    if case.inputs.len() != func.params.len() {
        return Err(format!("{} inputs of {}\n{text}", case.inputs.len(), func.params.len()));
    }
    let mut inputs = vec![];
    for (param, array) in func.params.iter().zip(case.inputs) {
        let Array { dtype, shape, bytes } = array.into_type(func.tensor(*param).dtype);
        let literal = Literal::new(dtype, shape, Arc::new(bytes)).ok_or("an input's size")?;
        inputs.push(EvalValue::Tensor(literal));
    }
    let outputs = eval_func(&module, id, &inputs).map_err(|e| e.to_string())?;
    if outputs.len() != case.outputs.len() {
        return Err(format!("{} outputs instead of {}", outputs.len(), case.outputs.len()));
    }
    for (index, (found, wanted)) in outputs.iter().zip(&case.outputs).enumerate() {
        let found = found.as_tensor().ok_or("not a tensor")?;
        let same = compare(found.dtype(), found.shape(), found.bytes(), wanted);
        same.map_err(|e| format!("output {index} `{}`: {e}", func.result_names[index]))?;
    }
    Ok(())
}

#[test]
fn programs_are_refused_by_name() {
    let list = std::fs::read_to_string(torch_case::folder().join("refused.txt")).expect("a list");
    assert_eq!(list.lines().count(), torch_case::archives(true).len());
    for line in list.lines() {
        let (name, words) = line.split_once(": ").expect("a name and words");
        let path = torch_case::folder().join(format!("refused_{name}.pt2"));
        let message = import(&path).expect_err(name).to_string();
        assert!(message.contains(words), "{name}: {message}");
        assert!(message.contains(&*path.to_string_lossy()), "{message}");
    }
}
