//! Kernels of every operator by every schedule rule, with what the evaluator makes of them.
#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../../../llvm/tests/common/interpret.rs"]
mod interpret;
#[path = "../../../../src/lower/tests/common/mod.rs"]
mod lowering;

use std::collections::BTreeMap;

use interpret::elements;
use lowering::{cases, target, to_tensor};
use reflex_lower::schedule::schedule_for;
use reflex_tir::codegen::Target;
use reflex_tir::eval::{EvalArg, EvalTensor, ThreadOrder, eval, eval_threads};
use reflex_tir::lower::{lower, lower_gpu};
use reflex_tir::{PrimFunc, script};

/// A kernel with arguments and what the evaluator makes of them.
pub struct Sample {
    pub func: PrimFunc,
    pub args: Vec<EvalTensor>,
    pub wanted: Vec<EvalTensor>,
}

impl Sample {
    /// Fails where arguments are not as they are wanted.
    pub fn assert_same(&self, what: &str, found: &[EvalTensor], text: &str) {
        for (number, (found, wanted)) in found.iter().zip(&self.wanted).enumerate() {
            let same = elements(found) == elements(wanted);
            let func = || script::print(&self.func);
            assert!(same, "{what}, argument {number}\n{}\n{text}", func());
        }
    }
}

/// A CPU with vectors of so many bytes.
pub fn cpu(vector_bytes: u32) -> Target {
    Target::Cpu(target(vector_bytes))
}

/// Kernels of all operators that a scheduler gives: half of them with known extents, the others with symbolic ones, and the
/// other way round.
pub fn samples(target: &Target, half: usize) -> Vec<Sample> {
    let mut samples = vec![];
    // A recurrent layer takes the evaluator seconds for each of its many steps.
    let all = cases().into_iter().filter(|case| !case.name.starts_with("rnn"));
    for (number, case) in all.enumerate() {
        let outs = case.expected();
        let (form, kernel) = match number % 2 == half {
            true => ("symbolic", case.symbolic(&outs).unwrap_or_else(|| case.legalized(&[]))),
            false => ("known", case.legalized(&[])),
        };
        let scheduled = schedule_for(&kernel.func, target).func;
        let mut func = match target {
            Target::Cpu(_) => lower(&scheduled),
            Target::Gpu(_) => lower_gpu(&scheduled),
        };
        func.name = format!("{}_{form}", case.name);
        let inputs = kernel.inputs.iter().map(|n| to_tensor(&case.args[*n]));
        let zeros = outs.iter().map(|l| EvalTensor::zeros(l.dtype(), l.shape()));
        let args: Vec<EvalTensor> = inputs.chain(zeros).collect();
        let mut list: Vec<EvalArg> = args.iter().cloned().map(EvalArg::Tensor).collect();
        let done = match target {
            Target::Cpu(_) => eval(&func, &mut list),
            Target::Gpu(_) => eval_threads(&func, &mut list, ThreadOrder::Index),
        };
        done.unwrap_or_else(|e| panic!("{e}\n{}", script::print(&func)));
        let wanted = list.iter().map(|arg| arg.tensor().clone()).collect();
        samples.push(Sample { func, args, wanted });
    }
    assert!(samples.len() > 250, "{}", samples.len());
    samples
}

/// The samples that are printed; why others are not is listed.
pub fn printed(
    samples: Vec<Sample>,
    print: impl Fn(&PrimFunc) -> reflex_source::Result<()>,
) -> Vec<Sample> {
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept = vec![];
    for sample in samples {
        match print(&sample.func) {
            Ok(()) => kept.push(sample),
            Err(error) => {
                let why = error.to_string();
                let why = why.split_once(": ").map_or(&*why, |(_, why)| why).to_owned();
                *refused.entry(why).or_default() += 1;
            }
        }
    }
    for (why, count) in &refused {
        println!("{count} refused: {why}");
        assert!(why.contains("on a GPU") || why.contains("tensor cores"), "{why}");
    }
    println!("{} printed", kept.len());
    kept
}
