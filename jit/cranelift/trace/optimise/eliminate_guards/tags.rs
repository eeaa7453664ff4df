//! Tags of ADT values: those that tests have told, and tests whose outcome is known.

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::{Builtin, Reentrancy};

use super::super::super::ir::{Arg, BuiltinResult, Ins, Scalar, Var};
use super::{KnownValues, int};

impl KnownValues {
    /// Replaces a test of a known tag by a constant.
    pub(super) fn fold_tag_test(&self, ins: &mut Ins) {
        let Ins::CallBuiltin { builtin: Builtin::RelayIs, args, result, .. } = ins else { return };
        let (Some(&Arg::Reg(vreg, _)), Some(wanted)) = (args.first(), int(args.get(1))) else {
            return;
        };
        let BuiltinResult::Var(tag, var) = *result else { return };
        let Some(known) = self.at.get(&vreg).map(|&value| &self.known[value]) else { return };
        let holds = match known.adt {
            Some(tag) => tag == wanted,
            None if known.other_adts.contains(&wanted) => false,
            None => return,
        };
        *ins = Ins::Let { var, value: Scalar::Const { tag, bits: i64::from(holds) } };
    }

    /// Forgets the tags of values that host code is given: `tuple_reset_item` overwrites an item of what
    /// only the register refers to.
    pub(super) fn forget_tags(&mut self, ins: &Ins) {
        let args = match ins {
            Ins::CallPacked { args, .. } | Ins::CallFunction { args, .. } => args,
            Ins::CallBuiltin { builtin, args, .. }
                if builtin.reentrancy() == Reentrancy::MayReenter =>
            {
                args
            }
            _ => return,
        };
        for arg in args {
            let Arg::Reg(vreg, _) = arg else { continue };
            let Some(&value) = self.at.get(vreg) else { continue };
            let known = &mut self.known[value];
            known.adt = None;
            known.other_adts.clear();
            self.tested.retain(|_, (tested, _)| *tested != value);
        }
    }

    /// Notes what a variable says.
    pub(super) fn test_tag(&mut self, args: &[Arg], result: BuiltinResult) {
        if let (Some(&Arg::Reg(vreg, Some(type_index::ARRAY))), Some(wanted)) =
            (args.first(), int(args.get(1)))
            && let BuiltinResult::Var(_, var) = result
        {
            let value = self.of(vreg);
            self.tested.insert(var, (value, wanted));
        }
    }

    /// Returns true if it is known that a variable is true or false; it is known afterwards.
    pub(super) fn truth(&mut self, var: Var, expected: bool) -> bool {
        if let Some(&bits) = self.constants.get(&var) {
            return (bits != 0) == expected;
        }
        if let Some(&(value, tag)) = self.tested.get(&var) {
            let known = &mut self.known[value];
            match expected {
                true => known.adt = Some(tag),
                false => known.other_adts.push(tag),
            }
        }
        false
    }
}
