//! Comparisons and selections.

use crate::fault::Space;
use crate::mem::window;
use crate::num::format::{F32, Round};
use crate::num::{Scalar, float, integer};
use crate::op::{Op, Src};
use crate::parse::tree::Operand;

use super::arith::{Type, ZERO, field, select};
use super::context::{Context, Result};
use super::modifiers::Modifiers;

fn is_window(a: u64, b: u64, _: u64) -> u64 {
    u64::from(a & window::MASK == b)
}

fn is_global(a: u64, _: u64, _: u64) -> u64 {
    u64::from(window::resolve(a).0 == Space::Global)
}

impl<'a> Context<'_, 'a> {
    fn comparison(&mut self, m: &mut Modifiers<'a>, kind: Type) -> Result<Scalar> {
        let names = [
            "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu",
            "gtu", "geu", "num", "nan",
        ];
        let Some(name) = m.one_of(&names) else {
            return self.error("no comparison that is known");
        };
        let found = match kind {
            Type::Integer(bits, signed) => {
                let (name, signed) = match name {
                    "lo" => ("lt", false),
                    "ls" => ("le", false),
                    "hi" => ("gt", false),
                    "hs" => ("ge", false),
                    name => (name, signed),
                };
                integer::operation(name, bits, signed)
            }
            Type::Float(format) | Type::Pair(format) => {
                float::operation(name, format, Round::Nearest)
            }
            Type::Predicate => None,
        };
        match found {
            Some(f) => Ok(f),
            None => self.error(format!("comparison {name} is not supported here")),
        }
    }

    /// Emits a comparison and combines it with a predicate; returns the temporary results.
    fn compare(
        &mut self,
        f: Scalar,
        combine: Option<(&str, &Operand<'a>)>,
        a: Src,
        b: Src,
    ) -> Result<[u32; 2]> {
        let results = [self.temporary(), self.temporary()];
        self.emit(Op::Alu { f, dst: results[0], src: [a, b, ZERO] })?;
        let not = integer::operation("cnot", 64, false).expect("in the table");
        let first = Src::Reg(results[0]);
        self.emit(Op::Alu { f: not, dst: results[1], src: [first, ZERO, ZERO] })?;
        if let Some((name, operand)) = combine {
            let (mut with, negated) = self.predicate(operand)?;
            if negated {
                let turned = self.temporary();
                self.emit(Op::Alu { f: not, dst: turned, src: [with, ZERO, ZERO] })?;
                with = Src::Reg(turned);
            }
            let f = integer::operation(name, 64, false).expect("in the table");
            for dst in results {
                self.emit(Op::Alu { f, dst, src: [Src::Reg(dst), with, ZERO] })?;
            }
        }
        Ok(results)
    }

    /// `setp`.
    pub fn setp(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let kind = self.kind_of_type(m)?;
        let f = self.comparison(m, kind)?;
        let combine = m.one_of(&["and", "or", "xor"]);
        if let (Type::Pair(_), [Operand::Pair(p, q), a, b]) = (kind, o) {
            return self.setp_pair(f, [p, q], a, b);
        }
        match (o, combine) {
            ([Operand::Name(..), _, _], None) => self.alu(Some(f), o, 2),
            ([d, a, b], None) => self.setp_full(f, d, a, b, None),
            ([d, a, b, c], Some(name)) => self.setp_full(f, d, a, b, Some((name, c))),
            _ => self.error("wrong number of operands"),
        }
    }

    fn setp_full(
        &mut self,
        f: Scalar,
        d: &Operand<'a>,
        a: &Operand<'a>,
        b: &Operand<'a>,
        combine: Option<(&str, &Operand<'a>)>,
    ) -> Result<()> {
        let (a, b) = (self.src(a)?, self.src(b)?);
        let results = self.compare(f, combine, a, b)?;
        let names = match d {
            Operand::Pair(p, q) => vec![*p, *q],
            Operand::Name(p, 0) => vec![*p],
            _ => return self.error("expected a predicate"),
        };
        for (name, result) in names.into_iter().zip(results) {
            let dst = self.dst(&Operand::Name(name, 0))?;
            self.emit(Op::Move { dst, src: Src::Reg(result) })?;
        }
        Ok(())
    }

    /// Compares both halves of two registers.
    fn setp_pair(
        &mut self,
        f: Scalar,
        dst: [&'a str; 2],
        a: &Operand<'a>,
        b: &Operand<'a>,
    ) -> Result<()> {
        let sources = [self.src(a)?, self.src(b)?];
        for (name, from) in dst.into_iter().zip([0, 16]) {
            let mut parts = [ZERO; 3];
            for (part, source) in parts.iter_mut().zip(sources) {
                let temporary = self.temporary();
                let src = [source, Src::Imm(from), Src::Imm(16)];
                self.emit(Op::Alu { f: field, dst: temporary, src })?;
                *part = Src::Reg(temporary);
            }
            let dst = self.dst(&Operand::Name(name, 0))?;
            self.emit(Op::Alu { f, dst, src: parts })?;
        }
        Ok(())
    }

    /// `set`.
    pub fn set(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let kind = self.kind_of_type(m)?;
        let yes = match self.kind_of_type(m)? {
            Type::Integer(32, _) => 0xffff_ffff,
            Type::Float(F32) => u64::from(1.0_f32.to_bits()),
            _ => return self.error("this form of the instruction is not supported"),
        };
        let f = self.comparison(m, kind)?;
        let combine = match (m.one_of(&["and", "or", "xor"]), o.get(3)) {
            (Some(name), Some(operand)) => Some((name, operand)),
            (None, None) => None,
            _ => return self.error("wrong number of operands"),
        };
        let [d, a, b, ..] = o else {
            return self.error("wrong number of operands");
        };
        let (dst, a, b) = (self.dst(d)?, self.src(a)?, self.src(b)?);
        let [result, _] = self.compare(f, combine, a, b)?;
        self.emit(Op::Alu { f: select, dst, src: [Src::Imm(yes), ZERO, Src::Reg(result)] })
    }

    /// `selp`.
    pub fn selp(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        self.kind_of_type(m)?;
        self.alu(Some(select), o, 3)
    }

    /// `testp`.
    pub fn testp(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let (Type::Float(format), Some(property)) = (self.kind_of_type(m)?, m.first()) else {
            return self.error("testp of no property of a number");
        };
        self.alu(float::operation(property, format, Round::Nearest), o, 1)
    }

    /// `isspacep`.
    pub fn isspacep(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let space = self.space(m)?;
        let [d, a] = o else {
            return self.error("expected two operands");
        };
        let (dst, a) = (self.dst(d)?, self.src(a)?);
        let f = if space == Space::Global { is_global } else { is_window };
        self.emit(Op::Alu { f, dst, src: [a, Src::Imm(window::window(space)), ZERO] })
    }
}
