//! Schedule traces: random ones keep every bit and replay to the same function from their text; TVM's
//! are read; what is refused says where and why, and changes nothing.

mod common;

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use common::{any_func, assert_same, dense, matmul, property, softmax};
use reflex_tir::fuzzgen::arguments;
use reflex_tir::schedule_trace::{PRIMITIVES, Replay, Trace, parse_traces};
use reflex_tir::script::print;

/// Names of blocks and loops that a random trace knows.
#[derive(Default)]
struct Names {
    blocks: Vec<String>,
    loops: Vec<String>,
}

/// Primitives that change the order of sums, or what callers pass.
const CHANGES_BITS: [&str; 3] = ["rfactor", "tree_reduce", "fuse_reduction_epilogue"];

/// An argument of a random call, by the name of the parameter.
fn argument(u: &mut Unstructured<'_>, param: &str, names: &Names) -> Result<String> {
    let of = |u: &mut Unstructured<'_>, list: &[String]| -> Result<String> {
        Ok(if list.is_empty() { "None".to_owned() } else { u.choose(list)?.clone() })
    };
    Ok(match param {
        "block" | "scope_block" => of(u, &names.blocks)?,
        "loop" | "target" | "first" | "second" | "outer" | "inner" => of(u, &names.loops)?,
        "block_or_loop" if u.ratio(1, 2)? => of(u, &names.blocks)?,
        "block_or_loop" => of(u, &names.loops)?,
        "loops" => format!("[{}, {}]", of(u, &names.loops)?, of(u, &names.loops)?),
        "sizes" => format!("[{}, {}]", u.int_in_range(1..=5)?, u.int_in_range(1..=5)?),
        "factors" => {
            let mut factors = vec![];
            for _ in 0..u.int_in_range(1..=3)? {
                factors.push(u.int_in_range(1..=4i64)?.to_string());
            }
            let at = u.choose_index(factors.len())?;
            if u.ratio(3, 4)? {
                factors[at] = "None".to_owned();
            }
            format!("[{}]", factors.join(", "))
        }
        "new_order" => u.choose(&["[0, 1]", "[1, 0]", "[2, 0, 1]", "[0]"])?.to_string(),
        "candidates" => "[2, 3, 5], [1, 0, 0.5]".to_owned(),
        "padding" => format!("[{}, {}]", u.int_in_range(1..=4)?, u.int_in_range(1..=4)?),
        "condition" => u.choose(&["\"n < 4\"", "\"n % 2 == 0\"", "\"n\""])?.to_string(),
        "storage_scope" => u.choose(&["\"global\"", "\"local\""])?.to_string(),
        "buffer" => format!("(\"{}\", {})", u.choose(&["read", "write"])?, u.int_in_range(0..=1)?),
        "index_map" => {
            let maps =
                ["lambda i, j: (j, i)", "lambda i: (i // 4, i % 4)", "lambda i, j: (i * 9 + j,)"];
            u.choose(&maps)?.to_string()
        }
        "ann_key" => "\"key\"".to_owned(),
        "ann_val" => u.choose(&["1", "\"1\"", "True", "\"text\""])?.to_string(),
        "thread_axis" => "\"threadIdx.x\"".to_owned(),
        "tensor_intrin" => "\"tile_zero\"".to_owned(),
        _ => u.int_in_range(0..=4)?.to_string(),
    })
}

/// Tries a random primitive; tells which, if it was applied.
fn step(
    u: &mut Unstructured<'_>,
    replay: &mut Replay,
    names: &mut Names,
) -> Result<Option<&'static str>> {
    let known: Vec<_> = PRIMITIVES.iter().filter(|p| !CHANGES_BITS.contains(&p.name)).collect();
    // Half of the calls look things up, so that others have something to work on.
    let primitive = match u.ratio(1, 3)? {
        true => *known.iter().find(|p| p.name == "get_loops").expect("it is listed"),
        false => *u.choose(&known)?,
    };
    let mut args = vec![];
    for param in primitive.params {
        match param.strip_prefix('*') {
            Some(_) => {
                args.push(argument(u, "loop", names)?);
                args.push(argument(u, "loop", names)?);
            }
            None if param.ends_with('?') => {}
            None if primitive.name == "get_block" => {}
            None => args.push(argument(u, param, names)?),
        }
    }
    if primitive.name == "get_block" {
        return Ok(None);
    }
    let before = print(replay.func());
    match replay.apply_text(&format!("sch.{}({})", primitive.name, args.join(", "))) {
        Ok(results) => {
            for name in results {
                match name.as_bytes()[0] {
                    b'b' => names.blocks.push(name),
                    b'l' => names.loops.push(name),
                    _ => {}
                }
            }
            Ok(Some(primitive.name))
        }
        Err(_) => {
            assert_eq!(print(replay.func()), before, "{} was refused", primitive.name);
            Ok(None)
        }
    }
}

#[test]
fn random_traces_preserve_every_bit_and_replay() {
    let mut applied: BTreeMap<&str, usize> = BTreeMap::new();
    property(600, |u| {
        let before = any_func(u)?;
        let mut replay = Replay::new(before.clone());
        let mut names = Names::default();
        for block in reflex_tir::schedule::Schedule::new(before.clone()).blocks() {
            let name = replay.apply_text(&format!("sch.get_block({block:?})")).expect("a block");
            names.blocks.extend(name);
        }
        for _ in 0..u.int_in_range(1..=16)? {
            if let Some(name) = step(u, &mut replay, &mut names)? {
                *applied.entry(name).or_insert(0) += 1;
            }
        }
        let text = replay.trace("generated").to_string();
        let args = arguments(u, &before, 5)?;
        assert_same(&before, replay.func(), &args, &|| text.clone());
        let trace: Trace = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(trace.to_string(), text);
        let mut again = Replay::new(before);
        again.apply_all(&trace).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(print(again.func()), print(replay.func()), "{text}");
        Ok(())
    });
    println!("applied: {applied:?}");
    assert!(applied.len() >= 30, "some primitives were never applied: {applied:?}");
}

/// The text that `Trace.as_python()` of TVM prints.
const OF_TVM: &str = r#"
# from tvm import tir
def apply_trace(sch: tir.Schedule) -> None:
  b0 = sch.get_block(name="matmul", func_name="main")
  l1, l2, l3 = sch.get_loops(block=b0)
  v4, v5 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, decision=[2, 4])
  l6, l7 = sch.split(loop=l2, factors=[v4, v5], preserve_unit_iters=True, disable_predication=False)
  sch.reorder(l1, l6, l3, l7)
  v8 = sch.sample_categorical(candidates=[0, 16, 64], probs=[0.3, 0.3, 0.4], decision=1)
  sch.vectorize(loop=l7)
  l9 = sch.fuse(l1, l6, preserve_unit_iters=True)
  sch.annotate(block_or_loop=l9, ann_key="meta_schedule.unroll", ann_val=v8)
  sch.parallel(loop=l9)
  sch.enter_postproc()
  b10, = sch.get_output_blocks(scope_block=b0)
  sch.unannotate(block_or_loop=l9, ann_key="meta_schedule.unroll")
"#;

#[test]
fn traces_of_tvm_are_read() {
    let before = matmul(6.into(), 8.into(), 5.into());
    let trace: Trace = OF_TVM.parse().unwrap();
    let mut replay = Replay::new(before.clone());
    replay.apply_all(&trace).unwrap();
    let text = print(replay.func());
    let made = ["T.parallel(T.int64(12))", "T.vectorized(T.int64(4))"];
    assert!(
        made.iter().all(|made| text.contains(made)) && !text.contains("meta_schedule"),
        "{text}"
    );
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, replay.func(), &args, &String::new);
        Ok(())
    });
}

#[test]
fn reductions_in_lanes_and_layouts_are_traced() {
    let before = softmax(3, 37);
    let mut replay = Replay::new(before.clone());
    let trace = r#"
def softmax(sch):
    b0 = sch.get_block("max")
    l1, l2 = sch.get_loops(b0)
    l3, l4 = sch.split(l2, factors=[None, 8])
    b5 = sch.rfactor(l4, factor_axis=-1)
    l6, l7, l8 = sch.get_loops(b5)
    sch.reorder(l7, l8)
    sch.vectorize(l8)
    b9 = sch.decompose_reduction(b5, l7)
"#;
    replay.apply_all(&trace.parse().unwrap()).unwrap();
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, replay.func(), &args, &String::new);
        Ok(())
    });

    let before = dense(4.into(), 8, 3);
    let mut replay = Replay::new(before.clone());
    let trace = r#"
def dense(sch):
    b0 = sch.get_block("matmul")
    b1 = sch.cache_read(b0, 1, "global")
    sch.transform_layout(b1, ("write", 0), lambda i, j: (j // 2, i, j % 2))
    b2, = sch.get_producers(b0)
    b3, b4 = sch.get_consumers(b2)
"#;
    let refused = replay.apply_all(&trace.parse().unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "line 7: get_consumers gives 1 results, not 2");
    let packed = "T.sblock_alloc_buffer((T.int64(4), T.int64(3), T.int64(2)))";
    assert!(print(replay.func()).contains(packed), "{}", print(replay.func()));
    property(4, |u| {
        let args = arguments(u, &before, 1)?;
        assert_same(&before, replay.func(), &args, &String::new);
        Ok(())
    });
}

/// Decisions that are drawn are the same for the same seed, and are those that the trace records.
#[test]
fn decisions_are_drawn_from_a_seed_and_recorded() {
    let before = dense(12.into(), 16, 5);
    let drawn = |seed: i64| {
        let text = format!(
            r#"
def dense(sch):
    sch.seed({seed})
    b0 = sch.get_block("matmul")
    l1, l2, l3 = sch.get_loops(b0)
    v4, v5 = sch.sample_perfect_tile(l2, n=2, max_innermost_factor=4)
    l6, l7 = sch.split(l2, factors=[v4, v5])
    v8 = sch.sample_categorical([1, 2, 3], [0.25, 0.5, 0.25], None)
    sch.annotate(l7, "note", v8)
    b9 = sch.get_block("bias_add")
    l10 = sch.sample_compute_location(b9)
    sch.compute_at(b9, l10)
"#
        );
        let mut replay = Replay::new(before.clone());
        replay.apply_all(&text.parse().unwrap()).unwrap_or_else(|e| panic!("{e}"));
        (replay.trace("dense").to_string(), replay)
    };
    let mut texts = std::collections::BTreeSet::new();
    property(40, |u| {
        let seed = u.int_in_range(0..=1_000_000)?;
        let (text, replay) = drawn(seed);
        assert_eq!(drawn(seed).0, text);
        // What was drawn needs no seed any more.
        let lines = text.lines().filter(|line| !line.contains("seed"));
        let bare = lines.collect::<Vec<_>>().join("\n");
        let mut again = Replay::new(before.clone());
        again.apply_all(&bare.parse().unwrap()).unwrap_or_else(|e| panic!("{e}\n{bare}"));
        assert_eq!(print(again.func()), print(replay.func()), "{bare}");
        let args = arguments(u, &before, 1)?;
        assert_same(&before, replay.func(), &args, &|| bare.clone());
        assert_eq!(bare.matches("decision=").count(), 2, "{bare}");
        assert!(!bare.contains("None"), "{bare}");
        texts.insert(bare);
        Ok(())
    });
    assert!(texts.len() > 15, "{} different traces", texts.len());
    for place in ["decision=-1", "decision=-2", "decision=0", "decision=1"] {
        let location = |text: &String| {
            text.lines().any(|l| l.contains("compute_location") && l.contains(place))
        };
        assert!(texts.iter().any(location), "{place} was never drawn");
    }
}

#[test]
fn what_is_refused_says_where_and_why() {
    let cases = [
        (
            "def f(sch):\n  sch.fuse_all()",
            "line 2: no primitive \"fuse_all\"; there are get_block, ",
        ),
        (
            "def f(sch):\n  sch.get_block('x')",
            "line 2: get_block: no block \"x\"; there are matmul",
        ),
        (
            "def f(sch):\n  sch.unsafe_set_dtype(b0, 0, 'float16')",
            "no primitive \"unsafe_set_dtype\": it would be believed",
        ),
        ("def f(sch):\n  sch.get_loops(b0)", "line 2: get_loops: `b0` is not defined"),
        ("def f(sch):\n  sch.get_loops(1)", "`block` is a number, where a block is needed"),
        ("def f(sch):\n  sch.get_loops()", "the argument `block` is missing"),
        ("def f(sch):\n  sch.get_loops(block=1, block=2)", "`block` is given twice"),
        ("def f(sch):\n  sch.get_loops(1, block=2)", "`block` is given twice"),
        ("def f(sch):\n  sch.get_loops(1, 2)", "more than its 1 arguments"),
        ("def f(sch):\n  sch.get_loops(blocks=1)", "no argument `blocks`; it takes block"),
        ("def f(sch):\n  other.get_loops(1)", "line 2: expected `sch.PRIMITIVE(...)`"),
        ("def f(sch):\n  x = 1", "expected `sch.PRIMITIVE(...)`"),
        ("def f(sch):\n  for i in range(9): pass", "calls of primitives alone"),
        ("def f(sch):\n  sch.split(lambda: 1, **x)", "expected `sch.PRIMITIVE(...)`"),
        ("def f(sch):\n  sch.split(open('x'))", "`open('x')` is no argument"),
        ("def f(sch, b):\n  pass", "a trace has one parameter"),
        ("def f(sch): pass\ndef f(sch): pass", "`f` has two traces"),
        ("import os\nos.remove('x')", "line 2: expected `def KERNEL(sch):`"),
        ("x = 1", "expected `def KERNEL(sch):`"),
        ("def f(sch)", "not Python"),
    ];
    for (text, why) in cases {
        let outcome = parse_traces(text).and_then(|traces| {
            traces.iter().try_for_each(|trace| {
                Replay::new(matmul(2.into(), 3.into(), 4.into())).apply_all(trace)
            })
        });
        let refused = outcome.expect_err(text).to_string();
        assert!(refused.contains(why), "{text}\n{refused}");
    }
    let steps = [
        ("split(l1, factors=[None, None])", "one factor may be None"),
        ("split(l1, factors=[2, 2])", "the factors' product is not the extent, which is 6"),
        ("split(l1, factors=[6])", "split in two or more"),
        ("split(l1, factors=[None, 0])", "positive numbers or None"),
        ("split(l1, factors=[None, 2], disable_predication=True)", "a guard is left out where"),
        ("loop_partition(l1, factors=[2, 3])", "the last part is 4, not 3"),
        ("loop_partition(l1, factors=[None, 3])", "only the last factor"),
        ("specialize(l1, condition='l1 +')", "condition: not Python"),
        ("specialize(l1, condition='1')", "condition: a bool is expected"),
        ("bind(l1, 'threadIdx.w')", "`threadIdx.w` is not a thread axis"),
        ("cache_read(b0, 7, 'global')", "no such buffer; there are "),
        ("cache_read(b0, 0, 'wmma')", "no memory \"wmma\""),
        ("cache_read(b0, 0, 'global', consumer_blocks=[b0])", "`consumer_blocks` is None"),
        ("compute_at(b0, l1, index=0)", "`index` is -1"),
        (
            "transform_layout(b0, ('read', 0), lambda i, j: (j, i))",
            "its layout is the callers' too",
        ),
        ("tensorize(l1, 'wgmma')", "no tensor intrinsic \"wgmma\"; there are tile_zero"),
        ("sample_perfect_tile(l1, n=2)", "the trace records no decision, and has no seed"),
        ("sample_categorical([1, 2])", "the trace records no decision, and has no seed"),
        ("sample_compute_location(b0)", "the trace records no decision, and has no seed"),
        ("sample_compute_location(b0, decision=7)", "decision 7 of 0 loops"),
        ("merge(l1, l2)", "one of the loops is around the other"),
        ("merge(l1)", "two or more different loops"),
        ("decompose_padding(b0, l1)", "no choice between two"),
        ("rolling_buffer(b0, 0)", "its result is not an intermediate"),
        ("fuse_reduction_epilogue(b0, b0)", "fuse_reduction_epilogue of `matmul` refused"),
        ("reorder_block_iter_var(b0, [0, 0, 1])", "is no order of its 3 iterators"),
        ("reindex(b0, ('read', 7))", "no such buffer; there are"),
        (
            "reindex_cache_read(b0, 0, 'global', lambda i, j, k: (i, j))",
            "the index map mentions iterator 1, which no index does",
        ),
        ("reindex_cache_write(b0, 0, 'global', lambda i, j: (i, j))", "2 parameters for 3 axes"),
        ("sample_perfect_tile(l1, n=2, decision=[4, 2])", "no factors of the extent, which is 6"),
        ("sample_categorical([1, 2], decision=2)", "decision 2 of 2 candidates"),
        ("rfactor(l1)", "rfactor"),
        ("vectorize(l3)", "vectorize of `"),
    ];
    for (step, why) in steps {
        let mut replay = Replay::new(matmul(6.into(), 3.into(), 4.into()));
        replay.apply_text("sch.get_block('matmul')").unwrap();
        replay.apply_text("sch.get_loops(b0)").unwrap();
        let before = print(replay.func());
        let refused = replay.apply_text(&format!("sch.{step}")).expect_err(step).to_string();
        assert!(refused.contains(why), "{step}\n{refused}");
        assert_eq!(print(replay.func()), before, "{step}");
    }
    let mut replay = Replay::new(matmul(6.into(), 3.into(), 4.into()));
    for text in ["sch.get_block('matmul')\n  sch.enter_postproc()", "x = sch.enter_postproc()", ""]
    {
        assert!(replay.apply_text(text).is_err(), "{text}");
    }
}

/// Kernels and traces of primitives that random ones seldom reach.
#[test]
fn index_maps_of_blocks_cached_indices_and_updates_in_place() {
    use reflex_tir::DType;
    use reflex_tir::builder::FuncBuilder;
    let strided = {
        let mut f = FuncBuilder::new("strided");
        let x = f.input("x", DType::F32, vec![97.into()]);
        f.output("compute", "y", DType::F32, vec![6.into(), 8.into()], |f, i| {
            let at = i[0].clone() * 16 + i[1].clone() * 2;
            f.at(x, std::slice::from_ref(&at)) * f.at(x, std::slice::from_ref(&at))
                + f.at(x, &[i[1].clone() + 1])
        });
        f.finish()
    };
    let product = || matmul(6.into(), 8.into(), 12.into());
    let cases: [(reflex_tir::PrimFunc, &str, &[&str]); 11] = [
        (
            product(),
            "sch.transform_block_layout(b0, lambda i, j, k: ((i * 8 + j) // 12, (i * 8 + j) % 12, k))",
            &["T.grid(4, 12, 12)"],
        ),
        (
            product(),
            "sch.transform_block_layout(b0, lambda i, j, k: (i, j // 4, j // 2 % 2, j % 2, k))",
            &["T.grid(6, 2, 2, 2, 12)"],
        ),
        (
            product(),
            "sch.transform_block_layout(b0, lambda i, j, k: (j, i, k // 4, k // 2 % 2, k % 2))",
            &["T.grid(8, 6, 3, 2, 2)"],
        ),
        (
            product(),
            "sch.transform_block_layout(b0, lambda i, j, k: (j // 4, i, j % 4, k))",
            &["T.grid(2, 6, 4, 12)"],
        ),
        (
            product(),
            "sch.transform_block_layout(b0, lambda i, j, k: (i * 8 + j, k))",
            &["T.grid(48, 12)"],
        ),
        (
            product(),
            "sch.transform_block_layout(b0, lambda i, j, k: (j % 2 * 6 + i, j // 2, k // 3, k % 3))",
            &["T.grid(12, 4, 4, 3)"],
        ),
        (strided.clone(), "sch.transform_block_layout(b0, lambda i, j: (j, i))", &["T.grid(8, 6)"]),
        (
            strided.clone(),
            "sch.cache_index(b0, \"global\")",
            &["compute_index[v0, v1] = v0 * 16 + v1 * 2", "compute_index_1[v0] = v0 + 1"],
        ),
        (strided.clone(), "sch.cache_index(b0, \"global\", 1)", &["compute_index"]),
        (
            product(),
            "sch.decompose_reduction(b0, l1)\n    sch.cache_inplace(b0, 0, \"local\")",
            &["c_local[v_i0, v_i1] + "],
        ),
        (
            product(),
            "sch.decompose_reduction(b0, l1)\n    b9, b10 = sch.cache_inplace(b0, \"c\", \"global\")\n    \
             l11, l12 = sch.get_loops(b10)\n    sch.vectorize(l12)",
            &["T.vectorized"],
        ),
    ];
    for (before, step, made) in cases {
        let block = reflex_tir::schedule::Schedule::new(before.clone()).blocks().remove(0);
        let loops = if block == "compute" { "l1, l2" } else { "l1, l2, l3" };
        let text = format!(
            "def f(sch):\n    b0 = sch.get_block({block:?})\n    {loops} = sch.get_loops(b0)\n    {step}"
        );
        let mut replay = Replay::new(before.clone());
        replay.apply_all(&text.parse().unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        // Numbers of type int64 bare.
        let printed = print(replay.func()).split("T.int64(").enumerate().fold(
            String::new(),
            |all, (at, part)| {
                all + &if at == 0 { part.to_owned() } else { part.replacen(')', "", 1) }
            },
        );
        for part in made {
            assert!(printed.contains(part), "{step}: no {part} in\n{printed}");
        }
        property(20, |u| {
            let args = arguments(u, &before, 3)?;
            assert_same(&before, replay.func(), &args, &|| text.clone());
            Ok(())
        });
    }
    let refused = [
        ("transform_block_layout(b0, lambda i, j, k: (i, j))", "not shown to be one to one"),
        (
            "transform_block_layout(b0, lambda i, j, k: (i, j // 3, j % 3, k))",
            "not shown to be one to one",
        ),
        (
            "transform_block_layout(b0, lambda i, j, k: (i, j * 12 + k))",
            "joins spatial and reduction",
        ),
        (
            "transform_block_layout(b0, lambda i, j, k: (i, j, k % 3, k // 3))",
            "changes the order of the reduction",
        ),
        ("transform_block_layout(b0, lambda i, j, k: (i + 1, j, k))", "not shown to be one to one"),
        ("cache_index(b0, 'global')", "no index of its loads is computed"),
        ("cache_inplace(b0, 0, 'global')", "does not update"),
    ];
    for (step, why) in refused {
        let mut replay = Replay::new(product());
        replay.apply_text("sch.get_block('matmul')").unwrap();
        let before = print(replay.func());
        let error = replay.apply_text(&format!("sch.{step}")).expect_err(step).to_string();
        assert!(error.contains(why), "{step}\n{error}");
        assert_eq!(print(replay.func()), before, "{step}");
    }
}
