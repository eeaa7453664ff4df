//! Schedules of kernels by hand: a trace decides how its kernel runs, in every form that one is given in,
//! and never what it computes.

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

use std::path::Path;

use programs::run_python;
use reflex::{Array, Engine, Feed, Mode, Pipeline, Program, TierPolicy};

const MODEL: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((30, 24), "float32"), w: R.Tensor((24, 40), "float32")) -> R.Tensor((30, 40), "float32"):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y
"#;

/// Six rows by sixteen columns in registers.
const TILED: &str = r#"
def matmul_relu(sch):
    """A register tile, its epilogue in the same tasks."""
    matmul = sch.get_block("matmul")
    relu = sch.get_block("binary")
    i, j, k = sch.get_loops(matmul)
    rows, row = sch.split(i, factors=[None, 6])
    columns, lanes = sch.split(j, factors=[None, 8])
    sch.reorder(rows, columns, k, row, lanes)
    sch.reverse_compute_at(relu, columns)
    sch.vectorize(lanes)
    sch.unroll(row)
    sch.parallel(rows)
"#;

fn answers(program: &Program, mode: Mode) -> Vec<u32> {
    let data =
        |count: i64| -> Vec<f32> { (0..count).map(|i| (i * 7 % 11) as f32 / 8.0 - 0.5).collect() };
    let array = |shape: &[i64]| Array::of(shape, &data(shape.iter().product())).expect("an array");
    let feed = Feed::from([("x".to_owned(), array(&[30, 24])), ("w".to_owned(), array(&[24, 40]))]);
    let prepared = program.prepare("main", &feed).expect("a feed");
    let outputs = program.session(mode).expect("a session").call(&prepared).expect("answers");
    let arrays = outputs.arrays().expect("arrays");
    arrays[0].1.to_vec::<f32>().expect("f32").into_iter().map(f32::to_bits).collect()
}

fn model(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("model.py");
    std::fs::write(&path, text).expect("written");
    path
}

fn engine(pipeline: Pipeline) -> Engine {
    Engine::builder().pipeline(pipeline).build().expect("an engine")
}

/// The kernel of the model as the graph passes leave it.
fn kernel_of(path: &Path) -> String {
    let text = Engine::new().unwrap().schedule(path, "no kernel").unwrap_err().to_string();
    let names = text.rsplit("there are ").next().expect("names");
    names.trim().to_owned()
}

#[test]
fn a_trace_decides_how_its_kernel_runs_and_never_what_it_computes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = model(folder.path(), MODEL);
    let kernel = kernel_of(&path);
    let trace = TILED.replace("matmul_relu", &kernel);
    let expected = answers(&Engine::new().unwrap().load(&path).unwrap(), Mode::Bytecode);

    let by_text = Pipeline::default().schedule(&trace).expect("a trace");
    let file = folder.path().join("trace.py");
    std::fs::write(&file, &trace).expect("written");
    let by_file: Pipeline =
        format!("default,schedule={}", file.display()).parse().expect("a pipeline");
    assert!(by_file.to_string().contains(&format!("schedule {kernel}=trace")), "{by_file}");
    for pipeline in [by_text, by_file] {
        let engine = engine(pipeline);
        let lowered = engine.dump_after(&path, "fuse_operators").unwrap();
        assert!(lowered.contains("T.sblock(\"matmul\")"), "{lowered}");
        let lowered = engine.dump_after(&path, "lower").unwrap();
        assert!(lowered.contains("T.vectorized(T.int64(8))"), "{lowered}");
        for mode in Mode::ALL {
            assert_eq!(answers(&engine.load(&path).unwrap(), mode), expected, "{mode}");
        }
    }

    // From an artifact, and with the baseline generator alone.
    let engine = engine(Pipeline::default().schedule(&trace).unwrap());
    let artifact = folder.path().join("model.so");
    engine.load(&path).unwrap().save(&artifact).expect("saved");
    assert_eq!(answers(&Engine::new().unwrap().load(&artifact).unwrap(), Mode::Tiered), expected);
    let policy: TierPolicy = "kernels=cranelift".parse().unwrap();
    let pipeline = Pipeline::default().schedule(&trace).unwrap();
    let baseline = Engine::builder().pipeline(pipeline).tier(policy).build().unwrap();
    assert_eq!(answers(&baseline.load(&path).unwrap(), Mode::Tiered), expected);
}

#[test]
fn a_script_holds_the_traces_of_its_kernels() {
    let script = r#"
@I.ir_module
class Module:
    @T.prim_func
    def twice(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")):
        T.func_attr({"reflex.schedule": "def twice(sch):\n  l0, l1 = sch.get_loops(sch_block)\n"})
        for i, j in T.grid(64, 32):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + A[vi, vj]

    @R.function
    def main(x: R.Tensor((64, 32), "float32")) -> R.Tensor((64, 32), "float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.twice, (x,), out_sinfo=R.Tensor((64, 32), "float32"))
            R.output(y)
        return y
"#;
    let folder = tempfile::tempdir().expect("a folder");
    let error =
        Engine::new().unwrap().load(model(folder.path(), script)).err().unwrap().to_string();
    assert!(
        error.contains("the schedule of twice, line 2: get_loops: `sch_block` is not defined"),
        "{error}"
    );
    let right = "def twice(sch):\\n  b = sch.get_block('twice')\\n  i, j = sch.get_loops(b)\\n  sch.vectorize(j)\\n  sch.parallel(i)\\n";
    let script = script.replace("def twice(sch):\\n  l0, l1 = sch.get_loops(sch_block)\\n", right);
    let path = model(folder.path(), &script);
    let lowered = Engine::new().unwrap().dump_after(&path, "lower").unwrap();
    assert!(
        lowered.contains("T.vectorized(T.int64(32))") || lowered.contains("T.vectorized(32)"),
        "{lowered}"
    );
    assert!(lowered.contains("T.parallel("), "{lowered}");
    assert!(!lowered.contains("reflex.schedule"), "{lowered}");
    Engine::new().unwrap().load(&path).unwrap();
}

#[test]
fn traces_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = model(folder.path(), MODEL);
    let kernel = kernel_of(&path);
    let load = |trace: &str| {
        let pipeline = Pipeline::default().schedule(trace)?;
        engine(pipeline).load(&path).map(drop)
    };
    let cases = [
        (
            "def nothing(sch): pass".to_owned(),
            format!("the schedule of nothing: no such kernel; there are {kernel}"),
        ),
        ("".to_owned(), "there is no trace, `def KERNEL(sch):`".to_owned()),
        (
            format!(
                "def {kernel}(sch):\n  b = sch.get_block('matmul')\n  i, j, k = sch.get_loops(b)\n  sch.parallel(k)"
            ),
            format!("the schedule of {kernel}, line 4: parallel of `"),
        ),
        (
            format!(
                "def {kernel}(sch):\n  b = sch.get_block('matmul')\n  i, j, k = sch.get_loops(b)\n  sch.bind(i, 'blockIdx.x')"
            ),
            "is bound to blockIdx.x, which a CPU lacks".to_owned(),
        ),
        (
            format!(
                "def {kernel}(sch):\n  b = sch.get_block('matmul')\n  sch.cache_read(b, 0, 'shared')"
            ),
            "lies in shared memory, which a CPU lacks".to_owned(),
        ),
    ];
    for (trace, why) in cases {
        let error = load(&trace).expect_err(&trace).to_string();
        assert!(error.contains(&why), "{trace}\n{error}");
    }
    let twice = format!("def {kernel}(sch): pass");
    let error =
        Pipeline::default().schedule(&twice).unwrap().schedule(&twice).unwrap_err().to_string();
    assert!(error.contains("has two traces"), "{error}");
    let error = "schedule=no/such.py".parse::<Pipeline>().unwrap_err().to_string();
    assert!(error.contains("no/such.py: "), "{error}");
}

#[test]
fn a_kernel_is_scheduled_by_hand_from_python() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/schedule.py");
    let Some(said) = run_python(&[&example]) else { return };
    assert!(said.contains("sch.reverse_compute_at("), "{said}");
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn a_kernel_is_tensorized_from_python() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tensor_intrin.py");
    let Some(said) = run_python(&[&example]) else { return };
    assert!(said.starts_with("refused: element 0 of `C` differs\nsch.tensorize("), "{said}");
    assert!(said.ends_with("done\n"), "{said}");
}
