//! The trace IR as text.

use std::fmt;

use reflex_runtime::abi::type_index;
use reflex_vm::abi::DISCARD;

use super::{Arg, BuiltinResult, Carried, End, FrameId, Hold, Ins, Place, Plain, Trace};

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame {
            FrameId(0) => write!(f, "%{}", self.reg),
            FrameId(frame) => write!(f, "%{}.f{frame}", self.reg),
        }
    }
}

/// The name of a plain type, or its number.
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
            // Numbers above are given out as programs load.
            type_index::DYNAMIC_BEGIN.. => "object",
            other => return write!(f, "type{other}"),
        };
        f.write_str(name)
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Plain::NONE => f.write_str("none"),
            Plain::Const { tag, bits } => write!(f, "{} {bits}", TagName(tag)),
            Plain::Var { tag, var } => write!(f, "{} v{}", TagName(tag), var.0),
        }
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Place(place, None) => write!(f, "{place}"),
            Arg::Place(place, Some(tag)) => write!(f, "{place}:{}", TagName(*tag)),
            Arg::Plain(plain) => write!(f, "{plain}"),
            Arg::Const(index) => write!(f, "c[{index}]"),
            Arg::Vm => f.write_str("%vm"),
            Arg::Object(object) => write!(f, "{object}"),
        }
    }
}

/// Things with commas between them.
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

/// Where a result is: in a register, or in the result slot.
struct Result(Option<Place>);

impl fmt::Display for Result {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "{place}"),
            None => f.write_str("result"),
        }
    }
}

impl fmt::Display for Ins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ins::Tag { place, tag, exit } => {
                write!(f, "guard {place} is {} else exit{}", TagName(*tag), exit.0)
            }
            Ins::Is { place, fact, exit } => write!(f, "guard {place} {fact} else exit{}", exit.0),
            Ins::Alike { place, dim, other, at, exit } => {
                let exit = exit.0;
                write!(f, "guard {place} at {dim} is as {other} at {at} else exit{exit}")
            }
            Ins::Payload { var, place } => write!(f, "v{} = payload {place}", var.0),
            Ins::Let { var, value } => write!(f, "v{} = {value}", var.0),
            Ins::Extent { var, place, dim } => write!(f, "v{} = extent {dim} of {place}", var.0),
            Ins::Dims { place, rank, exit } => {
                write!(f, "guard {place} has {rank} numbers else exit{}", exit.0)
            }
            Ins::Number { var, place, at } => write!(f, "v{} = number {at} of {place}", var.0),
            Ins::Fits { have, want, exit } => {
                write!(f, "guard [{}] holds [{}] else exit{}", List(have), List(want), exit.0)
            }
            Ins::Same { left, right, exit } => {
                write!(f, "guard {left} is {right} else exit{}", exit.0)
            }
            Ins::Flag { var, place } => write!(f, "v{} = flag in {place}", var.0),
            Ins::Truth { var, expected, exit } => {
                let word = if *expected { "true" } else { "false" };
                write!(f, "guard v{} is {word} else exit{}", var.0, exit.0)
            }
            Ins::Closure { place, func, captured, exit } => {
                write!(f, "guard {place} is closure of {func} with {captured} else exit{}", exit.0)
            }
            Ins::Below { frame, exit } => {
                write!(f, "guard caller of f{} else exit{}", frame.0, exit.0)
            }
            Ins::Native { func, exit } => {
                write!(f, "guard code of {func} else exit{}", exit.0)
            }
            Ins::Captured { dst, closure, index } => {
                write!(f, "{dst} = captured {closure} [{index}]")
            }
            Ins::Charge { units, exit } => write!(f, "charge {units} else exit{}", exit.0),
            Ins::Copy { dst, src } => write!(f, "{dst} = copy {src}"),
            Ins::Move { dst, src } => write!(f, "{dst} = move {src}"),
            Ins::Moves(moves) => {
                for (at, (dst, src)) in moves.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(f, "{comma}{dst} = move {src}")?;
                }
                Ok(())
            }
            Ins::Store { dst, value } => write!(f, "{dst} = {value}"),
            Ins::Release { place, tag: None } => write!(f, "release {place}"),
            Ins::Release { place, tag: Some(tag) } => {
                write!(f, "release {place}:{}", TagName(*tag))
            }
            Ins::Packed { callee, args, dst, exit, .. } => {
                let (to, args) = (Result(*dst), List(args));
                write!(f, "{to} = call f[{callee}] ({args}) at exit{}", exit.0)
            }
            Ins::Raw { callee, args, exit, .. } => {
                write!(f, "call raw f[{callee}] ({}) at exit{}", List(args), exit.0)
            }
            Ins::Invoke { callee, args, dst, exit, .. } => {
                let (to, args) = (Result(*dst), List(args));
                write!(f, "{to} = invoke {callee} ({args}) at exit{}", exit.0)
            }
            Ins::Builtin { builtin, inline, args, result, exit, .. } => {
                match result {
                    BuiltinResult::Nothing => {}
                    BuiltinResult::Var(_, var) => write!(f, "v{} = ", var.0)?,
                    BuiltinResult::Slot => write!(f, "{} = ", Result(None))?,
                    BuiltinResult::Place(dst) => write!(f, "{dst} = ")?,
                }
                let word = if *inline { "inline " } else { "" };
                write!(f, "{word}{} ({}) at exit{}", builtin.name(), List(args), exit.0)
            }
            Ins::View { src, shape, exit, .. } => {
                write!(f, "result = view {src} as {shape} at exit{}", exit.0)
            }
            Ins::Allocate { builtin, kept, args, dst, exit, .. } => {
                let (entry, name) = (kept.entry, builtin.name());
                let (to, args) = (Result(*dst), List(args));
                write!(f, "{to} = take k{entry} or {name} ({args}) at exit{}", exit.0)
            }
            Ins::Give { place, give } => write!(f, "give {place} to k{}", give.entry),
            Ins::Enter { frame } => write!(f, "enter f{}", frame.0),
            Ins::Leave { frame } => write!(f, "leave f{}", frame.0),
            Ins::Current { frame, was } => write!(f, "go from f{} to f{}", was.0, frame.0),
            Ins::Take { dst, .. } => write!(f, "{dst} = result"),
            Ins::Drop { .. } => f.write_str("release result"),
            Ins::Hold { held, src, tag, how } => {
                let word = match how {
                    Hold::Copy => "copy",
                    Hold::Move => "move",
                    Hold::Borrow => "borrow",
                };
                write!(f, "{held} = {word} {}", Arg::Place(*src, *tag))
            }
            Ins::HoldAgain { held, of } => write!(f, "{held} = copy {of}"),
            Ins::Unhold { dst, held } => write!(f, "{dst} = move {held}"),
            Ins::DropHeld { held } => write!(f, "release {held}"),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trace {}@{}", self.frames[0].name, self.start_pc)?;
        for (id, frame) in self.frames.iter().enumerate() {
            let Some((caller, return_pc, dst)) = frame.called else { continue };
            write!(
                f,
                "  frame f{id}: {} called by f{}, returns to {return_pc}",
                frame.name, caller.0
            )?;
            if dst != DISCARD {
                write!(f, " with %{dst}")?;
            }
            writeln!(f)?;
        }
        for (id, object) in self.objects.iter().enumerate() {
            writeln!(f, "  object o{id}: {object}")?;
        }
        for ins in &self.before {
            writeln!(f, "  {ins}")?;
        }
        if !self.before.is_empty() {
            writeln!(f, "  loop begins")?;
        }
        for Carried { place, inside, first, again } in &self.carried {
            write!(f, "  with {place} = {inside}")?;
            if let Some(first) = first {
                write!(f, ", at first v{}, then {again}", first.0)?;
            }
            writeln!(f)?;
        }
        for ins in &self.code {
            writeln!(f, "  {ins}")?;
        }
        match self.end {
            End::Loop => writeln!(f, "  loop")?,
            End::Shift { frame } => writeln!(f, "  loop in f{}", frame.0)?,
            End::Return { frame: FrameId(0), pc } => writeln!(f, "  return at {pc}")?,
            End::Return { frame, pc } => writeln!(f, "  return from f{} at {pc}", frame.0)?,
            End::Site { site, .. } => writeln!(f, "  go to site {site}")?,
            End::Into { func } => writeln!(f, "  go into {func}")?,
            End::Exit(exit) => writeln!(f, "  go to exit{}", exit.0)?,
        }
        for (id, exit) in self.exits.iter().enumerate() {
            write!(f, "exit{id}: {}", self.name(exit))?;
            if exit.entered != exit.frame {
                write!(f, "; from f{}", exit.entered.0)?;
            }
            if exit.refund > 0 {
                write!(f, "; refund {}", exit.refund)?;
            }
            for (place, plain) in &exit.plain {
                write!(f, "; {place} = {plain}")?;
            }
            for (place, src) in &exit.moves {
                write!(f, "; {place} = move {src}")?;
            }
            for (place, of) in &exit.copies {
                write!(f, "; {place} = copy {of}")?;
            }
            for (place, object) in &exit.objects {
                write!(f, "; {place} = {object}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
