//! Products of integers whose activations are quantized in each call.

use std::collections::HashMap;

use crate::proto::{GraphProto, data_type};

use super::graph_edit::{GraphEdit, int};
use super::options::QuantizeOptions;
use super::site::Site;

/// The names of an activation's codes, scale and zero point.
type Quantized = [String; 3];

/// Constants made of weights.
struct Weights {
    codes: String,
    scales: String,
    /// Of convolutions: theirs are u8, which ConvInteger of every version of ONNX Runtime takes.
    zero_point: Option<String>,
    sqnr_db: f64,
}

/// Writes the graph, and returns the noise of each site's weights in decibels.
pub(super) fn rewrite(
    edit: &mut GraphEdit,
    graph: &GraphProto,
    sites: &[Site],
    options: &QuantizeOptions,
) -> Vec<f64> {
    let mut inputs: HashMap<&str, Quantized> = HashMap::new();
    let mut weights: HashMap<(&str, bool, bool), Weights> = HashMap::new();
    let mut noise = vec![];
    let mut rest = sites.iter().peekable();
    for index in 0..graph.node.len() {
        let Some(site) = rest.next_if(|site| site.index == index) else {
            edit.keep(index);
            continue;
        };
        let [codes, scale, zero_point] =
            inputs.entry(site.input()).or_insert_with(|| activation(edit, site.input()));
        let key = (site.weight_name(), site.is_conv(), site.is_transposed());
        let weight = weights.entry(key).or_insert_with(|| constant(edit, site, options));
        noise.push(weight.sqnr_db);
        let output = site.output();
        let sum = edit.fresh(output, "sum");
        let mut operands = vec![codes.as_str(), &weight.codes, zero_point];
        operands.extend(weight.zero_point.as_deref());
        let operator = if site.is_conv() { "ConvInteger" } else { "MatMulInteger" };
        edit.node(operator, &operands, &sum, site.attributes());
        let float = edit.fresh(output, "float");
        edit.node("Cast", &[&sum], &float, vec![int("to", data_type::FLOAT.into())]);
        let both = edit.fresh(output, "scale");
        edit.node("Mul", &[scale, &weight.scales], &both, vec![]);
        let Some(bias) = site.bias() else {
            edit.node("Mul", &[&float, &both], output, vec![]);
            continue;
        };
        let scaled = edit.fresh(output, "scaled");
        edit.node("Mul", &[&float, &both], &scaled, vec![]);
        let bias = match site.is_conv() {
            true => channels_first(edit, bias, site),
            false => bias.to_owned(),
        };
        edit.node("Add", &[&scaled, &bias], output, vec![]);
    }
    noise
}

/// Quantizes a value.
fn activation(edit: &mut GraphEdit, value: &str) -> Quantized {
    let names = ["quantized", "scale", "zero_point"].map(|suffix| edit.fresh(value, suffix));
    let outputs = [names[0].as_str(), &names[1], &names[2]];
    edit.node_of("", "DynamicQuantizeLinear", &[value], &outputs, vec![]);
    names
}

fn constant(edit: &mut GraphEdit, site: &Site, options: &QuantizeOptions) -> Weights {
    let codes = site.codes(options);
    let base = site.weight_name();
    let (mut dims, channels) = (site.dims(), codes.scales.len());
    let mut scale_dims = vec![channels as i64];
    let (kind, raw, zero_point) = if site.is_conv() {
        scale_dims.extend(site.shape[2..].iter().map(|_| 1));
        let raw = codes.codes.iter().map(|code| (i16::from(*code) + 128) as u8).collect();
        let zero = edit.initializer((base, "zero_point"), data_type::UINT8, vec![], vec![128]);
        (data_type::UINT8, raw, Some(zero))
    } else if site.is_transposed() {
        dims.reverse();
        let depth = site.shape[1];
        let turned = |at: usize| codes.codes[at % channels * depth + at / channels] as u8;
        (data_type::INT8, (0..codes.codes.len()).map(turned).collect(), None)
    } else {
        (data_type::INT8, codes.codes.iter().map(|code| *code as u8).collect(), None)
    };
    let scales = edit.scales(base, scale_dims, &codes.scales);
    let codes_name = edit.initializer((base, "quantized"), kind, dims, raw);
    Weights { codes: codes_name, scales, zero_point, sqnr_db: codes.sqnr_db }
}

/// The bias of a convolution along the axis of channels of its result.
fn channels_first(edit: &mut GraphEdit, bias: &str, site: &Site) -> String {
    let mut dims = vec![-1i64];
    dims.extend(site.shape[2..].iter().map(|_| 1));
    let raw = dims.iter().flat_map(|d| d.to_le_bytes()).collect();
    let shape = edit.initializer((bias, "shape"), data_type::INT64, vec![dims.len() as i64], raw);
    let shaped = edit.fresh(bias, "channels");
    edit.node("Reshape", &[bias, &shape], &shaped, vec![]);
    shaped
}
