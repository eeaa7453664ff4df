//! Loop nests that become instructions on matrix registers: the bits stay, and what is not the
//! instruction's computation is refused by name.

mod common;

use common::{Bits, property};
use reflex_tir::eval::{EvalArg, EvalTensor, eval};
use reflex_tir::schedule::Schedule;
use reflex_tir::script::{parse, print};
use reflex_tir::tensor_intrin::{
    self, TILE_DOT_BF16, TILE_LOAD, TILE_STORE, TILE_STORE_INT32, TILE_ZERO, TILE_ZERO_INT32,
    TensorIntrin, tile_dot_i8,
};
use reflex_tir::tile::StridedRows;
use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{Buffer, DType, Expr, Param, PrimFunc, Scope, Sign, Stmt, Var};

/// Shape of a GEMM of matrix registers, and the row strides of its operands.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rows: i64,
    words: i64,
    columns: i64,
    pitch: i64,
}

/// The instructions of a product, and the type of its sums.
#[derive(Clone, Copy)]
struct Kind {
    zero: &'static TensorIntrin,
    dot: &'static TensorIntrin,
    store: &'static TensorIntrin,
    sum: DType,
}

/// Pairs of bfloat16, then words of 8-bit integers of every pair of signednesses.
fn kinds() -> [Kind; 5] {
    let int8 = |a, b| Kind {
        zero: &TILE_ZERO_INT32,
        dot: tile_dot_i8([a, b]),
        store: &TILE_STORE_INT32,
        sum: DType::I32,
    };
    let bf16 = Kind { zero: &TILE_ZERO, dot: &TILE_DOT_BF16, store: &TILE_STORE, sum: DType::F32 };
    let (u, s) = (Sign::Unsigned, Sign::Signed);
    [bf16, int8(u, u), int8(u, s), int8(s, u), int8(s, s)]
}

/// `y = a b`, twice the sum, through matrix registers, as loops; and the loops with what they are.
fn product(s: Sizes, kind: Kind) -> (PrimFunc, Vec<(Var, &'static TensorIntrin)>) {
    let mut f = PrimFunc::new("product");
    let param = |f: &mut PrimFunc, name: &str, dtype, rows: i64| {
        let buffer = f.new_buffer(name, dtype, vec![rows.into(), s.pitch.into()], Scope::Global);
        f.params.push(Param::Buffer(buffer));
        buffer
    };
    let a = param(&mut f, "a", DType::U32, s.rows);
    let b = param(&mut f, "b", DType::U32, s.words);
    let y = param(&mut f, "y", kind.sum, s.rows);
    f.num_outputs = 1;
    let tile = |f: &mut PrimFunc, name: &str, dtype, shape: [i64; 2]| {
        f.new_buffer(name, dtype, shape.map(Expr::i64).to_vec(), Scope::Tile)
    };
    let sum = tile(&mut f, "sum", kind.sum, [s.rows, s.columns]);
    let x = tile(&mut f, "x", DType::U32, [s.rows, s.words]);
    let w = tile(&mut f, "w", DType::U32, [s.words, s.columns]);
    let rows = |buffer: Buffer| StridedRows { buffer, first: 0.into(), stride: s.pitch.into() };
    let whole = |buffer: Buffer| StridedRows { buffer, first: 0.into(), stride: 0.into() };
    let steps: [(&'static TensorIntrin, Vec<StridedRows>); 6] = [
        (kind.zero, vec![whole(sum)]),
        (&TILE_LOAD, vec![whole(x), rows(a)]),
        (&TILE_LOAD, vec![whole(w), rows(b)]),
        (kind.dot, [sum, x, w].map(whole).to_vec()),
        (kind.dot, [sum, x, w].map(whole).to_vec()),
        (kind.store, vec![whole(sum), rows(y)]),
    ];
    let (mut body, mut loops) = (vec![], vec![]);
    for (intrinsic, operands) in steps {
        let (stmt, var) = intrinsic.loops(&mut f, &operands);
        body.push(stmt);
        loops.push((var, intrinsic));
    }
    f.body = [w, x, sum]
        .into_iter()
        .fold(Stmt::Seq(body), |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) });
    (f, loops)
}

fn tensorized(f: &PrimFunc, loops: &[(Var, &'static TensorIntrin)]) -> PrimFunc {
    let mut s = Schedule::new(f.clone());
    for (var, intrinsic) in loops {
        s.tensorize(*var, intrinsic).unwrap();
    }
    s.into_func()
}

fn arguments(f: &PrimFunc, bits: &mut Bits) -> Vec<EvalArg> {
    let arg = |buffer: Buffer, bits: &mut Bits| {
        let data = &f.buffers[buffer];
        let shape: Vec<i64> = data.shape.iter().filter_map(Expr::as_int).collect();
        let mut tensor = EvalTensor::zeros(data.dtype, &shape);
        if data.dtype == DType::U32 {
            let word = |bits: &mut Bits| bits.half() | bits.half() << 16;
            tensor.bytes = (0..tensor.len()).flat_map(|_| word(bits).to_le_bytes()).collect();
        }
        EvalArg::Tensor(tensor)
    };
    f.buffer_params().map(|b| arg(b, bits)).collect()
}

#[test]
fn instructions_keep_the_bits_of_their_loops() {
    property(60, |u| {
        let mut side = || u.int_in_range(1..=16i64);
        let (rows, words, columns) = (side()?, side()?, side()?);
        let pitch = words.max(columns) + u.int_in_range(0..=3i64)?;
        let kind = kinds()[u.int_in_range(0..=4usize)?];
        let (plain, loops) = product(Sizes { rows, words, columns, pitch }, kind);
        assert_eq!(verify(&plain, IrForm::Scheduled), Ok(()));
        let new = tensorized(&plain, &loops);
        assert_eq!(verify(&new, IrForm::Lowered), Ok(()), "{}", print(&new));
        let mut left = 0;
        new.body.visit(&mut |s| left += usize::from(matches!(s, Stmt::For(_))));
        assert_eq!(left, 0, "{}", print(&new));
        assert_eq!(print(&parse(&print(&new)).unwrap()), print(&new));
        let args = arguments(&plain, &mut Bits::new(u.arbitrary()?));
        let (mut want, mut got) = (args.clone(), args);
        eval(&plain, &mut want).unwrap();
        eval(&new, &mut got).unwrap();
        let words = |arg: &EvalArg| -> Vec<u32> {
            if arg.tensor().dtype == DType::I32 {
                let words = arg.tensor().bytes.as_chunks::<4>().0.iter();
                return words.map(|word| u32::from_le_bytes(*word)).collect();
            }
            let values = arg.tensor().to_f32();
            values.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
        };
        assert_eq!(words(&got[2]), words(&want[2]));
        Ok(())
    });
}

/// The refusal to make the first loop nest of a text `intrinsic`.
fn refusal(text: &str, intrinsic: &TensorIntrin) -> String {
    let f = parse(text).unwrap();
    let mut first = None;
    f.body.visit(&mut |s| {
        if let Stmt::For(l) = s {
            first = first.or(Some(l.var));
        }
    });
    let mut s = Schedule::new(f);
    let refused = s.tensorize(first.unwrap(), intrinsic).unwrap_err();
    assert_eq!(refused.primitive, "tensorize");
    refused.why
}

#[test]
fn other_computations_are_refused_by_name() {
    let load = |shape: &str, body: &str| {
        format!(
            "n = TypeVar(\"n\")\n\
             @T.prim_func(s_tir=True)\n\
             def f(a: T.Buffer((64, 64), \"uint32\"), m: T.Buffer((n,), \"uint32\"), o: T.Buffer((n,), \"uint32\")):\n\
             \x20   t = T.alloc_buffer({shape}, \"uint32\", scope=\"tile\")\n{body}"
        )
    };
    let nest = |range: &str, value: &str| {
        format!(
            "    for i, j in {range}:\n        t[i, j] = {value}\n    for k in range(n):\n        o[k] = t[0, 0]\n"
        )
    };
    let grid = "T.grid(16, 16)";
    let cases = [
        ("(16, 16)", nest(grid, "a[j, i]"), "`a` is not read by even rows"),
        ("(16, 16)", nest(grid, "a[i, j] + T.uint32(1)"), "computes something else"),
        ("(16, 16)", nest(grid, "a[i * i, j]"), "`a` is not read by even rows"),
        ("(16, 16)", nest(grid, "a[i, 2 * j]"), "`a` is not read by even rows"),
        ("(16, 16)", nest("T.grid(16, n)", "a[i, j]"), "`j` has no constant extent"),
        ("(16, 16)", nest("T.grid(16, 8)", "a[i, j]"), "`t` is no such matrix register"),
        ("(16, 16)", nest(grid, "t[i, j]"), "`t` is a matrix register"),
    ];
    for (shape, body, why) in cases {
        let found = refusal(&load(shape, &body), &TILE_LOAD);
        assert!(found.starts_with("it is no tile_load: ") && found.contains(why), "{found}");
    }
    // Another instruction's loops.
    for kind in kinds() {
        let (f, loops) = product(Sizes { rows: 4, words: 4, columns: 4, pitch: 4 }, kind);
        for (n, (var, own)) in loops.iter().enumerate() {
            for other in tensor_intrin::all() {
                let result = Schedule::new(f.clone()).tensorize(*var, other);
                assert_eq!(result.is_ok(), own.name == other.name, "{n} as {}", other.name);
            }
        }
    }
}
