//! Input tensors from `--input`, `--shape` and `--seed`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use reflex::stats::split_mix;
use reflex::{
    Any, Array, DType, Dim, Error, ErrorKind, Feed, Program, Result, Tensor, TensorInfo, ValueInfo,
    numpy,
};

use super::values;

/// Options for inputs: files, random values, shapes.
#[derive(Args)]
pub struct InputArgs {
    /// An input: a .npy file, `random` or `zeros`; of a sequence, an optional or a map a .json file. Without
    /// NAME=, random and zeros are for all inputs that are not named, and a file is for the only input.
    /// Default: random.
    #[arg(long = "input", value_name = "[NAME=]FILE.npy|FILE.json|random|zeros", value_parser = source)]
    inputs: Vec<(Option<String>, String)>,
    /// Shape of an input with dynamic dimensions. Default: 1 for each of these.
    #[arg(long = "shape", value_name = "NAME=1x3x224x224", value_parser = pair)]
    shapes: Vec<(String, String)>,
    /// Seed of random inputs.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
}

fn source(text: &str) -> std::result::Result<(Option<String>, String), String> {
    match pair(text) {
        Ok((name, value)) => Ok((Some(name), value)),
        Err(_) => Ok((None, text.to_string())),
    }
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    // Names may hold '=' nowhere, but ':' and '/' are common in exported models.
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

/// The sources of inputs.
struct Sources {
    named: BTreeMap<String, String>,
    /// Of inputs that are not named.
    for_all: String,
    shapes: BTreeMap<String, String>,
    seed: u64,
    /// Dynamic dimensions that were given or chosen.
    symbols: BTreeMap<String, i64>,
}

impl Sources {
    fn of(&self, name: &str) -> &str {
        self.named.get(name).map_or(&self.for_all, String::as_str)
    }

    /// The tensor of input `k`.
    fn array(&mut self, k: usize, input: &TensorInfo) -> Result<Array> {
        let source = self.of(&input.name).to_owned();
        if !matches!(source.as_str(), "random" | "zeros") {
            return numpy::read_npy(&PathBuf::from(source));
        }
        if input.dtype.itemsize() == 0 {
            let why = "the program does not say what it is; give it, as in";
            let message = format!("input {}: {why} --input {0}=FILE.npy", input.name);
            return Err(Error::input(message));
        }
        let shape = shape_of(input, self.shapes.get(&input.name), &mut self.symbols)?;
        let seed = (source == "random").then_some(self.seed ^ ((k as u64) << 32));
        fill(input.dtype, shape, seed).ok_or_else(|| {
            Error::input(format!("input {input}: too large for this machine's memory"))
        })
    }

    /// The argument for input `k` of a function that takes other values than tensors.
    fn value(&mut self, k: usize, input: &ValueInfo, func: &str) -> Result<Any> {
        let file = PathBuf::from(self.of(&input.name));
        if file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
            return values::read(&file).map_err(|e| e.at(file.display()));
        }
        let (dtype, shape) = (input.dtype.parse::<DType>().ok(), input.shape.clone());
        let named = matches!(self.of(&input.name), "random" | "zeros");
        let info = match (dtype, shape) {
            (Some(dtype), Some(shape)) => TensorInfo { name: input.name.clone(), dtype, shape },
            _ if named => {
                let message = format!(
                    "`{func}` takes values that are not tensors; give its input {input}, as in \
                     --input {}=FILE.json",
                    input.name
                );
                return Err(Error::input(message));
            }
            _ => TensorInfo { name: input.name.clone(), dtype: DType::VOID, shape: vec![] },
        };
        let array = self.array(k, &info)?;
        let tensor = Tensor::from_bytes(&array.shape, array.dtype, &array.data);
        tensor.map(Any::from).map_err(|e| Error::input(e.message()))
    }
}

impl InputArgs {
    fn sources(&self, names: &[&str]) -> Result<Sources> {
        let named =
            |(name, source): &(Option<String>, String)| Some((name.clone()?, source.clone()));
        let sources: BTreeMap<String, String> = self.inputs.iter().filter_map(named).collect();
        let for_all = self.inputs.iter().rev().find(|(name, _)| name.is_none());
        let for_all = for_all.map_or("random", |(_, source)| source);
        if !matches!(for_all, "random" | "zeros") && names.len() != 1 {
            let why = "expected NAME=VALUE, since it is not for all inputs, which are";
            let message = format!("--input {for_all}: {why} {}", names.join(", "));
            return Err(Error::input(message));
        }
        let shapes: BTreeMap<_, _> = self.shapes.iter().cloned().collect();
        for name in sources.keys().chain(shapes.keys()) {
            if !names.contains(&name.as_str()) {
                let names = names.join(", ");
                let message = format!("no input named {name:?}; the model has {names}");
                return Err(Error::input(message));
            }
        }
        let (named, for_all) = (sources, for_all.to_owned());
        Ok(Sources { named, for_all, shapes, seed: self.seed, symbols: BTreeMap::new() })
    }

    /// One feed for `program`'s function `func`.
    pub fn feed(&self, program: &Program, func: &str) -> Result<Feed> {
        let expected = program.signature(func)?.inputs;
        let names: Vec<&str> = expected.iter().map(|p| p.name.as_str()).collect();
        let mut sources = self.sources(&names)?;
        let mut feed = Feed::new();
        for (k, input) in expected.iter().enumerate() {
            feed.insert(input.name.clone(), sources.array(k, input)?);
        }
        Ok(feed)
    }

    /// The arguments of a function that takes or returns values that are not tensors.
    pub fn values(&self, inputs: &[ValueInfo], func: &str) -> Result<Vec<Any>> {
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let mut sources = self.sources(&names)?;
        inputs.iter().enumerate().map(|(k, input)| sources.value(k, input, func)).collect()
    }

    /// An error of a call with these inputs. If the program chose the shapes that were not given,
    /// they may be why, and the error says how to give others.
    pub fn explain(&self, error: Error, program: &Program, func: &str) -> Error {
        let signature = program.signature(func).unwrap_or_default();
        let chosen = signature.inputs.iter().filter(|input| {
            let dynamic = input.shape.iter().any(|d| matches!(d, Dim::Symbol(_)));
            let named = self.inputs.iter().any(|(name, _)| name.as_ref() == Some(&input.name));
            dynamic && !named && !self.shapes.iter().any(|(name, _)| *name == input.name)
        });
        let chosen: Vec<&TensorInfo> = chosen.collect();
        if chosen.is_empty() || error.kind() != ErrorKind::Run {
            return error;
        }
        let list = |each: &dyn Fn(&TensorInfo) -> String, between: &str| {
            chosen.iter().map(|input| each(input)).collect::<Vec<_>>().join(between)
        };
        let message = format!(
            "{error}\nDynamic dimensions were taken to be 1, which the model may not take, of {}; \
             give others, as in {}",
            list(&ToString::to_string, ", "),
            list(&example_shape, " ")
        );
        Error::new(error.kind(), message)
    }
}

/// A `--shape` option for an input: what is known of it, a batch of 1, and 64 of everything else.
fn example_shape(input: &TensorInfo) -> String {
    let dim = |(axis, dim): (usize, &Dim)| match dim {
        Dim::Const(size) => size.to_string(),
        Dim::Symbol(_) if axis == 0 => "1".to_owned(),
        Dim::Symbol(_) => "64".to_owned(),
    };
    let dims: Vec<String> = input.shape.iter().enumerate().map(dim).collect();
    format!("--shape {}={}", input.name, dims.join("x"))
}

/// Returns the shape asked for, else the model's with 1 for unknown symbols.
fn shape_of(
    input: &TensorInfo,
    asked: Option<&String>,
    symbols: &mut BTreeMap<String, i64>,
) -> Result<Vec<i64>> {
    let Some(text) = asked else {
        let pick = |d: &Dim| match d {
            Dim::Const(n) => *n,
            Dim::Symbol(name) => *symbols.get(name).unwrap_or(&1),
        };
        return Ok(input.shape.iter().map(pick).collect());
    };
    let shape = dims(text).filter(|s| s.len() == input.shape.len()).ok_or_else(|| {
        Error::input(format!(
            "--shape {}={text}: expected {} dimensions as in 1x3x224x224",
            input.name,
            input.shape.len()
        ))
    })?;
    for (dim, size) in input.shape.iter().zip(&shape) {
        if let Dim::Symbol(name) = dim {
            symbols.insert(name.clone(), *size);
        }
    }
    Ok(shape)
}

/// Reads dimensions as in `1x3x224x224`; a scalar has none.
pub(super) fn dims(text: &str) -> Option<Vec<i64>> {
    let parse = |part: &str| part.parse::<i64>().ok().filter(|n| *n >= 0);
    match text {
        "" => Some(vec![]),
        _ => text.split('x').map(parse).collect(),
    }
}

/// Zeros, or values from a seed; `None` if there is no memory for them: floats uniform in [-1, 1),
/// bools, integers in [0, 8), and those of 32 and 64 bits in [0, 2): most of them are indices, some into
/// tables of two rows (the kinds of a token).
fn fill(dtype: DType, shape: Vec<i64>, seed: Option<u64>) -> Option<Array> {
    let count = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d as usize))?;
    let bytes = dtype.bytes_for(count).filter(|bytes| *bytes <= available_memory())?;
    let mut data = Vec::new();
    data.try_reserve_exact(bytes).ok()?;
    data.resize(bytes, 0u8);
    if let Some(seed) = seed {
        let mut state = seed;
        for element in data.chunks_exact_mut(dtype.itemsize()) {
            let bits = split_mix(&mut state);
            let real = (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            match dtype {
                DType::F32 => element.copy_from_slice(&(real as f32).to_le_bytes()),
                DType::F64 => element.copy_from_slice(&real.to_le_bytes()),
                // By way of float32: `from_f64` rounds as the CPU's instructions do, or without them otherwise.
                DType::F16 => {
                    element.copy_from_slice(&half::f16::from_f32(real as f32).to_le_bytes());
                }
                DType::BF16 => element.copy_from_slice(&half::bf16::from_f64(real).to_le_bytes()),
                DType::BOOL => element[0] = (bits & 1) as u8,
                DType::I32 | DType::I64 => element[0] = (bits & 1) as u8,
                _ => element[0] = (bits & 7) as u8,
            }
        }
    }
    Some(Array { dtype, shape, data })
}

/// Bytes of memory that programs can have now, as the system estimates them.
fn available_memory() -> usize {
    let known = std::fs::read_to_string("/proc/meminfo").ok();
    let row = known.as_deref().and_then(|text| text.split_once("MemAvailable:"));
    let kib = row.and_then(|(_, rest)| rest.split_ascii_whitespace().next()?.parse::<usize>().ok());
    kib.and_then(|kib| kib.checked_mul(1024)).unwrap_or(usize::MAX)
}
