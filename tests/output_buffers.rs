//! Outputs that kernels write where the host wants them, without a copy.

use std::sync::Mutex;

use reflex::{Any, Engine, Function, Mode, Program, Tensor, register_global_func};

/// 128 KiB: more than what is copied.
const COUNT: i64 = 1 << 15;

/// Two results of one size, made in the other order; `chain` after intermediates of that size. `small` has
/// a small result.
const MODEL: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")):
        with R.dataflow():
            y = R.cumsum(x, axis=0)
            z = R.add(y, R.const(1.0, "float32"))
            R.output(y, z)
        return (z, y)

    @R.function
    def chain(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")):
        with R.dataflow():
            p = R.cumsum(x, axis=0)
            y = R.cumsum(R.subtract(p, p), axis=0)
            z = R.cumsum(R.add(y, x), axis=0)
            R.output(y, z)
        return (z, y)

    @R.function
    def small(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.add(x, x)
"#;

/// A function from outside keeps an intermediate.
const IMPURE: &str = r#"
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((32768,), "float32")) -> R.Tensor((32768,), "float32"):
        y = R.add(x, x)
        z: R.Any = R.call_packed("tests.output_buffers.keep", y, ty_args=(R.Any,))
        return R.add(y, y)
"#;

fn program(text: &str) -> Program {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.py");
    std::fs::write(&path, text).expect("writable");
    Engine::new().and_then(|engine| engine.load(&path)).unwrap_or_else(|e| panic!("{e}"))
}

fn tensor(fill: impl Fn(i64) -> f32) -> Tensor {
    let values: Vec<f32> = (0..COUNT).map(fill).collect();
    Tensor::from_slice(&[COUNT], &values).expect("fits")
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().expect("f32")
}

fn empty() -> Tensor {
    tensor(|_| f32::NAN)
}

#[test]
fn large_results_lie_in_the_bound_tensors() {
    let program = program(MODEL);
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = folder.path().join("model.so");
    program.save(&artifact).expect("saved");
    let opened = Engine::new().and_then(|engine| engine.load(&artifact)).expect("opens");
    lie_in_the_bound_tensors(&program);
    lie_in_the_bound_tensors(&opened);
}

fn lie_in_the_bound_tensors(program: &Program) {
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        let (z, y) = (empty(), empty());
        session.set_input("main", vec![empty().into()]).expect("fits");
        session.bind_outputs("main", vec![z.clone(), y.clone()]).expect("inputs are set");
        for run in 0..40_u8 {
            let step = f32::from(run);
            session.set_input("main", vec![tensor(|_| step).into()]).expect("fits");
            session.invoke_stateful("main").unwrap_or_else(|e| panic!("{mode}: {e}"));
            let sum = |i: i64| (i + 1) as f32 * step;
            assert_eq!(values(&y), values(&tensor(sum)), "{mode}, run {run}");
            assert_eq!(values(&z), values(&tensor(|i| sum(i) + 1.0)), "{mode}, run {run}");
            let results = session.get_outputs("main").expect("kept");
            let lies_in = |at: usize, target: &Tensor| {
                results[at].downcast_ref::<Tensor>().expect("a tensor").data_ptr()
                    == target.data_ptr()
            };
            let own = [lies_in(0, &z), lies_in(1, &y)];
            let exchanged = [lies_in(0, &y), lies_in(1, &z)];
            // The storage of y, which comes first, takes the first tensor that is offered: z's at first,
            // and y's once the run has shown it. Copies put the first results right.
            assert!(
                own == [true; 2] || (run == 0 && exchanged == [true; 2]),
                "{mode}, {run}: {own:?}"
            );
        }
    }
}

#[test]
fn intermediates_of_an_outputs_size_change_no_result() {
    let program = program(MODEL);
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        let chain = session.function_index("chain").expect("there");
        let (z, y) = (empty(), empty());
        for run in 0..40_u8 {
            let step = f32::from(run);
            let x = tensor(|_| step);
            let outputs = vec![z.clone(), y.clone()];
            session.call_index_into(chain, vec![x.into()], outputs).expect("runs");
            assert_eq!(values(&y), [0.0; COUNT as usize], "{mode}, run {run}");
            let sum = |i: i64| (i + 1) as f32 * step;
            assert_eq!(values(&z), values(&tensor(sum)), "{mode}, run {run}");
        }
    }
}

#[test]
fn small_results_are_copied() {
    let program = program(MODEL);
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        let small = session.function_index("small").expect("there");
        let y = Tensor::from_slice(&[4], &[0.0_f32; 4]).expect("fits");
        let x = Tensor::from_slice(&[4], &[1.0_f32, 2.0, 3.0, 4.0]).expect("fits");
        for _ in 0..40 {
            session.call_index_into(small, vec![x.clone().into()], vec![y.clone()]).expect("runs");
            assert_eq!(values(&y), [2.0, 4.0, 6.0, 8.0], "{mode}");
        }
    }
}

#[test]
fn inputs_and_outputs_may_share_memory() {
    let program = program(MODEL);
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        let main = session.function_index("main").expect("there");
        let (x, y) = (tensor(|_| 1.0), empty());
        let outputs = vec![x.clone(), y.clone()];
        session.call_index_into(main, vec![x.clone().into()], outputs).expect("runs");
        assert_eq!(values(&x), values(&tensor(|i| (i + 2) as f32)), "{mode}");
        assert_eq!(values(&y), values(&tensor(|i| (i + 1) as f32)), "{mode}");
    }
}

#[test]
fn tensors_that_functions_keep_are_not_overwritten() {
    static KEPT: Mutex<Vec<Tensor>> = Mutex::new(vec![]);
    let keep = Function::new(|args| {
        let tensor = args[0].downcast_ref::<Tensor>().expect("a tensor");
        KEPT.lock().expect("no panic").push(tensor.clone());
        Ok(Any::NONE)
    });
    register_global_func("tests.output_buffers.keep", keep).expect("a free name");
    let program = program(IMPURE);
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        let main = session.function_index("main").expect("there");
        let y = empty();
        for run in 1..=2_u8 {
            let x = tensor(|_| f32::from(run));
            session.call_index_into(main, vec![x.into()], vec![y.clone()]).expect("runs");
            assert_eq!(values(&y)[..2], [4.0 * f32::from(run); 2], "{mode}");
        }
        let kept = std::mem::take(&mut *KEPT.lock().expect("no panic"));
        let first: Vec<f32> = kept.iter().map(|tensor| values(tensor)[0]).collect();
        assert_eq!(first, [2.0, 4.0], "{mode}");
    }
}
