//! Verified bytecode decoded once into dense operations: what every tier reads.
//!
//! Operation `pc` of a function is its instruction `pc`, so both numberings are one.
//! Callees, jump targets and argument sources are resolved; nothing is looked up by
//! name or checked again while running. There is no optimisation here beyond marking
//! the last use of a register.

use std::collections::HashMap;

use crate::abi::{DISCARD, FRAME_HEADER_SLOTS};
use crate::builtins::{Builtin, Reentrancy};
use crate::bytecode::{Arg, Args, Instr, Reg};
use crate::call_graph::return_sites;
use crate::executable::{Executable, FuncKind, Function};
use crate::liveness::Liveness;
use crate::text::instr_range;
use crate::verify::Verified;

/// An entry point of compiled code, with a hot counter: a function entry, a loop header (the target
/// of a backward jump), or the return point of a recursive call. Sites index the program's code
/// cells and a session's hot counters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SiteId(pub u32);

/// The position of a site. The entry of function `f` is site number `f` (for every entry of
/// the function table, so that native callers index cells by function); loops follow, then
/// returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Site {
    /// The function.
    pub func: u32,
    /// The operation; 0 for an entry.
    pub pc: u32,
    /// The kind of entry point.
    pub kind: SiteKind,
}

/// The ways in which control reaches a site.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SiteKind {
    /// By a call.
    Entry,
    /// By a backward jump.
    Loop,
    /// By the return of a call that the function's own caller may have made too.
    Return,
}

/// A source operand, in four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Source(u32);

/// [`Source`] spelled out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgSource {
    /// A register.
    Reg(u32),
    /// A register at its last use: its value may be moved out.
    LastUse(u32),
    /// An entry of the constant table.
    Const(u32),
    /// The running session.
    Vm,
}

const KIND_SHIFT: u32 = 30;
const INDEX_MASK: u32 = (1 << KIND_SHIFT) - 1;

impl Source {
    fn new(source: ArgSource) -> Source {
        let (kind, index) = match source {
            ArgSource::Reg(index) => (0, index),
            ArgSource::LastUse(index) => (1, index),
            ArgSource::Const(index) => (2, index),
            ArgSource::Vm => (3, 0),
        };
        assert!(index <= INDEX_MASK, "the verifier bounds indices");
        Source(kind << KIND_SHIFT | index)
    }

    /// The four cases.
    #[inline(always)]
    pub fn get(self) -> ArgSource {
        let index = self.index();
        match self.kind() {
            0 => ArgSource::Reg(index),
            1 => ArgSource::LastUse(index),
            2 => ArgSource::Const(index),
            _ => ArgSource::Vm,
        }
    }

    /// The register read, if it is one.
    pub fn reg(self) -> Option<u32> {
        match self.get() {
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => Some(reg),
            ArgSource::Const(_) | ArgSource::Vm => None,
        }
    }

    /// The register read for the last time, if it is one.
    pub fn last_use(self) -> Option<u32> {
        match self.get() {
            ArgSource::LastUse(reg) => Some(reg),
            ArgSource::Reg(_) | ArgSource::Const(_) | ArgSource::Vm => None,
        }
    }

    /// 0 register, 1 register for the last time, 2 constant, 3 session: an index into
    /// the bases that the interpreter keeps.
    #[inline(always)]
    pub(crate) fn kind(self) -> usize {
        (self.0 >> KIND_SHIFT) as usize
    }

    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        self.0 & INDEX_MASK
    }
}

/// Arguments of an operation, in [`FuncCode::sources`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ArgRange {
    /// Index of the first.
    pub start: u32,
    /// Number of arguments.
    pub len: u32,
}

/// One operation. `dst` is a register or [`DISCARD`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// `dst = callee(args)`: native code in the packed convention.
    CallPacked {
        /// Entry of the function table; see [`crate::program::Program::packed`].
        callee: u32,
        /// The arguments.
        args: ArgRange,
        /// The result's register.
        dst: u32,
    },
    /// `dst = func(args)`: a frame of another function of the program.
    CallVm {
        /// Entry of the function table.
        func: u32,
        /// The arguments, as many as the function has parameters.
        args: ArgRange,
        /// The result's register.
        dst: u32,
    },
    /// `dst = builtin(args)`, for every builtin that has no operation of its own.
    Builtin {
        /// Which one.
        builtin: Builtin,
        /// The arguments.
        args: ArgRange,
        /// The result's register.
        dst: u32,
    },
    /// `dst = args[1](args[2..])`: a call through a closure or function value.
    InvokeClosure {
        /// The session, the callee and its arguments.
        args: ArgRange,
        /// The result's register.
        dst: u32,
    },
    /// `dst = src`.
    Copy {
        /// The value.
        src: Source,
        /// Where it goes.
        dst: u32,
    },
    /// `dst = None`.
    Kill {
        /// The register released.
        dst: u32,
    },
    /// Forward jump.
    Goto {
        /// The operation to jump to.
        target: u32,
    },
    /// Backward jump: charges fuel and may enter other code.
    LoopBack {
        /// The operation to jump to.
        target: u32,
        /// The site at `target`.
        site: SiteId,
    },
    /// Falls through when `cond` is not zero.
    Branch {
        /// A register.
        cond: u32,
        /// The operation to jump to when it is zero.
        otherwise: u32,
    },
    /// Leaves the function.
    Ret {
        /// The result: a register at its last use, or the constant None.
        result: Source,
    },
}

/// The callee of an operation, as bytecode has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// An entry of the function table.
    Function(u32),
    /// A builtin, of which some are operations of their own.
    Builtin(Builtin),
}

impl Op {
    /// The callee and the register for the result; None for operations that are no calls in bytecode.
    pub fn call(&self) -> Option<(Callee, u32)> {
        Some(match *self {
            Op::CallPacked { callee, dst, .. } | Op::CallVm { func: callee, dst, .. } => {
                (Callee::Function(callee), dst)
            }
            Op::Builtin { builtin, dst, .. } => (Callee::Builtin(builtin), dst),
            Op::InvokeClosure { dst, .. } => (Callee::Builtin(Builtin::InvokeClosure), dst),
            Op::Copy { dst, .. } => (Callee::Builtin(Builtin::Copy), dst),
            Op::Kill { dst } => (Callee::Builtin(Builtin::NullValue), dst),
            Op::Goto { .. } | Op::LoopBack { .. } | Op::Branch { .. } | Op::Ret { .. } => {
                return None;
            }
        })
    }
}

/// A decoded VM function.
#[derive(Hash, Debug)]
pub struct FuncCode {
    /// Its entry in the function table.
    pub index: u32,
    /// Number of parameters.
    pub num_args: u32,
    /// Number of registers, parameters included.
    pub num_regs: u32,
    /// Slots from register 0 of a frame to register 0 of the next one.
    pub frame_slots: u32,
    /// True for native code of TVM's compiled mode, which works on the frame's registers in
    /// memory: tiers are not offered it, and recordings end at it.
    pub is_foreign: bool,
    /// True if it runs no code but the VM's own: no packed function, no other VM function.
    pub calls_builtins_only: bool,
    /// The operations.
    pub ops: Box<[Op]>,
    /// The arguments of all operations.
    pub sources: Box<[Source]>,
    /// The operations that allocate, ascending.
    pub allocations: Box<[u32]>,
    /// The recycle slot of the first of them.
    pub first_allocation: u32,
    /// The operations after recursive calls (their return points), ascending, and the site at each.
    pub returns: Box<[(u32, SiteId)]>,
}

impl FuncCode {
    /// The sources of an operation's arguments.
    #[inline(always)]
    pub fn args(&self, range: ArgRange) -> &[Source] {
        &self.sources[range.start as usize..][..range.len as usize]
    }

    /// The sources of the arguments of `op`, which is one of this function's; none if it is not a call.
    pub fn args_of<'f>(&'f self, op: &'f Op) -> &'f [Source] {
        match op {
            Op::CallPacked { args, .. }
            | Op::CallVm { args, .. }
            | Op::Builtin { args, .. }
            | Op::InvokeClosure { args, .. } => self.args(*args),
            Op::Copy { src, .. } => std::slice::from_ref(src),
            Op::Kill { .. }
            | Op::Goto { .. }
            | Op::LoopBack { .. }
            | Op::Branch { .. }
            | Op::Ret { .. } => &[],
        }
    }

    /// The recycle slot of an operation that allocates; see
    /// [`crate::abi::SessionAbi::recycled`].
    pub fn allocation(&self, pc: u32) -> Option<u32> {
        let at = self.allocations.binary_search(&pc).ok()?;
        Some(self.first_allocation + at as u32)
    }

    /// The site at `pc`, if it is the return point of a recursive call.
    #[inline(always)]
    pub fn return_site(&self, pc: u32) -> Option<SiteId> {
        if self.returns.is_empty() {
            return None;
        }
        let at = self.returns.binary_search_by_key(&pc, |&(pc, _)| pc).ok()?;
        Some(self.returns[at].1)
    }

    /// Index of the result slot, counted from register 0.
    #[inline(always)]
    pub fn result_slot(&self) -> usize {
        self.num_regs as usize
    }

    /// Index of the argument area, counted from register 0.
    #[inline(always)]
    pub fn arg_area(&self) -> usize {
        self.num_regs as usize + 1
    }
}

/// An entry of the constant table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstEntry {
    /// An entry of the executable's constant pool.
    Pool(u32),
    /// A function as a value.
    Func(u32),
    /// An immediate.
    Int(i64),
    /// None.
    None,
}

/// A decoded executable.
#[derive(Hash, Debug)]
pub struct Code {
    /// VM functions (and those of TVM's compiled mode, as two operations each), by entry of
    /// the function table; None for packed functions.
    pub functions: Box<[Option<FuncCode>]>,
    /// Every site.
    pub sites: Box<[Site]>,
    /// The constant table.
    pub consts: Box<[ConstEntry]>,
    /// Number of operations that allocate.
    pub allocations: u32,
}

impl Code {
    /// Number of recycle slots of a session; see
    /// [`crate::abi::SessionAbi::recycled`].
    pub fn recycle_slots(&self) -> usize {
        self.allocations as usize + 1
    }

    /// The recycle slot of the arena, the storage that traces lay out their own storages in.
    pub fn arena_slot(&self) -> u32 {
        self.allocations
    }
}

/// Decodes `exec`.
pub fn decode(exec: &Verified<Executable>) -> Code {
    let entry = |func| Site { func, pc: 0, kind: SiteKind::Entry };
    let mut decoder = Decoder {
        exec,
        sites: (0..exec.functions.len() as u32).map(entry).collect(),
        loops: HashMap::new(),
        consts: (0..exec.constants.len() as u32).map(ConstEntry::Pool).collect(),
        by_entry: HashMap::new(),
        allocations: 0,
    };
    let mut functions: Box<[_]> =
        (0..exec.functions.len() as u32).map(|index| decoder.function(index)).collect();
    let values = decoder.consts.iter().filter_map(|entry| match entry {
        ConstEntry::Func(index) => Some(*index),
        _ => None,
    });
    return_sites(&mut functions, &values.collect::<Vec<_>>(), &mut decoder.sites);
    let (sites, consts) = (decoder.sites.into(), decoder.consts.into());
    Code { functions, sites, consts, allocations: decoder.allocations }
}

struct Decoder<'e> {
    exec: &'e Verified<Executable>,
    sites: Vec<Site>,
    loops: HashMap<(u32, u32), SiteId>,
    consts: Vec<ConstEntry>,
    by_entry: HashMap<ConstEntry, u32>,
    allocations: u32,
}

impl Decoder<'_> {
    fn function(&mut self, index: u32) -> Option<FuncCode> {
        let exec = self.exec;
        let function = &exec.functions[index as usize];
        match function.kind {
            FuncKind::Packed => return None,
            FuncKind::VmTir => return Some(self.vmtir(index, function)),
            FuncKind::Vm => {}
        }
        let range = instr_range(function);
        let mut sources = Vec::new();
        let mut max_args = 0;
        let ops: Vec<Op> = range
            .clone()
            .map(|at| {
                let instr = exec.instr(at).expect("verified code decodes");
                if let Instr::Call { args, .. } = instr {
                    max_args = max_args.max(args.len());
                }
                self.op(index, (at - range.start) as u32, instr, &mut sources)
            })
            .collect();
        let num_regs = function.register_file_size as u32;
        let allocates =
            |op: &Op| matches!(op, Op::Builtin { builtin, .. } if builtin.lowering().recycles());
        let all = ops.iter().zip(0..);
        let allocations: Box<[u32]> =
            all.filter(|(op, _)| allocates(op)).map(|(_, pc)| pc).collect();
        let first_allocation = self.allocations;
        self.allocations += allocations.len() as u32;
        let own = |op: &Op| match op {
            Op::Builtin { builtin, .. } => builtin.reentrancy() == Reentrancy::Leaf,
            Op::CallPacked { .. } | Op::CallVm { .. } | Op::InvokeClosure { .. } => false,
            Op::Copy { .. }
            | Op::Kill { .. }
            | Op::Branch { .. }
            | Op::Goto { .. }
            | Op::LoopBack { .. }
            | Op::Ret { .. } => true,
        };
        let mut code = FuncCode {
            index,
            calls_builtins_only: ops.iter().all(own),
            num_args: function.num_args as u32,
            num_regs,
            frame_slots: num_regs + 1 + max_args as u32 + FRAME_HEADER_SLOTS as u32,
            is_foreign: false,
            ops: ops.into(),
            sources: sources.into(),
            allocations,
            first_allocation,
            returns: Box::default(),
        };
        mark_last_uses(exec, function, &mut code);
        Some(code)
    }

    /// Native code of TVM's compiled mode, as a call of it on the frame's registers.
    fn vmtir(&mut self, index: u32, function: &Function) -> FuncCode {
        let (num_args, num_regs) = (function.num_args as u32, function.register_file_size as u32);
        let args = ArgRange { start: 0, len: 1 };
        let result = Source::new(ArgSource::LastUse(num_args));
        FuncCode {
            index,
            calls_builtins_only: false,
            num_args,
            num_regs,
            frame_slots: num_regs + 1 + args.len + FRAME_HEADER_SLOTS as u32,
            is_foreign: true,
            ops: [Op::CallPacked { callee: index, args, dst: DISCARD }, Op::Ret { result }].into(),
            sources: [Source::new(ArgSource::Vm)].into(),
            allocations: Box::default(),
            first_allocation: 0,
            returns: Box::default(),
        }
    }

    fn op(&mut self, func: u32, pc: u32, instr: Instr<'_>, sources: &mut Vec<Source>) -> Op {
        let jump = |offset: i64| (i64::from(pc) + offset) as u32;
        match instr {
            Instr::Call { dst, callee, args } => self.call(dst, callee, args, sources),
            Instr::Ret { result } => Op::Ret { result: self.source(Arg::Reg(result)) },
            Instr::Goto { offset } if offset > 0 => Op::Goto { target: jump(offset) },
            Instr::Goto { offset } => {
                let target = jump(offset);
                Op::LoopBack { target, site: self.loop_site(func, target) }
            }
            Instr::If { cond, false_offset } => Op::Branch {
                cond: cond.index().expect("the verifier wants a register"),
                otherwise: jump(false_offset),
            },
        }
    }

    fn call(&mut self, dst: Reg, callee: i64, args: Args<'_>, sources: &mut Vec<Source>) -> Op {
        let exec = self.exec;
        let dst = if dst.discards() { DISCARD } else { dst.index().unwrap_or(DISCARD) };
        let target = &exec.functions[callee as usize];
        let builtin = Builtin::from_name(&target.name).filter(|_| target.kind == FuncKind::Packed);
        let mut decoded = args.iter().map(|arg| arg.expect("verified arguments decode"));
        match builtin {
            Some(Builtin::NullValue) => return Op::Kill { dst },
            Some(Builtin::Copy) => {
                let src = decoded.next().expect("the verifier counts arguments");
                return Op::Copy { src: self.source(src), dst };
            }
            _ => {}
        }
        let start = sources.len() as u32;
        sources.extend(decoded.map(|arg| self.source(arg)));
        let args = ArgRange { start, len: args.len() as u32 };
        match (builtin, target.kind) {
            (Some(Builtin::InvokeClosure), _) => Op::InvokeClosure { args, dst },
            (Some(builtin), _) => Op::Builtin { builtin, args, dst },
            (None, FuncKind::Vm | FuncKind::VmTir) => Op::CallVm { func: callee as u32, args, dst },
            (None, FuncKind::Packed) => Op::CallPacked { callee: callee as u32, args, dst },
        }
    }

    fn loop_site(&mut self, func: u32, pc: u32) -> SiteId {
        let sites = &mut self.sites;
        *self.loops.entry((func, pc)).or_insert_with(|| {
            sites.push(Site { func, pc, kind: SiteKind::Loop });
            SiteId(sites.len() as u32 - 1)
        })
    }

    fn source(&mut self, arg: Arg) -> Source {
        Source::new(match arg {
            Arg::Reg(Reg::VM) => ArgSource::Vm,
            Arg::Reg(reg) => match reg.index() {
                Some(index) => ArgSource::Reg(index),
                None => ArgSource::Const(self.entry(ConstEntry::None)),
            },
            Arg::Imm(value) => ArgSource::Const(self.entry(ConstEntry::Int(value))),
            Arg::Const(index) => ArgSource::Const(index),
            Arg::Func(index) => ArgSource::Const(self.entry(ConstEntry::Func(index))),
        })
    }

    fn entry(&mut self, entry: ConstEntry) -> u32 {
        let consts = &mut self.consts;
        *self.by_entry.entry(entry).or_insert_with(|| {
            consts.push(entry);
            consts.len() as u32 - 1
        })
    }
}

/// Marks registers that an operation reads for the last time, where the operation can
/// move a value: VM calls, copies, tuples and returns. A register that takes the result is written behind
/// the reads.
fn mark_last_uses(exec: &Verified<Executable>, function: &Function, code: &mut FuncCode) {
    let (ops, sources) = (&mut code.ops, &mut code.sources);
    for op in ops.iter_mut() {
        // A return ends every live range, with or without liveness facts.
        if let Op::Ret { result } = op {
            last_use(result);
        }
    }
    Liveness::of(exec, function).for_each(|pc, live| match &mut ops[pc] {
        Op::CallVm { args, dst, .. }
        | Op::Builtin { builtin: Builtin::MakeTuple, args, dst, .. } => {
            let range = args.start as usize..(args.start + args.len) as usize;
            let args = &mut sources[range];
            for at in (0..args.len()).rev() {
                // A register passed twice is moved by its last mention only.
                let Some(reg) = args[at].reg() else { continue };
                let again = args[at + 1..].iter().any(|later| later.reg() == Some(reg));
                if (!live.contains(reg) || reg == *dst) && !again {
                    last_use(&mut args[at]);
                }
            }
        }
        Op::Copy { src, dst } => {
            if src.reg().is_some_and(|reg| !live.contains(reg) || reg == *dst) {
                last_use(src);
            }
        }
        Op::CallPacked { .. }
        | Op::Builtin { .. }
        | Op::InvokeClosure { .. }
        | Op::Kill { .. }
        | Op::Goto { .. }
        | Op::LoopBack { .. }
        | Op::Branch { .. }
        | Op::Ret { .. } => {}
    });
}

fn last_use(source: &mut Source) {
    if let ArgSource::Reg(index) = source.get() {
        *source = Source::new(ArgSource::LastUse(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::ExecBuilder;
    use crate::verify::verify;

    #[test]
    fn resolves_and_marks() {
        let mut b = ExecBuilder::new();
        b.function("id", 2).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
        b.function("main", 1).unwrap();
        let top = b.label().unwrap();
        b.bind(top).unwrap();
        b.emit_call("id", &[b.r(0), b.r(0)], b.r(1)).unwrap();
        b.emit_call("vm.builtin.copy", &[b.r(1)], b.r(0)).unwrap();
        b.emit_goto(top).unwrap();
        b.end_function().unwrap();
        let exec = verify(b.finish().unwrap()).unwrap();
        let code = decode(&exec);
        let main = code.functions[1].as_ref().unwrap();
        let Op::CallVm { func: 0, args, dst: 1 } = main.ops[0] else { panic!("{:?}", main.ops) };
        let args: Vec<_> = main.args(args).iter().map(|s| s.get()).collect();
        assert_eq!(args, [ArgSource::Reg(0), ArgSource::LastUse(0)]);
        let Op::Copy { src, dst: 0 } = main.ops[1] else { panic!("{:?}", main.ops) };
        assert_eq!(src.get(), ArgSource::LastUse(1));
        let site = SiteId(code.sites.len() as u32 - 1);
        assert_eq!(main.ops[2], Op::LoopBack { target: 0, site });
        assert_eq!(code.sites[site.0 as usize], Site { func: 1, pc: 0, kind: SiteKind::Loop });
    }
}
