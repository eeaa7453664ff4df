//! What the verifier can say about a builtin's arguments before anything runs.
//!
//! Arguments in registers are unknown here and checked by the builtin itself; these
//! rules catch programs that are wrong whatever the registers hold.

use crate::builtins::{Builtin, Param, Tail};
use crate::bytecode::{Arg, Reg};
use crate::executable::{Constant, Executable};

/// A call whose arguments decode and exist.
pub struct Call<'a> {
    /// The executable.
    pub exec: &'a Executable,
    /// The arguments.
    pub args: &'a [Arg],
}

/// An argument that is the same in every run.
enum Known<'a> {
    /// In a register: not known.
    Nothing,
    None,
    Vm,
    Int(i64),
    Func,
    Const(&'a Constant),
}

impl Call<'_> {
    fn known(&self, index: usize) -> Known<'_> {
        match self.args.get(index) {
            None | Some(Arg::Reg(Reg::VOID)) => Known::None,
            Some(Arg::Reg(Reg::VM)) => Known::Vm,
            Some(Arg::Reg(_)) => Known::Nothing,
            Some(Arg::Imm(value)) => Known::Int(*value),
            Some(Arg::Const(at)) => match &self.exec.constants[*at as usize] {
                Constant::Int(value) => Known::Int(*value),
                constant => Known::Const(constant),
            },
            Some(Arg::Func(_)) => Known::Func,
        }
    }

    fn known_int(&self, index: usize) -> Option<i64> {
        match self.known(index) {
            Known::Int(value) => Some(value),
            _ => None,
        }
    }
}

fn fits(param: Param, known: &Known<'_>) -> bool {
    matches!(
        (param, known),
        (Param::Any, _)
            | (_, Known::Nothing)
            | (Param::Vm, Known::Vm)
            | (Param::Int, Known::Int(_))
            | (Param::Func, Known::Func)
            | (Param::Text | Param::Heap, Known::None)
            | (Param::DType, Known::Const(Constant::DType(_) | Constant::Str(_)))
            | (Param::Text, Known::Const(Constant::Str(_)))
            | (Param::Shape, Known::Const(Constant::Shape(_)))
            | (Param::Heap, Known::Const(Constant::Tensor(_)))
    )
}

fn expectation(param: Param) -> &'static str {
    match param {
        Param::Any => "a value",
        Param::Vm => "the VM state",
        Param::Int => "an integer",
        Param::DType => "an element type",
        Param::Text => "a string",
        Param::Shape => "a shape",
        Param::Heap => "a shape heap",
        Param::Func => "a function",
    }
}

/// Counts and kinds of the arguments.
pub fn signature(builtin: Builtin, call: &Call<'_>) -> Result<(), String> {
    let (params, tail) = builtin.params();
    let given = call.args.len();
    let (least, most) = match tail {
        Tail::Fixed => (params.len(), params.len()),
        Tail::Optional(count) => (params.len() - count, params.len()),
        Tail::Variadic => (params.len(), usize::MAX),
    };
    if given < least || given > most {
        return Err(format!("`{}` does not take {given} arguments", builtin.name()));
    }
    for (index, &param) in params.iter().enumerate().take(given) {
        if !fits(param, &call.known(index)) {
            let expected = expectation(param);
            return Err(format!("`{}`, argument {index} is not {expected}", builtin.name()));
        }
    }
    Ok(())
}

/// Nothing beyond the signature.
pub fn none(_: &Call<'_>) -> Result<(), String> {
    Ok(())
}

/// The (code, reg) pair whose code is argument `at`.
fn pair(call: &Call<'_>, at: usize, heap: usize, codes: i64, uses: &[i64]) -> Result<(), String> {
    let Some(code) = call.known_int(at) else {
        return kind_of_int(call, at);
    };
    if !(0..codes).contains(&code) {
        return Err(format!("argument {at}: unknown code {code}"));
    }
    kind_of_int(call, at + 1)?;
    if !uses.contains(&code) {
        return Ok(());
    }
    if matches!(call.known(heap), Known::None) {
        return Err(format!("argument {at}: code {code} needs a shape heap and there is none"));
    }
    match call.known_int(at + 1) {
        Some(reg) if reg < 0 => Err(format!("argument {}: heap index {reg}", at + 1)),
        _ => Ok(()),
    }
}

fn kind_of_int(call: &Call<'_>, at: usize) -> Result<(), String> {
    if fits(Param::Int, &call.known(at)) {
        Ok(())
    } else {
        Err(format!("argument {at} is not an integer"))
    }
}

/// `n` pairs starting at argument `first`, and `after` arguments behind them.
fn pairs(
    call: &Call<'_>,
    count_at: usize,
    first: usize,
    after: usize,
    check: impl Fn(usize) -> Result<(), String>,
) -> Result<(), String> {
    let Some(count) = call.known_int(count_at) else {
        return Ok(());
    };
    let given = call.args.len();
    let expected = usize::try_from(count)
        .ok()
        .and_then(|n| n.checked_mul(2))
        .and_then(|n| n.checked_add(first + after));
    if expected != Some(given) {
        return Err(format!("{count} extents do not match {given} arguments"));
    }
    (0..count as usize).try_for_each(|k| check(first + 2 * k))
}

pub fn match_shape(call: &Call<'_>) -> Result<(), String> {
    pairs(call, 2, 3, 1, |at| pair(call, at, 1, 4, &[1, 3]))
}

pub fn match_prim_value(call: &Call<'_>) -> Result<(), String> {
    pair(call, 2, 1, 4, &[1, 3])
}

pub fn make_shape(call: &Call<'_>) -> Result<(), String> {
    pairs(call, 1, 2, 0, |at| pair(call, at, 0, 2, &[1]))
}

pub fn make_prim_value(call: &Call<'_>) -> Result<(), String> {
    pair(call, 1, 0, 2, &[1])
}

pub fn check_tensor_info(call: &Call<'_>) -> Result<(), String> {
    match call.args.len() {
        3 | 4 => Ok(()),
        given => Err(format!("3 or 4 arguments expected, {given} given")),
    }
}
