//! Known contents of registers within a block, by which constants become arguments and tests of tags
//! need no tensors.

use std::collections::{HashMap, HashSet};

use crate::executable::Function;
use crate::instr::{Instr, Reg, StorageSize};

/// Tests of tags that are remembered at once.
const MAX_TAGS: usize = 64;

/// The known contents of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// The constant of a number.
    Const(usize),
    /// A tensor of this integer.
    Int(i64),
    /// The tag of the data value in a register.
    Tag(Reg),
}

/// The known contents of registers at one place of a function.
#[derive(Default)]
pub struct Facts {
    /// With the number of the block in which each was learnt.
    known: HashMap<Reg, (usize, Fact)>,
    /// Registers with tags, and where the value is.
    tags: Vec<(Reg, Reg)>,
    block: usize,
}

impl Facts {
    /// The contents of a register, if they are known.
    pub fn of(&self, register: Reg) -> Option<Fact> {
        let (block, fact) = self.known.get(&register)?;
        (*block == self.block).then_some(*fact)
    }

    /// Forgets everything: code from elsewhere comes in here.
    pub fn enter_block(&mut self) {
        self.block += 1;
        self.tags.clear();
    }

    /// Learns from an instruction.
    pub fn after(&mut self, instr: &Instr) {
        let Some(dst) = instr.dst() else { return };
        let moved = match instr {
            Instr::Move { from, .. } => self.of(*from),
            _ => None,
        };
        self.known.remove(&dst);
        let stale = self.tags.iter().filter(|(tag, object)| *object == dst || *tag == dst);
        for tag in stale.map(|(tag, _)| *tag).collect::<Vec<_>>() {
            self.known.remove(&tag);
        }
        self.tags.retain(|(tag, object)| *object != dst && *tag != dst);
        let fact = match instr {
            Instr::LoadConst { constant, .. } => Some(Fact::Const(*constant as usize)),
            Instr::LoadConsti { value, .. } => Some(Fact::Int(*value)),
            Instr::GetTag { object, .. } if *object != dst && self.tags.len() < MAX_TAGS => {
                self.tags.push((dst, *object));
                Some(Fact::Tag(*object))
            }
            Instr::Move { from, .. } if *from != dst => {
                moved.filter(|fact| matches!(fact, Fact::Const(_)))
            }
            _ => None,
        };
        if let Some(fact) = fact {
            self.known.insert(dst, (self.block, fact));
        }
    }
}

/// The instructions that jumps go to.
pub fn targets(function: &Function) -> HashSet<usize> {
    let jumps = function.code.iter().enumerate().flat_map(|(at, instr)| {
        let offsets = match instr {
            Instr::Goto { offset } => [Some(*offset), None],
            Instr::If { equal, unequal, .. } => [Some(*equal), Some(*unequal)],
            _ => [None, None],
        };
        offsets.into_iter().flatten().map(move |offset| (at as i64 + offset) as usize)
    });
    jumps.collect()
}

/// The number of writes and reads of a register in a function, and of reads that a fact replaces.
#[derive(Default)]
struct Uses {
    writes: usize,
    reads: usize,
    folded: usize,
}

/// The registers that only instructions read in which a fact replaces them: nothing needs to write
/// them.
pub fn unneeded(
    function: &Function,
    targets: &HashSet<usize>,
    is_scalar: impl Fn(Fact) -> bool,
) -> HashSet<Reg> {
    let mut uses: HashMap<Reg, Uses> = HashMap::new();
    let mut facts = Facts::default();
    for (at, instr) in function.code.iter().enumerate() {
        if targets.contains(&at) {
            facts.enter_block();
        }
        instr.for_each_read(|register| uses.entry(register).or_default().reads += 1);
        for_each_folded(instr, &facts, &is_scalar, |register| {
            uses.entry(register).or_default().folded += 1;
        });
        if let Some(dst) = instr.dst().filter(|_| !matches!(instr, Instr::KillRegister { .. })) {
            uses.entry(dst).or_default().writes += 1;
        }
        facts.after(instr);
    }
    let params = function.params.len() as Reg;
    let only_folded = |(register, uses): (Reg, Uses)| {
        let all = uses.writes == 1 && uses.reads == uses.folded && uses.reads > 0;
        (all && register >= params).then_some(register)
    };
    uses.into_iter().filter_map(only_folded).collect()
}

/// Calls `folded` with each register that an instruction reads and a fact replaces.
fn for_each_folded(
    instr: &Instr,
    facts: &Facts,
    is_scalar: &impl Fn(Fact) -> bool,
    mut folded: impl FnMut(Reg),
) {
    let scalar = |register: Reg| facts.of(register).is_some_and(is_scalar);
    let constant = |register: Reg| matches!(facts.of(register), Some(Fact::Const(_)));
    match instr {
        Instr::If { test, target, .. } => {
            let (left, right) = (facts.of(*test), facts.of(*target));
            let is_tag = |fact: Option<Fact>| matches!(fact, Some(Fact::Tag(_)));
            let tested = (is_tag(left) && scalar(*target)) || (is_tag(right) && scalar(*test));
            for register in [*test, *target] {
                if tested || matches!(facts.of(register), Some(Fact::Const(_) | Fact::Int(_))) {
                    folded(register);
                }
            }
        }
        Instr::AllocStorage { size: StorageSize::Bytes(size), .. } => {
            if scalar(*size) || constant(*size) {
                folded(*size);
            }
        }
        Instr::AllocTensor { storage, offset, .. } => {
            if constant(*storage) {
                folded(*storage);
            }
            if scalar(*offset) || constant(*offset) {
                folded(*offset);
            }
        }
        Instr::AllocTensorReg { storage, offset, shape, .. } => {
            [*storage, *shape].into_iter().filter(|r| constant(*r)).for_each(&mut folded);
            if scalar(*offset) || constant(*offset) {
                folded(*offset);
            }
        }
        // The result is read from a register.
        Instr::Ret { .. } => {}
        other => other.for_each_read(|register| {
            if constant(register) {
                folded(register);
            }
        }),
    }
}
