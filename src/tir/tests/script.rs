//! Script text: round trips, TVM's own text, refused forms.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::path::Path;
use std::process::Command;

use common::{any_func, assert_same, dense, property};
use reflex_tir::fuzzgen::{arguments, bindings, steps};
use reflex_tir::schedule::Schedule;
use reflex_tir::script::{parse, parse_module, print};
use reflex_tir::{PrimFunc, Scope, lower};

/// Text that differs only in what carries no meaning compares equal.
fn body(text: &str) -> String {
    let keep = |l: &&str| {
        let l = l.trim();
        !l.starts_with('#') && !l.is_empty() && !l.contains("TypeVar")
    };
    text.lines().filter(keep).map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn round_trip(func: &PrimFunc) -> PrimFunc {
    let text = print(func);
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let reprinted = print(&again);
    let differs = reprinted.lines().zip(text.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None, "{text}");
    assert_eq!(reprinted, text);
    again
}

#[test]
fn printed_functions_read_back_the_same() {
    property(150, |u| {
        let before = any_func(u)?;
        let mut s = Schedule::new(before.clone());
        let mut log = steps(u, &mut s, 5)?;
        log.extend(bindings(u, &mut s)?);
        let again = round_trip(s.func());
        let args = arguments(u, &before, 3)?;
        assert_same(&before, &again, &args, &|| format!("{log:?}\n{}", print(&again)));
        Ok(())
    });
}

#[test]
fn lowered_functions_read_back_the_same() {
    property(100, |u| {
        let before = any_func(u)?;
        let mut s = Schedule::new(before.clone());
        let log = steps(u, &mut s, 4)?;
        let lowered = lower::lower_blocks(&lower::plan_allocations(s.func()));
        let again = round_trip(&lowered);
        let args = arguments(u, &before, 3)?;
        let text = || format!("{log:?}\n{}\n{}", print(s.func()), print(&again));
        assert_same(&before, &again, &args, &text);
        round_trip(&lower::lower(&before));
        let whole = lower::simplify(&lower::partition_loops(&lower::simplify(&lowered)));
        assert_same(&before, &whole, &args, &text);
        Ok(())
    });
}

/// TVM's text of its own definitions of common operators (`corpus/legalize.py`).
/// Dimensions over a number that no tensor has alone.
#[test]
fn dimensions_over_numbers_behind_them_read_back() {
    let text = r#"
@T.prim_func(s_tir=True)
def double(x: T.Buffer(("n * T.int64(2)",), "float32"), n: T.int64, y: T.Buffer(("n * T.int64(2)",), "float32")):
    for i in range(n * T.int64(2)):
        y[i] = x[i] + x[i]
"#;
    let func = parse(text).unwrap();
    assert_eq!(body(&print(&func)), body(text));
    round_trip(&func);
    let twice = text.replace("n: T.int64, ", "n: T.int64, n: T.int64, ");
    assert!(parse(&twice).is_err());
}

#[test]
fn what_tvm_prints_reads_and_prints_as_it_was() {
    let corpus = include_str!("corpus/legalized.txt");
    let mut read = 0;
    for text in corpus.split("# ---\n").filter(|t| t.contains("def ")) {
        let func = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let printed = print(&func);
        // These two are inlined where they are read.
        if !text.contains("rsqrt") && !text.contains("sigmoid") {
            assert_eq!(body(&printed), body(text));
        }
        assert_eq!(print(&round_trip(&func)), printed);
        read += 1;
    }
    assert!(read > 50, "{read}");
}

#[test]
fn the_older_spelling_of_blocks_is_read() {
    let text = r#"
@T.prim_func
def twice(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("twice"):
            v = T.axis.spatial(8, i)
            T.reads(a[v])
            T.writes(b[v])
            T.block_attr({"note": 1})
            b[v] = a[v] + a[v]
"#;
    let newer = text.replace("T.block", "T.sblock").replace("_func\n", "_func(s_tir=True)\n");
    assert_eq!(print(&parse(text).unwrap()), print(&parse(&newer).unwrap()));
}

#[test]
fn functions_with_32_bit_indices_and_in_place_updates_read() {
    let text = r#"
from tvm.script import ir as I, tirx as T

@I.ir_module
class Base:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        for i in range(1):
            with T.sblock("b"):
                v = T.axis.spatial(1, i)
                B[v] = A[v] + T.float32(1)

    @T.prim_func(s_tir=True)
    def dec(I0: T.Buffer((1,), "int64"), C: T.Buffer((), "bool")):
        with T.sblock("b"):
            I0[0] = I0[0] - T.int64(1)
            C[()] = I0[0] > T.int64(0)

    @T.prim_func(s_tir=True)
    def rows(a: T.handle, b: T.handle, scale: T.float32):
        T.func_attr({"global_symbol": "scaled_rows", "tirx.noalias": True})
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8))
        for i, j in T.grid(n, 2):
            for k in T.vectorized(4):
                with T.sblock("b"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.spatial(8, j * 4 + k)
                    T.where(j * 4 + k < 7)
                    B[vi, vj] = T.if_then_else(vi % 2 == 0, A[vi, vj] * scale, -1.0)
"#;
    let funcs = parse_module(text).unwrap();
    let names: Vec<(&str, usize)> = funcs.iter().map(|f| (&*f.name, f.num_outputs)).collect();
    assert_eq!(names, [("add1", 1), ("dec", 2), ("scaled_rows", 1)]);
    for func in &funcs {
        round_trip(func);
    }
}

#[test]
fn refused_forms_are_named_with_their_line() {
    let function = |line: &str| {
        format!("@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((4,), \"float32\")):\n    {line}\n")
    };
    let cases = [
        ("A[0] = T.exp2(A[0])", "line 3: `T.exp2(A[0])` is not supported"),
        ("A[0] = T.round(A[0])", "line 3: `T.round(A[0])` is not supported"),
        ("A[0] = B[0]", "line 3: buffer `B` is not defined"),
        ("A[0] = A[0] ** 2", "line 3: `A[0] ** 2` is not supported"),
        ("A[0] = 1 / 2", "line 3: `1 / 2` is not supported"),
        ("A[0] = T.if_then_else(A[0])", "line 3: `T.if_then_else` takes 3 operands"),
        ("A[0] = T.exp()", "line 3: `T.exp` takes 1 operands"),
        ("A[0] = T.Cast(\"void\", A[0])", "line 2: function `f`: a cast from float32 to void"),
        ("return A", "line 3: `return A` is not supported"),
        ("x = A[0]", "line 3: `x = A[0]` is not supported"),
        ("A[0] = T.int32(1)", "line 2: function `f`: `A` holds float32, int32 is stored"),
        ("A[0, 0, 0] = 1.0", "line 2: function `f`: `A` has 1 dimensions and 3 indices"),
        ("A[0] = T.float32(", "line 4: not Python: "),
        ("A[0] = T.Cast(\"float33\", A[0])", "line 3: unknown data type `float33`"),
    ];
    for (line, want) in cases {
        let error = parse(&function(line)).unwrap_err().to_string();
        assert!(error.starts_with(want), "{line}: {error}");
    }
    let deep = format!("A[0] = {}A[0]", "-".repeat(100_000));
    assert!(parse(&function(&deep)).unwrap_err().to_string().contains("too deeply"));
    let sum = format!("A[0] = A[0]{}", " + A[0]".repeat(10_000));
    assert!(parse(&function(&sum)).unwrap_err().to_string().contains("too deeply"));
    let brackets = format!("A[0] = {}1", "(".repeat(100_000));
    assert!(parse(&function(&brackets)).unwrap_err().to_string().contains("too deeply"));
}

#[test]
fn any_text_is_read_or_refused() {
    let statements = include_str!("../../../tests/filetests/tir/statements.py");
    let seeds = [print(&dense(3.into(), 4, 5)), statements.replace("# ----", "#")];
    property(1500, |u| {
        let mut text: Vec<char> = u.choose(&seeds)?.chars().collect();
        for _ in 0..u.int_in_range(1..=6)? {
            let at = u.choose_index(text.len())?;
            let to = (at + u.int_in_range(0..=12)?).min(text.len());
            let from = u.choose_index(text.len())?;
            let piece: Vec<char> = text[from..(from + 8).min(text.len())].to_vec();
            text.splice(at..to, piece);
        }
        let _ = parse_module(&text.into_iter().collect::<String>());
        Ok(())
    });
}

/// TVM reads what is printed here and prints the same again. Needs `REFLEX_TVM_PYTHON`, a
/// Python that has apache-tvm 0.27.
#[test]
fn tvm_reads_what_is_printed() {
    let Some(python) = skip::variable("REFLEX_TVM_PYTHON") else { return };
    let mut s = Schedule::new(common::matmul_symbolic(32, 16));
    let [i, j, k] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    let (io, ii) = s.split(i, 6).unwrap();
    let (jo, ji) = s.split(j, 16).unwrap();
    s.reorder(&[io, jo, k, ii, ji]).unwrap();
    s.cache_write("matmul", Scope::Local).unwrap();
    s.reverse_compute_at("c_local", jo).unwrap();
    s.decompose_reduction("matmul", k).unwrap();
    s.vectorize(ji).unwrap();
    s.unroll(ii).unwrap();
    s.parallel(io).unwrap();
    s.annotate_loop(jo, "note", "tile").unwrap();
    let mut funcs =
        vec![s.into_func(), common::chain(8), common::conv(6, 2), common::softmax(3, 4)];
    funcs.push(lower::lower(&common::softmax(3, 4)));
    let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/reprint.py");
    for func in &funcs {
        let text = print(func);
        let file =
            std::env::temp_dir().join(format!("reflex-{}-{}.py", func.name, std::process::id()));
        std::fs::write(&file, &text).unwrap();
        let run = Command::new(&python).arg(&checker).arg(&file).output().unwrap();
        std::fs::remove_file(&file).unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{text}\n{complaint}");
        assert_eq!(body(&said), body(&text));
    }
}
