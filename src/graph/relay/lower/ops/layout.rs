//! Operators that make, move and pick elements.

use reflex_tir::{DType, Expr as DimExpr};

use super::attrs::OpCall;
use crate::relay::lower::func::{FuncLowerer, Term};

use crate::relay::source::Result;
use crate::{GatherKind, Op, OutOfRange, Value, dims};

impl FuncLowerer<'_, '_, '_> {
    pub(super) fn layout(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let value = match call.name {
            "reshape" => self.reshape(call)?,
            "reshape_like" => {
                let [x, like] = self.operands(call)?;
                let shape = self.shape(like);
                self.reshaped(call, x, shape)?
            }
            "transpose" => {
                let [x] = self.operands(call)?;
                let rank = self.rank(x);
                let perm = match call.ints("axes")? {
                    None => (0..rank).rev().collect(),
                    Some(axes) => {
                        let axes = axes.iter().map(|axis| self.axis(call, *axis, rank));
                        axes.collect::<Result<Vec<usize>>>()?
                    }
                };
                self.emit(call, Op::Transpose(perm), &[x])?
            }
            "expand_dims" => {
                let [x] = self.operands(call)?;
                let mut shape = self.shape(x);
                let (at, count) = (call.int("axis", 0)?, call.int("num_newaxis", 1)?);
                let at = self.axis(call, at, shape.len() + 1)?;
                if !(0..=16).contains(&count) {
                    return Err(call.refuse("between 0 and 16 new axes"));
                }
                shape.splice(at..at, (0..count).map(|_| DimExpr::i64(1)));
                self.reshaped(call, x, shape)?
            }
            "squeeze" => self.squeeze(call)?,
            "concatenate" => {
                let items = self.tuple_operand(call)?;
                let rank = items.first().map_or(0, |x| self.rank(*x));
                let axis = call.int("axis", 0)?;
                let axis = self.axis(call, axis, rank)?;
                self.emit(call, Op::Concat { axis }, &items)?
            }
            "stack" => self.stack(call)?,
            "split" => return self.split(call),
            "strided_slice" => self.strided_slice(call)?,
            "reverse" => self.reverse(call)?,
            "tile" | "repeat" => self.tile(call)?,
            _ => return self.making(call),
        };
        Ok(Some(self.term(value)))
    }

    fn making(&mut self, call: &mut OpCall<'_>) -> Result<Option<Term>> {
        let value = match call.name {
            "broadcast_to" => {
                let [x] = self.operands(call)?;
                let shape = self.given_shape(call)?;
                self.emit(call, Op::Broadcast(shape), &[x])?
            }
            "broadcast_to_like" => {
                let [x, like] = self.operands(call)?;
                let shape = self.shape(like);
                self.emit(call, Op::Broadcast(shape), &[x])?
            }
            "zeros" | "ones" => {
                self.check_count(call.at, 0, call.args.len())?;
                let dtype = call.dtype("dtype")?.unwrap_or(DType::F32);
                let shape = self.given_shape(call)?;
                let value = self.scalar(call, dtype, f64::from(u8::from(call.name == "ones")))?;
                self.emit(call, Op::Broadcast(shape), &[value])?
            }
            "zeros_like" | "ones_like" => {
                let [x] = self.operands(call)?;
                self.filled_like(call, x, f64::from(u8::from(call.name == "ones_like")))?
            }
            "full" => {
                let [value] = self.operands(call)?;
                let shape = self.given_shape(call)?;
                let own = self.b.tensor(value).dtype;
                let dtype = call.dtype("dtype")?.unwrap_or(own);
                let value = self.cast(call, value, dtype)?;
                self.emit(call, Op::Broadcast(shape), &[value])?
            }
            "full_like" => {
                let [x, value] = self.operands(call)?;
                let (dtype, shape) = (self.b.tensor(x).dtype, self.shape(x));
                let value = self.cast(call, value, dtype)?;
                self.emit(call, Op::Broadcast(shape), &[value])?
            }
            "arange" => self.arange(call)?,
            "shape_of" => {
                let [x] = self.operands(call)?;
                let dtype = call.dtype("dtype")?.unwrap_or(DType::I32);
                let values = self.shape(x);
                let shape = self.emit(call, Op::Dims { values, scalar: false }, &[])?;
                self.cast(call, shape, dtype)?
            }
            "take" => self.take(call)?,
            "gather" => {
                let [x, indices] = self.operands(call)?;
                let axis = call.int("axis", 0)?;
                let axis = self.axis(call, axis, self.rank(x))?;
                let kind = GatherKind::Elements(axis);
                self.emit(
                    call,
                    Op::Gather { kind, out_of_range: OutOfRange::Raise },
                    &[x, indices],
                )?
            }
            "gather_nd" => self.gather_nd(call)?,
            _ => return Ok(None),
        };
        Ok(Some(self.term(value)))
    }

    /// The attribute `shape`.
    fn given_shape(&mut self, call: &mut OpCall<'_>) -> Result<Vec<DimExpr>> {
        let shape = call.ints("shape")?.ok_or_else(|| call.refuse("needs `shape`"))?;
        if shape.iter().any(|extent| *extent < 0) {
            return Err(call.refuse("an extent is negative"));
        }
        Ok(shape.into_iter().map(DimExpr::i64).collect())
    }

    /// Extents, or 0: as it is, -1: the rest, -2: all that are left, -3: two as one, -4: one as two.
    fn reshape(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let codes = call.ints("newshape")?.ok_or_else(|| call.refuse("needs `newshape`"))?;
        if call.int("allowzero", 0)? != 0 {
            return Err(call.refuse("`allowzero` is not supported"));
        }
        let from = self.shape(x);
        let short = || call.refuse("`newshape` asks for more axes than there are");
        let (mut shape, mut at, mut rest) = (vec![], 0, None);
        let mut codes = codes.into_iter();
        while let Some(code) = codes.next() {
            let next = |at: usize| from.get(at).cloned().ok_or_else(short);
            match code {
                0 => shape.push(next(at)?),
                -1 if rest.is_none() => {
                    rest = Some(shape.len());
                    shape.push(DimExpr::i64(1));
                }
                -2 => {
                    shape.extend(from.iter().skip(at).cloned());
                    at = from.len();
                }
                -3 => {
                    shape.push(next(at)? * next(at + 1)?);
                    at += 1;
                }
                -4 => {
                    let (a, b) = (codes.next().ok_or_else(short)?, codes.next().ok_or_else(short)?);
                    let whole = next(at)?;
                    let part = |a: i64, b: i64| match a {
                        -1 => whole.clone().floordiv(b),
                        _ => DimExpr::i64(a),
                    };
                    if a == 0 || b == 0 || (a < 0 && b < 0) {
                        return Err(call.refuse("`newshape` splits an axis in no way"));
                    }
                    shape.extend([part(a, b), part(b, a)]);
                }
                extent if extent > 0 => shape.push(DimExpr::i64(extent)),
                _ => return Err(call.refuse("`newshape` has a number that is not known")),
            }
            at += 1;
        }
        if let Some(rest) = rest {
            let (all, others) = (dims::product(&from), dims::product(&shape));
            shape[rest] = match others.as_int() {
                Some(0) => return Err(call.refuse("-1 beside an extent of 0")),
                _ => all.floordiv(others),
            };
        }
        let shape = shape.iter().map(dims::simplify).collect();
        self.reshaped(call, x, shape)
    }

    fn squeeze(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let shape = self.shape(x);
        let axes = match call.ints("axis")? {
            Some(axes) => {
                let axes = axes.iter().map(|axis| self.axis(call, *axis, shape.len()));
                axes.collect::<Result<Vec<usize>>>()?
            }
            None => (0..shape.len()).filter(|n| shape[*n].as_int() == Some(1)).collect(),
        };
        if axes.iter().any(|axis| shape[*axis].as_int().is_some_and(|extent| extent != 1)) {
            return Err(call.refuse("an axis is not 1"));
        }
        let left = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        let left = left.map(|(_, dim)| dim.clone()).collect();
        self.reshaped(call, x, left)
    }

    fn stack(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let items = self.tuple_operand(call)?;
        let rank = items.first().map_or(0, |x| self.rank(*x)) + 1;
        let axis = call.int("axis", 0)?;
        let axis = self.axis(call, axis, rank)?;
        let mut wide = vec![];
        for x in items {
            let mut shape = self.shape(x);
            if shape.len() + 1 != rank {
                return Err(call.refuse("tensors of different ranks"));
            }
            shape.insert(axis, DimExpr::i64(1));
            wide.push(self.reshaped(call, x, shape)?);
        }
        self.emit(call, Op::Concat { axis }, &wide)
    }

    /// Copies of the whole along axes (`tile`), or of each element along one (`repeat`).
    fn tile(&mut self, call: &mut OpCall<'_>) -> Result<Value> {
        let [x] = self.operands(call)?;
        let mut shape = self.shape(x);
        let mut counts: Vec<i64>;
        let whole = call.name == "tile";
        if whole {
            counts = call.ints("reps")?.unwrap_or_default();
            while counts.len() < shape.len() {
                counts.insert(0, 1);
            }
            while shape.len() < counts.len() {
                shape.insert(0, DimExpr::i64(1));
            }
        } else {
            counts = vec![1; shape.len()];
            let axis = call.int("axis", 0)?;
            let axis = self.axis(call, axis, shape.len())?;
            counts[axis] = call.int("repeats", 1)?;
        }
        if counts.iter().any(|count| !(0..=1 << 20).contains(count)) {
            return Err(call.refuse("a number of copies that is not supported"));
        }
        let (mut thin, mut wide, mut merged) = (vec![], vec![], vec![]);
        for (dim, count) in shape.iter().zip(&counts) {
            let (one, count) = (DimExpr::i64(1), DimExpr::i64(*count));
            let pair = |a: DimExpr, b: DimExpr| if whole { [a, b] } else { [b, a] };
            thin.extend(pair(one, dim.clone()));
            wide.extend(pair(count.clone(), dim.clone()));
            merged.push(dims::simplify(&(dim.clone() * count)));
        }
        let thin = self.reshaped(call, x, thin)?;
        let wide = self.emit(call, Op::Broadcast(wide), &[thin])?;
        self.reshaped(call, wide, merged)
    }
}
