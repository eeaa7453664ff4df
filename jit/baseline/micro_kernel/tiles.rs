//! The machine code of operations on matrix registers (Intel AMX): straight, or a loop of them.
//!
//! Decision: docs/decisions/0101-matrix-registers-in-baseline-kernels.md
//!
//! A function of one argument, the address of an array of 64-bit words:
//!
//! ```text
//! 0            iterations, at least 1
//! 1            for each rows in memory: address of the first row,
//!                bytes from row to row,
//!                bytes that the address moves by after an iteration
//! ```
//! Where it configures the registers, the argument is the address of the configuration.

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use reflex_tir::Sign;

use super::code::encode;
use crate::error::{BaselineError, Result};

/// The argument.
const WORDS: Register = Register::RDI;
/// Iterations that are left.
const COUNTER: Register = Register::RAX;
/// Bytes from row to row.
const STRIDE: Register = Register::RCX;
/// Addresses of first rows, none of which the caller keeps.
const ADDRESSES: [Register; 6] =
    [Register::RSI, Register::RDX, Register::R8, Register::R9, Register::R10, Register::R11];
/// Words for each rows in memory.
pub const WORDS_OF_ROWS: usize = 3;

/// An operation. Registers are numbers, rows in memory count in the order of their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileStep {
    /// `ldtilecfg`
    Configure,
    /// `tilerelease`
    Release,
    /// `tilezero`
    Zero(u8),
    /// `tileloadd`
    Load(u8),
    /// `tilestored`
    Store(u8),
    /// `tdpbf16ps` of a sum and two operands.
    DotBf16([u8; 3]),
    /// `tdpbusd` and its like.
    DotI8([u8; 3], [Sign; 2]),
}

/// All that decides the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TileForm {
    /// The operations, in order.
    pub steps: Vec<TileStep>,
    /// Whether they are the body of a loop.
    pub is_loop: bool,
}

impl TileForm {
    /// Operations one after the other.
    pub fn straight(steps: Vec<TileStep>) -> TileForm {
        TileForm { steps, is_loop: false }
    }

    /// A loop of operations; `None` if it has too many addresses.
    pub fn looped(steps: Vec<TileStep>) -> Option<TileForm> {
        let form = TileForm { steps, is_loop: true };
        (form.rows() <= ADDRESSES.len()).then_some(form)
    }

    /// Rows in memory.
    pub fn rows(&self) -> usize {
        self.steps.iter().filter(|step| step.is_in_memory()).count()
    }

    /// Words of the argument.
    pub fn words(&self) -> usize {
        1 + self.rows() * WORDS_OF_ROWS
    }
}

impl TileStep {
    fn is_in_memory(self) -> bool {
        matches!(self, TileStep::Load(_) | TileStep::Store(_))
    }
}

/// The machine code of a form, which has no relocations.
pub fn assemble_tiles(form: &TileForm) -> Result<Vec<u8>> {
    let list = function(form);
    let list = list.map_err(|e| BaselineError::new(format!("matrix registers: {e}")))?;
    encode(&list)
}

fn function(form: &TileForm) -> std::result::Result<Vec<Instruction>, IcedError> {
    // Labels stand for addresses until all is encoded.
    const TOP: u64 = 1;
    let (mut list, rows) = (vec![], form.rows());
    let read = |to, at: usize| Instruction::with2(Code::Mov_r64_rm64, to, word(at));
    if form.is_loop {
        list.push(read(COUNTER, 0)?);
        for (n, register) in ADDRESSES[..rows].iter().enumerate() {
            list.push(read(*register, word_of_rows(n))?);
        }
    }
    let (begin, mut n) = (list.len(), 0);
    for step in &form.steps {
        let mut place = ADDRESSES[0];
        if step.is_in_memory() {
            match form.is_loop {
                true => place = ADDRESSES[n],
                false => list.push(read(place, word_of_rows(n))?),
            }
            list.push(read(STRIDE, word_of_rows(n) + 1)?);
            n += 1;
        }
        list.push(instruction(*step, MemoryOperand::with_base_index(place, STRIDE))?);
    }
    if form.is_loop {
        for (n, register) in ADDRESSES[..rows].iter().enumerate() {
            let moved = word(word_of_rows(n) + 2);
            list.push(Instruction::with2(Code::Add_r64_rm64, *register, moved)?);
        }
        list.push(Instruction::with1(Code::Dec_rm64, COUNTER)?);
        list.push(Instruction::with_branch(Code::Jne_rel32_64, TOP)?);
        list[begin].set_ip(TOP);
    }
    list.push(Instruction::with(Code::Retnq));
    Ok(list)
}

fn instruction(step: TileStep, rows: MemoryOperand) -> std::result::Result<Instruction, IcedError> {
    let tile = |n: u8| Register::TMM0 + u32::from(n);
    let dot = |code, [sum, a, b]: [u8; 3]| Instruction::with3(code, tile(sum), tile(a), tile(b));
    match step {
        TileStep::Configure => {
            let words = MemoryOperand::with_base(WORDS);
            Instruction::with1(Code::VEX_Ldtilecfg_m512, words)
        }
        TileStep::Release => Ok(Instruction::with(Code::VEX_Tilerelease)),
        TileStep::Zero(to) => Instruction::with1(Code::VEX_Tilezero_tmm, tile(to)),
        TileStep::Load(to) => Instruction::with2(Code::VEX_Tileloadd_tmm_sibmem, tile(to), rows),
        TileStep::Store(of) => Instruction::with2(Code::VEX_Tilestored_sibmem_tmm, rows, tile(of)),
        TileStep::DotBf16(of) => dot(Code::VEX_Tdpbf16ps_tmm_tmm_tmm, of),
        TileStep::DotI8(of, signs) => {
            let code = match signs {
                [Sign::Unsigned, Sign::Unsigned] => Code::VEX_Tdpbuud_tmm_tmm_tmm,
                [Sign::Unsigned, Sign::Signed] => Code::VEX_Tdpbusd_tmm_tmm_tmm,
                [Sign::Signed, Sign::Unsigned] => Code::VEX_Tdpbsud_tmm_tmm_tmm,
                [Sign::Signed, Sign::Signed] => Code::VEX_Tdpbssd_tmm_tmm_tmm,
            };
            dot(code, of)
        }
    }
}

/// The first word about rows in memory.
pub fn word_of_rows(n: usize) -> usize {
    1 + n * WORDS_OF_ROWS
}

fn word(at: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(WORDS, at as i64 * 8)
}
