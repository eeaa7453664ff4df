//! The demonstration models through the importer and the reference evaluator, against ONNX
//! Runtime's answers.
//!
//! Models are in `REFLEX_MODELS`, answers (`MODEL.CASE.npz`) in `REFLEX_REFS`, as `./x test`
//! makes them. The largest models run in release builds only: the evaluator is plain.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npyz::{DType as NpyType, NpyFile, Order, TypeChar};
use reflex_graph::{EvalValue, Func, FuncData, FuncId, Literal, Module, eval_func};
use reflex_onnx::{ModelInfo, import};
use reflex_runtime::dtype::DType;
use zip::ZipArchive;

const MODELS: &[(&str, bool)] = &[
    ("magika", false),
    ("silero_vad", false),
    ("oww_embedding", false),
    ("ppocr_cls", false),
    ("pplcnet_orient", true),
    ("minilm_l3_fp32", true),
    ("light_resnet50", true),
];

#[test]
fn models_answer_as_onnx_runtime_does() {
    let folders = (skip::variable("REFLEX_MODELS"), skip::variable("REFLEX_REFS"));
    let (Some(models), Some(refs)) = folders else { return };
    for (name, large) in MODELS {
        let path = Path::new(&models).join(format!("{name}.onnx"));
        let info = ModelInfo::read(&path).unwrap();
        assert!(info.unsupported.is_empty() && info.problem.is_none(), "{info:?}");
        let module = import(&path).unwrap();
        if let Err(faults) = reflex_graph::verify::verify(&module) {
            panic!("{name}: {} faults, first: {}", faults.len(), faults[0]);
        }
        if *large && cfg!(debug_assertions) {
            skip::skip_part(name, "a release build");
            continue;
        }
        for case in cases(Path::new(&refs), name) {
            let start = std::time::Instant::now();
            check(&module, &read_npz(&case)).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
            eprintln!("{}: {:?}", case.display(), start.elapsed());
        }
    }
}

fn cases(refs: &Path, name: &str) -> Vec<PathBuf> {
    let prefix = format!("{name}.");
    let mut found: Vec<PathBuf> = std::fs::read_dir(refs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|p| p.file_name().unwrap().to_string_lossy().starts_with(&prefix))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no answers for {name}");
    found
}

fn main_of(module: &Module) -> (FuncId, &Func) {
    let main = module.funcs.iter().find_map(|(id, f)| match f {
        FuncData::Graph(f) => Some((id, f)),
        FuncData::Prim(_) => None,
    });
    main.unwrap()
}

fn check(module: &Module, arrays: &BTreeMap<String, Literal>) -> Result<(), String> {
    let (id, func) = main_of(module);
    for feed in 0.. {
        let input = |name: &str| arrays.get(&format!("in.{feed}.{name}"));
        let names: Vec<&str> = func.params.iter().map(|p| func.values[*p].name.as_str()).collect();
        if input(names[0]).is_none() {
            break;
        }
        let args: Vec<EvalValue> =
            names.iter().map(|n| EvalValue::Tensor(input(n).unwrap().clone())).collect();
        let outputs = eval_func(module, id, &args).map_err(|e| e.to_string())?;
        for (name, found) in func.result_names.iter().zip(&outputs) {
            let Some(wanted) = arrays.get(&format!("out.{feed}.{name}")) else { continue };
            let found = found.as_tensor().unwrap();
            common::compare(found, wanted, 1e-3, 1e-4)
                .map_err(|e| format!("feed {feed}, {name}: {e}"))?;
        }
    }
    Ok(())
}

/// Arrays of an `.npz` file by name.
fn read_npz(path: &Path) -> BTreeMap<String, Literal> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(path).unwrap())).unwrap();
    let mut arrays = BTreeMap::new();
    for number in 0..archive.len() {
        let entry = archive.by_index(number).unwrap();
        let name = entry.name().unwrap().trim_end_matches(".npy").to_owned();
        arrays.insert(name, literal(NpyFile::new(entry).unwrap()));
    }
    arrays
}

fn literal(array: NpyFile<impl Read>) -> Literal {
    let NpyType::Plain(ty) = array.dtype() else { panic!("a structured array") };
    assert_eq!(array.order(), Order::C, "Fortran order");
    let shape = array.shape().iter().map(|d| *d as i64).collect();
    macro_rules! read {
        ($t:ty) => {
            array.into_vec::<$t>().unwrap().iter().flat_map(|v| v.to_le_bytes()).collect()
        };
    }
    let (dtype, bytes): (DType, Vec<u8>) = match (ty.type_char(), ty.size_field()) {
        (TypeChar::Float, 4) => (DType::F32, read!(f32)),
        (TypeChar::Float, 8) => (DType::F64, read!(f64)),
        (TypeChar::Int, 8) => (DType::I64, read!(i64)),
        (TypeChar::Int, 4) => (DType::I32, read!(i32)),
        (TypeChar::Uint, 1) => (DType::U8, read!(u8)),
        (TypeChar::Bool, 1) => {
            let bools = array.into_vec::<bool>().unwrap();
            (DType::BOOL, bools.into_iter().map(u8::from).collect())
        }
        _ => panic!("element type {ty}"),
    };
    Literal::new(dtype, shape, Arc::new(bytes)).unwrap()
}
