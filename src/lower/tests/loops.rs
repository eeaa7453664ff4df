//! Loop invariants are hoisted, and answers stay the evaluator's.

mod harness;

use std::sync::Mutex;
use std::time::Duration;

use harness::{agree, f32s, i64s};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, FuncData, GatherKind, Loop, Module, Node, Op, OutOfRange, TensorType, Unary, Value,
};
use reflex_lower::pipeline::{Observer, Options, StageOutput, run_graph};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Expr};

const WIDTH: i64 = 6;

/// A recurrent layer as frontends write it: `h = tanh(x[i] @ w + h @ u)` for `trips` steps over
/// `x[t, b, 6]`, with the matrix `w` passed through the loop's state.
fn recurrent() -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let [t, n] = ["t", "n"].map(|name| Expr::var(b.sym(name)));
    let f32_type = |shape: &[Expr]| TensorType::new(DType::F32, shape.to_vec());
    let (row, matrix) = ([n.clone(), WIDTH.into()], [WIDTH.into(), WIDTH.into()]);
    let x = b.param("x", f32_type(&[t, n, WIDTH.into()]));
    let h = b.param("h", f32_type(&row));
    let trips = b.param("trips", TensorType::new(DType::I64, vec![]));
    let [w, u] = [1, 2].map(|seed| b.constant(f32s(&[WIDTH, WIDTH], seed)));
    let iter = b.body_param("i", TensorType::new(DType::I64, vec![]));
    let cond_in = b.body_param("c", TensorType::new(DType::BOOL, vec![]));
    let carried = [("h", &row), ("w", &matrix)].map(|(name, ty)| b.body_param(name, f32_type(ty)));
    b.open();
    let step = b.emit1(gather(OutOfRange::Clamp), &[x, iter]).unwrap();
    let from_x = b.emit1(Op::MatMul, &[step, carried[1]]).unwrap();
    let twice = b.emit1(Op::Binary(Binary::Add), &[u, u]).unwrap();
    let from_h = b.emit1(Op::MatMul, &[carried[0], twice]).unwrap();
    let sum = b.emit1(Op::Binary(Binary::Add), &[from_x, from_h]).unwrap();
    let next = b.emit1(Op::Unary(Unary::Tanh), &[sum]).unwrap();
    let body = b.close(vec![cond_in, next, carried[1]]);
    let node = Node::Loop(Box::new(Loop {
        max_trips: Some(trips),
        cond: None,
        init: vec![h, w],
        iter,
        cond_in,
        carried: carried.to_vec(),
        body,
    }));
    let types = vec![f32_type(&row), f32_type(&matrix)];
    let outs = b.bind(node, types);
    b.finish(outs, vec!["h".into(), "w".into()]);
    module
}

fn gather(out_of_range: OutOfRange) -> Op {
    Op::Gather { kind: GatherKind::Axis(0), out_of_range }
}

#[test]
fn recurrent_loops_agree() {
    let module = recurrent();
    for (t, n, trips) in [(5, 1, 5), (5, 3, 4), (1, 2, 1), (2, 2, 0)] {
        let args = [f32s(&[t, n, WIDTH], 3), f32s(&[n, WIDTH], 4), i64s(&[], &[trips])];
        agree(&module, &args);
    }
}

/// The bindings of `main` after a pass: operators by name, those of a loop in brackets.
#[derive(Default)]
struct After(Mutex<Vec<String>>);

impl Observer for After {
    fn after(&self, stage: &str, _: Duration, result: StageOutput<'_>) {
        let ("eliminate_dead_code", StageOutput::Graph(module)) = (stage, result) else { return };
        let FuncData::Graph(main) = module.funcs.values().next().expect("main") else { return };
        let mut list = self.0.lock().expect("one thread");
        let name = |node: &Node| match node {
            Node::Op { op: Op::MatMul, .. } => Some("product"),
            Node::Op { op: Op::Gather { .. }, .. } => Some("row"),
            Node::Op { op: Op::Unary(_), .. } => Some("tanh"),
            _ => None,
        };
        for binding in &main.body.bindings {
            list.extend(name(&binding.node).map(String::from));
            if let Node::Loop(l) = &binding.node {
                let body: Vec<&str> =
                    l.body.bindings.iter().filter_map(|b| name(&b.node)).collect();
                list.push(format!("[{}; carries {}]", body.join(" "), l.carried.len()));
            }
        }
    }
}

#[test]
fn products_of_rows_become_rows_of_one_product() {
    let after = After::default();
    run_graph(recurrent(), &Options::new(CpuTarget::host()), &after).unwrap();
    // The state `h` and the counter; the matrix is a constant.
    let expected = ["product", "[row product tanh; carries 2]"];
    assert_eq!(after.0.into_inner().unwrap(), expected);
}

/// A row that no counter chooses is not one of all rows: computing all would be more work.
#[test]
fn products_of_chosen_rows_stay() {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let index = TensorType::new(DType::I64, vec![]);
    let x = b.param("x", TensorType::new(DType::F32, vec![9.into(), 2.into(), WIDTH.into()]));
    let start = b.param("start", index.clone());
    let trips = b.param("trips", index.clone());
    let w = b.constant(f32s(&[WIDTH, WIDTH], 1));
    let two = b.constant(i64s(&[], &[2]));
    let iter = b.body_param("i", index.clone());
    let cond_in = b.body_param("c", TensorType::new(DType::BOOL, vec![]));
    let at = b.body_param("at", index.clone());
    let state = TensorType::new(DType::F32, vec![2.into(), WIDTH.into()]);
    let sum = b.body_param("sum", state.clone());
    b.open();
    let row = b.emit1(gather(OutOfRange::Clamp), &[x, at]).unwrap();
    let product = b.emit1(Op::MatMul, &[row, w]).unwrap();
    let next = b.emit1(Op::Binary(Binary::Add), &[sum, product]).unwrap();
    let further = b.emit1(Op::Binary(Binary::Add), &[at, two]).unwrap();
    let body = b.close(vec![cond_in, further, next]);
    let zero = b.constant(f32s(&[2, WIDTH], 5));
    let node = Node::Loop(Box::new(Loop {
        max_trips: Some(trips),
        cond: None,
        init: vec![start, zero],
        iter,
        cond_in,
        carried: vec![at, sum],
        body,
    }));
    let outs: Vec<Value> = b.bind(node, vec![index, state]);
    b.finish(outs, vec!["at".into(), "sum".into()]);
    agree(&module, &[f32s(&[9, 2, WIDTH], 3), i64s(&[], &[1]), i64s(&[], &[3])]);
    let after = After::default();
    run_graph(module, &Options::new(CpuTarget::host()), &after).unwrap();
    assert_eq!(after.0.into_inner().unwrap(), ["[row product; carries 3]"]);
}

/// An operator that may fail is not moved before a loop, which may not run.
#[test]
fn checked_rows_stay_in_the_loop() {
    for (mode, expected) in [
        (OutOfRange::Raise, ["[row; carries 2]"].as_slice()),
        (OutOfRange::Clamp, ["row", "[; carries 2]"].as_slice()),
    ] {
        let mut module = Module::default();
        let mut b = FuncBuilder::new(&mut module, "main");
        let index = TensorType::new(DType::I64, vec![]);
        let row = TensorType::new(DType::F32, vec![WIDTH.into()]);
        let x = b.param("x", TensorType::new(DType::F32, vec![3.into(), WIDTH.into()]));
        let (at, trips) = (b.param("at", index.clone()), b.param("trips", index.clone()));
        let (iter, sum) = (b.body_param("i", index), b.body_param("sum", row.clone()));
        let cond_in = b.body_param("c", TensorType::new(DType::BOOL, vec![]));
        b.open();
        let taken = b.emit1(gather(mode), &[x, at]).unwrap();
        let next = b.emit1(Op::Binary(Binary::Add), &[sum, taken]).unwrap();
        let body = b.close(vec![cond_in, next]);
        let zero = b.constant(f32s(&[WIDTH], 5));
        let (max_trips, carried) = (Some(trips), vec![sum]);
        let init = vec![zero];
        let l = Loop { max_trips, cond: None, init, iter, cond_in, carried, body };
        let outs = b.bind(Node::Loop(Box::new(l)), vec![row]);
        b.finish(outs, vec!["sum".into()]);
        agree(&module, &[f32s(&[3, WIDTH], 3), i64s(&[], &[1]), i64s(&[], &[2])]);
        let after = After::default();
        run_graph(module, &Options::new(CpuTarget::host()), &after).unwrap();
        assert_eq!(after.0.into_inner().unwrap(), expected);
    }
}
