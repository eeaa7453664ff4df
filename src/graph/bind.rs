//! Functions for extents that are known: symbolic dimensions become constants.

use std::collections::HashMap;

use reflex_tir::{Expr, Var};

use crate::dims::simplify;
use crate::{Body, Func, Type};

impl Func {
    /// What the extents of the arguments say of the symbolic dimensions: one list per parameter,
    /// empty for what is no tensor. Dimensions that stand in no parameter's type by themselves
    /// are left out.
    pub fn extents_of(&self, shapes: &[&[i64]]) -> HashMap<Var, i64> {
        let types = self.params.iter().map(|p| self.values[*p].ty.as_tensor());
        let pairs = types.zip(shapes).filter_map(|(ty, shape)| Some((ty?, shape)));
        let dims = pairs.flat_map(|(ty, shape)| ty.shape.iter().zip(*shape));
        dims.filter_map(|(dim, extent)| Some((dim.as_var()?, *extent))).collect()
    }

    /// Writes the extent for each of these symbolic dimensions wherever it is mentioned. What
    /// the function checks of its arguments then checks for these extents.
    pub fn bind_dims(&mut self, extents: &HashMap<Var, i64>) {
        let bind = |e: &mut Expr| {
            *e = simplify(&e.substitute(&|v| extents.get(&v).map(|extent| Expr::i64(*extent))));
        };
        for value in self.values.values_mut() {
            bind_type(&mut value.ty, &bind);
        }
        bind_body(&mut self.body, &bind);
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

fn bind_body(body: &mut Body, bind: &dyn Fn(&mut Expr)) {
    for binding in &mut body.bindings {
        binding.node.dims_mut(&mut |e| bind(e));
        binding.node.bodies_mut().into_iter().for_each(|body| bind_body(body, bind));
    }
}
