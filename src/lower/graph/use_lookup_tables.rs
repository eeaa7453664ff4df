//! Lookup tables: a function of one tensor of 8-bit codes has 256 values.
//!
//! ```text
//! y = quantize(silu(dequantize(x)))      x, y: uint8 or int8
//! y = table[x]                           table: the evaluator's 256 results
//! ```
//! Between the convolutions of a quantised network, an activation is such a function, and so are its quantisations
//! before and after it. Done where the function costs more than a lookup: an exponential does, and so do ten simple operators.
//! Results are those of the operators, bit for bit: the evaluator computes each entry with them.
//!
//! Source: TensorFlow Lite and ONNX Runtime's QLinear operators compute activations by such tables of one operator each.
//!
//! Decision: docs/decisions/0102-lookup-tables.md

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use reflex_graph::{
    Binary, Binding, Body, Const, Func, GatherKind, Literal, Module, Node, Op, OutOfRange,
    TensorType, Unary, Value, eval_op,
};
use reflex_tir::DType;

use super::edit::{constants, each_func, new_constant};
use crate::LowerError;

/// Values of a tensor of codes.
const CODES: usize = 256;
/// Operations of a function that a lookup is worth. A quantisation has five, and what undoes it two.
const MIN_COST: u32 = 10;

/// Replaces functions of one tensor of codes by lookups.
pub fn use_lookup_tables(module: &mut Module) -> Result<(), LowerError> {
    each_func(module, |module, func| {
        let mut body = std::mem::take(&mut func.body);
        let known = constants(&body);
        let mut pass = Pass {
            module,
            func,
            known,
            users: HashMap::new(),
            functions: HashMap::new(),
            needed: HashSet::new(),
        };
        pass.note_users(&body);
        pass.find(&body);
        pass.find_needed();
        pass.replace(&mut body);
        func.body = body;
        Ok(())
    })
}

/// A value as a function of a tensor of codes.
struct CodeFunction {
    of: Value,
    /// Its cost, in operations on vectors.
    cost: u32,
    /// The last operator of it, and its operands.
    op: Op,
    args: Vec<Value>,
    /// Functions are numbered in the order in which they are computed.
    number: usize,
}

struct Pass<'a> {
    module: &'a mut Module,
    func: &'a mut Func,
    known: HashMap<Value, Const>,
    /// The results of the operators that read each value; `None` for another reader.
    users: HashMap<Value, Vec<Option<Value>>>,
    functions: HashMap<Value, CodeFunction>,
    /// Tensors of codes that no table is made for.
    needed: HashSet<Value>,
}

impl Pass<'_> {
    fn note_users(&mut self, body: &Body) {
        for binding in &body.bindings {
            let result = match (&binding.node, &binding.outputs[..]) {
                (Node::Op { .. }, [result]) => Some(*result),
                _ => None,
            };
            binding.node.operands(&mut |v| self.users.entry(v).or_default().push(result));
            binding.node.bodies().into_iter().for_each(|nested| self.note_users(nested));
        }
        for result in &body.results {
            self.users.entry(*result).or_default().push(None);
        }
    }

    fn find(&mut self, body: &Body) {
        for binding in &body.bindings {
            binding.node.bodies().into_iter().for_each(|nested| self.find(nested));
            if let Some(function) = self.function(binding) {
                self.functions.insert(binding.outputs[0], function);
            }
        }
    }

    /// The function that an operator of functions of the same codes, and of numbers, is.
    fn function(&self, binding: &Binding) -> Option<CodeFunction> {
        let Node::Op { op, args } = &binding.node else { return None };
        let elementwise =
            matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_) | Op::Bitcast(_));
        let of = args.iter().find_map(|arg| self.codes_of(*arg)).filter(|_| elementwise)?;
        let shape = |value: Value| self.func.values[value].ty.as_tensor().map(|ty| &ty.shape);
        if shape(of) != shape(binding.outputs[0]) {
            return None;
        }
        let mut cost = cost(op);
        for arg in args {
            match (self.known.get(arg), self.functions.get(arg)) {
                (Some(number), _) if self.module.consts[*number].count() == 1 => {}
                (None, Some(function)) if function.of == of => {
                    cost = cost.saturating_add(function.cost);
                }
                (None, None) if *arg == of => {}
                _ => return None,
            }
        }
        let (op, args) = (op.clone(), args.clone());
        Some(CodeFunction { of, cost, op, args, number: self.functions.len() })
    }

    /// The results of a function, by code in the order of its bits; `None` if it cannot be evaluated, which is left for the run
    /// to report.
    fn results(&self, value: Value) -> Option<Literal> {
        let of = self.functions[&value].of;
        let (mut needed, mut stack) = (BTreeMap::new(), vec![value]);
        while let Some(value) = stack.pop() {
            if let Some(function) = self.functions.get(&value)
                && needed.insert(function.number, (value, function)).is_none()
            {
                stack.extend(&function.args);
            }
        }
        let codes = all_codes(self.func.tensor(of).dtype)?;
        let mut results = HashMap::from([(of, codes)]);
        for (value, CodeFunction { op, args, .. }) in needed.into_values() {
            let numbers: Vec<Option<Literal>> = args
                .iter()
                .map(|arg| self.module.consts[*self.known.get(arg)?].reshaped(vec![]))
                .collect();
            let operand = |(arg, number)| Option::or(number, results.get(arg));
            let operands = args.iter().zip(numbers.iter().map(Option::as_ref)).map(operand);
            let made = eval_op(op, &operands.collect::<Option<Vec<_>>>()?, &|_| None).ok()?;
            let [made] = <[_; 1]>::try_from(made).ok()?;
            results.insert(value, made);
        }
        results.remove(&value)
    }

    /// The codes that a value is, or is a function of.
    fn codes_of(&self, value: Value) -> Option<Value> {
        if let Some(function) = self.functions.get(&value) {
            return Some(function.of);
        }
        let ty = self.func.values[value].ty.as_tensor()?;
        (is_code(ty.dtype) && !self.known.contains_key(&value) && is_large(ty)).then_some(value)
    }

    fn replace(&mut self, body: &mut Body) {
        for mut binding in std::mem::take(&mut body.bindings) {
            for nested in binding.node.bodies_mut() {
                self.replace(nested);
            }
            match self.table(&binding) {
                Some((of, table)) => self.lookup(of, table, binding, body),
                None => body.bindings.push(binding),
            }
        }
    }

    /// The table of a binding whose result are codes again.
    fn table(&self, binding: &Binding) -> Option<(Value, Literal)> {
        let [result] = binding.outputs[..] else { return None };
        let function = self.functions.get(&result)?;
        let pays = is_code(self.func.tensor(result).dtype)
            && function.cost >= MIN_COST
            && !self.needed.contains(&function.of);
        pays.then(|| Some((function.of, self.results(result)?)))?
    }

    /// Tensors of codes of which something else reads a costly function: that is computed in any case. A function that gives
    /// codes is no such one, as it becomes a table's result itself.
    fn find_needed(&mut self) {
        let needed = self.functions.iter().filter(|(value, function)| {
            let within = |user: &Option<Value>| {
                let user = user.and_then(|user| self.functions.get(&user));
                user.is_some_and(|user| user.of == function.of)
            };
            function.cost >= MIN_COST
                && !is_code(self.func.tensor(**value).dtype)
                && self.users.get(value).is_some_and(|users| !users.iter().all(within))
        });
        self.needed = needed.map(|(_, function)| function.of).collect();
    }

    /// Writes `table[of]` for a binding.
    fn lookup(&mut self, of: Value, table: Literal, binding: Binding, body: &mut Body) {
        let made = new_constant(self.module, self.func, "", table);
        let table = made.outputs[0];
        body.bindings.push(made);
        let op = Op::Gather { kind: GatherKind::Axis(0), out_of_range: OutOfRange::Raise };
        let node = Node::Op { op, args: vec![table, of] };
        body.bindings.push(Binding { node, ..binding });
    }
}

fn is_code(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::I8)
}

/// Whether a tensor may have more elements than a table.
fn is_large(ty: &TensorType) -> bool {
    let count = ty.shape.iter().try_fold(1_i64, |n, extent| n.checked_mul(extent.as_int()?));
    count.is_none_or(|n| n > CODES as i64)
}

/// Every code of a type, in the order of its bits.
fn all_codes(dtype: DType) -> Option<Literal> {
    let bits: Vec<u8> = (0..=u8::MAX).collect();
    Literal::new(dtype, vec![CODES as i64], Arc::new(bits))
}

/// Rough cost of an operator, in simple operations on vectors.
fn cost(op: &Op) -> u32 {
    match op {
        Op::Unary(
            Unary::Neg
            | Unary::Abs
            | Unary::Sign
            | Unary::Sqrt
            | Unary::Reciprocal
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::IsNan
            | Unary::IsInf
            | Unary::Not
            | Unary::BitNot,
        )
        | Op::Where => 1,
        Op::Unary(_) | Op::Binary(Binary::Pow | Binary::FloorMod | Binary::TruncMod) => MIN_COST,
        Op::Binary(_) => 1,
        _ => 0,
    }
}
