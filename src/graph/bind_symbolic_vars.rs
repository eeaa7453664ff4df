//! Shape specialisation: symbolic dimensions become constants (Relax `BindSymbolicVars`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cranelift_entity::PrimaryMap;
use reflex_tir::{Expr, Var};

use crate::dims::{equal, product, simplify};
use crate::ir::{Binding, Body, Func, Node, Type, Value, ValueData};
use crate::op::Op;

/// The message for the first of `dims` that no input has, where `known` are those that inputs have.
pub fn unknown_dim(dims: &BTreeMap<String, i64>, known: &BTreeSet<String>) -> Option<String> {
    let name = dims.keys().find(|name| !known.contains(*name))?;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let known = match known.is_empty() {
        true => "the inputs have known shapes".to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    Some(format!("no input has a dimension named {name:?}; {known}"))
}

impl Func {
    /// The values of symbolic dimensions that the shapes of the arguments determine: one shape per
    /// parameter, empty for one that is not a tensor. A dimension that no parameter's type has by
    /// itself is left out.
    pub fn infer_symbolic_var_map(&self, shapes: &[&[i64]]) -> HashMap<Var, i64> {
        let types = self.params.iter().map(|p| self.values[*p].ty.as_tensor());
        let pairs = types.zip(shapes).filter_map(|(ty, shape)| Some((ty?, shape)));
        let dims = pairs.flat_map(|(ty, shape)| ty.shape.iter().zip(*shape));
        dims.filter_map(|(dim, value)| Some((dim.as_var()?, *value))).collect()
    }

    /// Replaces symbolic dimensions by constants everywhere. The function's checks of its arguments
    /// then check for these constants.
    ///
    /// A reshape to another number of elements, as in a branch for other shapes, becomes a check
    /// that fails. [`Func::symbolic_shape`] keeps the shapes from before: schedule rules that round
    /// differently are chosen by those, so that results stay the same bits.
    pub fn bind_symbolic_vars(&mut self, values: &HashMap<Var, i64>) {
        let bind = |e: &mut Expr| {
            *e = simplify(&e.substitute(&|v| values.get(&v).map(|value| Expr::i64(*value))));
        };
        for (id, value) in &mut self.values {
            let before = value.ty.as_tensor().map(|t| t.shape.clone());
            bind_type(&mut value.ty, &bind);
            let after = value.ty.as_tensor().map(|t| &t.shape);
            if let Some(shape) = before.filter(|shape| Some(shape) != after) {
                self.symbolic_shapes.entry(id).or_insert(shape);
            }
        }
        bind_body(&self.values, &mut self.body, &bind);
    }

    /// Replaces dimensions everywhere, those that [`Func::symbolic_shape`] keeps aside. A reshape to another
    /// number of elements becomes a check that fails.
    pub fn replace_dims(&mut self, replace: &dyn Fn(&mut Expr)) {
        self.values.values_mut().for_each(|value| bind_type(&mut value.ty, replace));
        bind_body(&self.values, &mut self.body, replace);
    }
}

impl Func {
    /// The shape of a value before [`Func::bind_symbolic_vars`]. Schedule rules that round
    /// differently are chosen by it.
    pub fn symbolic_shape(&self, value: Value) -> &[Expr] {
        let bound = || self.values[value].ty.as_tensor().map_or(&[][..], |t| &t.shape);
        self.symbolic_shapes.get(&value).map_or_else(bound, Vec::as_slice)
    }
}

fn bind_type(ty: &mut Type, bind: &dyn Fn(&mut Expr)) {
    match ty {
        Type::Tensor(t) => t.shape.iter_mut().for_each(bind),
        Type::Shape(dims) => dims.iter_mut().for_each(bind),
        Type::Tuple(fields) => fields.iter_mut().for_each(|ty| bind_type(ty, bind)),
        Type::AnyTensor { .. } | Type::AnyShape | Type::Prim(_) | Type::Func | Type::Object => {}
    }
}

fn bind_body(values: &PrimaryMap<Value, ValueData>, body: &mut Body, bind: &dyn Fn(&mut Expr)) {
    for binding in &mut body.bindings {
        binding.node.dims_mut(&mut |e| bind(e));
        if let Some(x) = never_fits(values, binding) {
            binding.node = Node::MatchCast(x);
        }
        binding.node.bodies_mut().into_iter().for_each(|body| bind_body(values, body, bind));
    }
}

/// The operand of a reshape that always fails at run time.
fn never_fits(values: &PrimaryMap<Value, ValueData>, binding: &Binding) -> Option<Value> {
    let Node::Op { op: Op::Reshape(shape), args } = &binding.node else { return None };
    let [x] = args[..] else { return None };
    let before = product(&values[x].ty.as_tensor()?.shape);
    (equal(&before, &product(shape)) == Some(false)).then_some(x)
}
