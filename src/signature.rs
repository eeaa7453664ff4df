//! Signatures: names, element types and shapes of a function's inputs and outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[cfg(feature = "compiler")]
use reflex_graph::{Func, FuncData, Module, TensorType, Type, ValueData};
use reflex_runtime::dtype::DType;
use reflex_tir::flops::FlopCount;
use reflex_tir::{Expr, ExprKind, Var};
use serde::{Deserialize, Serialize};

use crate::array::Array;
use crate::error::{Error, Result};

/// Names of the outputs, by function index.
pub(crate) type OutputNames = BTreeMap<u32, Vec<String>>;

/// Operation counts of a kernel's calls by its name, where they are known.
pub(crate) type KernelOperations = BTreeMap<String, FlopCount>;

/// A dimension of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// Known.
    Const(i64),
    /// Dynamic: a name, or an expression over names. Equal names are equal sizes.
    Symbol(String),
}

/// An input or output: its name, element type and shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorInfo {
    /// The model's name for it.
    pub name: String,
    /// Element type.
    #[serde(with = "dtype_text")]
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<Dim>,
}

/// Inputs and outputs of a function, in call order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Inputs.
    pub inputs: Vec<TensorInfo>,
    /// Outputs.
    pub outputs: Vec<TensorInfo>,
}

/// Element types as their names.
mod dtype_text {
    use reflex_runtime::dtype::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(dtype)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<DType, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(|_| D::Error::custom(format!("no element type {name:?}")))
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(n) => write!(f, "{n}"),
            Dim::Symbol(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(Dim::to_string).collect();
        write!(f, "{}: {}[{}]", self.name, self.dtype, shape.join(", "))
    }
}

#[cfg(feature = "compiler")]
impl Signature {
    /// The signatures of a module's graph functions whose parameters and results are tensors.
    pub(crate) fn of_module(module: &Module) -> BTreeMap<String, Signature> {
        let graphs = module.funcs.values().filter_map(|f| match f {
            FuncData::Graph(func) => Some(func),
            FuncData::Prim(_) => None,
        });
        graphs.filter_map(|f| Some((f.name.clone(), Signature::of(f)?))).collect()
    }

    fn of(func: &Func) -> Option<Signature> {
        let mut inputs = vec![];
        for value in &func.params {
            let ValueData { name, ty, .. } = &func.values[*value];
            inputs.push(port(func, ty.as_tensor()?, name));
        }
        let mut outputs = vec![];
        for (value, name) in func.body.results.iter().zip(&func.result_names) {
            outputs_of(func, &func.values[*value].ty, name, &mut outputs)?;
        }
        // A nested tuple gives several outputs one name: number them all.
        let names: BTreeSet<&String> = outputs.iter().map(|o| &o.name).collect();
        if names.len() < outputs.len() {
            outputs.iter_mut().enumerate().for_each(|(i, o)| o.name = format!("output{i}"));
        }
        Some(Signature { inputs, outputs })
    }
}

#[cfg(feature = "compiler")]
fn port(func: &Func, ty: &TensorType, name: &str) -> TensorInfo {
    let of_var = |var: Var| func.syms[var].name.to_string();
    let shape = ty.shape.iter().map(|d| Dim::of(d, &of_var)).collect();
    TensorInfo { name: name.to_string(), dtype: ty.dtype, shape }
}

/// The tensors of a result, those of tuples one after another; `None` if something else is in it.
#[cfg(feature = "compiler")]
fn outputs_of(func: &Func, ty: &Type, name: &str, outputs: &mut Vec<TensorInfo>) -> Option<()> {
    match ty {
        Type::Tensor(tensor) => outputs.push(port(func, tensor, name)),
        Type::Tuple(items) => {
            items.iter().try_for_each(|item| outputs_of(func, item, name, outputs))?;
        }
        _ => return None,
    }
    Some(())
}

impl TensorInfo {
    /// Returns true if the program says that it is a tensor, and of what type.
    pub(crate) fn is_typed(&self) -> bool {
        self.dtype != DType::VOID
    }

    /// Checks an array against type and shape; `sizes` remembers what symbols stand for.
    pub(crate) fn check(&self, array: &Array, sizes: &mut BTreeMap<String, i64>) -> Result<()> {
        let got = || format!("{}{:?}", array.dtype, array.shape);
        let fits = self.dtype == array.dtype && self.shape.len() == array.shape.len();
        if self.is_typed() && !fits {
            return Err(Error::input(format!("input {self}: got {}", got())));
        }
        for (axis, (dim, size)) in self.shape.iter().zip(&array.shape).enumerate() {
            let (expected, why) = match dim {
                Dim::Const(n) => (*n, String::new()),
                Dim::Symbol(name) => {
                    let known = *sizes.entry(name.clone()).or_insert(*size);
                    (known, format!(", as {name} is for another dimension"))
                }
            };
            if expected != *size {
                let why = format!("dimension {axis} must be {expected}{why}");
                return Err(Error::input(format!("input {self}: got {}; {why}", got())));
            }
        }
        Ok(())
    }
}

impl Dim {
    /// A dimension of a graph function, whose variables `name` names.
    pub(crate) fn of(expr: &Expr, name: &dyn Fn(Var) -> String) -> Dim {
        match expr.as_int() {
            Some(n) => Dim::Const(n),
            None => Dim::Symbol(formula(expr, name)),
        }
    }
}

/// An expression in the usual notation, fully parenthesised below the top.
fn formula(expr: &Expr, name: &dyn Fn(Var) -> String) -> String {
    let nested = |e: &Expr| match e.kind() {
        ExprKind::Binary { .. } => format!("({})", formula(e, name)),
        _ => formula(e, name),
    };
    match expr.kind() {
        ExprKind::Int { value, .. } => value.to_string(),
        ExprKind::Var { var, .. } => name(*var),
        ExprKind::Binary { op, a, b } => {
            use reflex_tir::BinOp::*;
            let (a, b) = (nested(a), nested(b));
            match op {
                Add => format!("{a} + {b}"),
                Sub => format!("{a} - {b}"),
                Mul => format!("{a} * {b}"),
                Div | FloorDiv => format!("{a} // {b}"),
                Mod | FloorMod => format!("{a} % {b}"),
                Min => format!("min({a}, {b})"),
                Max => format!("max({a}, {b})"),
            }
        }
        _ => format!("{expr:?}"),
    }
}
