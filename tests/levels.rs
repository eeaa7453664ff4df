//! Artifacts with kernels for several CPU levels: which are in them, which run, what is refused.

#[path = "common/skip.rs"]
mod skip;

use std::path::Path;

use reflex::{Array, Engine, ErrorKind, Feed, Level, Mode, Precision, Program};

const MODEL: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5, 24), dtype="float32"), w: R.Tensor((24, 70), dtype="float32")) -> R.Tensor((5, 70), dtype="float32"):
        h: R.Tensor((5, 70), dtype="float32") = R.matmul(x, w)
        y: R.Tensor((5, 70), dtype="float32") = R.nn.relu(h)
        return y
"#;

fn engine(levels: &[Level]) -> Engine {
    Engine::builder().levels(levels.iter().copied()).build().expect("an engine")
}

/// `model.py` and `model.so` with kernels for every level.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.py");
    std::fs::write(&model, MODEL).expect("writable");
    let program = engine(&Level::X86_64).load(&model).expect("compiles");
    program.save(folder.path().join("model.so")).expect("saves");
    folder
}

fn noise(shape: &[i64]) -> Array {
    let count = shape.iter().product::<i64>() as u32;
    let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7 - 0.8;
    Array::of(shape, &(0..count).map(value).collect::<Vec<_>>()).expect("as many as the shape has")
}

fn run(program: &Program) -> Vec<u8> {
    let feed = Feed::from([("x".to_owned(), noise(&[5, 24])), ("w".to_owned(), noise(&[24, 70]))]);
    let prepared = program.prepare("main", &feed).expect("fits");
    let mut session = program.session(Mode::Tiered).expect("a session");
    let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
    outputs[0].1.data.clone()
}

/// Assembly of the only kernel of an artifact, for a level or by its plain name.
fn assembly(path: &Path, suffix: &str) -> String {
    let text = engine(&[]).load(path).expect("loads").as_text();
    let at = text.find("fused").or_else(|| text.find("mat_mul")).expect("a kernel");
    let name: String =
        text[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    engine(&[]).assembly(path, &format!("{name}{suffix}")).expect("a kernel of that name")
}

#[test]
fn an_artifact_holds_kernels_for_each_level() {
    let folder = folder();
    let library = folder.path().join("model.so");
    let (low, high) = (assembly(&library, ""), assembly(&library, ".v4"));
    assert!(low.contains("ymm") && !low.contains("zmm"), "{low}");
    assert!(high.contains("zmm"), "{high}");
    let best = Level::X86_64.into_iter().rfind(|l| l.runs_on_host()).expect("a level");
    let info = Engine::info(&library).expect("readable");
    let ends = format!("x86-64-v4+bf16 and x86-64-v4+amx, of which {best} runs");
    assert!(info.kind.ends_with(&ends), "{}", info.kind);
}

/// A product whose elements are used often enough to be split into terms.
const LARGE: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((208, 128), dtype="float32"), w: R.Tensor((128, 192), dtype="float32")) -> R.Tensor((208, 192), dtype="float32"):
        y: R.Tensor((208, 192), dtype="float32") = R.matmul(x, w)
        return y
"#;

#[test]
fn precisions_have_kernels_for_the_levels_that_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, library) = (folder.path().join("large.py"), folder.path().join("large.so"));
    std::fs::write(&model, LARGE).expect("writable");
    let compile = |precision, levels: &[Level]| {
        let builder = Engine::builder().precision(precision).levels(levels.iter().copied());
        let program = builder.build().expect("an engine").load(&model);
        program.and_then(|p| p.save(&library))
    };
    let products = |suffix| {
        let text = assembly(&library, suffix);
        let count = |name| text.matches(name).count();
        (count("tdpbf16ps"), count("vdpbf16ps"), count("vfmadd231ps"))
    };
    compile(Precision::Bf16, &[Level::V4Bf16, Level::V4Amx]).expect("compiles");
    // What is opened here has a kernel for this CPU.
    if Level::V4Bf16.runs_on_host() {
        let (bf16, amx) = (products(""), products(".v4_amx"));
        assert!(bf16.0 == 0 && bf16.1 > 0 && bf16.2 == 0, "{bf16:?}");
        assert!(amx.0 > 0 && amx.2 == 0, "{amx:?}");
    } else {
        skip::skip_part("bf16", "AVX512_BF16");
    }
    compile(Precision::F32Fast, &Level::X86_64).expect("compiles");
    let counts = ["", ".v4", ".v4_vnni", ".v4_bf16", ".v4_amx"].map(products);
    for (n, (tiles, dots, multiply_adds)) in counts.into_iter().enumerate() {
        assert!((tiles > 0) == (n == 4) && dots == 0 && multiply_adds > 0, "{counts:?}");
    }
    let error = compile(Precision::Bf16, &[Level::V4, Level::V4Bf16]).expect_err("refused");
    assert!(error.to_string().contains("AVX512_BF16, which x86-64-v4 lacks"), "{error}");
}

#[test]
fn every_level_gives_the_bits_that_a_program_for_it_alone_gives() {
    let folder = folder();
    let (model, library) = (folder.path().join("model.py"), folder.path().join("model.so"));
    for level in Level::X86_64 {
        if !level.runs_on_host() {
            skip::skip_part(&level.to_string(), "a CPU of this level");
            continue;
        }
        let alone = engine(&[level]).load(&model).expect("compiles");
        let one_of_many = engine(&[level]).load(&library).expect("loads");
        assert_eq!(run(&alone), run(&one_of_many), "{level}");
    }
}

#[test]
fn kernels_for_other_cpus_are_refused_by_what_they_need() {
    let folder = folder();
    let library = folder.path().join("model.so");
    // A feature that no CPU has, in the description of each level.
    let mut bytes = std::fs::read(&library).expect("readable");
    let places: Vec<usize> =
        (0..bytes.len() - 6).filter(|at| &bytes[*at..*at + 6] == b"\"avx2\"").collect();
    assert_eq!(places.len(), Level::X86_64.len(), "one for each level");
    places.iter().for_each(|at| bytes[at + 4] = b'9');
    std::fs::write(&library, &bytes).expect("writable");
    let error = engine(&[]).load(&library).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("compiled for CPUs with avx9"), "{error}");
    assert!(error.to_string().contains("model.so"), "{error}");
}

#[test]
fn an_artifact_for_one_cpu_has_no_kernels_for_a_lower_level() {
    let folder = folder();
    let (model, library) = (folder.path().join("model.py"), folder.path().join("one.so"));
    engine(&[Level::V4]).load(&model).and_then(|p| p.save(&library)).expect("saves");
    let error = engine(&[Level::V3]).load(&library).err().expect("refused");
    let why = error.to_string();
    assert!(
        why.contains("x86-64-v4 alone") || why.contains("compiled for CPUs with avx512"),
        "{why}"
    );
}
