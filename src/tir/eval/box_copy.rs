//! Copies of boxes, one element at a time.

use super::error::EvalErrorKind;
use super::scalar::Scalar;
use super::{Done, Evaluator};
use crate::box_copy::BoxCopy;
use crate::mma::swizzled;
use crate::{DType, Expr};

impl Evaluator<'_> {
    pub(super) fn run_box(&mut self, copy: &BoxCopy) -> Done {
        let BoxCopy { to, first, from, dims } = copy;
        let first = self.int(first)?;
        let ints = |e: &Expr| self.int(e);
        let parts = dims
            .iter()
            .map(|dim| Ok([ints(&dim.extent)?, ints(&dim.stride)?, ints(&dim.at)?, dim.count]));
        let parts = parts.collect::<Result<Vec<_>, EvalErrorKind>>()?;
        let zero = match self.func.buffers[*to].dtype {
            DType::F16 => Scalar::F16(half::f16::ZERO),
            DType::BF16 => Scalar::Bf16(half::bf16::ZERO),
            other => return Err(EvalErrorKind::Type(format!("a box of {other}"))),
        };
        for n in 0..copy.elements() {
            self.fuel = self.fuel.checked_sub(1).ok_or(EvalErrorKind::Fuel)?;
            let (mut rest, mut position, mut inside) = (n, 0, true);
            for [extent, stride, at, count] in &parts {
                let index = at + rest % count;
                rest /= count;
                inside &= (0..*extent).contains(&index);
                position += index * stride;
            }
            let value = if inside { self.get(*from, &[position])? } else { zero };
            self.put(*to, &[swizzled(first + n)], value)?;
        }
        Ok(())
    }
}
