//! The seven models against ONNX Runtime's answers, every case and mode, one program a model.
//!
//! Needs REFLEX_MODELS and REFLEX_REFS (`./x test` sets them up); without them it says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reflex::stats::Difference;
use reflex::{Engine, Mode, npz};

const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

fn data() -> Option<(PathBuf, PathBuf)> {
    let folders = (std::env::var_os("REFLEX_MODELS"), std::env::var_os("REFLEX_REFS"));
    let (Some(models), Some(refs)) = folders else {
        println!("skipped: REFLEX_MODELS and REFLEX_REFS are not set; ./x test sets them");
        return None;
    };
    Some((models.into(), refs.into()))
}

/// The reference files of a model.
fn references(refs: &Path, model: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(refs)
        .expect("a folder")
        .map(|e| e.expect("an entry").path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(model).is_some_and(|r| r.starts_with('.') && r.ends_with(".npz"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no references for {model}");
    files
}

/// Every case of a model in every mode; `through_so` goes through a compiled artifact.
fn check(model: &str, through_so: bool) {
    let Some((models, refs)) = data() else { return };
    let engine = Engine::builder().build().expect("an engine");
    let mut program = engine.load(&models.join(format!("{model}.onnx"))).expect("loads");
    if through_so {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("model.so");
        program.save(&path).expect("saves");
        program = engine.load(&path).expect("loads again");
    }
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        for file in references(&refs, model) {
            for (k, case) in npz::read_cases(&file).expect("readable").iter().enumerate() {
                let at = format!("{} feed {k}, {mode}", file.display());
                let prepared = program.prepare("main", &case.inputs).expect(&at);
                // Several calls, so that tiered reaches its traces.
                for _ in 0..4 {
                    let outputs = session.call(&prepared).expect(&at).arrays().expect(&at);
                    let outputs: BTreeMap<_, _> = outputs.into_iter().collect();
                    for (name, expected) in &case.outputs {
                        let d = Difference::of(&outputs[name], expected, RTOL, ATOL).expect(&at);
                        assert!(d.matches(), "{at}: {name}: {d:?}");
                    }
                }
            }
        }
    }
}

macro_rules! models { ($($name:ident)*) => { $(
    mod $name {
        #[test]
        fn answers_as_onnx_runtime() {
            super::check(stringify!($name), false);
        }

        #[test]
        fn answers_so_from_an_artifact() {
            super::check(stringify!($name), true);
        }
    }
)* } }
models! { magika silero_vad minilm_l3_fp32 pplcnet_orient oww_embedding ppocr_cls light_resnet50 }
