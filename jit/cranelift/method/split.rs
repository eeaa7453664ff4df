//! Splitting of long functions into several bodies, because Cranelift limits the size of functions.
//!
//! Each body covers a range of operations. Registers live in the frame, so control moves between
//! bodies by a jump that passes the operation. Register facts hold across bodies.
//!
//! Decision: docs/decisions/0007-splitting-long-functions.md

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{FunctionBuilder, Switch};
use reflex_vm::decode::{FuncCode, Op};

use super::MethodBody;
use super::entries::body_signature;
use crate::assemble::{CodeUnit, UnitFunc};

/// The bodies of a function, which all have the same signature.
pub(super) struct MethodBodies {
    bodies: Vec<(UnitFunc, Range<usize>)>,
    /// Most operations of each.
    most: usize,
}

impl MethodBodies {
    /// Declares the bodies of `func`, of `most` operations each.
    pub(super) fn declare(unit: &mut CodeUnit, func: &FuncCode, most: usize) -> MethodBodies {
        let most = most.max(1);
        let count = func.ops.len();
        let part = |start: usize| (unit.declare(), start..count.min(start + most));
        MethodBodies { bodies: (0..count).step_by(most).map(part).collect(), most }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (UnitFunc, Range<usize>)> {
        self.bodies.iter().cloned()
    }

    /// The body that all entries of the function use.
    pub(super) fn first(&self) -> UnitFunc {
        self.bodies[0].0
    }

    /// The operations at which bodies are entered: `points`, and targets of jumps between bodies.
    pub(super) fn entered(
        &self,
        func: &FuncCode,
        points: impl Iterator<Item = usize>,
    ) -> BTreeSet<usize> {
        let jumps = func.ops.iter().enumerate().filter_map(|(at, op)| match *op {
            Op::Goto { target } | Op::LoopBack { target, .. } => Some((at, target as usize)),
            Op::Branch { otherwise, .. } => Some((at, otherwise as usize)),
            Op::CallPacked { .. }
            | Op::CallVm { .. }
            | Op::Builtin { .. }
            | Op::InvokeClosure { .. }
            | Op::Copy { .. }
            | Op::Kill { .. }
            | Op::Ret { .. } => None,
        });
        let across = jumps.filter(|(at, to)| at / self.most != to / self.most);
        points.chain(across.map(|(_, to)| to)).collect()
    }

    fn of(&self, pc: usize) -> UnitFunc {
        self.bodies[pc / self.most].0
    }
}

/// The blocks of one body: one per operation, and one per operation of other bodies that it jumps to.
pub(super) struct BodyBlocks {
    first: usize,
    own: Vec<Block>,
    others: BTreeMap<usize, Block>,
}

impl BodyBlocks {
    pub(super) fn new(b: &mut FunctionBuilder<'_>, range: &Range<usize>) -> BodyBlocks {
        let own = range.clone().map(|_| b.create_block()).collect();
        BodyBlocks { first: range.start, own, others: BTreeMap::new() }
    }
}

impl MethodBody<'_, '_> {
    /// Whether an operation is in the body. Others are entered only where control leads to.
    pub(super) fn has(&self, pc: usize) -> bool {
        pc.checked_sub(self.blocks.first).is_some_and(|at| at < self.blocks.own.len())
    }

    /// The block of an operation.
    pub(crate) fn block(&mut self, pc: usize) -> Block {
        let BodyBlocks { first, own, others } = &mut self.blocks;
        match pc.checked_sub(*first).and_then(|at| own.get(at)) {
            Some(&block) => block,
            None => *others.entry(pc).or_insert_with(|| self.e.b.create_block()),
        }
    }

    /// Jumps to operation `pc`: the first one of the body, or one of `entered`. The first body
    /// dispatches to all others.
    pub(super) fn dispatch(&mut self, bodies: &MethodBodies, pc: Value, entered: &BTreeSet<usize>) {
        let own = self.blocks.first..self.blocks.first + self.blocks.own.len();
        if own.start == 0 {
            for (body, range) in bodies.iter().skip(1).collect::<Vec<_>>().into_iter().rev() {
                let (there, before) = (self.e.b.create_block(), self.e.b.create_block());
                let start = range.start as i64;
                let is = self.e.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, pc, start);
                self.e.b.ins().brif(is, there, &[], before, &[]);
                self.e.b.switch_to_block(there);
                self.go_to(body, pc);
                self.e.b.switch_to_block(before);
            }
        }
        let mut switch = Switch::new();
        for &point in entered.range(own.clone()).filter(|&&point| point > own.start) {
            let block = self.block(point);
            switch.set_entry(point as u128, block);
        }
        let first = self.block(own.start);
        switch.emit(&mut self.e.b, pc, first);
    }

    /// Emits the blocks that jump to other bodies.
    pub(super) fn jump_to_others(&mut self, bodies: &MethodBodies) {
        for (pc, block) in std::mem::take(&mut self.blocks.others) {
            self.e.b.switch_to_block(block);
            let at = self.e.i32(pc as i64);
            self.go_to(bodies.of(pc), at);
        }
    }

    /// Jumps to operation `pc` of another body.
    fn go_to(&mut self, body: UnitFunc, pc: Value) {
        let body = CodeUnit::import(self.e.b.func, body, body_signature());
        let args = [self.e.session, self.e.regs, pc];
        self.e.b.ins().return_call(body, &args);
    }
}
