//! The configuration of a model: the parameters of this backend, what the signature completes, and
//! what has to agree with it.

use std::time::Duration;

use reflex::{Dim, Mode, Precision, Signature, TensorInfo, TierPolicy};
use serde_json::{Map, Value, json};

use crate::datatype;

/// The parameters of a model, all optional.
pub(crate) struct Settings {
    /// The function that requests call.
    pub(crate) function: String,
    pub(crate) mode: Mode,
    /// Threads for parallel kernels, the instance's own included.
    pub(crate) threads: usize,
    pub(crate) precision: Precision,
    pub(crate) tier: Option<TierPolicy>,
    /// The longest that a batch may run.
    pub(crate) timeout: Option<Duration>,
}

/// A state that the server keeps for each sequence: an output that is the next request's input.
#[derive(Debug, PartialEq)]
pub(crate) struct StatePort {
    pub(crate) input: String,
    pub(crate) output: String,
}

/// Shapes of the inputs of one warm-up request, in the order of the signature.
pub(crate) type WarmUp = Vec<Vec<i64>>;

const PARAMETERS: &str = "function, mode, threads, precision, tier, timeout_ms";

/// Reads the parameters; one that this backend does not have is an error.
pub(crate) fn settings(config: &Value) -> Result<Settings, String> {
    let mut settings = Settings {
        function: "main".to_owned(),
        mode: Mode::default(),
        threads: 1,
        precision: Precision::default(),
        tier: None,
        timeout: None,
    };
    let none = Map::new();
    for (name, value) in config["parameters"].as_object().unwrap_or(&none) {
        let text = value["string_value"].as_str().unwrap_or_default();
        let bad = |why: &dyn std::fmt::Display| format!("parameter {name} is {text:?}: {why}");
        match name.as_str() {
            "function" => settings.function = text.to_owned(),
            "mode" => settings.mode = text.parse::<Mode>().map_err(|why| bad(&why))?,
            "threads" => settings.threads = text.parse::<usize>().map_err(|why| bad(&why))?,
            "precision" => {
                settings.precision = text.parse::<Precision>().map_err(|why| bad(&why))?
            }
            "tier" => settings.tier = Some(text.parse::<TierPolicy>().map_err(|why| bad(&why))?),
            "timeout_ms" => {
                let milliseconds = text.parse::<u64>().map_err(|why| bad(&why))?;
                settings.timeout = Some(Duration::from_millis(milliseconds));
            }
            _ => return Err(format!("there is no parameter {name}; there are {PARAMETERS}")),
        }
    }
    Ok(settings)
}

/// Returns the most rows of a batch; 0 if the model's first dimension is none of batches.
pub(crate) fn max_batch_size(config: &Value) -> i64 {
    config["max_batch_size"].as_i64().unwrap_or(0)
}

/// Returns the states of `sequence_batching`.
pub(crate) fn states(config: &Value) -> Vec<StatePort> {
    let text = |state: &Value, key: &str| state[key].as_str().unwrap_or_default().to_owned();
    let port =
        |state| StatePort { input: text(state, "input_name"), output: text(state, "output_name") };
    list(&config["sequence_batching"]["state"]).iter().map(port).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Fills in inputs, outputs, `max_batch_size` and `dynamic_batching` where the configuration has
/// none. A batch is what inputs and outputs have in common as first dimension: one symbol.
pub(crate) fn complete(
    config: &mut Value,
    signature: &Signature,
    default_max_batch: i64,
) -> Result<(), String> {
    let states = states(config);
    let described = !list(&config["input"]).is_empty() || !list(&config["output"]).is_empty();
    if max_batch_size(config) == 0 && !described && is_batched(signature) {
        config["max_batch_size"] = json!(default_max_batch);
        let scheduled = ["dynamic_batching", "sequence_batching", "ensemble_scheduling"];
        if default_max_batch > 1 && scheduled.iter().all(|key| config.get(*key).is_none()) {
            config["dynamic_batching"] = json!({});
        }
    }
    let batched = max_batch_size(config) > 0;
    let ports = [
        ("input", &signature.inputs, states.iter().map(|s| &s.input).collect::<Vec<_>>()),
        ("output", &signature.outputs, states.iter().map(|s| &s.output).collect()),
    ];
    for (key, tensors, kept) in ports {
        if list(&config[key]).is_empty() {
            let asked = tensors.iter().filter(|tensor| !kept.contains(&&tensor.name));
            let filled = asked.map(|tensor| port(tensor, batched)).collect::<Result<_, _>>()?;
            config[key] = Value::Array(filled);
        }
    }
    Ok(())
}

/// Returns true if all tensors have the same symbol as their first dimension.
fn is_batched(signature: &Signature) -> bool {
    let mut firsts =
        signature.inputs.iter().chain(&signature.outputs).map(|tensor| tensor.shape.first());
    let Some(Some(first @ Dim::Symbol(_))) = firsts.next() else { return false };
    firsts.all(|other| other == Some(first))
}

fn port(tensor: &TensorInfo, batched: bool) -> Result<Value, String> {
    let data_type = datatype::name_of(tensor.dtype)
        .ok_or_else(|| format!("{tensor}: requests have no tensors of this type"))?;
    let size = |dim: &Dim| match dim {
        Dim::Const(size) => *size,
        Dim::Symbol(_) => -1,
    };
    let dims: Vec<i64> = tensor.shape.iter().skip(usize::from(batched)).map(size).collect();
    // The server has no scalars; one element is sent in their place.
    let dims = if dims.is_empty() { vec![1] } else { dims };
    Ok(json!({ "name": tensor.name, "data_type": data_type, "dims": dims }))
}

/// Checks that a configuration, as a user wrote it, describes the model.
pub(crate) fn check(config: &Value, signature: &Signature) -> Result<(), String> {
    let states = states(config);
    let named = |list: &[TensorInfo], name: &str| list.iter().position(|t| t.name == name);
    let sides = [("input", &signature.inputs), ("output", &signature.outputs)];
    for (key, tensors) in sides {
        for entry in list(&config[key]) {
            let name = entry["name"].as_str().unwrap_or_default();
            let Some(at) = named(tensors, name) else {
                let names: Vec<&str> = tensors.iter().map(|t| t.name.as_str()).collect();
                let names = names.join(", ");
                return Err(format!("the model has no {key} {name:?}; there are {names}"));
            };
            let wanted = datatype::name_of(tensors[at].dtype).unwrap_or("no type of requests");
            let given = entry["data_type"].as_str().unwrap_or_default();
            if given != wanted {
                return Err(format!("{key} {name:?} has the data type {wanted}, not {given}"));
            }
        }
    }
    for state in &states {
        for (side, tensors, name) in [
            ("input", &signature.inputs, &state.input),
            ("output", &signature.outputs, &state.output),
        ] {
            if named(tensors, name).is_none() {
                return Err(format!("sequence_batching: the model has no {side} {name:?}"));
            }
        }
    }
    let given = |name: &str| list(&config["input"]).iter().any(|entry| entry["name"] == name);
    let fed = |name: &str| given(name) || states.iter().any(|state| state.input == name);
    match signature.inputs.iter().find(|input| !fed(&input.name)) {
        Some(input) => Err(format!("the configuration has no input {:?}", input.name)),
        None => Ok(()),
    }
}

/// Returns the shapes of the requests of `model_warmup`; of its inputs only the shapes matter.
pub(crate) fn warm_ups(config: &Value, signature: &Signature) -> Result<Vec<WarmUp>, String> {
    let batched = max_batch_size(config) > 0;
    let shape = |request: &Value, input: &TensorInfo| {
        let entry = &request["inputs"][&input.name];
        let dims = entry["dims"].as_array().ok_or_else(|| {
            let sample = request["name"].as_str().unwrap_or_default();
            format!("model_warmup {sample:?} has no dims of input {:?}", input.name)
        })?;
        let rows = batched.then(|| request["batch_size"].as_i64().unwrap_or(1).max(1));
        // The server's JSON has 64-bit integers as strings.
        let sizes = dims.iter().filter_map(|d| d.as_i64().or_else(|| d.as_str()?.parse().ok()));
        let shape: Vec<i64> = rows.into_iter().chain(sizes).collect();
        // A scalar is written as one element.
        Ok(if input.shape.is_empty() { vec![] } else { shape })
    };
    let kept = states(config);
    let is_state = |input: &TensorInfo| kept.iter().any(|state| state.input == input.name);
    // The server has no warm-up of a sequence's state, so these begin with their first request.
    if signature.inputs.iter().any(is_state) {
        return Ok(vec![]);
    }
    let request =
        |r| signature.inputs.iter().map(|input| shape(r, input)).collect::<Result<_, String>>();
    list(&config["model_warmup"]).iter().map(request).collect()
}

#[cfg(test)]
mod tests {
    use reflex::DType;

    use super::*;

    fn tensor(name: &str, dtype: DType, shape: &[&str]) -> TensorInfo {
        let dim = |text: &&str| match text.parse() {
            Ok(size) => Dim::Const(size),
            Err(_) => Dim::Symbol((*text).to_owned()),
        };
        TensorInfo { name: name.to_owned(), dtype, shape: shape.iter().map(dim).collect() }
    }

    fn embedder() -> Signature {
        Signature {
            inputs: vec![tensor("ids", DType::I64, &["n", "length"])],
            outputs: vec![tensor("vector", DType::F32, &["n", "384"])],
        }
    }

    #[test]
    fn a_common_first_symbol_is_the_batch() {
        let mut config = json!({});
        complete(&mut config, &embedder(), 4).unwrap();
        let expected = json!({
            "max_batch_size": 4, "dynamic_batching": {},
            "input": [{ "name": "ids", "data_type": "TYPE_INT64", "dims": [-1] }],
            "output": [{ "name": "vector", "data_type": "TYPE_FP32", "dims": [384] }],
        });
        assert_eq!(config, expected);
        check(&config, &embedder()).unwrap();
    }

    #[test]
    fn what_is_configured_stays() {
        let written = json!({
            "max_batch_size": 16, "sequence_batching": {},
            "input": [{ "name": "ids", "data_type": "TYPE_INT64", "dims": [32] }],
        });
        let mut config = written.clone();
        complete(&mut config, &embedder(), 4).unwrap();
        assert_eq!(config["input"], written["input"]);
        assert_eq!(config["max_batch_size"], 16);
        assert_eq!(config["output"][0]["dims"], json!([384]));
        assert!(config.get("dynamic_batching").is_none());
    }

    #[test]
    fn states_are_no_inputs_and_scalars_are_one_element() {
        let signature = Signature {
            inputs: vec![
                tensor("x", DType::F32, &["b", "t"]),
                tensor("state", DType::F32, &["2", "b", "128"]),
                tensor("rate", DType::I64, &[]),
            ],
            outputs: vec![
                tensor("y", DType::F32, &["b", "1"]),
                tensor("next", DType::F32, &["2", "b", "128"]),
            ],
        };
        let states = json!([{ "input_name": "state", "output_name": "next" }]);
        let mut config = json!({ "sequence_batching": { "state": states } });
        complete(&mut config, &signature, 4).unwrap();
        assert_eq!(max_batch_size(&config), 0);
        let rate = json!({ "name": "rate", "data_type": "TYPE_INT64", "dims": [1] });
        assert_eq!(config["input"][1], rate);
        assert_eq!(list(&config["output"]).len(), 1);
        check(&config, &signature).unwrap();
    }

    #[test]
    fn what_does_not_fit_the_model_is_refused() {
        let refused = |config: Value| check(&config, &embedder()).unwrap_err();
        let input = |name: &str, data_type: &str| json!({ "name": name, "data_type": data_type });
        let config = json!({ "input": [input("tokens", "TYPE_INT64")] });
        assert_eq!(refused(config), "the model has no input \"tokens\"; there are ids");
        let config = json!({ "input": [input("ids", "TYPE_INT32")] });
        assert_eq!(refused(config), "input \"ids\" has the data type TYPE_INT64, not TYPE_INT32");
        assert_eq!(refused(json!({})), "the configuration has no input \"ids\"");
        let state = json!({ "sequence_batching": { "state": [{ "input_name": "h" }] } });
        assert_eq!(refused(state), "sequence_batching: the model has no input \"h\"");
    }

    #[test]
    fn parameters_are_read_and_unknown_ones_refused() {
        let with = |name: &str, text: &str| {
            settings(&json!({ "parameters": { name: { "string_value": text } } }))
        };
        assert_eq!(with("threads", "2").unwrap().threads, 2);
        assert_eq!(with("timeout_ms", "5").unwrap().timeout, Some(Duration::from_millis(5)));
        assert_eq!(with("mode", "compiled").unwrap().mode, Mode::Compiled);
        for (name, text) in [("threads", "two"), ("mode", "fast"), ("tread", "2")] {
            assert!(with(name, text).err().unwrap().contains(name), "{name}");
        }
    }

    #[test]
    fn warm_up_shapes_have_the_rows() {
        let inputs = json!({ "ids": { "dims": ["128"], "zero_data": true } });
        let sample = json!({ "name": "one", "batch_size": 2, "inputs": inputs });
        let config = json!({ "max_batch_size": 4, "model_warmup": [sample] });
        assert_eq!(warm_ups(&config, &embedder()).unwrap(), [[[2, 128]]]);
        let config = json!({ "model_warmup": [{ "name": "none" }] });
        assert!(warm_ups(&config, &embedder()).is_err());
    }
}
