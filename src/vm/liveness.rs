//! Liveness of registers, and last uses of values.
//!
//! Live-in sets are kept per basic block and refined within one on demand. A dead register
//! reads as None in every tier, so its value may be released early.
//! Functions whose live sets would be huge get none, and all their registers count as live.

use crate::bytecode::{Arg, Instr, Reg};
use crate::executable::{Executable, Function};
use crate::text::instr_range;
use crate::verify::Verified;

/// Most 64-bit words of live sets for one function.
const MAX_WORDS: usize = 1 << 20;

/// A set of registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegSet(Box<[u64]>);

impl RegSet {
    fn empty(num_regs: usize) -> RegSet {
        RegSet(vec![0; num_regs.div_ceil(64)].into())
    }

    /// Whether `reg` is in the set.
    pub fn contains(&self, reg: u32) -> bool {
        let word = self.0.get(reg as usize / 64).copied().unwrap_or(0);
        word >> (reg % 64) & 1 != 0
    }

    /// Adds `reg`.
    pub fn insert(&mut self, reg: u32) {
        self.0[reg as usize / 64] |= 1 << (reg % 64);
    }

    /// Removes `reg`.
    pub fn remove(&mut self, reg: u32) {
        self.0[reg as usize / 64] &= !(1 << (reg % 64));
    }

    /// The registers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word as u32 * 64 + bit)
        })
    }

    /// Adds every register of `other`; returns true if one was new.
    fn union(&mut self, other: &RegSet) -> bool {
        let mut grew = false;
        for (word, &more) in self.0.iter_mut().zip(&other.0) {
            grew |= more & !*word != 0;
            *word |= more;
        }
        grew
    }
}

struct Block {
    start: usize,
    end: usize,
    /// Registers live at the start.
    live_in: RegSet,
}

/// Liveness of one function.
pub struct Liveness<'e> {
    exec: &'e Executable,
    first: usize,
    num_regs: usize,
    /// Ascending and adjacent; empty when there are no facts.
    blocks: Vec<Block>,
}

impl<'e> Liveness<'e> {
    /// Computes the facts of `function`, a VM function of `exec`.
    pub fn of(exec: &'e Verified<Executable>, function: &Function) -> Liveness<'e> {
        let range = instr_range(function);
        let num_regs = function.register_file_size as usize;
        let mut live = Liveness { exec, first: range.start, num_regs, blocks: Vec::new() };
        let starts = block_starts(exec, range.clone());
        if starts.len() * num_regs.div_ceil(64) > MAX_WORDS {
            return live;
        }
        let ends = starts.iter().skip(1).copied().chain([range.len()]);
        live.blocks = starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| Block { start, end, live_in: RegSet::empty(num_regs) })
            .collect();
        live.solve();
        live
    }

    /// Whether there are facts; without them every register counts as live.
    pub fn is_known(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn instr(&self, pc: usize) -> Instr<'e> {
        self.exec.instr(self.first + pc).expect("verified code decodes")
    }

    fn block_at(&self, pc: usize) -> usize {
        self.blocks.partition_point(|block| block.start <= pc) - 1
    }

    /// Registers live at the end of block `index`.
    fn live_out(&self, index: usize) -> RegSet {
        let mut live = RegSet::empty(self.num_regs);
        let last = self.blocks[index].end - 1;
        for next in successors(self.instr(last), last).into_iter().flatten() {
            live.union(&self.blocks[self.block_at(next)].live_in);
        }
        live
    }

    fn solve(&mut self) {
        loop {
            let mut changed = false;
            for index in (0..self.blocks.len()).rev() {
                let mut live = self.live_out(index);
                for pc in (self.blocks[index].start..self.blocks[index].end).rev() {
                    step_back(&mut live, self.instr(pc));
                }
                changed |= self.blocks[index].live_in.union(&live);
            }
            if !changed {
                return;
            }
        }
    }

    /// Registers that may be read after the operation at `pc` has run; None when there
    /// are no facts.
    pub fn live_after(&self, pc: usize) -> Option<RegSet> {
        if !self.is_known() {
            return None;
        }
        let block = self.block_at(pc);
        let mut live = self.live_out(block);
        for later in (pc + 1..self.blocks[block].end).rev() {
            step_back(&mut live, self.instr(later));
        }
        Some(live)
    }

    /// Calls `visit` with each operation, last one first within its block, and the
    /// registers live after it.
    pub fn for_each(&self, mut visit: impl FnMut(usize, &RegSet)) {
        for (index, block) in self.blocks.iter().enumerate() {
            let mut live = self.live_out(index);
            for pc in (block.start..block.end).rev() {
                visit(pc, &live);
                step_back(&mut live, self.instr(pc));
            }
        }
    }
}

/// Where control may go from `pc`.
fn successors(instr: Instr<'_>, pc: usize) -> [Option<usize>; 2] {
    let jump = |offset: i64| Some((pc as i64 + offset) as usize);
    match instr {
        Instr::Call { .. } => [Some(pc + 1), None],
        Instr::Ret { .. } => [None, None],
        Instr::Goto { offset } => [jump(offset), None],
        Instr::If { false_offset, .. } => [Some(pc + 1), jump(false_offset)],
    }
}

fn block_starts(exec: &Executable, range: std::ops::Range<usize>) -> Vec<usize> {
    let mut starts = vec![0];
    for pc in 0..range.len() {
        let instr = exec.instr(range.start + pc).expect("verified code decodes");
        if matches!(instr, Instr::Call { .. }) {
            continue;
        }
        starts.extend(successors(instr, pc).into_iter().flatten());
        starts.push(pc + 1);
    }
    starts.sort_unstable();
    starts.dedup();
    starts.retain(|&start| start < range.len());
    starts
}

fn step_back(live: &mut RegSet, instr: Instr<'_>) {
    match instr {
        Instr::Call { dst, args, .. } => {
            if let (false, Some(dst)) = (dst.discards(), dst.index()) {
                live.remove(dst);
            }
            for arg in args.iter() {
                if let Ok(Arg::Reg(reg)) = arg {
                    needs(live, reg);
                }
            }
        }
        Instr::Ret { result } => needs(live, result),
        Instr::Goto { .. } => {}
        Instr::If { cond, .. } => needs(live, cond),
    }
}

fn needs(live: &mut RegSet, reg: Reg) {
    if let (false, Some(index)) = (reg.discards(), reg.index()) {
        live.insert(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::ExecBuilder;
    use crate::verify::verify;

    #[test]
    fn a_loop_keeps_what_its_next_turn_reads() {
        let mut b = ExecBuilder::new();
        b.function("main", 2).unwrap();
        let (top, done) = (b.label().unwrap(), b.label().unwrap());
        b.bind(top).unwrap();
        b.emit_call("f", &[b.r(0)], b.r(2)).unwrap(); // 0
        b.emit_if(Reg(2), done).unwrap(); // 1
        b.emit_goto(top).unwrap(); // 2
        b.bind(done).unwrap();
        b.emit_ret(Reg(1)).unwrap(); // 3
        b.end_function().unwrap();
        let exec = verify(b.finish().unwrap()).unwrap();
        let live = Liveness::of(&exec, &exec.functions[0]);
        let after = |pc| live.live_after(pc).unwrap().iter().collect::<Vec<_>>();
        assert_eq!(after(0), [0, 1, 2]);
        assert_eq!(after(1), [0, 1]);
        assert_eq!(after(2), [0, 1]);
        assert!(after(3).is_empty());
    }
}
