//! Cells that functions are called through, so that one store replaces the code of each.
//!
//! A cell has an entry of its own, whose address never changes: it jumps to the address that the cell
//! holds. Arguments stay where they are, so that it serves every signature of the C calling
//! convention. While code is provisional, the entry goes by way of instructions that count the
//! calls; they cost nothing once it is replaced.
//!
//! Cells own no code that they lead to: the owner of replaced code keeps it until no call can be inside.
//!
//! Decision: docs/decisions/0073-tiered-kernels.md

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::error::CodeError;
use crate::pages::{Code, CodeSpace, SegmentSizes};
use instructions::{COUNT, STRIDE};

/// A cell as its instructions know it; a null address is never called.
#[repr(C)]
#[derive(Debug, Default)]
struct Cell {
    target: AtomicPtr<u8>,
    /// Calls that were counted: some of several threads' at once may be lost.
    calls: AtomicU64,
    counted: AtomicPtr<u8>,
}

const _: () = {
    assert!(std::mem::offset_of!(Cell, target) == 0);
    assert!(std::mem::offset_of!(Cell, calls) == instructions::CALLS);
    assert!(std::mem::offset_of!(Cell, counted) == instructions::COUNTED);
};

#[cfg(not(target_arch = "aarch64"))]
mod instructions {
    /// Bytes from one piece of instructions to the next.
    pub const STRIDE: usize = 16;
    /// `inc qword ptr [r11 + 8]; jmp qword ptr [r11 + 16]`: counts a call and goes on to the counted code.
    pub const COUNT: [u8; 8] = [0x49, 0xff, 0x43, 0x08, 0x41, 0xff, 0x63, 0x10];
    /// `movabs r11, CELL`, up to the address; no convention passes anything in `r11`.
    const LOAD_CELL: [u8; 2] = [0x49, 0xbb];
    /// `jmp qword ptr [r11]`.
    const JUMP: [u8; 3] = [0x41, 0xff, 0x23];
    /// `int3`, between pieces.
    const PADDING: u8 = 0xcc;
    /// The places in a cell that the instructions name.
    pub const CALLS: usize = COUNT[3] as usize;
    pub const COUNTED: usize = COUNT[7] as usize;

    pub fn pad(bytes: &mut [u8]) {
        bytes.fill(PADDING);
    }

    /// An entry of the cell at an address.
    pub fn entry(cell: u64) -> Vec<u8> {
        [&LOAD_CELL[..], &cell.to_le_bytes(), &JUMP].concat()
    }
}

#[cfg(target_arch = "aarch64")]
mod instructions {
    /// Bytes from one piece of instructions to the next.
    pub const STRIDE: usize = 32;
    /// `ldr x17, [x16, #8]; add x17, x17, #1; str x17, [x16, #8]; ldr x17, [x16, #16]; br x17`: counts a call
    /// and goes on to the counted code.
    const WORDS: [u32; 5] = [0xf940_0611, 0x9100_0631, 0xf900_0611, 0xf940_0a11, 0xd61f_0220];
    pub const COUNT: [u8; 20] = bytes(WORDS);
    /// `ldr x16, CELL; ldar x17, [x16]; br x17; nop`, and the address; no convention passes anything in
    /// these registers. What was stored before the target is seen behind the acquiring load.
    const ENTRY: [u8; 16] = bytes([0x5800_0090, 0xc8df_fe11, 0xd61f_0220, 0xd503_201f]);
    /// `brk #1`, between pieces.
    const PADDING: [u8; 4] = 0xd420_0020_u32.to_le_bytes();
    /// The places in a cell that the instructions name, in units of eight bytes there.
    pub const CALLS: usize = (WORDS[0] >> 10 & 0xfff) as usize * 8;
    pub const COUNTED: usize = (WORDS[3] >> 10 & 0xfff) as usize * 8;

    const fn bytes<const N: usize, const B: usize>(words: [u32; N]) -> [u8; B] {
        let mut bytes = [0; B];
        let mut at = 0;
        while at < B {
            bytes[at] = words[at / 4].to_le_bytes()[at % 4];
            at += 1;
        }
        bytes
    }

    pub fn pad(bytes: &mut [u8]) {
        bytes.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&PADDING));
    }

    /// An entry of the cell at an address.
    pub fn entry(cell: u64) -> Vec<u8> {
        [&ENTRY[..], &cell.to_le_bytes()].concat()
    }
}

/// Cells with their entries, which live as long as this.
#[derive(Debug)]
pub struct CallCells {
    cells: Box<[Cell]>,
    code: Code,
}

impl CallCells {
    /// Makes `count` cells that lead nowhere. An error where code memory is full, and on CPUs that this
    /// module has no instructions for.
    pub fn new(space: &Arc<CodeSpace>, count: usize) -> Result<CallCells, CodeError> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(CodeError::unsupported("calls through cells are for x86-64 and AArch64"));
        }
        let cells: Box<[Cell]> = (0..count).map(|_| Cell::default()).collect();
        let text = (count + 1) * STRIDE;
        let mut draft = space.draft(&SegmentSizes { text, ..SegmentSizes::default() })?;
        let at = draft.text().start;
        let bytes = &mut draft.bytes_mut()[at..at + text];
        instructions::pad(bytes);
        let (counter, entries) = bytes.split_at_mut(STRIDE);
        counter[..COUNT.len()].copy_from_slice(&COUNT);
        for (entry, cell) in entries.chunks_exact_mut(STRIDE).zip(&cells) {
            let address = (&raw const *cell).addr() as u64;
            let instructions = instructions::entry(address);
            entry[..instructions.len()].copy_from_slice(&instructions);
        }
        Ok(CallCells { cells, code: draft.publish()? })
    }

    /// The address to call cell number `at` by; `None` if there is none.
    pub fn entry(&self, at: usize) -> Option<NonNull<u8>> {
        self.cells.get(at)?;
        self.code.text_at((at + 1) * STRIDE)
    }

    /// Leads the cell to `code`, and counts the calls. Code that it led to before may still be
    /// entered by calls that have begun.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn count_and_call(&self, at: usize, code: NonNull<u8>) {
        let counter = self.code.text_at(0).expect("the counting instructions come first");
        let cell = &self.cells[at];
        cell.counted.store(code.as_ptr(), Ordering::Release);
        cell.target.store(counter.as_ptr(), Ordering::Release);
    }

    /// Leads the cell to `code`, without counting.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn call(&self, at: usize, code: NonNull<u8>) {
        self.cells[at].target.store(code.as_ptr(), Ordering::Release);
    }

    /// Counted calls of a cell; of a number without a cell, none.
    pub fn calls(&self, at: usize) -> u64 {
        self.cells.get(at).map_or(0, |cell| cell.calls.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    extern "C" fn sum(a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64) -> i64 {
        [a, b, c, d, e, f, g, h].iter().sum()
    }

    extern "C" fn last(_: i64, _: i64, _: i64, _: i64, _: i64, _: i64, _: i64, h: i64) -> i64 {
        h
    }

    type Target = extern "C" fn(i64, i64, i64, i64, i64, i64, i64, i64) -> i64;

    fn address(target: Target) -> NonNull<u8> {
        NonNull::new(target as *mut u8).unwrap()
    }

    #[test]
    fn a_store_replaces_what_is_called() {
        let cells = CallCells::new(&CodeSpace::shared().unwrap(), 2).unwrap();
        cells.count_and_call(0, address(sum));
        cells.count_and_call(1, address(last));
        let entry = |at: usize| {
            // SAFETY: the cell leads to functions of this type, and lives as long as the test.
            unsafe { std::mem::transmute::<*mut u8, Target>(cells.entry(at).unwrap().as_ptr()) }
        };
        assert_eq!(entry(0)(1, 2, 3, 4, 5, 6, 7, 8), 36);
        assert_eq!(entry(1)(1, 2, 3, 4, 5, 6, 7, 8), 8);
        assert_eq!(entry(1)(1, 2, 3, 4, 5, 6, 7, 9), 9);
        cells.call(1, address(sum));
        assert_eq!(entry(1)(1, 1, 1, 1, 1, 1, 1, 1), 8);
        assert_eq!((cells.calls(0), cells.calls(1)), (1, 2), "replaced code is not counted");
        assert!(cells.entry(2).is_none() && cells.calls(2) == 0);
    }

    #[test]
    fn threads_call_while_another_replaces() {
        let cells = CallCells::new(&CodeSpace::shared().unwrap(), 1).unwrap();
        cells.count_and_call(0, address(sum));
        let entry = cells.entry(0).unwrap().as_ptr();
        // SAFETY: as above; the threads end before the cells do.
        let call = unsafe { std::mem::transmute::<*mut u8, Target>(entry) };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let answer = call(0, 0, 0, 0, 0, 0, 1, 2);
                        assert!(answer == 3 || answer == 2, "{answer}");
                    }
                });
            }
            for _ in 0..1000 {
                cells.call(0, address(last));
                cells.count_and_call(0, address(sum));
            }
        });
    }
}
