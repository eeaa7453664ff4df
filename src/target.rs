//! Targets as values: the processors that a model is compiled for, by TVM's attributes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use reflex_source::Dialect;
use reflex_tir::codegen::{Arch, CpuTarget, GpuTarget};
use reflex_tir::level::Level;
use reflex_tir::thread::WARP;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};

/// The processors that a model is compiled for, as TVM's `Target` says it: a kind with attributes.
///
/// It is read from a kind (`llvm`, `cuda`, and `c` and `opencl`, which are text), a tag (`nvidia/nvidia-h100`), options (`llvm
/// -mcpu=skylake-avx512 -num-cores=4`) or JSON, and written as JSON with all its attributes. One that is
/// not known is an error that lists those that are: none is ignored.
///
/// | attribute | of | meaning |
/// |---|---|---|
/// | `mcpu` | llvm, c | LLVM's name of a CPU; kernels are for the highest [`Level`] that it has; `native`: this CPU |
/// | `mattr` | llvm, c | features of a CPU such as `+avx2`, in place of its name |
/// | `mtriple` | llvm, c | `x86_64-unknown-linux-gnu` or `aarch64-linux-gnu`, with any vendor; `wasm32-unknown-unknown` |
/// | `num-cores` | llvm, c | threads for parallel kernels |
/// | `arch` | cuda | `sm_80` or `sm_90a` |
/// | `host` | cuda | the target of the CPU beside the GPU |
/// | `max_threads_per_block` and the like | cuda | what TVM says of a GPU: checked to be no more than it has |
/// | `keys`, `tag` | all | as TVM writes them |
///
/// ```
/// use reflex::{Engine, Target};
///
/// let target: Target = "llvm -mcpu=haswell -num-cores=2".parse()?;
/// let json = target.to_string();
/// assert_eq!(json, r#"{"keys":["cpu"],"kind":"llvm","mcpu":"x86-64-v3","num-cores":2}"#);
/// assert_eq!(json.parse::<Target>()?, target);
/// let engine = Engine::builder().target(&target).build()?;
/// engine.load("examples/softmax.py")?;
///
/// let arm: Target = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon".parse()?;
/// assert_eq!(arm, "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72".parse::<Target>()?);
///
/// let error = "llvm -mcpu=pentium".parse::<Target>().unwrap_err().to_string();
/// assert!(error.contains("lacks AVX2 or FMA, or is not known"), "{error}");
/// # Ok::<(), reflex::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(crate) cpu: CpuAttributes,
    /// The architecture of a GPU, as `cuda:sm_80`.
    pub(crate) gpu: Option<String>,
    tag: Option<String>,
    /// The language of a target that is text.
    dialect: Option<Dialect>,
}

/// The attributes of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuAttributes {
    /// The level that kernels are for; none for this CPU.
    pub(crate) level: Option<Level>,
    pub(crate) threads: Option<usize>,
}

/// Targets by name.
const TAGS: [(&str, &str); 7] = [
    ("nvidia/nvidia-a100", "cuda:sm_80"),
    ("nvidia/nvidia-a30", "cuda:sm_80"),
    ("nvidia/nvidia-h100", "cuda:sm_90a"),
    ("nvidia/nvidia-h200", "cuda:sm_90a"),
    ("intel/skylake-avx512", "skylake-avx512"),
    ("intel/sapphirerapids", "sapphirerapids"),
    ("raspberry-pi/4b-aarch64", "cortex-a72"),
];

/// LLVM's names of CPUs by the highest level that they have.
const CPUS: [(Level, &str); 10] = [
    (Level::V3, "x86-64-v3 haswell broadwell skylake alderlake raptorlake znver1 znver2 znver3"),
    (Level::V4, "x86-64-v4 skylake-avx512 skx"),
    (Level::V4Vnni, "cascadelake icelake-client icelake-server rocketlake tigerlake"),
    (Level::V4Bf16, "cooperlake znver4 znver5"),
    (Level::V4Amx, "sapphirerapids emeraldrapids graniterapids"),
    (Level::Armv8, "cortex-a53 cortex-a35 cortex-a57 cortex-a72 cortex-a73"),
    (
        Level::Armv8Dot,
        "cortex-a76 cortex-a55 cortex-a75 cortex-a77 cortex-a78 cortex-x1 neoverse-n1 apple-m1",
    ),
    (
        Level::Armv8I8mm,
        "neoverse-n2 cortex-a510 cortex-a710 cortex-a715 cortex-x2 cortex-x3 neoverse-v1 neoverse-v2 \
         ampere1 apple-m2 apple-m3",
    ),
    // LLVM's names of WebAssembly's processors say nothing of vectors.
    (Level::Wasm, "simd128"),
    (Level::WasmRelaxed, "relaxed-simd"),
];

const GPU_ATTRIBUTES: [&str; 11] = [
    "kind",
    "keys",
    "tag",
    "arch",
    "host",
    "max_num_threads",
    "max_threads_per_block",
    "thread_warp_size",
    "registers_per_block",
    "max_shared_memory_per_block",
    "l2_cache_size_bytes",
];

fn unsupported(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, text)
}

fn level_of_cpu(name: &str) -> Result<Option<Level>> {
    if ["native", "host"].contains(&name) {
        return Ok(None);
    }
    let found = CPUS.iter().find(|(_, names)| names.split(' ').any(|known| known == name));
    found.map(|(level, _)| Some(*level)).ok_or_else(|| {
        let known: Vec<&str> = CPUS.iter().map(|(_, names)| *names).collect();
        unsupported(format!(
            "mcpu={name} lacks AVX2 or FMA, or is not known; known are native {}",
            known.join(" ")
        ))
    })
}

/// The highest level of an architecture whose features are all among those of a list.
fn level_of_features(arch: Arch, features: &[String]) -> Result<Level> {
    let mut given = BTreeSet::new();
    for feature in features.iter().map(|f| f.trim()).filter(|f| !f.is_empty()) {
        match feature.strip_prefix('+') {
            Some(name) => given.insert(name.to_owned()),
            None => {
                return Err(unsupported(format!(
                    "mattr={feature}: features are added, such as +avx2, and none is taken away"
                )));
            }
        };
    }
    // A CPU with AVX-512 or AVX2 has what came before; TVM's lists leave it out.
    let basic: &[&str] = match arch {
        Arch::X86_64 => &[
            "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "bmi", "bmi2", "f16c", "lzcnt",
            "movbe",
        ],
        Arch::Aarch64 => &["neon"],
        Arch::Wasm32 => &["bulk-memory", "mutable-globals", "nontrapping-fptoint", "sign-ext"],
    };
    given.extend(basic.iter().map(|name| (*name).to_owned()));
    let has = |level: &&Level| level.target().features.iter().all(|f| given.contains(f));
    let found = Level::of(arch).iter().rev().find(has).copied();
    found.ok_or_else(|| unsupported("mattr lacks +avx2 or +fma, which kernels need"))
}

/// The architecture that a triple names; the vendor in the middle may be left out, and says nothing of the
/// code.
fn arch_of_triple(triple: &str) -> Option<Arch> {
    let (arch, rest) = triple.split_once('-')?;
    let arch = Arch::ALL.into_iter().find(|known| {
        known.triple().strip_prefix(arch).is_some_and(|rest| rest.starts_with('-'))
    })?;
    let behind_vendor = rest.split_once('-').map(|(_, system)| system);
    let known: &[&str] = match arch {
        Arch::X86_64 | Arch::Aarch64 => &["linux-gnu"],
        // With the name of the format, as TVM writes it, or the system that the runtime is built for.
        Arch::Wasm32 => &["unknown", "unknown-wasm", "wasi", "wasip1"],
    };
    let is_known = known.contains(&rest) || behind_vendor.is_some_and(|it| known.contains(&it));
    is_known.then_some(arch)
}

/// LLVM's name for a level: the CPU whose features it is named after.
fn cpu_of_level(level: Level) -> &'static str {
    let names = CPUS.iter().find(|(known, _)| *known == level).map_or("", |(_, names)| names);
    names.split(' ').next().unwrap_or("")
}

impl Target {
    /// Returns the kind: `llvm`, `cuda`, `c` or `opencl`.
    ///
    /// ```
    /// assert_eq!("nvidia/nvidia-h100".parse::<reflex::Target>()?.kind(), "cuda");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn kind(&self) -> &'static str {
        match (self.dialect, &self.gpu) {
            (Some(Dialect::OpenCl), _) => "opencl",
            (Some(_), _) => "c",
            (None, Some(_)) => "cuda",
            (None, None) => "llvm",
        }
    }

    /// Returns the language of a target that is text, which [`Engine::source`](crate::Engine::source) prints.
    ///
    /// ```
    /// use reflex::{Dialect, Target};
    ///
    /// assert_eq!("opencl".parse::<Target>()?.dialect(), Some(Dialect::OpenCl));
    /// assert_eq!("cuda -arch=sm_80".parse::<Target>()?.dialect(), None);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Returns what is known of the target, as JSON: its attributes, and what its kind and its processor bring, by
    /// which a caller may choose a pipeline. Of a CPU these are `features`, `vector_bytes`, `l1d_bytes` and `l2_bytes`, of a
    /// GPU what TVM has of one (`max_threads_per_block`, `max_shared_memory_per_block`, ...).
    ///
    /// ```
    /// use reflex::{Engine, Pipeline, Target};
    ///
    /// let target: Target = "llvm -mcpu=haswell".parse()?;
    /// let narrow = target.attributes()["vector_bytes"] == 32;
    /// let pipeline = if narrow { "fuse_operators.max_operators=8" } else { "default" };
    /// Engine::builder().target(&target).pipeline(pipeline.parse()?).build()?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn attributes(&self) -> Value {
        let mut known = self.to_json();
        match self.gpu.as_ref().and_then(|gpu| gpu.parse().ok()) {
            None if self.dialect == Some(Dialect::OpenCl) => {
                let least = reflex_source::opencl_gpu();
                known["max_shared_memory_per_block"] = json!(least.shared_bytes);
            }
            Some(gpu) => {
                limits(&gpu).into_iter().for_each(|(name, most)| known[name] = json!(most))
            }
            None => {
                let cpu = self.cpu.level.map_or_else(CpuTarget::host, Level::target);
                known["features"] = json!(cpu.features);
                known["vector_bytes"] = json!(cpu.vector_bytes);
                known["l1d_bytes"] = json!(cpu.l1d_bytes);
                known["l2_bytes"] = json!(cpu.l2_bytes);
                known["num-cores"] = json!(self.cpu.threads.unwrap_or(1));
            }
        }
        known
    }

    fn llvm(cpu: CpuAttributes) -> Target {
        Target { cpu, gpu: None, tag: None, dialect: None }
    }

    fn cuda(gpu: &str, cpu: CpuAttributes) -> Result<Target> {
        let known: GpuTarget = gpu.parse().map_err(unsupported)?;
        Ok(Target { cpu, gpu: Some(known.name), tag: None, dialect: None })
    }

    fn of_tag(tag: &str) -> Result<Target> {
        let names = || TAGS.map(|(name, _)| name).join(", ");
        let missing = || {
            unsupported(format!(
                "no target {tag:?}; kinds are llvm, cuda, c and opencl, tags {}",
                names()
            ))
        };
        let (_, value) = TAGS.iter().find(|(name, _)| *name == tag).ok_or_else(missing)?;
        let mut target = match value.starts_with("cuda") {
            true => Target::cuda(value, CpuAttributes::default())?,
            false => Target::llvm(CpuAttributes {
                level: level_of_cpu(value)?,
                ..CpuAttributes::default()
            }),
        };
        target.tag = Some(tag.to_owned());
        Ok(target)
    }

    fn of_json(value: &Value) -> Result<Target> {
        let fields = match value {
            Value::String(text) => return text.parse(),
            Value::Object(fields) => fields,
            _ => return Err(Error::input("a target in JSON is an object or a text")),
        };
        let text = |name: &str| match fields.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(Error::input(format!("the target's {name} is {other}, not a text"))),
        };
        let tagged = text("tag")?.filter(|tag| !tag.is_empty()).map(Target::of_tag).transpose()?;
        let kind = match (text("kind")?, &tagged) {
            (Some(kind), _) => kind,
            (None, Some(tagged)) => tagged.kind(),
            (None, None) => return Err(Error::input("a target in JSON has a kind or a tag")),
        };
        let mut target = match kind {
            "llvm" => Target::llvm(cpu_of(fields)?),
            "c" => Target { dialect: Some(Dialect::C), ..Target::llvm(cpu_of(fields)?) },
            "opencl" => {
                Target { dialect: Some(Dialect::OpenCl), ..Target::llvm(CpuAttributes::default()) }
            }
            "cuda" => {
                let host = fields.get("host").map(Target::of_json).transpose()?;
                if host.as_ref().is_some_and(|host| host.gpu.is_some()) {
                    return Err(Error::input("the host of a GPU is of the kind llvm"));
                }
                let tagged = tagged.as_ref().and_then(|t| t.gpu.clone());
                // The generation that sm_90 and sm_90a name is the same.
                let name = |arch| if arch == "sm_90" { "sm_90a" } else { arch };
                let arch = text("arch")?.map(|arch| format!("cuda:{}", name(arch)));
                let gpu = arch
                    .or(tagged)
                    .ok_or_else(|| Error::input("a target of the kind cuda has an arch"))?;
                Target::cuda(&gpu, host.map(|host| host.cpu).unwrap_or_default())?
            }
            _ => {
                return Err(unsupported(format!(
                    "no target kind {kind:?}; there are llvm, cuda, c and opencl"
                )));
            }
        };
        let known: &[&str] = match kind {
            "llvm" | "c" => &["kind", "keys", "tag", "mcpu", "mattr", "mtriple", "num-cores"],
            "opencl" => &["kind", "keys", "tag"],
            _ => &GPU_ATTRIBUTES,
        };
        if let Some(other) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            let known = known.join(", ");
            return Err(unsupported(format!(
                "a target of the kind {kind} has no {other:?}; it has {known}"
            )));
        }
        check_keys(fields, kind)?;
        if let Some(gpu) = &target.gpu {
            check_gpu(fields, &gpu.parse().map_err(unsupported)?)?;
        }
        if let Some(tagged) = tagged {
            // Attributes that are given are those of the tag, or replace them.
            if kind == "llvm" && target.cpu.level.is_none() && !fields.contains_key("mcpu") {
                target.cpu.level = tagged.cpu.level;
            }
            target.tag = tagged.tag;
        }
        Ok(target)
    }

    fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("kind".to_owned(), json!(self.kind()));
        if let Some(tag) = &self.tag {
            fields.insert("tag".to_owned(), json!(tag));
        }
        match &self.gpu {
            None if self.dialect == Some(Dialect::OpenCl) => {
                fields.insert("keys".to_owned(), json!(["opencl", "gpu"]));
            }
            Some(gpu) => {
                fields.insert("keys".to_owned(), json!(["cuda", "gpu"]));
                fields.insert("arch".to_owned(), json!(gpu.trim_start_matches("cuda:")));
                if self.cpu != CpuAttributes::default() {
                    fields.insert("host".to_owned(), Target::llvm(self.cpu.clone()).to_json());
                }
            }
            None => {
                fields.insert("keys".to_owned(), json!(["cpu"]));
                if let Some(level) = self.cpu.level {
                    fields.insert("mcpu".to_owned(), json!(cpu_of_level(level)));
                    if level.arch() != Arch::X86_64 {
                        fields.insert("mtriple".to_owned(), json!(level.arch().triple()));
                    }
                }
                if let Some(threads) = self.cpu.threads {
                    fields.insert("num-cores".to_owned(), json!(threads));
                }
            }
        }
        Value::Object(fields)
    }
}

/// The limits of a GPU, by TVM's names.
fn limits(gpu: &GpuTarget) -> [(&'static str, u64); 6] {
    [
        ("max_num_threads", GpuTarget::MAX_THREADS.unsigned_abs()),
        ("max_threads_per_block", GpuTarget::MAX_THREADS.unsigned_abs()),
        ("thread_warp_size", WARP.unsigned_abs()),
        ("registers_per_block", u64::from(gpu.registers)),
        ("max_shared_memory_per_block", u64::from(gpu.shared_bytes)),
        ("l2_cache_size_bytes", gpu.l2_bytes),
    ]
}

/// Checks that a GPU has what TVM says of it.
fn check_gpu(fields: &Map<String, Value>, gpu: &GpuTarget) -> Result<()> {
    for (name, most) in limits(gpu) {
        let Some(said) = fields.get(name) else { continue };
        if said.as_u64().is_none_or(|said| said > most) {
            return Err(unsupported(format!("{name} is {said}, where {} has {most}", gpu.name)));
        }
    }
    Ok(())
}

fn check_keys(fields: &Map<String, Value>, kind: &str) -> Result<()> {
    let known: &[&str] = match kind {
        "llvm" | "c" => &["cpu"],
        "opencl" => &["opencl", "gpu"],
        _ => &["cuda", "gpu"],
    };
    let fits = |key: &Value| key.as_str().is_some_and(|key| known.contains(&key));
    match fields.get("keys") {
        None => Ok(()),
        Some(Value::Array(keys)) if keys.iter().all(fits) => Ok(()),
        Some(other) => {
            let known = known.join(" and ");
            Err(unsupported(format!(
                "the keys {other} of a target of the kind {kind}; there are {known}"
            )))
        }
    }
}

fn cpu_of(fields: &Map<String, Value>) -> Result<CpuAttributes> {
    let wrong = |name: &str| Error::input(format!("the target's {name} is {}", fields[name]));
    let mut cpu = CpuAttributes::default();
    if let Some(name) = fields.get("mcpu") {
        cpu.level = level_of_cpu(name.as_str().ok_or_else(|| wrong("mcpu"))?)?;
    }
    let triple = match fields.get("mtriple") {
        None => None,
        Some(value) => {
            let triple = value.as_str().ok_or_else(|| wrong("mtriple"))?;
            Some(arch_of_triple(triple).ok_or_else(|| {
                let [x86, arm, wasm] = Arch::ALL.map(Arch::triple);
                unsupported(format!("code is generated for {x86}, {arm} and {wasm}, not {triple}"))
            })?)
        }
    };
    if let Some(features) = fields.get("mattr") {
        let list: Vec<String> = match features {
            Value::String(text) => text.split(',').map(str::to_owned).collect(),
            Value::Array(list) => {
                let text = |f: &Value| f.as_str().map(str::to_owned);
                list.iter().map(text).collect::<Option<_>>().ok_or_else(|| wrong("mattr"))?
            }
            _ => return Err(wrong("mattr")),
        };
        let arch = triple.or(cpu.level.map(Level::arch)).unwrap_or(Arch::HOST);
        cpu.level = cpu.level.max(Some(level_of_features(arch, &list)?));
    }
    if let Some(arch) = triple {
        if cpu.level.is_none() && fields.contains_key("mcpu") && arch != Arch::HOST {
            return Err(unsupported(format!("mcpu={} is this CPU, no {arch}", fields["mcpu"])));
        }
        // Without more, code for another architecture runs on all of its CPUs.
        let lowest = (arch != Arch::HOST).then(|| Level::of(arch)[0]);
        cpu.level = cpu.level.or(lowest);
        if let Some(level) = cpu.level.filter(|level| level.arch() != arch) {
            return Err(unsupported(format!(
                "mtriple={} is of {arch}, and {} of {}",
                fields["mtriple"],
                cpu_of_level(level),
                level.arch()
            )));
        }
    }
    if let Some(threads) = fields.get("num-cores") {
        let count = threads.as_u64().and_then(|n| usize::try_from(n).ok());
        cpu.threads = Some(count.filter(|n| *n > 0).ok_or_else(|| wrong("num-cores"))?);
    }
    Ok(cpu)
}

/// The options of a text, `-name=value`, as the fields of JSON.
fn fields_of_options(kind: &str, words: std::str::SplitWhitespace<'_>) -> Result<Value> {
    let mut fields = Map::from_iter([("kind".to_owned(), json!(kind))]);
    for word in words {
        let form =
            || Error::input(format!("{word:?} is no option of a target; one is -name=value"));
        let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        let (name, value) = option.and_then(|o| o.split_once('=')).ok_or_else(form)?;
        let value = match (name, value.parse::<u64>()) {
            ("keys", _) => json!(value.split(',').collect::<Vec<_>>()),
            (_, Ok(number)) => json!(number),
            (_, Err(_)) => json!(value),
        };
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(Error::input(format!("the target's {name} is given twice")));
        }
    }
    Ok(Value::Object(fields))
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        let text = text.trim();
        if text.starts_with('{') {
            let value: Value = serde_json::from_str(text)
                .map_err(|e| Error::input(format!("the target is not JSON: {e}")))?;
            return Target::of_json(&value);
        }
        let mut words = text.split_whitespace();
        match words.next() {
            Some(kind @ ("llvm" | "cuda" | "c" | "opencl")) => {
                Target::of_json(&fields_of_options(kind, words)?)
            }
            Some(tag) if words.next().is_none() => Target::of_tag(tag),
            _ => Err(Error::input(format!(
                "{text:?} is no target: a kind and options, a tag, or JSON"
            ))),
        }
    }
}

/// JSON, with all attributes.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        text.parse::<Target>().unwrap_or_else(|e| panic!("{text}: {e}")).to_string()
    }

    #[test]
    fn attributes_are_those_of_the_processor() {
        let of = |text: &str| text.parse::<Target>().unwrap().attributes();
        let cpu = of("llvm -mcpu=skylake-avx512 -num-cores=3");
        assert_eq!((&cpu["vector_bytes"], &cpu["num-cores"]), (&json!(64), &json!(3)));
        assert!(cpu["features"].as_array().unwrap().contains(&json!("avx512f")));
        assert!(of("llvm")["l2_bytes"].as_u64().unwrap() > 0);
        let gpu = of("nvidia/nvidia-h100");
        assert_eq!((&gpu["arch"], &gpu["thread_warp_size"]), (&json!("sm_90a"), &json!(32)));
        assert_eq!(gpu["max_threads_per_block"], json!(1024));
    }

    #[test]
    fn forms_of_a_target_mean_the_same() {
        let forms = [
            ("llvm", r#"{"keys":["cpu"],"kind":"llvm"}"#),
            ("llvm -mcpu=native", r#"{"keys":["cpu"],"kind":"llvm"}"#),
            (
                "llvm -keys=cpu -mcpu=znver4",
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"cooperlake"}"#,
            ),
            ("llvm -mattr=+avx2,+fma", r#"{"keys":["cpu"],"kind":"llvm","mcpu":"x86-64-v3"}"#),
            (
                r#"{"kind": "llvm", "mattr": ["+avx2", "+fma", "+avx512f", "+avx512bw", "+avx512cd", "+avx512dq", "+avx512vl"], "mtriple": "x86_64-unknown-linux-gnu"}"#,
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"x86-64-v4"}"#,
            ),
            (
                "intel/sapphirerapids",
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"sapphirerapids","tag":"intel/sapphirerapids"}"#,
            ),
            (
                "nvidia/nvidia-h100",
                r#"{"arch":"sm_90a","keys":["cuda","gpu"],"kind":"cuda","tag":"nvidia/nvidia-h100"}"#,
            ),
            (
                r#"{"kind": "cuda", "tag": "", "arch": "sm_80", "thread_warp_size": 32, "max_shared_memory_per_block": 49152}"#,
                r#"{"arch":"sm_80","keys":["cuda","gpu"],"kind":"cuda"}"#,
            ),
            (
                "llvm -mtriple=aarch64-linux-gnu",
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"cortex-a53","mtriple":"aarch64-unknown-linux-gnu"}"#,
            ),
            (
                "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod -num-cores=4",
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"cortex-a76","mtriple":"aarch64-unknown-linux-gnu","num-cores":4}"#,
            ),
            (
                "llvm -mcpu=neoverse-v1",
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"neoverse-n2","mtriple":"aarch64-unknown-linux-gnu"}"#,
            ),
            (
                "raspberry-pi/4b-aarch64",
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"cortex-a53","mtriple":"aarch64-unknown-linux-gnu","tag":"raspberry-pi/4b-aarch64"}"#,
            ),
            ("c", r#"{"keys":["cpu"],"kind":"c"}"#),
            ("c -mcpu=haswell", r#"{"keys":["cpu"],"kind":"c","mcpu":"x86-64-v3"}"#),
            ("opencl -keys=opencl,gpu", r#"{"keys":["opencl","gpu"],"kind":"opencl"}"#),
            ("cuda -arch=sm_90", r#"{"arch":"sm_90a","keys":["cuda","gpu"],"kind":"cuda"}"#),
            (
                r#"{"kind": "cuda", "arch": "sm_80", "host": {"kind": "llvm", "mcpu": "haswell"}}"#,
                r#"{"arch":"sm_80","host":{"keys":["cpu"],"kind":"llvm","mcpu":"x86-64-v3"},"keys":["cuda","gpu"],"kind":"cuda"}"#,
            ),
            (
                r#"{"tag": "intel/skylake-avx512", "num-cores": 4}"#,
                r#"{"keys":["cpu"],"kind":"llvm","mcpu":"x86-64-v4","num-cores":4,"tag":"intel/skylake-avx512"}"#,
            ),
        ];
        for (text, expected) in forms {
            assert_eq!(json(text), expected, "{text}");
            assert_eq!(json(expected), expected, "{text}");
        }
    }

    #[test]
    fn what_a_target_lacks_is_refused() {
        let cases = [
            ("", "is no target"),
            (
                "vulkan",
                "no target \"vulkan\"; kinds are llvm, cuda, c and opencl, tags nvidia/nvidia-a100, ",
            ),
            ("opencl -mcpu=haswell", "of the kind opencl has no \"mcpu\"; it has kind, keys, tag"),
            ("c -arch=sm_80", "of the kind c has no \"arch\""),
            ("llvm haswell", "is no option of a target"),
            ("llvm -mcpu=i386", "mcpu=i386 lacks AVX2 or FMA, or is not known"),
            ("llvm -mcpu=skylake -mcpu=znver1", "mcpu is given twice"),
            ("llvm -mattr=+sse4.2", "mattr lacks +avx2 or +fma"),
            ("llvm -mattr=-avx2", "none is taken away"),
            (
                "llvm -mtriple=riscv64-linux-gnu",
                "for x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu and wasm32-unknown-unknown, not riscv64",
            ),
            ("llvm -mtriple=aarch64-linux-gnu -mcpu=haswell", "AArch64, and x86-64-v3 of x86-64"),
            ("llvm -mtriple=aarch64-apple-darwin", "not aarch64-apple-darwin"),
            ("llvm -mtriple=aarch64-linux-gnu -mcpu=native", "is this CPU, no AArch64"),
            ("llvm -num-cores=0", "num-cores is 0"),
            ("llvm -fast-math=1", "has no \"fast-math\"; it has kind, keys, tag, mcpu"),
            ("llvm -keys=arm_cpu", "there are cpu"),
            ("cuda", "has an arch"),
            ("cuda -arch=sm_35", "there is no GPU \"cuda:sm_35\""),
            (
                "cuda -arch=sm_80 -mcpu=haswell",
                "has no \"mcpu\"; it has kind, keys, tag, arch, host",
            ),
            (
                r#"{"kind": "cuda", "arch": "sm_80", "max_shared_memory_per_block": 300000}"#,
                "max_shared_memory_per_block is 300000, where cuda:sm_80 has 166912",
            ),
            (
                r#"{"kind": "cuda", "arch": "sm_80", "host": "cuda -arch=sm_80"}"#,
                "the host of a GPU",
            ),
            (r#"{"kind": 1}"#, "the target's kind is 1"),
            ("{}", "has a kind or a tag"),
            ("{", "is not JSON"),
        ];
        for (text, why) in cases {
            let error = text.parse::<Target>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
