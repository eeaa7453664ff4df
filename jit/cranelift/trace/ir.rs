//! The trace IR: instructions on registers of frames, guards, and exits.
//!
//! A register is either in its place in the register stack, as an owned value, or *plain*: known
//! by constant or variable, not an object, and its place holds nothing. Instructions say where
//! values move; which registers are plain at an exit is written down with the exit. Everything
//! prints as text ([`Trace`]'s `Display`), which is what tests read.

mod effects;
mod object;
mod print;
mod reads;

pub(crate) use object::{Held, Hold, Item, Object, ObjectId};
use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_vm::builtins::Builtin;

use crate::raw::Fact;
use crate::recycle::{Give, Kept};

/// A frame of the trace: 0 is the one it was entered with, others are inlined calls, or frames
/// below that the trace returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FrameId(pub(crate) u32);

/// A machine word computed by the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Var(pub(crate) u32);

/// An exit of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExitId(pub(crate) u32);

/// A register of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) frame: FrameId,
    pub(crate) reg: u32,
}

/// A value that is not an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plain {
    Const { tag: i32, bits: i64 },
    Var { tag: i32, var: Var },
}

impl Plain {
    pub(crate) const NONE: Plain = Plain::Const { tag: type_index::NONE, bits: 0 };

    /// A number that is known.
    pub(crate) fn int(bits: i64) -> Plain {
        Plain::Const { tag: type_index::INT, bits }
    }

    /// The number that a variable holds.
    pub(crate) fn number(var: Var) -> Plain {
        Plain::Var { tag: type_index::INT, var }
    }

    pub(crate) fn tag(self) -> i32 {
        match self {
            Plain::Const { tag, .. } | Plain::Var { tag, .. } => tag,
        }
    }
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arg {
    /// A register in its place, and its type where that is known.
    Place(Place, Option<i32>),
    Plain(Plain),
    /// An entry of the constant table.
    Const(u32),
    Vm,
    /// An object that the trace does not make.
    Object(ObjectId),
}

/// What a builtin leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltinResult {
    /// None, which nobody needs to be told.
    Nothing,
    /// A word of this type.
    Var(i32, Var),
    /// An owned value in the frame's result slot.
    Slot,
    /// An owned value in this place, which was empty.
    Place(Place),
}

/// An instruction. `exit` is where to go when a guard fails, and what to restore on an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ins {
    /// Guard: the register holds a value of this type.
    Tag { place: Place, tag: i32, exit: ExitId },
    /// Guard: something about the tensor in a register.
    Is { place: Place, fact: Fact, exit: ExitId },
    /// Guard: an extent of the tensor in a register is that of another one at `at`.
    Alike { place: Place, dim: u32, other: Place, at: u32, exit: ExitId },
    /// The payload of a register.
    Payload { var: Var, place: Place },
    /// A plain value.
    Let { var: Var, value: Plain },
    /// An extent of the tensor in a register, which has that dimension.
    Extent { var: Var, place: Place, dim: u32 },
    /// Guard: the shape in a register has so many numbers.
    Dims { place: Place, rank: u32, exit: ExitId },
    /// A number of the shape in a register, which has that many.
    Number { var: Var, place: Place, at: u32 },
    /// Guard: a tensor of extents `have`, none of which is negative, has as many elements as one of
    /// extents `want`, or more.
    Fits { have: Vec<Plain>, want: Vec<Plain>, exit: ExitId },
    /// Guard: two numbers are the same.
    Same { left: Plain, right: Plain, exit: ExitId },
    /// The element of a tensor that is known to be a boolean one without dimensions.
    Flag { var: Var, place: Place },
    /// Guard: the word is zero, or is not.
    Truth { var: Var, expected: bool, exit: ExitId },
    /// Guard: the register holds a closure of this function with so many captured values.
    Closure { place: Place, func: u32, captured: u32, exit: ExitId },
    /// Guard: the frame was called by the frame that the trace says it was, and the interpreter or
    /// a trace waits for its return.
    Below { frame: FrameId, exit: ExitId },
    /// Guard: there is code for this function.
    Native { func: u32, exit: ExitId },
    /// A second reference to a captured value, into an empty place.
    Captured { dst: Place, closure: Arg, index: u32 },
    /// Guard: there is so much fuel and nobody wants attention; takes it.
    Charge { units: u32, exit: ExitId },
    /// A second reference to an operand, into an empty place.
    Copy { dst: Place, src: Arg },
    /// Into an empty place; `src` is empty afterwards.
    Move { dst: Place, src: Place },
    /// Several moves at once: what is a source may be a destination too.
    Moves(Vec<(Place, Place)>),
    /// A plain value into an empty place.
    Store { dst: Place, value: Plain },
    /// Gives up what is in a place, which is empty afterwards.
    Release { place: Place, tag: Option<i32> },
    /// Calls a packed function; the result is in the place `dst`, which was empty, or in the frame's
    /// result slot.
    Packed { frame: FrameId, callee: u32, args: Vec<Arg>, dst: Option<Place>, exit: ExitId },
    /// Calls a kernel without its checks; there is no result.
    Raw { frame: FrameId, callee: u32, args: Vec<Arg>, exit: ExitId },
    /// Calls a function object; the result is where a packed function's is.
    Invoke { frame: FrameId, callee: Arg, args: Vec<Arg>, dst: Option<Place>, exit: ExitId },
    /// Runs a builtin. Written out, it leaves by `exit` when its usual case does not hold.
    Builtin {
        frame: FrameId,
        builtin: Builtin,
        inline: bool,
        args: Vec<Arg>,
        result: BuiltinResult,
        exit: ExitId,
    },
    /// Makes a view of a tensor that is known to allow it: of a shape, whose extents are these.
    /// The result is in the frame's result slot.
    View { frame: FrameId, src: Arg, shape: Arg, extents: Vec<Plain>, dtype: DType, exit: ExitId },
    /// Takes the object that an allocation left behind, or runs the builtin. The result is in the
    /// place `dst`, which was empty, or in the frame's result slot.
    Allocate {
        frame: FrameId,
        builtin: Builtin,
        kept: Kept,
        args: Vec<Arg>,
        dst: Option<Place>,
        exit: ExitId,
    },
    /// Gives up what an allocation of the trace made, perhaps for its next run.
    Give { place: Place, give: Give },
    /// Makes a frame the session's current one, with a header like any other: native code that is
    /// called from it may run functions of the program on top of it.
    Enter { frame: FrameId },
    /// Makes its caller the current frame again.
    Leave { frame: FrameId },
    /// The same for several frames: `frame` becomes the current one, which was `was`.
    Current { frame: FrameId, was: FrameId },
    /// Moves the result slot into an empty place.
    Take { frame: FrameId, dst: Place },
    /// Gives up what is in the result slot.
    Drop { frame: FrameId },
    /// Keeps what is in a register in machine registers.
    Hold { held: Held, src: Place, tag: Option<i32>, how: Hold },
    /// A second reference to such a value.
    HoldAgain { held: Held, of: Held },
    /// Moves such a value into an empty place.
    Unhold { dst: Place, held: Held },
    /// Gives up such a value.
    DropHeld { held: Held },
}

/// How a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Back to its start.
    Loop,
    /// The same, with this frame in place of the first one: a level of a recursion deeper, or
    /// higher.
    Shift { frame: FrameId },
    /// The return at this operation of a frame.
    Return { frame: FrameId, pc: u32 },
    /// The code of the function whose frame was entered last.
    Into { func: u32 },
    /// The code at a site of the first frame, whose first operation is `pc`.
    Site { site: u32, pc: u32 },
    /// The interpreter goes on.
    Exit(ExitId),
}

/// A frame of the trace and how it was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameData {
    pub(crate) func: u32,
    pub(crate) name: String,
    pub(crate) num_regs: u32,
    /// Slots from register 0 of the trace's first frame to register 0 of this one.
    pub(crate) base: i32,
    /// Slots from register 0 to the next frame's.
    pub(crate) slots: u32,
    /// The caller, the operation after the call there, and the register for the result.
    pub(crate) called: Option<(FrameId, u32, u32)>,
}

/// What the interpreter finds after an exit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exit {
    /// The innermost frame; its callers follow from the frames' data.
    pub(crate) frame: FrameId,
    /// Its first operation that has not run.
    pub(crate) pc: u32,
    /// The frame that the session says is current: frames inside it are made here, and frames that
    /// it is inside of become current.
    pub(crate) entered: FrameId,
    /// Fuel that was taken ahead for operations that have not run.
    pub(crate) refund: u32,
    /// Registers that are not in their places.
    pub(crate) plain: Vec<(Place, Plain)>,
    /// Registers whose values are where others were.
    pub(crate) moves: Vec<(Place, Place)>,
    /// Registers that hold the same as others, which are in their places.
    pub(crate) copies: Vec<(Place, Place)>,
    /// Registers that hold objects which the trace has not made.
    pub(crate) objects: Vec<(Place, ObjectId)>,
}

impl Exit {
    /// An exit at which every register is in its place.
    pub(crate) fn at(frame: FrameId, pc: u32) -> Exit {
        Exit {
            frame,
            pc,
            entered: frame,
            refund: 0,
            plain: Vec::new(),
            moves: Vec::new(),
            copies: Vec::new(),
            objects: Vec::new(),
        }
    }
}

/// A register that each round of a loop begins with and that is not in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) place: Place,
    /// What it holds at the beginning of a round.
    pub(crate) inside: Plain,
    /// Where that is a variable: what it is in the first round.
    pub(crate) first: Option<Var>,
    /// What it holds at the end of a round.
    pub(crate) again: Plain,
}

/// A recorded trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) start_pc: u32,
    pub(crate) frames: Vec<FrameData>,
    /// Guards of a loop that hold in every iteration or in none: run once, before it.
    pub(crate) before: Vec<Ins>,
    /// Registers that every round of a loop begins with and that are not in their places.
    pub(crate) carried: Vec<Carried>,
    pub(crate) code: Vec<Ins>,
    pub(crate) exits: Vec<Exit>,
    pub(crate) end: End,
    pub(crate) vars: u32,
    /// Objects that are made at exits only.
    pub(crate) objects: Vec<Object>,
    /// Values in machine registers that some of them own.
    pub(crate) held: u32,
    /// Bytes that their storages lie in.
    pub(crate) arena: usize,
}

impl Trace {
    /// A frame and those that called it, outermost first.
    pub(crate) fn callers(&self, frame: FrameId) -> Vec<FrameId> {
        let mut chain = vec![frame];
        let mut at = frame;
        while let Some((caller, _, _)) = self.frames[at.0 as usize].called {
            chain.push(caller);
            at = caller;
        }
        chain.reverse();
        chain
    }

    /// The frames that are active at an exit, outermost first.
    pub(crate) fn active(&self, exit: &Exit) -> Vec<FrameId> {
        self.callers(exit.frame)
    }

    /// Instructions that leave when something is not as it was.
    pub(crate) fn guards(&self) -> usize {
        let guards = |ins: &&Ins| {
            matches!(
                ins,
                Ins::Tag { .. }
                    | Ins::Is { .. }
                    | Ins::Alike { .. }
                    | Ins::Dims { .. }
                    | Ins::Fits { .. }
                    | Ins::Same { .. }
                    | Ins::Truth { .. }
                    | Ins::Closure { .. }
                    | Ins::Below { .. }
                    | Ins::Native { .. }
                    | Ins::Charge { .. }
                    | Ins::Builtin { inline: true, .. }
            )
        };
        self.before.iter().chain(&self.code).filter(guards).count()
    }

    /// Where the interpreter goes on after an exit: the functions, outermost first, and the
    /// operation.
    pub(crate) fn name(&self, exit: &Exit) -> String {
        let frames = self.active(exit).into_iter().map(|frame| self.frame(frame));
        // Frames below the trace's own are not its business unless it has gone there.
        let lowest = self.frame(exit.frame).base.min(0);
        let frames: Vec<&str> =
            frames.filter(|frame| frame.base >= lowest).map(|frame| &*frame.name).collect();
        format!("{}@{}", frames.join(" "), exit.pc)
    }

    /// Replaces the exit of each instruction, and of the end, by what `change` makes of it. It is
    /// given the number of the instruction in `code`, or their count for the end.
    pub(crate) fn change_exits(&mut self, mut change: impl FnMut(usize, &Exit) -> Exit) {
        let old = std::mem::take(&mut self.exits);
        let mut exits: Vec<Exit> = Vec::with_capacity(old.len());
        for id in self.before.iter_mut().filter_map(Ins::exit_mut) {
            let exit = &old[id.0 as usize];
            if exits.last() != Some(exit) {
                exits.push(exit.clone());
            }
            *id = ExitId(exits.len() as u32 - 1);
        }
        let mut renew = |at: usize, id: &mut ExitId| {
            let exit = change(at, &old[id.0 as usize]);
            if exits.last() != Some(&exit) {
                exits.push(exit);
            }
            *id = ExitId(exits.len() as u32 - 1);
        };
        let count = self.code.len();
        for (at, ins) in self.code.iter_mut().enumerate() {
            ins.exit_mut().into_iter().for_each(|id| renew(at, id));
        }
        if let End::Exit(id) = &mut self.end {
            renew(count, id);
        }
        self.exits = exits;
    }

    pub(crate) fn object(&self, ObjectId(id): ObjectId) -> &Object {
        &self.objects[id as usize]
    }

    pub(crate) fn frame(&self, FrameId(id): FrameId) -> &FrameData {
        &self.frames[id as usize]
    }

    /// Where a register is, in slots from register 0 of the first frame.
    pub(crate) fn slot(&self, place: Place) -> i32 {
        self.frame(place.frame).base + place.reg as i32
    }
}
