//! Small programs, of a few statements that together have an effect: they are compiled in a fraction
//! of the time, and no other statement writes the registers that they use.

use arbitrary::Result;
use reflex_vm::bytecode::{Arg, Reg};

use super::{DEPTH, Generator, Kind, built};

impl Generator<'_, '_> {
    /// The body of a function of a small program.
    pub(super) fn scenes(&mut self) -> Result<()> {
        if !self.in_main {
            return self.block(DEPTH, 3);
        }
        for _ in 0..self.u.int_in_range(1..=3)? {
            if self.u.ratio(1, 6)? {
                self.many_times()?;
            } else {
                self.scene()?;
            }
        }
        Ok(())
    }

    fn scene(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=15)? {
            0 | 1 => self.hand_over(),
            2 => self.capture(),
            3 => self.vm_call(),
            4 => self.overwrite(),
            5 if self.cycle > 0 => self.descend(),
            5 => self.closure(),
            6 => self.check(),
            7 => self.builtin(),
            _ => self.themed(),
        }
    }

    /// One of them in a loop.
    fn many_times(&mut self) -> Result<()> {
        let last = self.kinds.len() as i64 - 1;
        let (counter, condition) = (Reg(last), Reg(last - 1));
        let times = Arg::Imm(self.u.int_in_range(2..=6)?);
        self.call("vm.builtin.copy", &[times], counter, Kind::Int);
        let start = built(self.b.label());
        built(self.b.bind(start));
        let before = self.kinds.clone();
        self.scene()?;
        self.count_down(counter, condition, start, &before)
    }
}
