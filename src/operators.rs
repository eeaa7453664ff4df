//! Operators from outside: registered by Rust code, or by a description with packed functions.
//!
//! Decision: docs/decisions/0079-operators-from-outside.md

use std::str::FromStr;

use reflex_graph::registered::{self, AttrKind, AttrValue, CallTypes, FusionKind, OpDef};
use reflex_graph::{Body, FuncData, Module, Node, Op, TensorType};
use reflex_runtime::function::Function;
use reflex_runtime::value::{Any, AnyView};
use reflex_tir::Expr;
use reflex_tir::script as tir_script;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::error::{Error, Result};

/// Finds a packed function by its name.
pub(crate) type FindFunction<'a> = dyn Fn(&str) -> Option<Function> + 'a;

/// Registers an operator, for the process. TVMScript writes `example.scale` as `R.example.scale(x, ...)`; in ONNX
/// it is the operator `scale` of the domain `example`.
///
/// ```
/// use reflex::{Engine, FusionKind, Operator, register_operator};
///
/// const TWICE: &str = r#"
/// @T.prim_func(s_tir=True)
/// def twice(a: T.handle, b: T.handle):
///     n = T.int64()
///     A = T.match_buffer(a, (n,), "float32")
///     B = T.match_buffer(b, (n,), "float32")
///     for i in range(n):
///         with T.sblock("twice"):
///             v = T.axis.spatial(n, i)
///             B[v] = A[v] * T.float32(2)
/// "#;
/// let twice = Operator::new("readme.twice")
///     .infer(|call| Ok(vec![call.args[0].clone()]))
///     .kernel_text(TWICE)
///     .fusion(FusionKind::Elementwise);
/// register_operator(twice)?;
/// let model = r#"
/// @I.ir_module
/// class Module:
///     @R.function
///     def main(x: R.Tensor(("n",), "float32")):
///         return R.exp(R.readme.twice(x))
/// "#;
/// let source = reflex::ModelSource::bytes(reflex::ModelFormat::Script, model.as_bytes());
/// let kernels = Engine::new()?.dump_after(source, "fuse_operators")?;
/// assert!(kernels.contains("fused_readme_twice_exp"), "{kernels}");
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn register_operator(operator: OpDef) -> Result<()> {
    registered::register(operator).map_err(Error::input)
}

/// Whether code of another language is run for operators of a module when it is read or made smaller.
pub(crate) fn runs_foreign_code(module: &Module) -> bool {
    fn of_body(body: &Body) -> bool {
        body.bindings.iter().any(|binding| {
            let foreign = match &binding.node {
                Node::Op { op: Op::Registered(op), .. } => {
                    registered::find(&op.name).is_some_and(|def| def.is_foreign())
                }
                _ => false,
            };
            foreign || binding.node.bodies().into_iter().any(of_body)
        })
    }
    module.funcs.values().any(|func| match func {
        FuncData::Graph(func) => of_body(&func.body),
        FuncData::Prim(_) => false,
    })
}

/// A description of an operator, as languages other than Rust give it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    /// Fewest and most operands.
    #[serde(default)]
    operands: Option<(usize, usize)>,
    #[serde(default)]
    attrs: Vec<AttrDescription>,
    #[serde(default)]
    fusion: Option<String>,
    /// The function that infers; without one the result has the type of the first operand.
    #[serde(default)]
    infer: Option<String>,
    /// The kernel as text.
    #[serde(default)]
    kernel_text: Option<String>,
    /// The function that writes the kernel.
    #[serde(default)]
    kernel: Option<String>,
    /// The function that is the operator.
    #[serde(default)]
    packed: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttrDescription {
    name: String,
    kind: String,
    #[serde(default)]
    default: Option<Json>,
}

/// Registers an operator from its description, in JSON; `find` gives the functions that it names.
pub(crate) fn register_described(description: &str, find: &FindFunction<'_>) -> Result<()> {
    let described: Description = serde_json::from_str(description)
        .map_err(|e| Error::input(format!("the description of an operator: {e}")))?;
    let name = described.name.clone();
    definition(described, find).and_then(registered::register).map_err(|why| {
        Error::input(if why.contains(&name) { why } else { format!("operator {name}: {why}") })
    })
}

fn definition(
    described: Description,
    find: &FindFunction<'_>,
) -> std::result::Result<OpDef, String> {
    let function =
        |name: &str| find(name).ok_or_else(|| format!("no function {name:?} is registered"));
    let mut def = OpDef::new(&described.name);
    if let Some((fewest, most)) = described.operands {
        def = def.operands(fewest, most);
    }
    if let Some(kind) = &described.fusion {
        def = def.fusion(FusionKind::from_str(kind)?);
    }
    for attr in &described.attrs {
        let default = attr.default.as_ref().filter(|value| !value.is_null());
        let default = default
            .map(|value| {
                AttrValue::from_json(value)
                    .ok_or_else(|| format!("the default of {:?} is no value", attr.name))
            })
            .transpose()?;
        def = def.attr(&attr.name, attr.kind.parse::<AttrKind>()?, default);
    }
    def = match &described.infer {
        None => def.infer(|call| Ok(vec![call.args[0].clone()])),
        Some(name) => {
            let infer = function(name)?;
            def.foreign().infer(move |call| infer_by(&infer, call))
        }
    };
    if let Some(text) = &described.kernel_text {
        def = def.kernel_text(text);
    }
    if let Some(name) = &described.kernel {
        let write = function(name)?;
        def = def.foreign().kernel(move |call, results| {
            let text = called(&write, &described_call(call, Some(results)))?;
            tir_script::parse(&text).map_err(|e| e.to_string())
        });
    }
    if let Some(name) = &described.packed {
        def = def.packed(name);
    }
    Ok(def)
}

/// A tensor type in JSON: dimensions are numbers, or expressions over names.
#[derive(Serialize, Deserialize)]
struct TypeText {
    shape: Vec<Json>,
    dtype: String,
}

fn type_text(call: &CallTypes<'_>, ty: &TensorType) -> TypeText {
    let dim = |dim: &Expr| match dim.as_int() {
        Some(size) => Json::from(size),
        None => Json::from(call.dim_text(dim)),
    };
    TypeText { shape: ty.shape.iter().map(dim).collect(), dtype: ty.dtype.to_string() }
}

/// A call in JSON, for functions of other languages.
fn described_call(call: &CallTypes<'_>, results: Option<&[TensorType]>) -> String {
    let types = |list: &[TensorType]| -> Vec<TypeText> {
        list.iter().map(|ty| type_text(call, ty)).collect()
    };
    let attrs = call.attrs.iter().map(|(name, value)| (name.clone(), json_of_attr(value)));
    let mut described = serde_json::json!({
        "op": call.op,
        "operands": types(call.args),
        "attrs": attrs.collect::<serde_json::Map<String, Json>>(),
    });
    if let Some(results) = results {
        described["results"] = serde_json::json!(types(results));
    }
    described.to_string()
}

/// The text that a function gives for a text.
fn called(function: &Function, text: &str) -> std::result::Result<String, String> {
    let text = Any::from(text);
    let given = function.call(&[text.view()]).map_err(|e| e.to_string())?;
    let view: AnyView<'_> = given.view();
    view.as_str().map(str::to_owned).ok_or_else(|| "it gives no text".to_owned())
}

fn infer_by(
    infer: &Function,
    call: &CallTypes<'_>,
) -> std::result::Result<Vec<TensorType>, String> {
    let text = called(infer, &described_call(call, None))?;
    let types: Vec<TypeText> = serde_json::from_str(&text)
        .map_err(|e| format!("it gives no list of types with shape and dtype: {e}"))?;
    let dim = |dim: &Json| match dim {
        Json::Number(number) if number.is_i64() => Ok(Expr::i64(number.as_i64().unwrap_or(0))),
        Json::String(text) => call.parse_dim(text),
        other => Err(format!("{other} is no dimension")),
    };
    let read = |ty: TypeText| {
        let dtype = ty.dtype.parse();
        let dtype = dtype.map_err(|_| format!("{:?} is no type of elements", ty.dtype))?;
        let shape = ty.shape.iter().map(dim).collect::<std::result::Result<_, String>>()?;
        Ok(TensorType::new(dtype, shape))
    };
    types.into_iter().map(read).collect()
}

pub(crate) fn json_of_attr(value: &AttrValue) -> Json {
    match value {
        AttrValue::Int(value) => (*value).into(),
        AttrValue::Float(value) => (*value).into(),
        AttrValue::Bool(value) => (*value).into(),
        AttrValue::Str(text) => text.as_str().into(),
        AttrValue::Ints(list) => list.clone().into(),
        AttrValue::Floats(list) => list.clone().into(),
    }
}
