//! Shape specialisation: when programs are specialised, that no bit differs, and calls that are not
//! specialised.

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reflex::{
    Any, AnyView, Array, CallEvent, DType, Engine, ErrorKind, Feed, Instrument, Mode, Program,
    RaisedError, Session, Tensor, TierPolicy, Verdict,
};

use reflex_onnx::proto::{Message, ModelProto, NodeProto, TensorProto, data_type};

const MODEL: &str = r#"
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 24), dtype="float32"), w: R.Tensor((24, 16), dtype="float32")) -> R.Tensor((16,), dtype="float32"):
        h: R.Tensor((n, 16), dtype="float32") = R.matmul(x, w)
        r: R.Tensor((n, 16), dtype="float32") = R.nn.softmax(h, axis=-1)
        s: R.Tensor((16,), dtype="float32") = R.sum(r, axis=[0])
        return s
"#;

/// Specialises at the second call with the same shapes, on the calling thread, whether it is faster
/// or not.
const SOON: &str = "compile=sync,shape-calls=2,shape-ms=0,specialise=always,shapes=2";

struct Model {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn model(text: &str) -> Model {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.py");
    std::fs::write(&path, text).expect("writable");
    Model { _folder: folder, path }
}

fn load(path: &Path, policy: &str) -> Program {
    let policy: TierPolicy = policy.parse().expect("a policy");
    Engine::builder().tier(policy).build().and_then(|e| e.load(path)).expect("loads")
}

fn noise(shape: &[i64], seed: u32) -> Array {
    let count = shape.iter().product::<i64>() as u32;
    let values: Vec<f32> = (0..count)
        .map(|i| ((i + 1).wrapping_mul(seed.wrapping_mul(2_654_435_761)) >> 8) as f32 / 1e7 - 0.8)
        .collect();
    Array::of(shape, &values).expect("as many elements as the shape has")
}

fn feed(n: i64) -> Feed {
    Feed::from([("x".to_owned(), noise(&[n, 24], 3)), ("w".to_owned(), noise(&[24, 16], 5))])
}

fn call(program: &Program, session: &mut Session, n: i64) -> Vec<u8> {
    let prepared = program.prepare("main", &feed(n)).expect("fits");
    let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
    outputs[0].1.data.clone()
}

fn lines(program: &Program) -> Vec<String> {
    let text = program.tiers();
    text.lines().filter(|l| l.starts_with("shapes ")).map(str::to_owned).collect()
}

#[test]
fn hot_shapes_are_specialised_with_the_same_bits() {
    let model = model(MODEL);
    let program = load(&model.path, SOON);
    let mut general = program.session(Mode::Bytecode).expect("a session");
    let mut session = program.session(Mode::Tiered).expect("a session");
    for n in [3, 16, 3, 16, 3, 16, 1, 7] {
        assert_eq!(call(&program, &mut session, n), call(&program, &mut general, n), "n = {n}");
    }
    // Two sets at most: 1 and 7, called once, have evicted 3 and 16.
    let found = lines(&program);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|l| l.ends_with("1 calls")), "{found:?}");
    for n in [7, 7, 1, 1] {
        assert_eq!(call(&program, &mut session, n), call(&program, &mut general, n), "n = {n}");
    }
    let found = lines(&program);
    assert!(found.iter().all(|l| l.contains("in use, compiled in")), "{found:?}");
    assert!(found.iter().any(|l| l.starts_with("shapes main([7, 24], [24, 16]):")), "{found:?}");
}

#[test]
fn bound_runs_and_warm_ups_use_it() {
    let model = model(MODEL);
    let program = load(&model.path, SOON);
    let prepared = program.prepare("main", &feed(5)).expect("fits");
    let mut session = program.session(Mode::Tiered).expect("a session");
    assert!(session.warm_up(&prepared).expect("runs") > 1);
    let found = lines(&program);
    assert!(found[0].contains("in use"), "{found:?}");
    let (_, profile) = session.profile_prepared(&prepared).expect("runs");
    assert!(
        !profile.by_time().is_empty(),
        "a profile sees the calls that a specialised program fuses"
    );
    let expected = call(&program, &mut program.session(Mode::Bytecode).expect("a session"), 5);
    let mut bound = session.bind(&prepared).expect("runs");
    for _ in 0..3 {
        bound.run().expect("runs");
        let bits: Vec<u8> =
            bound.output::<f32>(0).expect("f32").iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(bits, expected);
    }
    bound.input_mut::<f32>(0).expect("f32").fill(0.0);
    bound.run().expect("runs");
    assert!(bound.output::<f32>(0).expect("f32").iter().all(|x| *x == 0.3125));
}

/// Collects the names of the functions that are called.
struct Names(Arc<Mutex<Vec<String>>>);

impl Instrument for Names {
    fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, RaisedError> {
        self.0.lock().expect("no panic").push(call.callee().to_owned());
        Ok(Verdict::Run)
    }

    fn after(&mut self, _: &CallEvent<'_>, _: AnyView<'_>) -> Result<(), RaisedError> {
        Ok(())
    }
}

/// The names of the functions that `body` calls.
fn callees(session: &mut Session, body: impl FnOnce(&mut Session)) -> Vec<String> {
    let names = Arc::new(Mutex::new(vec![]));
    session.set_instrument(Some(Box::new(Names(names.clone()))));
    body(session);
    session.set_instrument(None);
    std::mem::take(&mut names.lock().expect("no panic"))
}

#[test]
fn limits_and_instruments_hold_for_specialised_programs() {
    let model = model(MODEL);
    let program = load(&model.path, SOON);
    let mut session = program.session(Mode::Tiered).expect("a session");
    let general = callees(&mut session, |session| drop(call(&program, session, 3)));
    session.set_fuel(Some(1000));
    session.set_deadline(Some(Duration::from_secs(3600)));
    (0..4).for_each(|_| drop(call(&program, &mut session, 3)));
    assert!(lines(&program)[0].contains("in use"), "{:?}", lines(&program));
    let special = callees(&mut session, |session| drop(call(&program, session, 3)));
    assert!(special.len() < general.len(), "{special:?} instead of {general:?}");

    let before = session.fuel();
    let expected = call(&program, &mut session, 3);
    assert!(session.fuel() < before && before < 1000, "{before}");
    let prepared = program.prepare("main", &feed(3)).expect("fits");
    let kind = |session: &mut Session| session.call(&prepared).err().map(|e| e.kind());
    session.set_fuel(Some(0));
    assert_eq!(kind(&mut session), Some(ErrorKind::FuelExhausted));
    session.set_fuel(None);
    session.set_deadline(Some(Duration::ZERO));
    assert_eq!(kind(&mut session), Some(ErrorKind::DeadlineExceeded));
    session.set_deadline(None);
    session.canceller().cancel();
    assert_eq!(kind(&mut session), Some(ErrorKind::Cancelled));
    session.canceller().reset();
    assert_eq!(call(&program, &mut session, 3), expected);
}

#[test]
fn stored_inputs_are_dispatched_by_their_shapes() {
    let model = model(MODEL);
    let program = load(&model.path, SOON);
    let mut session = program.session(Mode::Tiered).expect("a session");
    let mut general = program.session(Mode::Bytecode).expect("a session");
    let tensor = |array: &Array| {
        let values = array.to_vec::<f32>().expect("f32");
        Any::from(Tensor::from_slice(&array.shape, &values).expect("fits"))
    };
    let y = Tensor::zeros(&[16], DType::F32).expect("memory");
    for n in [5, 5, 5, 8, 5] {
        let args = vec![tensor(&feed(n)["x"]), tensor(&feed(n)["w"])];
        session.set_input("main", args).expect("fits");
        session.bind_outputs("main", vec![y.clone()]).expect("inputs are set");
        session.invoke_stateful("main").expect("runs");
        let expected = call(&program, &mut general, n);
        assert_eq!(y.to_bytes().expect("compact"), expected, "n = {n}");
        let kept = session.get_outputs("main").expect("a result").remove(0);
        let kept = Tensor::try_from(kept).expect("a tensor");
        assert_eq!(kept.to_bytes().expect("compact"), expected, "n = {n}");
    }
    assert!(lines(&program).iter().any(|l| l.contains("in use")), "{:?}", lines(&program));
    let stateful = callees(&mut session, |s| s.invoke_stateful("main").expect("runs"));
    let called = callees(&mut session, |session| drop(call(&program, session, 5)));
    assert_eq!(stateful, called, "both run the specialised program");
}

#[test]
fn variants_for_known_shapes_are_saved() {
    let model = model(MODEL);
    let engine = || Engine::builder().tier("shapes=0".parse().expect("a policy"));
    let known = |n: i64| [("x", vec![n, 24])];
    let compiled = engine().shapes(known(3)).shapes(known(7)).build().expect("an engine");
    let compiled = compiled.load(&model.path).expect("loads");
    let file = model.path.with_extension("so");
    compiled.save(&file).expect("writes");
    let reopened = engine().build().expect("an engine").load(&file).expect("opens");
    let info = Engine::info(&file).expect("a library");
    assert_eq!(info.variants, ["main([3, 24], [24, 16])", "main([7, 24], [24, 16])"]);
    for program in [compiled, reopened] {
        assert_eq!(program.functions(), ["main"]);
        assert!(program.signature("main__shape0").is_err());
        let mut reference = load(&model.path, "off").session(Mode::Bytecode).expect("a session");
        for mode in Mode::ALL {
            let mut session = program.session(mode).expect("a session");
            let mut called = |n| {
                let expected = call(&program, &mut reference, n);
                let mut found = vec![];
                let names = callees(&mut session, |s| found = call(&program, s, n));
                assert_eq!(found, expected, "n = {n}, {mode}");
                assert_eq!(call(&program, &mut session, n), expected, "n = {n}, {mode}");
                names
            };
            let [three, five, seven, three_again] = [3, 5, 7, 3].map(&mut called);
            assert!(three.len() < five.len(), "{mode}: {three:?} and {five:?}");
            assert_eq!(three, three_again);
            assert!(seven.len() < five.len() && seven != three, "{mode}: {seven:?}");
        }
    }
}

#[test]
fn variants_that_do_not_fit_are_refused() {
    let model = model(MODEL);
    for (name, shape, why) in [
        ("x", vec![3], "shape x=3: the input has 2 dimensions"),
        ("x", vec![3, 25], "shape x=3x25: a dimension is 24, not 25"),
        ("z", vec![3], "no function has the inputs z"),
    ] {
        let engine = Engine::builder().shapes([(name, shape)]).build().expect("an engine");
        let error = engine.load(&model.path).err().expect("refused").to_string();
        assert!(error.ends_with(why), "{error}");
    }
}

#[test]
fn changed_files_and_policies_leave_the_general_program() {
    let model = model(MODEL);
    let program = load(&model.path, SOON);
    std::fs::write(&model.path, format!("{MODEL}\n# changed\n")).expect("writable");
    let mut session = program.session(Mode::Tiered).expect("a session");
    (0..4).for_each(|_| drop(call(&program, &mut session, 3)));
    let found = lines(&program);
    assert!(found[0].contains("not used: the file has changed"), "{found:?}");

    let program = load(&model.path, "shapes=0");
    let mut session = program.session(Mode::Tiered).expect("a session");
    (0..4).for_each(|_| drop(call(&program, &mut session, 3)));
    assert_eq!(lines(&program), Vec::<String>::new());
}

#[test]
fn sessions_of_several_threads_share_what_is_made() {
    let model = model(MODEL);
    let program = load(&model.path, "shape-calls=4,shape-ms=0,specialise=always");
    let expected = call(&program, &mut program.session(Mode::Bytecode).expect("a session"), 9);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut session = program.session(Mode::Tiered).expect("a session");
                for _ in 0..200 {
                    assert_eq!(call(&program, &mut session, 9), expected);
                }
            });
        }
    });
    let prepared = program.prepare("main", &feed(9)).expect("fits");
    program.session(Mode::Tiered).and_then(|mut s| s.warm_up(&prepared)).expect("runs");
    let found = lines(&program);
    assert!(found.len() == 1 && found[0].contains("in use"), "{found:?}");
}

const BRANCHES: &str = r#"
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 24), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((24,), dtype="float32"):
        if c:
            y_then: R.Tensor((24,), dtype="float32") = R.sum(x, axis=[0])
            y: R.Tensor((24,), dtype="float32") = y_then
        else:
            y_else: R.Tensor((24,), dtype="float32") = R.reshape(x, R.shape([24]))
            y: R.Tensor((24,), dtype="float32") = y_else
        z: R.Tensor((24,), dtype="float32") = R.negative(y)
        return z
"#;

#[test]
fn a_branch_for_other_shapes_still_fails() {
    let model = model(BRANCHES);
    let program = load(&model.path, SOON);
    let mut general = program.session(Mode::Bytecode).expect("a session");
    let mut session = program.session(Mode::Tiered).expect("a session");
    let call = |session: &mut Session, n: i64, sums: bool| {
        let c =
            Array { dtype: DType::BOOL, ..Array::of(&[], &[u8::from(sums)]).expect("one element") };
        let feed = Feed::from([("x".to_owned(), noise(&[n, 24], 3)), ("c".to_owned(), c)]);
        let prepared = program.prepare("main", &feed).expect("fits");
        session.call(&prepared).and_then(|o| o.arrays()).map(|o| o[0].1.data.clone()).ok()
    };
    for n in [2, 1] {
        for sums in [true, true, true, false, true, false] {
            let expected = call(&mut general, n, sums);
            assert_eq!(expected.is_some(), sums || n == 1);
            assert_eq!(call(&mut session, n, sums), expected, "n = {n}");
        }
    }
    let found = lines(&program);
    assert!(found.len() == 2 && found.iter().all(|l| l.contains("in use")), "{found:?}");
}

/// Kernels that may round differently: Winograd convolutions, partial sums.
const IMAGES: &str = r#"
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T

h = TypeVar("h")
w = TypeVar("w")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 32, h, w), dtype="float32")) -> R.Tensor((1, 32), dtype="float32"):
        h = T.int64()
        w = T.int64()
        n: R.Tensor((9216,), dtype="int64") = R.arange(0, 9216, 1, dtype="int64")
        f: R.Tensor((9216,), dtype="float32") = R.astype(n, dtype="float32")
        s: R.Tensor((9216,), dtype="float32") = R.sin(f)
        k: R.Tensor((32, 32, 3, 3), dtype="float32") = R.reshape(s, R.shape([32, 32, 3, 3]))
        c: R.Tensor((1, 32, h, w), dtype="float32") = R.nn.conv2d(x, k, padding=[1, 1, 1, 1])
        d: R.Tensor((1, 32, (h + 1) // 2, (w + 1) // 2), dtype="float32") = R.nn.conv2d(c, k, strides=[2, 2], padding=[1, 1, 1, 1])
        e: R.Tensor((1, 32, (h + 1) // 2, (w + 1) // 2), dtype="float32") = R.nn.softmax(d, axis=-1)
        m: R.Tensor((1, 32), dtype="float32") = R.mean(e, axis=[2, 3])
        return m
"#;

#[test]
fn known_shapes_choose_no_way_that_rounds_differently() {
    let model = model(IMAGES);
    let program = load(&model.path, &SOON.replace("shapes=2", "shapes=4"));
    let mut general = program.session(Mode::Bytecode).expect("a session");
    let mut session = program.session(Mode::Tiered).expect("a session");
    for (h, w) in [(6, 41), (30, 16), (5, 130), (90, 33)] {
        let feed = Feed::from([("x".to_owned(), noise(&[1, 32, h, w], 7))]);
        let prepared = program.prepare("main", &feed).expect("fits");
        let bits = |session: &mut Session| {
            session.call(&prepared).and_then(|o| o.arrays()).expect("runs")[0].1.data.clone()
        };
        let expected = bits(&mut general);
        for _ in 0..3 {
            assert_eq!(bits(&mut session), expected, "{h} by {w}");
        }
    }
    let found = lines(&program);
    assert!(found.len() == 4 && found.iter().all(|l| l.contains("in use")), "{found:?}");
}

/// `y = (x w) s`, x `[n, 24]`, with constant weights, which are scaled and packed when compiled.
fn weighted() -> Vec<u8> {
    let float = |name: &str, dims: &[i64]| TensorProto {
        name: name.to_owned(),
        data_type: data_type::FLOAT,
        dims: dims.to_vec(),
        raw_data: Some(noise(dims, 11).data.into()),
        ..TensorProto::default()
    };
    let bytes = common::one_node("MatMul", &[("x", &["n", "24"])], ("y", &["n", "32"]));
    let mut model = ModelProto::decode(&*bytes).expect("a model");
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer = vec![float("w", &[24, 32]), float("s", &[32])];
    graph.node[0].input.push("w".to_owned());
    graph.node[0].output = vec!["h".to_owned()];
    graph.node.push(NodeProto {
        input: vec!["h".to_owned(), "s".to_owned()],
        output: vec!["y".to_owned()],
        op_type: "Mul".to_owned(),
        ..NodeProto::default()
    });
    model.encode_to_vec()
}

#[test]
fn variants_share_weights() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, weighted()).expect("writable");
    let known = |n: i64| [("x", vec![n, 24])];
    let engine = Engine::builder().shapes(known(1)).shapes(known(6)).build().expect("an engine");
    let program = engine.load(&path).expect("loads");
    let general = Engine::new().and_then(|e| e.load(&path)).expect("loads");
    for n in [1, 6, 3] {
        let feed = Feed::from([("x".to_owned(), noise(&[n, 24], 3))]);
        let bits = |program: &Program| {
            let prepared = program.prepare("main", &feed).expect("fits");
            let mut session = program.session(Mode::Compiled).expect("a session");
            session.call(&prepared).and_then(|o| o.arrays()).expect("runs")[0].1.data.clone()
        };
        assert_eq!(bits(&program), bits(&general), "n = {n}");
    }
}

#[test]
fn bound_dimensions_are_constants_with_the_same_bits() {
    let model = model(MODEL);
    let general = load(&model.path, "off");
    let engine = Engine::builder().dims([("n", 7)]).build().expect("an engine");
    let bound = engine.load(&model.path).expect("loads");
    let input = &bound.signature("main").expect("a function").inputs[0];
    assert_eq!(input.to_string(), "x: float32[7, 24]");
    let text = engine.dump_after(&*model.path, "fuse_operators").expect("a pass");
    assert!(text.contains("(7, 24)") && !text.contains("(n, 24)"), "{text}");
    let sessions = [&general, &bound].map(|program| program.session(Mode::Tiered).expect("opens"));
    let [mut of_general, mut of_bound] = sessions;
    assert_eq!(call(&bound, &mut of_bound, 7), call(&general, &mut of_general, 7));
    let error = bound.prepare("main", &feed(8)).err().expect("another size");
    assert_eq!(
        error.to_string(),
        "input x: float32[7, 24]: got float32[8, 24]; dimension 0 must be 7"
    );
    assert!(lines(&bound).is_empty(), "nothing is left to specialise");
}

#[test]
fn faulty_bound_dimensions_are_named() {
    let model = model(MODEL);
    let refusal = |name: &str, size: i64| {
        let engine = Engine::builder().dims([(name, size)]).build().expect("an engine");
        engine.load(&model.path).err().expect("refused").to_string()
    };
    let unknown = refusal("batch", 1);
    assert!(
        unknown.ends_with(r#"no input has a dimension named "batch"; there are n"#),
        "{unknown}"
    );
    let zero = refusal("n", 0);
    assert!(zero.ends_with("dimension n is at least 1, not 0"), "{zero}");
}

/// `y = 0, 1, .. size(x)`, x `[n, 3]`: only where `n` is known is the number of elements.
fn counted() -> Vec<u8> {
    let bytes = common::one_node("Size", &[("x", &["n", "3"])], ("y", &["count"]));
    let mut model = ModelProto::decode(&*bytes).expect("a model");
    let graph = model.graph.as_mut().expect("a graph");
    let scalar = |name: &str, value: i64| TensorProto {
        name: name.to_owned(),
        data_type: data_type::INT64,
        raw_data: Some(value.to_le_bytes().to_vec().into()),
        ..TensorProto::default()
    };
    graph.initializer = vec![scalar("zero", 0), scalar("one", 1)];
    graph.node[0].output = vec!["size".to_owned()];
    graph.node.push(NodeProto {
        input: ["zero", "size", "one"].map(str::to_owned).to_vec(),
        output: vec!["y".to_owned()],
        op_type: "Range".to_owned(),
        ..NodeProto::default()
    });
    let output = graph.output[0].r#type.as_mut().and_then(|ty| ty.tensor_type.as_mut());
    output.expect("a tensor").elem_type = data_type::INT64;
    model.encode_to_vec()
}

#[test]
fn nodes_of_onnx_compute_with_bound_dimensions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, counted()).expect("writable");
    let output = |dims: &[(&str, i64)]| {
        let engine = Engine::builder().dims(dims.iter().copied()).build().expect("an engine");
        let program = engine.load(&path).map_err(|e| e.to_string())?;
        Ok::<_, String>(program.signature("main").expect("a function").outputs[0].to_string())
    };
    assert!(!output(&[]).expect("loads").contains("12"));
    assert_eq!(output(&[("n", 4)]).expect("loads"), "y: int64[12]");
    let unknown = output(&[("n", 4), ("m", 1)]).expect_err("there is no m");
    assert!(unknown.ends_with(r#"no input has a dimension named "m"; there are n"#), "{unknown}");
}
