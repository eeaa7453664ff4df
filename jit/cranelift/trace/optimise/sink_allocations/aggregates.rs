//! Tuples and closures, and their items.

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::{Builtin, Closure};

use super::super::super::ir::{
    Arg, BuiltinResult, FrameId, Ins, Item, LoadMode, Object, OwnedValue, Scalar, VReg,
};
use super::EscapeAnalysis;

/// Most items: each may take a machine register.
const MAX_ITEMS: usize = 16;

impl EscapeAnalysis<'_> {
    /// Returns true if a builtin makes a tuple or closure, which becomes virtual.
    pub(super) fn makes_aggregate(
        &mut self,
        at: usize,
        frame: FrameId,
        builtin: Builtin,
        args: &[Arg],
    ) -> bool {
        let closure = match (builtin, args) {
            (Builtin::MakeTuple, _) => None,
            (Builtin::MakeClosure, [func, ..]) => match self.function(*func) {
                Some(func) => Some(func),
                None => return false,
            },
            _ => return false,
        };
        let args = if closure.is_some() { &args[1..] } else { args };
        if !self.may_sink(at) || args.len() > MAX_ITEMS || args.contains(&Arg::Vm) {
            return false;
        }
        let items = args.iter().filter_map(|&arg| self.new_item(arg)).collect();
        let object = match closure {
            Some(func) => Object::Closure { func, captured: items },
            None => Object::Tuple { items },
        };
        let id = self.add_virtual(at, object);
        self.results.insert(frame, Item::Object(id));
        true
    }

    /// The function of a constant closure of the program without captured values.
    fn function(&self, arg: Arg) -> Option<u32> {
        let Arg::Const(index) = arg else { return None };
        let constant = self.program.consts()[index as usize].view();
        let closure = Closure::of(&constant)?;
        let own = closure.program == self.program.id() && closure.captured.is_empty();
        own.then_some(closure.func)
    }

    /// An item that owns a reference to an argument.
    pub(super) fn new_item(&mut self, arg: Arg) -> Option<Item> {
        Some(match arg {
            Arg::Scalar(scalar) => Item::Scalar(scalar),
            Arg::Const(index) => Item::Const(index),
            Arg::Object(object) => Item::Object(object),
            Arg::Vm => return None,
            Arg::Reg(src, tag) => match self.virtuals.get(&src) {
                Some(&object) => {
                    self.add_holder(object);
                    Item::Object(object)
                }
                None => {
                    let value = self.new_value();
                    let mode = LoadMode::Copy;
                    self.emit(Ins::LoadOwned { value, src, tag, mode });
                    Item::Owned(value)
                }
            },
        })
    }

    fn new_value(&mut self) -> OwnedValue {
        self.values += 1;
        OwnedValue(self.values - 1)
    }

    /// Returns true if a builtin reads or checks a virtual tuple or closure.
    pub(super) fn reads_aggregate(
        &mut self,
        frame: FrameId,
        builtin: Builtin,
        args: &[Arg],
    ) -> bool {
        let Some(&Arg::Reg(vreg, _)) = args.first() else { return false };
        let number = match args.get(1) {
            Some(Arg::Scalar(Scalar::Const { tag: type_index::INT, bits })) => Some(*bits),
            _ => None,
        };
        match (builtin, self.virtuals.get(&vreg).map(|&object| self.object(object))) {
            (Builtin::TupleGetItem, Some(Object::Tuple { .. })) => {
                let at = number.and_then(|number| usize::try_from(number).ok());
                let Some(item) = at.and_then(|at| self.item(vreg, at)) else { return false };
                self.results.insert(frame, item);
                true
            }
            (Builtin::CheckTupleInfo, Some(Object::Tuple { items })) => {
                number == Some(items.len() as i64)
            }
            (Builtin::CheckFuncInfo, Some(Object::Closure { .. })) => true,
            _ => false,
        }
    }

    /// Returns true if a builtin tests the tag of a virtual tuple that is headed by a constant.
    pub(super) fn tests_tag(
        &mut self,
        builtin: Builtin,
        args: &[Arg],
        result: BuiltinResult,
    ) -> bool {
        let (Builtin::RelayIs, BuiltinResult::Var(_, var)) = (builtin, result) else {
            return false;
        };
        let &[Arg::Reg(vreg, _), Arg::Scalar(wanted)] = args else { return false };
        let Some(&object) = self.virtuals.get(&vreg) else { return false };
        let (Object::Tuple { items }, Scalar::Const { bits: wanted, .. }) =
            (self.object(object), wanted)
        else {
            return false;
        };
        let holds = match items.first() {
            Some(Item::Scalar(Scalar::Const { tag: type_index::INT, bits })) => *bits == wanted,
            _ => return false,
        };
        self.bind(var, Some(Scalar::Const { tag: type_index::BOOL, bits: i64::from(holds) }))
    }

    /// Returns true if a register holds a virtual closure of this function.
    pub(super) fn is_closure(&self, vreg: VReg, func: u32, captured: u32) -> bool {
        let Some(object) = self.virtuals.get(&vreg) else { return false };
        match self.object(*object) {
            Object::Closure { func: of, captured: items } => {
                *of == func && items.len() == captured as usize
            }
            Object::Storage { .. }
            | Object::Tensor { .. }
            | Object::View { .. }
            | Object::Tuple { .. }
            | Object::Shape { .. }
            | Object::Heap { .. } => false,
        }
    }

    /// A second reference to an item of the virtual object in a register.
    pub(super) fn item(&mut self, vreg: VReg, at: usize) -> Option<Item> {
        let item = *self.object(*self.virtuals.get(&vreg)?).items().get(at)?;
        match item {
            Item::Object(object) => self.add_holder(object),
            Item::Owned(of) => {
                let value = self.new_value();
                self.emit(Ins::CopyOwned { value, of });
                return Some(Item::Owned(value));
            }
            Item::Scalar(_) | Item::Const(_) => {}
        }
        Some(item)
    }

    /// Moves an item into an empty register.
    pub(super) fn assign(&mut self, item: Item, dst: VReg) {
        match item {
            Item::Object(object) => drop(self.virtuals.insert(dst, object)),
            Item::Owned(value) => self.emit(Ins::StoreOwned { dst, value }),
            Item::Scalar(value) => self.emit(Ins::Store { dst, value }),
            Item::Const(index) => self.emit(Ins::Copy { dst, src: Arg::Const(index), refs: 1 }),
        }
    }

    /// Releases a reference to an item.
    pub(super) fn release_item(&mut self, item: Item) {
        match item {
            Item::Object(object) => self.drop_holder(object),
            Item::Owned(value) => self.emit(Ins::ReleaseOwned { value }),
            Item::Scalar(_) | Item::Const(_) => {}
        }
    }
}
