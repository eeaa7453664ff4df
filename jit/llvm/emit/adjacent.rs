//! Elements at adjacent addresses, which vector instructions take as one operand in memory.

use reflex_tir::arith::Analyzer;
use reflex_tir::{Buffer, Expr, ExprKind};

/// The first of two elements that are loaded from neighbouring addresses.
pub(super) fn next_to<'e>(low: &'e Expr, high: &Expr) -> Option<(Buffer, &'e [Expr])> {
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
