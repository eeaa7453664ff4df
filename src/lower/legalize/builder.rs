//! A naive kernel under construction, and what operators share: readers of operands, index
//! arithmetic, limits of types.

use std::collections::HashMap;

use cranelift_entity::PrimaryMap;
use reflex_graph::{Literal, Op, TensorType};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::{
    Buffer, DType, Expr, ExprKind, Intrin, Param, PrimFunc, Scope, Stmt, Var, VarData,
};

use crate::packing::panels::{MatrixView, Packing};
use crate::precision::Precision;
use crate::winograd::WinogradTile;

/// An operand: its type, and its value when it is a constant.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Type, over the graph function's symbolic dimensions.
    pub ty: &'a TensorType,
    /// A constant's value; one of a single element becomes an immediate where that helps.
    pub constant: Option<&'a Literal>,
    /// The form in which the constant is stored for this kernel; the type stays the original one.
    pub packing: Option<&'a Packing>,
}

/// The types that an operator's kernel is written for.
#[derive(Clone, Copy, Debug)]
pub struct OpCall<'a> {
    /// Operands.
    pub operands: &'a [Operand<'a>],
    /// Types of the results.
    pub outs: &'a [TensorType],
    /// The symbolic dimensions that the types are written over.
    pub dims: &'a PrimaryMap<Var, VarData>,
}

/// A kernel and how to call it.
#[derive(Clone, Debug)]
pub struct Legalized {
    /// The kernel: tensors named by `inputs`, then scalars, then the outputs.
    pub func: PrimFunc,
    /// For each input tensor of the kernel, which operand it is.
    pub inputs: Vec<usize>,
    /// Values of the explicit scalar parameters, over the graph function's dimensions.
    pub scalars: Vec<Expr>,
}

/// Why an operator has no kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kernel for {op}: {reason}")]
pub struct LegalizeError {
    /// The operator.
    pub op: String,
    /// Reason.
    pub reason: String,
}

/// A kernel being written: the builder, and the operator's types over the kernel's variables.
pub struct OpBuilder<'a> {
    pub op: &'a Op,
    pub precision: Precision,
    pub f: FuncBuilder,
    /// Types of the operands, over the kernel's variables.
    pub args: Vec<TensorType>,
    /// Types of the outputs, over the kernel's variables.
    pub outs: Vec<TensorType>,
    pub operands: Vec<OperandSource>,
    pub inputs: Vec<usize>,
    pub scalars: Vec<Expr>,
    /// Graph dimension to kernel variable.
    pub syms: HashMap<Var, Expr>,
}

/// Reads an element of an operand.
pub type ReadOperand = Box<dyn Fn(&FuncBuilder, &[Expr]) -> Expr>;

/// Where an operand's elements come from.
#[derive(Clone)]
pub enum OperandSource {
    Buffer(Buffer, Option<Packing>),
    Immediate(Expr),
    /// In the packed form of another one, through which it is read.
    Held,
}

impl<'a> OpBuilder<'a> {
    pub fn new(name: &str, op: &'a Op, call: &OpCall<'_>) -> OpBuilder<'a> {
        let OpCall { operands, outs, dims } = *call;
        let mut cx = OpBuilder {
            op,
            precision: Precision::F32,
            f: FuncBuilder::new(name),
            args: vec![],
            outs: vec![],
            operands: vec![],
            inputs: vec![],
            scalars: vec![],
            syms: HashMap::new(),
        };
        let immediates: Vec<Option<Expr>> =
            operands.iter().map(|o| o.constant.and_then(|c| immediate(op, c))).collect();
        cx.bind_symbols(operands, &immediates, outs, dims);
        for (n, (operand, value)) in operands.iter().zip(immediates).enumerate() {
            let ty = cx.localized(operand.ty);
            let held = operands.iter().filter_map(|o| o.packing).any(|p| p.holds.contains(&n));
            let source = match (value, operand.packing) {
                (Some(value), _) => OperandSource::Immediate(value),
                (None, _) if held => OperandSource::Held,
                (None, packing) => {
                    cx.inputs.push(n);
                    let shape = packing.map_or_else(|| ty.shape.clone(), Packing::packed_shape);
                    let dtype = packing.map_or(ty.dtype, |p| p.dtype(ty.dtype));
                    let buffer = cx.f.input(&format!("x{n}"), dtype, shape);
                    OperandSource::Buffer(buffer, packing.cloned())
                }
            };
            cx.operands.push(source);
            cx.args.push(ty);
        }
        let scalars: Vec<Var> = cx.scalars.iter().filter_map(Expr::as_var).collect();
        for var in scalars {
            if let Some(local) = cx.syms[&var].as_var() {
                cx.f.func_mut().params.push(Param::Scalar(local));
            }
        }
        cx.outs = outs.iter().map(|t| cx.localized(t)).collect();
        cx
    }

    /// Gives every dimension a kernel variable. Those that are no buffer's own dimension become
    /// scalar parameters.
    pub fn bind_symbols(
        &mut self,
        operands: &[Operand<'_>],
        immediates: &[Option<Expr>],
        outs: &[TensorType],
        syms: &PrimaryMap<Var, VarData>,
    ) {
        let tensors = operands.iter().zip(immediates).filter(|(_, i)| i.is_none());
        let dims: Vec<&Expr> =
            tensors.map(|(o, _)| o.ty).chain(outs).flat_map(|t| &t.shape).collect();
        let bound: Vec<Var> = dims.iter().filter_map(|d| d.as_var()).collect();
        let mut used = bound.clone();
        let mut note = |e: &Expr| {
            e.visit(&mut |e| used.extend(e.as_var()));
        };
        dims.into_iter().for_each(&mut note);
        self.op.dims(&mut note);
        for var in used {
            if self.syms.contains_key(&var) {
                continue;
            }
            let name = syms.get(var).map_or_else(|| var.to_string(), |d| d.name.to_string());
            let local = self.f.symbol(&name);
            self.syms.insert(var, local);
            if !bound.contains(&var) {
                self.scalars.push(var.into());
            }
        }
    }

    pub fn localized(&self, ty: &TensorType) -> TensorType {
        TensorType::new(ty.dtype, self.exprs(&ty.shape))
    }

    /// Expressions over the kernel's variables.
    pub fn exprs(&self, list: &[Expr]) -> Vec<Expr> {
        list.iter().map(|e| e.substitute(&|v| self.syms.get(&v).cloned())).collect()
    }

    /// Operand `n` at an index of its own rank.
    pub fn at(&self, n: usize, index: &[Expr]) -> Expr {
        at(&self.f, &self.operands[n], index)
    }

    /// A reader of operand `n` for use inside the builder's closures.
    pub fn reader(&self, n: usize) -> impl Fn(&FuncBuilder, &[Expr]) -> Expr + use<> {
        let source = self.operands[n].clone();
        move |f, index| at(f, &source, index)
    }

    /// A reader of operand `n` by an index of an array it is broadcast to.
    pub fn broadcast_reader(
        &self,
        n: usize,
        to: &[Expr],
    ) -> impl Fn(&FuncBuilder, &[Expr]) -> Expr + use<> {
        let (read, shape, to) = (self.reader(n), self.args[n].shape.clone(), to.to_vec());
        move |f, index| read(f, &broadcast_index(&shape, &to, index))
    }

    /// The buffer of an operand that is no immediate.
    pub fn buffer(&self, n: usize) -> Buffer {
        match &self.operands[n] {
            OperandSource::Buffer(b, _) => *b,
            OperandSource::Immediate(_) | OperandSource::Held => {
                unreachable!("only elementwise operands become immediates, and none holds them")
            }
        }
    }

    /// The Winograd tile that a constant operand is packed for.
    pub fn winograd_tile(&self, n: usize) -> Option<WinogradTile> {
        match &self.operands[n] {
            OperandSource::Buffer(_, Some(packing)) => match packing.matrix {
                MatrixView::Winograd(tile) => Some(tile),
                MatrixView::KByN | MatrixView::NByK | MatrixView::NByRest => None,
            },
            OperandSource::Buffer(_, None) | OperandSource::Immediate(_) | OperandSource::Held => {
                None
            }
        }
    }

    pub fn error(&self, reason: impl Into<String>) -> LegalizeError {
        LegalizeError { op: op_name(self.op), reason: reason.into() }
    }

    pub fn finish(self) -> Legalized {
        Legalized { func: self.f.finish(), inputs: self.inputs, scalars: self.scalars }
    }
}

pub fn at(f: &FuncBuilder, source: &OperandSource, index: &[Expr]) -> Expr {
    match source {
        OperandSource::Buffer(b, None) => f.at(*b, index),
        OperandSource::Buffer(b, Some(packing)) => packing.element(f, *b, index),
        OperandSource::Immediate(value) => value.clone(),
        OperandSource::Held => unreachable!("it is read through the operand that holds it"),
    }
}

/// The index into an array of `shape` for element `index` of an array of `to` that it is broadcast
/// to. A dimension that is not known to be 1 or to agree is tested when the kernel runs.
pub fn broadcast_index(shape: &[Expr], to: &[Expr], index: &[Expr]) -> Vec<Expr> {
    let skip = to.len() - shape.len();
    let one = Expr::i64(1);
    let dims = shape.iter().zip(&to[skip..]).zip(&index[skip..]);
    dims.map(|((extent, target), at)| match extent {
        e if *e == one => Expr::i64(0),
        e if e == target || e.as_int().is_some() => at.clone(),
        e => Expr::select(e.clone().equal(1), Expr::i64(0), at.clone()),
    })
    .collect()
}

/// The constant as an expression, where `op` reads one element for all and it helps.
pub fn immediate(op: &Op, constant: &Literal) -> Option<Expr> {
    // Elsewhere an operand's buffer itself is needed.
    let elementwise = matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Pad { .. });
    if !elementwise || constant.count() != 1 {
        return None;
    }
    let (bytes, dtype) = (constant.bytes(), constant.dtype());
    match dtype {
        DType::F32 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        DType::F64 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        DType::F16 => Some(half::f16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        DType::BF16 => Some(half::bf16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        _ => None,
    }
    .map(|x| Expr::float(x, dtype))
    .or_else(|| Some(Expr::int(*constant.to_i64()?.first()?, dtype)))
}

/// The variant's name.
pub fn op_name(op: &Op) -> String {
    let text = format!("{op:?}");
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_string()
}

/// float32 for the half-precision types, which are computed in it; otherwise the type itself.
pub fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// `acc + a * b`, fused on floats; on VNNI pairs of bfloat16, both multiply-adds.
pub fn mul_add(a: Expr, b: Expr, acc: Expr) -> Expr {
    match acc.dtype().is_float() {
        true if a.dtype() == DType::U32 => Expr::call(Intrin::DotBf16, vec![a, b, acc]),
        true => Expr::call(Intrin::Fma, vec![a, b, acc]),
        false => acc + a * b,
    }
}

/// The products of two words of integers, for [`sum_of_products`].
pub fn word_product(op: Intrin, a: Expr, b: Expr) -> Expr {
    Expr::call(op, vec![a, b, Expr::int(0, DType::I32)])
}

/// The reduction step of a contraction: the element is a product of two operands, or of two words of
/// them.
pub fn sum_of_products(acc: Expr, product: Expr) -> Expr {
    match product.kind() {
        ExprKind::Binary { op: reflex_tir::BinOp::Mul, a, b } => mul_add(a.clone(), b.clone(), acc),
        ExprKind::Call { op: op @ (Intrin::DotI8 { .. } | Intrin::DotI16), args, .. } => {
            Expr::call(*op, vec![args[0].clone(), args[1].clone(), acc])
        }
        _ => acc + product,
    }
}

/// The most negative value (`-inf`) of a type.
pub fn lowest(dtype: DType) -> Expr {
    match dtype {
        d if d.is_float() => Expr::float(f64::NEG_INFINITY, d),
        d if d.is_int() => Expr::int(i64::MIN >> (64 - u32::from(d.bits)), d),
        d => Expr::int(0, d),
    }
}

/// The greatest value (`inf`) of a type.
pub fn greatest(dtype: DType) -> Expr {
    match dtype {
        d if d.is_float() => Expr::float(f64::INFINITY, d),
        d if d.is_int() => Expr::int(i64::MAX >> (64 - u32::from(d.bits)), d),
        DType::BOOL => Expr::bool(true),
        d => Expr::int((u64::MAX >> (64 - u32::from(d.bits))) as i64, d),
    }
}

/// An index value counted from the end when negative, clamped into `0..extent`.
pub fn wrap_index(index: Expr, extent: &Expr) -> Expr {
    match index.dtype() {
        DType::U8 => return index.cast(DType::I64),
        // A negative index counts from the end of 256 elements, as its bits do.
        DType::I8 => return index.reinterpret(DType::U8).cast(DType::I64),
        _ => {}
    }
    // 32 bits stay so where that is enough: a vector gathers twice as many elements by them.
    let narrow =
        extent.as_int().filter(|n| index.dtype() == DType::I32 && i32::try_from(*n).is_ok());
    let (dtype, extent) = match narrow {
        Some(n) => (DType::I32, Expr::int(n, DType::I32)),
        None => (DType::I64, extent.clone()),
    };
    let index = index.cast(dtype);
    let zero = Expr::int(0, dtype);
    let wrapped = index.clone().lt(zero.clone());
    let wrapped = Expr::select(wrapped, index.clone() + extent.clone(), index);
    wrapped.min(extent - Expr::int(1, dtype)).max(zero).cast(DType::I64)
}

/// Loops over `extents` around what `body` makes of their variables.
pub fn loops(
    f: &mut FuncBuilder,
    prefix: &str,
    extents: &[Expr],
    body: impl FnOnce(&mut FuncBuilder, &[Expr]) -> Stmt,
) -> Stmt {
    let vars: Vec<Var> =
        (0..extents.len()).map(|n| f.func_mut().new_var(format!("{prefix}{n}"))).collect();
    let at: Vec<Expr> = vars.iter().map(|v| Expr::from(*v)).collect();
    let inner = body(f, &at);
    vars.iter().zip(extents).rev().fold(inner, |s, (v, n)| Stmt::serial(*v, n.clone(), s))
}

/// A buffer allocated for the whole function.
pub fn scratch(f: &mut FuncBuilder, name: &str, dtype: DType, shape: Vec<Expr>) -> Buffer {
    let func = f.func_mut();
    let buffer = func.new_buffer(name, dtype, shape, Scope::Global);
    func.allocs.push(buffer);
    buffer
}
