//! Values of algebraic data types: tuples headed by tags, matches of them, and lists, which recursive
//! functions build, map through a closure, and fold.

use arbitrary::Result;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind, built};

/// The functions over lists, where 0 is the tag of an empty list and 1 that of a head and a tail.
pub(super) const LISTS: [&str; 3] = ["list_of", "map_of", "fold_of"];

impl Generator<'_, '_> {
    /// Statements about one value of a data type, or about a list.
    pub(super) fn adts(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=6)? {
            0 => {
                let given = self.given()?;
                self.match_value(given)
            }
            1 | 2 => self.match_made(),
            3 => self.list_in_loop(),
            4 => self.compare(),
            _ => self.list_functions(),
        }
    }

    /// A match of a value: what it does depends on the tag.
    fn match_value(&mut self, value: Arg) -> Result<()> {
        let (field, condition) = (self.spare(2), self.spare(-1));
        let end = built(self.b.label());
        for _ in 0..self.u.int_in_range(1..=3)? {
            let tag = Arg::Imm(self.u.int_in_range(0..=2)?);
            let next = built(self.b.label());
            self.call("relay.is", &[value, tag], condition, Kind::Bool);
            built(self.b.emit_if(condition, next));
            let args = [value, Arg::Imm(self.u.int_in_range(0..=2)?)];
            self.call("vm.builtin.tuple_getitem", &args, field, Kind::Unknown);
            self.call("fuzz.record", &[tag, Arg::Reg(field)], Reg::VOID, Kind::Int);
            if self.u.ratio(2, 3)? {
                built(self.b.emit_goto(end));
            }
            built(self.b.bind(next));
        }
        if self.u.ratio(1, 8)? {
            self.call("relay.fatal", &[], Reg::VOID, Kind::None);
        }
        built(self.b.bind(end));
        self.call("fuzz.record", &[Arg::Reg(condition)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A match of a value that was made before, perhaps with a tag that the arguments decide.
    fn match_made(&mut self) -> Result<()> {
        let (value, other) = (self.spare(0), self.spare(1));
        let mut tag = Arg::Imm(self.u.int_in_range(0..=2)?);
        if self.u.ratio(1, 3)? {
            let args = [self.given()?, tag, Arg::Imm(1)];
            self.call("fuzz.pick", &args, other, Kind::Int);
            tag = Arg::Reg(other);
        }
        let field = self.given()?;
        let args = [tag, field, Arg::Imm(self.u.int_in_range(0..=6)?)];
        self.call("vm.builtin.make_tuple", &args, value, Kind::Tuple);
        if self.u.ratio(1, 6)? {
            let args = [Arg::Reg(value), Arg::Imm(self.u.int_in_range(0..=1)?)];
            self.call("vm.builtin.tuple_reset_item", &args, Reg::VOID, Kind::None);
        }
        if self.u.ratio(1, 4)? {
            let args = [self.given()?, Arg::Reg(value), Arg::Reg(Reg(1))];
            self.call("fuzz.pick", &args, value, Kind::Unknown);
        }
        if self.u.ratio(1, 4)? {
            self.call("vm.builtin.copy", &[Arg::Reg(value)], other, Kind::Tuple);
        }
        self.match_value(Arg::Reg(value))?;
        if self.u.ratio(1, 4)? {
            self.match_value(Arg::Reg(value))?;
        }
        if self.u.arbitrary()? {
            self.call("vm.builtin.null_value", &[], value, Kind::None);
        }
        self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A comparison of an argument, which may be a scalar tensor, with a number.
    fn compare(&mut self) -> Result<()> {
        let result = self.spare(0);
        let number = Arg::Imm(*self.u.choose(&[0, 1, 2, 1 << 32])?);
        let mut args = [self.given()?, number];
        if self.u.arbitrary()? {
            self.call("relay.int", &[number, Arg::Imm(64)], result, Kind::Tensor);
            args[1] = Arg::Reg(result);
        }
        if self.u.arbitrary()? {
            args.reverse();
        }
        self.call("relay.equal", &args, result, Kind::Bool);
        self.call("fuzz.record", &[Arg::Reg(result)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A list that a loop builds and another one takes apart.
    fn list_in_loop(&mut self) -> Result<()> {
        let [list, item, condition, count] = [0, 1, 2, -1].map(|which| self.spare(which));
        self.call("vm.builtin.make_tuple", &[Arg::Imm(0)], list, Kind::Tuple);
        let length = Arg::Imm(self.u.int_in_range(0..=9)?);
        self.call("vm.builtin.copy", &[length], count, Kind::Int);
        let (top, built_up) = (built(self.b.label()), built(self.b.label()));
        built(self.b.bind(top));
        self.call("fuzz.less", &[Arg::Imm(0), Arg::Reg(count)], condition, Kind::Bool);
        built(self.b.emit_if(condition, built_up));
        let mut head = count;
        if self.u.ratio(1, 3)? {
            self.call("fuzz.object", &[], item, Kind::Object);
            head = item;
        }
        let args = [Arg::Imm(1), Arg::Reg(head), Arg::Reg(list)];
        self.call("vm.builtin.make_tuple", &args, list, Kind::Tuple);
        self.call("fuzz.add", &[Arg::Reg(count), Arg::Imm(-1)], count, Kind::Int);
        built(self.b.emit_goto(top));
        built(self.b.bind(built_up));
        let (top, end) = (built(self.b.label()), built(self.b.label()));
        built(self.b.bind(top));
        self.call("relay.is", &[Arg::Reg(list), Arg::Imm(1)], condition, Kind::Bool);
        built(self.b.emit_if(condition, end));
        let args = [Arg::Reg(list), Arg::Imm(1)];
        self.call("vm.builtin.tuple_getitem", &args, item, Kind::Unknown);
        self.call("fuzz.record", &[Arg::Reg(item)], Reg::VOID, Kind::Int);
        let args = [Arg::Reg(list), Arg::Imm(2)];
        self.call("vm.builtin.tuple_getitem", &args, list, Kind::Tuple);
        if self.u.ratio(1, 3)? {
            self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
        }
        built(self.b.emit_goto(top));
        built(self.b.bind(end));
        Ok(())
    }

    /// Calls of the functions over lists.
    fn list_functions(&mut self) -> Result<()> {
        if !self.lists {
            return self.match_made();
        }
        let (list, closure, result) = (self.spare(0), self.spare(1), self.spare(2));
        let length = Arg::Imm(self.u.int_in_range(2..=40)?);
        self.call(LISTS[0], &[length], list, Kind::Tuple);
        let folds = self.u.arbitrary()?;
        if self.u.ratio(1, 3)? {
            let host = self.b.f("fuzz.record");
            self.call("vm.builtin.copy", &[host], closure, Kind::Closure);
        } else {
            let (name, parameters) = self.u.choose(&self.functions)?.clone();
            let given = if folds { 2 } else { 1 };
            self.closure_of(&name, parameters.saturating_sub(given), closure);
        }
        let own = [Arg::Reg(closure), Arg::Reg(list)];
        if folds {
            let args = [own[0], self.given()?, own[1]];
            self.call(LISTS[2], &args, result, Kind::Unknown);
        } else {
            self.call(LISTS[1], &own, result, Kind::Tuple);
        }
        if self.u.arbitrary()? {
            self.call("vm.builtin.null_value", &[], list, Kind::None);
        }
        self.call("fuzz.record", &[Arg::Reg(result)], Reg::VOID, Kind::Int);
        self.call("vm.builtin.null_value", &[], result, Kind::None);
        self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// Function number `which` of those over lists.
    pub(super) fn list_function(&mut self, which: usize) -> Result<()> {
        match which {
            0 => self.list_of(),
            1 => self.map_of(),
            _ => self.fold_of(),
        }
    }

    fn list_of(&mut self) -> Result<()> {
        self.open(LISTS[0], vec![Kind::Int]);
        let [count, condition, head, list] = [0, 1, 2, 3].map(Reg);
        let bottom = built(self.b.label());
        self.call("fuzz.less", &[Arg::Imm(0), Arg::Reg(count)], condition, Kind::Bool);
        built(self.b.emit_if(condition, bottom));
        self.call("fuzz.add", &[Arg::Reg(count), Arg::Imm(-1)], head, Kind::Int);
        self.call(LISTS[0], &[Arg::Reg(head)], list, Kind::Tuple);
        if self.u.ratio(1, 3)? {
            self.call("fuzz.object", &[], head, Kind::Object);
        }
        let args = [Arg::Imm(1), Arg::Reg(head), Arg::Reg(list)];
        self.call("vm.builtin.make_tuple", &args, list, Kind::Tuple);
        built(self.b.emit_ret(list));
        built(self.b.bind(bottom));
        self.call("vm.builtin.make_tuple", &[Arg::Imm(0)], list, Kind::Tuple);
        built(self.b.emit_ret(list));
        self.close();
        Ok(())
    }

    /// The head and the tail of a list, whose register may be released.
    fn uncons(&mut self, list: Reg, head: Reg, tail: Reg) -> Result<()> {
        for (at, dst) in [(1, head), (2, tail)] {
            let args = [Arg::Reg(list), Arg::Imm(at)];
            self.call("vm.builtin.tuple_getitem", &args, dst, Kind::Unknown);
        }
        if self.u.arbitrary()? {
            self.call("vm.builtin.null_value", &[], list, Kind::None);
        }
        Ok(())
    }

    fn map_of(&mut self) -> Result<()> {
        self.open(LISTS[1], vec![Kind::Closure, Kind::Tuple]);
        let [function, list, condition, head, tail] = [0, 1, 2, 3, 4].map(Reg);
        let some = built(self.b.label());
        self.call("relay.is", &[Arg::Reg(list), Arg::Imm(0)], condition, Kind::Bool);
        built(self.b.emit_if(condition, some));
        built(self.b.emit_ret(list));
        built(self.b.bind(some));
        self.uncons(list, head, tail)?;
        let args = [self.b.vm_state(), Arg::Reg(function), Arg::Reg(head)];
        self.call("vm.builtin.invoke_closure", &args, head, Kind::Unknown);
        let args = [Arg::Reg(function), Arg::Reg(tail)];
        self.call(LISTS[1], &args, tail, Kind::Tuple);
        let args = [Arg::Imm(1), Arg::Reg(head), Arg::Reg(tail)];
        self.call("vm.builtin.make_tuple", &args, list, Kind::Tuple);
        built(self.b.emit_ret(list));
        self.close();
        Ok(())
    }

    fn fold_of(&mut self) -> Result<()> {
        self.open(LISTS[2], vec![Kind::Closure, Kind::Unknown, Kind::Tuple]);
        let [function, from, list, condition, head, tail] = [0, 1, 2, 3, 4, 5].map(Reg);
        let none = built(self.b.label());
        self.call("relay.is", &[Arg::Reg(list), Arg::Imm(1)], condition, Kind::Bool);
        built(self.b.emit_if(condition, none));
        self.uncons(list, head, tail)?;
        let args = [Arg::Reg(function), Arg::Reg(from), Arg::Reg(tail)];
        self.call(LISTS[2], &args, tail, Kind::Unknown);
        let args = [self.b.vm_state(), Arg::Reg(function), Arg::Reg(head), Arg::Reg(tail)];
        self.call("vm.builtin.invoke_closure", &args, tail, Kind::Unknown);
        built(self.b.emit_ret(tail));
        built(self.b.bind(none));
        built(self.b.emit_ret(from));
        self.close();
        Ok(())
    }
}
