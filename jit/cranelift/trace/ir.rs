//! The trace IR: instructions on registers of frames, guards, and snapshots.
//!
//! A register is either *in memory*, as an owned value in its slot of the register stack, or a
//! *scalar*: a constant or variable that is not an object, whose slot is empty. Instructions say
//! how values move. The snapshot of a side exit lists the registers that are scalars there, so that
//! the exit can store them. Everything prints as text ([`Trace`]'s `Display`), which tests read.

mod effects;
mod object;
mod print;
mod reads;

pub(crate) use object::{Item, LoadMode, Object, ObjectId, OwnedValue};
use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_vm::builtins::Builtin;

use crate::facts::tensor::TensorFact;
use crate::recycle::{FreeListEntry, FreeListReturn};

/// Most registers whose references a tuple takes.
pub(crate) const MAX_TAKEN: usize = 3;

/// A frame of the trace. Frame 0 is the one that the trace is entered with. Others are inlined
/// calls, or callers of frame 0 that the trace returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FrameId(pub(crate) u32);

/// A machine word computed by the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Var(pub(crate) u32);

/// A side exit of the trace, and its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExitId(pub(crate) u32);

/// A virtual register: a VM register of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct VReg {
    pub(crate) frame: FrameId,
    pub(crate) reg: u32,
}

/// A dimension of the tensor in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DimOf {
    pub(crate) vreg: VReg,
    pub(crate) dim: u32,
}

/// A value that is not an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    Const { tag: i32, bits: i64 },
    Var { tag: i32, var: Var },
}

impl Scalar {
    pub(crate) const NONE: Scalar = Scalar::Const { tag: type_index::NONE, bits: 0 };

    /// A constant integer.
    pub(crate) fn int(bits: i64) -> Scalar {
        Scalar::Const { tag: type_index::INT, bits }
    }

    /// The integer that a variable holds.
    pub(crate) fn number(var: Var) -> Scalar {
        Scalar::Var { tag: type_index::INT, var }
    }

    pub(crate) fn tag(self) -> i32 {
        match self {
            Scalar::Const { tag, .. } | Scalar::Var { tag, .. } => tag,
        }
    }
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arg {
    /// A register in memory, and its type where that is known.
    Reg(VReg, Option<i32>),
    Scalar(Scalar),
    /// An entry of the constant table.
    Const(u32),
    /// The session.
    Vm,
    /// A virtual object: one that the trace does not allocate.
    Object(ObjectId),
}

/// The result of a builtin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltinResult {
    /// None; nothing is stored.
    Nothing,
    /// A word of this type.
    Var(i32, Var),
    /// An owned value in the frame's result slot.
    Slot,
    /// An owned value in this register, which was empty.
    Reg(VReg),
}

/// An instruction. `exit` is the side exit of a guard that fails, or of a call that raises an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ins {
    /// Guard: the register holds a value of this type.
    GuardType { vreg: VReg, tag: i32, exit: ExitId },
    /// Guard: a fact about the tensor in a register.
    GuardFact { vreg: VReg, fact: TensorFact, exit: ExitId },
    /// Guard: dimension `dim` of the tensor in a register equals dimension `at` of another one.
    GuardSameDim { vreg: VReg, dim: u32, other: VReg, at: u32, exit: ExitId },
    /// The payload of a register.
    LoadPayload { var: Var, vreg: VReg },
    /// A scalar.
    Let { var: Var, value: Scalar },
    /// A dimension of the tensor in a register, which has that dimension.
    LoadDim { var: Var, vreg: VReg, dim: u32 },
    /// Guard: the shape in a register has this many dimensions.
    GuardShapeRank { vreg: VReg, rank: u32, exit: ExitId },
    /// A dimension of the shape in a register, which has that dimension.
    LoadShapeDim { var: Var, vreg: VReg, at: u32 },
    /// Guard: a tensor of dimensions `have`, none of which is negative, has at least as many
    /// elements as one of dimensions `want`.
    GuardViewFits { have: Vec<Scalar>, want: Vec<Scalar>, exit: ExitId },
    /// Guard: two numbers are equal.
    GuardEqual { left: Scalar, right: Scalar, exit: ExitId },
    /// The element of a tensor that is known to be a boolean one without dimensions.
    LoadBool { var: Var, vreg: VReg },
    /// Guard: the word is zero, or is not.
    GuardTruth { var: Var, expected: bool, exit: ExitId },
    /// Guard: the register holds a closure of this function with this many captured values.
    GuardClosure { vreg: VReg, func: u32, captured: u32, exit: ExitId },
    /// Guard: the frame was called by the frame that the trace recorded, and the interpreter or a
    /// trace waits for its return.
    GuardCaller { frame: FrameId, exit: ExitId },
    /// Guard: there is code for this function.
    GuardCompiled { func: u32, exit: ExitId },
    /// A second reference to a captured value, into an empty register.
    LoadCaptured { dst: VReg, closure: Arg, index: u32 },
    /// Guard: there is this much fuel and no interrupt is requested; takes the fuel.
    CheckFuel { units: u32, exit: ExitId },
    /// An operand, into an empty register. It adds as many references to an object: none if a later copy
    /// adds that of the register.
    Copy { dst: VReg, src: Arg, refs: u32 },
    /// Into an empty register; `src` is empty afterwards.
    Move { dst: VReg, src: VReg },
    /// Several moves at once: a source may be a destination too.
    ParallelMove(Vec<(VReg, VReg)>),
    /// A scalar into an empty register.
    Store { dst: VReg, value: Scalar },
    /// Releases the value of a register, which is empty afterwards.
    Release { vreg: VReg, tag: Option<i32> },
    /// Empties a register that borrows what it holds.
    Forget { vreg: VReg },
    /// Calls a packed function. The result is in the register `dst`, which was empty, or in the
    /// frame's result slot.
    CallPacked { frame: FrameId, callee: u32, args: Vec<Arg>, dst: Option<VReg>, exit: ExitId },
    /// Calls a kernel by its raw entry, without its checks; there is no result.
    CallKernel { frame: FrameId, callee: u32, args: Vec<Arg>, exit: ExitId },
    /// Calls a function object; the result is as that of a packed function.
    CallFunction { frame: FrameId, callee: Arg, args: Vec<Arg>, dst: Option<VReg>, exit: ExitId },
    /// Runs a builtin. Inline, it leaves by `exit` if its fast path does not apply. A tuple takes the
    /// references of the registers `taken`, which are among its arguments and empty afterwards. An item
    /// of a tuple that the result `borrows` has no reference of its own.
    CallBuiltin {
        frame: FrameId,
        builtin: Builtin,
        inline: bool,
        args: Vec<Arg>,
        taken: Vec<VReg>,
        borrows: bool,
        result: BuiltinResult,
        exit: ExitId,
    },
    /// Makes a view, with these dimensions, of a tensor that is known to allow it. The result is in
    /// the frame's result slot.
    MakeView { frame: FrameId, src: Arg, shape: Arg, dims: Vec<Scalar>, dtype: DType, exit: ExitId },
    /// Pops the object of an allocation from the free list, or runs the builtin. The result is in
    /// the register `dst`, which was empty, or in the frame's result slot.
    Allocate {
        frame: FrameId,
        builtin: Builtin,
        free_entry: FreeListEntry,
        args: Vec<Arg>,
        dst: Option<VReg>,
        exit: ExitId,
    },
    /// Releases an object that the trace allocated, to the free list if possible.
    Recycle { vreg: VReg, to: FreeListReturn },
    /// Makes a frame the session's current one, with a header like any other: native code that is
    /// called from it may run functions of the program on top of it.
    EnterFrame { frame: FrameId },
    /// Makes its caller the current frame again.
    LeaveFrame { frame: FrameId },
    /// Enters and leaves several frames: `frame` becomes the current one, which was `was`.
    SetFrame { frame: FrameId, was: FrameId },
    /// Moves the result slot into an empty register.
    TakeResult { frame: FrameId, dst: VReg },
    /// Releases the value of the result slot.
    DropResult { frame: FrameId },
    /// Loads the value of a register into machine registers.
    LoadOwned { value: OwnedValue, src: VReg, tag: Option<i32>, mode: LoadMode },
    /// A second reference to such a value.
    CopyOwned { value: OwnedValue, of: OwnedValue },
    /// Moves such a value into an empty register.
    StoreOwned { dst: VReg, value: OwnedValue },
    /// Releases such a value.
    ReleaseOwned { value: OwnedValue },
}

/// The end of a trace, and the code that runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The trace again: it is a loop.
    Loop,
    /// The trace again with this frame as frame 0, one or more levels deeper or higher in a
    /// recursion (LuaJIT: up- and down-recursion).
    Recursion { frame: FrameId },
    /// The return at this operation of a frame.
    Return { frame: FrameId, pc: u32 },
    /// The code of the function whose frame was entered last.
    Function { func: u32 },
    /// The code at a site of frame 0, whose first operation is `pc`.
    Site { site: u32, pc: u32 },
    /// The interpreter.
    Interpreter(ExitId),
}

/// The call that made a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) frame: FrameId,
    /// The operation after the call.
    pub(crate) return_pc: u32,
    /// The register for the result.
    pub(crate) dst: u32,
}

/// A frame of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameData {
    pub(crate) func: u32,
    pub(crate) name: String,
    pub(crate) num_regs: u32,
    /// Slots from register 0 of frame 0 to register 0 of this one.
    pub(crate) base: i32,
    /// Slots from register 0 to the next frame's.
    pub(crate) slots: u32,
    pub(crate) caller: Option<Caller>,
}

/// The state that the interpreter finds after a side exit. The exit restores it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    /// The innermost frame; its callers follow from the frames' data.
    pub(crate) frame: FrameId,
    /// Its first operation that has not run.
    pub(crate) pc: u32,
    /// The session's current frame inside the trace. The exit makes the frames inside it, or leaves
    /// those around it.
    pub(crate) entered: FrameId,
    /// Fuel that was taken ahead for operations that have not run.
    pub(crate) refund: u32,
    /// Registers that are scalars.
    pub(crate) scalars: Vec<(VReg, Scalar)>,
    /// Registers whose values are in the slots of others.
    pub(crate) moves: Vec<(VReg, VReg)>,
    /// Registers that hold the same as others, which are in memory.
    pub(crate) copies: Vec<(VReg, VReg)>,
    /// Registers that hold virtual objects, which the exit materialises.
    pub(crate) objects: Vec<(VReg, ObjectId)>,
    /// Registers that borrow what they hold: the exit adds the references, before anything else.
    pub(crate) borrowed: Vec<VReg>,
    /// Values that are held for those that borrow from them: the exit releases them, last of all.
    pub(crate) held: Vec<OwnedValue>,
}

impl Snapshot {
    /// A snapshot with every register in memory.
    pub(crate) fn at(frame: FrameId, pc: u32) -> Snapshot {
        Snapshot {
            frame,
            pc,
            entered: frame,
            refund: 0,
            scalars: Vec::new(),
            moves: Vec::new(),
            copies: Vec::new(),
            objects: Vec::new(),
            borrowed: Vec::new(),
            held: Vec::new(),
        }
    }
}

/// A register that is a scalar at the start of every iteration of a loop (a phi).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) vreg: VReg,
    /// Its value at the start of an iteration.
    pub(crate) inside: Scalar,
    /// The value in the first iteration, if `inside` is a variable.
    pub(crate) first: Option<Var>,
    /// Its value at the end of an iteration.
    pub(crate) next: Scalar,
}

/// A recorded trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) start_pc: u32,
    pub(crate) frames: Vec<FrameData>,
    /// The loop's preheader: invariant guards, run once.
    pub(crate) preheader: Vec<Ins>,
    /// Registers that every iteration of a loop starts with as scalars.
    pub(crate) carried: Vec<Carried>,
    pub(crate) code: Vec<Ins>,
    /// Snapshots by side exit.
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) end: End,
    pub(crate) vars: u32,
    /// Virtual objects: only side exits allocate them.
    pub(crate) objects: Vec<Object>,
    /// Values in machine registers that some of them own.
    pub(crate) owned_values: u32,
    /// Bytes of the arena that their storages lie in.
    pub(crate) arena: usize,
}

impl Trace {
    /// A frame and those that called it, outermost first.
    pub(crate) fn callers(&self, frame: FrameId) -> Vec<FrameId> {
        let mut chain = vec![frame];
        let mut at = frame;
        while let Some(caller) = self.frames[at.0 as usize].caller {
            chain.push(caller.frame);
            at = caller.frame;
        }
        chain.reverse();
        chain
    }

    /// The frames that are active at a snapshot, outermost first.
    pub(crate) fn active(&self, snapshot: &Snapshot) -> Vec<FrameId> {
        self.callers(snapshot.frame)
    }

    /// Guards of the trace.
    pub(crate) fn guards(&self) -> usize {
        let guards = |ins: &&Ins| {
            matches!(
                ins,
                Ins::GuardType { .. }
                    | Ins::GuardFact { .. }
                    | Ins::GuardSameDim { .. }
                    | Ins::GuardShapeRank { .. }
                    | Ins::GuardViewFits { .. }
                    | Ins::GuardEqual { .. }
                    | Ins::GuardTruth { .. }
                    | Ins::GuardClosure { .. }
                    | Ins::GuardCaller { .. }
                    | Ins::GuardCompiled { .. }
                    | Ins::CheckFuel { .. }
                    | Ins::CallBuiltin { inline: true, .. }
            )
        };
        self.preheader.iter().chain(&self.code).filter(guards).count()
    }

    /// The position where the interpreter resumes after a side exit: the functions, outermost
    /// first, and the operation.
    pub(crate) fn name(&self, exit: &Snapshot) -> String {
        let frames = self.active(exit).into_iter().map(|frame| self.frame(frame));
        // Callers of frame 0 are named only if the trace has returned to them.
        let lowest = self.frame(exit.frame).base.min(0);
        let frames: Vec<&str> =
            frames.filter(|frame| frame.base >= lowest).map(|frame| &*frame.name).collect();
        format!("{}@{}", frames.join(" "), exit.pc)
    }

    /// Replaces the snapshot of each instruction, and of the end, by the result of `change`. The
    /// closure receives the index of the instruction in `code`, or their count for the end.
    pub(crate) fn change_snapshots(
        &mut self,
        mut change: impl FnMut(usize, &Snapshot) -> Snapshot,
    ) {
        let old = std::mem::take(&mut self.snapshots);
        let mut new: Vec<Snapshot> = Vec::with_capacity(old.len());
        for id in self.preheader.iter_mut().filter_map(Ins::exit_mut) {
            let snapshot = &old[id.0 as usize];
            if new.last() != Some(snapshot) {
                new.push(snapshot.clone());
            }
            *id = ExitId(new.len() as u32 - 1);
        }
        let mut renew = |at: usize, id: &mut ExitId| {
            let snapshot = change(at, &old[id.0 as usize]);
            if new.last() != Some(&snapshot) {
                new.push(snapshot);
            }
            *id = ExitId(new.len() as u32 - 1);
        };
        let count = self.code.len();
        for (at, ins) in self.code.iter_mut().enumerate() {
            ins.exit_mut().into_iter().for_each(|id| renew(at, id));
        }
        if let End::Interpreter(id) = &mut self.end {
            renew(count, id);
        }
        self.snapshots = new;
    }

    pub(crate) fn object(&self, ObjectId(id): ObjectId) -> &Object {
        &self.objects[id as usize]
    }

    pub(crate) fn frame(&self, FrameId(id): FrameId) -> &FrameData {
        &self.frames[id as usize]
    }

    /// The slot of a register, counted from register 0 of frame 0.
    pub(crate) fn slot(&self, vreg: VReg) -> i32 {
        self.frame(vreg.frame).base + vreg.reg as i32
    }
}
