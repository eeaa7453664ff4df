//! Tensor intrinsics from outside: what is registered, what `tensorize` makes of nests, and what is refused.

mod common;

use common::{assert_same, property};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::fuzzgen::arguments;
use reflex_tir::schedule::Schedule;
use reflex_tir::schedule_trace::Replay;
use reflex_tir::script::print;
use reflex_tir::tensor_intrin::registered::{find, names, register};
use reflex_tir::{DType, Expr, PrimFunc, lower};

/// `C[i, j] += A[i, k] * B[k, j]` over 4 by 8 by 3, as TVM's descriptions are written.
const DESCRIPTION: &str = r#"
@T.prim_func(s_tir=True)
def product(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 3), "float32")
    B = T.match_buffer(b, (3, 8), "float32")
    C = T.match_buffer(c, (4, 8), "float32")
    with T.sblock("root"):
        T.reads(C[0:4, 0:8], A[0:4, 0:3], B[0:3, 0:8])
        T.writes(C[0:4, 0:8])
        for i, j, k in T.grid(4, 8, 3):
            with T.sblock("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"#;

/// The same with a row of sums in registers.
const IMPLEMENTATION: &str = r#"
@T.prim_func(s_tir=True)
def product(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 3), "float32")
    B = T.match_buffer(b, (3, 8), "float32")
    C = T.match_buffer(c, (4, 8), "float32")
    for i in T.unroll(4):
        row = T.alloc_local((8,))
        for j in T.vectorized(8):
            row[j] = C[i, j]
        for k in T.unroll(3):
            for j in T.vectorized(8):
                row[j] = row[j] + A[i, k] * B[k, j]
        for j in T.vectorized(8):
            C[i, j] = row[j]
"#;

/// A product whose second operand is `b[k, j]`, `b[j, k]` or `b[j // 8, k, j % 8]`, and sums from zero.
fn product(layout: usize, [m, n, k]: [i64; 3]) -> PrimFunc {
    let mut f = FuncBuilder::new("product");
    let a = f.input("a", DType::F32, vec![m.into(), k.into()]);
    let shape: Vec<Expr> = match layout {
        0 => vec![k.into(), n.into()],
        1 => vec![n.into(), k.into()],
        _ => vec![(n / 8).into(), k.into(), 8.into()],
    };
    let b = f.input("b", DType::F32, shape);
    let zero = Reducer { init: Expr::float(0.0, DType::F32), combine: &|x, y| x + y };
    f.reduce_output(
        "matmul",
        "c",
        DType::F32,
        vec![m.into(), n.into()],
        &[k.into()],
        zero,
        |f, i, r| {
            let (j, k) = (i[1].clone(), r[0].clone());
            let at = match layout {
                0 => vec![k.clone(), j],
                1 => vec![j, k.clone()],
                _ => vec![j.clone().floordiv(8), k.clone(), j.floormod(8)],
            };
            f.at(a, &[i[0].clone(), k]) * f.at(b, &at)
        },
    );
    f.finish()
}

/// The loops of a product in tiles of 4 by 8 by 3, and the init apart.
const TILED: &str = "b0 = sch.get_block('matmul')
    l1, l2, l3 = sch.get_loops(b0)
    l4, l5 = sch.split(l1, [None, 4])
    l6, l7 = sch.split(l2, [None, 8])
    l8, l9 = sch.split(l3, [None, 3])
    sch.reorder(l4, l6, l8, l5, l7, l9)
    b10 = sch.decompose_reduction(b0, l8)
    ";

fn replay(func: &PrimFunc, steps: &str) -> Result<PrimFunc, String> {
    let text = format!("def product(sch):\n    {}{}", TILED, steps);
    let mut replay = Replay::new(func.clone());
    replay.apply_all(&text.parse().unwrap()).map_err(|e| e.to_string())?;
    Ok(replay.func().clone())
}

#[test]
fn nests_become_implementations_from_outside() {
    register("test.product", DESCRIPTION, IMPLEMENTATION).unwrap();
    // The same again is no other one.
    register("test.product", DESCRIPTION, IMPLEMENTATION).unwrap();
    assert!(names().contains(&"test.product".to_owned()));
    for layout in 0..3 {
        for sizes in [[4, 8, 3], [8, 16, 6], [12, 8, 9]] {
            let before = product(layout, sizes);
            let after = replay(&before, "sch.tensorize(l5, 'test.product')")
                .unwrap_or_else(|e| panic!("{layout} {sizes:?}: {e}"));
            let text = print(&after);
            assert!(text.contains("T.unroll(T.int64(4))") && text.contains("row["), "{text}");
            property(6, |u| {
                let args = arguments(u, &before, 1)?;
                assert_same(&before, &after, &args, &String::new);
                assert_same(&before, &lower::lower(&after), &args, &String::new);
                Ok(())
            });
        }
    }
}

#[test]
fn loops_around_an_implementation_run_at_once_where_they_may() {
    register("test.product_at_once", DESCRIPTION, IMPLEMENTATION).unwrap();
    let before = product(0, [8, 16, 6]);
    let after =
        replay(&before, "sch.tensorize(l5, 'test.product_at_once')\n    sch.parallel(l4)").unwrap();
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, &after, &args, &String::new);
        Ok(())
    });
    let why = replay(&before, "sch.tensorize(l5, 'test.product_at_once')\n    sch.parallel(l8)")
        .unwrap_err();
    assert!(why.contains("parallel of"), "{why}");
}

#[test]
fn implementations_that_compute_something_else_are_refused() {
    let cases = [
        // Another order of the sum rounds otherwise.
        (
            IMPLEMENTATION.replace(
                "for k in T.unroll(3):",
                "for q in T.unroll(3):\n            k: T.let[T.int64] = 2 - q",
            ),
            "differs",
        ),
        (IMPLEMENTATION.replace("B[k, j]", "B[k, 7 - j]"), "element 0 of `C` differs"),
        (IMPLEMENTATION.replace("B[k, j]", "B[k, j + 1]"), "the implementation: "),
        (IMPLEMENTATION.replace("T.unroll(4)", "T.unroll(3)"), "of `C` differs"),
        (
            IMPLEMENTATION.replace("(3, 8)", "(8, 3)").replace("B[k, j]", "B[j, k]"),
            "other operands",
        ),
        (IMPLEMENTATION.replace("T.unroll(4)", "T.parallel(4)"), "it has a loop over threads"),
        (IMPLEMENTATION.replace("(4, 3)", "(4, n)"), "the implementation of \"test.wrong\""),
    ];
    for (implementation, why) in cases {
        let refused = register("test.wrong", DESCRIPTION, &implementation).expect_err(why);
        assert!(refused.contains(why), "{why}: {refused}");
        assert!(find("test.wrong").is_none());
    }
    let init = DESCRIPTION.replace(
        "                C[vi",
        "                with T.init():\n                    C[vi, vj] = T.float32(0)\n                C[vi",
    );
    let refused = register("test.wrong", &init, IMPLEMENTATION).unwrap_err();
    assert!(refused.contains("it has an init"), "{refused}");
    let refused = register("tile_zero", DESCRIPTION, IMPLEMENTATION).unwrap_err();
    assert!(refused.contains("is no name"), "{refused}");
    register("test.taken", DESCRIPTION, IMPLEMENTATION).unwrap();
    let refused = register("test.taken", DESCRIPTION, DESCRIPTION).unwrap_err();
    assert!(refused.contains("is registered already"), "{refused}");
}

#[test]
fn nests_that_are_something_else_are_refused() {
    register("test.product_only", DESCRIPTION, IMPLEMENTATION).unwrap();
    let before = product(0, [8, 16, 6]);
    let cases = [
        (
            "sch.tensorize(l7, 'test.product_only')",
            "it is no test.product_only: `l3_1` runs 3 times",
        ),
        ("sch.tensorize(l8, 'test.product_only')", "it is no test.product_only"),
        ("sch.vectorize(l6)\n    sch.tensorize(l5, 'test.product_only')", ""),
        (
            "sch.tensorize(l5, 'test.none')",
            "no tensor intrinsic \"test.none\"; there are tile_zero",
        ),
    ];
    for (steps, why) in cases {
        let refused = replay(&before, steps).expect_err(steps);
        let named = refused.contains(why) || refused.contains("it is no test.product_only");
        assert!(named, "{steps}: {refused}");
    }
    // The init is still there.
    let mut s = Schedule::new(product(0, [4, 8, 3]));
    let at = s.get_loops("matmul").unwrap()[0];
    let refused = s.tensorize_as(at, find("test.product_only").unwrap()).unwrap_err();
    assert!(refused.why.contains("decompose the reduction first"), "{refused}");
    // One buffer as two operands, of which one is written.
    let mut f = FuncBuilder::new("square");
    let x = f.input("x", DType::F32, vec![4.into()]);
    f.output("add", "y", DType::F32, vec![4.into()], |f, i| f.at(x, i) + f.at(x, i));
    let before = f.finish();
    let text = |body: &str| {
        format!(
            "@T.prim_func(s_tir=True)\ndef add(A: T.Buffer((4,), \"float32\"), B: T.Buffer((4,), \"float32\"), C: T.Buffer((4,), \"float32\")):\n    \
             for i in {body}\n        C[i] = A[i] + B[i]\n"
        )
    };
    register("test.add", &text("range(4):"), &text("T.vectorized(4):")).unwrap();
    let mut s = Schedule::new(before.clone());
    let at = s.get_loops("add").unwrap()[0];
    s.tensorize_as(at, find("test.add").unwrap()).unwrap();
    property(2, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, s.func(), &args, &String::new);
        Ok(())
    });
}
