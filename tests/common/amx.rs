//! Matrix instructions (Intel AMX) on CPUs without them, so that the machine code of kernels runs
//! as it is: a handler of the signal for unknown instructions decodes and does them.
//!
//! Written from Intel's manual ("Intel Architecture Instruction Set Extensions Programming
//! Reference", chapter 3): tiles are 16 rows of 64 bytes, what an instruction does not write of
//! its result is zero, and products of bfloat16 are added as `TDPBF16PS` says. A faulting
//! instruction is left to the next handler when it is none of these.
#![allow(dead_code, reason = "each test file uses a part")]

use std::cell::UnsafeCell;
use std::sync::Once;

/// 8 registers and their extents.
#[derive(Clone, Copy)]
pub struct Unit {
    pub configured: bool,
    pub rows: [u8; 8],
    pub row_bytes: [u16; 8],
    pub tiles: [[[u8; 64]; 16]; 8],
    /// Instructions done.
    pub count: u64,
}

const INITIAL: Unit = Unit {
    configured: false,
    rows: [0; 8],
    row_bytes: [0; 8],
    tiles: [[[0; 64]; 16]; 8],
    count: 0,
};

thread_local! {
    static UNIT: UnsafeCell<Unit> = const { UnsafeCell::new(INITIAL) };
}

/// This thread's registers as they are now.
pub fn unit() -> Unit {
    // SAFETY: only this thread has the cell, and its handler runs only at instructions of kernels.
    UNIT.with(|unit| unsafe { *unit.get() })
}

/// Whether this thread's registers are configured, emulated or not.
pub fn is_configured() -> bool {
    if reflex_runtime::amx::detect().is_none() {
        return unit().configured;
    }
    let mut configuration = [0xff_u8; 64];
    // SAFETY: the CPU has the instruction, which writes 64 bytes.
    unsafe { std::arch::asm!("sttilecfg [{}]", in(reg) &raw mut configuration) };
    configuration != [0; 64]
}

/// Has matrix instructions emulated in this process from now on.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all zeros is a valid `sigaction`; its fields are set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        // On the stack of the thread: the registers take more than alternate stacks have.
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for.
        let status =
            unsafe { libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) };
        assert_eq!(status, 0, "a handler for SIGILL");
    });
}

extern "C" fn handle(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes this thread's saved context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let rip = registers[libc::REG_RIP as usize] as *const u8;
    let done = UNIT.with(|unit| {
        // SAFETY: the fault is in a kernel, so nothing on this thread uses the cell.
        let unit = unsafe { &mut *unit.get() };
        // SAFETY: `rip` is at code; instructions have at most 15 bytes, and code pages end in more.
        let code = unsafe { std::slice::from_raw_parts(rip, 15) };
        Instruction::decode(code).and_then(|instruction| instruction.run(unit, registers))
    });
    match done {
        Some(length) => registers[libc::REG_RIP as usize] += length as i64,
        None => {
            // The default action, when the instruction faults again.
            // SAFETY: `SIG_DFL` is a valid action, and `signal` may be called in a handler.
            unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
        }
    }
}

/// A VEX-encoded instruction with opcode map 0F38, W and L zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Mandatory prefix: 0 none, 1 66, 2 F3, 3 F2.
    prefix: u8,
    opcode: u8,
    /// `vvvv`, not inverted.
    third: u8,
    form: Form,
    length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Registers { reg: u8, rm: u8 },
    Memory { reg: u8, base: Option<u8>, index: Option<(u8, u8)>, displacement: i32 },
}

/// Places of the general registers, in the order of their numbers, in a saved context.
const GENERAL: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

impl Instruction {
    pub fn decode(code: &[u8]) -> Option<Instruction> {
        let &[0xc4, first, second, opcode, modrm, ref rest @ ..] = code else { return None };
        // The three-byte form, opcode map 2, W0, 128 bits.
        if first & 0x1f != 2 || second & 0x84 != 0 {
            return None;
        }
        let extended = |bit: u8| if first & bit == 0 { 8 } else { 0 };
        let (mode, reg, rm) = (modrm >> 6, modrm >> 3 & 7 | extended(0x80), modrm & 7);
        let third = !(second >> 3) & 0xf;
        let of = |form, more: usize| Instruction {
            prefix: second & 3,
            opcode,
            third,
            form,
            length: 5 + more,
        };
        if mode == 3 {
            return Some(of(Form::Registers { reg, rm: rm | extended(0x20) }, 0));
        }
        let (mut base, mut index, mut used) = (Some(rm | extended(0x20)), None, 0);
        if rm == 4 {
            let sib = *rest.first()?;
            used = 1;
            let number = sib >> 3 & 7 | extended(0x40);
            index = (number != 4).then_some((number, sib >> 6));
            base = Some(sib & 7 | extended(0x20));
            if mode == 0 && sib & 7 == 5 {
                base = None;
            }
        } else if mode == 0 && rm == 5 {
            return None; // Relative to the instruction: no kernel has that.
        }
        let (displacement, bytes) = match (mode, base) {
            (1, _) => (i32::from(*rest.get(used)? as i8), 1),
            (2, _) | (0, None) => {
                (i32::from_le_bytes(rest.get(used..used + 4)?.try_into().ok()?), 4)
            }
            _ => (0, 0),
        };
        Some(of(Form::Memory { reg, base, index, displacement }, used + bytes))
    }

    /// Does it and answers its length; `None` when it is not a matrix instruction, or would fault.
    fn run(self, unit: &mut Unit, registers: &[i64; 23]) -> Option<usize> {
        match (self.opcode, self.prefix, self.form) {
            (0x49, 0, Form::Registers { reg: 0, rm: 0 }) => {
                let count = unit.count;
                *unit = Unit { count, ..INITIAL };
            }
            (0x49, 3, Form::Registers { reg, rm: 0 }) => unit.zero(reg)?,
            (0x49, 0, Form::Memory { reg: 0, .. }) => {
                let address = self.address(registers)?.0 as *const [u8; 64];
                // SAFETY: the kernel would read these bytes itself.
                let bytes = unsafe { address.read_unaligned() };
                unit.configure(&bytes)?;
            }
            (0x49, 1, Form::Memory { reg: 0, .. }) => {
                let address = self.address(registers)?.0 as *mut [u8; 64];
                // SAFETY: the kernel would write these bytes itself.
                unsafe { address.write_unaligned(unit.configuration()) };
            }
            (0x4b, 1 | 3, Form::Memory { reg, index, .. }) => {
                // Without an index register it is still the form with the extra byte.
                let (address, stride) = self.address(registers)?;
                index.or(Some((0, 0)))?;
                // SAFETY: the kernel would read these rows itself.
                unit.load(reg, |row, to| unsafe {
                    let from = (address + row as i64 * stride) as *const u8;
                    std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
                })?;
            }
            (0x4b, 2, Form::Memory { reg, .. }) => {
                let (address, stride) = self.address(registers)?;
                // SAFETY: the kernel would write these rows itself.
                unit.store(reg, |row, from| unsafe {
                    let to = (address + row as i64 * stride) as *mut u8;
                    std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
                })?;
            }
            (0x5c, 2, Form::Registers { reg, rm }) => unit.dot_bf16(reg, rm, self.third)?,
            (0x5e, prefix, Form::Registers { reg, rm }) => {
                // A signed and B signed by prefix: F2 both, F3 the first, 66 the second.
                let signed = [(false, false), (false, true), (true, false), (true, true)];
                unit.dot_int8(reg, rm, self.third, signed[prefix as usize])?;
            }
            _ => return None,
        }
        unit.count += 1;
        Some(self.length)
    }

    /// The address of a memory operand without its index, and the index scaled: the stride.
    fn address(&self, registers: &[i64; 23]) -> Option<(i64, i64)> {
        let Form::Memory { base, index, displacement, .. } = self.form else { return None };
        let value = |number: u8| registers[GENERAL[number as usize] as usize];
        let address = base.map_or(0, value).wrapping_add(i64::from(displacement));
        let stride = index.map_or(0, |(number, scale)| value(number) << scale);
        Some((address, stride))
    }
}

impl Unit {
    pub fn configure(&mut self, bytes: &[u8; 64]) -> Option<()> {
        let count = self.count;
        *self = Unit { count, ..INITIAL };
        match bytes[0] {
            0 => return Some(()),
            1 if bytes[1] == 0 => {}
            _ => return None,
        }
        // What is reserved must be zero.
        if bytes[2..16].iter().chain(&bytes[32..48]).chain(&bytes[56..]).any(|b| *b != 0) {
            return None;
        }
        for n in 0..8 {
            let row_bytes = u16::from_le_bytes([bytes[16 + 2 * n], bytes[17 + 2 * n]]);
            let rows = bytes[48 + n];
            if row_bytes > 64 || rows > 16 || (row_bytes == 0) != (rows == 0) {
                return None;
            }
            (self.row_bytes[n], self.rows[n]) = (row_bytes, rows);
        }
        self.configured = true;
        Some(())
    }

    fn configuration(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0] = u8::from(self.configured);
        for n in 0..8 {
            bytes[16 + 2 * n..][..2].copy_from_slice(&self.row_bytes[n].to_le_bytes());
            bytes[48 + n] = self.rows[n];
        }
        bytes
    }

    /// Rows and bytes per row of a register that the configuration has.
    fn extents(&self, n: u8) -> Option<(usize, usize)> {
        let n = n as usize;
        let valid = self.configured && n < 8 && self.rows[n] > 0;
        valid.then(|| (self.rows[n] as usize, self.row_bytes[n] as usize))
    }

    fn zero(&mut self, n: u8) -> Option<()> {
        self.extents(n)?;
        self.tiles[n as usize] = [[0; 64]; 16];
        Some(())
    }

    fn load(&mut self, n: u8, mut row: impl FnMut(usize, &mut [u8])) -> Option<()> {
        let (rows, bytes) = self.extents(n)?;
        let mut tile = [[0; 64]; 16];
        (0..rows).for_each(|r| row(r, &mut tile[r][..bytes]));
        self.tiles[n as usize] = tile;
        Some(())
    }

    fn store(&self, n: u8, mut row: impl FnMut(usize, &[u8])) -> Option<()> {
        let (rows, bytes) = self.extents(n)?;
        (0..rows).for_each(|r| row(r, &self.tiles[n as usize][r][..bytes]));
        Some(())
    }

    /// Rows, words and columns of a product, whose registers must fit and differ.
    fn product(&self, c: u8, a: u8, b: u8) -> Option<(usize, usize, usize)> {
        let ((m, n), (rows, k), (depth, columns)) =
            (self.extents(c)?, self.extents(a)?, self.extents(b)?);
        let fits = rows == m && columns == n && k == depth * 4;
        let whole = n % 4 == 0 && k % 4 == 0 && c != a && c != b && a != b;
        (fits && whole).then_some((m, k / 4, n / 4))
    }

    fn word(&self, tile: u8, row: usize, word: usize) -> [u8; 4] {
        let bytes = &self.tiles[tile as usize][row][4 * word..][..4];
        [bytes[0], bytes[1], bytes[2], bytes[3]]
    }

    /// Stores a result's words; what lies beyond is zero.
    fn finish(
        &mut self,
        c: u8,
        (m, n): (usize, usize),
        word: impl Fn(&Unit, usize, usize) -> [u8; 4],
    ) {
        let mut result = [[0; 64]; 16];
        for (row, words) in result.iter_mut().enumerate().take(m) {
            for column in 0..n {
                words[4 * column..][..4].copy_from_slice(&word(self, row, column));
            }
        }
        self.tiles[c as usize] = result;
    }

    pub fn dot_bf16(&mut self, c: u8, a: u8, b: u8) -> Option<()> {
        let (m, words, n) = self.product(c, a, b)?;
        self.finish(c, (m, n), |unit, row, column| {
            let mut sums = [0_f32; 2];
            for k in 0..words {
                let (x, y) = (unit.word(a, row, k), unit.word(b, k, column));
                for (half, sum) in sums.iter_mut().enumerate() {
                    let value = |w: [u8; 4]| {
                        let bits = u16::from_le_bytes([w[2 * half], w[2 * half + 1]]);
                        f32::from_bits(u32::from(bits) << 16)
                    };
                    *sum = multiply_add(value(x), value(y), *sum);
                }
            }
            let both = multiply_add(1.0, sums[0], sums[1]);
            let old = f32::from_le_bytes(unit.word(c, row, column));
            multiply_add(1.0, old, both).to_le_bytes()
        });
        Some(())
    }

    pub fn dot_int8(&mut self, c: u8, a: u8, b: u8, signed: (bool, bool)) -> Option<()> {
        let (m, words, n) = self.product(c, a, b)?;
        let value = |byte: u8, signed| match signed {
            true => i32::from(byte as i8),
            false => i32::from(byte),
        };
        self.finish(c, (m, n), |unit, row, column| {
            let mut sum = i32::from_le_bytes(unit.word(c, row, column));
            for k in 0..words {
                let (x, y) = (unit.word(a, row, k), unit.word(b, k, column));
                for (x, y) in x.into_iter().zip(y) {
                    sum = sum.wrapping_add(value(x, signed.0) * value(y, signed.1));
                }
            }
            sum.to_le_bytes()
        });
        Some(())
    }
}

/// `a * b + c` rounded once to nearest even, with subnormal operands and results as zero. Works
/// in float64 rounded to odd, which no second rounding can turn the wrong way; `a * b` must be
/// exact there.
pub fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    let wide = |x: f32| f64::from(if x.is_subnormal() { 0_f32.copysign(x) } else { x });
    let (product, c) = (wide(a) * wide(b), wide(c));
    let sum = product + c;
    if !sum.is_finite() || sum == 0.0 {
        return sum as f32;
    }
    // What the addition lost (Knuth).
    let of_c = sum - product;
    let lost = (product - (sum - of_c)) + (c - of_c);
    let towards_zero = lost != 0.0 && (lost > 0.0) != (sum > 0.0);
    let mut bits = sum.to_bits() - u64::from(towards_zero);
    bits |= u64::from(lost != 0.0);
    let odd = f64::from_bits(bits);
    if odd.abs() > 2_f64.powi(-100) {
        return odd as f32;
    }
    // Rounded where 24 bits are normal, then looked at.
    let scaled = (odd * 2_f64.powi(64)) as f32;
    match scaled.abs() < 2_f32.powi(-62) {
        true => 0_f32.copysign(scaled),
        false => (f64::from(scaled) * 2_f64.powi(-64)) as f32,
    }
}
