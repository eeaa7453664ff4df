//! A reference that is added and soon given up elsewhere moves instead.
//!
//! Items go into tuples as second references, and the registers they came from are given up when
//! a function returns; they come out as second references, and the tuple is given up. Between both
//! nothing leaves the trace, so nobody sees that there is one reference less. A second reference
//! that is given up before the register it came from is none: where an exit needs it, it is added.

use std::collections::HashMap;

use reflex_vm::program::Program;

use super::super::ir::{Arg, Held, Hold, Ins, Item, Object, Place, Trace};

/// Most instructions between both.
const REACH: usize = 64;

/// Turns copies with a release of their source into moves.
pub(super) fn pair_counts(_: &Program, trace: &mut Trace) {
    let gone = vec![false; trace.code.len()];
    let mut pairs = Pairs { gone, names: HashMap::new() };
    for at in 0..trace.code.len() {
        match trace.code[at] {
            Ins::Release { place, .. } => pairs.register(&mut trace.code, at, place),
            Ins::DropHeld { held } => {
                pairs.value(&trace.code, at, held);
                pairs.borrow(&mut trace.code, at, held);
            }
            _ => {}
        }
    }
    if !pairs.gone.contains(&true) {
        return;
    }
    pairs.rename(trace);
    let mut gone = pairs.gone.into_iter();
    trace.code.retain(|_| !gone.next().unwrap_or(false));
}

struct Pairs {
    /// Instructions that are not needed.
    gone: Vec<bool>,
    /// Values that are the same reference as others.
    names: HashMap<Held, Held>,
}

impl Pairs {
    /// What comes before `at`, nearest first, as far as nothing leaves the trace.
    fn before<'c>(&self, code: &'c [Ins], at: usize) -> impl Iterator<Item = (usize, &'c Ins)> {
        let gone = &self.gone;
        let there = (at.saturating_sub(REACH)..at).rev().map(|at| (at, &code[at]));
        there.filter(|(at, _)| !gone[*at]).take_while(|(_, ins)| !ins.leaves())
    }

    /// The register is given up at `at`: what was copied out of it before moves.
    fn register(&mut self, code: &mut [Ins], at: usize, place: Place) {
        let copies = |ins: &Ins| match ins {
            Ins::Hold { src, how: Hold::Copy, .. } => *src == place,
            Ins::Copy { src: Arg::Place(src, _), .. } => *src == place,
            _ => false,
        };
        let touches =
            |ins: &Ins| ins.reads().contains(&place) || ins.writes().contains(&Some(place));
        let found = self.before(code, at).find(|(_, ins)| touches(ins));
        let Some((first, _)) = found.filter(|(_, ins)| copies(ins)) else { return };
        let stays = |ins: &Ins| match code[first] {
            Ins::Hold { held, .. } => !concerns(ins, held),
            Ins::Copy { dst, .. } => !ins.writes().contains(&Some(dst)),
            _ => false,
        };
        let between = self.before(code, at).take_while(|(at, _)| *at > first);
        if !between.map(|(_, ins)| ins).all(stays) {
            return;
        }
        code[first] = match code[first] {
            Ins::Hold { held, src, tag, .. } => Ins::Hold { held, src, tag, how: Hold::Move },
            Ins::Copy { dst, .. } => Ins::Move { dst, src: place },
            _ => return,
        };
        self.gone[at] = true;
    }

    /// The value is given up at `at`: its last second reference is it.
    fn value(&mut self, code: &[Ins], at: usize, held: Held) {
        let mut quiet = self.before(code, at).take_while(|(_, ins)| !ins.may_run_host_code());
        let Some((first, ins)) = quiet.find(|(_, ins)| concerns(ins, held)) else { return };
        if let Ins::HoldAgain { held: other, of } = *ins
            && of == held
        {
            drop(quiet);
            (self.gone[first], self.gone[at]) = (true, true);
            self.names.insert(other, held);
        }
    }

    /// The value is given up at `at`: it was a second reference to what is in a register still, and
    /// nobody could count between.
    fn borrow(&mut self, code: &mut [Ins], at: usize, held: Held) {
        if self.gone[at] {
            return;
        }
        let mut written = Vec::new();
        for (before, ins) in code[..at].iter_mut().enumerate().rev().take(REACH) {
            match ins {
                _ if self.gone[before] => {}
                Ins::Hold { held: other, src, how, .. } if *other == held => {
                    if *how == Hold::Copy && !written.contains(src) {
                        self.gone[at] = true;
                        *how = Hold::Borrow;
                    }
                    return;
                }
                Ins::HoldAgain { of, .. } if *of == held => {}
                _ if concerns(ins, held) || ins.may_run_host_code() => return,
                _ => written.extend(ins.writes().into_iter().flatten()),
            }
        }
    }

    fn name(&self, held: Held) -> Held {
        self.names.get(&held).map_or(held, |&held| self.name(held))
    }

    fn rename(&self, trace: &mut Trace) {
        for ins in &mut trace.code {
            match ins {
                Ins::HoldAgain { of: held, .. }
                | Ins::Unhold { held, .. }
                | Ins::DropHeld { held } => *held = self.name(*held),
                _ => {}
            }
        }
        for object in &mut trace.objects {
            if let Object::Tuple { items } | Object::Closure { captured: items, .. } = object {
                for item in items {
                    if let Item::Held(held) = item {
                        *held = self.name(*held);
                    }
                }
            }
        }
    }
}

/// Whether an instruction has to do with a value.
fn concerns(ins: &Ins, value: Held) -> bool {
    match ins {
        Ins::Hold { held, .. } | Ins::Unhold { held, .. } | Ins::DropHeld { held } => {
            *held == value
        }
        Ins::HoldAgain { held, of } => [*held, *of].contains(&value),
        _ => false,
    }
}
