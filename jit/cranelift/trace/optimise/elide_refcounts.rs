//! Reference-count elision: a retain and a release of the same object cancel.
//!
//! Items are stored in tuples as second references, and the registers they came from are released
//! when a function returns. They are loaded as second references, and the tuple is released. If no
//! instruction in between leaves the trace, the reference moves instead, also into a tuple that is made. A second reference that is
//! released before its register is borrowed instead: a side exit in between adds the reference.

use std::collections::HashMap;

use reflex_vm::builtins::Builtin;
use reflex_vm::program::Program;

use super::super::ir::{Arg, Ins, Item, LoadMode, MAX_TAKEN, Object, OwnedValue, Trace, VReg};

/// Most instructions between the retain and the release.
const REACH: usize = 64;

/// Turns copies whose source is released into moves.
pub(super) fn elide_refcounts(_: &Program, trace: &mut Trace) {
    let gone = vec![false; trace.code.len()];
    let mut elision = RefcountElision { gone, names: HashMap::new() };
    for at in 0..trace.code.len() {
        match trace.code[at] {
            Ins::Release { vreg, .. } => {
                elision.register(&mut trace.code, at, vreg);
                elision.tuple(&mut trace.code, at, vreg);
            }
            Ins::Recycle { vreg, .. } => elision.tuple(&mut trace.code, at, vreg),
            Ins::ReleaseOwned { value } => {
                elision.value(&trace.code, at, value);
                elision.borrow(&mut trace.code, at, value);
            }
            _ => {}
        }
    }
    if !elision.gone.contains(&true) {
        return;
    }
    elision.rename(trace);
    let mut gone = elision.gone.into_iter();
    trace.code.retain(|_| !gone.next().unwrap_or(false));
}

struct RefcountElision {
    /// Instructions that are elided.
    gone: Vec<bool>,
    /// Values that became the same reference as others.
    names: HashMap<OwnedValue, OwnedValue>,
}

impl RefcountElision {
    /// The instructions before `at`, nearest first, back to the last one that may leave the trace.
    fn before<'c>(&self, code: &'c [Ins], at: usize) -> impl Iterator<Item = (usize, &'c Ins)> {
        let gone = &self.gone;
        let there = (at.saturating_sub(REACH)..at).rev().map(|at| (at, &code[at]));
        there.filter(|(at, _)| !gone[*at]).take_while(|(_, ins)| !ins.leaves())
    }

    /// The register is released at `at`: the copy out of it becomes a move.
    fn register(&mut self, code: &mut [Ins], at: usize, vreg: VReg) {
        let copies = |ins: &Ins| match ins {
            Ins::LoadOwned { src, mode: LoadMode::Copy, .. } => *src == vreg,
            Ins::Copy { src: Arg::Reg(src, _), .. } => *src == vreg,
            _ => false,
        };
        let touches = |ins: &Ins| ins.reads().contains(&vreg) || ins.writes().contains(&Some(vreg));
        let found = self.before(code, at).find(|(_, ins)| touches(ins));
        let Some((first, _)) = found.filter(|(_, ins)| copies(ins)) else { return };
        let stays = |ins: &Ins| match code[first] {
            Ins::LoadOwned { value, .. } => !concerns(ins, value),
            Ins::Copy { dst, .. } => !ins.writes().contains(&Some(dst)),
            _ => false,
        };
        let between = self.before(code, at).take_while(|(at, _)| *at > first);
        if !between.map(|(_, ins)| ins).all(stays) {
            return;
        }
        code[first] = match code[first] {
            Ins::LoadOwned { value, src, tag, .. } => {
                Ins::LoadOwned { value, src, tag, mode: LoadMode::Move }
            }
            Ins::Copy { dst, .. } => Ins::Move { dst, src: vreg },
            _ => return,
        };
        self.gone[at] = true;
    }

    /// The register is released at `at`: the tuple that was made of it takes over its reference.
    fn tuple(&mut self, code: &mut [Ins], at: usize, vreg: VReg) {
        if self.gone[at] {
            return;
        }
        let gone = &self.gone;
        let before = (at.saturating_sub(REACH)..at).rev().filter(|at| !gone[*at]);
        for before in before {
            let ins = &mut code[before];
            if let Ins::CallBuiltin { builtin: Builtin::MakeTuple, args, taken, .. } = ins {
                let mentions =
                    args.iter().filter(|arg| matches!(arg, Arg::Reg(of, _) if *of == vreg));
                if mentions.count() == 1 && taken.len() < MAX_TAKEN {
                    taken.push(vreg);
                    self.gone[at] = true;
                }
                return;
            }
            let touches = ins.reads().contains(&vreg) || ins.writes().contains(&Some(vreg));
            if touches || ins.leaves() {
                return;
            }
        }
    }

    /// The value is released at `at`: its last copy takes over its reference.
    fn value(&mut self, code: &[Ins], at: usize, value: OwnedValue) {
        let mut quiet = self.before(code, at).take_while(|(_, ins)| !ins.may_run_host_code());
        let Some((first, ins)) = quiet.find(|(_, ins)| concerns(ins, value)) else { return };
        if let Ins::CopyOwned { value: other, of } = *ins
            && of == value
        {
            drop(quiet);
            (self.gone[first], self.gone[at]) = (true, true);
            self.names.insert(other, value);
        }
    }

    /// The value is released at `at`: if its register still holds the object and no instruction in
    /// between can read the reference count, the value borrows the reference of the register.
    fn borrow(&mut self, code: &mut [Ins], at: usize, value: OwnedValue) {
        if self.gone[at] {
            return;
        }
        let mut written = Vec::new();
        for (before, ins) in code[..at].iter_mut().enumerate().rev().take(REACH) {
            match ins {
                _ if self.gone[before] => {}
                Ins::LoadOwned { value: other, src, mode, .. } if *other == value => {
                    if *mode == LoadMode::Copy && !written.contains(src) {
                        self.gone[at] = true;
                        *mode = LoadMode::Borrow;
                    }
                    return;
                }
                Ins::CopyOwned { of, .. } if *of == value => {}
                _ if concerns(ins, value) || ins.may_run_host_code() => return,
                _ => written.extend(ins.writes().into_iter().flatten()),
            }
        }
    }

    fn name(&self, value: OwnedValue) -> OwnedValue {
        self.names.get(&value).map_or(value, |&value| self.name(value))
    }

    fn rename(&self, trace: &mut Trace) {
        for ins in &mut trace.code {
            match ins {
                Ins::CopyOwned { of: value, .. }
                | Ins::StoreOwned { value, .. }
                | Ins::ReleaseOwned { value } => *value = self.name(*value),
                _ => {}
            }
        }
        for object in &mut trace.objects {
            if let Object::Tuple { items } | Object::Closure { captured: items, .. } = object {
                for item in items {
                    if let Item::Owned(value) = item {
                        *value = self.name(*value);
                    }
                }
            }
        }
    }
}

/// Returns true if an instruction reads or writes a value.
fn concerns(ins: &Ins, value: OwnedValue) -> bool {
    match ins {
        Ins::LoadOwned { value: of, .. }
        | Ins::StoreOwned { value: of, .. }
        | Ins::ReleaseOwned { value: of } => *of == value,
        Ins::CopyOwned { value: copy, of } => [*copy, *of].contains(&value),
        _ => false,
    }
}
