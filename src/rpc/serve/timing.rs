//! `runtime.RPCTimeEvaluator`: measurements of a function, made beside it.

use std::thread;
use std::time::{Duration, Instant};

use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::string::Bytes;
use reflex_runtime::value::{Any, AnyView};

use super::builtins::text;
use crate::limits::check;
use crate::module::Module;

/// Most measurements, and most calls of one.
const MAX_COUNT: u64 = 1 << 24;
/// Most bytes that are written to flush caches.
const MAX_FLUSH: u64 = 1 << 30;

/// What is measured, in the order of TVM's arguments.
#[derive(Clone, Debug)]
struct Options {
    /// Calls of a measurement.
    number: u64,
    repeat: u64,
    min_repeat: Duration,
    /// Measurements of no time at all before `number` no longer grows.
    zero_time_limit: u64,
    cooldown: Duration,
    /// Measurements between two pauses.
    repeats_to_cooldown: u64,
    /// Bytes that are written before each call of one, so that caches hold nothing else.
    flush: usize,
}

/// Makes the function that measures: `(module or None, name, device type, device id, number, repeat,
/// min_repeat_ms, limit_zero_time_iterations, cooldown_ms, repeats_to_cooldown, cache_flush_bytes,
/// f_preproc)`.
pub fn evaluator(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let name = text(args, 1)?;
    let Some(module) = args.first().and_then(Module::of) else {
        return Err(Error::type_error("only functions of a module are measured"));
    };
    let function = module.function(&name)?;
    let function = function.ok_or_else(|| {
        Error::new("AttributeError", format!("the module has no function `{name}`"))
    })?;
    let options = Options::of(args)?;
    Ok(Function::new(move |args| measure(&function, args, &options)).into())
}

impl Options {
    fn of(args: &[AnyView<'_>]) -> Result<Options, Error> {
        let count = |at: usize, name: &str, most: u64| {
            let value = function::arg::<i64>(args, at)?;
            let value = u64::try_from(value)
                .map_err(|_| Error::value_error(format!("{name} cannot be {value}")))?;
            check(name, value, most).map(|()| value)
        };
        let hour = 3_600_000;
        let options = Options {
            number: count(4, "number", MAX_COUNT)?,
            repeat: count(5, "repeat", MAX_COUNT)?,
            min_repeat: Duration::from_millis(count(6, "min_repeat_ms", hour)?),
            zero_time_limit: count(7, "limit_zero_time_iterations", MAX_COUNT)?,
            cooldown: Duration::from_millis(count(8, "cooldown_interval_ms", hour)?),
            repeats_to_cooldown: count(9, "repeats_to_cooldown", MAX_COUNT)?.max(1),
            flush: count(10, "cache_flush_bytes", MAX_FLUSH)? as usize,
        };
        if options.number == 0 || options.repeat == 0 {
            return Err(Error::value_error("number and repeat must be at least 1"));
        }
        match args.get(11).and_then(|name| name.as_str()) {
            None | Some("") => Ok(options),
            Some("cache_flush_cpu_non_first_arg") if options.flush == 0 => {
                Ok(Options { flush: 64 << 20, ..options })
            }
            Some("cache_flush_cpu_non_first_arg") => Ok(options),
            Some(other) => Err(Error::value_error(format!("f_preproc {other:?} is not built"))),
        }
    }
}

/// Bytes of `repeat` floats: seconds of a call.
fn measure(function: &Function, args: &[AnyView<'_>], options: &Options) -> Result<Any, Error> {
    let mut cold = vec![0_u8; options.flush];
    function.call(args)?;
    let mut number = options.number;
    let mut seconds = vec![];
    for turn in 0..options.repeat {
        if turn > 0 && turn.is_multiple_of(options.repeats_to_cooldown) {
            thread::sleep(options.cooldown);
        }
        let mut zeroes = 0;
        let elapsed = loop {
            flush(&mut cold, turn);
            let began = Instant::now();
            for _ in 0..number {
                function.call(args)?;
            }
            let elapsed = began.elapsed();
            zeroes += u64::from(elapsed.is_zero());
            let enough = elapsed >= options.min_repeat || zeroes > options.zero_time_limit;
            if enough || number >= MAX_COUNT {
                break elapsed;
            }
            let missing = options.min_repeat.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
            number = ((number as f64 * (missing * 1.1).max(1.5)) as u64).min(MAX_COUNT);
        };
        seconds.extend((elapsed.as_secs_f64() / number as f64).to_le_bytes());
    }
    Ok(Bytes::new(&seconds).into())
}

/// Writes every line of `cold`.
fn flush(cold: &mut [u8], turn: u64) {
    cold.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(turn as u8 | 1));
    std::hint::black_box(cold);
}
