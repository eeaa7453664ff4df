//! Kernels of two models that are equal but for their names have one entry in the kernel cache.

use std::path::Path;

use reflex::{Array, Engine, Feed, Mode, Program, TierPolicy};

/// A model with a kernel of its own and others that the compiler makes.
fn text(kernel: &str, dim: &str, extra: &str) -> String {
    format!(
        r#"
@I.ir_module
class Module:
    @T.prim_func
    def {kernel}(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                y[v] = x[v] * T.float32(3.0)

    @R.function
    def main(x: R.Tensor(("{dim}", 8), "float32"), b: R.Tensor((8,), "float32")):
        cls = Module
        {dim} = T.int64()
        scale = R.call_tir(cls.{kernel}, (b,), out_ty=R.Tensor((8,), dtype="float32"))
        {extra}y = R.nn.softmax(R.matmul(R.exp(x), R.ones((8, 8), "float32")))
        return R.multiply(y, scale)
"#
    )
}

fn program(engine: &Engine, folder: &Path, name: &str, text: &str) -> Program {
    let path = folder.join(name).with_extension("py");
    std::fs::write(&path, text).expect("writes");
    engine.load(&path).expect("loads")
}

fn answer(program: &Program) -> Vec<u32> {
    let x: Vec<f32> = (0..24).map(|i| (i as f32 * 0.37).sin()).collect();
    let b: Vec<f32> = (0..8).map(|i| i as f32 - 2.5).collect();
    let x = Array::of(&[3, 8], &x).expect("a tensor");
    let b = Array::of(&[8], &b).expect("a tensor");
    let feed = Feed::from([("x".to_owned(), x), ("b".to_owned(), b)]);
    let feed = program.prepare("main", &feed).expect("fits");
    let mut session = program.session(Mode::Bytecode).expect("a session");
    let outputs = session.call(&feed).expect("runs").arrays().expect("arrays");
    outputs[0].1.to_vec::<f32>().expect("floats").iter().map(|v| v.to_bits()).collect()
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}

#[test]
fn equal_kernels_of_two_models_are_one_entry() {
    for kernels in ["llvm", "cranelift"] {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let policy: TierPolicy = format!("kernels={kernels},shapes=0").parse().expect("a policy");
        let engine =
            Engine::builder().tier(policy.clone()).cache(&cache).build().expect("an engine");
        let first = program(&engine, folder.path(), "first", &text("triple", "n", ""));
        let before = entries(&cache);
        // Those of Cranelift are one pack.
        assert!(before > if kernels == "llvm" { 2 } else { 0 }, "{kernels}: {before} entries");
        let second = program(&engine, folder.path(), "second", &text("times_three", "rows", ""));
        assert_eq!(entries(&cache), before, "{kernels}: kernels of the second model are new");
        assert_eq!(answer(&first), answer(&second), "{kernels}");
        // The same, compiled without the first one.
        let alone = Engine::builder().tier(policy).cache(folder.path().join("other"));
        let alone = alone.build().expect("an engine");
        let alone = program(&alone, folder.path(), "alone", &text("times_three", "rows", ""));
        assert_eq!(answer(&alone), answer(&second), "{kernels}");
        let other = text("triple", "n", "x = R.add(x, x)\n        ");
        program(&engine, folder.path(), "other", &other);
        assert!(entries(&cache) > before, "{kernels}: another kernel is another entry");
        // Code that was generated for the first one has the second one's name, in symbols and messages.
        let library = folder.path().join("second.so");
        second.save(&library).expect("saves");
        let error = reflex::library_function(&library, "times_three").expect("found").call(&[]);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("times_three: expected 2 arguments, got 0"), "{message}");
        assert!(!std::fs::read(&library).expect("reads").windows(7).any(|w| w == b"$kernel"));
    }
}
