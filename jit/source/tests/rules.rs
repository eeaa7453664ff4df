//! Kernels of every operator by every schedule rule: text for GPUs has the evaluator's bits.
//!
//! Decision: docs/decisions/0099-source-text.md

mod common;
#[path = "common/samples.rs"]
mod samples;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::collections::BTreeMap;

use common::nvrtc::Nvrtc;
use common::opencl::OpenCl;
use reflex_ptx::{Device, LaunchOptions, Limits, Module, Params};
use reflex_tir::codegen::{DeviceKernel, GpuTarget, Target};
use reflex_tir::eval::{EvalTensor, Scalar, eval_expr};
use reflex_tir::{Expr, PrimFunc, Var};
use samples::{Sample, printed, samples};

/// The symbolic dimensions of a function, by its arguments.
fn symbols(func: &PrimFunc, args: &[EvalTensor]) -> BTreeMap<Var, i64> {
    let mut known = BTreeMap::new();
    for (buffer, tensor) in func.buffer_params().zip(args) {
        for (extent, n) in func.buffers[buffer].shape.iter().zip(&tensor.shape) {
            if let Some(var) = extent.as_var() {
                known.entry(var).or_insert(*n);
            }
        }
    }
    known
}

fn value(e: &Expr, symbols: &BTreeMap<Var, i64>) -> i64 {
    let of = |var: Var| symbols.get(&var).map(|n| Scalar::Int(*n));
    let found = eval_expr(e, &of).unwrap_or_else(|e| panic!("{e}"));
    found.as_int().unwrap_or_else(|e| panic!("{e}"))
}

/// Whether the host does nothing but launch kernels.
fn only_launches(func: &PrimFunc) -> bool {
    use reflex_tir::{ForKind, Stmt};
    fn walk(s: &Stmt) -> bool {
        match s {
            Stmt::For(l) => matches!(l.kind, ForKind::ThreadBinding(_)),
            Stmt::Seq(all) => all.iter().all(walk),
            _ => false,
        }
    }
    walk(&func.body)
}

/// The grid of a launch; none where it is empty.
fn grid(kernel: &DeviceKernel, symbols: &BTreeMap<Var, i64>) -> Option<[u32; 3]> {
    let grid = kernel.grid.each_ref().map(|n| u32::try_from(value(n, symbols)).unwrap_or(0));
    (!grid.contains(&0)).then_some(grid)
}

/// Samples for a GPU whose host part is no more than launches.
fn gpu_samples(half: usize) -> (GpuTarget, Vec<Sample>) {
    let gpu = GpuTarget::known()[0].clone();
    let mut samples = samples(&Target::Gpu(gpu.clone()), half);
    samples.retain(|sample| only_launches(&sample.func));
    (gpu, samples)
}

#[test]
fn cuda_has_the_evaluators_bits() {
    let Some(folder) = skip::variable("REFLEX_NVRTC") else { return };
    let nvrtc = Nvrtc::open(folder.as_ref());
    let (gpu, samples) = gpu_samples(0);
    let samples =
        printed(samples, |func| reflex_source::cuda(std::slice::from_ref(func), &gpu).map(drop));
    assert!(samples.len() > 200, "{}", samples.len());
    let mut unknown = 0;
    for sample in &samples {
        let source = reflex_source::cuda(std::slice::from_ref(&sample.func), &gpu).expect("text");
        let ptx = nvrtc.compile(&source.text, "sm_80", &[]);
        let ptx = ptx.unwrap_or_else(|e| panic!("{e}\n{}", source.text));
        let module = match Module::parse(&ptx) {
            Ok(module) => module,
            // Sums of bytes, for which NVRTC has found an instruction that LLVM does not use.
            Err(error) if error.to_string().contains("unknown instruction dp") => {
                unknown += 1;
                continue;
            }
            Err(error) => panic!("{error}\n{ptx}"),
        };
        let mut device = Device::new(Limits::default());
        let mut addresses = vec![];
        for tensor in &sample.args {
            let address = device.alloc(tensor.bytes.len() as u64).expect("memory");
            device.write(address, &tensor.bytes).expect("inside");
            addresses.push(address);
        }
        let (symbols, params) =
            (symbols(&sample.func, &sample.args), sample.func.buffer_params().collect::<Vec<_>>());
        for kernel in &source.kernels[0] {
            let Some(grid) = grid(kernel, &symbols) else { continue };
            let at = |b| addresses[params.iter().position(|p| p == b).expect("a parameter")];
            let words = kernel.vars.iter().map(|var| symbols[var] as u64);
            let all = kernel.buffers.iter().map(at).chain(words);
            let bytes = all.fold(Params::new(), |params, word| params.u64(word)).bytes;
            let (block, shared) = (kernel.block, kernel.shared_bytes);
            let options = LaunchOptions::default();
            device
                .launch(&module, &kernel.name, grid, block, shared, &bytes, &options)
                .unwrap_or_else(|fault| panic!("{fault}\n{}\n{ptx}", source.text));
        }
        let read = |(address, tensor): (&u64, &EvalTensor)| {
            let bytes = device.read(*address, tensor.bytes.len()).expect("inside");
            EvalTensor { bytes, ..tensor.clone() }
        };
        let found: Vec<EvalTensor> = addresses.iter().zip(&sample.args).map(read).collect();
        sample.assert_same("CUDA", &found, &source.text);
    }
    assert!(unknown < 8, "{unknown}");
}

#[test]
fn opencl_has_the_evaluators_bits() {
    let Some(opencl) = OpenCl::open() else { return skip::skip("an implementation of OpenCL") };
    let (gpu, samples) = gpu_samples(1);
    let samples =
        printed(samples, |func| reflex_source::opencl(std::slice::from_ref(func), &gpu).map(drop));
    assert!(samples.len() > 200, "{}", samples.len());
    for part in samples.chunks(32) {
        let funcs: Vec<PrimFunc> = part.iter().map(|sample| sample.func.clone()).collect();
        let source = reflex_source::opencl(&funcs, &gpu).unwrap_or_else(|e| panic!("{e}"));
        let program = opencl.build(&source.text, "-cl-fp32-correctly-rounded-divide-sqrt");
        let program = program.unwrap_or_else(|e| panic!("{e}\n{}", source.text));
        for (sample, kernels) in part.iter().zip(&source.kernels) {
            let buffers: Vec<_> = sample.args.iter().map(|t| opencl.buffer(&t.bytes)).collect();
            let symbols = symbols(&sample.func, &sample.args);
            let params: Vec<_> = sample.func.buffer_params().collect();
            for kernel in kernels {
                let Some(grid) = grid(kernel, &symbols) else { continue };
                let at = |b| buffers[params.iter().position(|p| p == b).expect("a parameter")];
                let taken: Vec<_> = kernel.buffers.iter().map(at).collect();
                let words: Vec<u64> = kernel.vars.iter().map(|var| symbols[var] as u64).collect();
                opencl.launch(&program, &kernel.name, (grid, kernel.block), &taken, &words);
            }
            let read = |(buffer, tensor): (_, &EvalTensor)| {
                let bytes = opencl.take(buffer, tensor.bytes.len());
                EvalTensor { bytes, ..tensor.clone() }
            };
            let found: Vec<EvalTensor> = buffers.into_iter().zip(&sample.args).map(read).collect();
            sample.assert_same("OpenCL", &found, &source.text);
        }
        opencl.release(program);
    }
}
