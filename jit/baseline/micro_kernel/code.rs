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

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock,
    MemoryOperand, Register,
};

use super::vectors::Vectors;
use crate::error::{BaselineError, Result};

/// The address of the words.
const WORDS: Register = Register::RDI;
/// Iterations of the innermost loop that are left; before and after, the accumulators' address.
const COUNTER: Register = Register::RAX;
/// Pointers, those that the caller keeps first.
const POINTERS: [Register; 12] = [
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

/// The change that a step makes to an accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A fused multiply-add of float32.
    Fma,
    /// A dot product of four unsigned and four signed 8-bit integers, added to an int32 (`vpdpbusd`).
    Dot {
        /// Whether the unsigned ones are those for all lanes.
        broadcasts_unsigned: bool,
    },
}

impl Operation {
    /// A dot product.
    pub fn dot(broadcasts_unsigned: bool) -> Operation {
        Operation::Dot { broadcasts_unsigned }
    }
}

/// The form of a micro-kernel: all that decides its code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The operation of its steps.
    pub operation: Operation,
    /// Vectors of the CPU.
    pub vectors: Vectors,
    /// Registers for each row of accumulators.
    pub parts: usize,
    /// Loops around the steps.
    pub loops: usize,
    /// Pointers into the operands.
    pub pointers: usize,
    /// Whether some vectors are read for the first lanes only.
    pub is_masked: bool,
    /// Bytes from the first accumulator to the first of each row.
    pub tiles: Vec<i32>,
    /// The multiply-adds of an iteration, in order.
    pub steps: Vec<Step>,
}

/// `tiles[tile] += broadcast * vector`, as the operation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The row of accumulators.
    pub tile: usize,
    /// One element.
    pub broadcast: Operand,
    /// An element for each lane.
    pub vector: Operand,
}

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The pointer.
    pub pointer: usize,
    /// Bytes from there.
    pub offset: i32,
    /// Whether it is read for the first lanes only.
    pub is_masked: bool,
}

impl Form {
    /// Whether the registers suffice.
    pub fn fits(&self) -> bool {
        let lanes = self.parts as i64 * self.vectors.lanes();
        let masked = !self.is_masked || lanes < i64::from(u64::BITS);
        self.pointers <= POINTERS.len() && masked && self.held().is_some()
    }

    /// Words of the argument.
    pub fn words(&self) -> usize {
        let mask = match self.vectors {
            _ if !self.is_masked => 0,
            Vectors::Avx512 => 1,
            Vectors::Avx2 => 1 + self.iota().len(),
        };
        self.word_of_mask() + mask
    }

    /// The word of the mask, behind those of the loops: a bit for each lane (AVX-512), or the number of
    /// lanes, with [`Form::iota`] behind it.
    pub fn word_of_mask(&self) -> usize {
        self.word_of_loop(self.loops)
    }

    /// The numbers of all lanes as 32-bit integers, two in a word.
    pub fn iota(&self) -> Vec<i64> {
        let lanes = self.parts as i64 * self.vectors.lanes();
        (0..lanes / 2).map(|pair| (2 * pair) | ((2 * pair + 1) << 32)).collect()
    }

    /// The first word about a loop, counted from the innermost.
    pub fn word_of_loop(&self, at: usize) -> usize {
        1 + self.pointers + at * (2 + self.pointers)
    }

    /// The vectors that registers hold besides the tile, the element for all lanes and masks: where none fits,
    /// multiply-adds read memory. `None` if the tile does not fit.
    fn held(&self) -> Option<usize> {
        let masks = if self.is_masked && self.vectors == Vectors::Avx2 { self.parts } else { 0 };
        let taken = self.tiles.len() * self.parts + 1 + masks;
        let held = self.vectors.registers().checked_sub(taken)? / self.parts;
        // The unsigned operand of a dot product is a register.
        let in_registers = self.is_masked || self.operation == Operation::dot(false);
        (held > 0 || !in_registers).then_some(held)
    }

    /// The register that holds the mask of a part.
    fn mask(&self, part: usize) -> Register {
        match self.vectors {
            Vectors::Avx2 => register(self.vectors, self.vectors.registers() - 2 - part),
            Vectors::Avx512 => Register::K1 + part as u32,
        }
    }
}

/// The machine code of a form, which has no relocations.
pub fn assemble(form: &Form) -> Result<Vec<u8>> {
    let mut code = Assembler { form, list: vec![], labels: 0, pending: None };
    code.function().map_err(|e| BaselineError::new(format!("a micro-kernel: {e}")))?;
    encode(&code.list)
}

/// Instructions as machine code. Those that are jumped to have a label for their address, others have 0.
pub fn encode(list: &[Instruction]) -> Result<Vec<u8>> {
    let block = InstructionBlock::new(list, 0);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
    Ok(encoded.map_err(|e| BaselineError::new(format!("a micro-kernel: {e}")))?.code_buffer)
}

struct Assembler<'f> {
    form: &'f Form,
    list: Vec<Instruction>,
    /// Labels so far; they stand for addresses until all is encoded.
    labels: u64,
    /// The label of the next instruction.
    pending: Option<u64>,
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
        self.accumulators(Assembler::load_vector)?;
        self.nest(form.loops)?;
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
            let mask = form.mask(part);
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
        let Some(at) = outside.checked_sub(1) else { return self.steps() };
        let (iterations, left) = (self.form.word_of_loop(at), self.form.word_of_loop(at) + 1);
        self.load(Code::Mov_r64_rm64, COUNTER, word(iterations))?;
        if at > 0 {
            self.store(Code::Mov_rm64_r64, word(left), COUNTER)?;
        }
        self.labels += 1;
        let top = self.labels;
        self.pending = Some(top);
        self.nest(at)?;
        for (pointer, register) in POINTERS[..self.form.pointers].iter().enumerate() {
            self.load(Code::Add_r64_rm64, *register, word(left + 1 + pointer))?;
        }
        let counter = match at {
            0 => Instruction::with1(Code::Dec_rm64, COUNTER)?,
            _ => Instruction::with1(Code::Dec_rm64, word(left))?,
        };
        self.push(counter);
        self.push(Instruction::with_branch(Code::Jne_rel32_64, top)?);
        Ok(())
    }

    /// An iteration of the innermost loop. Vectors stay in registers until others take their place, the
    /// oldest first.
    fn steps(&mut self) -> Encoded {
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
        for step in &form.steps {
            if element != Some(step.broadcast) {
                self.load(broadcast, one_for_all, self.place(step.broadcast, 0))?;
                element = Some(step.broadcast);
            }
            if places > 0 && !held.contains(&Some(step.vector)) {
                held[next] = Some(step.vector);
                self.load_parts(step.vector, next)?;
                next = (next + 1) % places;
            }
            let at = held.iter().position(|vector| *vector == Some(step.vector));
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
                        let vector = self.place(step.vector, part);
                        Instruction::with3(step_code, sum, one_for_all, vector)?
                    }
                };
                self.push(instruction);
            }
        }
        Ok(())
    }

    fn load_parts(&mut self, vector: Operand, at: usize) -> Encoded {
        for part in 0..self.form.parts {
            let (from, to) = (self.place(vector, part), self.vector(at, part));
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
        let mask = self.form.mask(part);
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

    fn accumulator(&self, tile: usize, part: usize) -> Register {
        register(self.form.vectors, tile * self.form.parts + part)
    }

    fn place(&self, at: Operand, part: usize) -> MemoryOperand {
        let offset = i64::from(at.offset) + self.part_bytes(part);
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
