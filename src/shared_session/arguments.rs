//! Arguments from other languages, as programs take them: kernels read compact tensors.

use reflex_runtime::error::Error as Raised;
use reflex_runtime::value::{Any, AnyView};

use crate::error::{Error, ErrorKind, Result};
use crate::program::Program;
use crate::signature::TensorInfo;

/// Kind of the error about an argument that is not a tensor where the function takes one. Nothing has
/// run then, so a host may convert the argument and call again.
const NOT_A_TENSOR: &str = "reflex.NotATensor";

/// The parameters that arguments stand for, where they are fewer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameters {
    First,
    Last,
}

/// Returns the arguments with strided tensors replaced by compact copies, which `copies` owns.
#[inline]
pub(crate) fn compact<'a>(
    args: &'a [AnyView<'a>],
    copies: &'a mut Vec<Any>,
) -> Result<&'a [AnyView<'a>]> {
    if args.iter().any(AnyView::is_strided) { copied(args, copies) } else { Ok(args) }
}

#[cold]
fn copied<'a>(args: &[AnyView<'_>], copies: &'a mut Vec<Any>) -> Result<&'a [AnyView<'a>]> {
    let compact = args.iter().map(AnyView::to_compact).collect::<std::result::Result<_, _>>();
    *copies = compact.map_err(|error| Error::raised(ErrorKind::Run, error))?;
    Ok(AnyView::slice(copies))
}

/// Owned values that outlive the call; strided tensors are copied into compact ones.
pub(crate) fn kept(args: &[AnyView<'_>]) -> Result<Vec<Any>> {
    let own = |arg: &AnyView<'_>| match arg.is_strided() {
        true => arg.to_compact(),
        false => arg.to_owned_copy(),
    };
    let owned = args.iter().map(own).collect::<std::result::Result<_, _>>();
    owned.map_err(|error| Error::raised(ErrorKind::Run, error))
}

/// Refuses arguments of `func` that are not tensors where its signature has tensors.
#[inline]
pub(crate) fn check_tensors(
    program: &Program,
    func: &str,
    args: &[AnyView<'_>],
    parameters: Parameters,
) -> std::result::Result<(), Raised> {
    match args.iter().all(|arg| arg.as_dltensor().is_some()) {
        true => Ok(()),
        false => check_each(program, func, args, parameters),
    }
}

#[cold]
fn check_each(
    program: &Program,
    func: &str,
    args: &[AnyView<'_>],
    parameters: Parameters,
) -> std::result::Result<(), Raised> {
    // A function whose signature is not known takes what it takes.
    let Ok(signature) = program.signature(func) else { return Ok(()) };
    let skipped = match parameters {
        Parameters::First => 0,
        Parameters::Last => signature.inputs.len().saturating_sub(args.len()),
    };
    let wrong =
        |(info, arg): &(&TensorInfo, &AnyView<'_>)| info.is_typed() && arg.as_dltensor().is_none();
    match signature.inputs.iter().skip(skipped).zip(args).find(wrong) {
        None => Ok(()),
        Some((info, arg)) => {
            let message =
                format!("`{func}`: input {info}: got a `{}`, not a tensor", arg.type_key());
            Err(Raised::new(NOT_A_TENSOR, message))
        }
    }
}
