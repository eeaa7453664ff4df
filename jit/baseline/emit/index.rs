//! Arithmetic of indices, as linear forms.
//!
//! The constant of a form stays a number until it is part of an access. Operations without effects are emitted
//! once (value numbering), in front of the outermost loop that they are the same in (loop-invariant code motion).
//! Unrolled code, such as the transforms of a Winograd convolution, would have some ten instructions for the
//! address of each access else, and most of the time of compiling it would go to them.
//!
//! Decision: docs/decisions/0073-tiered-kernels.md

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::{
    InstBuilderBase, InstructionData, Opcode, Type, Value, ValueDef, types,
};
use reflex_tir::{BinOp, DType, Expr, ExprKind};

use crate::emit::Emitter;
use crate::emit::value::LaneValue;
use crate::error::{BaselineError, Result};

/// `rest + constant + lane * stride` of int64, which wraps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    /// The part that is not known.
    pub rest: Option<Value>,
    /// The part that is.
    pub constant: i64,
    /// Step from lane to lane.
    pub stride: i64,
}

impl Linear {
    /// A number.
    pub fn known(constant: i64) -> Linear {
        Linear { rest: None, constant, stride: 0 }
    }

    /// The number that the form is.
    fn as_known(self) -> Option<i64> {
        (self.rest.is_none() && self.stride == 0).then_some(self.constant)
    }
}

impl Emitter<'_, '_, '_> {
    /// An index.
    pub(super) fn linear(&mut self, e: &Expr) -> Result<Linear> {
        match e.kind() {
            ExprKind::Int { value, dtype: DType::I64 } => Ok(Linear::known(*value)),
            ExprKind::Binary { op: BinOp::Add, a, b } if a.dtype() == DType::I64 => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                Ok(self.sum(a, b))
            }
            ExprKind::Binary { op: BinOp::Sub, a, b } if a.dtype() == DType::I64 => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                Ok(self.difference(a, b))
            }
            ExprKind::Binary { op: BinOp::Mul, a, b } if a.dtype() == DType::I64 => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                self.product(a, b).ok_or_else(no_ramp)
            }
            _ => {
                let (value, stride) = self.expr(e)?.parts().ok_or_else(no_ramp)?;
                Ok(Linear { stride, ..self.split(value) })
            }
        }
    }

    /// The value of a form.
    pub(super) fn index(&mut self, form: Linear) -> LaneValue {
        LaneValue::index(self.first(form), form.stride)
    }

    /// Lane 0 of a form, with the constant on the outside.
    fn first(&mut self, form: Linear) -> Value {
        match (form.rest, form.constant) {
            (None, constant) => self.i64(constant),
            (Some(rest), 0) => rest,
            (Some(rest), constant) => {
                let constant = self.i64(constant);
                self.binary_once(Opcode::Iadd, [rest, constant])
            }
        }
    }

    /// The form of an int64.
    pub(super) fn split(&self, value: Value) -> Linear {
        if let Some(known) = self.known(value) {
            return Linear::known(known);
        }
        if let ValueDef::Result(inst, _) = self.b.func.dfg.value_def(value)
            && let InstructionData::Binary { opcode: Opcode::Iadd, args: [rest, constant] } =
                self.b.func.dfg.insts[inst]
            && let Some(constant) = self.known(constant)
        {
            return Linear { rest: Some(rest), constant, stride: 0 };
        }
        Linear { rest: Some(value), constant: 0, stride: 0 }
    }

    /// `a + b`
    pub(super) fn sum(&mut self, a: Linear, b: Linear) -> Linear {
        let rest = match (a.rest, b.rest) {
            (Some(x), Some(y)) => Some(self.binary_once(Opcode::Iadd, [x, y])),
            (one, other) => one.or(other),
        };
        let constant = a.constant.wrapping_add(b.constant);
        Linear { rest, constant, stride: a.stride.wrapping_add(b.stride) }
    }

    fn difference(&mut self, a: Linear, b: Linear) -> Linear {
        let rest = match (a.rest, b.rest) {
            (Some(x), Some(y)) => Some(self.binary_once(Opcode::Isub, [x, y])),
            (None, Some(y)) => Some(self.unary_once(Opcode::Ineg, types::I64, y)),
            (x, None) => x,
        };
        let constant = a.constant.wrapping_sub(b.constant);
        Linear { rest, constant, stride: a.stride.wrapping_sub(b.stride) }
    }

    /// `a * b`, if that is a ramp.
    pub(super) fn product(&mut self, a: Linear, b: Linear) -> Option<Linear> {
        let (form, by) = match (a.as_known(), b.as_known()) {
            (_, Some(by)) => (a, by),
            (Some(by), None) => (b, by),
            (None, None) if a.stride == 0 && b.stride == 0 => {
                let (a, b) = (self.first(a), self.first(b));
                let product = self.binary_once(Opcode::Imul, [a, b]);
                return Some(Linear { rest: Some(product), constant: 0, stride: 0 });
            }
            (None, None) => return None,
        };
        let rest = match (form.rest, by) {
            (_, 0) | (None, _) => None,
            (Some(rest), 1) => Some(rest),
            // A shift is part of an address where a product is an instruction.
            (Some(rest), by) if by.count_ones() == 1 => {
                let amount = self.i64(by.trailing_zeros().into());
                Some(self.binary_once(Opcode::Ishl, [rest, amount]))
            }
            (Some(rest), by) => {
                let by = self.i64(by);
                Some(self.binary_once(Opcode::Imul, [rest, by]))
            }
        };
        let constant = form.constant.wrapping_mul(by);
        Some(Linear { rest, constant, stride: form.stride.wrapping_mul(by) })
    }

    /// `a + b` of int64.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        let sum = self.sum(self.split(a), self.split(b));
        self.first(sum)
    }

    /// `a * b` of int64.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        match self.product(self.split(a), self.split(b)) {
            Some(product) => self.first(product),
            None => self.binary_once(Opcode::Imul, [a, b]),
        }
    }

    /// int64.
    pub fn i64(&mut self, value: i64) -> Value {
        self.iconst(types::I64, value)
    }

    /// An integer constant of a scalar type, whose bits above the type's are 0.
    pub(super) fn iconst(&mut self, ty: Type, bits: i64) -> Value {
        self.once(ty, InstructionData::UnaryImm { opcode: Opcode::Iconst, imm: Imm64::new(bits) })
    }

    /// An operation of int64 without effects.
    pub(super) fn binary_once(&mut self, opcode: Opcode, args: [Value; 2]) -> Value {
        self.once(types::I64, InstructionData::Binary { opcode, args })
    }

    /// An operation without effects, with its type.
    pub(super) fn unary_once(&mut self, opcode: Opcode, ty: Type, arg: Value) -> Value {
        self.once(ty, InstructionData::Unary { opcode, arg })
    }

    /// A scalar in every lane of a vector. A constant is one of the function's, not an instruction for each lane.
    pub(super) fn splat(&mut self, ty: Type, scalar: Value) -> Value {
        let Some(bits) = self.constant_bits(scalar) else {
            return self.unary_once(Opcode::Splat, ty, scalar);
        };
        let lane = &bits.to_le_bytes()[..ty.lane_type().bytes() as usize];
        let bytes = lane.repeat(ty.lane_count() as usize);
        let constant_handle = self.b.func.dfg.constants.insert(bytes.into());
        self.once(ty, InstructionData::UnaryConst { opcode: Opcode::Vconst, constant_handle })
    }

    fn constant_bits(&self, value: Value) -> Option<u64> {
        let ValueDef::Result(inst, _) = self.b.func.dfg.value_def(value) else { return None };
        match self.b.func.dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
            InstructionData::UnaryIeee32 { opcode: Opcode::F32const, imm } => {
                Some(imm.bits().into())
            }
            InstructionData::UnaryIeee64 { opcode: Opcode::F64const, imm } => Some(imm.bits()),
            _ => None,
        }
    }

    /// The result of an instruction without effects, which is not emitted again where it is known. It is in front of
    /// the outermost loop that its operands are from outside of; a constant vector is in each block, since one that
    /// lives through a loop takes as long to reload.
    pub(super) fn once(&mut self, ty: Type, data: InstructionData) -> Value {
        let (block, inner) = (self.b.current_block(), self.preheaders.len());
        if let Some(block) = block {
            self.depths.insert(block, inner);
        }
        if let Some((value, home)) = self.computed.get(&(ty, data))
            && (block == Some(*home) || self.preheaders.contains(home))
        {
            return *value;
        }
        let depth = match data.opcode() {
            Opcode::Vconst => inner,
            _ => {
                let operands = data.arguments(&self.b.func.dfg.value_lists);
                operands.iter().map(|v| self.depth(*v)).max().unwrap_or(0)
            }
        };
        let (inst, home) = match self.preheaders.get(depth) {
            Some(preheader) => {
                let jump = self.b.func.layout.last_inst(*preheader);
                let mut before =
                    FuncCursor::new(self.b.func).at_inst(jump.expect("a loop is entered"));
                (before.ins().build(data, ty).0, Some(*preheader))
            }
            None => (self.b.ins().build(data, ty).0, block),
        };
        let value = self.b.func.dfg.first_result(inst);
        if let Some(home) = home {
            self.computed.insert((ty, data), (value, home));
        }
        value
    }

    /// The loops around the block that defines a value, of those around this place.
    fn depth(&self, value: Value) -> usize {
        let block = match self.b.func.dfg.value_def(value) {
            ValueDef::Result(inst, _) => self.b.func.layout.inst_block(inst),
            ValueDef::Param(block, _) => Some(block),
            ValueDef::Union(..) => None,
        };
        let known = block.and_then(|block| self.depths.get(&block).copied());
        known.unwrap_or(self.preheaders.len())
    }

    /// The value of a constant.
    pub fn known(&self, value: Value) -> Option<i64> {
        let ValueDef::Result(inst, _) = self.b.func.dfg.value_def(value) else { return None };
        match self.b.func.dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        }
    }
}

/// The refusal of an index that differs between lanes by other than a constant step.
pub(super) fn no_ramp() -> BaselineError {
    BaselineError::new("an index that is no ramp")
}

#[cfg(test)]
mod tests {
    use reflex_tir::builder::FuncBuilder;
    use reflex_tir::codegen::CpuTarget;
    use reflex_tir::{DType, lower};

    use crate::effort::Effort;
    use crate::{Text, compile_with};

    /// Products of outer indices are in front of the inner loop, without an optimiser.
    #[test]
    fn inner_loops_have_no_products_of_outer_indices() {
        let mut f = FuncBuilder::new("f");
        let shape = [5, 30, 24].map(Into::into).to_vec();
        let x = f.input("x", DType::F32, shape.clone());
        f.output("compute", "y", DType::F32, shape, |f, i| f.at(x, i) + f.at(x, i));
        let func = lower::lower(&f.finish());
        let object = compile_with(&func, &CpuTarget::host(), Effort::Quick, Text::Wanted).unwrap();
        let asm = object.asm.unwrap();
        let (_, body) = asm.split_once("__reflex_raw_f:").unwrap();
        let (body, _) = body.split_once("\n\n").unwrap();
        let blocks: Vec<&str> = body.split("\nblock").collect();
        let products = |text: &str| text.matches("imul").count() + text.matches("madd").count();
        let adds = blocks.iter().position(|b| b.contains("adds") || b.contains("fadd")).unwrap();
        assert_eq!(products(blocks[adds]), 0, "{}", blocks[adds]);
        // One for each of the two outer indices, though x and y are both accessed by them.
        assert_eq!(products(body), 2, "{body}");
    }
}
