//! When programs become machine code: a policy, from Rust, from text, or from `REFLEX_TIER`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reflex_cranelift::{CompileMode, TierOptions};

use crate::error::{Error, Result};

/// Whether hot code is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tiering {
    /// Sessions of mode `tiered` compile what is hot.
    #[default]
    On,
    /// They interpret everything.
    Off,
}

/// Whether the machine code that a compiled library brings is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SavedCode {
    /// It runs from the first call on.
    #[default]
    Use,
    /// It is left alone, as if the library had none.
    Ignore,
}

/// What tiers may do, and when.
///
/// As text it is a list such as `threshold=10,compile=sync,code=1M`, or `off`:
///
/// | key | value |
/// |---|---|
/// | `threshold` | arrivals that make a function or a loop hot; sets `settle` to 0 |
/// | `settle` | microseconds per operation of its function that a place stays hot before it is recorded, where code is made in the background |
/// | `exits` | failures of a guard after which its function is compiled whole |
/// | `attempts` | recordings of one place before it is left to the interpreter |
/// | `ops` | most instructions of a trace; a function whose run is longer is compiled whole |
/// | `code` | most bytes of machine code, the least used of which makes room; `K`, `M` and `G` may follow |
/// | `compile` | `background`, or `sync`: on the calling thread |
/// | `saved` | `use` or `ignore` the machine code of a compiled library |
/// | `shapes` | sets of extents that get a program of their own at any time; 0 for none |
/// | `shape-calls` | calls with the same extents before they get one |
/// | `shape-ms` | milliseconds that these calls took together, at least |
/// | `specialise` | `if-faster`, or `always`: a program for extents that is no faster too |
///
/// ```
/// use reflex::{Engine, TierPolicy};
///
/// let policy: TierPolicy = "threshold=2,compile=sync".parse()?;
/// assert_eq!(policy.to_string(), "threshold=2,compile=sync");
/// let engine = Engine::builder().tier(policy).build()?;
/// assert!("threshold=soon".parse::<TierPolicy>().is_err());
/// # Ok::<(), reflex::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierPolicy {
    /// Whether hot code is compiled.
    pub tiering: Tiering,
    /// Whether machine code of compiled libraries is used.
    pub saved: SavedCode,
    /// Arrivals that make a function or a loop hot.
    pub threshold: u32,
    /// How long a place stays hot before it is recorded, per operation of its function; counts
    /// where code is made in the background.
    pub settle: Duration,
    /// Failures of a guard after which its function is compiled whole.
    pub exits: u32,
    /// Recordings of one place before it is left to the interpreter.
    pub attempts: u32,
    /// Most instructions of a trace; a function whose run is longer is compiled whole.
    pub ops: usize,
    /// Most bytes of machine code at any time; what ran the least makes room.
    pub code: usize,
    /// Where code is made.
    pub compile: CompileMode,
    /// Sets of extents that get a program of their own at any time; 0 for none.
    pub shapes: usize,
    /// Calls with the same extents before they get one.
    pub shape_calls: u32,
    /// What these calls took together, at least.
    pub shape_time: Duration,
    /// Whether a program for extents must be faster than the one for any.
    pub specialise: Specialise,
}

/// Which programs for extents are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specialise {
    /// Those that were faster in an interleaved trial.
    #[default]
    IfFaster,
    /// All whose results are the same.
    Always,
}

impl Default for TierPolicy {
    fn default() -> TierPolicy {
        let usual = TierOptions::default();
        TierPolicy {
            tiering: Tiering::On,
            saved: SavedCode::Use,
            threshold: usual.threshold,
            settle: usual.record_delay,
            exits: usual.exit_threshold,
            attempts: usual.max_attempts,
            ops: usual.trace_limit,
            code: usual.code_cache_limit,
            compile: usual.compile_mode,
            shapes: 4,
            shape_calls: 64,
            shape_time: Duration::from_millis(500),
            specialise: Specialise::IfFaster,
        }
    }
}

impl TierPolicy {
    /// The variable that programs without a policy of their own follow.
    pub const VARIABLE: &'static str = "REFLEX_TIER";

    /// The policy of the environment, or the usual one.
    pub fn of_environment() -> Result<TierPolicy> {
        match std::env::var(TierPolicy::VARIABLE) {
            Ok(text) => text.parse().map_err(|e: Error| e.at(TierPolicy::VARIABLE)),
            Err(std::env::VarError::NotPresent) => Ok(TierPolicy::default()),
            Err(error) => Err(Error::input(error.to_string()).at(TierPolicy::VARIABLE)),
        }
    }

    pub(crate) fn options(&self) -> TierOptions {
        let usual = TierOptions::default();
        TierOptions {
            threshold: self.threshold,
            record_delay: self.settle,
            exit_threshold: self.exits,
            max_attempts: self.attempts,
            trace_limit: self.ops,
            code_cache_limit: self.code,
            compile_mode: self.compile,
            forced_exits: None,
            optimise_limit: usual.optimise_limit,
            body_limit: usual.body_limit,
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "threshold" => {
                self.threshold = number::<u32>(key, value)?.max(1);
                // Who says how often wants it then.
                self.settle = Duration::ZERO;
            }
            "settle" => self.settle = Duration::from_micros(number(key, value)?),
            "exits" => self.exits = number::<u32>(key, value)?.max(1),
            "attempts" => self.attempts = number(key, value)?,
            "ops" => self.ops = number::<usize>(key, value)?.max(1),
            "code" => self.code = bytes(value)?,
            "compile" => {
                self.compile = match value {
                    "background" => CompileMode::Background,
                    "sync" => CompileMode::Synchronous,
                    _ => return Err(wrong(key, value, "background or sync")),
                }
            }
            "saved" => {
                self.saved = match value {
                    "use" => SavedCode::Use,
                    "ignore" => SavedCode::Ignore,
                    _ => return Err(wrong(key, value, "use or ignore")),
                }
            }
            "shapes" => self.shapes = number(key, value)?,
            "shape-calls" => self.shape_calls = number(key, value)?,
            "shape-ms" => self.shape_time = Duration::from_millis(number(key, value)?),
            "specialise" => {
                self.specialise = match value {
                    "if-faster" => Specialise::IfFaster,
                    "always" => Specialise::Always,
                    _ => return Err(wrong(key, value, "if-faster or always")),
                }
            }
            _ => {
                let keys = "threshold, settle, exits, attempts, ops, code, compile, saved, shapes, \
                            shape-calls, shape-ms, specialise";
                return Err(Error::input(format!("no key {key:?} of a tier policy; {keys}")));
            }
        }
        Ok(())
    }
}

fn wrong(key: &str, value: &str, expected: &str) -> Error {
    Error::input(format!("{key}={value}: expected {expected}"))
}

fn number<N: FromStr>(key: &str, value: &str) -> Result<N> {
    value.parse().map_err(|_| wrong(key, value, "a number"))
}

/// A number of bytes, with a unit or without.
fn bytes(value: &str) -> Result<usize> {
    let shift = |unit| match unit {
        'K' => Some(10),
        'M' => Some(20),
        'G' => Some(30),
        _ => None,
    };
    let (digits, shift) = match value.chars().last().and_then(shift) {
        Some(shift) => (&value[..value.len() - 1], shift),
        None => (value, 0),
    };
    let count = digits.parse::<usize>().ok().and_then(|count| count.checked_mul(1 << shift));
    count.ok_or_else(|| wrong("code", value, "a number of bytes, such as 64M"))
}

impl FromStr for TierPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<TierPolicy> {
        let mut policy = TierPolicy::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) => policy.set(key.trim(), value.trim())?,
                None if part == "off" => policy.tiering = Tiering::Off,
                None if part == "on" => policy.tiering = Tiering::On,
                None => return Err(Error::input(format!("{part:?}: expected KEY=VALUE or off"))),
            }
        }
        Ok(policy)
    }
}

/// What differs from the usual policy, in the form that is read.
impl fmt::Display for TierPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = TierPolicy::default();
        let mut parts = Vec::new();
        let mut numbers = |key: &str, value: u64, usual: u64| {
            if value != usual {
                parts.push(format!("{key}={value}"));
            }
        };
        numbers("threshold", self.threshold.into(), usual.threshold.into());
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let implied = if self.threshold == usual.threshold { usual.settle } else { Duration::ZERO };
        numbers("settle", micros(self.settle), micros(implied));
        numbers("exits", self.exits.into(), usual.exits.into());
        numbers("attempts", self.attempts.into(), usual.attempts.into());
        numbers("ops", self.ops as u64, usual.ops as u64);
        numbers("code", self.code as u64, usual.code as u64);
        numbers("shapes", self.shapes as u64, usual.shapes as u64);
        numbers("shape-calls", self.shape_calls.into(), usual.shape_calls.into());
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        numbers("shape-ms", millis(self.shape_time), millis(usual.shape_time));
        if self.specialise == Specialise::Always {
            parts.push("specialise=always".to_owned());
        }
        if self.compile == CompileMode::Synchronous {
            parts.push("compile=sync".to_owned());
        }
        if self.saved == SavedCode::Ignore {
            parts.push("saved=ignore".to_owned());
        }
        if self.tiering == Tiering::Off {
            parts.push("off".to_owned());
        }
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let texts = [
            "",
            "off",
            "settle=0",
            "threshold=7,settle=30",
            "threshold=7,exits=9,attempts=1,ops=100,code=2048,shapes=1,shape-calls=2,shape-ms=3,specialise=always,compile=sync,saved=ignore",
        ];
        for text in texts {
            assert_eq!(text.parse::<TierPolicy>().unwrap().to_string(), text);
        }
        assert_eq!("threshold=50".parse::<TierPolicy>().unwrap().to_string(), "settle=0");
        assert_eq!("code=3K".parse::<TierPolicy>().unwrap().code, 3 << 10);
        assert_eq!(" on , threshold = 0 ".parse::<TierPolicy>().unwrap().threshold, 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("speed=9", "speed"),
            ("fast", "fast"),
            ("code=9X", "9X"),
            ("code=99999999999G", "bytes"),
            ("threshold=-1", "threshold=-1"),
            ("compile=later", "background or sync"),
            ("saved=maybe", "use or ignore"),
        ] {
            let error = text.parse::<TierPolicy>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
