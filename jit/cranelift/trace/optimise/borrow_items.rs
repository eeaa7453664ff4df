//! Borrowed items: a tuple keeps its items alive, so that they need no references of their own.
//!
//! A match takes the fields of a value out and releases it, and the function releases the fields in its
//! turn. Where a register that took an item is released in the same stretch of code, it borrows the item,
//! and the tuple is released behind it: neither of two atomic additions is made. An item may be a
//! tuple whose items are borrowed, as along a list: then only the first tuple is held.
//!
//! A stretch calls no function that is given the item, since that could see too low a count. A side exit in it adds
//! the references that its registers borrow, and then releases the tuple that is held.
//!
//! Sources: borrowing in reference-counted languages (Ullrich and de Moura, "Counting Immutable Beans",
//! IFL 2019).
//!
//! Decision: docs/decisions/0090-free-tensors.md

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::Builtin;
use reflex_vm::program::Program;

use super::super::ir::{Arg, BuiltinResult, Ins, LoadMode, OwnedValue, Snapshot, Trace, VReg};
use super::lifetimes::{Lifetime, shows_counts};

/// Borrows the items of tuples.
pub(super) fn borrow_items(_: &Program, trace: &mut Trace) {
    let mut pass = Borrowing { items: Vec::new(), held: Vec::new() };
    for at in 1..trace.code.len() {
        pass.item(&trace.code, at);
    }
    if pass.items.is_empty() {
        return;
    }
    pass.rewrite(trace);
}

/// An item that a register borrows.
struct BorrowedItem {
    /// The instruction that takes it, behind its load.
    load: usize,
    /// The release of its register, which has no reference.
    release: usize,
    /// For each instruction between them, the register that holds it before the instruction.
    places: Vec<VReg>,
    /// The tuple that keeps it alive, if that is released in this stretch.
    root: Option<usize>,
}

/// A tuple that is held longer.
struct HeldTuple {
    /// Its release.
    release: usize,
    /// The release of an item that it is released behind.
    until: usize,
}

struct Borrowing {
    items: Vec<BorrowedItem>,
    held: Vec<HeldTuple>,
}

impl Borrowing {
    /// Tries to borrow the item that the instruction at `load` takes.
    fn item(&mut self, code: &[Ins], load: usize) -> Option<()> {
        let (item, tuple) = loaded(code, load)?;
        let Lifetime { places, end: release, .. } = Lifetime::of(code, load + 1, item);
        let Ins::Release { .. } = code.get(release)? else { return None };
        if code[load + 1..release].iter().any(shows_counts) {
            return None;
        }
        let root = self.root(code, load, tuple, release)?;
        if let Some(root) = root {
            match self.held.iter_mut().find(|held| held.release == root) {
                Some(held) => held.until = held.until.max(release),
                None => self.held.push(HeldTuple { release: root, until: release }),
            }
        }
        self.items.push(BorrowedItem { load, release, places, root });
        Some(())
    }

    /// The release of the tuple that keeps an item of the tuple in a register alive up to the release of
    /// the item; an inner `None` if it is alive whatever this pass does. `None` if nothing does.
    fn root(
        &self,
        code: &[Ins],
        load: usize,
        tuple: VReg,
        release: usize,
    ) -> Option<Option<usize>> {
        let mut around = self.items.iter().filter(|item| item.load < load && load < item.release);
        if let Some(item) = around.find(|item| item.places[load - item.load - 1] == tuple) {
            // The tuple is borrowed itself.
            return match item.root {
                Some(root) => Some(Some(root)),
                None => (release <= item.release).then_some(None),
            };
        }
        let end = Lifetime::of(code, load + 1, tuple).end;
        if end > release {
            return Some(None);
        }
        matches!(code[end], Ins::Release { .. }).then_some(Some(end))
    }

    fn rewrite(self, trace: &mut Trace) {
        let first = trace.owned_values;
        trace.owned_values += self.held.len() as u32;
        let value = |index: usize| OwnedValue(first + index as u32);
        let (items, held) = (&self.items, &self.held);
        trace.change_snapshots(|at, exit| {
            let borrowed = items.iter().filter(|item| item.load < at && at < item.release);
            let borrowed = borrowed.map(|item| item.places[at - item.load - 1]);
            let mut exit: Snapshot = exit.clone();
            exit.borrowed.extend(borrowed);
            let late = held.iter().enumerate().filter(|(_, it)| it.release < at && at <= it.until);
            exit.held.extend(late.map(|(index, _)| value(index)));
            exit
        });
        let old = std::mem::take(&mut trace.code);
        let mut code = Vec::with_capacity(old.len());
        for (at, mut ins) in old.into_iter().enumerate() {
            if items.iter().any(|item| item.load == at + 1)
                && let Ins::CallBuiltin { borrows, .. } = &mut ins
            {
                *borrows = true;
            }
            let holds = held.iter().position(|held| held.release == at);
            match (ins, holds) {
                (Ins::Release { vreg, .. }, Some(index)) => {
                    let (value, tag) = (value(index), Some(type_index::ARRAY));
                    code.push(Ins::LoadOwned { value, src: vreg, tag, mode: LoadMode::Move });
                }
                (Ins::Release { vreg, .. }, None)
                    if items.iter().any(|item| item.release == at) =>
                {
                    code.push(Ins::Forget { vreg });
                }
                (ins, _) => code.push(ins),
            }
            for (index, _) in held.iter().enumerate().filter(|(_, held)| held.until == at) {
                code.push(Ins::ReleaseOwned { value: value(index) });
            }
        }
        trace.code = code;
    }
}

/// The register that takes an item at `at`, which the instruction before loads, and that of the tuple.
fn loaded(code: &[Ins], at: usize) -> Option<(VReg, VReg)> {
    let &[
        Ins::CallBuiltin {
            builtin: Builtin::TupleGetItem,
            inline: true,
            ref args,
            result: BuiltinResult::Slot,
            frame: of,
            ..
        },
        Ins::TakeResult { frame, dst },
    ] = code.get(at.checked_sub(1)?..=at)?
    else {
        return None;
    };
    match args[..] {
        [Arg::Reg(tuple, Some(type_index::ARRAY)), _] if of == frame => Some((dst, tuple)),
        _ => None,
    }
}
