//! Recursive functions, by name or through closures, to a depth given by their first parameter.

use arbitrary::Result;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind, built};

/// A recursion in which two functions that differ only in what they log call the first one: when it
/// returns, only the caller's frame tells which of them called.
pub(super) const LADDER: [&str; 3] = ["rung", "up", "down"];

/// The name of such a function.
pub(super) fn name(which: u32) -> String {
    format!("deep{which}")
}

impl Generator<'_, '_> {
    /// Function number `which` of the cycle of calls: `deep(n, x)` calls the next one with `n - 1`
    /// while `n` is positive, mostly with an object of its own alive meanwhile.
    pub(super) fn recursive(&mut self, which: u32) -> Result<()> {
        self.open(&name(which), vec![Kind::Int, Kind::Unknown]);
        let [object, made] = [Reg(2), Reg(3)];
        let [condition, result] = [Reg(6), Reg(7)];
        if self.u.ratio(2, 3)? {
            self.call("fuzz.object", &[], object, Kind::Object);
        }
        if self.u.ratio(1, 2)? {
            self.storage(made);
            self.tensor(made, made)?;
        }
        if self.u.ratio(1, 2)? {
            self.protected(2)?;
        }
        let bottom = built(self.b.label());
        self.call("fuzz.less", &[Arg::Imm(0), Arg::Reg(Reg(0))], condition, Kind::Bool);
        built(self.b.emit_if(condition, bottom));
        self.deeper(which + 1, result)?;
        if self.u.ratio(1, 8)? {
            // A second call, at another instruction.
            self.deeper(which, result)?;
        }
        if self.u.ratio(1, 2)? {
            self.protected(2)?;
        }
        if self.u.ratio(1, 2)? {
            self.call("fuzz.record", &[Arg::Reg(object), Arg::Reg(result)], Reg::VOID, Kind::Int);
        }
        let back = if self.u.ratio(2, 3)? { result } else { self.register(None)? };
        built(self.b.emit_ret(back));
        built(self.b.bind(bottom));
        let last = self.register(None)?;
        built(self.b.emit_ret(last));
        self.close();
        Ok(())
    }

    /// Function number `which` of the ladder; all take a count.
    pub(super) fn ladder(&mut self, which: usize) -> Result<()> {
        self.open(LADDER[which], vec![Kind::Int]);
        let [count, condition, less, result] = [0, 1, 2, 3].map(Reg);
        if which > 0 {
            self.call(LADDER[0], &[Arg::Reg(count)], result, Kind::Unknown);
            let args = [Arg::Imm(which as i64), Arg::Reg(result)];
            self.call("fuzz.record", &args, result, Kind::Int);
        } else {
            let (down, bottom) = (built(self.b.label()), built(self.b.label()));
            self.call("fuzz.less", &[Arg::Imm(0), Arg::Reg(count)], condition, Kind::Bool);
            built(self.b.emit_if(condition, bottom));
            self.call("fuzz.add", &[Arg::Reg(count), Arg::Imm(-1)], less, Kind::Int);
            let turn = Arg::Imm(self.u.int_in_range(1..=30)?);
            self.call("fuzz.less", &[Arg::Reg(count), turn], condition, Kind::Bool);
            built(self.b.emit_if(condition, down));
            self.call(LADDER[1], &[Arg::Reg(less)], result, Kind::Int);
            built(self.b.emit_ret(result));
            built(self.b.bind(down));
            self.call(LADDER[2], &[Arg::Reg(less)], result, Kind::Int);
            built(self.b.emit_ret(result));
            built(self.b.bind(bottom));
            self.call("vm.builtin.null_value", &[], result, Kind::None);
        }
        built(self.b.emit_ret(result));
        self.close();
        Ok(())
    }

    /// Statements that leave the count alone.
    fn protected(&mut self, statements: u32) -> Result<()> {
        let count = Reg(4);
        self.call("vm.builtin.copy", &[Arg::Reg(Reg(0))], count, Kind::Int);
        self.block(2, statements)?;
        if self.u.ratio(7, 8)? {
            self.call("vm.builtin.copy", &[Arg::Reg(count)], Reg(0), Kind::Int);
        }
        Ok(())
    }

    /// Calls the next function of the cycle with a smaller count.
    fn deeper(&mut self, which: u32, result: Reg) -> Result<()> {
        let count = Reg(5);
        let less = self.u.int_in_range(1..=3)?;
        self.call("fuzz.add", &[Arg::Reg(Reg(0)), Arg::Imm(-less)], count, Kind::Int);
        let passed = match self.u.int_in_range(0..=3)? {
            0 => self.any_argument()?,
            1 => Arg::Reg(Reg(3)),
            _ => Arg::Reg(Reg(1)),
        };
        let dst = if self.u.ratio(1, 12)? { Reg::VOID } else { result };
        let next = name(which % self.cycle);
        if self.closures && self.u.ratio(7, 8)? {
            // The value that is passed on is a closure of the first of them.
            let own = Arg::Reg(Reg(1));
            let args = [self.b.vm_state(), own, Arg::Reg(count), own];
            self.call("vm.builtin.invoke_closure", &args, dst, Kind::Unknown);
        } else if self.u.ratio(1, 6)? {
            let args = [self.b.f(&next), passed];
            self.call("vm.builtin.make_closure", &args, result, Kind::Closure);
            let args = [self.b.vm_state(), Arg::Reg(result), Arg::Reg(count)];
            self.call("vm.builtin.invoke_closure", &args, dst, Kind::Unknown);
        } else {
            self.call(&next, &[Arg::Reg(count), passed], dst, Kind::Unknown);
        }
        Ok(())
    }

    /// Calls the first of them.
    pub(super) fn descend(&mut self) -> Result<()> {
        let deepest = *self.u.choose(&[12, 40, 40, 400])?;
        let count = Arg::Imm(self.u.int_in_range(3..=deepest)?);
        let dst = self.destination()?;
        if self.ladder && self.u.arbitrary()? {
            self.call(LADDER[0], &[count], dst, Kind::Unknown);
            return Ok(());
        }
        if self.closures && self.u.ratio(7, 8)? {
            let own = Reg(self.kinds.len() as i64 - 1);
            let args = [self.b.f(&name(0))];
            self.call("vm.builtin.make_closure", &args, own, Kind::Closure);
            self.call(&name(0), &[count, Arg::Reg(own)], dst, Kind::Unknown);
            return Ok(());
        }
        let args = [count, self.any_argument()?];
        self.call(&name(0), &args, dst, Kind::Unknown);
        Ok(())
    }
}
