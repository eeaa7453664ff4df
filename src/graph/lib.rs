//! Graph IR (Relax) and the [`Module`] that holds it together with loop IR.
//!
//! Functions are in A-normal form over dense ids. Every tensor has a rank and a shape of
//! int64 expressions over the function's symbolic dimensions. This crate knows no model
//! format, no schedule and no bytecode.
#![forbid(unsafe_code)]

mod bind_symbolic_vars;
pub mod builder;
mod constant_pool;
pub mod dims;
mod eval;
pub mod infer;
mod ir;

mod literal;
mod op;
pub mod print;
pub mod script;
mod strides;
pub mod verify;
mod visit;

pub use constant_pool::ConstantPool;
pub use eval::{DimValues, EvalError, EvalValue, eval_dim, eval_func, eval_op};
pub use ir::{
    Binding, Body, Const, Func, FuncData, FuncId, LeafExpr, Loop, Module, Node, TensorType, Type,
    Value, ValueData,
};
pub use literal::Literal;
pub use op::{
    ArgReduceKind, Binary, ConvAttrs, GatherKind, Op, PadMode, PoolAttrs, PoolKind, ReduceKind,
    ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest, RnnActivation, RnnAttrs, RnnCell, RnnDir,
    ScatterKind, ScatterReduce, Unary,
};
