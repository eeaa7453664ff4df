//! `runtime.RPCTimeEvaluator`: measurements of a function, made beside it.

use std::time::{Duration, Instant};

use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::module::{Imports, Module};
use reflex_runtime::registry;
use reflex_runtime::string::Bytes;
use reflex_runtime::timing::{self, TimingOptions};
use reflex_runtime::value::{Any, AnyView};

use super::builtins::text;
use crate::limits::check;

/// Most measurements, and most calls of one that a client may ask for.
const MAX_COUNT: u32 = 1 << 24;
/// Most bytes that are written to flush caches.
const MAX_FLUSH: u32 = 1 << 30;
/// The preprocessing that any client may ask for.
const FLUSH_ARGUMENTS: &str = "cache_flush_cpu_non_first_arg";
/// The longest pause and measurement, in milliseconds.
const MAX_MS: u32 = 3_600_000;

/// Makes the function that measures: `(module or None, name, device type, device id, number, repeat,
/// min_repeat_ms, limit_zero_time_iterations, cooldown_ms, repeats_to_cooldown, cache_flush_bytes,
/// f_preproc)`.
pub fn evaluator(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let name = text(args, 1)?;
    let Some(module) = args.first().and_then(|arg| arg.downcast_ref::<Module>()) else {
        return Err(Error::type_error("only functions of a module are measured"));
    };
    let function = module.function(&name, Imports::Search)?;
    let function = function.ok_or_else(|| {
        Error::new("AttributeError", format!("the module has no function `{name}`"))
    })?;
    let options = options(args)?;
    Ok(Function::new(move |args| measure(&function, args, &options)).into())
}

fn options(args: &[AnyView<'_>]) -> Result<TimingOptions, Error> {
    let count = |at: usize, name: &str, most: u32| {
        let value = function::arg::<i64>(args, at)?;
        let value = u32::try_from(value)
            .map_err(|_| Error::value_error(format!("{name} cannot be {value}")))?;
        check(name, u64::from(value), u64::from(most)).map(|()| value)
    };
    let milliseconds = |ms: u32| Duration::from_millis(ms.into());
    let options = TimingOptions {
        number: count(4, "number", MAX_COUNT)?,
        repeat: count(5, "repeat", MAX_COUNT)?,
        min_repeat: milliseconds(count(6, "min_repeat_ms", MAX_MS)?),
        zero_time_limit: count(7, "limit_zero_time_iterations", MAX_COUNT)?,
        cooldown: milliseconds(count(8, "cooldown_interval_ms", MAX_MS)?),
        repeats_to_cooldown: count(9, "repeats_to_cooldown", MAX_COUNT)?,
        cache_flush_bytes: count(10, "cache_flush_bytes", MAX_FLUSH)? as usize,
        preprocess: None,
    };
    if options.number == 0 || options.repeat == 0 {
        return Err(Error::value_error("number and repeat must be at least 1"));
    }
    match args.get(11).and_then(|name| name.as_str()) {
        None | Some("") => Ok(options),
        Some(FLUSH_ARGUMENTS) => {
            Ok(TimingOptions { preprocess: Some(FLUSH_ARGUMENTS.to_owned()), ..options })
        }
        Some(other) => Err(Error::value_error(format!("f_preproc {other:?} is not supported"))),
    }
}

/// Bytes of `repeat` floats: seconds of a call.
fn measure(
    function: &Function,
    args: &[AnyView<'_>],
    options: &TimingOptions,
) -> Result<Any, Error> {
    let preprocess = options.preprocess.as_deref().and_then(registry::get);
    let prepare = || match &preprocess {
        Some(preprocess) => preprocess.call(args).map(drop),
        None => Ok(()),
    };
    let seconds = timing::measure(options, prepare, |number| {
        let began = Instant::now();
        (0..number).try_for_each(|_| function.call(args).map(drop))?;
        Ok::<_, Error>(began.elapsed())
    })?;
    let bytes: Vec<u8> = seconds.iter().flat_map(|seconds| seconds.to_le_bytes()).collect();
    Ok(Bytes::new(&bytes).into())
}
