//! Weights of 2, 4 or 8 bits packed as codes: one stream of words for each panel of columns, from which
//! the kernel makes floats in registers.
//!
//! ```text
//! panel                         lines of one uint32 for each column
//!   zero points                 codes, 32 / bits blocks in a word; if they differ and are codes
//!   for each block of the depth
//!     scale                     float32
//!     zero point                float32; if they differ and are no codes
//!     codes                     32 / bits neighbours along the depth in a word, the first one lowest
//! ```
//! An element is `(code - zero point) * scale` in float32, or `table[code] * scale`, as the operators
//! of the graph compute it, rounded to the type of the constant.
//!
//! Where activations are rounded to int8, codes are multiplied as integers, four at a time: byte `t` of a
//! word holds the codes `t`, `4 + t`, .., so that shifting and masking a word gives four neighbours. Where
//! they are rounded to int16 it is two at a time, in halves.
//!
//! Decision: docs/decisions/0076-packed-weights.md

use std::sync::Arc;

use reflex_graph::{Activations, BlockQuantized, CodeMeaning, DepthAxis, Literal, NBits};
use reflex_runtime::aligned_bytes::AlignedBytes;
use reflex_tir::{CmpOp, DType, Expr, Intrin};

use crate::packing::share::for_each_part;

/// Bits of a word.
const WORD: i64 = 32;
/// Bits of a float32 after its leading one.
const MANTISSA: i64 = 23;
/// The exponent of a float32 that is 1.
const EXPONENT_OF_ONE: i64 = 127;

/// The codes of a packed constant. Numbers are the bits of a float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCodes {
    /// Bits of a code.
    pub bits: i64,
    /// Codes of a block.
    pub block: i64,
    /// The type that elements are rounded to.
    pub rounded: DType,
    /// The order of the codes in a word.
    pub order: CodeOrder,
    /// The number that a code stands for.
    meaning: Meaning,
}

/// The order of the codes in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeOrder {
    /// One after the other, the first one lowest.
    InTurn,
    /// Neighbours in neighbouring bytes.
    ByBytes,
    /// Neighbours in both halves.
    ByHalfWords,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Without this zero point.
    Centred(u32),
    /// Without the block's zero point, a code.
    ZeroCodes,
    /// Without the block's zero point, a number.
    ZeroNumbers,
    /// The entry of a table.
    Table([u32; 16]),
}

/// The place of an element within its column.
pub struct CodeIndex {
    /// The block.
    pub block: Expr,
    /// The word of codes in it.
    pub word: Expr,
    /// The code in the word; of codes by bytes or by half-words, the group of neighbours.
    pub code: Expr,
}

impl BlockCodes {
    /// The codes of a constant `[k, n]`; `None` where it is not made of codes in whole words.
    pub fn of(literal: &Literal) -> Option<BlockCodes> {
        let (matrix, axis) = literal.as_block_quantized()?;
        let (bits, block) = (matrix.bits as i64, matrix.block as i64);
        let meaning = Meaning::ZeroNumbers;
        let order = CodeOrder::InTurn;
        let mut codes = BlockCodes { bits, block, rounded: matrix.dtype, order, meaning };
        codes.meaning = match &matrix.meaning {
            CodeMeaning::Centred(zero) => Meaning::Centred(zero.to_bits()),
            CodeMeaning::CentredByBlock(zeros) if zeros.iter().all(|z| codes.is_code(*z)) => {
                Meaning::ZeroCodes
            }
            CodeMeaning::CentredByBlock(_) => Meaning::ZeroNumbers,
            CodeMeaning::Table(table) => Meaning::Table(table.map(f32::to_bits)),
        };
        let whole = (block * bits) % WORD == 0 && axis == DepthAxis::First;
        whole.then_some(codes)
    }

    /// The codes of constants of their own ([`joined`]), for products of integers; `None` where a zero point
    /// is no code.
    pub fn of_integers(attrs: NBits, zeros: Option<&Literal>) -> Option<BlockCodes> {
        let NBits { bits, block, activations } = attrs;
        let meaning = match common_zero(usize::try_from(bits).ok()?, zeros) {
            Some(zero) => Meaning::Centred(f32::from(zero).to_bits()),
            None => Meaning::ZeroCodes,
        };
        let order = match activations {
            Activations::Int8 => CodeOrder::ByBytes,
            Activations::Int16 => CodeOrder::ByHalfWords,
        };
        let codes = BlockCodes { bits, block, rounded: DType::F32, order, meaning };
        let is_code = |zero: &u8| u32::from(*zero) >> bits == 0;
        let whole = (block * bits) % WORD == 0;
        (whole && zeros.is_none_or(|zeros| zeros.bytes().iter().all(is_code))).then_some(codes)
    }

    /// Codes in a word.
    pub fn per_word(&self) -> i64 {
        WORD / self.bits
    }

    /// Words of codes in a block.
    pub fn words(&self) -> i64 {
        self.block / self.per_word()
    }

    /// Blocks of a column of `k` elements.
    pub fn blocks(&self, k: i64) -> i64 {
        (k + self.block - 1) / self.block
    }

    /// Lines of a panel of columns of `k` elements.
    pub fn lines(&self, k: i64) -> i64 {
        self.zero_lines(k) + self.blocks(k) * self.lines_of_block()
    }

    fn zero_lines(&self, k: i64) -> i64 {
        match self.meaning {
            Meaning::ZeroCodes => (self.blocks(k) + self.per_word() - 1) / self.per_word(),
            Meaning::Centred(_) | Meaning::ZeroNumbers | Meaning::Table(_) => 0,
        }
    }

    /// Lines of a block before its codes.
    fn numbers(&self) -> i64 {
        if self.meaning == Meaning::ZeroNumbers { 2 } else { 1 }
    }

    fn lines_of_block(&self) -> i64 {
        self.numbers() + self.words()
    }

    /// Neighbours of a word whose codes are by bytes or by half-words, each in its part.
    pub fn neighbours(&self, k: i64, at: &CodeIndex, line: &dyn Fn(Expr) -> Expr) -> Expr {
        let word = line(self.first_line(k, &at.block) + self.numbers() + at.word.clone());
        let parts = match self.order {
            CodeOrder::ByBytes if self.bits == 8 => return word,
            CodeOrder::ByHalfWords => 0x0001_0001,
            CodeOrder::ByBytes | CodeOrder::InTurn => 0x0101_0101,
        };
        let mask = Expr::int(((1i64 << self.bits) - 1) * parts, DType::U32);
        Expr::call(Intrin::BitAnd, vec![self.shifted(word, &at.code), mask])
    }

    /// The scale of a block.
    pub fn scale(&self, k: i64, block: &Expr, line: &dyn Fn(Expr) -> Expr) -> Expr {
        line(self.first_line(k, block)).reinterpret(DType::F32)
    }

    /// The zero point of a block as float32.
    pub fn zero(&self, block: &Expr, line: &dyn Fn(Expr) -> Expr) -> Expr {
        match &self.meaning {
            Meaning::Centred(zero) => float(*zero),
            _ => {
                let word = line(block.clone().floordiv(self.per_word()));
                let word = self.shifted(word, &block.clone().floormod(self.per_word()));
                let mask = Expr::int((1i64 << self.bits) - 1, DType::U32);
                let code = Expr::call(Intrin::BitAnd, vec![word, mask]);
                // Vectors of signed integers are converted by one instruction everywhere.
                code.reinterpret(DType::I32).cast(DType::F32)
            }
        }
    }

    fn first_line(&self, k: i64, block: &Expr) -> Expr {
        block.clone() * self.lines_of_block() + self.zero_lines(k)
    }

    /// An element of a column of `k` elements; `line` reads a word of it.
    pub fn element(&self, k: i64, at: &CodeIndex, line: &dyn Fn(Expr) -> Expr) -> Expr {
        let first = self.first_line(k, &at.block);
        let number = |n: i64| line(first.clone() + n).reinterpret(DType::F32);
        let word = line(first.clone() + self.numbers() + at.word.clone());
        let value = match &self.meaning {
            Meaning::Centred(zero) if self.is_code(f32::from_bits(*zero)) => {
                self.centred(word, &at.code, f32::from_bits(*zero))
            }
            Meaning::Centred(zero) => self.number(word, &at.code) - float(*zero),
            Meaning::ZeroCodes => {
                let (each, block) = (self.per_word(), &at.block);
                let zeros = line(block.clone().floordiv(each));
                let zero = self.above_power(zeros, &block.clone().floormod(each));
                self.above_power(word, &at.code) - zero
            }
            Meaning::ZeroNumbers => self.number(word, &at.code) - number(1),
            Meaning::Table(table) => self.entry(table, &word, &at.code),
        };
        let product = value * number(0);
        product.cast(self.rounded)
    }

    /// Whether a zero point is a code.
    fn is_code(&self, zero: f32) -> bool {
        let largest = ((1u32 << self.bits) - 1) as f32;
        zero.trunc() == zero && (0.0..=largest).contains(&zero) && zero.is_sign_positive()
    }

    /// A code without a zero point: from `2^p + code`, whose bits are those of `2^p` and the code, less
    /// `2^p + zero`. No step is rounded, and codes whose `p` fits their place in the word are not shifted.
    fn centred(&self, word: Expr, code: &Expr, zero: f32) -> Expr {
        let in_place = MANTISSA / self.bits;
        let (group, place) = (code.clone().floordiv(in_place), code.clone().floormod(in_place));
        let word = self.shifted(word, &(group * in_place));
        let by = (place * self.bits).cast(DType::U32);
        let mask = Expr::int((1i64 << self.bits) - 1, DType::U32);
        let mask = Expr::call(Intrin::Shl, vec![mask, by.clone()]);
        let power = Expr::int(EXPONENT_OF_ONE + MANTISSA, DType::U32) - by;
        let power = Expr::call(Intrin::Shl, vec![power, Expr::int(MANTISSA, DType::U32)]);
        let code = Expr::call(Intrin::BitAnd, vec![word, mask]);
        let both = Expr::call(Intrin::BitOr, vec![code, power.clone()]).reinterpret(DType::F32);
        both - (power.reinterpret(DType::F32) + float(zero.to_bits()))
    }

    /// `2^23 + code`, from which another such is subtracted.
    fn above_power(&self, word: Expr, code: &Expr) -> Expr {
        let mask = Expr::int((1i64 << self.bits) - 1, DType::U32);
        let code = Expr::call(Intrin::BitAnd, vec![self.shifted(word, code), mask]);
        let power = Expr::int((EXPONENT_OF_ONE + MANTISSA) << MANTISSA, DType::U32);
        Expr::call(Intrin::BitOr, vec![code, power]).reinterpret(DType::F32)
    }

    /// A code of a word as a float32.
    fn number(&self, word: Expr, code: &Expr) -> Expr {
        let mask = Expr::int((1i64 << self.bits) - 1, DType::U32);
        let code = Expr::call(Intrin::BitAnd, vec![self.shifted(word, code), mask]);
        // Vectors of signed integers are converted by one instruction everywhere.
        code.reinterpret(DType::I32).cast(DType::F32)
    }

    /// A word of codes in turn, in this order.
    fn in_order(&self, word: u32) -> u32 {
        let parts = match self.order {
            CodeOrder::InTurn => return word,
            CodeOrder::ByBytes => 4,
            CodeOrder::ByHalfWords => 2,
        };
        let (bits, mask) = (self.bits as u32, (1u32 << self.bits) - 1);
        let code = |n: u32| (word >> (n * bits)) & mask;
        let place = |n: u32| n % parts * (32 / parts) + n / parts * bits;
        let places = (0..32 / bits).map(|n| code(n) << place(n));
        places.fold(0, |word, code| word | code)
    }

    fn shifted(&self, word: Expr, code: &Expr) -> Expr {
        let by = code.clone() * self.bits;
        match by.as_int() {
            Some(0) => word,
            _ => Expr::call(Intrin::Shr, vec![word, by.cast(DType::U32)]),
        }
    }

    /// The table's entry for a code: a choice between halves for each of its bits.
    fn entry(&self, table: &[u32; 16], word: &Expr, code: &Expr) -> Expr {
        let code = self.shifted(word.clone(), code);
        let mut entries: Vec<Expr> = table.iter().map(|bits| float(*bits)).collect();
        for bit in 0..self.bits {
            let mask = Expr::int(1 << bit, DType::U32);
            let set = Expr::call(Intrin::BitAnd, vec![code.clone(), mask]);
            let set = Expr::compare(CmpOp::Ne, set, Expr::int(0, DType::U32));
            let pairs = entries.as_chunks::<2>().0.iter();
            entries = pairs.map(|[a, b]| Expr::select(set.clone(), b.clone(), a.clone())).collect();
        }
        entries.remove(0)
    }
}

fn float(bits: u32) -> Expr {
    Expr::float(f64::from(f32::from_bits(bits)), DType::F32)
}

/// The matrix whose codes, scales and zero points are constants of their own; `None` where they do not
/// fit. The zero points are the middle code where there are none.
pub fn joined([bits, block, depth]: [i64; 3], parts: &[Literal]) -> Option<Literal> {
    let [codes, scales, zeros @ ..] = parts else { return None };
    let &[columns, _, _] = codes.shape() else { return None };
    let [bits, block, depth, columns] =
        [bits, block, depth, columns].map(|n| usize::try_from(n).ok());
    let (bits, block, depth, columns) = (bits?, block?, depth?, columns?);
    let scales = scales.to_f32()?;
    let meaning = match (common_zero(bits, zeros.first()), zeros) {
        (None, [zeros]) => {
            CodeMeaning::CentredByBlock(zeros.bytes().iter().map(|z| f32::from(*z)).collect())
        }
        (zero, _) => CodeMeaning::Centred(f32::from(zero?)),
    };
    let (dtype, codes) = (DType::F32, codes.clone());
    let matrix = BlockQuantized { dtype, columns, depth, bits, block, codes, scales, meaning };
    Literal::block_quantized(Arc::new(matrix), DepthAxis::First)
}

/// The zero point that all blocks have: the middle code where none are given.
fn common_zero(bits: usize, zeros: Option<&Literal>) -> Option<u8> {
    let Some(zeros) = zeros else { return Some(1 << (bits - 1)) };
    let (first, rest) = zeros.bytes().split_first()?;
    rest.iter().all(|zero| zero == first).then_some(*first)
}

/// The bytes of the packed form of a matrix of codes, in panels of so many columns.
pub fn packed(width: i64, codes: &BlockCodes, value: &Literal) -> Option<AlignedBytes> {
    let (matrix, _) = value.as_block_quantized()?;
    let width = usize::try_from(width).ok().filter(|width| *width > 0)?;
    let lines = usize::try_from(codes.lines(matrix.depth as i64)).ok()?;
    let panels = matrix.columns.div_ceil(width);
    let mut out = AlignedBytes::zeroed(panels * lines * width * 4);
    let from = matrix.codes.bytes();
    for_each_part(out.as_mut(), lines * width * 4, |panel, bytes| {
        let first = panel * width;
        for lane in 0..width.min(matrix.columns - first) {
            let mut set = |line: usize, word: u32| {
                let at = (line * width + lane) * 4;
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            };
            pack_column(codes, matrix, from, first + lane, &mut set);
        }
    });
    Some(out)
}

/// The words of a column, line by line.
fn pack_column(
    codes: &BlockCodes,
    matrix: &BlockQuantized,
    from: &[u8],
    column: usize,
    set: &mut dyn FnMut(usize, u32),
) {
    let [zero_lines, numbers, words, each] =
        [codes.zero_lines(matrix.depth as i64), codes.numbers(), codes.words(), codes.per_word()]
            .map(|n| n as usize);
    let blocks = matrix.blocks();
    let zeros: &[f32] = match &matrix.meaning {
        CodeMeaning::CentredByBlock(zeros) => &zeros[column * blocks..][..blocks],
        CodeMeaning::Centred(_) | CodeMeaning::Table(_) => &[],
    };
    for (line, zeros) in zeros.chunks(each).enumerate().take(zero_lines) {
        let code = |(n, zero): (usize, &f32)| (*zero as u32) << (n * matrix.bits);
        set(line, zeros.iter().enumerate().map(code).fold(0, |word, code| word | code));
    }
    let row = matrix.block * matrix.bits / 8;
    for block in 0..blocks {
        let line = zero_lines + block * (numbers + words);
        set(line, matrix.scales[column * blocks + block].to_bits());
        if numbers == 2 {
            set(line + 1, zeros[block].to_bits());
        }
        let bytes = &from[(column * blocks + block) * row..][..row];
        // The lowest bits are first in both forms.
        for (n, word) in bytes.as_chunks::<4>().0.iter().enumerate() {
            set(line + numbers + n, codes.in_order(u32::from_le_bytes(*word)));
        }
    }
}
