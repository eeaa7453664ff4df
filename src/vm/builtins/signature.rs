//! Signatures of builtins, and the verifier's rules about their arguments.
//!
//! Arguments in registers are unknown here and checked by the builtin itself; these
//! rules catch programs that are wrong whatever the registers hold.

use crate::bytecode::{Arg, Reg};
use crate::executable::{Constant, Executable};

/// The kind of an argument, as far as the verifier knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Param {
    /// Anything.
    Any,
    /// `%vm`.
    Vm,
    /// An integer.
    Int,
    /// An element type.
    DType,
    /// A string, or None.
    Text,
    /// A shape.
    Shape,
    /// A shape heap, or None where no code uses it.
    Heap,
    /// A function.
    Func,
}

/// The arguments that may follow or lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// None.
    Fixed,
    /// This many may be left out at the end.
    Optional(usize),
    /// Any number of any kind follows.
    Variadic,
}

/// The parameters of a builtin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Those with a kind of their own.
    pub params: &'static [Param],
    /// Those that may be left out or follow.
    pub rest: Rest,
}

/// A check of a call beyond its signature.
pub type Rule = fn(&Call<'_>) -> Result<(), String>;

/// A call whose arguments decode and exist.
pub struct Call<'a> {
    /// The executable.
    pub exec: &'a Executable,
    /// The arguments.
    pub args: &'a [Arg],
}

/// An argument as it is in every run.
enum StaticArg<'a> {
    /// In a register.
    Unknown,
    None,
    Vm,
    Int(i64),
    Func,
    Const(&'a Constant),
}

impl Call<'_> {
    fn static_arg(&self, index: usize) -> StaticArg<'_> {
        match self.args.get(index) {
            None | Some(Arg::Reg(Reg::VOID)) => StaticArg::None,
            Some(Arg::Reg(Reg::VM)) => StaticArg::Vm,
            Some(Arg::Reg(_)) => StaticArg::Unknown,
            Some(Arg::Imm(value)) => StaticArg::Int(*value),
            Some(Arg::Const(at)) => match &self.exec.constants[*at as usize] {
                Constant::Int(value) => StaticArg::Int(*value),
                constant => StaticArg::Const(constant),
            },
            Some(Arg::Func(_)) => StaticArg::Func,
        }
    }

    fn static_int(&self, index: usize) -> Option<i64> {
        match self.static_arg(index) {
            StaticArg::Int(value) => Some(value),
            _ => None,
        }
    }
}

fn fits(param: Param, arg: &StaticArg<'_>) -> bool {
    matches!(
        (param, arg),
        (Param::Any, _)
            | (_, StaticArg::Unknown)
            | (Param::Vm, StaticArg::Vm)
            | (Param::Int, StaticArg::Int(_))
            | (Param::Func, StaticArg::Func)
            | (Param::Text | Param::Heap, StaticArg::None)
            | (Param::DType, StaticArg::Const(Constant::DType(_) | Constant::Str(_)))
            | (Param::Text, StaticArg::Const(Constant::Str(_)))
            | (Param::Shape, StaticArg::Const(Constant::Shape(_)))
            | (Param::Heap, StaticArg::Const(Constant::Tensor(_)))
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

/// Checks counts and kinds of the arguments.
pub fn check(name: &str, signature: Signature, call: &Call<'_>) -> Result<(), String> {
    let Signature { params, rest } = signature;
    let given = call.args.len();
    let (least, most) = match rest {
        Rest::Fixed => (params.len(), params.len()),
        Rest::Optional(count) => (params.len() - count, params.len()),
        Rest::Variadic => (params.len(), usize::MAX),
    };
    if given < least || given > most {
        return Err(format!("`{}` does not take {given} arguments", name));
    }
    for (index, &param) in params.iter().enumerate().take(given) {
        if !fits(param, &call.static_arg(index)) {
            let expected = expectation(param);
            return Err(format!("`{}`, argument {index} is not {expected}", name));
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
    let Some(code) = call.static_int(at) else {
        return kind_of_int(call, at);
    };
    if !(0..codes).contains(&code) {
        return Err(format!("argument {at}: unknown code {code}"));
    }
    kind_of_int(call, at + 1)?;
    if !uses.contains(&code) {
        return Ok(());
    }
    if matches!(call.static_arg(heap), StaticArg::None) {
        return Err(format!("argument {at}: code {code} needs a shape heap and there is none"));
    }
    match call.static_int(at + 1) {
        Some(reg) if reg < 0 => Err(format!("argument {}: heap index {reg}", at + 1)),
        _ => Ok(()),
    }
}

fn kind_of_int(call: &Call<'_>, at: usize) -> Result<(), String> {
    if fits(Param::Int, &call.static_arg(at)) {
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
    let Some(count) = call.static_int(count_at) else {
        return Ok(());
    };
    let given = call.args.len();
    let expected = usize::try_from(count)
        .ok()
        .and_then(|n| n.checked_mul(2))
        .and_then(|n| n.checked_add(first + after));
    if expected != Some(given) {
        return Err(format!("{count} dimensions do not match {given} arguments"));
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
