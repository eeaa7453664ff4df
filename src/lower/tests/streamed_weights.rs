//! Row tiles ask the memory for the weights of the tiles of columns that follow, and together for all of them.

mod common;

use common::{AMX_BF16, Case, noise, target, tensor_type, to_tensor};
use reflex_graph::{Op, TensorType};
use reflex_lower::packing::choose::packings;
use reflex_lower::packing::pack::pack;
use reflex_lower::precision::Precision;
use reflex_lower::schedule::schedule_explained;
use reflex_tir::eval::{EvalArg, EvalTensor, eval};
use reflex_tir::lower::lower;
use reflex_tir::{DType, Expr, ExprKind, Intrin, NEAR_BYTES, Param, PrimFunc, Scope, Stmt};

/// Bytes of a cache line.
const LINE: i64 = 64;

/// The kernel, which also writes 1 for each line of operand B that it asks for beyond the near ones.
fn marked(func: &PrimFunc, lines: i64) -> PrimFunc {
    let mut marked = func.clone();
    let marks = marked.new_buffer("marks", DType::I64, vec![(lines + 1).into()], Scope::Global);
    marked.params.push(Param::Buffer(marks));
    marked.num_outputs += 1;
    /// The addresses that an expression asks for, but for the near ones.
    fn far(func: &PrimFunc, value: &Expr) -> Vec<Expr> {
        let mut addresses = vec![];
        value.visit(&mut |e| {
            let ExprKind::Call { op: Intrin::Prefetch, args, .. } = e.kind() else { return };
            let mut element = &args[0];
            while let ExprKind::Call { op: Intrin::Prefetch, args, .. } = element.kind() {
                element = &args[0];
            }
            let ExprKind::Load { buffer, indices, .. } = element.kind() else { return };
            if args[1].as_int() != Some(NEAR_BYTES) {
                addresses.push(func.row_major(*buffer, indices) * 4 + args[1].clone());
            }
        });
        addresses
    }
    fn mark(func: &PrimFunc, s: &Stmt, at: &dyn Fn(Expr) -> Stmt) -> Stmt {
        let s = s.map_children(&mut |s| mark(func, s, at));
        let (Stmt::Let { value, .. } | Stmt::Store { value, .. }) = &s else { return s };
        let asked = far(func, value).into_iter().map(|address| at(address.floordiv(LINE)));
        Stmt::Seq(asked.collect::<Vec<_>>().into_iter().chain([s]).collect())
    }
    marked.body = mark(func, &func.body, &|line| {
        // Shares are whole lines: the last one may reach beyond the weights.
        Stmt::store(marks, vec![line.min(Expr::i64(lines))], Expr::i64(1))
    });
    marked
}

/// For each line of weights `[k, n]` whether a product of so many rows asks for it: of float32 by vectors, or of bfloat16 by
/// AMX.
fn asked(rows: i64, [k, n]: [i64; 2], precision: Precision) -> Vec<bool> {
    let args = vec![noise(&[rows, k], 1), noise(&[k, n], 2)];
    let case = Case { name: format!("{rows} x {k} x {n}"), op: Op::MatMul, args };
    let types: Vec<TensorType> = case.args.iter().map(tensor_type).collect();
    let list = packings(&case.op, &types, &|_| true, precision);
    let [packing] = &list[..] else { panic!("{list:?}") };
    let mut cpu = target(64);
    if precision == Precision::Bf16 {
        cpu.features = AMX_BF16.map(str::to_owned).into();
    }
    let kernel = case.legalized_in(&list, precision);
    let func = schedule_explained(&kernel.func, &cpu).func;
    if precision == Precision::Bf16 {
        // Baseline kernels leave the statement out, since their loops are nothing but operations on tiles.
        let mut found = false;
        lower(&func).body.visit(&mut |s| found |= s.only_prefetches());
        assert!(found, "{}: nothing is asked for", case.name);
    }
    let weights = pack(packing, std::slice::from_ref(&case.args[1])).unwrap();
    let lines = weights.bytes().len() as i64 / LINE;
    let outputs =
        [EvalTensor::zeros(DType::F32, &[rows, n]), EvalTensor::zeros(DType::I64, &[lines + 1])];
    let inputs = [to_tensor(&case.args[0]), to_tensor(&weights)];
    let mut args: Vec<EvalArg> = inputs.into_iter().chain(outputs).map(EvalArg::Tensor).collect();
    eval(&marked(&func, lines), &mut args).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let marks = &args[3].tensor().bytes;
    let marks = &marks.as_chunks::<8>().0[..lines as usize];
    marks.iter().map(|b| i64::from_le_bytes(*b) == 1).collect()
}

#[test]
fn row_tiles_share_the_lines_of_the_next_tile_of_columns() {
    for (rows, [k, n]) in [(16, [96, 256]), (9, [128, 192]), (40, [96, 256]), (13, [64, 512])] {
        let lines = asked(rows, [k, n], Precision::F32);
        // The last tile of columns asks for its own. Only the first one is asked for by nobody.
        let first = lines.iter().take_while(|line| !**line).count();
        assert!(lines[first..].iter().all(|line| *line), "{rows} rows: a line is missing");
        assert_eq!(first as i64, 64 * k * 4 / LINE, "{rows} rows: a panel of 64 columns");
    }
}

#[test]
fn a_lone_row_tile_asks_for_its_own_weights() {
    assert!(asked(4, [96, 256], Precision::F32).iter().all(|line| !line));
}

#[test]
fn tiles_of_amx_share_the_lines_of_the_next_tile_of_columns() {
    for (rows, [k, n]) in [(64, [256, 256]), (40, [192, 192]), (16, [192, 256]), (100, [160, 320])]
    {
        let lines = asked(rows, [k, n], Precision::Bf16);
        let first = lines.iter().take_while(|line| !**line).count();
        assert!(lines[first..].iter().all(|line| *line), "{rows} rows: a line is missing");
        assert_eq!(first as i64, 64 * k * 2 / LINE, "{rows} rows: a panel of 64 columns");
    }
}
