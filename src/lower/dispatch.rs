//! Dispatch to libraries and external code generators (TVM: `FuseOpsByPattern`, `RunCodegen`): what a pattern
//! matches becomes one call of a packed function.
//!
//! A region is taken where its bindings can be one call: nothing between them may need a part of it and
//! be needed by another. Values inside that others read too become further results of the call. Regions do not
//! overlap: the first one in order of the bindings is taken. Of several patterns the earlier ones take first, and
//! those that match together are one region.
//!
//! Decision: docs/decisions/0079-operators-from-outside.md

mod order;
mod outline;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use reflex_graph::pattern::{Match, Matcher, Pattern};
use reflex_graph::registered::AttrValue;
use reflex_graph::{Binding, Body, Func, FuncData, FuncId, Module, Node, Type, Value, print};
use reflex_runtime::module::Module as RuntimeModule;

use crate::passes::sequence::{ModulePass, RuntimeModules};
use order::{Region, Unit};

/// Decides whether a region is taken.
pub type Check = dyn Fn(&MatchedRegion) -> Result<bool, String> + Send + Sync;
/// Makes a module that has the function of a region, by the region's symbol.
pub type Generate = dyn Fn(&MatchedRegion) -> Result<RuntimeModule, String> + Send + Sync;

/// The code that stands for a region.
#[derive(Clone)]
enum Target {
    /// A packed function by its global name: it takes the region's inputs, constants among them.
    Packed(String),
    /// A function that is generated for each region; constants are inside of it.
    External(Arc<Generate>),
}

/// Patterns and what calls of them become.
#[derive(Clone)]
pub struct Dispatch {
    name: String,
    /// In order; each has the patterns that match together.
    alternatives: Vec<Vec<Pattern>>,
    annotations: Vec<(String, Pattern)>,
    check: Option<Arc<Check>>,
    target: Target,
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dispatch({})", self.name)
    }
}

/// A region that a pattern matched.
#[derive(Clone, Debug)]
pub struct MatchedRegion {
    /// Name of the pattern.
    pub pattern: String,
    /// Name of the function that a generator makes.
    pub symbol: String,
    /// The region as the only function of a module, called [`MatchedRegion::symbol`].
    pub module: Module,
    /// The parts of the pattern that have names.
    pub annotations: Vec<(String, AnnotatedPart)>,
    /// The nodes of the model that it is of.
    pub nodes: Vec<String>,
}

impl MatchedRegion {
    /// The region as TVMScript, with the bytes of its constants.
    pub fn script(&self) -> String {
        print::module_with_metadata(&self.module)
    }
}

/// The value that a named part of a pattern stands for.
#[derive(Clone, Debug)]
pub struct AnnotatedPart {
    /// Its type.
    pub ty: Type,
    /// The operator that computes it, with its attributes, if it is one of the same body.
    pub call: Option<(String, Vec<(String, AttrValue)>)>,
    /// Whether it is a constant.
    pub is_const: bool,
}

impl Dispatch {
    /// Makes what the pattern matches a call of a packed function, with the values that it reads in
    /// order, constants among them.
    pub fn call_packed(name: &str, pattern: Pattern, function: &str) -> Dispatch {
        Dispatch::to(name, pattern, Target::Packed(function.to_owned()))
    }

    /// Makes what the pattern matches a call of a function of the module that a generator makes of it, with
    /// the values that it reads but for constants.
    pub fn external<F>(name: &str, pattern: Pattern, generate: F) -> Dispatch
    where
        F: Fn(&MatchedRegion) -> Result<RuntimeModule, String> + Send + Sync + 'static,
    {
        Dispatch::to(name, pattern, Target::External(Arc::new(generate)))
    }

    fn to(name: &str, pattern: Pattern, target: Target) -> Dispatch {
        let (name, annotations, check) = (name.to_owned(), vec![], None);
        Dispatch { name, alternatives: vec![vec![pattern]], annotations, check, target }
    }

    /// Adds a pattern that matches together with the last one: those that share a part share its value, and
    /// all that they match is one region.
    #[must_use]
    pub fn together_with(mut self, pattern: Pattern) -> Dispatch {
        self.alternatives.last_mut().expect("at least one").push(pattern);
        self
    }

    /// Adds a pattern that takes what those before it leave.
    #[must_use]
    pub fn or_else(mut self, pattern: Pattern) -> Dispatch {
        self.alternatives.push(vec![pattern]);
        self
    }

    /// Names a part of the pattern, for checks and generators.
    #[must_use]
    pub fn annotate(mut self, name: &str, part: Pattern) -> Dispatch {
        self.annotations.push((name.to_owned(), part));
        self
    }

    /// Takes a region only where the function says so.
    #[must_use]
    pub fn check<F>(mut self, check: F) -> Dispatch
    where
        F: Fn(&MatchedRegion) -> Result<bool, String> + Send + Sync + 'static,
    {
        self.check = Some(Arc::new(check));
        self
    }

    /// The name, which is that of the pass.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl ModulePass for Dispatch {
    fn run(&self, mut module: Module, made: &mut RuntimeModules) -> Result<Module, String> {
        let ids: Vec<FuncId> = module.funcs.keys().collect();
        let mut names: HashSet<String> =
            module.funcs.values().map(|func| func.name().to_owned()).collect();
        for func in module.funcs.values() {
            if let FuncData::Graph(func) = func {
                func.body.walk(&mut |binding| {
                    if let Node::CallPacked { name, .. } = &binding.node {
                        names.insert(name.clone());
                    }
                });
            }
        }
        let mut run = Run { dispatch: self, names, made };
        for id in ids {
            let FuncData::Graph(func) = &module.funcs[id] else { continue };
            let mut func = func.clone();
            run.body(&module, &mut func, &[])?;
            module.funcs[id] = FuncData::Graph(func);
        }
        Ok(module)
    }
}

struct Run<'a> {
    dispatch: &'a Dispatch,
    /// Names of functions, packed ones among them.
    names: HashSet<String>,
    made: &'a mut RuntimeModules,
}

/// A region that is taken, with the call that stands for it.
struct Taken {
    region: Region,
    call: Binding,
}

impl Run<'_> {
    /// Replaces what matches in a body, those inside it first. A path has the numbers of bindings and of
    /// their bodies.
    fn body(
        &mut self,
        module: &Module,
        func: &mut Func,
        path: &[(usize, usize)],
    ) -> Result<(), String> {
        let nested: Vec<usize> =
            body_at(func, path).bindings.iter().map(|b| b.node.bodies().len()).collect();
        for (at, count) in nested.into_iter().enumerate() {
            for number in 0..count {
                self.body(module, func, &[path, &[(at, number)]].concat())?;
            }
        }
        let taken = self.regions(module, func, body_at(func, path))?;
        if taken.is_empty() {
            return Ok(());
        }
        let regions: Vec<&Region> = taken.iter().map(|taken| &taken.region).collect();
        let units = order::order(func, body_at(func, path), &regions);
        let units = units.ok_or("a region that was taken makes a circle")?;
        let body = body_at_mut(func, path);
        let mut old: Vec<Option<Binding>> = body.bindings.drain(..).map(Some).collect();
        let mut calls: Vec<Option<Binding>> = taken.into_iter().map(|t| Some(t.call)).collect();
        let new = units.into_iter().filter_map(|unit| match unit {
            Unit::Binding(at) => old[at].take(),
            Unit::Region(number) => calls[number].take(),
        });
        body.bindings = new.collect();
        Ok(())
    }

    fn regions(&mut self, module: &Module, func: &Func, body: &Body) -> Result<Vec<Taken>, String> {
        let matcher = Matcher::new(module, func, body);
        let dispatch = self.dispatch;
        let (mut taken, mut used): (Vec<Taken>, HashSet<usize>) = (vec![], HashSet::new());
        for patterns in &dispatch.alternatives {
            for (at, binding) in body.bindings.iter().enumerate() {
                for root in &binding.outputs {
                    if used.contains(&at) {
                        break;
                    }
                    let failed = |why: String| {
                        let node = match binding.source.as_str() {
                            "" => func.values[*root].name.as_str(),
                            source => source,
                        };
                        format!("pattern {} at node `{node}`: {why}", dispatch.name)
                    };
                    let found = matcher.find_together_at(patterns, *root, &used).map_err(failed)?;
                    let fits = |found: &Match| {
                        found.bindings.contains(&at)
                            && found.bindings.iter().all(|inner| !used.contains(inner))
                    };
                    let Some(found) = found.filter(fits) else { continue };
                    let Some(region) = region(func, body, &matcher, &found) else { continue };
                    if self.makes_circle(func, body, &taken, &region) {
                        tracing::debug!(
                            pattern = dispatch.name,
                            node = binding.source,
                            "no region: it would make a circle"
                        );
                        continue;
                    }
                    let call = self.call(module, func, body, &matcher, &found, &region);
                    if let Some(call) = call.map_err(failed)? {
                        used.extend(&region.bindings);
                        taken.push(Taken { region, call });
                    }
                }
            }
        }
        Ok(taken)
    }

    /// Whether a region beside those that are taken needs what needs it.
    fn makes_circle(&self, func: &Func, body: &Body, taken: &[Taken], region: &Region) -> bool {
        let regions = taken.iter().map(|t| &t.region).chain([region]).collect::<Vec<_>>();
        order::order(func, body, &regions).is_none()
    }

    /// The call that stands for a region; `None` where it is not taken.
    fn call(
        &mut self,
        module: &Module,
        func: &Func,
        body: &Body,
        matcher: &Matcher<'_>,
        found: &Match,
        region: &Region,
    ) -> Result<Option<Binding>, String> {
        let Dispatch { name, check, target, annotations, .. } = self.dispatch;
        let sources: BTreeSet<&str> =
            region.bindings.iter().map(|at| body.bindings[*at].source.as_str()).collect();
        let nodes: Vec<String> =
            sources.into_iter().filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let last = *region.bindings.last().ok_or("an empty region")?;
        let source = body.bindings[last].source.clone();
        let binding = |name: String, args: Vec<Value>| {
            let node = Node::CallPacked { name, args, ints: vec![] };
            Binding { outputs: region.outputs.clone(), node, source: source.clone() }
        };
        // Constants that the text does not show, such as the zero of `relu`, are part of an operator.
        let shown = |value: Value| {
            region.bindings.iter().any(|at| match matcher.call(*at) {
                Some(call) => call.shows(value),
                None => true,
            })
        };
        let inside = |value: &Value| match target {
            Target::Packed(_) => matcher.is_const(*value) && !shown(*value),
            Target::External(_) => matcher.is_const(*value),
        };
        let args: Vec<Value> = region.inputs.iter().copied().filter(|v| !inside(v)).collect();
        if let (Target::Packed(function), None) = (target, check) {
            return Ok(Some(binding(function.clone(), args)));
        }
        let symbol = self.symbol(name);
        let outlined = outline::outline(module, func, body, region, &args, &symbol);
        let Some(outlined) = outlined else {
            tracing::debug!(
                pattern = name,
                node = source,
                "no region: a dimension is none of its inputs'"
            );
            return Ok(None);
        };
        let part = |(name, part): &(String, Pattern)| {
            let value = found.value(part)?;
            let call = matcher.definition(value).and_then(|at| matcher.call(at));
            let call = call.map(|call| (call.op.clone(), call.attrs.clone()));
            let (ty, is_const) = (func.values[value].ty.clone(), matcher.is_const(value));
            Some((name.clone(), AnnotatedPart { ty, call, is_const }))
        };
        let matched = MatchedRegion {
            pattern: name.clone(),
            symbol: symbol.clone(),
            module: outlined,
            annotations: annotations.iter().filter_map(part).collect(),
            nodes,
        };
        if let Some(check) = check
            && !check(&matched).map_err(|why| format!("its check: {why}"))?
        {
            return Ok(None);
        }
        match target {
            Target::Packed(function) => Ok(Some(binding(function.clone(), args))),
            Target::External(generate) => {
                let failed = |why: String| format!("its code generator: {why}");
                let made = generate(&matched).map_err(failed)?;
                let has = made.require(&symbol).map_err(|why| failed(why.to_string()));
                has?;
                self.names.insert(symbol.clone());
                self.made.add(name, made);
                Ok(Some(binding(symbol, args)))
            }
        }
    }

    /// A name for the function of a region that no other function has.
    fn symbol(&self, name: &str) -> String {
        let base: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let free = |name: &String| !self.names.contains(name);
        (0..).map(|n| format!("fused_{base}_{n}")).find(free).unwrap_or(base)
    }
}

/// The region of a match, if it can be a call: inputs and outputs are tensors.
fn region(func: &Func, body: &Body, matcher: &Matcher<'_>, found: &Match) -> Option<Region> {
    let bindings = found.bindings.clone();
    let inner: HashMap<Value, usize> = bindings
        .iter()
        .flat_map(|at| body.bindings[*at].outputs.iter().map(move |value| (*value, *at)))
        .collect();
    let (mut inputs, mut outputs): (Vec<Value>, Vec<Value>) = (vec![], vec![]);
    for at in &bindings {
        body.bindings[*at].node.operands(&mut |value| {
            if !inner.contains_key(&value) && !inputs.contains(&value) {
                inputs.push(value);
            }
        });
        for output in &body.bindings[*at].outputs {
            if matcher.readers(*output).any(|reader| !bindings.contains(&reader)) {
                outputs.push(*output);
            }
        }
    }
    if outputs.is_empty() {
        outputs.clone_from(&body.bindings[*bindings.last()?].outputs);
    }
    let is_tensor = |value: &Value| matches!(func.values[*value].ty, Type::Tensor(_));
    let fits = inputs.iter().chain(&outputs).all(is_tensor);
    fits.then_some(Region { bindings, inputs, outputs })
}

fn body_at<'f>(func: &'f Func, path: &[(usize, usize)]) -> &'f Body {
    path.iter().fold(&func.body, |body, (at, number)| body.bindings[*at].node.bodies()[*number])
}

fn body_at_mut<'f>(func: &'f mut Func, path: &[(usize, usize)]) -> &'f mut Body {
    path.iter().fold(&mut func.body, |body, (at, number)| {
        body.bindings[*at].node.bodies_mut().swap_remove(*number)
    })
}
