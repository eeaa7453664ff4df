//! Precisions `bf16` and `int8`: near `f32`, the same bits in every mode, on any number of threads and from a
//! compiled library; `bf16` is refused by name where the CPU has no instruction for it, `int8` on a GPU.

mod common;

use std::path::Path;

use reflex::{Array, DType, Engine, Feed, Mode, Precision, Program, numpy};
use reflex_tir::codegen::CpuTarget;

const MODEL: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 90, 75), dtype="float32"), w: R.Tensor((3, 75, 100), dtype="float32")) -> R.Tensor((3, 90, 100), dtype="float32"):
        h: R.Tensor((3, 90, 100), dtype="float32") = R.matmul(x, w)
        y: R.Tensor((3, 90, 100), dtype="float32") = R.nn.relu(h)
        return y
"#;

fn engine(precision: Precision, threads: usize) -> Engine {
    Engine::builder().precision(precision).threads(threads).build().expect("an engine")
}

fn noise(shape: &[i64], seed: u32) -> Array {
    let count = shape.iter().product::<i64>() as u32;
    let value = |i: u32| ((i + seed).wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7 - 0.8;
    Array::of(shape, &(0..count).map(value).collect::<Vec<_>>()).expect("as many as the shape has")
}

fn small_model() -> (tempfile::TempDir, Feed) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("model.py"), MODEL).expect("writable");
    let (x, w) = (noise(&[3, 90, 75], 1), noise(&[3, 75, 100], 7));
    (folder, Feed::from([("x".to_owned(), x), ("w".to_owned(), w)]))
}

/// The float32 values among arrays, in the order of their names.
fn floats(arrays: impl IntoIterator<Item = (String, Array)>) -> Vec<f32> {
    let arrays: Feed = arrays.into_iter().collect();
    let arrays = arrays.into_iter().filter(|(_, array)| array.dtype == DType::F32);
    arrays.flat_map(|(_, array)| array.to_vec::<f32>().expect("float32")).collect()
}

/// All outputs that are float32.
fn run(program: &Program, mode: Mode, feed: &Feed) -> Vec<f32> {
    let prepared = program.prepare("main", feed).expect("fits");
    let mut session = program.session(mode).expect("a session");
    floats(session.call(&prepared).and_then(|o| o.arrays()).expect("runs"))
}

/// The root mean square of the differences as a part of that of the values.
fn distance(got: &[f32], want: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let pairs = got.iter().zip(want);
    let error: f64 = pairs.map(|(g, w)| square(f64::from(*g) - f64::from(*w))).sum();
    (error / want.iter().map(|w| square(f64::from(*w))).sum::<f64>()).sqrt()
}

/// Whether this CPU can; where it cannot, that it is refused.
fn available() -> bool {
    if CpuTarget::host().has_avx512_bf16() {
        return true;
    }
    let (folder, _) = small_model();
    let refused = engine(Precision::Bf16, 1).load(folder.path().join("model.py"));
    let error = refused.err().expect("is refused");
    assert!(error.to_string().contains("precision bf16 needs AVX512_BF16"), "{error}");
    common::skip::skip("AVX512_BF16");
    false
}

/// Bits in every mode and on two threads equal those of the interpreter on one, which it gives.
fn same_everywhere(precision: Precision, path: &Path, feed: &Feed) -> Vec<f32> {
    let program = engine(precision, 1).load(path).expect("loads");
    let first = run(&program, Mode::Bytecode, feed);
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let two = engine(precision, 2).load(path).expect("loads");
    for mode in Mode::ALL {
        let at = format!("{} {mode}", path.display());
        assert!(bits(&run(&program, mode, feed)) == bits(&first), "{at}");
        assert!(bits(&run(&two, mode, feed)) == bits(&first), "{at}, two threads");
    }
    first
}

#[test]
fn a_product_keeps_its_bits_and_stays_near_float32() {
    if !available() {
        return;
    }
    let (folder, feed) = small_model();
    let path = folder.path().join("model.py");
    let got = same_everywhere(Precision::Bf16, &path, &feed);
    let library = folder.path().join("model.so");
    engine(Precision::Bf16, 1).load(&path).and_then(|p| p.save(&library)).expect("saves");
    // A library has the precision that it was compiled with.
    let saved = engine(Precision::F32, 1).load(&library).expect("loads");
    assert!(run(&saved, Mode::Tiered, &feed) == got);
    let want = run(&engine(Precision::F32, 1).load(&path).expect("loads"), Mode::Tiered, &feed);
    let error = distance(&got, &want);
    assert!(error > 1e-5 && error < 4e-3, "{error:e}");
}

/// Networks end this near to ONNX Runtime's float32, about twice as far as they were when this was
/// written; the map of ppocr4_det is zero but for the edges of text.
#[test]
fn models_stay_near_float32() {
    if !available() {
        return;
    }
    let bounds = [
        ("minilm_l3_fp32", 1e-2),
        ("open_nsfw_resnet50", 1e-3),
        ("ppocr4_det", 8e-2),
        ("pplcnet_orient", 1e-2),
    ];
    models_stay_near(Precision::Bf16, &bounds);
}

/// [`models_stay_near_float32`] with matrix multiplications of 8-bit integers. Convolutions stay float32.
#[test]
fn models_of_products_by_constants_stay_near_in_int8() {
    let bounds = [("minilm_l3_fp32", 5e-2), ("magika", 1e-1), ("silero_vad", 5e-2)];
    models_stay_near(Precision::Int8, &bounds);
}

fn models_stay_near(precision: Precision, bounds: &[(&str, f64)]) {
    let Some((models, refs)) = common::data() else { return };
    for (model, bound) in bounds {
        let file = &common::references(&refs, model)[0];
        let case = numpy::read_cases(file).expect("readable").swap_remove(0);
        let path = models.join(format!("{model}.onnx"));
        let got = same_everywhere(precision, &path, &case.inputs);
        let want = floats(case.outputs);
        assert_eq!(got.len(), want.len(), "{model}");
        let error = distance(&got, &want);
        println!("{model}: {error:.1e}");
        assert!(error < *bound, "{model}: {error:e}");
    }
}

#[test]
fn int8_of_a_gpu_is_refused() {
    let (folder, _) = small_model();
    let path = folder.path().join("model.py");
    let engine = Engine::builder().precision(Precision::Int8).schedule_for("cuda:sm_80");
    let refused = engine.build().and_then(|engine| engine.load(&path)).err().expect("is refused");
    assert!(refused.to_string().contains("precision int8 is for CPUs"), "{refused}");
}
