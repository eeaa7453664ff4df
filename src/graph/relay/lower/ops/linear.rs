//! Matrix products.

use super::attrs::OpCall;
use crate::relay::lower::func::{FuncLowerer, Term};

use crate::relay::source::Result;
use crate::{Op, Value};

impl FuncLowerer<'_, '_, '_> {
    pub(super) fn linear(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let (transpose_a, transpose_b) = match call.name {
            "nn.dense" => (false, true),
            "nn.matmul" | "nn.batch_matmul" => {
                (call.flag("transpose_a", false)?, call.flag("transpose_b", false)?)
            }
            _ => return Ok(None),
        };
        call.ignore(&["units", "auto_scheduler_rewritten_layout", "meta_schedule_original_shape"]);
        let [mut a, mut b] = self.operands(call)?;
        let own = self.b.tensor(a).dtype;
        if call.dtype("out_dtype")?.is_some_and(|dtype| dtype != own) {
            return Err(call.refuse("an `out_dtype` other than the operands' is not supported"));
        }
        if transpose_a {
            a = self.last_axes_swapped(call, a)?;
        }
        if transpose_b {
            b = self.last_axes_swapped(call, b)?;
        }
        self.emit_term(call, Op::MatMul, &[a, b])
    }

    fn last_axes_swapped(&mut self, call: &OpCall<'_>, x: Value) -> Result<Value> {
        let rank = self.rank(x);
        if rank < 2 {
            return Err(call.refuse("a matrix has two axes"));
        }
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(rank - 1, rank - 2);
        self.emit(call, Op::Transpose(perm), &[x])
    }
}
