//! Products with few rows and attention as rules schedule them: PTX has the evaluator's bits, and weights are read once, in
//! whole sectors.

#[path = "common/gpu.rs"]
mod gpu;
#[path = "common/interpret.rs"]
mod interpret;

use gpu::{ROWS, gpus, lowered};
use interpret::{counted, elements};
use reflex_llvm::nvptx::compile;
use reflex_ptx::Order;
use reflex_tir::codegen::OptLevel;
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval_threads};
use reflex_tir::{DType, Expr, PrimFunc};

/// Numbers in -1..1 for each parameter; the last one is the result.
fn arguments(func: &PrimFunc) -> Vec<EvalTensor> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let tensor = |buffer| {
        let data = &func.buffers[buffer];
        let shape: Vec<i64> = data.shape.iter().filter_map(Expr::as_int).collect();
        let count = shape.iter().product::<i64>();
        let bytes = (0..count).flat_map(|_| match data.dtype {
            DType::F16 => half::f16::from_f32(number()).to_le_bytes().to_vec(),
            _ => number().to_le_bytes().to_vec(),
        });
        EvalTensor { dtype: data.dtype, bytes: bytes.collect(), shape }
    };
    let mut args: Vec<EvalTensor> = func.buffer_params().map(tensor).collect();
    args.last_mut().expect("a result").bytes.fill(0);
    args
}

#[test]
fn ptx_has_the_evaluators_bits() {
    let hopper = &gpus()[1];
    for file in ROWS {
        let func = lowered(file);
        let args = arguments(&func);
        let mut evaluated: Vec<EvalArg> = args.iter().cloned().map(EvalArg::Tensor).collect();
        eval_threads(&func, &mut evaluated, ThreadOrder::Index).expect("it runs");
        let wanted = elements(evaluated.last().expect("a result").tensor());
        for (opt, order) in [
            (OptLevel::O0, Order::Index),
            (OptLevel::O3, Order::Reverse),
            (OptLevel::O3, Order::Seeded(5)),
        ] {
            let code = compile(&func, hopper, opt).unwrap_or_else(|e| panic!("{e}"));
            let in_registers = !code.ptx.contains(".local");
            assert!(opt == OptLevel::O0 || in_registers, "{}: arrays of threads", func.name);
            let (found, _) = counted(&func, &code, &args, order).unwrap_or_else(|e| panic!("{e}"));
            assert!(elements(&found) == wanted, "{} {opt:?} {order:?}", func.name);
        }
    }
}

/// Requests of 16 bytes a thread for global memory: their number, the sectors that they moved, and the fewest.
fn wide_loads(file: &str) -> [u64; 3] {
    let func = lowered(file);
    let code = compile(&func, &gpus()[0], OptLevel::O3).expect("code");
    let (_, counters) =
        counted(&func, &code, &arguments(&func), Order::Index).unwrap_or_else(|e| panic!("{e}"));
    let lines: Vec<&str> = code.ptx.lines().collect();
    let mut all = [0; 3];
    for (line, requests) in &counters[0].global {
        let text = lines[*line as usize - 1];
        if text.contains("ld.global") && text.contains(".v4") {
            let own = [requests.requests, requests.units, requests.ideal];
            all.iter_mut().zip(own).for_each(|(all, own)| *all += own);
        }
    }
    all
}

#[test]
fn weights_are_read_once_in_whole_sectors() {
    // 128 x 128 of float16; elements of x are loaded one by one.
    let [requests, sectors, ideal] = wide_loads(ROWS[0]);
    assert_eq!([sectors, ideal], [128 * 128 * 2 / 32; 2]);
    assert_eq!(requests, 128 * 128 * 2 / 512, "16 bytes of each thread");
    // 20 x 1152 of float32, and as many elements of x for each column.
    let [_, sectors, ideal] = wide_loads(ROWS[1]);
    assert_eq!([sectors, ideal], [2 * 20 * 1152 * 4 / 32; 2]);
}
