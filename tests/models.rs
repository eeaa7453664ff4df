//! The models against ONNX Runtime's answers, every case and mode, one program a model.
//!
//! SmolLM2 is not among them: it is 650 MB, and has to be built from its weights first. Needs
//! REFLEX_MODELS and REFLEX_REFS (`./x test` sets them up); without them each is recorded as
//! skipped.

mod common;

use std::collections::BTreeMap;

use reflex::stats::Difference;
use reflex::{Array, Engine, KernelTier, Level, Mode, Program, numpy};

const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

/// Every case of a model in every mode; `through_so` goes through a compiled artifact.
fn check(model: &str, through_so: bool) {
    let Some((models, _)) = common::data() else { return };
    let engine = Engine::builder().build().expect("an engine");
    let mut program = engine.load(models.join(format!("{model}.onnx"))).expect("loads");
    if through_so {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("model.so");
        program.save(&path).expect("saves");
        program = engine.load(&path).expect("loads again");
    }
    answers(model, &program);
}

/// One artifact with kernels for all CPU levels, of which each that this CPU has is used in turn.
fn check_levels(model: &str) {
    let Some((models, _)) = common::data() else { return };
    let engine = |levels: &[Level]| {
        Engine::builder().levels(levels.iter().copied()).build().expect("an engine")
    };
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("model.so");
    let program =
        engine(&[Level::V3, Level::V4]).load(models.join(format!("{model}.onnx"))).expect("loads");
    program.save(&path).expect("saves");
    for level in Level::X86_64 {
        match engine(&[level]).load(&path) {
            Ok(program) => answers(model, &program),
            Err(error) => {
                assert!(!level.runs_on_host(), "{level}: {error}");
                assert!(error.to_string().contains("avx"), "{level}: {error}");
                common::skip::skip_part(&level.to_string(), "a CPU of this level");
            }
        }
    }
}

fn answers(model: &str, program: &Program) {
    let Some((_, refs)) = common::data() else { return };
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        for file in common::references(&refs, model) {
            for (k, case) in numpy::read_cases(&file).expect("readable").iter().enumerate() {
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

/// The bits of every output of every case, in mode `bytecode`.
fn bits(model: &str, program: &Program) -> Vec<(String, Vec<u64>)> {
    let Some((_, refs)) = common::data() else { return vec![] };
    let mut session = program.session(Mode::Bytecode).expect("a session");
    let mut all = vec![];
    for file in common::references(&refs, model) {
        for case in numpy::read_cases(&file).expect("readable") {
            let prepared = program.prepare("main", &case.inputs).expect("fits");
            let outputs = session.call(&prepared).expect("runs").arrays().expect("arrays");
            let bits = |array: &Array| array.to_f64().iter().map(|v| v.to_bits()).collect();
            all.extend(outputs.iter().map(|(name, array)| (name.clone(), bits(array))));
        }
    }
    all
}

/// Cranelift's kernels alone give ONNX Runtime's answers, and the bits of LLVM's kernels.
fn check_baseline(model: &str) {
    let Some((models, _)) = common::data() else { return };
    let load = |policy: &str| {
        let engine = Engine::builder().tier(policy.parse().expect("a policy")).build();
        let path = models.join(format!("{model}.onnx"));
        engine.expect("an engine").load(path).expect("loads")
    };
    let baseline = load("kernels=cranelift");
    answers(model, &baseline);
    let tiers = baseline.kernels().expect("compiled here");
    assert!(tiers.iter().all(|(_, tier)| *tier == KernelTier::Baseline), "{tiers:?}");
    assert!(bits(model, &baseline) == bits(model, &load("kernels=llvm")), "{model}: other bits");
}

macro_rules! baseline { ($($name:ident)*) => {
    mod baseline { $(
        #[test]
        fn $name() {
            super::check_baseline(stringify!($name));
        }
    )* }
} }
baseline! { silero_vad oww_melspec oww_hey_jarvis surfaces_mlp surfaces_tree ppocr_cls }

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
models! {
    magika silero_vad minilm_l3_fp32 minilm_l6_int8w pplcnet_orient oww_embedding oww_melspec
    oww_hey_jarvis ppocr_cls ppocr4_det ppocr4_rec ddddocr_crnn nudenet_yolov8n open_nsfw_resnet50
    basic_pitch nakdimon_loop tashkeel surfaces_mlp surfaces_tree light_resnet50 light_squeezenet
    light_densenet121 light_shufflenet
}

macro_rules! levels { ($($name:ident)*) => { mod levels { $(
    #[test]
    fn $name() {
        super::check_levels(stringify!($name));
    }
)* } } }
levels! { silero_vad minilm_l3_fp32 ppocr_cls light_shufflenet }
