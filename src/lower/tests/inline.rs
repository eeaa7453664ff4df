//! Functions that are inlined answer as those that are called: in the graph evaluator, and compiled.

mod harness;

use harness::{agree, f32s, run_with};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, Body, EvalValue, Func, FuncData, FuncId, LeafExpr, Literal, Module, Node, Op,
    TensorType, Type, Unary, Value, eval_func,
};
use reflex_lower::pipeline::{Options, run_one_pass};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Expr};

fn f32_type(shape: Vec<Expr>) -> TensorType {
    TensorType::new(DType::F32, shape)
}

fn graph(module: &mut Module, id: FuncId) -> &mut Func {
    match &mut module.funcs[id] {
        FuncData::Graph(func) => func,
        FuncData::Prim(_) => panic!("a kernel"),
    }
}

fn inlined(module: &Module) -> Module {
    let options = Options::new(CpuTarget::host());
    run_one_pass(module.clone(), "inline_functions", &options, &mut Default::default())
        .expect("a module")
}

fn main_of(module: &Module) -> (FuncId, &Func) {
    let main = module.funcs.iter().find_map(|(id, func)| match func {
        FuncData::Graph(func) if func.name == "main" => Some((id, func)),
        _ => None,
    });
    main.expect("a function main")
}

fn nodes(body: &Body, wanted: fn(&Node) -> bool) -> usize {
    let mut count = 0;
    body.walk(&mut |binding| count += usize::from(wanted(&binding.node)));
    count
}

fn calls(module: &Module) -> usize {
    nodes(&main_of(module).1.body, |node| matches!(node, Node::CallFunc { .. }))
}

/// The evaluator's answers of `main`, before and after the pass, and the compiled one's.
fn same_answers(module: &Module, args: &[Literal]) -> Module {
    let after = inlined(module);
    let values: Vec<EvalValue> = args.iter().cloned().map(EvalValue::Tensor).collect();
    let answer = |module: &Module| {
        let (main, _) = main_of(module);
        eval_func(module, main, &values).map_err(|_| "it fails")
    };
    assert_eq!(answer(module), answer(&after));
    let with = Options::new(CpuTarget::host());
    let mut without = with.clone();
    without.pipeline.remove("inline_functions").expect("it may be left out");
    let (with, without) = (run_with(&with, module, args), run_with(&without, module, args));
    assert_eq!(with.is_ok(), without.is_ok(), "{with:?} {without:?}");
    if with.is_ok() {
        agree(module, args);
    }
    after
}

fn unary(b: &mut FuncBuilder<'_>, f: Unary, x: Value) -> Value {
    b.emit1(Op::Unary(f), &[x]).unwrap()
}

fn call(b: &mut FuncBuilder<'_>, func: FuncId, args: &[Value], types: &[TensorType]) -> Vec<Value> {
    b.bind(Node::CallFunc { func, args: args.to_vec() }, types.to_vec())
}

/// `halves(x: [n], y: [2 * n])`, two results.
fn halves(module: &mut Module) -> FuncId {
    let mut b = FuncBuilder::new(module, "halves");
    let n = Expr::var(b.sym("n"));
    let x = b.param("x", f32_type(vec![n.clone()]));
    let y = b.param("y", f32_type(vec![n.clone() * 2]));
    let pair = b.emit1(Op::Reshape(vec![2.into(), n]), &[y]).unwrap();
    let sum = b.emit1(Op::Binary(Binary::Add), &[pair, x]).unwrap();
    let out = unary(&mut b, Unary::Exp, sum);
    b.finish(vec![out, x], vec!["sum".into(), "x".into()])
}

#[test]
fn dimensions_are_those_of_the_arguments() {
    let mut module = Module::default();
    let callee = halves(&mut module);
    let mut b = FuncBuilder::new(&mut module, "main");
    let (m, k) = (Expr::var(b.sym("m")), Expr::var(b.sym("k")));
    let x = b.param("x", f32_type(vec![m.clone()]));
    let y = b.param("y", f32_type(vec![k]));
    let types = [f32_type(vec![2.into(), m.clone()]), f32_type(vec![m])];
    let results = call(&mut b, callee, &[x, y], &types);
    let fixed = b.constant(f32s(&[3], 3));
    let wide = b.constant(f32s(&[6], 4));
    let types = [f32_type(vec![2.into(), 3.into()]), f32_type(vec![3.into()])];
    let more = call(&mut b, callee, &[fixed, wide], &types);
    b.finish(vec![results[0], more[0], more[1]], vec!["a".into(), "b".into(), "c".into()]);
    let after = same_answers(&module, &[f32s(&[5], 1), f32s(&[10], 2)]);
    assert_eq!(calls(&after), 0);
    // `y` of the first call is checked, nothing of the second.
    let casts = nodes(&main_of(&after).1.body, |node| matches!(node, Node::MatchCast(_)));
    assert_eq!(casts, 1);
    assert_eq!(after.funcs.len(), 2, "others may call what is not private");
    same_answers(&module, &[f32s(&[5], 1), f32s(&[9], 2)]);
    // A program for shapes that are known computes in the order of the general one.
    let mut bound = module.clone();
    let (main, _) = main_of(&module);
    let func = graph(&mut bound, main);
    let dims = func.infer_symbolic_var_map(&[&[5], &[10]]);
    func.bind_symbolic_vars(&dims);
    let bound = same_answers(&bound, &[f32s(&[5], 1), f32s(&[10], 2)]);
    assert_eq!(known_dims(&bound), known_dims(&after));
    assert_eq!(calls(&bound), 0);
}

/// Which dimensions of each operator's results were numbers before shapes were bound.
fn known_dims(module: &Module) -> Vec<Vec<bool>> {
    let (_, main) = main_of(module);
    let mut known = vec![];
    main.body.walk(&mut |binding| {
        if let Node::Op { .. } = binding.node {
            let shape = main.symbolic_shape(binding.outputs[0]);
            known.push(shape.iter().map(|dim| dim.as_int().is_some()).collect());
        }
    });
    known
}

/// `depth` functions, each of which calls the one before twice, or inside of a branch.
fn tower(depth: usize, branches: bool) -> Module {
    let mut module = Module::default();
    let mut below = None;
    for level in 0..depth {
        let name = if level + 1 == depth { "main".into() } else { format!("f{level}") };
        let mut b = FuncBuilder::new(&mut module, name);
        let x = b.param("x", f32_type(vec![2.into()]));
        let go = b.param("go", TensorType::new(DType::BOOL, vec![]));
        let ty = [f32_type(vec![2.into()])];
        let y = match below {
            None => unary(&mut b, Unary::Tanh, x),
            Some(func) if branches => {
                b.open();
                let inner = call(&mut b, func, &[x, go], &ty);
                let then = b.close(inner);
                b.open();
                let otherwise = b.close(vec![x]);
                b.bind(Node::If { cond: go, then, otherwise }, ty.to_vec())[0]
            }
            Some(func) => {
                let once = call(&mut b, func, &[x, go], &ty)[0];
                call(&mut b, func, &[once, go], &ty)[0]
            }
        };
        let id = b.finish(vec![y], vec!["y".into()]);
        graph(&mut module, id).is_private = level + 1 < depth;
        graph(&mut module, id).inline = !branches;
        below = Some(id);
    }
    module
}

#[test]
fn towers_of_calls_end_at_the_limits() {
    let go = harness::tensor(DType::BOOL, &[], vec![1]);
    let module = tower(6, false);
    let after = same_answers(&module, &[f32s(&[2], 1), go.clone()]);
    assert_eq!((calls(&after), after.funcs.len()), (0, 1));
    let size = |module: &Module| nodes(&main_of(module).1.body, |_| true);
    assert_eq!(size(&after), 32);
    let after = inlined(&tower(40, false));
    assert!(calls(&after) > 0 && size(&after) <= 1 << 14, "{}", size(&after));
    let module = tower(20, true);
    let after = same_answers(&module, &[f32s(&[2], 1), go]);
    assert_eq!((calls(&after), after.funcs.len()), (0, 1));
    let after = inlined(&tower(300, true));
    assert!(after.funcs.len() > 2, "bodies are not nested without end");
}

/// `main` calls what `apply` gets, which is known once `apply` is inlined.
#[test]
fn closures_that_are_known_are_called() {
    let mut module = Module::default();
    let ty = f32_type(vec![2.into()]);
    let mut b = FuncBuilder::new(&mut module, "scaled");
    let (x, by) = (b.param("x", ty.clone()), b.param("by", ty.clone()));
    let y = b.emit1(Op::Binary(Binary::Mul), &[x, by]).unwrap();
    let scaled = b.finish(vec![y], vec!["y".into()]);
    graph(&mut module, scaled).is_private = true;
    let packed = |b: &mut FuncBuilder<'_>, name: &str, args: Vec<Value>, ty: Type| {
        let node = Node::CallPacked { name: name.into(), args, ints: vec![] };
        b.bind_values(node, vec![ty])[0]
    };
    let mut b = FuncBuilder::new(&mut module, "apply");
    let (f, x) = (b.param_of("f", Type::Func), b.param_of("x", Type::Object));
    let vm = b.bind_values(Node::Leaf(LeafExpr::VmState), vec![Type::Object])[0];
    let y = packed(&mut b, "vm.builtin.invoke_closure", vec![vm, f, x], Type::Object);
    let apply = b.finish(vec![y], vec!["y".into()]);
    graph(&mut module, apply).is_private = true;
    let mut b = FuncBuilder::new(&mut module, "main");
    let (x, by) = (b.param("x", ty.clone()), b.param("by", ty.clone()));
    let leaf = b.bind_values(Node::Leaf(LeafExpr::Func(scaled)), vec![Type::Func])[0];
    let f = packed(&mut b, "vm.builtin.make_closure", vec![leaf, by], Type::Func);
    let node = Node::CallFunc { func: apply, args: vec![f, x] };
    let y = b.bind_values(node, vec![Type::Object])[0];
    let y = b.match_cast(y, ty);
    let z = unary(&mut b, Unary::Exp, y);
    b.finish(vec![z], vec!["z".into()]);
    let after = same_answers(&module, &[f32s(&[2], 1), f32s(&[2], 2)]);
    let (_, main) = main_of(&after);
    let left = nodes(&main.body, |node| !matches!(node, Node::Op { .. } | Node::Leaf(_)));
    assert_eq!((left, after.funcs.len()), (0, 1), "no call, no closure, no check is left");
    assert_eq!(harness::kernels(&module), ["fused_mul_exp"]);
}
