//! QuantizeLinear and DequantizeLinear around products, with ranges that calibration found.
//!
//! Every activation that a product reads, and every result of one, is quantized once; all nodes read the
//! dequantized value, so that engines find integers on both sides of a product. A Relu or Clip that is the
//! only reader of a product belongs to it: the value after it is quantized, not the one before.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::error::{Result, invalid};
use crate::proto::{GraphProto, NodeProto, data_type};

use super::graph_edit::{GraphEdit, int, reads};
use super::options::{QuantizeOptions, Ranges};
use super::site::Site;

/// The values that are quantized, in the order of names.
pub(super) fn activations(graph: &GraphProto, sites: &[Site]) -> Vec<String> {
    let readers = Readers::of(graph);
    let mut values = BTreeSet::new();
    for site in sites {
        values.insert(site.input().to_owned());
        let result = readers.after_activation(graph, site.output());
        if !readers.results.contains(result) {
            values.insert(result.to_owned());
        }
    }
    values.into_iter().collect()
}

/// Who reads a value.
struct Readers<'a> {
    nodes: HashMap<&'a str, Vec<usize>>,
    results: HashSet<&'a str>,
}

impl<'a> Readers<'a> {
    fn of(graph: &'a GraphProto) -> Readers<'a> {
        let mut nodes: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            let mut names = HashSet::new();
            reads(node, &mut names);
            names.into_iter().for_each(|name| nodes.entry(name).or_default().push(index));
        }
        let results = graph.output.iter().map(|output| output.name.as_str()).collect();
        Readers { nodes, results }
    }

    /// The result of the Relu or Clip that alone reads `value`, else `value`.
    fn after_activation(&self, graph: &'a GraphProto, value: &'a str) -> &'a str {
        let [reader] = self.nodes.get(value).map_or(&[][..], Vec::as_slice) else { return value };
        let node = &graph.node[*reader];
        let belongs = matches!(node.op_type.as_str(), "Relu" | "Clip")
            && node.domain.is_empty()
            && node.input.first().is_some_and(|input| input == value)
            && !self.results.contains(value);
        if belongs { node.output.first().map_or(value, String::as_str) } else { value }
    }
}

/// A quantized value.
struct Activation {
    scale: f32,
    zero_point: u8,
    /// The dequantized value, once it is written.
    dequantized: Option<String>,
}

/// Writes the graph, and returns the noise of each site's weights in decibels.
pub(super) fn rewrite(
    edit: &mut GraphEdit,
    graph: &GraphProto,
    sites: &[Site],
    options: &QuantizeOptions,
    ranges: &Ranges,
) -> Result<Vec<f64>> {
    let mut values: HashMap<String, Activation> = HashMap::new();
    for name in activations(graph, sites) {
        let range = ranges.get(&name);
        let range = range.ok_or_else(|| invalid(format!("value `{name}` has no range")))?;
        let (scale, zero_point) = affine(*range)
            .ok_or_else(|| invalid(format!("value `{name}` is not finite: {range:?}")))?;
        values.insert(name, Activation { scale, zero_point, dequantized: None });
    }
    let mut writer = Writer { edit, values, weights: HashMap::new(), options };
    let mut noise = vec![];
    let mut rest = sites.iter().peekable();
    for (index, node) in graph.node.iter().enumerate() {
        let mut names: Vec<&str> = node.input.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            writer.dequantize(name);
        }
        let site = rest.next_if(|site| site.index == index);
        match site {
            Some(site) => noise.push(writer.product(site)),
            None => writer.other(index, node),
        }
    }
    Ok(noise)
}

/// Scale and zero point of DynamicQuantizeLinear: zero is a code.
fn affine((least, greatest): (f32, f32)) -> Option<(f32, u8)> {
    let (least, greatest) = (least.min(0.0), greatest.max(0.0));
    let scale = (greatest - least) / 255.0;
    if !scale.is_finite() {
        return None;
    }
    let scale = if scale.is_normal() { scale } else { 1.0 };
    Some((scale, (-least / scale).round_ties_even().clamp(0.0, 255.0) as u8))
}

/// Dequantized weights, and what the biases of products with them need.
struct Weights {
    name: String,
    scales: Vec<f32>,
    sqnr_db: f64,
}

struct Writer<'e, 'm, 'o> {
    edit: &'e mut GraphEdit<'m>,
    values: HashMap<String, Activation>,
    weights: HashMap<(String, usize), Weights>,
    options: &'o QuantizeOptions,
}

impl Writer<'_, '_, '_> {
    /// Writes the pair of a value that is quantized, before its first reader.
    fn dequantize(&mut self, name: &str) {
        let Some(value) = self.values.get_mut(name).filter(|v| v.dequantized.is_none()) else {
            return;
        };
        let edit = &mut *self.edit;
        let scale = edit.scales(name, vec![], &[value.scale]);
        let zero = vec![value.zero_point];
        let zero = edit.initializer((name, "zero_point"), data_type::UINT8, vec![], zero);
        let quantized = edit.fresh(name, "quantized");
        edit.node("QuantizeLinear", &[name, &scale, &zero], &quantized, vec![]);
        let dequantized = edit.fresh(name, "dequantized");
        edit.node("DequantizeLinear", &[&quantized, &scale, &zero], &dequantized, vec![]);
        value.dequantized = Some(dequantized);
    }

    /// The value that nodes read instead of a value.
    fn read(&self, name: &str) -> Option<&String> {
        self.values.get(name)?.dequantized.as_ref()
    }

    fn other(&mut self, index: usize, node: &NodeProto) {
        if node.input.iter().all(|name| self.read(name).is_none()) {
            return self.edit.keep(index);
        }
        let mut node = node.clone();
        for input in &mut node.input {
            if let Some(name) = self.read(input) {
                *input = name.clone();
            }
        }
        self.edit.push(node);
    }

    fn product(&mut self, site: &Site) -> f64 {
        let key = (site.weight_name().to_owned(), site.channel_axis());
        if !self.weights.contains_key(&key) {
            let weights = self.weights_of(site);
            self.weights.insert(key.clone(), weights);
        }
        let mut node = site.node.clone();
        if let Some(name) = self.read(site.input()) {
            node.input[0] = name.clone();
        }
        if let Some(bias) = self.bias(site, &self.weights[&key].scales.clone()) {
            node.input[2] = bias;
        }
        let weights = &self.weights[&key];
        node.input[1].clone_from(&weights.name);
        let noise = weights.sqnr_db;
        self.edit.push(node);
        noise
    }

    /// The bias in units of the product's integers, where it is a constant whose codes fit.
    fn bias(&mut self, site: &Site, weight_scales: &[f32]) -> Option<String> {
        let (name, values) = (site.bias()?, site.bias_values.as_ref()?);
        if let Some(read) = self.read(name) {
            return Some(read.clone());
        }
        let input = self.values.get(site.input())?.scale;
        let scales: Vec<f32> = weight_scales.iter().map(|scale| input * scale).collect();
        let code = |(value, scale): (&f32, &f32)| {
            let code = (f64::from(*value) / f64::from(*scale)).round_ties_even();
            (scale.is_normal() && code.abs() <= f64::from(i32::MAX)).then_some(code as i32)
        };
        let codes: Vec<i32> = values.iter().zip(&scales).map(code).collect::<Option<_>>()?;
        let dims = vec![scales.len() as i64];
        if codes.len() != scales.len() {
            return None;
        }
        let raw = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
        let edit = &mut *self.edit;
        let quantized = edit.initializer((name, "quantized"), data_type::INT32, dims.clone(), raw);
        let scales = edit.scales(name, dims, &scales);
        let dequantized = edit.fresh(name, "dequantized");
        let axis = vec![int("axis", 0)];
        edit.node("DequantizeLinear", &[&quantized, &scales], &dequantized, axis);
        Some(dequantized)
    }

    fn weights_of(&mut self, site: &Site) -> Weights {
        let codes = site.codes(self.options);
        let base = site.weight_name();
        let channels = codes.scales.len() as i64;
        let raw = codes.codes.iter().map(|code| *code as u8).collect();
        let quantized =
            self.edit.initializer((base, "quantized"), data_type::INT8, site.dims(), raw);
        let scales = self.edit.scales(base, vec![channels], &codes.scales);
        let zero = vec![0; codes.scales.len()];
        let zero =
            self.edit.initializer((base, "zero_point"), data_type::INT8, vec![channels], zero);
        let name = self.edit.fresh(base, "dequantized");
        let axis = vec![int("axis", site.channel_axis() as i64)];
        self.edit.node("DequantizeLinear", &[&quantized, &scales, &zero], &name, axis);
        Weights { name, scales: codes.scales, sqnr_db: codes.sqnr_db }
    }
}
