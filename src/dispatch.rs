//! Dispatch to libraries and external code generators, by descriptions in JSON for other languages.
//!
//! Decision: docs/decisions/0079-operators-from-outside.md

use reflex_graph::pattern::{self, Matcher, Pattern};
use reflex_graph::{Body, Func, FuncData, Module, Type, script};
use reflex_lower::dispatch::{AnnotatedPart, Dispatch, MatchedRegion};
use reflex_runtime::function::Function;
use reflex_runtime::module::{Functions, Module as RuntimeModule};
use reflex_runtime::value::{Any, AnyView};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::error::{Error, Result};
use crate::operators::{FindFunction, json_of_attr};

/// The prefix of the names of TVM's external code generators among global functions.
const GENERATOR_PREFIX: &str = "relax.ext.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    pattern: Json,
    /// The numbers of the pattern's nodes that have names.
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, usize>,
    /// The function that decides: `(region, script)`, true or false.
    #[serde(default)]
    check: Option<String>,
    /// The packed function that is called.
    #[serde(default)]
    packed: Option<String>,
    /// The code generator: `(symbol, script, region)`, a module or a function.
    #[serde(default)]
    external: Option<String>,
}

/// A dispatch from its description, in JSON; `find` gives the functions that it names.
pub(crate) fn described(text: &str, find: &FindFunction<'_>) -> Result<Dispatch> {
    let description: Description = serde_json::from_str(text)
        .map_err(|e| Error::input(format!("the description of a dispatch: {e}")))?;
    let name = description.name.clone();
    dispatch(description, find).map_err(|why| Error::input(format!("dispatch {name}: {why}")))
}

fn dispatch(
    description: Description,
    find: &FindFunction<'_>,
) -> std::result::Result<Dispatch, String> {
    let Description { name, pattern, annotations, check, packed, external } = description;
    let (alternatives, nodes) = pattern::alternatives_from_json(&pattern.to_string())?;
    let root = alternatives[0][0].clone();
    let missing = |name: &str| format!("no function {name:?} is registered");
    let mut dispatch = match (packed, external) {
        (Some(function), None) => Dispatch::call_packed(&name, root, &function),
        (None, Some(generator)) => {
            let global = format!("{GENERATOR_PREFIX}{generator}");
            let generate = find(&generator).or_else(|| find(&global));
            let generate = generate.ok_or_else(|| missing(&global))?;
            Dispatch::external(&name, root, move |region| generated(&generate, region))
        }
        _ => return Err("it names either a packed function or an external code generator".into()),
    };
    for (number, patterns) in alternatives.into_iter().enumerate() {
        let mut patterns = patterns.into_iter();
        let first = patterns.next().ok_or("an alternative is empty")?;
        if number > 0 {
            dispatch = dispatch.or_else(first);
        }
        dispatch = patterns.fold(dispatch, Dispatch::together_with);
    }
    for (part, number) in annotations {
        let node = nodes.get(number).ok_or_else(|| format!("the pattern has no node {number}"))?;
        dispatch = dispatch.annotate(&part, node.clone());
    }
    let Some(check) = check else { return Ok(dispatch) };
    let check = find(&check).ok_or_else(|| missing(&check))?;
    Ok(dispatch.check(move |region| {
        let args = [Any::from(context(region).as_str()), Any::from(region.script().as_str())];
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        let verdict = check.call(&views).map_err(|e| e.to_string())?;
        bool::try_from(verdict).map_err(|_| "it gives no truth value".to_owned())
    }))
}

/// The module that a generator gives for a region; a function alone is a module of it.
fn generated(
    generate: &Function,
    region: &MatchedRegion,
) -> std::result::Result<RuntimeModule, String> {
    let symbol = region.symbol.as_str();
    let args = [
        Any::from(symbol),
        Any::from(region.script().as_str()),
        Any::from(context(region).as_str()),
    ];
    let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
    let given = generate.call(&views).map_err(|e| e.to_string())?;
    if let Ok(function) = Function::try_from(given.view()) {
        return Ok(RuntimeModule::new(OneFunction { name: symbol.to_owned(), function }));
    }
    RuntimeModule::try_from(given)
        .map_err(|_| "it gives neither a module nor a function".to_owned())
}

/// A function that a generator gave.
struct OneFunction {
    name: String,
    function: Function,
}

impl Functions for OneFunction {
    fn kind(&self) -> &str {
        "reflex.Function"
    }

    fn function(
        &self,
        name: &str,
    ) -> std::result::Result<Option<Function>, reflex_runtime::error::Error> {
        Ok((name == self.name).then(|| self.function.clone()))
    }
}

/// The known facts of a region, in JSON.
fn context(region: &MatchedRegion) -> String {
    let part = |part: &AnnotatedPart| {
        let mut known = json!({ "constant": part.is_const });
        if let Type::Tensor(ty) = &part.ty {
            let shape: Vec<Option<i64>> = ty.shape.iter().map(|dim| dim.as_int()).collect();
            known["shape"] = json!(shape);
            known["dtype"] = ty.dtype.to_string().into();
        }
        if let Some((op, attrs)) = &part.call {
            let attrs = attrs.iter().map(|(name, value)| (name.clone(), json_of_attr(value)));
            known["op"] = op.as_str().into();
            known["attrs"] = Json::Object(attrs.collect());
        }
        known
    };
    let parts = region.annotations.iter().map(|(name, found)| (name.clone(), part(found)));
    json!({
        "pattern": region.pattern,
        "symbol": region.symbol,
        "nodes": region.nodes,
        "annotations": parts.collect::<serde_json::Map<_, _>>(),
    })
    .to_string()
}

fn read(text: &str) -> Result<Module> {
    script::parse(text, "the script").map_err(|e| Error::input(e.to_string()))
}

/// Where patterns match together in a script, in JSON: the first match in each body that has one, with the values of
/// the patterns' nodes by number.
pub(crate) fn matches_together(text: &str, patterns: &str) -> Result<String> {
    let (roots, nodes) = pattern::together_from_json(patterns).map_err(Error::input)?;
    let module = read(text)?;
    let mut found = vec![];
    for func in module.funcs.values() {
        if let FuncData::Graph(func) = func {
            together_in_body(&module, func, &func.body, (&roots, &nodes), &mut found)?;
        }
    }
    Ok(Json::from(found).to_string())
}

fn together_in_body(
    module: &Module,
    func: &Func,
    body: &Body,
    (roots, nodes): (&[Pattern], &[Pattern]),
    found: &mut Vec<Json>,
) -> Result<()> {
    for nested in body.bindings.iter().flat_map(|binding| binding.node.bodies()) {
        together_in_body(module, func, nested, (roots, nodes), found)?;
    }
    let matched = Matcher::new(module, func, body).find_together(roots).map_err(Error::input)?;
    if let Some(matched) = matched {
        let name =
            |part: &Pattern| matched.value(part).map(|value| func.values[value].name.clone());
        let values: Vec<Option<String>> = nodes.iter().map(name).collect();
        found.push(json!({ "function": func.name, "values": values }));
    }
    Ok(())
}

/// Where a pattern matches in a script, in JSON: function, value, the values of the bindings that it takes, and those
/// of its nodes by number.
pub(crate) fn matches(text: &str, pattern: &str) -> Result<String> {
    let pattern = pattern::from_json(pattern).map_err(Error::input)?;
    let module = read(text)?;
    let mut found = vec![];
    for func in module.funcs.values() {
        if let FuncData::Graph(func) = func {
            matches_of_body(&module, func, &func.body, &pattern, &mut found);
        }
    }
    Ok(Json::from(found).to_string())
}

fn matches_of_body(
    module: &Module,
    func: &Func,
    body: &Body,
    pattern: &(Pattern, Vec<Pattern>),
    found: &mut Vec<Json>,
) {
    let (root, nodes) = pattern;
    let matcher = Matcher::new(module, func, body);
    let name = |value: &reflex_graph::Value| func.values[*value].name.clone();
    for (at, binding) in body.bindings.iter().enumerate() {
        for nested in binding.node.bodies() {
            matches_of_body(module, func, nested, pattern, found);
        }
        for output in &binding.outputs {
            let Some(matched) = matcher.find(root, *output) else { continue };
            let values = matched.bindings.iter().flat_map(|at| &body.bindings[*at].outputs);
            let values: Vec<String> = values.map(name).collect();
            let part = |node: &Pattern| matched.value(node).map(|value| name(&value));
            let parts: Vec<Option<String>> = nodes.iter().map(part).collect();
            let op = matcher.call(at).map(|call| call.op.clone());
            found.push(json!({
                "function": func.name, "value": name(output), "op": op, "values": values, "parts": parts,
            }));
        }
    }
}
