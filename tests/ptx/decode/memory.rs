//! Loads, stores and atomics.

use crate::fault::Space;
use crate::num::{Scalar, integer};
use crate::op::{AtomicOp, Kind, Op, Src};
use crate::parse::read::width_of;
use crate::parse::tree::Operand;

use super::context::{Context, Result};
use super::modifiers::Modifiers;

/// Modifiers that change no result here: cache hints, and scopes of order.
const HINTS: [&str; 25] = [
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_last",
    "L2::evict_normal",
    "L2::evict_first",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "weak",
    "mmio",
];

impl<'a> Context<'_, 'a> {
    /// Decodes an instruction of this family; false for others.
    pub fn memory(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<bool> {
        match m.name {
            "ld" | "ldu" => {
                self.kind = Kind::Load;
                self.load(m, o)?;
            }
            "st" => {
                self.kind = Kind::Store;
                self.store(m, o)?;
            }
            "atom" | "red" => {
                self.kind = Kind::Atomic;
                self.atomic(m, o)?;
            }
            "prefetch" | "prefetchu" | "applypriority" | "discard" => {
                self.kind = Kind::Load;
                while m.first().is_some() {}
                self.emit(Op::Nop)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The state space of an instruction.
    pub fn space(&mut self, m: &mut Modifiers<'a>) -> Result<Space> {
        let names = [
            "global",
            "shared",
            "shared::cta",
            "shared::cluster",
            "local",
            "param",
            "param::entry",
            "param::func",
            "const",
        ];
        Ok(match m.one_of(&names) {
            Some("global") => Space::Global,
            Some("shared" | "shared::cta" | "shared::cluster") => Space::Shared,
            Some("local") => Space::Local,
            Some("const") => Space::Const,
            Some(_) => Space::Param,
            None => Space::Generic,
        })
    }

    /// Space, strength, element bytes and sign of a load or store.
    fn access(&mut self, m: &mut Modifiers<'a>, o: &Operand<'a>) -> Result<Shape> {
        let strong = m.one_of(&["volatile", "relaxed", "acquire", "release"]).is_some();
        m.ignore(&HINTS);
        let mut space = self.space(m)?;
        // Parameters of calls live in local memory.
        if space == Space::Param && self.is_local_variable(o) {
            space = Space::Local;
        }
        let lanes = match m.one_of(&["v2", "v4"]) {
            None => 1,
            Some("v2") => 2,
            Some(_) => 4,
        };
        let kind = m.last().unwrap_or("");
        let Some(bytes) = width_of(&format!(".{kind}")) else {
            return self.error(format!("instruction {}: unknown type {kind}", m.name));
        };
        Ok(Shape { space, strong, bytes: bytes as u8, signed: kind.starts_with('s'), lanes })
    }

    fn load(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let [d, from] = o else {
            return self.error("expected two operands");
        };
        let Shape { space, strong, bytes, signed, lanes } = self.access(m, from)?;
        let (dst, addr) = (self.dst_vector(d)?.into_boxed_slice(), self.addr(from)?);
        if dst.len() != lanes {
            return self.error("the vector does not fit its operand");
        }
        self.emit(Op::Load { space, bytes, signed, strong, dst, addr })
    }

    fn store(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        let [to, a] = o else {
            return self.error("expected two operands");
        };
        let Shape { space, strong, bytes, lanes, .. } = self.access(m, to)?;
        let (addr, src) = (self.addr(to)?, self.src_vector(a)?.into_boxed_slice());
        if src.len() != lanes {
            return self.error("the vector does not fit its operand");
        }
        self.emit(Op::Store { space, bytes, strong, src, addr })
    }

    fn atomic(&mut self, m: &mut Modifiers<'a>, o: &[Operand<'a>]) -> Result<()> {
        m.ignore(&["relaxed", "acquire", "release", "acq_rel"]);
        m.ignore(&HINTS);
        let space = self.space(m)?;
        let kind = m.last().unwrap_or("");
        let (bits, signed) = match kind {
            "b32" | "u32" => (32, false),
            "s32" => (32, true),
            "b64" | "u64" => (64, false),
            "s64" => (64, true),
            "b16" => (16, false),
            other => {
                return self.error(format!(
                    "instruction {}: atomics of type {other} are refused: their order is not fixed",
                    m.name
                ));
            }
        };
        let name =
            m.one_of(&["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"]);
        let apply = |name| integer::operation(name, bits, signed).map(AtomicOp::Apply);
        let found = match name {
            Some("exch") => Some(AtomicOp::Exchange),
            Some("cas") => Some(AtomicOp::CompareSwap),
            Some("inc") => Some(AtomicOp::Increment),
            Some("dec") => Some(AtomicOp::Decrement),
            Some(name) => apply(name),
            None => None,
        };
        let Some(op) = found else {
            return self.error(format!("instruction {}: unknown operation", m.name));
        };
        let (dst, rest) = match o {
            [d, rest @ ..] if m.name == "atom" => (Some(self.dst(d)?), rest),
            rest => (None, rest),
        };
        let swap = matches!(op, AtomicOp::CompareSwap);
        let (addr, a, b) = match rest {
            [addr, a] if !swap => (self.addr(addr)?, self.src(a)?, Src::Imm(0)),
            [addr, a, b] if swap => (self.addr(addr)?, self.src(a)?, self.src(b)?),
            _ => return self.error("wrong number of operands"),
        };
        self.emit(Op::Atomic { space, op, bytes: (bits / 8) as u8, dst, addr, a, b })
    }
}

/// The type and width of a load or store.
struct Shape {
    space: Space,
    strong: bool,
    bytes: u8,
    signed: bool,
    lanes: usize,
}

/// The function of a reduction by name.
pub fn reduction(name: &str, signed: bool) -> Option<Scalar> {
    integer::operation(name, 32, signed)
}
