//! Convolutions of tensor cores on a GPU, run by this CPU thread after thread: feature maps with their channels last
//! give what the plain ones do.

use reflex::{Array, DType, Engine, Feed, Mode, Precision, Program};

/// Three convolutions: of 3 channels, of strides, dilations and padding that differ, and pointwise, whose result is added to its
/// operand and pooled. Weights are sines, which fold into constants.
fn model(dtype: &str, channels: i64) -> String {
    let weights = |name: &str, shape: [i64; 4]| {
        let count: i64 = shape.iter().product();
        let depth = ((count / shape[0]) as f64).sqrt();
        let [ty, plain] = [dtype, "float32"].map(|dtype| {
            format!(
                "R.Tensor(({}, {}, {}, {}), dtype=\"{dtype}\")",
                shape[0], shape[1], shape[2], shape[3]
            )
        });
        format!(
            "        {name}0: R.Tensor(({count},), dtype=\"float32\") = R.arange(0, {count}, 1, dtype=\"float32\")
        {name}1: R.Tensor(({count},), dtype=\"float32\") = R.sin({name}0)
        {name}2: R.Tensor(({count},), dtype=\"float32\") = R.divide({name}1, R.const({depth}, \"float32\"))
        {name}3: {plain} = R.reshape({name}2, R.shape([{}, {}, {}, {}]))
        {name}: {ty} = R.astype({name}3, dtype=\"{dtype}\")
",
            shape[0], shape[1], shape[2], shape[3]
        )
    };
    let ty = |shape: [i64; 4]| {
        format!(
            "R.Tensor(({}, {}, {}, {}), dtype=\"{dtype}\")",
            shape[0], shape[1], shape[2], shape[3]
        )
    };
    let (x, a, b, y) =
        (ty([2, 3, 13, 12]), ty([2, channels, 13, 12]), ty([2, 40, 6, 9]), ty([2, 40, 4, 7]));
    format!(
        "from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: {x}) -> {y}:
{}{}{}        a: {a} = R.nn.conv2d(x, u, padding=[1, 1, 1, 1])
        b: {a} = R.nn.relu(a)
        c: {b} = R.nn.conv2d(b, v, strides=[2, 1], padding=[1, 0, 0, 1], dilation=[1, 2])
        d: {b} = R.nn.conv2d(c, w)
        e: {b} = R.add(c, d)
        y: {y} = R.nn.max_pool2d(e, pool_size=[3, 3], strides=[1, 1])
        return y
",
        weights("u", [channels, 3, 3, 3]),
        weights("v", [40, channels, 3, 3]),
        weights("w", [40, 40, 1, 1]),
    )
}

fn program(engine: &Engine, text: &str) -> Program {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.py");
    std::fs::write(&path, text).expect("writable");
    engine.load(&path).expect("loads")
}

fn run(engine: &Engine, text: &str) -> Vec<f32> {
    let program = program(engine, text);
    let count = 2 * 3 * 13 * 12;
    let values: Vec<f32> = (0..count).map(|n| ((n * 7919) % 1000) as f32 / 500.0 - 1.0).collect();
    let x = Array::of(&[2, 3, 13, 12], &values).expect("as many");
    let x = if text.contains("float16") { halves(&x) } else { x };
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)])).expect("fits");
    let mut session = program.session(Mode::Bytecode).expect("a session");
    let results = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
    let y = &results[0].1;
    match y.dtype {
        DType::F32 => y.to_vec::<f32>().expect("float32"),
        _ => {
            let bits = y.data.as_chunks::<2>().0.iter().map(|b| half::f16::from_le_bytes(*b));
            bits.map(half::f16::to_f32).collect()
        }
    }
}

fn halves(x: &Array) -> Array {
    let values = x.to_vec::<f32>().expect("float32");
    let data = values.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect();
    Array { dtype: DType::F16, shape: x.shape.clone(), data }
}

#[test]
fn channels_last_give_what_plain_feature_maps_do() {
    for (dtype, precision) in [("float16", Precision::F32), ("float32", Precision::Bf16)] {
        for gpu in ["cuda:sm_80", "cuda:sm_90a"] {
            // Runs of 8 channels, and channels that are none.
            for channels in [24, 20] {
                let text = model(dtype, channels);
                let engine = Engine::builder().schedule_for(gpu).precision(precision);
                let found = run(&engine.build().expect("an engine"), &text);
                let wanted = run(&Engine::builder().build().expect("an engine"), &text);
                let largest = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                assert!(largest > 0.1, "{largest}");
                for (found, wanted) in found.iter().zip(&wanted) {
                    let near = (found - wanted).abs() <= 1e-2 * largest;
                    assert!(near, "{dtype} on {gpu}, {channels} channels: {found}, not {wanted}");
                }
            }
        }
    }
}

/// Windows of runs of channels are copied asynchronously, 16 bytes at a time, with zeros where they are padding.
#[test]
fn windows_are_filled_by_copies() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.py");
    let engine = Engine::builder().schedule_for("cuda:sm_90a").build().expect("an engine");
    for (channels, copied) in [(24, true), (20, false)] {
        std::fs::write(&path, model("float16", channels)).expect("writable");
        let kernels = engine.ptx(&path, None).expect("PTX");
        let of_windows = kernels.iter().filter(|(_, ptx)| {
            let loads = ptx.lines().filter(|line| line.contains("ld.global"));
            ptx.contains("cp.async.cg.shared.global") && loads.count() == 0
        });
        // Those of the second and the third convolution read nothing else.
        assert_eq!(of_windows.count() > 0, copied, "{channels} channels");
    }
}
