//! Operands of instructions.

use crate::op::{Addr, Dst, Src};
use crate::parse::tree::Operand;

use super::context::{Context, Named, Result};

impl<'a> Context<'_, 'a> {
    /// A source.
    pub fn src(&mut self, operand: &Operand<'a>) -> Result<Src> {
        match operand {
            Operand::Integer(value) => Ok(Src::Imm(*value)),
            Operand::Float(bits) => Ok(Src::Imm(u64::from(*bits))),
            Operand::Double(bits) => Ok(Src::Imm(*bits)),
            Operand::Name("WARP_SZ", 0) => Ok(Src::Imm(32)),
            Operand::Name(name, 0) => match self.named(name)? {
                Named::Register(register, _) => Ok(Src::Reg(register)),
                Named::Variable(symbol) => Ok(Src::Sym(self.symbol(symbol))),
            },
            other => self.error(format!("unexpected operand {other:?}")),
        }
    }

    /// All sources.
    pub fn sources(&mut self, operands: &[Operand<'a>]) -> Result<Vec<Src>> {
        operands.iter().map(|operand| self.src(operand)).collect()
    }

    /// Elements of a vector, or the one element.
    pub fn src_vector(&mut self, operand: &Operand<'a>) -> Result<Vec<Src>> {
        match operand {
            Operand::Vector(elements) => self.sources(elements),
            single => Ok(vec![self.src(single)?]),
        }
    }

    /// A destination register.
    pub fn dst(&mut self, operand: &Operand<'a>) -> Result<u32> {
        Ok(self.dst_sized(operand)?.reg)
    }

    /// A destination register with its width.
    pub fn dst_sized(&mut self, operand: &Operand<'a>) -> Result<Dst> {
        match operand {
            Operand::Name("_", 0) => Ok(Dst { reg: self.temporary(), bits: 64 }),
            Operand::Name(name, 0) => match self.named(name)? {
                Named::Register(reg, bits) => Ok(Dst { reg, bits }),
                Named::Variable(_) => self.error(format!("{name} is no register")),
            },
            other => self.error(format!("unexpected destination {other:?}")),
        }
    }

    /// Destinations of a vector, or the one destination; `_` is none.
    pub fn dst_vector(&mut self, operand: &Operand<'a>) -> Result<Vec<Option<Dst>>> {
        match operand {
            Operand::Vector(elements) => elements.iter().map(|one| self.dst_or_sink(one)).collect(),
            single => Ok(vec![self.dst_or_sink(single)?]),
        }
    }

    fn dst_or_sink(&mut self, operand: &Operand<'a>) -> Result<Option<Dst>> {
        match operand {
            Operand::Name("_", 0) => Ok(None),
            other => self.dst_sized(other).map(Some),
        }
    }

    /// Registers of a vector.
    pub fn dst_registers(&mut self, operand: &Operand<'a>) -> Result<Box<[u32]>> {
        let Operand::Vector(elements) = operand else {
            return self.error("expected a vector of registers");
        };
        elements.iter().map(|element| self.dst(element)).collect()
    }

    /// A predicate and whether it is negated.
    pub fn predicate(&mut self, operand: &Operand<'a>) -> Result<(Src, bool)> {
        match operand {
            Operand::Not(name) => Ok((self.src(&Operand::Name(name, 0))?, true)),
            other => Ok((self.src(other)?, false)),
        }
    }

    /// An address in brackets.
    pub fn addr(&mut self, operand: &Operand<'a>) -> Result<Addr> {
        match operand {
            Operand::Address(base, rest) if rest.is_empty() => self.addr_of(base),
            other => self.error(format!("expected an address, found {other:?}")),
        }
    }

    /// A name or number with an offset.
    pub fn addr_of(&mut self, operand: &Operand<'a>) -> Result<Addr> {
        match operand {
            Operand::Name(name, offset) => {
                let base = self.src(&Operand::Name(name, 0))?;
                Ok(Addr { base, offset: *offset })
            }
            other => Ok(Addr { base: self.src(other)?, offset: 0 }),
        }
    }

    /// Whether an operand names a variable in local memory, as parameters of calls do.
    pub fn is_local_variable(&mut self, operand: &Operand<'a>) -> bool {
        let Operand::Address(base, _) = operand else {
            return false;
        };
        let Operand::Name(name, _) = **base else {
            return false;
        };
        matches!(self.named(name), Ok(Named::Variable(crate::op::Symbol::Local(_))))
    }
}
