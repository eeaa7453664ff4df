//! The tier policy: when programs are compiled to machine code, from Rust, text or `REFLEX_TIER`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::jit::{CompileMode, TierOptions};

/// Turns compilation of hot code on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tiering {
    /// Sessions of mode `tiered` compile what is hot.
    #[default]
    On,
    /// Sessions of mode `tiered` interpret everything.
    Off,
}

/// The use of saved code: machine code of VM functions inside an artifact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SavedCode {
    /// It runs from the first call on.
    #[default]
    Use,
    /// It is ignored, as if the artifact had none.
    Ignore,
}

/// The code generator of kernels. Results do not depend on it in a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelGenerator {
    /// As `Tiered` where `reflex-codegen` is installed or named and both have code (not on a GPU, nor for several CPU
    /// levels), and as `Best` elsewhere.
    #[default]
    Auto,
    /// One generator, before the first call: LLVM where `reflex-codegen` is installed or named, Cranelift
    /// elsewhere.
    Best,
    /// Cranelift first, so that calls begin soon; LLVM's kernels replace them in the background, those
    /// first that calls spend most work in. An error where `reflex-codegen` is not installed.
    Tiered,
    /// Cranelift, in process: models load sooner and their kernels run slower.
    Cranelift,
    /// LLVM; an error where `reflex-codegen` is not installed.
    Llvm,
}

/// The moment at which LLVM's kernels replace Cranelift's, where there are both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelSwaps {
    /// Once they are compiled.
    #[default]
    WhenReady,
    /// At every call, from one to the other and back: slow, to test with.
    Forced,
}

/// The rules by which programs are compiled to machine code: hot counters, limits, and shape
/// specialisation.
///
/// As text it is a list such as `threshold=10,compile=sync,code-cache=1M`, or `off`:
///
/// | key | value |
/// |---|---|
/// | `threshold` | the hot counter: entries that make a function or a loop hot; sets `delay` to 0 |
/// | `delay` | microseconds per operation of its function that hot code waits before it is recorded, where compilation is in the background |
/// | `exits` | failures of a guard after which its function goes to the method compiler |
/// | `attempts` | recordings from one start before it is blacklisted |
/// | `trace-ops` | most instructions of a trace; a function with a longer trace goes to the method compiler |
/// | `code-cache` | code-cache budget in bytes, beyond which the least used code is evicted; `K`, `M` and `G` may follow |
/// | `compile` | `background`, or `sync`: on the calling thread |
/// | `saved-code` | `use` or `ignore` the saved code of an artifact |
/// | `shapes` | most sets of shapes with a specialised program at a time; 0 for none |
/// | `shape-calls` | calls with the same shapes before these are specialised |
/// | `shape-ms` | milliseconds that these calls took together, at least |
/// | `shape-stream-calls` | calls that are enough whatever time they took |
/// | `kernels` | code generator of kernels: `auto`, `best`, `tiered`, `cranelift` or `llvm` |
/// | `kernel-swaps` | kernels of `tiered` are replaced `when-ready`, or `forced`: at every call, to test with |
/// | `specialise` | `if-faster`, or `always`: also where the specialised program is not faster |
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
#[non_exhaustive]
pub struct TierPolicy {
    /// Turns compilation on or off.
    pub tiering: Tiering,
    /// The use of an artifact's saved code.
    pub saved_code: SavedCode,
    /// The code generator of kernels.
    pub kernels: KernelGenerator,
    /// The moment at which kernels are replaced.
    pub kernel_swaps: KernelSwaps,
    /// The hot counter: entries that make a function or a loop hot.
    pub threshold: u32,
    /// Time per operation of its function that hot code waits before it is recorded, where
    /// compilation is in the background.
    pub record_delay: Duration,
    /// Failures of a guard after which its function goes to the method compiler.
    pub exit_threshold: u32,
    /// Recordings from one start before it is blacklisted.
    pub max_attempts: u32,
    /// Most instructions of a trace; a function with a longer trace goes to the method compiler.
    pub trace_limit: usize,
    /// Code-cache budget in bytes, beyond which the least used code is evicted.
    pub code_cache_limit: usize,
    /// The thread that compiles.
    pub compile_mode: CompileMode,
    /// Most sets of shapes with a specialised program at a time; 0 for none.
    pub max_shapes: usize,
    /// Calls with the same shapes before these are specialised.
    pub shape_calls: u32,
    /// Time that these calls took together, at least.
    pub shape_time: Duration,
    /// Calls with the same shapes that are enough whatever time they took: a stream of short calls,
    /// such as one for each 32 ms of sound, is specialised within seconds.
    pub shape_stream_calls: u32,
    /// The condition on which a specialised program is used.
    pub specialise: Specialise,
}

/// The condition on which a specialised program is used. Its results never differ in a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specialise {
    /// It was faster in an interleaved trial.
    #[default]
    IfFaster,
    /// Whatever the trial measured.
    Always,
}

impl Default for TierPolicy {
    fn default() -> TierPolicy {
        let usual = TierOptions::default();
        TierPolicy {
            tiering: Tiering::On,
            saved_code: SavedCode::Use,
            kernels: KernelGenerator::Auto,
            kernel_swaps: KernelSwaps::WhenReady,
            threshold: usual.threshold,
            record_delay: usual.record_delay,
            exit_threshold: usual.exit_threshold,
            max_attempts: usual.max_attempts,
            trace_limit: usual.trace_limit,
            code_cache_limit: usual.code_cache_limit,
            compile_mode: usual.compile_mode,
            max_shapes: 4,
            shape_calls: 64,
            shape_time: Duration::from_millis(500),
            shape_stream_calls: 512,
            specialise: Specialise::IfFaster,
        }
    }
}

impl TierPolicy {
    /// The environment variable that holds the default policy.
    pub const VARIABLE: &'static str = "REFLEX_TIER";

    /// Returns the policy of the environment, or the default one.
    ///
    /// ```
    /// use reflex::TierPolicy;
    ///
    /// if std::env::var_os(TierPolicy::VARIABLE).is_none() {
    ///     assert_eq!(TierPolicy::of_environment()?, TierPolicy::default());
    /// }
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn of_environment() -> Result<TierPolicy> {
        match std::env::var(TierPolicy::VARIABLE) {
            Ok(text) => text.parse().map_err(|e: Error| e.at(TierPolicy::VARIABLE)),
            Err(std::env::VarError::NotPresent) => Ok(TierPolicy::default()),
            Err(error) => Err(Error::input(error.to_string()).at(TierPolicy::VARIABLE)),
        }
    }

    #[cfg(feature = "jit")]
    pub(crate) fn options(&self) -> TierOptions {
        let usual = TierOptions::default();
        TierOptions {
            threshold: self.threshold,
            record_delay: self.record_delay,
            exit_threshold: self.exit_threshold,
            max_attempts: self.max_attempts,
            trace_limit: self.trace_limit,
            code_cache_limit: self.code_cache_limit,
            compile_mode: self.compile_mode,
            forced_exits: None,
            optimise_limit: usual.optimise_limit,
            body_limit: usual.body_limit,
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "threshold" => {
                self.threshold = number::<u32>(key, value)?.max(1);
                // A given threshold takes effect at once.
                self.record_delay = Duration::ZERO;
            }
            "delay" => self.record_delay = Duration::from_micros(number(key, value)?),
            "exits" => self.exit_threshold = number::<u32>(key, value)?.max(1),
            "attempts" => self.max_attempts = number(key, value)?,
            "trace-ops" => self.trace_limit = number::<usize>(key, value)?.max(1),
            "code-cache" => self.code_cache_limit = bytes(value)?,
            "compile" => {
                self.compile_mode = match value {
                    "background" => CompileMode::Background,
                    "sync" => CompileMode::Synchronous,
                    _ => return Err(wrong(key, value, "background or sync")),
                }
            }
            "saved-code" => {
                self.saved_code = match value {
                    "use" => SavedCode::Use,
                    "ignore" => SavedCode::Ignore,
                    _ => return Err(wrong(key, value, "use or ignore")),
                }
            }
            "kernels" => {
                self.kernels = match value {
                    "auto" => KernelGenerator::Auto,
                    "best" => KernelGenerator::Best,
                    "tiered" => KernelGenerator::Tiered,
                    "cranelift" => KernelGenerator::Cranelift,
                    "llvm" => KernelGenerator::Llvm,
                    _ => return Err(wrong(key, value, "auto, best, tiered, cranelift or llvm")),
                }
            }
            "kernel-swaps" => {
                self.kernel_swaps = match value {
                    "when-ready" => KernelSwaps::WhenReady,
                    "forced" => KernelSwaps::Forced,
                    _ => return Err(wrong(key, value, "when-ready or forced")),
                }
            }
            "shapes" => self.max_shapes = number(key, value)?,
            "shape-calls" => self.shape_calls = number(key, value)?,
            "shape-stream-calls" => self.shape_stream_calls = number(key, value)?,
            "shape-ms" => self.shape_time = Duration::from_millis(number(key, value)?),
            "specialise" => {
                self.specialise = match value {
                    "if-faster" => Specialise::IfFaster,
                    "always" => Specialise::Always,
                    _ => return Err(wrong(key, value, "if-faster or always")),
                }
            }
            _ => {
                let keys = "threshold, delay, exits, attempts, trace-ops, code-cache, compile, saved-code, \
                            kernels, kernel-swaps, shapes, shape-calls, shape-stream-calls, shape-ms, specialise";
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
    count.ok_or_else(|| wrong("code-cache", value, "a number of bytes, such as 64M"))
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

/// Prints the differences from the default policy, in the form that is parsed.
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
        let implied =
            if self.threshold == usual.threshold { usual.record_delay } else { Duration::ZERO };
        numbers("delay", micros(self.record_delay), micros(implied));
        numbers("exits", self.exit_threshold.into(), usual.exit_threshold.into());
        numbers("attempts", self.max_attempts.into(), usual.max_attempts.into());
        numbers("trace-ops", self.trace_limit as u64, usual.trace_limit as u64);
        numbers("code-cache", self.code_cache_limit as u64, usual.code_cache_limit as u64);
        numbers("shapes", self.max_shapes as u64, usual.max_shapes as u64);
        numbers("shape-calls", self.shape_calls.into(), usual.shape_calls.into());
        numbers(
            "shape-stream-calls",
            self.shape_stream_calls.into(),
            usual.shape_stream_calls.into(),
        );
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        numbers("shape-ms", millis(self.shape_time), millis(usual.shape_time));
        if self.specialise == Specialise::Always {
            parts.push("specialise=always".to_owned());
        }
        if self.compile_mode == CompileMode::Synchronous {
            parts.push("compile=sync".to_owned());
        }
        if self.saved_code == SavedCode::Ignore {
            parts.push("saved-code=ignore".to_owned());
        }
        match self.kernels {
            KernelGenerator::Auto => {}
            KernelGenerator::Best => parts.push("kernels=best".to_owned()),
            KernelGenerator::Tiered => parts.push("kernels=tiered".to_owned()),
            KernelGenerator::Cranelift => parts.push("kernels=cranelift".to_owned()),
            KernelGenerator::Llvm => parts.push("kernels=llvm".to_owned()),
        }
        if self.kernel_swaps == KernelSwaps::Forced {
            parts.push("kernel-swaps=forced".to_owned());
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
            "delay=0",
            "threshold=7,delay=30",
            "kernels=cranelift",
            "kernels=best",
            "kernels=llvm,off",
            "kernels=tiered,kernel-swaps=forced",
            "threshold=7,exits=9,attempts=1,trace-ops=100,code-cache=2048,shapes=1,shape-calls=2,shape-stream-calls=5,shape-ms=3,specialise=always,compile=sync,saved-code=ignore",
        ];
        for text in texts {
            assert_eq!(text.parse::<TierPolicy>().unwrap().to_string(), text);
        }
        assert_eq!("threshold=50".parse::<TierPolicy>().unwrap().to_string(), "delay=0");
        assert_eq!("code-cache=3K".parse::<TierPolicy>().unwrap().code_cache_limit, 3 << 10);
        assert_eq!(" on , threshold = 0 ".parse::<TierPolicy>().unwrap().threshold, 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("speed=9", "speed"),
            ("fast", "fast"),
            ("code-cache=9X", "9X"),
            ("code-cache=99999999999G", "bytes"),
            ("threshold=-1", "threshold=-1"),
            ("compile=later", "background or sync"),
            ("saved-code=maybe", "use or ignore"),
            ("kernels=gcc", "auto, best, tiered, cranelift or llvm"),
            ("kernel-swaps=often", "when-ready or forced"),
        ] {
            let error = text.parse::<TierPolicy>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
