//! Both directions of a recurrent layer at the same time: the bits are those of one after the other.

use reflex::{Array, Engine, Feed, Mode};

/// Large enough for two threads.
const MODEL: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((16, 1, 32), dtype="float32"), w: R.Tensor((2, 384, 32), dtype="float32"), r: R.Tensor((2, 384, 96), dtype="float32"), b: R.Tensor((2, 768), dtype="float32"), h: R.Tensor((2, 1, 96), dtype="float32"), c: R.Tensor((2, 1, 96), dtype="float32")) -> R.Tensor((16, 2, 1, 96), dtype="float32"):
        s = R.reflex.lstm(x, w, r, b, h, c, hidden=96, direction="both", activations=["sigmoid", "tanh", "tanh", "sigmoid", "tanh", "tanh"])
        a: R.Tensor((16, 2, 1, 96), dtype="float32") = s[0]
        return a
"#;

fn filled(shape: &[i64]) -> Array {
    let count = shape.iter().product::<i64>() as u32;
    let value = |i: u32| ((i * 37) % 101) as f32 / 400.0 - 0.125;
    Array::of(shape, &(0..count).map(value).collect::<Vec<_>>()).expect("as many as the shape has")
}

#[test]
fn directions_on_threads_of_their_own_give_the_same_bits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.py");
    std::fs::write(&path, MODEL).expect("writable");
    let shapes: [(&str, &[i64]); 6] = [
        ("x", &[16, 1, 32]),
        ("w", &[2, 384, 32]),
        ("r", &[2, 384, 96]),
        ("b", &[2, 768]),
        ("h", &[2, 1, 96]),
        ("c", &[2, 1, 96]),
    ];
    let feed: Feed = shapes.iter().map(|(name, s)| ((*name).to_owned(), filled(s))).collect();
    let mut expected: Option<Vec<u8>> = None;
    for kernels in ["kernels=cranelift", "kernels=llvm"] {
        for threads in [1, 2] {
            let policy = kernels.parse().expect("a policy");
            let engine = Engine::builder().threads(threads).tier(policy);
            let program = engine.build().and_then(|e| e.load(&path)).expect("loads");
            let prepared = program.prepare("main", &feed).expect("fits");
            let mut session = program.session(Mode::Bytecode).expect("a session");
            for call in 0..20 {
                let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
                let data = outputs[0].1.data.clone();
                let at = format!("{kernels}, {threads} threads, call {call}");
                assert!(*expected.get_or_insert_with(|| data.clone()) == data, "{at}");
            }
        }
    }
}
