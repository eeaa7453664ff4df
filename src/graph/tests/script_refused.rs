//! Refusals of the script parser name the form and its line, and never panic.

use reflex_graph::script::{parse, parse_file};

fn in_main(body: &str) -> String {
    let mut text = String::from(
        "@I.ir_module\nclass Module:\n    @R.function\n    \
         def main(x: R.Tensor((2, 4), \"float32\"), i: R.Tensor((2,), \"int64\")):\n",
    );
    for line in body.lines() {
        text.push_str("        ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn refusal(text: &str) -> String {
    match parse(text, "case.py") {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn forms_are_refused_with_their_line() {
    let cases = [
        ("y = R.einsum((x, x), subscripts=\"ij,ii->ij\")\nreturn y", ":5: `ij,ii->ij`"),
        ("y = R.ccl.allreduce(i)\nreturn y", ":5: `R.ccl"),
        ("return R.nn.conv2d(x, x, data_layout=\"NHWC\")", ":5: `data_layout=\"NHWC\"`"),
        ("return R.nn.batch_norm(x, i, i, i, i, axis=1)", "`training=True` is not supported"),
        ("return R.sum(x, axis=[2])", ":5: axis 2 of a tensor of rank 2"),
        ("return R.sum(x, axes=[0])", "argument `axes=[0]` of `R.sum`"),
        ("return R.add(x, z)", "`z` is not defined"),
        ("return R.add(x, i)", "element types float32 and int64 differ"),
        ("y: R.Tensor((2, 5), dtype=\"float32\") = R.abs(x)\nreturn y", "not the type that is"),
        ("while x:\n    pass\nreturn x", ":5: `while x:` is not supported"),
        ("if x:\n    y = x\nreturn x", ":5: an `if` needs exactly one `else`"),
        ("y = metadata[\"ir.GenericConst\"][0]\nreturn y", "bytes of this constant are not in"),
        ("R.func_attr({\"other\": 1})\nreturn x", "attribute `other` is not supported"),
        (
            "return R.call_dps_packed(\"f\", (x,), out_ty=R.Tensor(ndim=1, dtype=\"float32\"))",
            "expected the type of a tensor of known shape",
        ),
        ("y = R.shape([2])\nreturn R.abs(y)", "operand `` is not a tensor"),
        ("return R.const([[1, 2], [3]], \"int64\")", "rows of equal length"),
        ("return R.const(300, \"int8\")", "`300` as int8"),
        ("return R.repeat(x, [])", "R.repeat"),
        ("y = x", "does not end in a `return`"),
        ("return cls.other(x)", "`cls.other(x)` is not supported"),
        ("return R.strided_slice(x, [0], [0], [2], [0])", "a stride is zero"),
        ("return R.reshape(x, (3, -1))", ":5:"),
        ("return R.take(x, i, axis=0, mode=\"other\")", "is not supported"),
    ];
    for (body, expected) in cases {
        let found = refusal(&in_main(body));
        assert!(found.starts_with("case.py:") && found.contains(expected), "{body}\n{found}");
    }
}

#[test]
fn modules_are_refused_with_their_line() {
    let cases = [
        ("", "there is no `@I.ir_module` class"),
        ("x = (", "not Python"),
        ("class Module:\n    pass\n", ":1: the class has no `@I.ir_module`"),
        ("import os\nos.abort()\n", ":2: `os.abort()` is not supported"),
        ("@I.ir_module\nclass M:\n    x = 1\n", ":3: `x = 1` is not supported"),
        ("@I.ir_module\nclass M:\n    def f():\n        pass\n", "neither `R.function` nor"),
        ("metadata = tvm.ir.load_json(\"{}\")\n", "metadata: a node index is missing"),
    ];
    for (text, expected) in cases {
        let found = refusal(text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
    let missing = parse_file("/nonexistent/model.py").unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent/model.py:1: cannot be read"));
}

#[test]
fn deep_nesting_is_refused() {
    let chain = format!("return x{}", " + x".repeat(200_000));
    let calls = format!("return {}x{}", "R.abs(".repeat(100_000), ")".repeat(100_000));
    let choice = format!("return {}x", "x if x else ".repeat(100_000));
    let signs = format!("return {}x", "-".repeat(100_000));
    let attributes = format!("return x{}", ".a".repeat(200_000));
    let subscripts = format!("return x{}", "[0]".repeat(200_000));
    let blocks: String = (0..3000).map(|n| format!("{}if x:\n", " ".repeat(n))).collect();
    let blocks = format!("{blocks}{}pass\n", " ".repeat(3000));
    for body in [chain, calls, choice, signs, attributes, subscripts, blocks] {
        let body = in_main(&body);
        // On a small stack, as a thread of the host may have.
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let refused = thread.spawn(move || parse(&body, "deep.py").is_err()).unwrap();
        assert!(refused.join().unwrap());
    }
}

#[test]
fn what_is_just_shallow_enough_is_read() {
    let chain = format!("return x{}", " + x".repeat(120));
    let calls = format!("return {}x{}", "R.abs(".repeat(120), ")".repeat(120));
    let dims = format!("return R.zeros((2{},), \"float32\")", " + 1".repeat(120));
    let lines = format!("{}return x", "x = R.abs(x)\n".repeat(2000));
    for body in [chain, calls, dims, lines] {
        let body = in_main(&body);
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let read = thread.spawn(move || parse(&body, "shallow.py").map(|_| ())).unwrap();
        assert_eq!(read.join().unwrap(), Ok(()));
    }
    let nearly = [
        format!("return x{}", " + x".repeat(1000)),
        "return x".to_string() + &" if x else x".repeat(60),
    ];
    for body in nearly {
        let body = in_main(&body);
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let refused = thread.spawn(move || parse(&body, "nearly.py").is_err()).unwrap();
        assert!(refused.join().unwrap());
    }
}

#[test]
fn damaged_text_never_panics() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/filetests/relax");
    for name in ["branch", "casts", "kernels", "mlp_fused", "constants", "index"] {
        let text = std::fs::read_to_string(format!("{folder}/{name}.py")).unwrap();
        let step = text.len() / 150 + 1;
        for at in (0..text.len()).step_by(step) {
            let _ = parse(&text[..at], "cut.py");
            let without = format!("{}{}", &text[..at], &text[(at + 3).min(text.len())..]);
            let _ = parse(&without, "hole.py");
            let digit = text[at..].find(|c: char| c.is_ascii_digit()).map(|d| at + d);
            if let Some(at) = digit {
                for new in ["-1", "0", "9223372036854775807", "99999999999999999999", "x", "None"] {
                    let _ = parse(&format!("{}{new}{}", &text[..at], &text[at + 1..]), "digit.py");
                }
            }
        }
    }
}
