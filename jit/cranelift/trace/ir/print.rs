//! The trace IR as text.

use std::fmt;

use reflex_runtime::abi::type_index;
use reflex_vm::abi::DISCARD;

use crate::recycle::ReusePlan;

use super::{
    Arg, BuiltinResult, Caller, Carried, End, FrameId, Ins, LoadMode, Scalar, Snapshot, Trace, VReg,
};

impl fmt::Display for VReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame {
            FrameId(0) => write!(f, "%{}", self.reg),
            FrameId(frame) => write!(f, "%{}.f{frame}", self.reg),
        }
    }
}

/// The name of a type, or its index.
pub(crate) struct TagName(pub(crate) i32);

impl fmt::Display for TagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            type_index::NONE => "none",
            type_index::INT => "int",
            type_index::BOOL => "bool",
            type_index::FLOAT => "float",
            type_index::OPAQUE_PTR => "ptr",
            type_index::DATA_TYPE => "dtype",
            type_index::FUNCTION => "function",
            type_index::SHAPE => "shape",
            type_index::TENSOR => "tensor",
            type_index::ARRAY => "tuple",
            // Indices above are assigned as programs load.
            type_index::DYNAMIC_BEGIN.. => "object",
            other => return write!(f, "type{other}"),
        };
        f.write_str(name)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Scalar::NONE => f.write_str("none"),
            Scalar::Const { tag, bits } => write!(f, "{} {bits}", TagName(tag)),
            Scalar::Var { tag, var } => write!(f, "{} v{}", TagName(tag), var.0),
        }
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Reg(vreg, None) => write!(f, "{vreg}"),
            Arg::Reg(vreg, Some(tag)) => write!(f, "{vreg}:{}", TagName(*tag)),
            Arg::Scalar(scalar) => write!(f, "{scalar}"),
            Arg::Const(index) => write!(f, "c[{index}]"),
            Arg::Vm => f.write_str("%vm"),
            Arg::Object(object) => write!(f, "{object}"),
        }
    }
}

/// Items separated by commas.
pub(super) struct List<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, arg) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{arg}")?;
        }
        Ok(())
    }
}

/// The destination of a result: a register, or the result slot.
struct ResultName(Option<VReg>);

impl fmt::Display for ResultName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(vreg) => write!(f, "{vreg}"),
            None => f.write_str("result"),
        }
    }
}

impl fmt::Display for Ins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            | Ins::CheckFuel { .. } => self.fmt_guard(f),
            Ins::CallPacked { .. }
            | Ins::CallKernel { .. }
            | Ins::CallFunction { .. }
            | Ins::CallBuiltin { .. }
            | Ins::MakeView { .. }
            | Ins::Allocate { .. } => self.fmt_call(f),
            Ins::LoadPayload { var, vreg } => write!(f, "v{} = payload {vreg}", var.0),
            Ins::Let { var, value } => write!(f, "v{} = {value}", var.0),
            Ins::LoadDim { var, vreg, dim } => write!(f, "v{} = dim {dim} of {vreg}", var.0),
            Ins::LoadShapeDim { var, vreg, at } => {
                write!(f, "v{} = shape dim {at} of {vreg}", var.0)
            }
            Ins::LoadBool { var, vreg } => write!(f, "v{} = bool in {vreg}", var.0),
            Ins::LoadCaptured { dst, closure, index } => {
                write!(f, "{dst} = captured {closure} [{index}]")
            }
            Ins::Copy { dst, src, refs: 1 } => write!(f, "{dst} = copy {src}"),
            Ins::Copy { dst, src, refs: 0 } => write!(f, "{dst} = borrow {src}"),
            Ins::Copy { dst, src, refs } => write!(f, "{dst} = copy {src}, {refs} references"),
            Ins::Move { dst, src } => write!(f, "{dst} = move {src}"),
            Ins::ParallelMove(moves) => {
                for (at, (dst, src)) in moves.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(f, "{comma}{dst} = move {src}")?;
                }
                Ok(())
            }
            Ins::Store { dst, value } => write!(f, "{dst} = {value}"),
            Ins::Forget { vreg } => write!(f, "forget {vreg}"),
            Ins::Release { vreg, tag: None } => write!(f, "release {vreg}"),
            Ins::Release { vreg, tag: Some(tag) } => write!(f, "release {vreg}:{}", TagName(*tag)),
            Ins::Recycle { vreg, to } => write!(f, "recycle {vreg} to k{}", to.entry),
            Ins::EnterFrame { frame } => write!(f, "enter f{}", frame.0),
            Ins::LeaveFrame { frame } => write!(f, "leave f{}", frame.0),
            Ins::SetFrame { frame, was } => write!(f, "set frame f{} to f{}", was.0, frame.0),
            Ins::TakeResult { dst, .. } => write!(f, "{dst} = result"),
            Ins::DropResult { .. } => f.write_str("release result"),
            Ins::LoadOwned { value, src, tag, mode } => {
                let word = match mode {
                    LoadMode::Copy => "copy",
                    LoadMode::Move => "move",
                    LoadMode::Borrow => "borrow",
                };
                write!(f, "{value} = {word} {}", Arg::Reg(*src, *tag))
            }
            Ins::CopyOwned { value, of } => write!(f, "{value} = copy {of}"),
            Ins::StoreOwned { dst, value } => write!(f, "{dst} = move {value}"),
            Ins::ReleaseOwned { value } => write!(f, "release {value}"),
        }
    }
}

impl Ins {
    /// Writes a guard and its side exit; other instructions write nothing.
    fn fmt_guard(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exit = match self {
            Ins::GuardType { vreg, tag, exit } => {
                write!(f, "guard {vreg} is {}", TagName(*tag))?;
                exit
            }
            Ins::GuardFact { vreg, fact, exit } => {
                write!(f, "guard {vreg} {fact}")?;
                exit
            }
            Ins::GuardSameDim { vreg, dim, other, at, exit } => {
                write!(f, "guard dim {dim} of {vreg} == dim {at} of {other}")?;
                exit
            }
            Ins::GuardShapeRank { vreg, rank, exit } => {
                write!(f, "guard {vreg} has {rank} dims")?;
                exit
            }
            Ins::GuardViewFits { have, want, exit } => {
                write!(f, "guard [{}] fits in [{}]", List(want), List(have))?;
                exit
            }
            Ins::GuardEqual { left, right, exit } => {
                write!(f, "guard {left} == {right}")?;
                exit
            }
            Ins::GuardTruth { var, expected, exit } => {
                write!(f, "guard v{} is {expected}", var.0)?;
                exit
            }
            Ins::GuardClosure { vreg, func, captured, exit } => {
                write!(f, "guard {vreg} is closure of {func} with {captured}")?;
                exit
            }
            Ins::GuardCaller { frame, exit } => {
                write!(f, "guard caller of f{}", frame.0)?;
                exit
            }
            Ins::GuardCompiled { func, exit } => {
                write!(f, "guard {func} is compiled")?;
                exit
            }
            Ins::CheckFuel { units, exit } => {
                write!(f, "fuel {units}")?;
                exit
            }
            _ => return Ok(()),
        };
        write!(f, " else exit{}", exit.0)
    }

    /// Writes a call and its side exit; other instructions write nothing.
    fn fmt_call(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exit = match self {
            Ins::CallPacked { callee, args, dst, exit, .. } => {
                write!(f, "{} = call f[{callee}] ({})", ResultName(*dst), List(args))?;
                exit
            }
            Ins::CallKernel { callee, args, exit, .. } => {
                write!(f, "call kernel f[{callee}] ({})", List(args))?;
                exit
            }
            Ins::CallFunction { callee, args, dst, exit, .. } => {
                write!(f, "{} = call {callee} ({})", ResultName(*dst), List(args))?;
                exit
            }
            Ins::CallBuiltin { builtin, inline, args, taken, borrows, result, exit, .. } => {
                match result {
                    BuiltinResult::Nothing => {}
                    BuiltinResult::Var(_, var) => write!(f, "v{} = ", var.0)?,
                    BuiltinResult::Slot => write!(f, "{} = ", ResultName(None))?,
                    BuiltinResult::Reg(dst) => write!(f, "{dst} = ")?,
                }
                let word = if *inline { "inline " } else { "" };
                write!(f, "{word}{} ({})", builtin.name(), List(args))?;
                if *borrows {
                    f.write_str(" borrowed")?;
                }
                for vreg in taken {
                    write!(f, " taking {vreg}")?;
                }
                exit
            }
            Ins::MakeView { src, shape, exit, .. } => {
                write!(f, "result = view {src} as {shape}")?;
                exit
            }
            Ins::Allocate { builtin, free_entry, args, dst, exit, .. } => {
                let (entry, name) = (free_entry.entry, builtin.name());
                write!(f, "{} = reuse k{entry} or {name} ({})", ResultName(*dst), List(args))?;
                if let ReusePlan::TensorAndStorage { bytes, .. } = free_entry.plan {
                    write!(f, " on {bytes} bytes of its own")?;
                }
                exit
            }
            _ => return Ok(()),
        };
        write!(f, " at exit{}", exit.0)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trace {}@{}", self.frames[0].name, self.start_pc)?;
        for (id, frame) in self.frames.iter().enumerate() {
            let Some(Caller { frame: caller, return_pc, dst }) = frame.caller else { continue };
            let (name, caller) = (&frame.name, caller.0);
            write!(f, "  frame f{id}: {name} called by f{caller}, returns to {return_pc}")?;
            if dst != DISCARD {
                write!(f, " with %{dst}")?;
            }
            writeln!(f)?;
        }
        for (id, object) in self.objects.iter().enumerate() {
            writeln!(f, "  virtual o{id}: {object}")?;
        }
        for ins in &self.preheader {
            writeln!(f, "  {ins}")?;
        }
        if !self.preheader.is_empty() {
            writeln!(f, "  loop body")?;
        }
        for Carried { vreg, inside, first, next } in &self.carried {
            write!(f, "  carried {vreg} = {inside}")?;
            if let Some(first) = first {
                write!(f, ", first v{}, next {next}", first.0)?;
            }
            writeln!(f)?;
        }
        for ins in &self.code {
            writeln!(f, "  {ins}")?;
        }
        writeln!(f, "  {}", self.end)?;
        for (id, snapshot) in self.snapshots.iter().enumerate() {
            write!(f, "exit{id}: {}", self.name(snapshot))?;
            writeln!(f, "{snapshot}")?;
        }
        Ok(())
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            End::Loop => f.write_str("loop"),
            End::Recursion { frame } => write!(f, "recursion in f{}", frame.0),
            End::Return { frame: FrameId(0), pc } => write!(f, "return at {pc}"),
            End::Return { frame, pc } => write!(f, "return from f{} at {pc}", frame.0),
            End::Site { site, .. } => write!(f, "link to site {site}"),
            End::Function { func } => write!(f, "link to function {func}"),
            End::Interpreter(exit) => write!(f, "leave by exit{}", exit.0),
        }
    }
}

/// The registers that a side exit restores, after the position where the interpreter resumes.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.entered != self.frame {
            write!(f, "; from f{}", self.entered.0)?;
        }
        if self.refund > 0 {
            write!(f, "; refund {}", self.refund)?;
        }
        for (vreg, scalar) in &self.scalars {
            write!(f, "; {vreg} = {scalar}")?;
        }
        for (vreg, src) in &self.moves {
            write!(f, "; {vreg} = move {src}")?;
        }
        for (vreg, of) in &self.copies {
            write!(f, "; {vreg} = copy {of}")?;
        }
        for (vreg, object) in &self.objects {
            write!(f, "; {vreg} = {object}")?;
        }
        for vreg in &self.borrowed {
            write!(f, "; retain {vreg}")?;
        }
        for value in &self.held {
            write!(f, "; release {value}")?;
        }
        Ok(())
    }
}
