//! Random ONNX models with strings, sequences and quantised operators, and models of one map.
//!
//! Floats have the shape `[n, 16]` or are brought back to it, strings and integers `[n]`, so that any value can
//! feed any operator of its kind. Numbers are multiples of 1/8 and scales powers of two where the model gives
//! them, so that evaluator and kernels round alike.

use arbitrary::{Arbitrary, Result, Unstructured};
use reflex_graph::{EvalValue, FuncData, Literal, Module, eval_func, print, verify};
use reflex_onnx::proto::NodeProto;
use reflex_tir::DType;

use self::generator::{Generator, WIDTH, WORDS};
use crate::harness::{self, f32s, i64s};

mod file;
mod generator;
mod maps;

pub use maps::maps;

/// A model whose `main` takes floats, strings, integers, a position and a condition, and arguments of it.
#[derive(Debug)]
pub struct ModelCase {
    bytes: Vec<u8>,
    nodes: Vec<String>,
    args: Vec<Literal>,
}

/// The end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The importer refused the model.
    Refused,
    /// The evaluator and the compiled model failed.
    Failed,
    /// Both gave the same results.
    Agreed,
}

impl<'a> Arbitrary<'a> for ModelCase {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<ModelCase> {
        let n = *u.choose(&[1, 2, 3, 5])?;
        let seed = u.int_in_range(1..=1000)?;
        let words: Vec<&str> = (0..n).map(|_| u.choose(&WORDS).copied()).collect::<Result<_>>()?;
        let ints: Vec<i64> = (0..n).map(|_| u.int_in_range(-2..=9)).collect::<Result<_>>()?;
        let (at, flag) = (u.int_in_range(-2..=3)?, u.arbitrary::<bool>()?);
        let eighths = |seed| {
            let x = f32s(&[n, WIDTH], seed);
            let round = |b: &[u8; 4]| (f32::from_le_bytes(*b) * 8.0).round() / 8.0;
            Literal::from_f32(
                vec![n, WIDTH],
                &x.bytes().as_chunks().0.iter().map(round).collect::<Vec<f32>>(),
            )
        };
        let args = vec![
            eighths(seed),
            eighths(seed + 1),
            strings(&words),
            i64s(&[n], &ints),
            i64s(&[], &[at]),
            harness::tensor(DType::BOOL, &[], vec![u8::from(flag)]),
        ];
        let mut generator = Generator::new(u);
        let steps = generator.u.int_in_range(2..=14)?;
        for _ in 0..steps {
            generator.step()?;
        }
        generator.read_lists();
        let nodes = generator.nodes.iter().map(shown).collect();
        Ok(ModelCase { bytes: generator.model(), nodes, args })
    }
}

fn shown(node: &NodeProto) -> String {
    format!("{:?} = {}({:?})", node.output, node.op_type, node.input)
}

/// Strings as the importer has them: bytes filled up with zeros.
fn strings(words: &[&str]) -> Literal {
    let width = words.iter().map(|word| word.len()).max().unwrap_or(0).max(1);
    let mut bytes = vec![0; words.len() * width];
    for (row, word) in bytes.chunks_exact_mut(width).zip(words) {
        row[..word.len()].copy_from_slice(word.as_bytes());
    }
    harness::tensor(DType::U8, &[words.len() as i64, width as i64], bytes)
}

/// Prints the model when what is asserted of it does not hold.
struct Shown<'a>(&'a ModelCase, Option<&'a Module>);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let module = self.1.map(print::module).unwrap_or_default();
            eprintln!("{}\n{module}\n{:?}", self.0.nodes.join("\n"), self.0.args);
        }
    }
}

/// A model is refused, or gives the results of the graph evaluator, or fails as it does.
pub fn models(case: &ModelCase) -> Ended {
    let imported = {
        let _shown = Shown(case, None);
        reflex_onnx::import_bytes(case.bytes.clone(), None)
    };
    let module = match imported {
        Ok(module) => module,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ended::Refused;
        }
    };
    let _shown = Shown(case, Some(&module));
    if let Err(faults) = verify::verify(&module) {
        panic!("{}", faults[0]);
    }
    let main =
        module.funcs.iter().find(|(_, f)| matches!(f, FuncData::Graph(f) if f.name == "main"));
    let (main, _) = main.expect("an imported model has a `main`");
    let args: Vec<EvalValue> = case.args.iter().cloned().map(EvalValue::Tensor).collect();
    match eval_func(&module, main, &args) {
        Ok(_) => {
            harness::agree(&module, &case.args);
            Ended::Agreed
        }
        Err(error) => {
            let found = harness::run(&module, &case.args);
            assert!(found.is_err(), "it runs, where the evaluator says: {error}");
            Ended::Failed
        }
    }
}
