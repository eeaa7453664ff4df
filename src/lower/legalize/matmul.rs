//! Matrix multiplication with NumPy's broadcasting.

use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{DType, Expr};

use crate::legalize::builder::{
    LegalizeError, OpBuilder, OperandSource, broadcast_index, compute_type, sum_of_products,
};
use crate::legalize::vnni;
use crate::packing::choose;

/// Reads an element of an operand.
type ReadOperand = Box<dyn Fn(&FuncBuilder, &[Expr]) -> Expr>;

/// `MatMul`: one block; operands of rank 1 are a row and a column.
pub fn matmul(cx: &mut OpBuilder<'_>) -> Result<(), LegalizeError> {
    let (a, b, out) = (cx.args[0].clone(), cx.args[1].clone(), cx.outs[0].clone());
    if a.shape.is_empty() || b.shape.is_empty() || a.dtype == DType::BOOL {
        return Err(cx.error("operands must be numeric and not scalars"));
    }
    let (has_row, has_col) = (a.shape.len() > 1, b.shape.len() > 1);
    let lead = out.shape.len() - usize::from(has_row) - usize::from(has_col);
    let batch = |shape: &[Expr]| shape[..shape.len().saturating_sub(2)].to_vec();
    let (batch_a, batch_b) = (batch(&a.shape), batch(&b.shape));
    let packed = matches!(&cx.operands[1], OperandSource::Buffer(_, Some(p)) if p.vnni);
    let paired = packed || choose::vnni_suits_matmul(cx.precision, &a, &b);
    let read_a = if paired { vnni_operand(cx, 0) } else { operand(cx, 0) };
    let read_b = if paired && !packed { vnni_operand(cx, 1) } else { operand(cx, 1) };
    let (work, extents) = (compute_type(out.dtype), out.shape[..lead].to_vec());
    let element = |f: &FuncBuilder, i: &[Expr], k: &[Expr]| {
        let (index, rest) = i.split_at(lead);
        let mut at_a = broadcast_index(&batch_a, &extents, index);
        let mut at_b = broadcast_index(&batch_b, &extents, index);
        at_a.extend_from_slice(&rest[..usize::from(has_row)]);
        at_a.push(k[0].clone());
        at_b.push(k[0].clone());
        at_b.extend_from_slice(&rest[usize::from(has_row)..]);
        match paired {
            true => read_a(f, &at_a) * read_b(f, &at_b),
            false => read_a(f, &at_a).cast(work) * read_b(f, &at_b).cast(work),
        }
    };
    let depth = a.shape[a.shape.len() - 1].clone();
    let depth = if paired { depth.ceildiv(2) } else { depth };
    let reducer = Reducer { init: Expr::constant(0.0, work), combine: &sum_of_products };
    if work == out.dtype {
        cx.f.reduce_output("matmul", "y", work, out.shape, &[depth], reducer, element);
        return Ok(());
    }
    let shape = out.shape.clone();
    let sum = cx.f.reduce_stage("matmul", "sum", work, shape, &[depth], reducer, element);
    cx.f.output("round", "y", out.dtype, out.shape, |f, i| f.at(sum, i).cast(out.dtype));
    Ok(())
}

/// An operand as it is stored.
fn operand(cx: &OpBuilder<'_>, operand: usize) -> ReadOperand {
    Box::new(cx.reader(operand))
}

/// An operand copied into VNNI-packed pairs along the axis that is summed over.
fn vnni_operand(cx: &mut OpBuilder<'_>, operand: usize) -> ReadOperand {
    let rank = cx.args[operand].shape.len();
    let axis = if operand == 0 { rank - 1 } else { rank - 2 };
    let buffer = vnni::packed(cx, operand, axis);
    Box::new(move |f, at| f.at(buffer, at))
}
