//! Outputs bound to inputs: state in place.

use reflex::{Any, Array, Engine, Feed, Mode, Program, Session, Tensor};

/// An accumulator, and a pair that changes places.
const MODEL: &str = r#"
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32"), state: R.Tensor((2,), dtype="float32")) -> R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="float32")):
        sum: R.Tensor((2,), dtype="float32") = R.add(x, state)
        y: R.Tensor((2,), dtype="float32") = R.multiply(sum, sum)
        return (y, sum)

    @R.function
    def exchange(a: R.Tensor((2,), dtype="float32"), b: R.Tensor((2,), dtype="float32")) -> R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="float32")):
        return (b, a)
"#;

fn program() -> Program {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.py");
    std::fs::write(&path, MODEL).expect("writable");
    Engine::new().and_then(|engine| engine.load(&path)).expect("loads")
}

fn sessions(program: &Program) -> impl Iterator<Item = Session> {
    Mode::ALL.into_iter().map(|mode| program.session(mode).expect("a session"))
}

#[test]
fn a_run_reads_the_state_of_the_run_before() {
    let program = program();
    let array = |values: &[f32]| Array::of(&[2], values).expect("two elements");
    let feed = Feed::from([("x".into(), array(&[1.0, 2.0])), ("state".into(), array(&[0.0; 2]))]);
    let prepared = program.prepare("main", &feed).expect("fits");
    for mut session in sessions(&program) {
        let mut bound = session.bind(&prepared).expect("runs");
        bound.alias(1, 1).expect("fits");
        bound.input_mut::<f32>(1).expect("f32").copy_from_slice(&[10.0, 20.0]);
        for run in 1..=3_u8 {
            bound.run().expect("runs");
            let run = f32::from(run);
            let state = [10.0 + run, 20.0 + 2.0 * run];
            assert_eq!(bound.output::<f32>(1).expect("f32"), state);
            assert_eq!(bound.output::<f32>(0).expect("f32"), state.map(|s| s * s));
        }
        let error = bound.alias(2, 0).expect_err("there are two");
        assert_eq!(error.to_string(), "no output 2; there are 2");
    }
}

#[test]
fn results_that_are_inputs_are_not_overwritten_by_each_other() {
    let program = program();
    for mut session in sessions(&program) {
        let tensor = |values: &[f32]| Tensor::from_slice(&[2], values).expect("fits");
        let (a, b) = (tensor(&[1.0, 2.0]), tensor(&[3.0, 4.0]));
        let args = [&a, &b].map(|t| Any::from(t.clone()));
        session.set_input("exchange", args.to_vec()).expect("fits");
        session.bind_outputs("exchange", vec![a.clone(), b.clone()]).expect("inputs are set");
        for run in 0..3 {
            session.invoke_stateful("exchange").expect("runs");
            let found = [&a, &b].map(|t| t.to_vec::<f32>().expect("f32"));
            let expected = match run % 2 {
                0 => [[3.0, 4.0], [1.0, 2.0]],
                _ => [[1.0, 2.0], [3.0, 4.0]],
            };
            assert_eq!(found, expected, "run {run}");
        }
        session.bind_outputs("exchange", vec![a.clone()]).expect("inputs are set");
        let error = session.invoke_stateful("exchange").expect_err("two results");
        assert!(error.to_string().contains("1 outputs are bound and the result has 2"), "{error}");
    }
}
