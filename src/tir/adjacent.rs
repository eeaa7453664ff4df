//! Elements at adjacent addresses, which vector instructions take as one operand in memory.

use crate::arith::Analyzer;
use crate::{Buffer, Expr, ExprKind};

/// The buffer and the indices of the first of two elements that are loaded from neighbouring addresses; `None` for others.
pub fn next_to<'e>(low: &'e Expr, high: &Expr) -> Option<(Buffer, &'e [Expr])> {
    let (
        ExprKind::Load { buffer, indices: i, .. },
        ExprKind::Load { buffer: same, indices: j, .. },
    ) = (low.kind(), high.kind())
    else {
        return None;
    };
    let ((last, before), (next, before_next)) = (i.split_last()?, j.split_last()?);
    let step = Analyzer::new().simplify(&(next.clone() - last.clone()));
    let neighbours = buffer == same && before == before_next && step.as_int() == Some(1);
    neighbours.then_some((*buffer, &i[..]))
}

/// The buffer and the indices of the first of several bytes that are neighbours in memory; `None` for others.
pub fn adjacent_bytes(bytes: &[Expr]) -> Option<(Buffer, &[Expr])> {
    let neighbours = bytes.windows(2).all(|pair| next_to(&pair[0], &pair[1]).is_some());
    match bytes.first()?.kind() {
        ExprKind::Load { buffer, indices, .. } if neighbours => Some((*buffer, indices)),
        _ => None,
    }
}
