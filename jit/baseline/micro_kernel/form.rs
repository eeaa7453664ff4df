//! The form of a micro-kernel: all that decides its code, and the words of its argument.
//!
//! Decision: docs/decisions/0086-micro-kernels.md

use super::vectors::Vectors;

/// Registers for pointers.
pub const MAX_POINTERS: usize = 12;

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
    /// Loops around the steps, innermost first.
    pub loops: Vec<LoopForm>,
    /// Pointers into the operands.
    pub pointers: usize,
    /// Whether some vectors are read for the first lanes only.
    pub is_masked: bool,
    /// Whether the accumulators begin at zero, and are not read.
    pub starts_at_zero: bool,
    /// Bytes from the first accumulator to the first of each row.
    pub tiles: Vec<i32>,
    /// The multiply-adds of an iteration, in order.
    pub steps: Vec<Step>,
}

/// A loop around the steps: numbers that are known are part of the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopForm {
    /// Iterations, at least 1.
    pub iterations: Option<i32>,
    /// Bytes that each pointer moves by after an iteration.
    pub moves: Vec<Option<i32>>,
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
        self.pointers <= MAX_POINTERS && masked && self.held().is_some()
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
        self.word_of_loop(self.loops.len())
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
    pub fn held(&self) -> Option<usize> {
        let masks = if self.is_masked && self.vectors == Vectors::Avx2 { self.parts } else { 0 };
        let taken = self.tiles.len() * self.parts + 1 + masks;
        let held = self.vectors.registers().checked_sub(taken)? / self.parts;
        // The unsigned operand of a dot product is a register.
        let in_registers = self.is_masked || self.operation == Operation::dot(false);
        (held > 0 || !in_registers).then_some(held)
    }
}
