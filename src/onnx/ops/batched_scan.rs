//! `Scan` of opset 8: a scan for each index of a batch, over as many steps as its sequence has.

use reflex_graph::{Binary, Op, PadMode, ReduceKind, TensorType, dims};
use reflex_tir::{DType, Expr};

use super::control::{mentions_new, values};
use super::iterate::{Iterated, iterate};
use super::loop_import::{LoopImport, ScanDirection, Scanned};
use super::table::all;
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::proto::GraphProto;
use crate::value::{OnnxValue, Tensor};

/// The operands of a scan, all with the batch as their first axis.
struct Batch<'a> {
    graph: &'a GraphProto,
    states: Vec<Tensor>,
    /// The second axis is that of the steps.
    sequences: Vec<(Tensor, ScanDirection)>,
    /// The number of steps of each sequence, where they differ.
    lengths: Option<Tensor>,
    /// The most steps.
    steps: Expr,
    name: String,
}

pub(super) fn scan(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let count = call.int("num_scan_inputs", 0)?;
    let given = call.inputs.len().saturating_sub(1);
    let sequences = usize::try_from(count).ok().filter(|n| (1..=given).contains(n));
    let states = sequences.map(|n| given - n);
    let states = states.ok_or_else(|| invalid(format!("num_scan_inputs {count}")))?;
    let directions = call.ints("directions")?.unwrap_or_default();
    let operand = |index: usize, rank: usize| match call.input(1 + index)? {
        x if x.rank() >= rank => Ok(x.clone()),
        x => Err(invalid(format!("input {} of type {}", 1 + index, x.ty))),
    };
    let state_of = |index| operand(index, 1);
    let sequence_of = |index: usize| {
        let direction = ScanDirection::of(directions.get(index).copied().unwrap_or(0));
        Ok((operand(states + index, 2)?, direction))
    };
    let sequences: Vec<(Tensor, ScanDirection)> =
        (0..given - states).map(sequence_of).collect::<Result<_>>()?;
    let states: Vec<Tensor> = (0..states).map(state_of).collect::<Result<_>>()?;
    let (size, steps) = (sequences[0].0.shape()[0].clone(), sequences[0].0.shape()[1].clone());
    for state in &states {
        cx.check_dim(&state.shape()[0], &size)?;
    }
    for (other, _) in &sequences[1..] {
        cx.check_dim(&other.shape()[0], &size)?;
        cx.check_dim(&other.shape()[1], &steps)?;
    }
    let lengths = lengths(cx, call, &size, &steps)?;
    let (graph, name) = (call.graph("body")?, cx.b.source().to_string());
    let batch = Batch { graph, states, sequences, lengths, steps, name };
    let results = iterate(cx, &size, &[], |cx, at, _| {
        Ok(Iterated { carried: vec![], stacked: batch.one(cx, at)? })
    })?;
    all(results.stacked)
}

/// The lengths of the sequences, which are checked at run time.
fn lengths(
    cx: &mut ImportContext,
    call: &Call,
    size: &Expr,
    steps: &Expr,
) -> Result<Option<Tensor>> {
    let Some(lengths) = call.opt(0)?.cloned() else { return Ok(None) };
    if lengths.dtype() != DType::I64 || lengths.rank() != 1 {
        return Err(invalid(format!("lengths of type {}", lengths.ty)));
    }
    cx.check_dim(&lengths.shape()[0], size)?;
    let negative = cx.binary_num(Binary::Less, &lengths, 0.0)?;
    let long = cx.binary(Binary::Greater, &lengths, &Tensor::dim(steps))?;
    let wrong = cx.binary(Binary::Or, &negative, &long)?;
    let wrong = cx.cast(&wrong, DType::I64)?;
    let wrong = cx.reduce(ReduceKind::Sum, &wrong, &[0])?;
    let wrong = cx.reshape(&wrong, &[1.into()])?;
    cx.check_elements(&wrong, &[Expr::i64(0)])?;
    Ok(Some(lengths))
}

impl Batch<'_> {
    /// The final states and the stacked results of one index.
    fn one(&self, cx: &mut ImportContext, at: &Tensor) -> Result<Vec<Tensor>> {
        let first_new = cx.b.sym_count();
        let length = self.lengths.as_ref().map(|lengths| cx.take(lengths, at, 0)).transpose()?;
        let mut init = vec![];
        for state in &self.states {
            init.push(OnnxValue::Tensor(cx.take(state, at, 0)?));
        }
        let mut scanned = vec![];
        for (x, direction) in &self.sequences {
            let (x, length) = (cx.take(x, at, 0)?, length.clone());
            scanned.push(Scanned { x, axis: 0, direction: *direction, length });
        }
        let trips = length.clone().unwrap_or_else(|| Tensor::dim(&self.steps));
        let import = LoopImport {
            graph: self.graph,
            max_trips: Some(cx.value(&trips)?),
            cond: None,
            init: values(cx, init)?,
            name: self.name.clone(),
            scanned: Some(scanned),
        };
        let mut results = vec![];
        for (index, result) in import.import(cx)?.into_iter().enumerate() {
            let OnnxValue::Tensor(mut x) = result else {
                return Err(unsupported("results that are not tensors"));
            };
            if index >= self.states.len() {
                x = self.filled(cx, &x, length.is_some())?;
            }
            if x.shape().iter().any(|dim| mentions_new(dim, first_new)) {
                return Err(unsupported("a result whose extents only the body knows"));
            }
            results.push(x);
        }
        Ok(results)
    }

    /// A stacked result with zeros for the steps behind the sequence's end.
    fn filled(&self, cx: &mut ImportContext, x: &Tensor, shorter: bool) -> Result<Tensor> {
        let mut shape = x.shape().to_vec();
        let missing = dims::simplify(&(self.steps.clone() - shape[0].clone()));
        shape[0] = self.steps.clone();
        if !shorter {
            let value = cx.value(x)?;
            let value = cx.b.match_cast(value, TensorType::new(x.dtype(), shape));
            return Ok(cx.tensor_of(value));
        }
        let before = vec![Expr::i64(0); shape.len()];
        let mut after = before.clone();
        after[0] = missing;
        let zero = cx.num(0.0, x.dtype())?;
        let wide = cx.op(Op::Pad { mode: PadMode::Constant, before, after }, &[x, &zero])?;
        // The sum of the two is the number of steps, however it is written.
        cx.reshape(&wide, &shape)
    }
}
