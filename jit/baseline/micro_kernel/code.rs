//! The machine code of a micro-kernel: the accumulators stay in registers through all loops.
//!
//! Decision: docs/decisions/0086-micro-kernels.md
//!
//! A function of one argument, the address of an array of 64-bit words:
//!
//! ```text
//! 0            address of the accumulators
//! 1            address that each pointer starts at
//! 1 + pointers for each loop, innermost first:
//!                iterations, at least 1
//!                what is left of them (written here)
//!                bytes that each pointer moves by after an iteration
//! ```
//!
//! Iterations and distances that the form knows are part of the code, and their words are not read.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock,
    MemoryOperand, Register,
};

use super::form::{Form, MAX_POINTERS, Operand, Operation};
use super::vectors::Vectors;
use crate::error::{BaselineError, Result};

/// The address of the words.
const WORDS: Register = Register::RDI;
/// Iterations of the innermost loop that are left; before and after, the accumulators' address.
const COUNTER: Register = Register::RAX;
/// Pointers, those that the caller keeps first.
const POINTERS: [Register; MAX_POINTERS] = [
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// Of these, those that a function may overwrite.
const FREE_POINTERS: usize = 7;
/// Multiply-adds that copies of the innermost loop's body have at most.
const UNROLL: usize = 32;
/// Bytes that an iteration moves pointers by at most where it is copied.
const NEAR: u32 = 1 << 20;

/// The machine code of a form, which has no relocations.
pub fn assemble(form: &Form) -> Result<Vec<u8>> {
    let mut code = Assembler { form, list: vec![], labels: 0, pending: None, hottest: 0 };
    code.function().map_err(|e| BaselineError::new(format!("a micro-kernel: {e}")))?;
    let (code, offset) = encode_with_offset(&code.list, code.hottest)?;
    // The innermost loop begins with a cache line, as the function does.
    let padding = offset.next_multiple_of(LINE) - offset;
    Ok([nops(padding), code].concat())
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Instructions that do nothing, of so many bytes together.
fn nops(bytes: usize) -> Vec<u8> {
    // Intel, "64 and IA-32 Architectures Software Developer's Manual", NOP: the recommended sequence of 9 bytes.
    const LONG: [u8; 9] = [0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
    const SHORT: u8 = 0x90;
    [LONG.repeat(bytes / LONG.len()), vec![SHORT; bytes % LONG.len()]].concat()
}

/// Instructions as machine code. Those that are jumped to have a label for their address, others have 0.
pub fn encode(list: &[Instruction]) -> Result<Vec<u8>> {
    Ok(encode_with_offset(list, 0)?.0)
}

/// The machine code, and the offset of an instruction.
fn encode_with_offset(list: &[Instruction], at: usize) -> Result<(Vec<u8>, usize)> {
    let block = InstructionBlock::new(list, 0);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let encoded = BlockEncoder::encode(64, block, options);
    let encoded = encoded.map_err(|e| BaselineError::new(format!("a micro-kernel: {e}")))?;
    let offset = encoded.new_instruction_offsets.get(at).map_or(0, |offset| *offset as usize);
    Ok((encoded.code_buffer, offset))
}

struct Assembler<'f> {
    form: &'f Form,
    list: Vec<Instruction>,
    /// Labels so far; they stand for addresses until all is encoded.
    labels: u64,
    /// The label of the next instruction.
    pending: Option<u64>,
    /// The first instruction of the innermost loop.
    hottest: usize,
}

/// The register or word with the iterations of a loop that are left.
#[derive(Clone, Copy)]
enum Counter {
    Register(Register),
    /// The word of this number.
    Word(usize),
}

/// All numbers, if each is known.
fn all_known(numbers: &[Option<i32>]) -> Option<Vec<i32>> {
    numbers.iter().copied().collect()
}

type Encoded = std::result::Result<(), IcedError>;

impl Assembler<'_> {
    fn push(&mut self, mut instruction: Instruction) {
        if let Some(label) = self.pending.take() {
            instruction.set_ip(label);
        }
        self.list.push(instruction);
    }

    fn one(&mut self, code: Code, register: Register) -> Encoded {
        self.push(Instruction::with1(code, register)?);
        Ok(())
    }

    fn load(&mut self, code: Code, to: Register, from: MemoryOperand) -> Encoded {
        self.push(Instruction::with2(code, to, from)?);
        Ok(())
    }

    fn store(&mut self, code: Code, to: MemoryOperand, from: Register) -> Encoded {
        self.push(Instruction::with2(code, to, from)?);
        Ok(())
    }

    fn function(&mut self) -> Encoded {
        let form = self.form;
        let kept = POINTERS[..form.pointers].iter().skip(FREE_POINTERS);
        for register in kept.clone() {
            self.one(Code::Push_r64, *register)?;
        }
        for (at, pointer) in POINTERS[..form.pointers].iter().enumerate() {
            self.load(Code::Mov_r64_rm64, *pointer, word(1 + at))?;
        }
        self.masks()?;
        match form.starts_at_zero {
            true => self.accumulators(|code, _, register| code.zero(register))?,
            false => self.accumulators(Assembler::load_vector)?,
        }
        self.nest(form.loops.len())?;
        self.accumulators(|code, memory, register| {
            let store = match code.form.vectors {
                Vectors::Avx2 => Code::VEX_Vmovups_ymmm256_ymm,
                Vectors::Avx512 => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
            };
            code.store(store, memory, register)
        })?;
        for register in kept.rev() {
            self.one(Code::Pop_r64, *register)?;
        }
        self.push(Instruction::with(Code::VEX_Vzeroupper));
        self.push(Instruction::with(Code::Retnq));
        Ok(())
    }

    fn masks(&mut self) -> Encoded {
        let form = self.form;
        if !form.is_masked {
            return Ok(());
        }
        let at = form.word_of_mask();
        for part in 0..form.parts {
            let mask = self.mask_register(part);
            match form.vectors {
                Vectors::Avx512 => {
                    let bytes = at as i64 * 8 + part as i64 * form.vectors.lanes() / 8;
                    let bits = MemoryOperand::with_base_displ(WORDS, bytes);
                    self.load(Code::VEX_Kmovw_kr_km16, mask, bits)?;
                }
                Vectors::Avx2 => {
                    self.load(Code::VEX_Vpbroadcastd_ymm_xmmm32, mask, word(at))?;
                    let iota = word(at + 1 + part * 4);
                    let greater = Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256;
                    self.push(Instruction::with3(greater, mask, mask, iota)?);
                }
            }
        }
        Ok(())
    }

    /// Does something with each register of the tile and its memory.
    fn accumulators(
        &mut self,
        mut each: impl FnMut(&mut Self, MemoryOperand, Register) -> Encoded,
    ) -> Encoded {
        self.load(Code::Mov_r64_rm64, COUNTER, word(0))?;
        for (tile, offset) in self.form.tiles.iter().enumerate() {
            for part in 0..self.form.parts {
                let at = i64::from(*offset) + self.part_bytes(part);
                let register = self.accumulator(tile, part);
                each(self, MemoryOperand::with_base_displ(COUNTER, at), register)?;
            }
        }
        Ok(())
    }

    /// The loops below number `outside`, which is counted from the innermost.
    fn nest(&mut self, outside: usize) -> Encoded {
        let Some(at) = outside.checked_sub(1) else { return self.steps(0) };
        let (iterations, known) = (self.form.word_of_loop(at), &self.form.loops[at]);
        if at == 0
            && let (Some(count), Some(moves)) = (known.iterations, all_known(&known.moves))
        {
            return self.innermost(count, &moves);
        }
        let left = self.counter(at);
        match (known.iterations, left) {
            (Some(n), Counter::Register(register)) => self.set(register, n)?,
            (None, Counter::Register(register)) => {
                self.load(Code::Mov_r64_rm64, register, word(iterations))?;
            }
            (known, Counter::Word(left)) => {
                match known {
                    Some(n) => self.set(COUNTER, n)?,
                    None => self.load(Code::Mov_r64_rm64, COUNTER, word(iterations))?,
                }
                self.store(Code::Mov_rm64_r64, word(left), COUNTER)?;
            }
        }
        let top = self.label();
        self.hottest = self.list.len();
        self.nest(at)?;
        for (pointer, bytes) in known.moves.iter().enumerate() {
            match bytes {
                Some(bytes) => self.advance(pointer, *bytes)?,
                None => {
                    let distance = word(iterations + 2 + pointer);
                    self.load(Code::Add_r64_rm64, POINTERS[pointer], distance)?;
                }
            }
        }
        let counted = match left {
            Counter::Register(register) => Instruction::with1(Code::Dec_rm64, register)?,
            Counter::Word(left) => Instruction::with1(Code::Dec_rm64, word(left))?,
        };
        self.push(counted);
        self.push(Instruction::with_branch(Code::Jne_rel32_64, top)?);
        Ok(())
    }

    /// The innermost loop where all of it is known, unrolled.
    fn innermost(&mut self, count: i32, moves: &[i32]) -> Encoded {
        let body = self.form.steps.len() * self.form.parts;
        let is_near = |bytes: &i32| bytes.unsigned_abs() <= NEAR;
        let copies = match moves.iter().all(is_near) {
            true => i32::try_from(UNROLL / body).unwrap_or(1).clamp(1, count),
            false => 1,
        };
        let (rounds, rest) = (count / copies, count % copies);
        if rounds > 1 {
            self.set(COUNTER, rounds)?;
            let top = self.label();
            self.hottest = self.list.len();
            self.copies(copies, moves)?;
            self.push(Instruction::with1(Code::Dec_rm64, COUNTER)?);
            self.push(Instruction::with_branch(Code::Jne_rel32_64, top)?);
        } else {
            self.copies(copies, moves)?;
        }
        self.copies(rest, moves)
    }

    /// So many iterations of the innermost loop, one after the other.
    fn copies(&mut self, count: i32, moves: &[i32]) -> Encoded {
        for copy in 0..count {
            self.steps(copy)?;
        }
        for (pointer, bytes) in moves.iter().enumerate() {
            self.advance(pointer, bytes * count)?;
        }
        Ok(())
    }

    fn advance(&mut self, pointer: usize, bytes: i32) -> Encoded {
        if bytes != 0 {
            self.push(Instruction::with2(Code::Add_rm64_imm32, POINTERS[pointer], bytes)?);
        }
        Ok(())
    }

    /// Writes a small number to a register.
    fn set(&mut self, register: Register, number: i32) -> Encoded {
        self.push(Instruction::with2(Code::Mov_rm64_imm32, register, number)?);
        Ok(())
    }

    /// A label of the next instruction.
    fn label(&mut self) -> u64 {
        self.labels += 1;
        self.pending = Some(self.labels);
        self.labels
    }

    /// The register or word with the iterations of a loop that are left.
    fn counter(&self, at: usize) -> Counter {
        match (at, POINTERS[..FREE_POINTERS].get(self.form.pointers + at.saturating_sub(1))) {
            (0, _) => Counter::Register(COUNTER),
            (_, Some(register)) => Counter::Register(*register),
            (_, None) => Counter::Word(self.form.word_of_loop(at) + 1),
        }
    }

    /// An iteration of the innermost loop, `copy` of them ahead of the pointers. Vectors stay in registers until others
    /// take their place, the oldest first.
    fn steps(&mut self, copy: i32) -> Encoded {
        let form = self.form;
        let places = form.held().unwrap_or(0);
        let one_for_all = register(form.vectors, form.vectors.registers() - 1);
        let broadcast = match form.vectors {
            Vectors::Avx2 => Code::VEX_Vbroadcastss_ymm_m32,
            Vectors::Avx512 => Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
        };
        let step_code = match (form.operation, form.vectors) {
            (Operation::Fma, Vectors::Avx2) => Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256,
            (Operation::Fma, Vectors::Avx512) => Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            (Operation::Dot { .. }, Vectors::Avx2) => Code::VEX_Vpdpbusd_ymm_ymm_ymmm256,
            (Operation::Dot { .. }, Vectors::Avx512) => Code::EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32,
        };
        let (mut element, mut held, mut next) = (None, vec![None; places], 0);
        for (number, step) in form.steps.iter().enumerate() {
            if places > 0 && !held.contains(&Some(step.vector)) {
                held[next] = Some(step.vector);
                self.load_parts(step.vector, next, copy)?;
                next = (next + 1) % places;
            }
            let at = held.iter().position(|vector| *vector == Some(step.vector));
            let is_last = form.steps.get(number + 1).is_none_or(|s| s.broadcast != step.broadcast);
            if let (Some(at), Operation::Fma, Vectors::Avx512, 1, true) =
                (at, form.operation, form.vectors, form.parts, is_last)
                && element != Some(step.broadcast)
            {
                // The only use of an element: the instruction reads it for all lanes.
                let (sum, vector) = (self.accumulator(step.tile, 0), self.vector(at, 0));
                let mut memory = self.place(step.broadcast, 0, copy);
                memory.is_broadcast = true;
                self.push(Instruction::with3(step_code, sum, vector, memory)?);
                continue;
            }
            if element != Some(step.broadcast) {
                self.load(broadcast, one_for_all, self.place(step.broadcast, 0, copy))?;
                element = Some(step.broadcast);
            }
            for part in 0..form.parts {
                let sum = self.accumulator(step.tile, part);
                let instruction = match at {
                    Some(at) => {
                        let vector = self.vector(at, part);
                        // The second operand of a dot product is the unsigned one.
                        let (a, b) = match form.operation {
                            Operation::Dot { broadcasts_unsigned: false } => (vector, one_for_all),
                            _ => (one_for_all, vector),
                        };
                        Instruction::with3(step_code, sum, a, b)?
                    }
                    None => {
                        let vector = self.place(step.vector, part, copy);
                        Instruction::with3(step_code, sum, one_for_all, vector)?
                    }
                };
                self.push(instruction);
            }
        }
        Ok(())
    }

    fn zero(&mut self, register: Register) -> Encoded {
        let code = match self.form.vectors {
            Vectors::Avx2 => Code::VEX_Vxorps_ymm_ymm_ymmm256,
            Vectors::Avx512 => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        };
        self.push(Instruction::with3(code, register, register, register)?);
        Ok(())
    }

    fn load_parts(&mut self, vector: Operand, at: usize, copy: i32) -> Encoded {
        for part in 0..self.form.parts {
            let (from, to) = (self.place(vector, part, copy), self.vector(at, part));
            match vector.is_masked {
                true => self.load_masked(from, to, part)?,
                false => self.load_vector(from, to)?,
            }
        }
        Ok(())
    }

    /// The register of a vector that is held.
    fn vector(&self, at: usize, part: usize) -> Register {
        let first = (self.form.tiles.len() + at) * self.form.parts;
        register(self.form.vectors, first + part)
    }

    fn load_vector(&mut self, from: MemoryOperand, to: Register) -> Encoded {
        let load = match self.form.vectors {
            Vectors::Avx2 => Code::VEX_Vmovups_ymm_ymmm256,
            Vectors::Avx512 => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
        };
        self.load(load, to, from)
    }

    /// Lanes outside of the mask are 0, and not read.
    fn load_masked(&mut self, from: MemoryOperand, to: Register, part: usize) -> Encoded {
        let mask = self.mask_register(part);
        let load = match self.form.vectors {
            Vectors::Avx2 => Instruction::with3(Code::VEX_Vmaskmovps_ymm_ymm_m256, to, mask, from)?,
            Vectors::Avx512 => {
                let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                let mut load = Instruction::with2(code, to, from)?;
                load.set_op_mask(mask);
                load.set_zeroing_masking(true);
                load
            }
        };
        self.push(load);
        Ok(())
    }

    /// The register that holds the mask of a part.
    fn mask_register(&self, part: usize) -> Register {
        match self.form.vectors {
            Vectors::Avx2 => register(Vectors::Avx2, Vectors::Avx2.registers() - 2 - part),
            Vectors::Avx512 => Register::K1 + part as u32,
        }
    }

    fn accumulator(&self, tile: usize, part: usize) -> Register {
        register(self.form.vectors, tile * self.form.parts + part)
    }

    /// The memory of an operand, `copy` iterations of the innermost loop ahead.
    fn place(&self, at: Operand, part: usize, copy: i32) -> MemoryOperand {
        let moved = self.form.loops.first().and_then(|l| l.moves[at.pointer]).unwrap_or(0);
        let ahead = i64::from(moved) * i64::from(copy);
        let offset = i64::from(at.offset) + self.part_bytes(part) + ahead;
        MemoryOperand::with_base_displ(POINTERS[at.pointer], offset)
    }

    fn part_bytes(&self, part: usize) -> i64 {
        part as i64 * self.form.vectors.lanes() * 4
    }
}

fn word(at: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(WORDS, at as i64 * 8)
}

fn register(vectors: Vectors, number: usize) -> Register {
    let first = match vectors {
        Vectors::Avx2 => Register::YMM0,
        Vectors::Avx512 => Register::ZMM0,
    };
    first + number as u32
}
