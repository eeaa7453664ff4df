//! Arithmetic, comparisons, moves and conversions.

use crate::mem::window;
use crate::num::convert::{Conversion, Number, format_of};
use crate::num::format::{F32, Format, Round, TF32};
use crate::num::{Scalar, float, integer};
use crate::op::{Kind, Op, Special, Src};
use crate::parse::tree::Operand;

use super::context::{Context, Named, Result};
use super::modifiers::Modifiers;

/// The type of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    Integer(u32, bool),
    Float(Format),
    /// Two numbers in one register.
    Pair(Format),
    Predicate,
}

/// A type by its name.
fn type_of(name: &str) -> Option<Type> {
    Some(match name {
        "pred" => Type::Predicate,
        "b8" | "u8" => Type::Integer(8, false),
        "s8" => Type::Integer(8, true),
        "b16" | "u16" => Type::Integer(16, false),
        "s16" => Type::Integer(16, true),
        "b32" | "u32" => Type::Integer(32, false),
        "s32" => Type::Integer(32, true),
        "b64" | "u64" => Type::Integer(64, false),
        "s64" => Type::Integer(64, true),
        "f16x2" | "bf16x2" => Type::Pair(format_of(name)?),
        _ => Type::Float(format_of(name)?),
    })
}

/// Rounding modes by their modifiers.
pub fn rounding(modifiers: &mut Modifiers<'_>) -> Option<Round> {
    Some(match modifiers.one_of(&["rn", "rz", "rm", "rp", "rna"])? {
        "rn" => Round::Nearest,
        "rz" => Round::Zero,
        "rm" => Round::Down,
        "rp" => Round::Up,
        _ => Round::Away,
    })
}

/// A source that is not there.
pub const ZERO: Src = Src::Imm(0);

/// `a` where the predicate `p` is true, else `b`.
pub fn select(a: u64, b: u64, p: u64) -> u64 {
    if p & 1 == 1 { a } else { b }
}

/// The bits of `a` from bit `b`, `c` of them.
pub fn field(a: u64, b: u64, c: u64) -> u64 {
    a >> b & integer::mask(c as u32)
}

/// `a` below `b`, which begins at bit `c`.
fn join(a: u64, b: u64, c: u64) -> u64 {
    a & integer::mask(c as u32) | b << c
}

fn join4(a: u64, b: u64, c: u64, d: u64) -> u64 {
    a & 0xffff | (b & 0xffff) << 16 | (c & 0xffff) << 32 | d << 48
}

fn shuffle_shift(name: &str, wrap: bool) -> Scalar {
    match (name == "l", wrap) {
        (true, true) => integer::funnel::<true, true>,
        (true, false) => integer::funnel::<true, false>,
        (false, true) => integer::funnel::<false, true>,
        (false, false) => integer::funnel::<false, false>,
    }
}

impl<'a> Context<'_, 'a> {
    /// Decodes an instruction of this family; false for others.
    pub fn arithmetic(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<bool> {
        self.kind = Kind::Integer;
        match m.name {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "min" | "max" | "abs"
            | "neg" | "sad" | "sqrt" | "rcp" | "copysign" => self.plain(m, o)?,
            "ex2" => self.exp2(m, o)?,
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "popc" | "clz" | "brev"
            | "bfind" | "bfe" => self.bits(m, o)?,
            "bfi" | "prmt" | "shf" | "lop3" => self.mix(m, o)?,
            "set" | "setp" | "selp" | "isspacep" | "testp" => {
                self.kind = Kind::Compare;
                match m.name {
                    "setp" => self.setp(m, o)?,
                    "set" => self.set(m, o)?,
                    "selp" => self.selp(m, o)?,
                    "testp" => self.testp(m, o)?,
                    _ => self.isspacep(m, o)?,
                }
            }
            "mov" => {
                self.kind = Kind::Move;
                self.mov(m, o)?;
            }
            "cvt" => {
                self.kind = Kind::Convert;
                self.cvt(m, o)?;
            }
            "cvta" => self.cvta(m, o)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The type, which is the last modifier.
    pub fn kind_of_type(&mut self, m: &mut Modifiers<'a>) -> Result<Type> {
        match m.last().and_then(type_of) {
            Some(kind) => Ok(kind),
            None => self.error(format!("instruction {}: no type that is known", m.name)),
        }
    }

    /// Emits a function with a destination and up to three sources.
    pub fn alu(&mut self, f: Option<Scalar>, o: &[Operand<'a>], sources: usize) -> Result<()> {
        let Some(f) = f else {
            return self.error("this form of the instruction is not supported");
        };
        if o.len() != sources + 1 {
            return self.error(format!("expected {} operands, found {}", sources + 1, o.len()));
        }
        let dst = self.dst(&o[0])?;
        let mut src = [ZERO; 3];
        for (to, from) in src.iter_mut().zip(&o[1..]) {
            *to = self.src(from)?;
        }
        self.emit(Op::Alu { f, dst, src })
    }

    fn plain(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let kind = self.kind_of_type(m)?;
        let (format, packed) = match kind {
            Type::Integer(bits, signed) => return self.whole(m, o, bits, signed),
            Type::Float(format) => (format, false),
            Type::Pair(format) => (format, true),
            Type::Predicate => return self.error("predicates have no arithmetic"),
        };
        self.kind = Kind::Float;
        let round = rounding(m).unwrap_or(Round::Nearest);
        let keeps_nan = m.take("NaN");
        let (name, sources) = match m.name {
            "mad" | "fma" => ("fma", 3),
            "sqrt" | "rcp" | "abs" | "neg" => (m.name, 1),
            "min" if keeps_nan => ("min_nan", 2),
            "max" if keeps_nan => ("max_nan", 2),
            name => (name, 2),
        };
        let function = |name: &str| {
            let name = if packed { format!("{name}_x2") } else { name.to_owned() };
            float::operation(&name, format, round)
        };
        self.alu(function(name), o, sources)?;
        if let Some(after) = m.one_of(&["sat", "relu"]) {
            let dst = self.dst(&o[0])?;
            let Some(f) = function(after) else {
                return self.error(format!("modifier .{after} is not supported here"));
            };
            self.emit(Op::Alu { f, dst, src: [Src::Reg(dst), ZERO, ZERO] })?;
        }
        Ok(())
    }

    fn exp2(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let is_approximate = m.take("approx");
        if self.kind_of_type(m)? != Type::Float(F32) || !is_approximate {
            return self.error("ex2 is known as ex2.approx.f32 and ex2.approx.ftz.f32");
        }
        self.kind = Kind::Float;
        let f: Scalar = if m.take("ftz") { float::exp2_flushed } else { float::exp2 };
        self.alu(Some(f), o, 1)
    }

    fn whole(
        &mut self,
        m: &mut Modifiers<'a>,
        o: &[Operand<'a>],
        bits: u32,
        signed: bool,
    ) -> Result<()> {
        let part = m.one_of(&["lo", "hi", "wide", "sat"]);
        let name = match part {
            Some(part) => format!("{}_{part}", m.name),
            None => m.name.to_owned(),
        };
        let sources = match m.name {
            "mad" | "sad" => 3,
            "abs" | "neg" => 1,
            _ => 2,
        };
        let f = if part == Some("wide") && bits > 32 {
            None
        } else {
            integer::operation(&name, bits, signed)
        };
        self.alu(f, o, sources)
    }

    fn bits(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let (bits, signed) = match self.kind_of_type(m)? {
            Type::Integer(bits, signed) => (bits, signed),
            Type::Predicate => return self.logic(m, o),
            _ => return self.error("not an integer type"),
        };
        let sources = match m.name {
            "not" | "cnot" | "popc" | "clz" | "brev" | "bfind" => 1,
            "bfe" => 3,
            _ => 2,
        };
        self.alu(integer::operation(m.name, bits, signed), o, sources)
    }

    fn logic(&mut self, m: &Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let (name, sources) = if m.name == "not" { ("cnot", 1) } else { (m.name, 2) };
        self.alu(integer::operation(name, 64, false), o, sources)
    }

    fn mix(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let Type::Integer(bits, _) = self.kind_of_type(m)? else {
            return self.error("not an integer type");
        };
        match m.name {
            "prmt" => return self.alu(Some(integer::prmt), o, 3),
            "shf" => {
                let side = m.one_of(&["l", "r"]).unwrap_or("r");
                let wrap = m.take("wrap");
                let clamp = m.take("clamp");
                let f = (wrap != clamp).then(|| shuffle_shift(side, wrap));
                return self.alu(f, o, 3);
            }
            _ => {}
        }
        let f = if m.name == "lop3" { Some(integer::lop3 as _) } else { integer::insert(bits) };
        let ([d, rest @ ..], Some(f)) = (o, f) else {
            return self.error("this form of the instruction is not supported");
        };
        let dst = self.dst(d)?;
        let Ok(src) = <[Src; 4]>::try_from(self.sources(rest)?) else {
            return self.error("expected four sources");
        };
        self.emit(Op::Alu4 { f, dst, src })
    }

    fn cvta(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        self.kind_of_type(m)?;
        let to = m.take("to");
        let space = self.space(m)?;
        let [d, a] = o else {
            return self.error("expected two operands");
        };
        let (dst, addr) = (self.dst(d)?, self.addr_of(a)?);
        let base = window::window(space);
        let add = if to { base.wrapping_neg() } else { base };
        let add = add.wrapping_add(addr.offset as u64);
        let f = integer::operation("add", 64, false).expect("in the table");
        self.emit(Op::Alu { f, dst, src: [addr.base, Src::Imm(add), ZERO] })
    }

    fn mov(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let kind = self.kind_of_type(m)?;
        match o {
            [d, Operand::Vector(parts)] => self.pack(d, parts),
            [Operand::Vector(parts), a] => self.unpack(parts, a),
            [d, Operand::Name(name, 0)] if special(name).is_some() => {
                let (dst, what) = (self.dst(d)?, special(name).expect("just seen"));
                self.emit(Op::Special { dst, what })
            }
            [d, a] => {
                let (dst, addr) = (self.dst(d)?, self.addr_of(a)?);
                let src = match (kind, addr.base) {
                    (Type::Predicate, Src::Imm(value)) => Src::Imm(u64::from(value != 0)),
                    (Type::Integer(bits, _), Src::Imm(value)) => {
                        Src::Imm(value & integer::mask(bits))
                    }
                    (_, base) => base,
                };
                if addr.offset == 0 {
                    return self.emit(Op::Move { dst, src });
                }
                let f = integer::operation("add", 64, false).expect("in the table");
                self.emit(Op::Alu { f, dst, src: [src, Src::Imm(addr.offset as u64), ZERO] })
            }
            _ => self.error("expected two operands"),
        }
    }

    fn pack(&mut self, d: &Operand<'a>, parts: &[Operand<'a>]) -> Result<()> {
        let to = self.dst_sized(d)?;
        let src = self.sources(parts)?;
        match src[..] {
            [a, b] => {
                let half = Src::Imm(u64::from(to.bits / 2));
                self.emit(Op::Alu { f: join, dst: to.reg, src: [a, b, half] })
            }
            [a, b, c, d] if to.bits == 64 => {
                self.emit(Op::Alu4 { f: join4, dst: to.reg, src: [a, b, c, d] })
            }
            _ => self.error("this vector does not fit the register"),
        }
    }

    fn unpack(&mut self, parts: &[Operand<'a>], a: &Operand<'a>) -> Result<()> {
        let from = match a {
            Operand::Name(name, 0) => match self.named(name)? {
                Named::Register(reg, bits) => (reg, u64::from(bits)),
                Named::Variable(_) => return self.error("cannot unpack an address"),
            },
            _ => return self.error("cannot unpack this operand"),
        };
        if parts.is_empty() || !from.1.is_multiple_of(parts.len() as u64) {
            return self.error("this vector does not fit the register");
        }
        let width = from.1 / parts.len() as u64;
        for (part, at) in parts.iter().zip(0..) {
            if *part == Operand::Name("_", 0) {
                continue;
            }
            let dst = self.dst(part)?;
            let src = [Src::Reg(from.0), Src::Imm(at * width), Src::Imm(width)];
            self.emit(Op::Alu { f: field, dst, src })?;
        }
        Ok(())
    }

    fn cvt(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let (Some(from), Some(to)) = (m.last(), m.last()) else {
            return self.error("cvt needs two types");
        };
        let integral = m.one_of(&["rni", "rzi", "rmi", "rpi"]);
        let round = match integral {
            Some("rni") => Round::Nearest,
            Some("rzi") => Round::Zero,
            Some("rmi") => Round::Down,
            Some(_) => Round::Up,
            None => rounding(m).unwrap_or(Round::Nearest),
        };
        let number = |name: &str| {
            if name == "tf32" {
                return Some(Number::Float(TF32));
            }
            match type_of(name)? {
                Type::Integer(bits, signed) => Some(Number::Integer { bits, signed }),
                Type::Float(format) | Type::Pair(format) => Some(Number::Float(format)),
                Type::Predicate => None,
            }
        };
        let (Some(from_number), Some(to_number)) = (number(from), number(to)) else {
            return self.error(format!("cvt from {from} to {to} is not supported"));
        };
        let floats = matches!((from_number, to_number), (Number::Float(_), Number::Float(_)));
        let how = Conversion {
            from: from_number,
            to: to_number,
            round,
            integral: integral.is_some() && floats,
            saturate: m.take("sat"),
            relu: m.take("relu"),
        };
        match o {
            [d, a] if !to.ends_with("x2") => {
                let (dst, src) = (self.dst_sized(d)?, self.src(a)?);
                self.emit(Op::Convert { how, dst, src })
            }
            [d, high, low] if to.ends_with("x2") => {
                let (dst, high, low) = (self.dst(d)?, self.src(high)?, self.src(low)?);
                let parts = [self.temporary(), self.temporary()];
                for (reg, src) in parts.into_iter().zip([low, high]) {
                    self.emit(Op::Convert { how, dst: crate::op::Dst { reg, bits: 16 }, src })?;
                }
                let src = [Src::Reg(parts[0]), Src::Reg(parts[1]), Src::Imm(16)];
                self.emit(Op::Alu { f: join, dst, src })
            }
            _ => self.error("wrong number of operands"),
        }
    }
}

/// A special register by name.
fn special(name: &str) -> Option<Special> {
    let name = name.strip_prefix('%')?;
    let (base, axis) = match name.rsplit_once('.') {
        Some((base, "x")) => (base, 0),
        Some((base, "y")) => (base, 1),
        Some((base, "z")) => (base, 2),
        Some(_) => return None,
        None => (name, 3),
    };
    Some(match (base, axis) {
        ("tid", 0..3) => Special::Tid(axis),
        ("ntid", 0..3) => Special::Ntid(axis),
        ("ctaid", 0..3) => Special::Ctaid(axis),
        ("nctaid", 0..3) => Special::Nctaid(axis),
        ("cluster_ctaid", 0) | ("cluster_ctarank", 3) => Special::ClusterRank,
        ("cluster_ctaid", 1..3) => Special::Fixed(0),
        ("cluster_nctaid", 0) | ("cluster_nctarank", 3) => Special::ClusterBlocks,
        ("cluster_nctaid", 1..3) => Special::Fixed(1),
        ("clusterid", 0..3) => Special::Cluster(axis),
        ("nclusterid", 0..3) => Special::Clusters(axis),
        ("laneid", 3) => Special::Lane,
        ("warpid", 3) => Special::Warp,
        ("nwarpid", 3) => Special::Warps,
        ("smid", 3) => Special::Fixed(0),
        ("nsmid", 3) => Special::Fixed(1),
        ("lanemask_eq", 3) => Special::MaskEq,
        ("lanemask_lt", 3) => Special::MaskLt,
        ("lanemask_le", 3) => Special::MaskLe,
        ("lanemask_gt", 3) => Special::MaskGt,
        ("lanemask_ge", 3) => Special::MaskGe,
        ("clock" | "clock64" | "globaltimer", 3) => Special::Clock,
        ("dynamic_smem_size", 3) => Special::DynamicShared,
        _ => return None,
    })
}
