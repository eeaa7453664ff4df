//! Tensor intrinsics from outside: a description and an implementation, both functions over the same
//! operands, for the process.
//!
//! The evaluator runs both on random operands before an intrinsic is taken; what differs in a bit is refused. That
//! is a test and no proof: for other operands the implementation is its author's word.

use std::sync::{PoisonError, RwLock};

use super::all;
use crate::eval::{EvalArg, EvalTensor, eval_with_fuel};
use crate::verify::{IrForm, verify};
use crate::{DType, Expr, ForKind, Param, PrimFunc, Scope, Stmt, lower, script};

/// An intrinsic from outside.
pub struct RegisteredIntrin {
    /// Its name.
    pub name: String,
    /// Loops that compute the same, without blocks.
    pub description: PrimFunc,
    /// The statements that take their place, without blocks.
    pub implementation: PrimFunc,
    texts: [String; 2],
}

static REGISTERED: RwLock<Vec<&'static RegisteredIntrin>> = RwLock::new(vec![]);

/// Random operands that both functions are run on.
const ROUNDS: u64 = 24;
/// Statements that a run of either takes at most.
const FUEL: u64 = 1 << 24;

/// Registers an intrinsic from the TVMScript of its description and of its implementation. The same texts may be
/// registered again.
///
/// Both take the same buffers of constant shapes. The description is one loop nest, whose accesses of the buffers are
/// at its loop variables; the implementation may have any loops but threads.
pub fn register(name: &str, description: &str, implementation: &str) -> Result<(), String> {
    let texts = [description.to_owned(), implementation.to_owned()];
    if let Some(known) = find(name) {
        return match known.texts == texts {
            true => Ok(()),
            false => Err(format!("the tensor intrinsic {name:?} is registered already")),
        };
    }
    if name.is_empty() || all().iter().any(|i| i.name == name) {
        return Err(format!("{name:?} is no name for a tensor intrinsic from outside"));
    }
    let read = |what: &str, text: &str| {
        function(text).map_err(|why| format!("the {what} of {name:?}: {why}"))
    };
    let (description, implementation) =
        (read("description", description)?, read("implementation", implementation)?);
    let fault = |why: String| format!("tensor intrinsic {name:?}: {why}");
    require_description(&description).map_err(fault)?;
    require_same_operands(&description, &implementation).map_err(fault)?;
    require_equal(&description, &implementation).map_err(fault)?;
    let made = RegisteredIntrin {
        name: name.to_owned(),
        description: lower::lower_blocks(&description),
        implementation: lower::lower_blocks(&implementation),
        texts,
    };
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if registered.iter().any(|i| i.name == name) {
        return Err(format!("the tensor intrinsic {name:?} is registered already"));
    }
    registered.push(Box::leak(Box::new(made)));
    Ok(())
}

/// The intrinsic from outside of a name.
pub fn find(name: &str) -> Option<&'static RegisteredIntrin> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    registered.iter().find(|i| i.name == name).copied()
}

/// The names of all intrinsics from outside, in the order in which they were registered.
pub fn names() -> Vec<String> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    registered.iter().map(|i| i.name.clone()).collect()
}

/// A function over buffers of constant shapes, in one thread.
fn function(text: &str) -> Result<PrimFunc, String> {
    let func = script::parse(text).map_err(|e| e.to_string())?;
    if let Err(faults) = verify(&func, IrForm::Scheduled) {
        return Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    }
    for param in &func.params {
        let Param::Buffer(buffer) = param else {
            return Err("it has a parameter that is no buffer".to_owned());
        };
        let data = &func.buffers[*buffer];
        let constant = data.shape.iter().all(|n| n.as_int().is_some_and(|n| n > 0));
        if !constant || data.scope != Scope::Global {
            return Err(format!("`{}` is no buffer of a constant shape in main memory", data.name));
        }
    }
    let mut why = None;
    func.body.visit(&mut |s| match s {
        Stmt::For(l) => match l.kind {
            ForKind::Serial | ForKind::Vectorized | ForKind::Unrolled => {}
            ForKind::Parallel | ForKind::ThreadBinding(_) => why = Some("a loop over threads"),
        },
        Stmt::CallPacked(_) => why = Some("a call of a packed function"),
        Stmt::Tile(_) => why = Some("a machine instruction on matrices"),
        Stmt::Barrier(_) => why = Some("a barrier"),
        Stmt::While { .. } => why = Some("a loop without a known extent"),
        Stmt::Block(b) if b.init.is_some() => {
            why = Some("an init, which `decompose_reduction` takes out")
        }
        _ => {}
    });
    match why {
        Some(why) => Err(format!("it has {why}")),
        None => Ok(func),
    }
}

/// One nest without buffers of its own in blocks.
fn require_description(description: &PrimFunc) -> Result<(), String> {
    match (&lower::lower_blocks(description).body, description.allocs.is_empty()) {
        (Stmt::For(_), true) => Ok(()),
        (Stmt::Seq(list), true) if matches!(&list[..], [Stmt::For(_)]) => Ok(()),
        _ => Err("the description is not one loop nest".to_owned()),
    }
}

fn require_same_operands(description: &PrimFunc, implementation: &PrimFunc) -> Result<(), String> {
    let operands = |f: &PrimFunc| -> Vec<(DType, Vec<Expr>)> {
        f.buffer_params().map(|b| (f.buffers[b].dtype, f.buffers[b].shape.clone())).collect()
    };
    match operands(description) == operands(implementation) {
        true => Ok(()),
        false => Err("description and implementation have other operands".to_owned()),
    }
}

/// Runs both on the same operands.
fn require_equal(description: &PrimFunc, implementation: &PrimFunc) -> Result<(), String> {
    let mut bits = Bits(0x9e37_79b9_7f4a_7c15);
    for round in 0..ROUNDS {
        let operand = |buffer| {
            let data = &description.buffers[buffer];
            let shape: Vec<i64> = data.shape.iter().filter_map(Expr::as_int).collect();
            bits.tensor(data.dtype, &shape, round).map(EvalArg::Tensor)
        };
        let args: Result<Vec<EvalArg>, String> = description.buffer_params().map(operand).collect();
        let (mut wanted, mut found) = (args?, vec![]);
        found.clone_from(&wanted);
        eval_with_fuel(description, &mut wanted, FUEL)
            .map_err(|e| format!("the description: {e}"))?;
        eval_with_fuel(implementation, &mut found, FUEL)
            .map_err(|e| format!("the implementation: {e}"))?;
        for (buffer, (a, b)) in description.buffer_params().zip(wanted.iter().zip(&found)) {
            if let Some(at) = differs(a.tensor(), b.tensor()) {
                let name = &description.buffers[buffer].name;
                return Err(format!(
                    "the implementation computes something else than the description: element {at} of `{name}` differs"
                ));
            }
        }
    }
    Ok(())
}

/// The first element that differs in a bit; one NaN is as good as another.
fn differs(a: &EvalTensor, b: &EvalTensor) -> Option<usize> {
    let same = |at: usize| {
        let (Ok(x), Ok(y)) = (a.get(at), b.get(at)) else { return false };
        let nan = a.dtype.is_float() && x.as_f64().is_nan() && y.as_f64().is_nan();
        let size = a.dtype.itemsize();
        nan || a.bytes[at * size..][..size] == b.bytes[at * size..][..size]
    };
    (0..a.len()).find(|at| !same(*at))
}

/// Random elements (SplitMix64), the same in every process.
struct Bits(u64);

impl Bits {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Numbers around 1, from the fourth round on with infinities, NaN, zeros of both signs and subnormal numbers.
    fn float(&mut self, round: u64) -> f64 {
        const SPECIAL: [f64; 8] =
            [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, 3e38, -6e-8];
        let word = self.word();
        match round >= 4 && word.is_multiple_of(16) {
            true => SPECIAL[(word >> 8) as usize % SPECIAL.len()],
            false => (word >> 11) as f64 / (1u64 << 51) as f64 - 2.0,
        }
    }

    fn tensor(&mut self, dtype: DType, shape: &[i64], round: u64) -> Result<EvalTensor, String> {
        let count = shape.iter().product::<i64>();
        if dtype.is_float() {
            let values: Vec<f64> = (0..count).map(|_| self.float(round)).collect();
            return EvalTensor::from_f64(dtype, shape, &values).map_err(|e| e.to_string());
        }
        let mut tensor = EvalTensor::zeros(dtype, shape);
        for byte in &mut tensor.bytes {
            *byte = match dtype == DType::BOOL {
                true => (self.word() >> 40) as u8 & 1,
                false => (self.word() >> 40) as u8,
            };
        }
        Ok(tensor)
    }
}
