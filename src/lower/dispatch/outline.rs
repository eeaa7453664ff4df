//! A region as a function of its own.

use std::collections::{HashMap, HashSet};

use reflex_graph::{Binding, Body, Const, Func, FuncData, FuncId, Module, Node, Type, Value};
use reflex_tir::Expr;

use super::order::Region;
use crate::graph::edit::constants;

/// A module whose only graph function is the region, with these parameters; constants that are none of them are
/// inside. `None` where it needs a dimension that no parameter has.
pub(super) fn outline(
    module: &Module,
    func: &Func,
    body: &Body,
    region: &Region,
    params: &[Value],
    name: &str,
) -> Option<Module> {
    let mut outlined = Module { pool: module.pool.clone(), ..Module::default() };
    let mut new = Func { syms: func.syms.clone(), ..Func::new(name) };
    let mut values: HashMap<Value, Value> = HashMap::new();
    let mut known = HashSet::new();
    let mut used = HashSet::new();
    let mut fresh = |new: &mut Func, value: Value| {
        let data = &func.values[value];
        if let Type::Tensor(ty) = &data.ty {
            ty.shape.iter().for_each(|dim| dim.visit(&mut |e| used.extend(e.as_var())));
        }
        *values.entry(value).or_insert_with(|| new.new_value(data.name.clone(), data.ty.clone()))
    };
    for param in params {
        let value = fresh(&mut new, *param);
        new.params.push(value);
        let shape = func.values[*param].ty.as_tensor().map(|ty| &ty.shape);
        known.extend(shape.into_iter().flatten().filter_map(Expr::as_var));
    }
    let consts: HashMap<Value, Const> = constants(&func.body);
    for input in region.inputs.iter().filter(|input| !params.contains(input)) {
        let constant = outlined.add_const(module.consts[*consts.get(input)?].clone());
        let (outputs, node) = (vec![fresh(&mut new, *input)], Node::Const(constant));
        new.body.bindings.push(Binding { outputs, node, source: String::new() });
    }
    let mut kernels: HashMap<FuncId, FuncId> = HashMap::new();
    let mut mentioned = HashSet::new();
    for at in &region.bindings {
        let binding = &body.bindings[*at];
        let mut node = binding.node.clone();
        node.operands_mut(&mut |value| *value = fresh(&mut new, *value));
        node.dims(&mut |dim| dim.visit(&mut |e| mentioned.extend(e.as_var())));
        if let Node::CallTir { func: callee, .. } = &mut node {
            let own = kernels.entry(*callee);
            *callee = *own.or_insert_with(|| outlined.funcs.push(module.funcs[*callee].clone()));
        }
        let outputs = binding.outputs.iter().map(|value| fresh(&mut new, *value)).collect();
        new.body.bindings.push(Binding { outputs, node, source: binding.source.clone() });
    }
    let results = region.outputs.iter().map(|value| fresh(&mut new, *value)).collect();
    new.body.results = results;
    new.result_names = (0..region.outputs.len()).map(|n| format!("output{n}")).collect();
    used.extend(mentioned);
    outlined.funcs.push(FuncData::Graph(new));
    used.is_subset(&known).then_some(outlined)
}
