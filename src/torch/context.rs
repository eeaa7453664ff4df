//! The context of an import: named values, symbols, and the walk over nodes.
//!
//! Operators work on an [`ImportContext`]: they read their node through [`crate::call`] and emit graph operators
//! through the helpers of [`crate::emit`]. The table of operators is above this file, which reaches it through a
//! function pointer only.

use std::collections::{BTreeMap, HashMap};

use reflex_graph::builder::FuncBuilder;
use reflex_graph::{TensorType, Value, dims};
use reflex_tir::{DType, Expr, Var};

use crate::aliases::Aliases;
use crate::call::Call;
use crate::dtype::dtype;
use crate::error::{Result, invalid, malformed, unsupported};
use crate::schema::{
    Argument, Graph, GraphArgument, Node, OptionalTensorArgument, Real, SymBoolArgument, SymExpr,
    SymFloatArgument, SymInt, SymIntArgument, TensorArgument, TensorMeta, argument_name, node_name,
    region,
};
use crate::sym_expr;
use crate::target::{self, Target};
use crate::value::{Number, TorchValue};

/// Imports one node; returns its outputs in order, fewer when the rest is not computed.
pub(crate) type Operator = fn(&mut ImportContext, &Call) -> Result<Vec<TorchValue>>;

/// Finds the import function of an operator.
pub(crate) type Find = fn(&Target<'_>) -> Option<Operator>;

/// Regions inside regions deeper than this are refused.
const MAX_DEPTH: usize = 32;

/// A name of the program.
#[derive(Clone)]
enum Named {
    Value(TorchValue),
    /// An output that the import does not compute, with the node that has it.
    Absent(String),
}

/// The state of an import, which every operator works on.
pub(crate) struct ImportContext<'m> {
    /// The function being built.
    pub b: FuncBuilder<'m>,
    find: Find,
    names: HashMap<String, Named>,
    symbols: HashMap<String, Expr>,
    minimums: HashMap<Var, i64>,
    ranges: BTreeMap<String, i64>,
    depth: usize,
}

impl<'m> ImportContext<'m> {
    /// An import into the function that `b` builds.
    pub(crate) fn new(b: FuncBuilder<'m>, find: Find) -> ImportContext<'m> {
        let (names, symbols, minimums) = (HashMap::new(), HashMap::new(), HashMap::new());
        ImportContext { b, find, names, symbols, minimums, ranges: BTreeMap::new(), depth: 0 }
    }

    /// Sets the least extents that symbols have.
    pub(crate) fn set_ranges(&mut self, ranges: BTreeMap<String, i64>) {
        self.ranges = ranges;
    }

    /// The least extent of a symbol, where it is above 0.
    pub(crate) fn minimum(&self, symbol: Var) -> Option<i64> {
        self.minimums.get(&symbol).copied()
    }

    /// Makes a name known.
    pub(crate) fn define(&mut self, name: &str, value: TorchValue) {
        if let TorchValue::Tensor(value) = &value
            && self.b.name(*value).is_empty()
        {
            self.b.set_name(*value, name);
        }
        self.names.insert(name.to_owned(), Named::Value(value));
    }

    /// The value of a name.
    pub(crate) fn lookup(&self, name: &str) -> Result<TorchValue> {
        match self.names.get(name) {
            Some(Named::Value(value)) => Ok(value.clone()),
            Some(Named::Absent(node)) => {
                Err(unsupported(format!("`{name}`, a result of {node} that is not computed")))
            }
            None => Err(malformed(format!("`{name}` is not defined"))),
        }
    }

    fn lookup_tensor(&self, name: &str) -> Result<Value> {
        match self.lookup(name)? {
            TorchValue::Tensor(value) => Ok(value),
            _ => Err(malformed(format!("`{name}` is no tensor"))),
        }
    }

    fn lookup_int(&self, name: &str) -> Result<Expr> {
        match self.lookup(name)? {
            TorchValue::Number(Number::Int(value)) => Ok(value),
            TorchValue::Other(what) => Err(unsupported(format!("`{name}`, {what}"))),
            _ => Err(malformed(format!("`{name}` is no integer"))),
        }
    }

    /// The type that a program declares.
    pub(crate) fn declared(&mut self, meta: &TensorMeta) -> Result<TensorType> {
        let shape = meta.sizes.iter().map(|size| self.extent(size)).collect::<Result<_>>()?;
        Ok(TensorType::new(dtype(meta.dtype)?, shape))
    }

    fn extent(&mut self, size: &SymInt) -> Result<Expr> {
        match size {
            SymInt::AsInt(value) if *value >= 0 => Ok(Expr::i64(*value)),
            SymInt::AsInt(value) => Err(malformed(format!("an extent of {value}"))),
            SymInt::AsExpr(SymExpr { expr_str: text }) => {
                if let Some(name) = sym_expr::symbol(text) {
                    return Ok(self.symbol(name));
                }
                let mut known = true;
                let dim = sym_expr::parse(text, &mut |name| {
                    let symbol = self.symbols.get(name).cloned();
                    known &= symbol.is_some();
                    symbol.unwrap_or(Expr::i64(0))
                })?;
                // What no input has as it is cannot be computed from: the extent is a symbol of its own.
                Ok(if known { dims::simplify(&dim) } else { self.symbol(text) })
            }
        }
    }

    /// The dimension that a symbol of the program is.
    pub(crate) fn symbol(&mut self, name: &str) -> Expr {
        if let Some(known) = self.symbols.get(name) {
            return known.clone();
        }
        let number = self.symbols.len();
        let composed = name.contains('(');
        let var = self.b.sym(if composed { format!("extent_{number}") } else { name.to_owned() });
        if let Some(least) = self.ranges.get(name).filter(|least| (1..1 << 40).contains(*least)) {
            self.minimums.insert(var, *least);
        }
        self.symbols.insert(name.to_owned(), Expr::var(var));
        Expr::var(var)
    }

    /// Imports the nodes of a graph. `kept` are names of tensors that the program must not change.
    pub(crate) fn nodes(&mut self, graph: &Graph, kept: &[(String, String)]) -> Result<()> {
        let mut aliases = Aliases::of(graph, kept);
        for (index, node) in graph.nodes.iter().enumerate() {
            let at = || format!("node `{}` ({})", node_name(node), target::short(&node.target));
            let imported = aliases.check(index, node).and_then(|()| self.node(graph, node));
            imported.map_err(|e| e.at(at()))?;
        }
        Ok(())
    }

    fn node(&mut self, graph: &Graph, node: &Node) -> Result<()> {
        self.b.set_source(node_name(node));
        if let Some(region) = region(node) {
            return self.region(node, region);
        }
        let target = Target::of(&node.target);
        let Some(operator) = (self.find)(&target) else {
            return Err(unsupported(format!("operator {}", target::short(&node.target))));
        };
        let mut args = vec![];
        for input in &node.inputs {
            args.push((input.name.clone(), self.argument(&input.arg)?));
        }
        let call = Call::new(args);
        let mut results = operator(self, &call)?;
        call.check()?;
        if target.in_place() {
            self.keep_type(node, &mut results)?;
        }
        self.bind(graph, node, results)?;
        if target.in_place() {
            self.rebind(node)?;
        }
        Ok(())
    }

    /// Gives a result that is written into a tensor the tensor's type.
    fn keep_type(&mut self, node: &Node, results: &mut [TorchValue]) -> Result<()> {
        let written = node.inputs.first().map(|input| self.argument(&input.arg));
        if let (Some(TorchValue::Tensor(written)), [TorchValue::Tensor(result)]) =
            (written.transpose()?, results)
        {
            *result = self.cast(*result, self.dtype(written))?;
        }
        Ok(())
    }

    /// After an operator that writes into its first argument, the argument's name is its result.
    fn rebind(&mut self, node: &Node) -> Result<()> {
        let written = node.inputs.first().map(|input| &input.arg);
        let (Some(Argument::AsTensor(written)), Some(Argument::AsTensor(result))) =
            (written, node.outputs.first())
        else {
            return Err(malformed("it writes into no tensor"));
        };
        let result = self.lookup(&result.name)?;
        self.names.insert(written.name.clone(), Named::Value(result));
        Ok(())
    }

    /// Gives the results of a node their names, and checks them against what the file says of them.
    fn bind(&mut self, graph: &Graph, node: &Node, mut results: Vec<TorchValue>) -> Result<()> {
        if let ([Argument::AsTensors(names)], [TorchValue::Tensors(list)]) =
            (&node.outputs[..], &results[..])
        {
            if names.len() != list.len() {
                return Err(invalid(format!("{} results, not {}", list.len(), names.len())));
            }
            for (name, value) in names.iter().zip(list.clone()) {
                let value = value.ok_or_else(|| invalid("a result is missing"))?;
                self.bind_tensor(graph, node, &name.name, value)?;
            }
            return Ok(());
        }
        results.reverse();
        for output in &node.outputs {
            let result = results.pop();
            match (output, result) {
                (Argument::AsNone(_), _) => {}
                (Argument::AsTensor(name), Some(TorchValue::Tensor(value))) => {
                    self.bind_tensor(graph, node, &name.name, value)?;
                }
                (Argument::AsTensor(TensorArgument { name }), None) => {
                    let node = target::short(&node.target).to_owned();
                    self.names.insert(name.clone(), Named::Absent(node));
                }
                (
                    Argument::AsSymInt(SymIntArgument::AsName(name))
                    | Argument::AsSymBool(SymBoolArgument::AsName(name))
                    | Argument::AsSymFloat(SymFloatArgument::AsName(name)),
                    Some(value @ (TorchValue::Number(_) | TorchValue::Other(_))),
                ) => self.define(name, value),
                _ => return Err(unsupported("a result of another kind than the operator's")),
            }
        }
        Ok(())
    }

    fn bind_tensor(&mut self, graph: &Graph, node: &Node, name: &str, value: Value) -> Result<()> {
        // PyTorch 2.9 says another shape of an LSTM's states than it computes.
        let recurrent = node.target == "torch.ops.aten.lstm.input";
        if let Some(meta) = graph.tensor_values.get(name).filter(|_| !recurrent) {
            let found = self.b.tensor(self.b.refined(value)).clone();
            let wanted = dtype(meta.dtype)?;
            let same = found.dtype == wanted
                && found.shape.len() == meta.sizes.len()
                && found.shape.iter().zip(&meta.sizes).all(|(dim, size)| match size {
                    SymInt::AsInt(size) => dims::equal(dim, &Expr::i64(*size)) != Some(false),
                    SymInt::AsExpr(_) => true,
                });
            if !same {
                let text = format!("the result `{name}` is {found}, but the file says {wanted}");
                return Err(invalid(format!(
                    "{text} of rank {}: {:?}",
                    meta.sizes.len(),
                    meta.sizes
                )));
            }
        }
        self.define(name, TorchValue::Tensor(value));
        Ok(())
    }

    /// A region of nodes that run with other settings of automatic differentiation.
    fn region(&mut self, node: &Node, region: &GraphArgument) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(invalid("regions are nested too deeply"));
        }
        let at = node.inputs.iter().position(|i| matches!(i.arg, Argument::AsGraph(_)));
        let given = node.inputs.iter().skip(at.map_or(0, |at| at + 1));
        let given = given.map(|input| self.argument(&input.arg)).collect::<Result<Vec<_>>>()?;
        let graph = &region.graph;
        if given.len() != graph.inputs.len() {
            return Err(malformed(format!("{} inputs of `{}`", given.len(), region.name)));
        }
        let mut names = HashMap::new();
        for (input, value) in graph.inputs.iter().zip(given) {
            if let Some(name) = argument_name(input) {
                names.insert(name.to_owned(), Named::Value(value));
            }
        }
        let kept: Vec<(String, String)> =
            names.keys().map(|name| (name.clone(), "an input of a region".to_owned())).collect();
        let outer = std::mem::replace(&mut self.names, names);
        self.depth += 1;
        let results = self.nodes(graph, &kept).and_then(|()| {
            graph.outputs.iter().map(|output| self.argument(output)).collect::<Result<Vec<_>>>()
        });
        self.depth -= 1;
        self.names = outer;
        let mut results = results.map_err(|e| e.at(format_args!("region `{}`", region.name)))?;
        if let [Argument::AsTensors(_)] = node.outputs[..] {
            let list = results.into_iter().map(|value| match value {
                TorchValue::Tensor(value) => Ok(Some(value)),
                _ => Err(unsupported("a region's result that is no tensor")),
            });
            results = vec![TorchValue::Tensors(list.collect::<Result<_>>()?)];
        }
        self.bind(graph, node, results)
    }

    /// The value of an argument.
    pub(crate) fn argument(&self, arg: &Argument) -> Result<TorchValue> {
        let real = |real: &Real| Number::Float(real.0);
        Ok(match arg {
            Argument::AsNone(_) => TorchValue::None,
            Argument::AsTensor(tensor) => self.lookup(&tensor.name)?,
            Argument::AsTensors(list) => {
                let list = list.iter().map(|t| self.lookup_tensor(&t.name).map(Some));
                TorchValue::Tensors(list.collect::<Result<_>>()?)
            }
            Argument::AsInt(value) => TorchValue::int(*value),
            Argument::AsInts(list) => {
                TorchValue::Numbers(list.iter().map(|v| Number::Int(Expr::i64(*v))).collect())
            }
            Argument::AsFloat(value) => TorchValue::Number(real(value)),
            Argument::AsFloats(list) => TorchValue::Numbers(list.iter().map(real).collect()),
            Argument::AsString(text) => TorchValue::Text(text.clone()),
            Argument::AsSymInt(int) => TorchValue::Number(Number::Int(self.sym_int(int)?)),
            Argument::AsSymInts(list) => {
                let list = list.iter().map(|int| self.sym_int(int).map(Number::Int));
                TorchValue::Numbers(list.collect::<Result<_>>()?)
            }
            Argument::AsScalarType(code) => TorchValue::DType(dtype(*code)?),
            Argument::AsBool(value) => TorchValue::Number(Number::Bool(*value)),
            Argument::AsBools(list) => {
                TorchValue::Numbers(list.iter().map(|v| Number::Bool(*v)).collect())
            }
            Argument::AsSymBool(SymBoolArgument::AsBool(value)) => {
                TorchValue::Number(Number::Bool(*value))
            }
            Argument::AsSymBool(SymBoolArgument::AsName(name)) => self.lookup(name)?,
            Argument::AsSymFloat(SymFloatArgument::AsFloat(value)) => {
                TorchValue::Number(real(value))
            }
            Argument::AsSymFloat(SymFloatArgument::AsName(name)) => self.lookup(name)?,
            Argument::AsOptionalTensors(list) => {
                let list = list.iter().map(|tensor| match tensor {
                    OptionalTensorArgument::AsTensor(t) => self.lookup_tensor(&t.name).map(Some),
                    OptionalTensorArgument::AsNone(_) => Ok(None),
                });
                TorchValue::Tensors(list.collect::<Result<_>>()?)
            }
            Argument::AsOptionalTensor(OptionalTensorArgument::AsTensor(t)) => {
                self.lookup(&t.name)?
            }
            Argument::AsOptionalTensor(OptionalTensorArgument::AsNone(_)) => TorchValue::None,
            Argument::AsDevice(_) => TorchValue::Other("a device"),
            Argument::AsLayout(_) => TorchValue::Other("a layout"),
            Argument::AsMemoryFormat(_) => TorchValue::Other("a memory format"),
            Argument::AsStrings(_) => TorchValue::Other("a list of strings"),
            Argument::AsSymBools(_) => TorchValue::Other("symbolic truth values"),
            Argument::AsSymFloats(_) => TorchValue::Other("symbolic numbers"),
            Argument::AsGraph(_) => TorchValue::Other("a graph"),
            Argument::AsOperator(_) => TorchValue::Other("an operator"),
            Argument::AsCustomObj(_) => TorchValue::Other("a custom object"),
            Argument::AsComplex(_) => TorchValue::Other("a complex number"),
        })
    }

    fn sym_int(&self, int: &SymIntArgument) -> Result<Expr> {
        match int {
            SymIntArgument::AsInt(value) => Ok(Expr::i64(*value)),
            SymIntArgument::AsName(name) => self.lookup_int(name),
        }
    }

    /// The element type of a tensor.
    pub(crate) fn dtype(&self, value: Value) -> DType {
        self.b.tensor(self.b.refined(value)).dtype
    }
}
