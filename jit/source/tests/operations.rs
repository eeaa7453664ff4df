//! Every kind of expression on a GPU, in CUDA C and OpenCL C: the evaluator's bits.

mod common;
#[path = "../../llvm/tests/common/gpu.rs"]
mod gpu;
#[path = "../../llvm/tests/common/interpret.rs"]
mod interpret;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use common::nvrtc::Nvrtc;
use common::opencl::OpenCl;
use gpu::{corpus, gpus};
use interpret::{arguments, elements, interpreted};
use reflex_ptx::Order;
use reflex_tir::PrimFunc;
use reflex_tir::codegen::{DeviceCode, DeviceKernel};
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval_threads};
use reflex_tir::script::print;

/// The corpus, each kernel with a name of its own.
fn kernels() -> Vec<PrimFunc> {
    let named = |(number, mut func): (usize, PrimFunc)| {
        func.name = format!("kernel{number}");
        func
    };
    corpus().into_iter().enumerate().map(named).collect()
}

fn wanted(func: &PrimFunc, args: &[EvalTensor]) -> Vec<u64> {
    let mut evaluated: Vec<EvalArg> = args.iter().cloned().map(EvalArg::Tensor).collect();
    eval_threads(func, &mut evaluated, ThreadOrder::Index)
        .unwrap_or_else(|e| panic!("{e}\n{}", print(func)));
    elements(evaluated.last().expect("an output").tensor())
}

/// The compiler may join products and sums, and does not.
#[test]
fn cuda_has_the_evaluators_bits() {
    let Some(folder) = skip::variable("REFLEX_NVRTC") else { return };
    let nvrtc = Nvrtc::open(folder.as_ref());
    let kernels = kernels();
    let source = reflex_source::cuda(&kernels, &gpus()[0]).unwrap_or_else(|e| panic!("{e}"));
    let ptx = nvrtc.compile(&source.text, "sm_80", &[]);
    let ptx = ptx.unwrap_or_else(|e| panic!("{e}\n{}", source.text));
    for (func, kernels) in kernels.iter().zip(source.kernels) {
        let args = arguments(func);
        let code = DeviceCode { ptx: alone(&ptx, &kernels), kernels };
        for order in [Order::Index, Order::Reverse, Order::Seeded(7)] {
            let found = elements(&interpreted(func, &code, &args, order));
            assert_eq!(found, wanted(func, &args), "{}\n{}", print(func), code.ptx);
        }
    }
}

/// The module with one entry, for the interpreter reads modules again and again.
fn alone(ptx: &str, kernels: &[DeviceKernel]) -> String {
    let name = &kernels[0].name;
    let head = &ptx[..ptx.find("\t// .globl").expect("an entry")];
    let shared = ptx.lines().filter(|line| line.starts_with(".extern .shared"));
    let shared: String = shared.take(1).collect();
    let start = ptx.find(&format!(".visible .entry {name}(")).expect("an entry");
    let rest = &ptx[start..];
    let end = rest.find("\n}\n").expect("its end") + 3;
    format!("{head}\n{shared}\n{}", &rest[..end])
}

#[test]
fn opencl_has_the_evaluators_bits() {
    let Some(opencl) = OpenCl::open() else { return skip::skip("an implementation of OpenCL") };
    let kernels = kernels();
    let source = reflex_source::opencl(&kernels, &gpus()[0]).unwrap_or_else(|e| panic!("{e}"));
    let program = opencl.build(&source.text, "-cl-fp32-correctly-rounded-divide-sqrt");
    let program = program.unwrap_or_else(|e| panic!("{e}\n{}", source.text));
    for (func, kernels) in kernels.iter().zip(source.kernels) {
        let args = arguments(func);
        let buffers: Vec<_> = args.iter().map(|t| opencl.buffer(&t.bytes)).collect();
        let parameters: Vec<_> = func.buffer_params().collect();
        for kernel in &kernels {
            let at = |b| parameters.iter().position(|p| p == b).expect("a parameter");
            let taken: Vec<_> = kernel.buffers.iter().map(|b| buffers[at(b)]).collect();
            let grid = kernel.grid.each_ref().map(|n| n.as_int().expect("constant") as u32);
            opencl.launch(&program, &kernel.name, (grid, kernel.block), &taken, &[]);
        }
        let mut bytes = vec![];
        for (buffer, tensor) in buffers.into_iter().zip(&args) {
            bytes = opencl.take(buffer, tensor.bytes.len());
        }
        let last = args.last().expect("an output").clone();
        let found = elements(&EvalTensor { bytes, ..last });
        assert_eq!(found, wanted(func, &args), "{}\n{}", opencl.name(), print(func));
    }
    opencl.release(program);
}
