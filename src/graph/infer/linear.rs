//! Matrix multiplication, normalisation over trailing axes and recurrent layers.

use reflex_tir::{DType, Expr};

use super::{Inference, Inferred, at, axis_of, float, same_type};
use crate::{NBits, RnnAttrs, RnnCell, RnnDir, TensorType, dims};

impl Inference<'_> {
    /// Of the element type that `sum` gives for those of the operands.
    pub(super) fn matmul(&mut self, sum: super::SumType) -> Inferred {
        let args = self.expect(2, 2)?;
        let (a, b) = (args[0], args[1]);
        let dtype = sum(a, b)?;
        if a.shape.is_empty() || b.shape.is_empty() {
            return Err("a scalar is not a matrix".into());
        }
        let (rank_a, rank_b) = (a.shape.len(), b.shape.len());
        let inner_b = rank_b.saturating_sub(2);
        self.unify(at(0, rank_a - 1), at(1, inner_b))?;
        let mut shape = match (rank_a, rank_b) {
            (1, 1) => vec![],
            (1, _) => b.shape[..rank_b - 2].to_vec(),
            (_, 1) => a.shape[..rank_a - 2].to_vec(),
            _ => self.broadcast(&[0, 1], 2)?,
        };
        if rank_a > 1 {
            shape.push(a.shape[rank_a - 2].clone());
        }
        if rank_b > 1 {
            shape.push(b.shape[rank_b - 1].clone());
        }
        Ok(vec![TensorType::new(dtype, shape)])
    }

    pub(super) fn matmul_nbits(&mut self, codes: NBits) -> Inferred {
        let args = self.expect(3, 4)?;
        let (x, bytes) = (args[0], args[1]);
        if !codes.is_valid() {
            return Err(format!("no codes of {} bits in blocks of {}", codes.bits, codes.block));
        }
        let types = [DType::F32, DType::U8, DType::F32, DType::U8];
        if let Some((n, t)) = args.iter().enumerate().find(|(n, t)| t.dtype != types[*n]) {
            return Err(format!("argument {n} is {}, not {}", t.dtype, types[n]));
        }
        let ranks = args.iter().skip(1).zip([3, 2, 2]).all(|(t, rank)| t.shape.len() == rank);
        let (Some(depth), true) = (x.shape.last(), ranks) else {
            return Err("needs rows, codes of rank 3, and scales and zero points of rank 2".into());
        };
        let blocks = dims::simplify(&depth.clone().ceildiv(codes.block));
        self.require(1, 1, &blocks)?;
        self.require(1, 2, &Expr::i64(codes.bytes()))?;
        let columns = bytes.shape[0].clone();
        for arg in 2..args.len() {
            self.require(arg, 0, &columns)?;
            self.require(arg, 1, &blocks)?;
        }
        let mut shape = x.shape.clone();
        shape.pop();
        shape.push(columns);
        Ok(vec![TensorType::new(DType::F32, shape)])
    }

    pub(super) fn layer_norm(&mut self, axis: usize) -> Inferred {
        let args = self.expect(2, 3)?;
        let x = args[0];
        axis_of(x, axis)?;
        float(x.dtype)?;
        for (arg, t) in args.iter().enumerate().skip(1) {
            same_type(x, t)?;
            if t.shape.len() != x.shape.len() - axis {
                return Err("scale and bias have the normalised axes".into());
            }
            for i in axis..x.shape.len() {
                self.require(arg, i - axis, &x.shape[i].clone())?;
            }
        }
        Ok(vec![x.clone()])
    }

    pub(super) fn rnn(&mut self, rnn: &RnnAttrs) -> Inferred {
        let lstm = rnn.cell == RnnCell::Lstm;
        let args = self.expect(3, if lstm { 6 } else { 5 })?;
        let x = args[0];
        float(x.dtype)?;
        let ranks = [3, 3, 3, 2, 3, 3];
        for (arg, t) in args.iter().enumerate() {
            same_type(x, t)?;
            if t.shape.len() != ranks[arg] {
                return Err(format!(
                    "argument {arg} has rank {}, not {}",
                    t.shape.len(),
                    ranks[arg]
                ));
            }
        }
        let (gates, per_direction) = match rnn.cell {
            RnnCell::Rnn => (1, 1),
            RnnCell::Lstm => (4, 3),
            RnnCell::Gru { .. } => (3, 2),
        };
        let dirs = if rnn.dir == RnnDir::Both { 2 } else { 1 };
        if rnn.hidden <= 0 {
            return Err(format!("hidden extent {}", rnn.hidden));
        }
        if rnn.activations.len() != per_direction * dirs as usize {
            return Err(format!("{per_direction} activations per direction"));
        }
        let (seq, batch, width) = (&x.shape[0], &x.shape[1], &x.shape[2]);
        let (dirs, hidden) = (Expr::i64(dirs), Expr::i64(rnn.hidden));
        let rows = Expr::i64(rnn.hidden.checked_mul(gates).ok_or("hidden extent overflows")?);
        let wanted = [
            vec![dirs.clone(), rows.clone(), width.clone()],
            vec![dirs.clone(), rows.clone(), hidden.clone()],
            vec![dirs.clone(), rows * 2],
            vec![dirs.clone(), batch.clone(), hidden.clone()],
            vec![dirs.clone(), batch.clone(), hidden.clone()],
        ];
        for (arg, shape) in (1..args.len()).zip(&wanted) {
            for (axis, dim) in shape.iter().enumerate() {
                self.require(arg, axis, dim)?;
            }
        }
        let state = TensorType::new(x.dtype, wanted[3].clone());
        let y = [&[seq.clone(), dirs, batch.clone(), hidden][..]].concat();
        let mut types = vec![TensorType::new(x.dtype, y), state.clone()];
        types.extend(lstm.then_some(state));
        Ok(types)
    }
}
