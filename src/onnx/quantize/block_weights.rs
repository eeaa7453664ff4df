//! Weights of 4 bits with a scale for each block: DequantizeLinear with `block_size` where the model's
//! operator set has it, MatMulNBits of com.microsoft where it has not.

use std::collections::HashMap;

use crate::error::{Result, invalid};
use crate::model::Model;
use crate::proto::{NodeProto, OperatorSetIdProto, data_type};

use super::codes::{Blocks, four_bits};
use super::graph_edit::{GraphEdit, int};
use super::site::Site;

/// The operator set with 4-bit integers and blocks of DequantizeLinear, and its file format.
const BLOCKED_OPSET: i64 = 21;
const BLOCKED_IR_VERSION: i64 = 10;
const INT4: i32 = 22;
const MICROSOFT: &str = "com.microsoft";

/// Constants made of weights, or the value that they are dequantized to.
struct Weights {
    /// Operands besides the activation.
    names: Vec<String>,
    sqnr_db: f64,
}

/// Writes the graph, and returns the noise of each site's weights in decibels.
pub(super) fn rewrite(
    edit: &mut GraphEdit,
    model: &Model,
    sites: &[Site],
    block: usize,
    opset: i64,
) -> Result<Vec<f64>> {
    let blocked = opset >= BLOCKED_OPSET;
    if blocked {
        edit.ir_version = edit.ir_version.max(BLOCKED_IR_VERSION);
    } else {
        match model.opsets()?.get(MICROSOFT) {
            Some(1) => {}
            Some(version) => return Err(invalid(format!("{MICROSOFT} of version {version}"))),
            None => {
                edit.opsets.push(OperatorSetIdProto { domain: MICROSOFT.to_owned(), version: 1 });
            }
        }
    }
    let mut weights: HashMap<(&str, bool), Weights> = HashMap::new();
    let mut noise = vec![];
    let mut rest = sites.iter().peekable();
    for index in 0..model.graph()?.node.len() {
        let Some(site) = rest.next_if(|site| site.index == index) else {
            edit.keep(index);
            continue;
        };
        let key = (site.weight_name(), site.is_transposed());
        let weight = weights.entry(key).or_insert_with(|| match blocked {
            true => dequantized(edit, site, block_of(site, block)),
            false => packed(edit, site, block_of(site, block)),
        });
        noise.push(weight.sqnr_db);
        let block = block_of(site, block);
        if blocked {
            let mut node: NodeProto = site.node.clone();
            node.input[1].clone_from(&weight.names[0]);
            edit.push(node);
        } else {
            product(edit, site, weight, block);
        }
    }
    Ok(noise)
}

/// Blocks no longer than the depth asks for.
fn block_of(site: &Site, block: usize) -> usize {
    block.min(depth_and_columns(site).0.next_power_of_two().max(16))
}

/// A blocked DequantizeLinear of the weights as they lie.
fn dequantized(edit: &mut GraphEdit, site: &Site, block: usize) -> Weights {
    let axis = 1 - site.channel_axis();
    let blocks = Blocks { depth: site.shape[axis], inner: [site.shape[1], 1][axis], block };
    let codes = four_bits(&site.values(), blocks);
    let base = site.weight_name();
    let pairs = codes.codes.chunks(2);
    let pairs = pairs.map(|pair| nibble(pair[0]) | nibble(*pair.get(1).unwrap_or(&0)) << 4);
    let raw = pairs.collect();
    let quantized = edit.initializer((base, "quantized"), INT4, site.dims(), raw);
    let mut dims = site.dims();
    dims[axis] = blocks.count() as i64;
    let scales = edit.scales(base, dims, &codes.scales);
    let name = edit.fresh(base, "dequantized");
    let attributes = vec![int("axis", axis as i64), int("block_size", block as i64)];
    edit.node("DequantizeLinear", &[&quantized, &scales], &name, attributes);
    Weights { names: vec![name], sqnr_db: codes.sqnr_db }
}

fn nibble(code: i8) -> u8 {
    code as u8 & 15
}

/// The weights as MatMulNBits has them: a row of blocks for each column, 8 added to each code.
fn packed(edit: &mut GraphEdit, site: &Site, block: usize) -> Weights {
    let (depth, columns) = depth_and_columns(site);
    let mut rows = site.values();
    if !site.is_transposed() {
        rows = (0..rows.len()).map(|at| rows[at % depth * columns + at / depth]).collect();
    }
    let blocks = Blocks { depth, inner: 1, block };
    let codes = four_bits(&rows, blocks);
    let code = |row: usize, k: usize| match k < depth {
        true => (codes.codes[row * depth + k] + 8) as u8,
        false => 8,
    };
    let bytes_in_row = blocks.count() * block / 2;
    let byte = |at: usize| {
        let (row, pair) = (at / bytes_in_row, at % bytes_in_row);
        code(row, 2 * pair) | code(row, 2 * pair + 1) << 4
    };
    let raw: Vec<u8> = (0..columns * bytes_in_row).map(byte).collect();
    let base = site.weight_name();
    let dims = [columns, blocks.count(), block / 2].map(|d| d as i64).to_vec();
    let quantized = edit.initializer((base, "quantized"), data_type::UINT8, dims, raw);
    let scales = edit.scales(base, vec![codes.scales.len() as i64], &codes.scales);
    Weights { names: vec![quantized, scales], sqnr_db: codes.sqnr_db }
}

fn depth_and_columns(site: &Site) -> (usize, usize) {
    match site.is_transposed() {
        true => (site.shape[1], site.shape[0]),
        false => (site.shape[0], site.shape[1]),
    }
}

fn product(edit: &mut GraphEdit, site: &Site, weight: &Weights, block: usize) {
    let (depth, columns) = depth_and_columns(site);
    let sizes = [("K", depth), ("N", columns), ("bits", 4), ("block_size", block)];
    let attributes = sizes.map(|(name, value)| int(name, value as i64)).to_vec();
    let operands = [site.input(), &weight.names[0], &weight.names[1]];
    let Some(bias) = site.bias() else {
        edit.node_of(MICROSOFT, "MatMulNBits", &operands, &[site.output()], attributes);
        return;
    };
    let sum = edit.fresh(site.output(), "product");
    edit.node_of(MICROSOFT, "MatMulNBits", &operands, &[&sum], attributes);
    edit.node("Add", &[&sum, bias], site.output(), vec![]);
}
