//! Runs a module through the pipeline with evaluated kernels, next to the graph evaluator.

// Each test program uses a part.
#![allow(dead_code)]

use std::collections::HashMap;
use std::sync::Arc;

use reflex_graph::{EvalValue, FuncData, Literal, Module, Node, Op, eval_func};
use reflex_lower::pipeline::{NoObserver, Options, run_bytecode, run_graph, run_kernel};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::eval::{self, EvalArg};
use reflex_tir::{DType, Param, PrimFunc};
use reflex_vm::executable::Constant;
use reflex_vm::program::Program;
use reflex_vm::session::{self, Session};
use reflex_vm::verify::verify;

/// Noise in -1..1, the same for the same seed.
pub fn f32s(shape: &[i64], seed: u64) -> Literal {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let values: Vec<f32> = (0..shape.iter().product::<i64>())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Literal::from_f32(shape.to_vec(), &values)
}

pub fn i64s(shape: &[i64], values: &[i64]) -> Literal {
    Literal::from_i64(shape.to_vec(), values)
}

pub fn tensor(dtype: DType, shape: &[i64], bytes: Vec<u8>) -> Literal {
    Literal::new(dtype, shape.to_vec(), Arc::new(bytes)).unwrap()
}

fn options() -> Options {
    Options::new(CpuTarget::host())
}

/// Names of the kernels that a module is compiled to.
pub fn kernels(module: &Module) -> Vec<String> {
    let module = run_graph(module.clone(), &options(), &NoObserver).unwrap();
    let (_, kernels) = run_bytecode(module, &NoObserver).unwrap();
    kernels.into_iter().map(|k| k.name).collect()
}

/// The operators of a module's functions, but for those in nested bodies.
pub fn operators(module: &Module) -> Vec<Op> {
    let graphs = module.funcs.values().filter_map(|f| match f {
        FuncData::Graph(f) => Some(f),
        FuncData::Prim(_) => None,
    });
    let ops = graphs.flat_map(|f| &f.body.bindings).filter_map(|b| match &b.node {
        Node::Op { op, .. } => Some(op.clone()),
        _ => None,
    });
    ops.collect()
}

/// Sizes of the storages that are allocated by a constant byte count.
pub fn storages(module: &Module) -> Vec<i64> {
    let module = run_graph(module.clone(), &options(), &NoObserver).unwrap();
    let (code, _) = run_bytecode(module, &NoObserver).unwrap();
    let shapes = code.executable.constants.iter().filter_map(|c| match c {
        Constant::Shape(extents) if extents.len() == 1 => Some(extents[0]),
        _ => None,
    });
    shapes.collect()
}

/// Compiles `main`, runs it in the interpreter.
pub fn run(module: &Module, args: &[Literal]) -> Result<Vec<Literal>, String> {
    run_with(&options(), module, args)
}

/// [`run`] with other options than the host's.
pub fn run_with(
    options: &Options,
    module: &Module,
    args: &[Literal],
) -> Result<Vec<Literal>, String> {
    let module = run_graph(module.clone(), options, &NoObserver).unwrap();
    let (code, kernels) = run_bytecode(module, &NoObserver).unwrap();
    let library: HashMap<String, Function> = kernels
        .into_iter()
        .map(|k| {
            (
                k.name.clone(),
                evaluated(run_kernel(&k, &options.target(&options.cpus[0]), &NoObserver)),
            )
        })
        .collect();
    let exec = verify(code.executable).unwrap();
    let program = Arc::new(Program::load(exec, &[&library]).unwrap());
    let mut session = Session::new(&program, session::Options::default()).unwrap();
    let args: Vec<Any> = args
        .iter()
        .map(|l| Tensor::from_bytes(l.shape(), l.dtype(), l.bytes()).unwrap().into())
        .collect();
    let result = session.call("main", &args).map_err(|e| e.to_string())?;
    Ok(match result.downcast_ref::<Array>() {
        Some(items) => items.iter().map(|item| literal(item.downcast_ref().unwrap())).collect(),
        None => vec![literal(result.downcast_ref().unwrap())],
    })
}

/// A packed function that evaluates a kernel.
fn evaluated(func: PrimFunc) -> Function {
    Function::new(move |args: &[AnyView<'_>]| {
        let failed = |e: String| Error::runtime_error(e);
        let mut list = vec![];
        for (param, arg) in func.params.iter().zip(args) {
            list.push(match param {
                Param::Buffer(_) => {
                    let t: &Tensor = arg.downcast_ref().ok_or_else(|| failed("tensor".into()))?;
                    let (dtype, shape) = (t.dtype(), t.shape().to_vec());
                    EvalArg::Tensor(eval::EvalTensor { dtype, shape, bytes: bytes(t) })
                }
                Param::Scalar(_) => {
                    let value = arg.as_int().ok_or_else(|| failed("int".into()))?;
                    EvalArg::Scalar(eval::Scalar::Int(value))
                }
            });
        }
        eval::eval(&func, &mut list).map_err(|e| failed(e.to_string()))?;
        let first = list.len() - func.num_outputs;
        for (arg, result) in args.iter().zip(&list).skip(first) {
            let (Some(t), EvalArg::Tensor(result)) = (arg.downcast_ref::<Tensor>(), result) else {
                return Err(failed("an output is no tensor".into()));
            };
            assert_eq!(t.nbytes(), result.bytes.len());
            // SAFETY: a kernel's output is a live tensor of that many bytes which only the
            // kernel touches while it runs.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    result.bytes.as_ptr(),
                    t.data_ptr(),
                    result.bytes.len(),
                );
            }
        }
        Ok(Any::NONE)
    })
}

fn bytes(t: &Tensor) -> Vec<u8> {
    // SAFETY: a compact CPU tensor has that many bytes at its address.
    unsafe { std::slice::from_raw_parts(t.data_ptr(), t.nbytes()) }.to_vec()
}

fn literal(t: &Tensor) -> Literal {
    tensor(t.dtype(), t.shape(), bytes(t))
}

/// Asserts that the compiled function and the evaluator agree on these arguments.
pub fn agree(module: &Module, args: &[Literal]) {
    let main = module
        .funcs
        .iter()
        .find(|(_, f)| matches!(f, FuncData::Graph(f) if f.name == "main"))
        .unwrap();
    let values: Vec<EvalValue> = args.iter().cloned().map(EvalValue::Tensor).collect();
    let want = eval_func(module, main.0, &values).unwrap();
    let got = run(module, args).unwrap();
    assert_eq!(got.len(), want.len());
    for (n, (got, want)) in got.iter().zip(&want).enumerate() {
        let want = want.as_tensor().unwrap();
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "result {n}");
        if got.dtype() == DType::F32 {
            let floats = |l: &Literal| -> Vec<f32> {
                l.bytes().as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
            };
            // Sums cancel: an element's rounding is that of the largest ones.
            let largest = floats(want).iter().fold(1.0f32, |m, w| m.max(w.abs()));
            for (g, w) in floats(got).iter().zip(floats(want)) {
                let near = (g - w).abs() <= 1e-5 * largest;
                assert!(near, "result {n}: got {g}, want {w}");
            }
        } else {
            assert_eq!(got.bytes(), want.bytes(), "result {n}");
        }
    }
}
