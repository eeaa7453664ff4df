//! Statements that call: the host, kernels, functions of the program, closures.

use arbitrary::Result;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, HELPERS, Kind, SCRATCH, built};

impl Generator<'_, '_> {
    pub(super) fn host_call(&mut self) -> Result<()> {
        let dst = self.destination()?;
        match self.u.int_in_range(0..=15)? {
            // Not the first one, which is what there is when bytes run out.
            6 | 8 => {
                let arg = self.argument(Kind::Int)?;
                self.call("fuzz.fail_on_odd", &[arg], dst, Kind::Int);
            }
            9 => self.call("fuzz.fail_leaving", &[], dst, Kind::Object),
            10 => {
                let given = self.in_main.then_some(Arg::Reg(Reg(0)));
                let args: Vec<Arg> = given.into_iter().collect();
                self.call("fuzz.cancel", &args, Reg::VOID, Kind::Int);
                self.vm_call()?;
            }
            1 | 11 => self.call("fuzz.object", &[], dst, Kind::Object),
            7 | 12 => self.call("fuzz.alive", &[], dst, Kind::Int),
            2 | 13 => {
                let args = [self.argument(Kind::Tensor)?, self.argument(Kind::Int)?];
                self.call("fuzz.fill", &args, dst, Kind::None);
            }
            3 | 14 => {
                let arg = self.argument(Kind::Tensor)?;
                self.call("fuzz.size", &[arg], dst, Kind::Int);
            }
            _ => {
                let mut args = Vec::new();
                for _ in 0..self.u.int_in_range(0..=3)? {
                    args.push(self.any_argument()?);
                }
                self.call("fuzz.record", &args, dst, Kind::Int);
            }
        }
        Ok(())
    }

    /// A kernel, mostly on tensors of shapes that it accepts.
    pub(super) fn kernel(&mut self) -> Result<()> {
        let dst = self.destination()?;
        let scratch = self.kinds.len() as i64 - 3;
        let (storage, made) = (Reg(scratch), Reg(scratch + self.u.int_in_range(0..=1)?));
        if self.u.arbitrary()? {
            self.storage(storage);
            self.tensor(storage, made)?;
        }
        let given = self.kinds.len() > SCRATCH as usize + 1 && self.u.ratio(1, 3)?;
        let args = if given {
            // Arguments of `main`, perhaps.
            [Arg::Reg(Reg(0)), Arg::Reg(Reg(1))]
        } else {
            [self.argument(Kind::Tensor)?, self.argument(Kind::Tensor)?]
        };
        let name = if self.u.ratio(2, 3)? { "fuzz.each" } else { "fuzz.rows" };
        self.call(name, &args, dst, Kind::None);
        Ok(())
    }

    pub(super) fn arithmetic(&mut self) -> Result<()> {
        let args = [self.argument(Kind::Int)?, self.argument(Kind::Int)?];
        let dst = self.destination()?;
        if self.u.arbitrary()? {
            self.call("fuzz.add", &args, dst, Kind::Int);
        } else {
            self.call("fuzz.less", &args, dst, Kind::Bool);
        }
        Ok(())
    }

    pub(super) fn vm_call(&mut self) -> Result<()> {
        let (name, parameters) = self.u.choose(&self.functions)?.clone();
        let mut args = Vec::new();
        for _ in 0..parameters {
            let arg =
                if self.u.ratio(1, 2)? { self.argument(Kind::Int)? } else { self.any_argument()? };
            args.push(arg);
        }
        let dst = self.destination()?;
        self.call(&name, &args, dst, Kind::Unknown);
        Ok(())
    }

    pub(super) fn make_closure(&mut self, dst: Reg) -> Result<()> {
        let (name, parameters) = self.u.choose(&self.functions)?.clone();
        let mut args = vec![self.b.f(&name)];
        // Calls pass the other arguments; see `closure`.
        for _ in 0..parameters.saturating_sub(1) {
            args.push(self.any_argument()?);
        }
        self.call("vm.builtin.make_closure", &args, dst, Kind::Closure);
        Ok(())
    }

    pub(super) fn closure(&mut self) -> Result<()> {
        let dst = self.destination()?;
        if self.u.ratio(1, 4)? {
            return self.make_closure(dst);
        }
        let back = self.u.ratio(1, 4)?;
        let kind = if back || self.u.ratio(3, 4)? { Kind::Closure } else { Kind::Object };
        let mut args = vec![self.b.vm_state(), self.argument(kind)?];
        let given = if self.u.ratio(7, 8)? { 1 } else { self.u.int_in_range(0..=2)? };
        for _ in 0..given {
            args.push(self.any_argument()?);
        }
        let callee = if back { "fuzz.call_back" } else { "vm.builtin.invoke_closure" };
        self.call(callee, &args, dst, Kind::Unknown);
        Ok(())
    }

    /// A closure over all parameters of a function but the last, each of them different, called
    /// twice: captured values come in order.
    pub(super) fn capture(&mut self) -> Result<()> {
        let most = self.functions.iter().max_by_key(|(_, parameters)| *parameters).cloned();
        let Some((name, parameters)) = most else { return Ok(()) };
        let (dst, at) = (Reg(self.kinds.len() as i64 - 4), self.u.int_in_range(0..=3)?);
        let captured = parameters.saturating_sub(1).into();
        let mut args = vec![self.b.f(&name)];
        args.extend((0..captured).map(|which| Arg::Imm(at + which)));
        self.call("vm.builtin.make_closure", &args, dst, Kind::Closure);
        let result = self.destination()?;
        for _ in 0..2 {
            let mut args = vec![self.b.vm_state(), Arg::Reg(dst)];
            args.extend((parameters > 0).then_some(Arg::Imm(-1)));
            self.call("vm.builtin.invoke_closure", &args, result, Kind::Unknown);
        }
        let args: Vec<Arg> = result.index().map(|_| Arg::Reg(result)).into_iter().collect();
        self.call("fuzz.record", &args, Reg::VOID, Kind::Int);
        Ok(())
    }

    /// An object whose only register is passed to a function as its last use, or overwritten by the
    /// result, if there is one; the host may call back before the result is read.
    pub(super) fn hand_over(&mut self) -> Result<()> {
        let helpers = self.functions.len() > 2 && self.u.arbitrary()?;
        let helper = *self.u.choose(&HELPERS)?;
        let (name, parameters) = match self.functions.iter().find(|(name, _)| name == helper) {
            Some(helper) if helpers => helper.clone(),
            _ => self.u.choose(&self.functions)?.clone(),
        };
        let dst = Reg(self.u.int_in_range(0..=self.kinds.len() as i64 - 1)?);
        let closure = Reg(self.kinds.len() as i64 - 4);
        let back = self.u.ratio(1, 2)?;
        if back {
            self.make_closure(closure)?;
        }
        self.call("fuzz.object", &[], dst, Kind::Object);
        let given = self.u.arbitrary()?;
        let mut args = Vec::new();
        for at in 0..parameters {
            args.push(if at == 0 && given { Arg::Reg(dst) } else { Arg::Imm(at.into()) });
        }
        // It is moved when the register is neither written by the call nor read again.
        let result = if self.u.ratio(1, 3)? { Reg::VOID } else { dst };
        self.call(&name, &args, result, Kind::Unknown);
        if back {
            let args = [self.b.vm_state(), Arg::Reg(closure), Arg::Imm(1)];
            self.call("fuzz.call_back", &args, Reg::VOID, Kind::Unknown);
        }
        if result == dst {
            self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int);
        }
        self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// Function number `which` of the helpers.
    pub(super) fn helper(&mut self, which: usize) -> Result<()> {
        self.open(HELPERS[which], vec![Kind::Unknown]);
        let (given, made) = (Reg(0), Reg(1));
        if which > 1 {
            self.call(HELPERS[1], &[Arg::Reg(given)], made, Kind::Unknown);
            let args = [Arg::Imm(which as i64), Arg::Reg(made)];
            self.call("fuzz.record", &args, made, Kind::Int);
        } else if which > 0 && self.u.arbitrary()? {
            self.call("fuzz.record", &[Arg::Reg(given)], made, Kind::Int);
        } else if which > 0 {
            self.call("vm.builtin.null_value", &[], given, Kind::None);
            self.call("fuzz.alive", &[], made, Kind::Int);
        } else if self.u.arbitrary()? {
            self.call("fuzz.object", &[], made, Kind::Object);
        } else {
            self.call("vm.builtin.make_tuple", &[Arg::Reg(given), Arg::Imm(3)], made, Kind::Tuple);
        }
        built(self.b.emit_ret(made));
        self.close();
        Ok(())
    }
}
