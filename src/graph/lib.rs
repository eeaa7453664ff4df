//! Graph IR: Relax functions over tensors with symbolic shapes, and the [`Module`] that holds them
//! together with kernels in loop IR.
//!
//! A [`Func`] is in A-normal form: a list of [`Binding`]s, each of which binds the outputs of one
//! [`Node`] to fresh [`Value`]s. Every value has a [`Type`]; the shape of a tensor is a list of int64
//! expressions over the function's symbolic dimensions. Operators are the closed enum [`Op`]; what
//! each means is defined by the reference evaluator [`eval_op`].
//!
//! ```
//! use reflex_graph::builder::FuncBuilder;
//! use reflex_graph::{Binary, EvalValue, Literal, Module, Op, TensorType, eval_func, verify};
//! use reflex_tir::{DType, Expr};
//!
//! // y = x + x for x: float32[n]
//! let mut module = Module::default();
//! let mut b = FuncBuilder::new(&mut module, "main");
//! let n = Expr::var(b.sym("n"));
//! let x = b.param("x", TensorType::new(DType::F32, vec![n]));
//! let y = b.emit1(Op::Binary(Binary::Add), &[x, x])?;
//! let main = b.finish(vec![y], vec!["y".into()]);
//! verify::verify(&module).expect("well-formed");
//!
//! let input = EvalValue::Tensor(Literal::from_f32(vec![2], &[1.0, 2.0]));
//! let outputs = eval_func(&module, main, &[input]).expect("evaluates");
//! assert_eq!(outputs[0].as_tensor(), Some(&Literal::from_f32(vec![2], &[2.0, 4.0])));
//! assert!(reflex_graph::print::module(&module).contains("R.add(x, x)"));
//! # Ok::<(), reflex_graph::infer::InferError>(())
//! ```
//!
//! # Where to look
//!
//! | module | content |
//! |---|---|
//! | `ir`, `literal`, `visit` | data structures, constants, walks over nodes |
//! | `block_quantized` | constants that stay codes of 2, 4 or 8 bits |
//! | `op` | the operator table; the documentation of `op.rs` says **how to add an operator** |
//! | [`registered`], `registered_op` | operators from outside, the open row of that table |
//! | [`dims`], `dim_text` | symbolic shape analysis: simplify and compare dimensions |
//! | [`infer`], [`verify`] | shape inference; the rules that passes rely on |
//! | [`builder`] | building functions with inferred types |
//! | `eval` | the reference evaluator: the oracle of tests and of constant folding |
//! | [`mod@print`], [`script`] | TVMScript, both ways |
//! | [`pattern`] | patterns over dataflow, in the words of TVM's pattern language |
//! | [`relay`] | Relay text, both ways, and its lowering |
//! | `bind_symbolic_vars`, `constant_pool` | shape specialisation, and constants shared with it |
//!
//! The names follow TVM's Relax: a [`TensorType`] is a `TensorStructInfo`, a [`LeafExpr`] a
//! `LeafExpr`, [`Node::MatchCast`] a `match_cast`, [`builder::FuncBuilder`] a `BlockBuilder`.
//!
//! This crate has no model format, no schedules, no bytecode and no machine code; passes over graphs
//! are in `reflex-lower`.
#![forbid(unsafe_code)]

mod bind_symbolic_vars;
mod block_quantized;
pub mod builder;
mod constant_pool;
mod dim_text;
pub mod dims;
mod eval;
mod func_type;
pub mod infer;
mod ir;
mod literal;
mod op;
pub mod pattern;
pub mod print;
pub mod registered;
mod registered_op;
pub mod relay;
mod saved_tensor;
pub mod script;
mod strides;
pub mod verify;
mod visit;

pub use bind_symbolic_vars::unknown_dim;
pub use block_quantized::{BlockQuantized, CodeMeaning, DepthAxis};
pub use constant_pool::ConstantPool;
pub use eval::{DimValues, EvalError, EvalValue, eval_dim, eval_func, eval_op};
pub use func_type::{FuncType, ResultType};
pub use ir::{
    Binding, Body, Const, Constructor, ConstructorRef, DataOp, DataType, DataTypeData, Func,
    FuncData, FuncId, LeafExpr, Loop, Module, Node, TensorType, Type, Value, ValueData,
};
pub use literal::Literal;
pub use op::{
    Activations, ArgReduceKind, Binary, ConvAttrs, GatherKind, NBits, Op, OutOfRange, PadMode,
    PoolAttrs, PoolKind, ReduceKind, ResizeAttrs, ResizeCoord, ResizeMode, ResizeNearest,
    RnnActivation, RnnAttrs, RnnCell, RnnDir, ScanKind, ScatterKind, ScatterReduce, Unary,
};
