//! Small cases of every operator, and what runs them: shared by the tests of this crate.

#![allow(dead_code)]

mod cases;

use cranelift_entity::PrimaryMap;
use reflex_graph::{Literal, Op, TensorType};
use reflex_lower::legalize::{Legalized, OpCall, Operand, legalize};
use reflex_lower::packing::panels::Packing;
use reflex_lower::precision::Precision;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::eval::{EvalArg, EvalTensor, eval};
use reflex_tir::{DType, Expr, PrimFunc, Var, VarData};
use std::collections::BTreeSet;
use std::sync::Arc;

#[allow(unused_imports)] // each test binary uses a part
pub use cases::cases;

/// A CPU with vectors of so many bytes, and no features.
pub fn target(vector_bytes: u32) -> CpuTarget {
    CpuTarget {
        triple: "x86_64-unknown-linux-gnu".into(),
        features: BTreeSet::new(),
        vector_bytes,
        l1d_bytes: 32 << 10,
        l2_bytes: 512 << 10,
    }
}

/// Features of a CPU whose tiles multiply bfloat16.
pub const AMX_BF16: [&str; 5] = ["avx512f", "avx512vl", "avx512bf16", "amx-tile", "amx-bf16"];

/// An operator on concrete operands.
pub struct Case {
    pub name: String,
    pub op: Op,
    pub args: Vec<Literal>,
}

/// Deterministic values in `[-1, 1)`.
pub fn noise(shape: &[i64], seed: u64) -> Literal {
    let count = shape.iter().product::<i64>() as usize;
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1;
    let values: Vec<f32> = (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
        })
        .collect();
    Literal::from_f32(shape.to_vec(), &values)
}

pub fn tensor_type(value: &Literal) -> TensorType {
    let shape = value.shape().iter().map(|n| Expr::i64(*n)).collect();
    TensorType::new(value.dtype(), shape)
}

pub fn to_tensor(value: &Literal) -> EvalTensor {
    let bytes = value.bytes().to_vec();
    EvalTensor { dtype: value.dtype(), shape: value.shape().to_vec(), bytes }
}

pub fn to_literal(tensor: &EvalTensor) -> Literal {
    Literal::new(tensor.dtype, tensor.shape.clone(), Arc::new(tensor.bytes.clone())).unwrap()
}

impl Case {
    /// The kernel with the first operand's extents (and the same ones in the outputs) symbolic.
    pub fn symbolic(&self, outs: &[Literal]) -> Option<Legalized> {
        let mut syms: PrimaryMap<Var, VarData> = PrimaryMap::new();
        let mut known: Vec<(i64, Var)> = vec![];
        for n in self.args.first()?.shape().iter().filter(|n| **n > 1) {
            if !known.iter().any(|(k, _)| k == n) {
                known.push((
                    *n,
                    syms.push(VarData { name: format!("s{n}").into(), dtype: DType::I64 }),
                ));
            }
        }
        let typed = |l: &Literal| {
            let dim = |n: &i64| {
                known.iter().find(|(k, _)| k == n).map_or(Expr::i64(*n), |(_, v)| Expr::var(*v))
            };
            TensorType::new(l.dtype(), l.shape().iter().map(dim).collect())
        };
        let mut types: Vec<TensorType> = self.args.iter().map(tensor_type).collect();
        types[0] = typed(&self.args[0]);
        let outs: Vec<TensorType> = outs.iter().map(typed).collect();
        let operands: Vec<Operand<'_>> =
            types.iter().map(|ty| Operand { ty, constant: None, packing: None }).collect();
        let call = OpCall { operands: &operands, outs: &outs, dims: &syms };
        let kernel = legalize(&self.name, &self.op, &call, Precision::F32).ok()?;
        kernel.scalars.is_empty().then_some(kernel)
    }

    /// The graph evaluator's answer.
    pub fn expected(&self) -> Vec<Literal> {
        let args: Vec<&Literal> = self.args.iter().collect();
        reflex_graph::eval_op(&self.op, &args, &|_| None)
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// The kernel with static shapes, reading operands packed as told.
    pub fn legalized(&self, packings: &[Packing]) -> Legalized {
        self.legalized_in(packings, Precision::F32)
    }

    /// [`Case::legalized`] in a precision.
    pub fn legalized_in(&self, packings: &[Packing], precision: Precision) -> Legalized {
        let types: Vec<TensorType> = self.args.iter().map(tensor_type).collect();
        let outs: Vec<TensorType> = self.expected().iter().map(tensor_type).collect();
        let operands: Vec<Operand<'_>> = types
            .iter()
            .enumerate()
            .map(|(n, ty)| Operand {
                ty,
                constant: None,
                packing: packings.iter().find(|p| p.operand == n),
            })
            .collect();
        let call = OpCall { operands: &operands, outs: &outs, dims: &PrimaryMap::new() };
        legalize(&self.name, &self.op, &call, precision)
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }
}

/// Runs a kernel in the reference evaluator: `inputs`, then outputs of the types of `outs`.
pub fn run(func: &PrimFunc, inputs: &[Literal], outs: &[Literal]) -> Vec<Literal> {
    let mut args: Vec<EvalArg> = inputs.iter().map(|l| EvalArg::Tensor(to_tensor(l))).collect();
    args.extend(outs.iter().map(|l| EvalArg::Tensor(EvalTensor::zeros(l.dtype(), l.shape()))));
    eval(func, &mut args).unwrap_or_else(|e| panic!("{e}\n{func:#?}"));
    args[inputs.len()..].iter().map(|a| to_literal(a.tensor())).collect()
}

/// Asserts equality within `tolerance` (relative and absolute) for floats, exactly otherwise.
pub fn assert_close(name: &str, got: &[Literal], want: &[Literal], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{name}: outputs");
    for (got, want) in got.iter().zip(want) {
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{name}");
        if !want.dtype().is_float() {
            assert_eq!(got.to_i64(), want.to_i64(), "{name}");
            continue;
        }
        let (got, want) = (to_tensor(got), to_tensor(want));
        for i in 0..want.len() {
            let (g, w) = (got.get(i).unwrap().as_f64(), want.get(i).unwrap().as_f64());
            let near = (g - w).abs() <= tolerance * (1.0 + w.abs());
            assert!(g == w || near || (g.is_nan() && w.is_nan()), "{name}[{i}]: {g}, not {w}");
        }
    }
}

/// Whether an operator's results are float32 or integers (half types round more coarsely).
pub fn tolerance(outs: &[Literal]) -> f64 {
    match outs.iter().any(|o| o.dtype() == DType::F16 || o.dtype() == DType::BF16) {
        true => 1e-2,
        false => 2e-5,
    }
}
