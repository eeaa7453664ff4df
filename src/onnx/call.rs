//! A node as its operator reads it: resolved inputs, and attributes.
//!
//! Every attribute of a node must be read or ignored by its operator; an unread one is an error.

use std::cell::RefCell;
use std::rc::Rc;

use crate::error::{Result, invalid, malformed, unsupported};
use crate::proto::{AttributeProto, GraphProto, NodeProto, attribute_type};
use crate::value::{OnnxValue, Tensor};

/// Operators that move the elements of their inputs.
const MOVES: &[&str] = &[
    "ArrayFeatureExtractor",
    "Compress",
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
];
/// Operators that read the shape alone.
pub(crate) const SHAPES: &[&str] = &["Shape", "Size"];

/// A node with resolved inputs.
pub(crate) struct Call<'a> {
    /// The node.
    pub node: &'a NodeProto,
    /// Version of the node's operator set.
    pub opset: i64,
    /// Inputs; `None` where an optional one is left out.
    pub inputs: Vec<Option<OnnxValue>>,
    /// Attributes that the operator asked for.
    seen: Rc<RefCell<Vec<&'static str>>>,
}

impl<'a> Call<'a> {
    /// Returns true if a call of a domain moves strings, or asks for their shape: then their positions are moved.
    pub fn moves_strings(&self, domain: &str) -> bool {
        let op = self.node.op_type.as_str();
        let known = MOVES.contains(&op) || SHAPES.contains(&op);
        let strings = |input: &Option<OnnxValue>| matches!(input, Some(OnnxValue::Strings(_)));
        known && domain.starts_with("ai.onnx") && self.inputs.iter().any(strings)
    }

    /// A call of `node`.
    pub fn new(node: &'a NodeProto, opset: i64, inputs: Vec<Option<OnnxValue>>) -> Call<'a> {
        Call { node, opset, inputs, seen: Rc::default() }
    }

    /// The same call, as of an operator set of another version. What one asks for the other has seen.
    pub fn at_opset(&self, opset: i64) -> Call<'a> {
        Call { node: self.node, opset, inputs: self.inputs.clone(), seen: Rc::clone(&self.seen) }
    }

    /// Returns true if the model uses an output.
    pub fn wants(&self, output: usize) -> bool {
        self.node.output.get(output).is_some_and(|name| !name.is_empty())
    }

    /// A required tensor.
    pub fn input(&self, index: usize) -> Result<&Tensor> {
        self.opt(index)?.ok_or_else(|| invalid(format!("input {index} is missing")))
    }

    /// An optional tensor.
    pub fn opt(&self, index: usize) -> Result<Option<&Tensor>> {
        match self.inputs.get(index) {
            None | Some(None) => Ok(None),
            Some(Some(OnnxValue::Tensor(tensor))) => Ok(Some(tensor)),
            Some(Some(_)) => Err(invalid(format!("input {index} is not a tensor"))),
        }
    }

    /// Every input, all of them tensors.
    pub fn tensors(&self) -> Result<Vec<Tensor>> {
        (0..self.inputs.len()).map(|i| self.input(i).cloned()).collect()
    }

    /// Integers that have to be known while importing.
    pub fn known_ints(&self, index: usize) -> Result<Option<Vec<i64>>> {
        let Some(tensor) = self.opt(index)? else { return Ok(None) };
        match tensor.as_ints() {
            Some(values) => Ok(Some(values)),
            None => Err(unsupported(format!("input {index} has to be a constant"))),
        }
    }

    /// Checks that every attribute of the node was asked for.
    pub fn check_attributes(&self) -> Result<()> {
        let seen = self.seen.borrow();
        let unknown = self.node.attribute.iter().find(|a| !seen.contains(&a.name.as_str()));
        match unknown {
            None => Ok(()),
            Some(a) => Err(unsupported(format!("attribute `{}` is not supported here", a.name))),
        }
    }

    /// Accepts attributes that have no effect in this use.
    pub fn ignore(&self, names: &[&'static str]) {
        self.seen.borrow_mut().extend(names);
    }

    fn find(&self, name: &'static str, kind: i32) -> Result<Option<&'a AttributeProto>> {
        self.seen.borrow_mut().push(name);
        let found = self.node.attribute.iter().find(|a| a.name == name);
        match found {
            // Models older than the type field leave it out.
            Some(a) if a.r#type != kind && a.r#type != attribute_type::UNDEFINED => {
                Err(malformed(format!("attribute `{name}` has type {}, not {kind}", a.r#type)))
            }
            found => Ok(found),
        }
    }

    /// Returns true if an attribute is given.
    pub fn has(&self, name: &str) -> bool {
        self.node.attribute.iter().any(|a| a.name == name)
    }

    /// An integer attribute.
    pub fn int_opt(&self, name: &'static str) -> Result<Option<i64>> {
        Ok(self.find(name, attribute_type::INT)?.map(|a| a.i))
    }

    /// An integer attribute with a default.
    pub fn int(&self, name: &'static str, default: i64) -> Result<i64> {
        Ok(self.int_opt(name)?.unwrap_or(default))
    }

    /// A boolean attribute; false if it is absent.
    pub fn flag(&self, name: &'static str) -> Result<bool> {
        Ok(self.int(name, 0)? != 0)
    }

    /// A boolean attribute; true if it is absent.
    pub fn flag_or_true(&self, name: &'static str) -> Result<bool> {
        Ok(self.int(name, 1)? != 0)
    }

    /// A float attribute.
    pub fn float_opt(&self, name: &'static str) -> Result<Option<f64>> {
        Ok(self.find(name, attribute_type::FLOAT)?.map(|a| f64::from(a.f)))
    }

    /// A float attribute with a default.
    pub fn float(&self, name: &'static str, default: f32) -> Result<f64> {
        Ok(self.float_opt(name)?.unwrap_or(f64::from(default)))
    }

    /// A string attribute with a default.
    pub fn text(&self, name: &'static str, default: &'static str) -> Result<&'a str> {
        match self.find(name, attribute_type::STRING)? {
            None => Ok(default),
            Some(a) => utf8(&a.s, name),
        }
    }

    /// A list of strings.
    pub fn texts(&self, name: &'static str) -> Result<Option<Vec<&'a str>>> {
        let Some(a) = self.find(name, attribute_type::STRINGS)? else { return Ok(None) };
        a.strings.iter().map(|s| utf8(s, name)).collect::<Result<_>>().map(Some)
    }

    /// A list of integers.
    pub fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>> {
        Ok(self.find(name, attribute_type::INTS)?.map(|a| a.ints.as_slice()))
    }

    /// A list of floats.
    pub fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>> {
        Ok(self.find(name, attribute_type::FLOATS)?.map(|a| a.floats.as_slice()))
    }

    /// A required graph.
    pub fn graph(&self, name: &'static str) -> Result<&'a GraphProto> {
        let found = self.find(name, attribute_type::GRAPH)?.and_then(|a| a.g.as_ref());
        found.ok_or_else(|| malformed(format!("attribute `{name}` is missing")))
    }

    /// A tensor attribute, through the converter the importer supplies.
    pub fn tensor<T>(
        &self,
        name: &'static str,
        convert: impl FnOnce(&crate::proto::TensorProto) -> Result<T>,
    ) -> Result<Option<T>> {
        let found = self.find(name, attribute_type::TENSOR)?.and_then(|a| a.t.as_ref());
        found.map(convert).transpose()
    }

    /// An axis attribute, from the end when negative. `rank` itself is no axis.
    pub fn axis(&self, name: &'static str, default: i64, rank: usize) -> Result<usize> {
        axis(self.int(name, default)?, rank)
    }

    /// Axes from the attribute (old) or the input (new), normalised and sorted.
    pub fn axes(&self, index: usize, rank: usize) -> Result<Option<Vec<usize>>> {
        let given = match self.ints("axes")? {
            Some(list) => Some(list.to_vec()),
            None => self.known_ints(index)?,
        };
        let Some(given) = given else { return Ok(None) };
        let mut axes = given.iter().map(|a| axis(*a, rank)).collect::<Result<Vec<usize>>>()?;
        axes.sort_unstable();
        if axes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid(format!("axes {given:?} name an axis twice")));
        }
        Ok(Some(axes))
    }
}

/// Normalises an axis that may count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let count = rank as i64;
    if (-count..count).contains(&axis) {
        return Ok(if axis < 0 { axis + count } else { axis } as usize);
    }
    Err(invalid(format!("axis {axis} of a tensor of rank {rank}")))
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| malformed(format!("attribute `{name}` is not UTF-8")))
}
