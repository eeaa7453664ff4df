//! TVMScript, end to end: every file of `tests/filetests/relax` with cases compiles and gives
//! TVM's answers in every mode.

use std::path::{Path, PathBuf};

use reflex::stats::Difference;
use reflex::{Array, DType, Engine, Feed, Mode};

const RTOL: f64 = 1e-4;
const ATOL: f64 = 1e-5;

/// A tensor of a `# in` or `# out` line: element type, shape, elements.
fn array(line: &str) -> Array {
    let mut words = line.split_whitespace();
    let dtype: DType = words.next().expect("a type").parse().expect("a type");
    let shape = words.next().expect("a shape").trim_matches(['(', ')']);
    let dims = shape.split(',').filter(|d| !d.is_empty());
    let shape = dims.map(|d| d.parse().expect("a dimension")).collect();
    let bytes = |word: &str| match dtype {
        DType::F64 => word.parse::<f64>().expect("a number").to_le_bytes().to_vec(),
        DType::F32 => word.parse::<f32>().expect("a number").to_le_bytes().to_vec(),
        DType::I64 => word.parse::<i64>().expect("a number").to_le_bytes().to_vec(),
        DType::I32 => word.parse::<i32>().expect("a number").to_le_bytes().to_vec(),
        DType::BOOL => vec![word.parse().expect("0 or 1")],
        _ => panic!("{dtype} in the corpus: {line:.60}"),
    };
    Array { dtype, shape, data: words.flat_map(bytes).collect() }
}

fn check(path: &Path, text: &str) {
    let at = path.display();
    let program = Engine::new().and_then(|e| e.load(path)).unwrap_or_else(|e| panic!("{e}"));
    let inputs = program.signature("main").unwrap_or_else(|e| panic!("{at}: {e}")).inputs;
    for case in text.split("# case\n").skip(1) {
        let tagged = |tag| case.lines().filter_map(move |l| l.strip_prefix(tag)).map(array);
        let names = inputs.iter().map(|port| port.name.clone());
        let feed: Feed = names.zip(tagged("# in ")).collect();
        let prepared = program.prepare("main", &feed).unwrap_or_else(|e| panic!("{at}: {e}"));
        for mode in Mode::ALL {
            let mut session = program.session(mode).expect("a session");
            let outputs = session.call(&prepared).and_then(|o| o.arrays());
            let outputs = outputs.unwrap_or_else(|e| panic!("{at}, {mode}: {e}"));
            let expected: Vec<Array> = tagged("# out ").collect();
            assert_eq!(outputs.len(), expected.len(), "{at}, {mode}");
            for ((name, found), expected) in outputs.iter().zip(&expected) {
                let d = Difference::of(found, expected, RTOL, ATOL);
                let d = d.unwrap_or_else(|e| panic!("{at}, {mode}, {name}: {e}"));
                assert!(d.matches(), "{at}, {mode}, {name}: {d:?}");
            }
        }
    }
}

#[test]
fn compiled_scripts_give_the_answers_of_tvm() {
    let mut files: Vec<PathBuf> = std::fs::read_dir("tests/filetests/relax")
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .filter(|path| path.file_name().is_some_and(|n| n != "generate.py"))
        .collect();
    files.sort();
    let mut checked = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).expect("readable");
        if text.contains("# case\n") {
            check(&path, &text);
            checked += 1;
        }
    }
    assert!(checked >= 15, "only {checked} files have cases");
}
