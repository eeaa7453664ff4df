//! The instruction set: four opcodes over 64-bit words, as Relax defines them.
//!
//! An instruction is a run of `i64` words. Opcode, destination, callee, counts and
//! offsets are plain words; only call arguments are tagged (bits 63..56 are the
//! kind, bits 55..0 a sign-extended value). Offsets count instructions, not words.
//! This file decodes words; the verifier checks which values they may take.

use std::fmt;

/// Opcode word of [`Instr::Call`].
pub const OP_CALL: i64 = 1;
/// Opcode word of [`Instr::Ret`].
pub const OP_RET: i64 = 2;
/// Opcode word of [`Instr::Goto`].
pub const OP_GOTO: i64 = 3;
/// Opcode word of [`Instr::If`].
pub const OP_IF: i64 = 4;

const VALUE_BITS: u32 = 56;
const VALUE_MASK: i64 = (1 << VALUE_BITS) - 1;
/// Largest value an argument word can carry.
pub const MAX_IMM: i64 = (1 << (VALUE_BITS - 1)) - 1;
/// Smallest value an argument word can carry.
pub const MIN_IMM: i64 = -(1 << (VALUE_BITS - 1));

/// A register, as it stands in an instruction word.
///
/// Indices below [`Reg::VOID`] are registers of the function's file. `VOID` reads as
/// None and discards what is written; `VM` reads as an opaque pointer to the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Reg(pub i64);

impl Reg {
    /// Reads as None; a result stored here is discarded.
    pub const VOID: Reg = Reg(1 << 54);
    /// Reads as an opaque pointer to the running virtual machine.
    pub const VM: Reg = Reg((1 << 54) + 1);

    /// The index in the register file, when this is not a special register.
    pub fn index(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }

    /// Whether a result written here is discarded: every word from `VOID` up.
    pub fn discards(self) -> bool {
        self.0 >= Self::VOID.0
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reg::VOID => f.write_str("%void"),
            Reg::VM => f.write_str("%vm"),
            Reg(index) => write!(f, "%{index}"),
        }
    }
}

/// A call argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arg {
    /// The value in a register.
    Reg(Reg),
    /// An integer carried in the word, `MIN_IMM..=MAX_IMM`.
    Imm(i64),
    /// An entry of the constant pool.
    Const(u32),
    /// An entry of the function table, as a function value.
    Func(u32),
}

impl Arg {
    /// The tagged word.
    ///
    /// # Panics
    /// If the value of a register or immediate does not fit 56 bits; the builder and
    /// the parser refuse such values before they get here.
    pub fn encode(self) -> i64 {
        let (kind, value) = match self {
            Arg::Reg(reg) => (0, reg.0),
            Arg::Imm(value) => (1, value),
            Arg::Const(index) => (2, i64::from(index)),
            Arg::Func(index) => (3, i64::from(index)),
        };
        assert!((MIN_IMM..=MAX_IMM).contains(&value), "argument value {value} exceeds 56 bits");
        (kind << VALUE_BITS) | (value & VALUE_MASK)
    }

    /// Reads a tagged word.
    pub fn decode(word: i64) -> Result<Arg, BadWord> {
        let value = (word << (64 - VALUE_BITS)) >> (64 - VALUE_BITS);
        let index = || u32::try_from(value).map_err(|_| BadWord::Index(value));
        match (word >> VALUE_BITS) & 0xFF {
            0 => Ok(Arg::Reg(Reg(value))),
            1 => Ok(Arg::Imm(value)),
            2 => Ok(Arg::Const(index()?)),
            3 => Ok(Arg::Func(index()?)),
            kind => Err(BadWord::ArgKind(kind)),
        }
    }
}

/// The argument words of a call, still encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Args<'a>(pub &'a [i64]);

impl<'a> Args<'a> {
    /// Decodes the words in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Result<Arg, BadWord>> + 'a {
        self.0.iter().map(|&word| Arg::decode(word))
    }

    /// Number of arguments.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// One instruction, its arguments borrowed from the word stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instr<'a> {
    /// `dst = callee(args...)`.
    Call {
        /// Where the result goes; words from [`Reg::VOID`] up discard it.
        dst: Reg,
        /// Index in the function table.
        callee: i64,
        /// The arguments.
        args: Args<'a>,
    },
    /// Leave the function with the value of `result`.
    Ret {
        /// The register returned.
        result: Reg,
    },
    /// `pc += offset`.
    Goto {
        /// In instructions; may be negative, never zero.
        offset: i64,
    },
    /// `pc += 1` when `cond` is not zero, else `pc += false_offset`.
    If {
        /// A register holding a bool or an int.
        cond: Reg,
        /// In instructions; greater than one.
        false_offset: i64,
    },
}

impl<'a> Instr<'a> {
    /// Reads the instruction that starts at word `at` of `data`.
    pub fn decode(data: &'a [i64], at: usize) -> Result<Instr<'a>, BadWord> {
        let word = |k: usize| {
            at.checked_add(k).and_then(|i| data.get(i)).copied().ok_or(BadWord::Truncated)
        };
        match word(0)? {
            OP_CALL => {
                let (dst, callee, count) = (Reg(word(1)?), word(2)?, word(3)?);
                let count = usize::try_from(count).map_err(|_| BadWord::ArgCount(count))?;
                let start = at + 4;
                let words = start
                    .checked_add(count)
                    .and_then(|end| data.get(start..end))
                    .ok_or(BadWord::Truncated)?;
                Ok(Instr::Call { dst, callee, args: Args(words) })
            }
            OP_RET => Ok(Instr::Ret { result: Reg(word(1)?) }),
            OP_GOTO => Ok(Instr::Goto { offset: word(1)? }),
            OP_IF => Ok(Instr::If { cond: Reg(word(1)?), false_offset: word(2)? }),
            opcode => Err(BadWord::Opcode(opcode)),
        }
    }

    /// Appends the instruction's words to `data`.
    pub fn encode(&self, data: &mut Vec<i64>) {
        match *self {
            Instr::Call { dst, callee, args } => {
                data.extend_from_slice(&[OP_CALL, dst.0, callee, args.len() as i64]);
                data.extend_from_slice(args.0);
            }
            Instr::Ret { result } => data.extend_from_slice(&[OP_RET, result.0]),
            Instr::Goto { offset } => data.extend_from_slice(&[OP_GOTO, offset]),
            Instr::If { cond, false_offset } => {
                data.extend_from_slice(&[OP_IF, cond.0, false_offset]);
            }
        }
    }

    /// Number of words of the instruction.
    pub fn words(&self) -> usize {
        match self {
            Instr::Call { args, .. } => 4 + args.len(),
            Instr::Ret { .. } | Instr::Goto { .. } => 2,
            Instr::If { .. } => 3,
        }
    }
}

/// Why a word stream is not an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadWord {
    /// The stream ends inside the instruction.
    #[error("the instruction runs past the end of the code")]
    Truncated,
    /// Not one of the four opcodes.
    #[error("unknown opcode {0}")]
    Opcode(i64),
    /// The number of arguments is negative.
    #[error("argument count {0} is negative")]
    ArgCount(i64),
    /// The tag of an argument is not one of the four kinds.
    #[error("unknown argument kind {0}")]
    ArgKind(i64),
    /// A constant or function index is negative or too large to exist.
    #[error("index {0} cannot be an index")]
    Index(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_round_trip_at_their_limits() {
        for arg in [
            Arg::Reg(Reg(0)),
            Arg::Reg(Reg::VOID),
            Arg::Reg(Reg::VM),
            Arg::Imm(MIN_IMM),
            Arg::Imm(-1),
            Arg::Imm(MAX_IMM),
            Arg::Const(u32::MAX),
            Arg::Func(7),
        ] {
            assert_eq!(Arg::decode(arg.encode()), Ok(arg));
        }
        assert_eq!(Arg::decode(4 << 56), Err(BadWord::ArgKind(4)));
        assert_eq!(Arg::decode(-1), Err(BadWord::ArgKind(0xFF)));
        assert_eq!(Arg::decode((2 << 56) | VALUE_MASK), Err(BadWord::Index(-1)));
    }

    #[test]
    fn instructions_round_trip() {
        let words = [Arg::Reg(Reg(3)).encode(), Arg::Imm(-9).encode()];
        for instr in [
            Instr::Call { dst: Reg::VOID, callee: 2, args: Args(&words) },
            Instr::Ret { result: Reg(1) },
            Instr::Goto { offset: -4 },
            Instr::If { cond: Reg(5), false_offset: 2 },
        ] {
            let mut data = vec![99];
            instr.encode(&mut data);
            assert_eq!(data.len(), 1 + instr.words());
            assert_eq!(Instr::decode(&data, 1), Ok(instr));
            data.pop();
            assert_eq!(Instr::decode(&data, 1), Err(BadWord::Truncated));
        }
        assert_eq!(Instr::decode(&[9], 0), Err(BadWord::Opcode(9)));
        assert_eq!(Instr::decode(&[1, 0, 0, -1], 0), Err(BadWord::ArgCount(-1)));
        assert_eq!(Instr::decode(&[1, 0, 0, i64::MAX], 0), Err(BadWord::Truncated));
    }
}
