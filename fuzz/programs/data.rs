//! Statements about values of algebraic data types: tags, fields, and functions that recurse over lists
//! and trees and call a closure at each node.
//!
//! Tag 0 is the end of a list; tag 1 has a head and a tail; tag 2 is a tree's node with two children.

use arbitrary::Result;
use reflex_vm::builder::Label;
use reflex_vm::bytecode::{Arg, Reg};

use super::{DATA, Generator, Kind, built};

/// The tags of the values that hosts pass, and one that none has.
const TAGS: i64 = 4;

impl Generator<'_, '_> {
    /// Function number `which` of [`DATA`].
    pub(super) fn over_data(&mut self, which: usize) -> Result<()> {
        if which == 0 { self.fold() } else { self.join() }
    }

    /// `fold(data, f)`.
    fn fold(&mut self) -> Result<()> {
        self.open(DATA[0], vec![Kind::Tuple, Kind::Closure]);
        let [data, f, test, head, tail, result] = [0, 1, 2, 3, 4, 5].map(Reg);
        let next = self.unless_tagged(data, 0, test)?;
        match self.u.int_in_range(0..=2)? {
            0 => self.call("vm.builtin.make_tuple", &[Arg::Imm(0)], result, Kind::Tuple),
            1 => self.call("fuzz.object", &[], result, Kind::Object),
            _ => self.call("vm.builtin.copy", &[Arg::Imm(2)], result, Kind::Int),
        }
        built(self.b.emit_ret(result));
        built(self.b.bind(next));
        let next = self.unless_tagged(data, 1, test)?;
        self.fields(data, [head, tail])?;
        if self.u.ratio(1, 3)? {
            // The head first, as `map` does, and perhaps the tail alone, as `filter` does.
            let args = [self.b.vm_state(), Arg::Reg(f), Arg::Reg(head), Arg::Imm(3)];
            self.call("vm.builtin.invoke_closure", &args, head, Kind::Unknown);
            if self.u.arbitrary()? {
                self.kept(f, tail, test, result)?;
            }
            self.call(DATA[0], &[Arg::Reg(tail), Arg::Reg(f)], tail, Kind::Unknown);
            let args = [Arg::Imm(1), Arg::Reg(head), Arg::Reg(tail)];
            self.call("vm.builtin.make_tuple", &args, result, Kind::Tuple);
        } else {
            self.call(DATA[0], &[Arg::Reg(tail), Arg::Reg(f)], tail, Kind::Unknown);
            let args = [self.b.vm_state(), Arg::Reg(f), Arg::Reg(head), Arg::Reg(tail)];
            self.call("vm.builtin.invoke_closure", &args, result, Kind::Unknown);
        }
        if self.u.ratio(1, 3)? {
            self.call("vm.builtin.null_value", &[], head, Kind::None);
            self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
        }
        built(self.b.emit_ret(result));
        built(self.b.bind(next));
        let next = self.unless_tagged(data, 2, test)?;
        self.fields(data, [head, tail])?;
        for child in [head, tail] {
            self.call(DATA[0], &[Arg::Reg(child), Arg::Reg(f)], child, Kind::Unknown);
        }
        let args = [self.b.vm_state(), Arg::Reg(f), Arg::Reg(head), Arg::Reg(tail)];
        self.call("vm.builtin.invoke_closure", &args, result, Kind::Unknown);
        built(self.b.emit_ret(result));
        built(self.b.bind(next));
        let place = self.b.string("fold");
        self.call("relay.fatal", &[place], Reg::VOID, Kind::None);
        built(self.b.emit_ret(Reg::VOID));
        self.close();
        Ok(())
    }

    /// Returns the answer for the tail where a call on the host says so.
    fn kept(&mut self, f: Reg, tail: Reg, test: Reg, result: Reg) -> Result<()> {
        self.call("fuzz.record", &[], test, Kind::Int);
        let wanted = Arg::Imm(self.u.int_in_range(1..=9)?);
        self.call("relay.equal", &[Arg::Reg(test), wanted], test, Kind::Bool);
        let on = built(self.b.label());
        built(self.b.emit_if(test, on));
        self.call(DATA[0], &[Arg::Reg(tail), Arg::Reg(f)], result, Kind::Unknown);
        built(self.b.emit_ret(result));
        built(self.b.bind(on));
        Ok(())
    }

    /// `join(head, rest)`.
    fn join(&mut self) -> Result<()> {
        self.open(DATA[1], vec![Kind::Unknown, Kind::Unknown]);
        let [head, rest, result, test] = [0, 1, 2, 3].map(Reg);
        let given = [Arg::Reg(head), Arg::Reg(rest)];
        match self.u.int_in_range(0..=4)? {
            0 => self.call("fuzz.add", &[Arg::Imm(1), Arg::Imm(2)], result, Kind::Int),
            1 => self.call("fuzz.record", &given, result, Kind::Int),
            2 => {
                let args = [Arg::Imm(2), given[0], given[1]];
                self.call("vm.builtin.make_tuple", &args, result, Kind::Tuple);
            }
            3 => {
                self.storage(result);
                self.tensor(result, result)?;
                self.call("fuzz.fill", &[Arg::Reg(result), Arg::Imm(4)], Reg::VOID, Kind::None);
            }
            _ => {
                // Takes the answer for the tail apart, which must be a pair.
                let other = self.unless_tagged(rest, 1, test)?;
                self.fields(rest, [result, test])?;
                built(self.b.emit_ret(result));
                built(self.b.bind(other));
                let args = [Arg::Imm(1), given[0], given[1]];
                self.call("vm.builtin.make_tuple", &args, result, Kind::Tuple);
            }
        }
        built(self.b.emit_ret(result));
        self.close();
        Ok(())
    }

    /// A statement about data that the host passed, or that the program makes.
    pub(super) fn data(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=3)? {
            0 => {
                let given = self.given()?;
                self.folded(given)
            }
            1 => self.made(),
            2 => self.matched(),
            _ => self.compared(),
        }
    }

    /// Calls the recursion.
    fn folded(&mut self, data: Arg) -> Result<()> {
        let (closure, result) = (self.spare(0), self.spare(1));
        let args = [self.b.f(DATA[1])];
        self.call("vm.builtin.make_closure", &args, closure, Kind::Closure);
        self.call(DATA[0], &[data, Arg::Reg(closure)], result, Kind::Unknown);
        self.call("fuzz.record", &[Arg::Reg(result)], Reg::VOID, Kind::Int);
        if self.u.arbitrary()? {
            self.call("vm.builtin.null_value", &[], result, Kind::None);
            self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
        }
        Ok(())
    }

    /// A list that a loop makes, and the recursion over it.
    fn made(&mut self) -> Result<()> {
        let last = self.kinds.len() as i64 - 1;
        let (counter, condition, list) = (Reg(last), Reg(last - 1), self.spare(2));
        let times = Arg::Imm(self.u.int_in_range(2..=20)?);
        self.call("vm.builtin.copy", &[times], counter, Kind::Int);
        self.call("vm.builtin.make_tuple", &[Arg::Imm(0)], list, Kind::Tuple);
        let start = built(self.b.label());
        built(self.b.bind(start));
        let before = self.kinds.clone();
        let args = [Arg::Imm(1), Arg::Reg(counter), Arg::Reg(list)];
        self.call("vm.builtin.make_tuple", &args, list, Kind::Tuple);
        self.count_down(counter, condition, start, &before)?;
        self.folded(Arg::Reg(list))
    }

    /// A match on data: one of its fields, or a value for what has another tag.
    fn matched(&mut self) -> Result<()> {
        let (test, head, tail) = (self.spare(0), self.spare(1), self.spare(2));
        let given = Reg(self.u.int_in_range(0..=1)?);
        let tag = self.u.int_in_range(0..=TAGS - 1)?;
        let end = built(self.b.label());
        let other = self.unless_tagged(given, tag, test)?;
        for (at, field) in [(1, head), (2, tail)] {
            self.call(
                "vm.builtin.tuple_getitem",
                &[Arg::Reg(given), Arg::Imm(at)],
                field,
                Kind::Unknown,
            );
        }
        self.call("fuzz.record", &[Arg::Reg(head), Arg::Reg(tail)], Reg::VOID, Kind::Int);
        built(self.b.emit_goto(end));
        built(self.b.bind(other));
        if self.u.ratio(1, 4)? {
            self.call("relay.fatal", &[], Reg::VOID, Kind::None);
        } else {
            self.call("vm.builtin.copy", &[Arg::Imm(tag)], head, Kind::Int);
        }
        built(self.b.bind(end));
        Ok(())
    }

    /// A number or a tensor that Relay programs compare, and a branch.
    fn compared(&mut self) -> Result<()> {
        let (test, value) = (self.spare(0), self.spare(1));
        let number = Arg::Imm(self.u.int_in_range(-2..=2)?);
        if self.u.arbitrary()? {
            let bits = Arg::Imm(*self.u.choose(&[8, 16, 32, 64, 64, 5])?);
            self.call("relay.int", &[number, bits], value, Kind::Tensor);
        } else {
            let given = self.given()?;
            self.call("vm.builtin.copy", &[given], value, Kind::Unknown);
        }
        let right = if self.u.ratio(3, 4)? { number } else { self.given()? };
        self.call("relay.equal", &[Arg::Reg(value), right], test, Kind::Bool);
        let other = built(self.b.label());
        built(self.b.emit_if(test, other));
        self.call("fuzz.record", &[Arg::Reg(value)], Reg::VOID, Kind::Int);
        built(self.b.bind(other));
        self.call("fuzz.record", &[Arg::Reg(test)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// Goes to the label that it returns unless a value has this tag.
    fn unless_tagged(&mut self, data: Reg, tag: i64, test: Reg) -> Result<Label> {
        let other = built(self.b.label());
        self.call("relay.is", &[Arg::Reg(data), Arg::Imm(tag)], test, Kind::Bool);
        built(self.b.emit_if(test, other));
        Ok(other)
    }

    /// Reads both fields, and mostly lets go of what they are fields of.
    fn fields(&mut self, data: Reg, fields: [Reg; 2]) -> Result<()> {
        for (at, field) in (1..).zip(fields) {
            self.call(
                "vm.builtin.tuple_getitem",
                &[Arg::Reg(data), Arg::Imm(at)],
                field,
                Kind::Unknown,
            );
        }
        if self.u.ratio(3, 4)? {
            self.call("vm.builtin.null_value", &[], data, Kind::None);
        }
        Ok(())
    }
}
