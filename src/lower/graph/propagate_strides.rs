//! Strides of 1x1 convolutions, propagated to the producers of their feature maps.
//!
//! Where all readers of a feature map have the same stride, the positions between are never read,
//! so they are not computed: the convolution that produces the feature map takes the stride over,
//! through elementwise operators. A feature map with other readers too, such as a residual, is
//! sliced with the stride where the two meet. Results are the same sums. Networks with the stride
//! in the first, narrow convolution of a block gain most: the last block of each size computes a
//! quarter.
//!
//! Decision: docs/decisions/0029-stride-hoisting.md

use std::collections::{HashMap, HashSet};

use reflex_graph::{Binding, Body, ConvAttrs, Func, Module, Node, Op, TensorType, Type, Value};
use reflex_tir::Expr;

use super::edit::{bind, each_func};
use crate::LowerError;

/// Moves strides in every function.
pub fn propagate_strides(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |_, func| {
        let mut body = std::mem::take(&mut func.body);
        in_body(func, &mut body);
        func.body = body;
        Ok(())
    })
}

fn in_body(func: &mut Func, body: &mut Body) {
    for binding in &mut body.bindings {
        for nested in binding.node.bodies_mut() {
            in_body(func, nested);
        }
    }
    let steps = StrideAssignment::of(func, body);
    if !steps.taken.is_empty() {
        steps.write(func, body);
    }
}

/// The positions at which a feature map is read.
#[derive(Clone, PartialEq, Eq)]
enum SpatialRead {
    /// At all its positions, as far as is known.
    Whole,
    /// Along each axis of positions at multiples of these.
    Every(Vec<i64>),
}

/// The feature maps of which a part is computed: every so many positions.
struct StrideAssignment {
    taken: HashMap<Value, Vec<i64>>,
}

impl StrideAssignment {
    /// Begins with all feature maps whose readers agree, and drops those that no convolution
    /// produces.
    fn of(func: &Func, body: &Body) -> StrideAssignment {
        let mut refused = HashSet::new();
        loop {
            let reads = reads(func, body, &refused);
            let mut taken: HashMap<Value, Vec<i64>> = HashMap::new();
            let before = refused.len();
            for binding in &body.bindings {
                let Some((op, args, value)) = operator(binding) else { continue };
                let Some(SpatialRead::Every(steps)) = reads.get(&value) else { continue };
                let alike = |v: &Value| taken.get(v) == Some(steps);
                let takes = known_positions(func, value)
                    && match op {
                        Op::Conv(_) => true,
                        _ => spread_over(func, op, value, args) && args.iter().any(alike),
                    };
                if takes {
                    taken.insert(value, steps.clone());
                } else {
                    refused.insert(value);
                }
            }
            if refused.len() == before {
                return StrideAssignment { taken };
            }
        }
    }

    fn write(&self, func: &mut Func, body: &mut Body) {
        let types = self.taken.iter().map(|(value, steps)| {
            let TensorType { dtype, shape } = func.tensor(*value).clone();
            (*value, TensorType::new(dtype, stepped(&shape, steps)))
        });
        let types: Vec<(Value, TensorType)> = types.collect();
        let mut parts: HashMap<(Value, Vec<i64>), Value> = HashMap::new();
        for mut binding in std::mem::take(&mut body.bindings) {
            let own = operator(&binding).and_then(|(_, _, value)| self.taken.get(&value));
            if let Node::Op { op, args } = &mut binding.node {
                match (op, own) {
                    (Op::Conv(attrs), own) => self.restride(attrs, args[0], own),
                    (_, Some(steps)) => {
                        let whole =
                            |v: &Value| wide(func, *v, steps.len()) && !self.taken.contains_key(v);
                        let whole: Vec<usize> =
                            (0..args.len()).filter(|n| whole(&args[*n])).collect();
                        for n in whole {
                            let key = (args[n], steps.clone());
                            args[n] = *parts.entry(key).or_insert_with(|| {
                                let (value, made) = part(func, args[n], steps, &binding.source);
                                body.bindings.push(made);
                                value
                            });
                        }
                    }
                    _ => {}
                }
            }
            body.bindings.push(binding);
        }
        for (value, ty) in types {
            func.values[value].ty = Type::Tensor(ty);
        }
    }

    /// A convolution's strides where its feature map, its results or both are parts.
    fn restride(&self, attrs: &mut ConvAttrs, image: Value, own: Option<&Vec<i64>>) {
        for (d, stride) in attrs.strides.iter_mut().enumerate() {
            *stride *= own.map_or(1, |steps| steps[d]);
            *stride /= self.taken.get(&image).map_or(1, |steps| steps[d]);
        }
    }
}

/// The operator, operands and result of a binding that is one operator with one result.
fn operator(binding: &Binding) -> Option<(&Op, &[Value], Value)> {
    match (&binding.node, &binding.outputs[..]) {
        (Node::Op { op, args }, [value]) => Some((op, args, *value)),
        _ => None,
    }
}

/// The positions at which each value is read, when all but the `refused` take the strides of their
/// readers.
fn reads(func: &Func, body: &Body, refused: &HashSet<Value>) -> HashMap<Value, SpatialRead> {
    let mut reads: HashMap<Value, SpatialRead> = HashMap::new();
    let note = |reads: &mut HashMap<Value, SpatialRead>, value, read: SpatialRead| {
        let all = reads.entry(value).or_insert_with(|| read.clone());
        if *all != read {
            *all = SpatialRead::Whole;
        }
    };
    body.results.iter().for_each(|v| note(&mut reads, *v, SpatialRead::Whole));
    for binding in body.bindings.iter().rev() {
        for nested in binding.node.bodies() {
            nested.uses(&mut |v| note(&mut reads, v, SpatialRead::Whole));
        }
        let Some((op, args, value)) = operator(binding) else {
            binding.node.operands(&mut |v| note(&mut reads, v, SpatialRead::Whole));
            continue;
        };
        let own = match reads.get(&value) {
            Some(SpatialRead::Every(steps)) if !refused.contains(&value) => Some(steps.clone()),
            _ => None,
        };
        for (n, arg) in args.iter().enumerate() {
            let read = match (op, &own) {
                (Op::Conv(attrs), own) if n == 0 && is_position(func, attrs, args[1]) => {
                    let steps = attrs.strides.iter().enumerate();
                    Some(steps.map(|(d, s)| s * own.as_ref().map_or(1, |o| o[d])).collect())
                }
                (Op::Conv(_), _) | (_, None) => None,
                (_, Some(steps)) => wide(func, *arg, steps.len()).then(|| steps.clone()),
            };
            let some = |steps: &Vec<i64>| steps.iter().any(|s| *s > 1);
            note(
                &mut reads,
                *arg,
                read.filter(some).map_or(SpatialRead::Whole, SpatialRead::Every),
            );
        }
    }
    reads
}

/// Whether a convolution's kernel is one position, without padding.
fn is_position(func: &Func, attrs: &ConvAttrs, weights: Value) -> bool {
    let one = |d: &Expr| d.as_int() == Some(1);
    let window = func.values[weights].ty.as_tensor();
    window.is_some_and(|w| w.shape[2..].iter().all(one))
        && attrs.pads_begin.iter().chain(&attrs.pads_end).all(|pad| *pad == 0)
}

/// Whether an operator is elementwise on operands that are feature maps like its result, or the
/// same at every position.
fn spread_over(func: &Func, op: &Op, value: Value, args: &[Value]) -> bool {
    let shape = &func.tensor(value).shape;
    let alike = |v: &Value| {
        let other = func.values[*v].ty.as_tensor();
        other.is_some_and(|t| t.shape.len() == shape.len() && t.shape[2..] == shape[2..])
    };
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_))
        && args.iter().all(|v| alike(v) || !wide(func, *v, shape.len() - 2))
}

/// Whether a value differs along the last `axes` of what it is broadcast to, those of positions.
fn wide(func: &Func, value: Value, axes: usize) -> bool {
    let ty = func.values[value].ty.as_tensor();
    let one = |d: &Expr| d.as_int() == Some(1);
    ty.is_none_or(|t| !t.shape.iter().rev().take(axes).all(one))
}

fn known_positions(func: &Func, value: Value) -> bool {
    let ty = func.values[value].ty.as_tensor();
    ty.is_some_and(|t| t.shape.len() > 2 && t.shape[2..].iter().all(|d| d.as_int().is_some()))
}

/// The shape of every so many positions of a feature map of `shape`.
fn stepped(shape: &[Expr], steps: &[i64]) -> Vec<Expr> {
    let positions = shape[2..].iter().zip(steps);
    let positions = positions.map(|(n, step)| match n.as_int() {
        Some(n) => Expr::i64((n + step - 1) / step),
        None => n.clone().ceildiv(*step),
    });
    shape[..2].iter().cloned().chain(positions).collect()
}

/// A strided slice of a feature map that is computed whole.
fn part(func: &mut Func, image: Value, steps: &[i64], source: &str) -> (Value, Binding) {
    let TensorType { dtype, shape } = func.tensor(image).clone();
    let extent = stepped(&shape, steps);
    let stride = [&[1, 1], steps].concat();
    let begin = vec![Expr::i64(0); shape.len()];
    let ty = Type::Tensor(TensorType::new(dtype, extent.clone()));
    let op = Op::Slice { begin, shape: extent, stride };
    bind(func, Node::Op { op, args: vec![image] }, ty, source)
}
