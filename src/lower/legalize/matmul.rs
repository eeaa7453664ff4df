//! Matrix multiplication with NumPy's broadcasting.

use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{DType, Expr, Intrin, Sign};

use crate::legalize::builder::{
    LegalizeError, OpBuilder, OperandSource, ReadOperand, broadcast_index, compute_type,
    sum_of_products, word_product,
};
use crate::legalize::vnni;
use crate::packing::blocks::CodeIndex;
use crate::packing::choose;
use crate::packing::panels::PackedElements;

/// The operands of a matmul, and how they are multiplied.
struct Factors {
    a: ReadOperand,
    b: ReadOperand,
    /// The steps of the sum.
    depth: Depth,
    multiply: Box<dyn Fn(Expr, Expr) -> Expr>,
    /// The type of the sums.
    sum: DType,
}

/// The axes that are summed over. Operand A has one index of them, operand B one for each.
enum Depth {
    /// One axis, so many elements at a step.
    Plain { along_k: i64 },
    /// Blocks, words of a block, and codes of a word.
    Codes { blocks: i64, words: i64, codes: i64 },
}

impl Depth {
    /// The extents, where operand A has `k` elements.
    fn extents(&self, k: &Expr) -> Vec<Expr> {
        match self {
            Depth::Plain { along_k: 1 } => vec![k.clone()],
            Depth::Plain { along_k } => vec![k.clone().ceildiv(*along_k)],
            Depth::Codes { blocks, words, codes } => {
                [*blocks, *words, *codes].map(Expr::i64).to_vec()
            }
        }
    }

    /// Operand A's index.
    fn of_a(&self, k: &[Expr]) -> Expr {
        match (self, k) {
            (Depth::Codes { words, codes, .. }, [block, word, code]) => {
                block.clone() * (words * codes) + word.clone() * *codes + code.clone()
            }
            _ => k[0].clone(),
        }
    }
}

/// `MatMul`: one block; operands of rank 1 are a row and a column.
pub fn matmul(cx: &mut OpBuilder<'_>) -> Result<(), LegalizeError> {
    let (a, b) = (cx.args[0].clone(), cx.args[1].clone());
    if a.shape.is_empty() || b.shape.is_empty() || a.dtype == DType::BOOL {
        return Err(cx.error("operands must be numeric and not scalars"));
    }
    let packed = is_packed_as(cx, PackedElements::Bf16Pairs);
    let paired = packed || choose::vnni_suits_matmul(cx.precision, &a, &b);
    let read_a = if paired { vnni_operand(cx, 0) } else { operand(cx, 0) };
    let (read_b, depth) = match codes_of(cx) {
        Some(codes) => codes,
        None if paired && !packed => (vnni_operand(cx, 1), Depth::Plain { along_k: 2 }),
        None => (operand(cx, 1), Depth::Plain { along_k: if paired { 2 } else { 1 } }),
    };
    let work = compute_type(cx.outs[0].dtype);
    let multiply: Box<dyn Fn(Expr, Expr) -> Expr> = match paired {
        true => Box::new(|a, b| a * b),
        false => Box::new(move |a, b| a.cast(work) * b.cast(work)),
    };
    product(cx, Factors { a: read_a, b: read_b, depth, multiply, sum: work });
    Ok(())
}

/// `MatMulInteger`: sums in int32 over words of four 8-bit integers.
pub fn matmul_integer(cx: &mut OpBuilder<'_>) -> Result<(), LegalizeError> {
    let (a, b) = (cx.args[0].clone(), cx.args[1].clone());
    let (Some(sign_a), Some(sign_b)) = (Sign::of(a.dtype), Sign::of(b.dtype)) else {
        return Err(cx.error("operands must be 8-bit integers"));
    };
    let read_a = words_of(cx, 0);
    let read_b = match is_packed_as(cx, PackedElements::Int8Words) {
        true => operand(cx, 1),
        false => words_of(cx, 1),
    };
    let dot = Intrin::DotI8 { a: sign_a, b: sign_b };
    let multiply = Box::new(move |a, b| word_product(dot, a, b));
    let depth = Depth::Plain { along_k: 4 };
    product(cx, Factors { a: read_a, b: read_b, depth, multiply, sum: DType::I32 });
    Ok(())
}

fn is_packed_as(cx: &OpBuilder<'_>, elements: PackedElements) -> bool {
    matches!(&cx.operands[1], OperandSource::Buffer(_, Some(p)) if p.elements == elements)
}

/// The block of the sums, and another that rounds them where their type is not the result's.
fn product(cx: &mut OpBuilder<'_>, factors: Factors) {
    let (a, b, out) = (cx.args[0].clone(), cx.args[1].clone(), cx.outs[0].clone());
    let (has_row, has_col) = (a.shape.len() > 1, b.shape.len() > 1);
    let lead = out.shape.len() - usize::from(has_row) - usize::from(has_col);
    let batch = |shape: &[Expr]| shape[..shape.len().saturating_sub(2)].to_vec();
    let (batch_a, batch_b) = (batch(&a.shape), batch(&b.shape));
    let extents = out.shape[..lead].to_vec();
    let Factors { a: read_a, b: read_b, depth, multiply, sum: work } = factors;
    let element = |f: &FuncBuilder, i: &[Expr], k: &[Expr]| {
        let (index, rest) = i.split_at(lead);
        let mut at_a = broadcast_index(&batch_a, &extents, index);
        let mut at_b = broadcast_index(&batch_b, &extents, index);
        at_a.extend_from_slice(&rest[..usize::from(has_row)]);
        at_a.push(depth.of_a(k));
        at_b.extend_from_slice(k);
        at_b.extend_from_slice(&rest[usize::from(has_row)..]);
        multiply(read_a(f, &at_a), read_b(f, &at_b))
    };
    let steps = depth.extents(&a.shape[a.shape.len() - 1]);
    let reducer = Reducer { init: Expr::constant(0.0, work), combine: &sum_of_products };
    if work == out.dtype {
        cx.f.reduce_output("matmul", "y", work, out.shape, &steps, reducer, element);
        return;
    }
    let shape = out.shape.clone();
    let sum = cx.f.reduce_stage("matmul", "sum", work, shape, &steps, reducer, element);
    cx.f.output("round", "y", out.dtype, out.shape, |f, i| f.at(sum, i).cast(out.dtype));
}

/// Operand B where it is packed as codes of whole blocks: its reader, by block, word, code and column.
fn codes_of(cx: &OpBuilder<'_>) -> Option<(ReadOperand, Depth)> {
    let OperandSource::Buffer(buffer, Some(packing)) = &cx.operands[1] else { return None };
    let PackedElements::Blocks(codes) = packing.elements else { return None };
    let (buffer, packing) = (*buffer, packing.clone());
    let k = packing.shape[0];
    let (blocks, words) = (codes.blocks(k), codes.words());
    let depth = Depth::Codes { blocks, words, codes: codes.per_word() };
    let read = move |f: &FuncBuilder, at: &[Expr]| {
        let [block, word, code] = [0, 1, 2].map(|n| at[n].clone());
        packing.code(f, buffer, &CodeIndex { block, word, code }, &at[3])
    };
    (k % codes.block == 0).then(|| (Box::new(read) as ReadOperand, depth))
}

/// An operand as it is stored.
fn operand(cx: &OpBuilder<'_>, operand: usize) -> ReadOperand {
    Box::new(cx.reader(operand))
}

/// The axis of an operand that is summed over.
fn depth_axis(cx: &OpBuilder<'_>, operand: usize) -> usize {
    let rank = cx.args[operand].shape.len();
    if operand == 0 { rank - 1 } else { rank.saturating_sub(2) }
}

/// An operand copied into VNNI-packed pairs along the axis that is summed over.
fn vnni_operand(cx: &mut OpBuilder<'_>, operand: usize) -> ReadOperand {
    let axis = depth_axis(cx, operand);
    let buffer = vnni::packed(cx, operand, axis);
    Box::new(move |f, at| f.at(buffer, at))
}

/// An operand copied into words along the axis that is summed over.
fn words_of(cx: &mut OpBuilder<'_>, operand: usize) -> ReadOperand {
    let axis = depth_axis(cx, operand);
    let buffer = vnni::words(cx, operand, axis);
    Box::new(move |f, at| f.at(buffer, at))
}
