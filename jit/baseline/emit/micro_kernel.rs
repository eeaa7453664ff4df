//! Calls of micro-kernels: their words, filled in from the loops.
//!
//! Decision: docs/decisions/0086-micro-kernels.md

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use reflex_tir::{DType, For, Stmt};

use crate::emit::Emitter;
use crate::error::Result;
use crate::micro_kernel::{MicroKernel, Vectors, find, find_behind_zeros};

impl Emitter<'_, '_, '_> {
    /// The loop as a micro-kernel for this CPU.
    pub(super) fn micro_kernel<'l>(&self, l: &'l For) -> Option<MicroKernel<'l>> {
        find(self.func, l, self.unit.units?)
    }

    /// The micro-kernel that two statements are, of which the first fills its tile with zeros.
    pub(super) fn micro_kernel_behind_zeros<'l>(&self, all: &'l [Stmt]) -> Option<MicroKernel<'l>> {
        let [zeros, Stmt::For(l), ..] = all else { return None };
        let kernel = find_behind_zeros(self.func, zeros, l, self.unit.units?)?;
        kernel.always_runs().then_some(kernel)
    }

    /// Runs the loops, if each has an iteration.
    pub(super) fn call_micro_kernel(&mut self, kernel: &MicroKernel<'_>) -> Result<()> {
        let after = self.b.create_block();
        for l in &kernel.loops {
            let extent = self.uniform_int(&l.extent, "a loop's extent")?;
            match self.known(extent) {
                Some(n) if n > 0 => {}
                _ => {
                    let some = self.b.create_block();
                    let zero = self.i64(0);
                    let any = self.b.ins().icmp(IntCC::SignedGreaterThan, extent, zero);
                    self.b.ins().brif(any, some, &[], after, &[]);
                    self.b.switch_to_block(some);
                }
            }
        }
        let form = &kernel.form;
        let words = self.stack_memory((form.words() * 8) as u32);
        let tile = self.base(kernel.accumulators)?;
        self.store_at(tile, words, 0);
        for (pointer, (buffer, at)) in kernel.starts().into_iter().enumerate() {
            let at = self.uniform_int(&at, "an index")?;
            let base = self.base(buffer)?;
            let address = self.element(base, at, DType::F32);
            self.store_at(address, words, word(1 + pointer));
        }
        for (at, value) in kernel.words() {
            let value = self.uniform_int(&value, "a number of a loop")?;
            self.store_at(value, words, word(at));
        }
        if let Some(lanes) = &kernel.mask {
            let lanes = self.uniform_int(lanes, "a number of lanes")?;
            self.store_mask(kernel, lanes, words);
        }
        let function = self.unit.micro_kernel(form)?;
        self.call(function, &[words]);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        Ok(())
    }

    /// The words of a mask for the first `lanes` lanes, of which there may be fewer or more.
    fn store_mask(&mut self, kernel: &MicroKernel<'_>, lanes: Value, words: Value) {
        let (form, at) = (&kernel.form, kernel.form.word_of_mask());
        let (none, most) = (self.i64(0), self.i64(63));
        let lanes = self.b.ins().smax(lanes, none);
        let lanes = self.b.ins().smin(lanes, most);
        match form.vectors {
            Vectors::Avx512 => {
                let one = self.i64(1);
                let above = self.b.ins().ishl(one, lanes);
                let bits = self.b.ins().isub(above, one);
                self.store_at(bits, words, word(at));
            }
            Vectors::Avx2 => {
                self.store_at(lanes, words, word(at));
                for (n, pair) in form.iota().into_iter().enumerate() {
                    let pair = self.i64(pair);
                    self.store_at(pair, words, word(at + 1 + n));
                }
            }
        }
    }
}

/// The distance of a word, in bytes.
fn word(at: usize) -> i32 {
    at as i32 * 8
}
