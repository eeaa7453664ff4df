//! Programs that PyTorch exported, compiled, against PyTorch's own answers. The importer's own test evaluates the same
//! cases by reference (`src/torch/tests/cases.rs`).

#[path = "common/torch_case.rs"]
mod torch_case;

use std::path::Path;
use std::sync::OnceLock;

use reflex::{Array, Engine, ErrorKind, Feed, FileAccess, Mode, ModelFormat, ModelSource, Program};

use tempfile::TempDir;
use torch_case::compare;

/// A kernel cache of this process.
fn cache() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fn engine() -> Engine {
    Engine::builder().cache(cache()).build().expect("an engine")
}

/// The greatest difference over the tolerance, in one mode.
fn run(program: &Program, archive: &Path, mode: Mode) -> Result<f64, String> {
    let case = torch_case::read(archive);
    let main = program.signature("main").map_err(|e| e.to_string())?;
    if (main.inputs.len(), main.outputs.len()) != (case.inputs.len(), case.outputs.len()) {
        return Err(format!("{} inputs, {} outputs", main.inputs.len(), main.outputs.len()));
    }
    let mut feed = Feed::new();
    for (input, array) in main.inputs.iter().zip(case.inputs) {
        let torch_case::Array { dtype, shape, bytes } = array.into_type(input.dtype);
        feed.insert(input.name.clone(), Array { dtype, shape, data: bytes });
    }
    let feed = program.prepare("main", &feed).map_err(|e| e.to_string())?;
    let mut session = program.session(mode).map_err(|e| e.to_string())?;
    let outputs = session.call(&feed).and_then(|outputs| outputs.arrays());
    let outputs = outputs.map_err(|e| e.to_string())?;
    let mut worst = 0.0_f64;
    for ((name, found), wanted) in outputs.iter().zip(&case.outputs) {
        let ratio = compare(found.dtype, &found.shape, &found.data, wanted);
        worst = worst.max(ratio.map_err(|e| format!("`{name}`: {e}"))?);
    }
    Ok(worst)
}

#[test]
fn compiled_programs_answer_as_pytorch_does() {
    let archives = torch_case::archives(false);
    let (mut failed, mut worst) = (vec![], (0.0, String::new()));
    for archive in &archives {
        let name = archive.file_stem().unwrap().to_string_lossy().into_owned();
        let answer = engine().load(archive).map_err(|e| e.to_string());
        match answer.and_then(|program| run(&program, archive, Mode::Compiled)) {
            Ok(ratio) if ratio > worst.0 => worst = (ratio, name),
            Ok(_) => {}
            Err(reason) => failed.push(format!("{name}: {reason}")),
        }
    }
    failed.iter().for_each(|line| println!("FAIL {line}"));
    println!(
        "{} programs; the greatest difference is {:.3} of the tolerance, in {}",
        archives.len(),
        worst.0,
        worst.1
    );
    assert!(failed.is_empty(), "{} of {} programs are wrong", failed.len(), archives.len());
}

#[test]
fn archives_are_known_by_their_content() {
    let archive = torch_case::folder().join("mlp_dynamic.pt2");
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("model.bin");
    std::fs::copy(&archive, &other).unwrap();
    let loaded = engine().load(&other).unwrap();
    assert!(run(&loaded, &archive, Mode::Bytecode).unwrap() <= 1.0);
    let bytes = std::fs::read(&archive).unwrap();
    let source = ModelSource::bytes(ModelFormat::Torch, bytes);
    let loaded = engine().load(source).unwrap();
    assert!(run(&loaded, &archive, Mode::Tiered).unwrap() <= 1.0);
    let mapped = Engine::builder().file_access(FileAccess::Map).cache(cache()).build();
    let loaded = mapped.unwrap().load(&archive).unwrap();
    assert!(run(&loaded, &archive, Mode::Tiered).unwrap() <= 1.0);
    std::fs::write(&other, b"PK\x03\x04 and no archive").unwrap();
    assert_eq!(engine().load(&other).err().unwrap().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_summary_has_the_declared_interface() {
    let info = Engine::info(torch_case::folder().join("mlp_dynamic.pt2")).unwrap();
    assert!(info.kind.starts_with("PyTorch program, schema 8."), "{}", info.kind);
    assert_eq!(info.inputs[0].to_string(), "x: float32[s77, 4]");
    assert_eq!(info.symbols, ["s77"]);
    assert!(info.operators.contains(&("aten.linear".to_owned(), 2)), "{:?}", info.operators);
    assert_eq!((info.parameters, info.unsupported.len()), (73, 0));
    let refused = Engine::info(torch_case::folder().join("refused_random.pt2")).unwrap();
    assert_eq!(refused.inputs[0].to_string(), "args_0: float32[2]");
    assert!(refused.unsupported[0].contains("aten.rand_like.default"), "{:?}", refused.unsupported);
}

#[test]
fn other_archives_of_pytorch_are_refused_with_a_remedy() {
    let error = engine().load(torch_case::folder().join("refused_branches.pt2")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("higher_order.cond"), "{error}");
}
