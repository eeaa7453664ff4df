//! Rolling buffers and sums that start from their bias: what TVM makes of the same trace, and that no
//! schedule around them changes a bit.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use arbitrary::{Result, Unstructured};
use common::{assert_same, property};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::fuzzgen::{arguments, bindings, steps};
use reflex_tir::schedule::Schedule;
use reflex_tir::schedule_trace::Replay;
use reflex_tir::script::{parse, print};
use reflex_tir::{BinOp, DType, Expr, PrimFunc, lower};

/// `b[i..] = 3 * a[i..]`, and `c[i..]` the sum of `b` over windows of these extents from `stride * i`, with zeros
/// around `b` if `padded`.
fn stencil(dtype: DType, extents: &[i64], window: &[i64], stride: i64, padded: bool) -> PrimFunc {
    let mut f = FuncBuilder::new("stencil");
    let around = i64::from(padded);
    let inner = extents.iter().zip(window);
    let inner: Vec<Expr> =
        inner.map(|(n, w)| ((n - 1) * stride + w - 2 * around).max(1).into()).collect();
    let a = f.input("a", dtype, inner.clone());
    let three = Expr::constant(3.0, dtype);
    let b = f.stage("B", "b", dtype, inner.clone(), |f, i| f.at(a, i) * three.clone());
    let shape = extents.iter().map(|n| (*n).into()).collect();
    let window: Vec<Expr> = window.iter().map(|n| (*n).into()).collect();
    let sum = Reducer { init: Expr::constant(0.0, dtype), combine: &|x, y| x + y };
    f.reduce_output("C", "c", dtype, shape, &window, sum, |f, i, r| {
        let at: Vec<Expr> =
            i.iter().zip(r).map(|(i, r)| i.clone() * stride + r.clone() - around).collect();
        let value = f.at(b, &at);
        let bounds =
            at.iter().zip(&inner).map(|(i, n)| i.clone().ge(0).and(i.clone().lt(n.clone())));
        match padded {
            true => {
                let inside = bounds.fold(Expr::bool(true), Expr::and);
                Expr::if_then_else(inside, value, Expr::constant(0.0, dtype))
            }
            false => value,
        }
    });
    f.finish()
}

/// `y[i, j] = bias[j] + sum_k a[i, k] * b[k, j]`
fn biased(dtype: DType) -> PrimFunc {
    let mut f = FuncBuilder::new("biased");
    let a = f.input("a", dtype, vec![5.into(), 7.into()]);
    let b = f.input("b", dtype, vec![7.into(), 6.into()]);
    let bias = f.input("bias", dtype, vec![6.into()]);
    let shape: Vec<Expr> = vec![5.into(), 6.into()];
    let sum = Reducer { init: Expr::constant(0.0, dtype), combine: &|x, y| x + y };
    let c = f.reduce_stage("matmul", "c", dtype, shape.clone(), &[7.into()], sum, |f, i, r| {
        f.at(a, &[i[0].clone(), r[0].clone()]) * f.at(b, &[r[0].clone(), i[1].clone()])
    });
    f.output("bias_add", "y", dtype, shape, |f, i| f.at(c, i) + f.at(bias, &i[1..]));
    f.finish()
}

/// Traces and the functions they are for; `i`, `j` are the loops of the readers, from outside.
fn cases() -> Vec<(PrimFunc, String)> {
    let one = |width: i64, stride| stencil(DType::F32, &[24], &[width], stride, false);
    let two = || stencil(DType::I32, &[8, 12], &[3, 2], 1, false);
    let traces = |lines: &str| lines.to_owned();
    let at = |loops: &str, rest: &str| format!("{loops} = sch.get_loops(b1)\n{rest}");
    let roll = "sch.rolling_buffer(b0, 0)";
    vec![
        (one(3, 1), at("i, k", &format!("sch.compute_at(b0, i)\n{roll}"))),
        (one(4, 2), at("i, k", &format!("sch.compute_at(b0, i)\n{roll}"))),
        (
            one(3, 1),
            at(
                "i, k",
                &format!("o, p = sch.split(i, factors=[None, 8])\nsch.compute_at(b0, o)\n{roll}"),
            ),
        ),
        (two(), at("i, j, k, l", &format!("sch.compute_at(b0, i)\n{roll}"))),
        (two(), at("i, j, k, l", &format!("sch.compute_at(b0, j)\n{roll}"))),
        (
            two(),
            at(
                "i, j, k, l",
                &format!(
                    "o, p = sch.split(i, factors=[None, 4])\nq, r = sch.split(j, factors=[None, 6])\n\
                     sch.reorder(o, q, p, r)\nsch.compute_at(b0, q)\n{roll}"
                ),
            ),
        ),
        (two(), at("i, j, k, l", &format!("sch.reorder(j, i)\nsch.compute_at(b0, i)\n{roll}"))),
        (biased(DType::F32), traces("sch.fuse_reduction_epilogue('matmul', 'bias_add')")),
        (biased(DType::I32), traces("sch.fuse_reduction_epilogue('matmul', 'bias_add')")),
    ]
}

/// The lines of a trace as one function. Blocks are looked up first.
fn trace(lines: &str) -> String {
    let blocks = match lines.contains("epilogue") {
        true => "b0 = sch.get_block('matmul')\nb1 = sch.get_block('bias_add')",
        false => "b0 = sch.get_block('B')\nb1 = sch.get_block('C')",
    };
    let lines = lines.replace("'matmul', 'bias_add'", "b0, b1");
    let body: String =
        blocks.lines().chain(lines.lines()).map(|l| format!("    {}\n", l.trim())).collect();
    format!("def apply_trace(sch):\n{body}")
}

fn replayed(func: &PrimFunc, lines: &str) -> Replay {
    let mut replay = Replay::new(func.clone());
    let text = trace(lines);
    replay.apply_all(&text.parse().unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    replay
}

/// The text of a function without the regions, which TVM and Reflex unite differently, and without buffers that
/// nothing uses, which TVM keeps.
fn without_regions(func: &PrimFunc) -> String {
    let text = print(func);
    let used = |l: &str| match l.split_once(" = T.sblock_alloc_buffer(") {
        Some((name, _)) => text.contains(&format!("{}[", name.trim())),
        None => true,
    };
    let kept = |l: &&str| {
        let region = l.trim().starts_with("T.reads(") || l.trim().starts_with("T.writes(");
        !region && used(l)
    };
    text.lines().filter(kept).map(|l| format!("{l}\n")).collect()
}

/// Indices as int32, since TVM compares its own numbers of int32 with the loops.
fn narrow(text: &str) -> String {
    let mut parts = text.split("T.int64(");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + &part.replacen(')', "", 1))
}

/// Needs `REFLEX_TVM_PYTHON`.
#[test]
fn tvm_makes_the_same_of_the_same_trace() {
    let Some(python) = skip::variable("REFLEX_TVM_PYTHON") else { return };
    let cases = cases();
    let texts: Vec<String> = cases
        .iter()
        .map(|(func, lines)| {
            let trace = trace(lines).replace("get_block", "get_sblock");
            format!("{}\n{trace}", narrow(&print(func)))
        })
        .collect();
    let file = std::env::temp_dir().join(format!("reflex-traces-{}.py", std::process::id()));
    std::fs::write(&file, texts.join("# ====\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/apply_traces.py");
    let run = Command::new(&python).arg(&script).arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8(run.stdout).unwrap();
    let answers: Vec<&str> = said.split("# ====\n").filter(|a| !a.trim().is_empty()).collect();
    assert_eq!(answers.len(), cases.len());
    for ((func, lines), answer) in cases.iter().zip(answers) {
        let theirs = parse(answer).unwrap_or_else(|e| panic!("{e}\n{answer}"));
        let ours = replayed(func, lines);
        assert_eq!(without_regions(ours.func()), without_regions(&theirs), "{lines}");
    }
}

#[test]
fn traces_keep_every_bit_of_integers_and_windows() {
    for (before, lines) in cases() {
        let replay = replayed(&before, &lines);
        let sum_of_floats = lines.contains("epilogue") && print(&before).contains("float32");
        if sum_of_floats {
            continue;
        }
        property(8, |u| {
            let args = arguments(u, &before, 1)?;
            assert_same(&before, replay.func(), &args, &|| lines.clone());
            assert_same(&before, &lower::lower(replay.func()), &args, &|| lines.clone());
            Ok(())
        });
    }
}

/// A random stencil with its producer somewhere in the reader's loops.
fn windowed(u: &mut Unstructured<'_>) -> Result<(PrimFunc, Schedule)> {
    let rank = u.int_in_range(1..=2usize)?;
    let mut extents = vec![];
    let mut window = vec![];
    for _ in 0..rank {
        extents.push(u.int_in_range(2..=9i64)?);
        window.push(u.int_in_range(1..=4i64)?);
    }
    let dtype = *u.choose(&[DType::F32, DType::I32])?;
    let before = stencil(dtype, &extents, &window, u.int_in_range(1..=3)?, u.ratio(1, 3)?);
    let mut s = Schedule::new(before.clone());
    let mut loops = s.get_loops("C").expect("the reader's loops");
    for at in loops.iter_mut().take(rank) {
        if u.ratio(1, 3)? {
            *at = s.split(*at, u.int_in_range(2..=4)?).expect("a split").0;
        }
    }
    if rank == 2 && u.ratio(1, 3)? {
        s.reorder(&[loops[1], loops[0]]).ok();
    }
    let around = s.get_loops("C").expect("the reader's loops");
    let at = *u.choose(&around)?;
    s.compute_at("B", at).ok();
    Ok((before, s))
}

#[test]
fn random_schedules_around_a_window_preserve_every_bit() {
    let (mut rolled, mut applied) = (0, BTreeMap::<String, usize>::new());
    property(1200, |u| {
        let (before, mut s) = windowed(u)?;
        let mut log = vec![format!("{:?}", s.steps())];
        if u.ratio(1, 4)? {
            log.extend(steps(u, &mut s, 2)?);
        }
        let outcome = s.rolling_buffer("B");
        log.push(format!("rolling_buffer B: {outcome:?}"));
        rolled += usize::from(outcome.is_ok());
        let later = steps(u, &mut s, 5)?;
        if outcome.is_ok() {
            for line in later.iter().filter(|l| !l.starts_with(' ')) {
                *applied.entry(line.split(' ').next().unwrap().to_owned()).or_insert(0) += 1;
            }
        }
        log.extend(later);
        if u.ratio(1, 4)? {
            log.extend(bindings(u, &mut s)?);
        }
        let args = arguments(u, &before, 1)?;
        assert_same(&before, s.func(), &args, &|| log.join("\n"));
        if !log.iter().any(|l| l.starts_with("bind ")) {
            assert_same(&before, &lower::lower(s.func()), &args, &|| log.join("\n"));
        }
        Ok(())
    });
    println!("rolled {rolled}, then {applied:?}");
    assert!(rolled > 150, "only {rolled} buffers were rolled");
    assert!(applied.len() > 12, "{applied:?}");
}

#[test]
fn random_schedules_around_a_fused_epilogue_preserve_integers() {
    let mut fused = 0;
    property(400, |u| {
        let before = biased(DType::I32);
        let mut s = Schedule::new(before.clone());
        let mut log = steps(u, &mut s, 2)?;
        let outcome = s.fuse_reduction_epilogue("matmul", "bias_add");
        log.push(format!("fuse_reduction_epilogue: {outcome:?}"));
        fused += usize::from(outcome.is_ok());
        log.extend(steps(u, &mut s, 4)?);
        let args = arguments(u, &before, 1)?;
        assert_same(&before, s.func(), &args, &|| log.join("\n"));
        assert_same(&before, &lower::lower(s.func()), &args, &|| log.join("\n"));
        Ok(())
    });
    assert!(fused > 100, "only {fused} were fused");
}

#[test]
fn what_is_no_window_or_bias_is_refused() {
    let one = stencil(DType::F32, &[24], &[3], 1, false);
    let rolled = |before: &PrimFunc, step: &dyn Fn(&mut Schedule)| {
        let mut s = Schedule::new(before.clone());
        step(&mut s);
        s.rolling_buffer("B").unwrap_err().why
    };
    let under = |s: &mut Schedule| {
        let at = s.get_loops("C").unwrap()[0];
        s.compute_at("B", at).unwrap();
    };
    assert_eq!(rolled(&one, &|_| ()), "no loop is around it and all that read its result");
    let apart = stencil(DType::F32, &[24], &[2], 2, false);
    assert_eq!(
        rolled(&apart, &under),
        "what two iterations of a loop around it compute does not overlap"
    );
    let parallel = |s: &mut Schedule| {
        let at = s.get_loops("C").unwrap()[0];
        s.compute_at("B", at).unwrap();
        let inner = *s.get_loops("B").unwrap().last().unwrap();
        s.vectorize(inner).unwrap();
    };
    assert_eq!(
        rolled(&one, &parallel),
        "its loops are not one of constant extent for each iterator"
    );
    let mut s = Schedule::new(one);
    assert_eq!(
        s.rolling_buffer("C").unwrap_err().why,
        "its result is not an intermediate of the whole function"
    );
    let refused = |combine: &dyn Fn(Expr, Expr) -> Expr| {
        let mut f = FuncBuilder::new("f");
        let a = f.input("a", DType::F32, vec![4.into(), 5.into()]);
        let b = f.input("b", DType::F32, vec![4.into()]);
        let sum = Reducer { init: Expr::float(0.0, DType::F32), combine: &|x, y| x + y };
        let c =
            f.reduce_stage("sum", "c", DType::F32, vec![4.into()], &[5.into()], sum, |f, i, r| {
                f.at(a, &[i[0].clone(), r[0].clone()])
            });
        f.output("last", "y", DType::F32, vec![4.into()], |f, i| combine(f.at(c, i), f.at(b, i)));
        Schedule::new(f.finish()).fuse_reduction_epilogue("sum", "last").map_err(|e| e.why)
    };
    assert_eq!(refused(&|c, b| b + c), Ok(()));
    assert_eq!(
        refused(&|c, b| c.max(b)).unwrap_err(),
        "a minimum or a maximum of a sum is not the sum of those"
    );
    assert_eq!(
        refused(&|c, b| Expr::binary(BinOp::Sub, c, b)).unwrap_err(),
        "it is not the sum plus something else"
    );
    assert_eq!(
        refused(&|c, b| c.clone() + b * c).unwrap_err(),
        "it is not the sum plus something else"
    );
}
