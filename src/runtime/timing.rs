//! Measurements of calls, as TVM's time evaluators make them.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Calls and measurements.
#[derive(Clone, Debug)]
pub struct TimingOptions {
    /// Calls whose mean is one measurement.
    pub number: u32,
    /// Measurements.
    pub repeat: u32,
    /// Each measurement takes at least this long; `number` grows until it does.
    pub min_repeat: Duration,
    /// Measurements of no time at all after which `number` grows no more.
    pub zero_time_limit: u32,
    /// Pause between measurements.
    pub cooldown: Duration,
    /// Measurements between two pauses.
    pub repeats_to_cooldown: u32,
    /// Bytes that are written before each measurement, so that caches hold nothing else.
    pub cache_flush_bytes: usize,
    /// The name of a global function that is called with the arguments before each measurement, such as
    /// `cache_flush_cpu_non_first_arg`.
    pub preprocess: Option<String>,
}

impl Default for TimingOptions {
    fn default() -> TimingOptions {
        TimingOptions {
            number: 10,
            repeat: 1,
            min_repeat: Duration::ZERO,
            zero_time_limit: 100,
            cooldown: Duration::ZERO,
            repeats_to_cooldown: 1,
            cache_flush_bytes: 0,
            preprocess: None,
        }
    }
}

/// Measures seconds per call. `run` makes a number of calls and returns what they took; one call
/// goes before the first measurement. `prepare` is called before each measurement.
pub fn measure<E>(
    options: &TimingOptions,
    mut prepare: impl FnMut() -> Result<(), E>,
    mut run: impl FnMut(u32) -> Result<Duration, E>,
) -> Result<Vec<f64>, E> {
    let mut cold = vec![0_u8; options.cache_flush_bytes];
    run(1)?;
    let mut number = options.number;
    let mut seconds = vec![];
    for turn in 0..options.repeat {
        if turn > 0 && turn.is_multiple_of(options.repeats_to_cooldown.max(1)) {
            thread::sleep(options.cooldown);
        }
        let mut zeroes = 0;
        let elapsed = loop {
            cold.iter_mut().step_by(LINE).for_each(|byte| *byte = byte.wrapping_add(1));
            black_box(&mut cold);
            prepare()?;
            let elapsed = run(number)?;
            zeroes += u32::from(elapsed.is_zero());
            let is_enough = elapsed >= options.min_repeat || zeroes > options.zero_time_limit;
            if is_enough || number == u32::MAX {
                break elapsed;
            }
            let missing = options.min_repeat.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
            number = (f64::from(number) * (missing * 1.1).max(1.5)) as u32;
        };
        seconds.push(elapsed.as_secs_f64() / f64::from(number));
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that `measure` makes, where each takes `each`.
    fn calls(options: &TimingOptions, each: Duration) -> (Vec<u32>, Vec<f64>) {
        let mut made = vec![];
        let run = |number: u32| {
            made.push(number);
            Ok::<_, ()>(each * number)
        };
        let seconds = measure(options, || Ok(()), run).unwrap();
        (made, seconds)
    }

    #[test]
    fn measurements_grow_until_they_are_long_enough() {
        let options = TimingOptions { number: 2, repeat: 3, ..TimingOptions::default() };
        let milli = Duration::from_millis(1);
        assert_eq!(calls(&options, milli), (vec![1, 2, 2, 2], vec![0.001; 3]));
        let options = TimingOptions { min_repeat: milli * 100, cache_flush_bytes: 100, ..options };
        let (made, seconds) = calls(&options, milli);
        assert_eq!((made, seconds.len()), (vec![1, 2, 110, 110, 110], 3));
    }

    #[test]
    fn what_takes_no_time_is_given_up() {
        let min_repeat = Duration::from_secs(1);
        let options = TimingOptions { min_repeat, zero_time_limit: 1, ..TimingOptions::default() };
        let (made, seconds) = calls(&options, Duration::ZERO);
        assert_eq!((made.len(), seconds), (3, vec![0.0]));
    }
}
