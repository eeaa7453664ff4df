//! The dimensions of a group as its kernel has them: kernels are general over the dimensions of their
//! operands, whatever these are in the graph.
//!
//! Deep in a network a dimension is an expression over the shapes of the model's inputs, such as
//! `((height + 1) // 2 + 1) // 2`. A kernel that reads a tensor with that dimension needs one variable,
//! which the tensor's shape binds when it is called. So each operand's dimension that is not
//! an expression over others becomes a variable. That leaves less to prove about the kernel's indices, no
//! arguments beside the tensors, and equal kernels at different depths.
//!
//! Where the group has an expression that such variables cannot replace, its dimensions stay
//! what they are in the graph.

use std::collections::{HashMap, HashSet};

use cranelift_entity::PrimaryMap;
use reflex_graph::{Func, Op, TensorType, Value};
use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Expr, ExprKind, Var, VarData};

/// An operator with its operands and results.
pub type OpValues<'a> = (&'a Op, &'a [Value], &'a [Value]);

/// Types and operators of a group over the kernel's dimensions.
pub struct KernelDims {
    /// The graph function's dimensions, and those of the kernel behind them.
    pub vars: PrimaryMap<Var, VarData>,
    /// The kernel's own dimensions, behind the graph's expressions for them.
    own: Vec<(Expr, Var)>,
    types: HashMap<Value, TensorType>,
    /// The operators of the members.
    pub ops: Vec<Op>,
}

impl KernelDims {
    pub fn of(graph: &Func, members: &[OpValues<'_>]) -> KernelDims {
        let group = Group::of(graph, members);
        let mut dims = KernelDims {
            vars: PrimaryMap::new(),
            own: vec![],
            types: HashMap::new(),
            ops: members.iter().map(|(op, ..)| (*op).clone()).collect(),
        };
        let mut refused = HashSet::new();
        loop {
            dims.vars = graph.syms.clone();
            dims.own = choose(&group, &refused, &mut dims.vars);
            let unbound = dims.unbound(&group);
            let hides = |e: &Expr| vars(e).iter().any(|v| unbound.contains(v));
            let lost: Vec<Expr> =
                dims.own.iter().map(|(e, _)| e).filter(|e| hides(e)).cloned().collect();
            if lost.is_empty() {
                break;
            }
            refused.extend(lost);
        }
        let own = &dims.own;
        dims.ops.iter_mut().for_each(|op| op.dims_mut(&mut |e| *e = replaced(e, own)));
        let over = |ty: &TensorType| {
            TensorType::new(ty.dtype, ty.shape.iter().map(|e| replaced(e, own)).collect())
        };
        dims.types = group.types.iter().map(|(value, ty)| (*value, over(ty))).collect();
        dims
    }

    /// The type of a tensor of the group.
    pub fn ty(&self, value: Value) -> Option<&TensorType> {
        self.types.get(&value)
    }

    /// The dimension in the graph that a variable stands for.
    pub fn in_graph(&self, var: Var) -> Expr {
        let own = self.own.iter().find(|(_, own)| *own == var);
        own.map_or_else(|| Expr::var(var), |(e, _)| e.clone())
    }

    /// The graph's dimensions that the group still names, and that no operand has alone.
    fn unbound(&self, group: &Group<'_>) -> HashSet<Var> {
        let own = |v: &Var| self.own.iter().any(|(_, own)| own == v);
        let mut left = HashSet::new();
        group.dims.iter().for_each(|e| left.extend(vars(&replaced(e, &self.own))));
        left.retain(|v| !own(v) && !group.bound.contains(v));
        left
    }
}

/// The dimensions that a group names.
struct Group<'a> {
    types: Vec<(Value, &'a TensorType)>,
    /// Dimensions of the tensors that the group reads, which are not constant.
    operands: Vec<Expr>,
    /// All dimensions, of operators too.
    dims: Vec<Expr>,
    /// Variables that are a whole dimension of an operand.
    bound: HashSet<Var>,
}

impl<'a> Group<'a> {
    fn of(graph: &'a Func, members: &[OpValues<'_>]) -> Group<'a> {
        let outputs: HashSet<Value> =
            members.iter().flat_map(|(.., outputs)| outputs.iter().copied()).collect();
        let values =
            members.iter().flat_map(|(_, args, outputs)| args.iter().chain(*outputs).copied());
        let types: Vec<(Value, &TensorType)> =
            values.filter_map(|v| Some((v, graph.values[v].ty.as_tensor()?))).collect();
        let read = types.iter().filter(|(v, _)| !outputs.contains(v));
        let mut operands: Vec<Expr> =
            read.flat_map(|(_, ty)| &ty.shape).filter(|e| e.as_int().is_none()).cloned().collect();
        // What is part of another comes before it.
        operands.sort_by_key(size);
        operands.dedup();
        let mut dims: Vec<Expr> = types.iter().flat_map(|(_, ty)| ty.shape.clone()).collect();
        members.iter().for_each(|(op, ..)| op.dims(&mut |e| dims.push(e.clone())));
        let bound = operands.iter().filter_map(Expr::as_var).collect();
        Group { types, operands, dims, bound }
    }
}

/// The kernel's own dimensions with what they are in the graph; none of `refused`.
fn choose(
    group: &Group<'_>,
    refused: &HashSet<Expr>,
    all: &mut PrimaryMap<Var, VarData>,
) -> Vec<(Expr, Var)> {
    let mut own: Vec<(Expr, Var)> = vec![];
    for dim in &group.operands {
        let rest = replaced(dim, &own);
        let known = |v: &Var| group.bound.contains(v) || own.iter().any(|(_, own)| own == v);
        if vars(&rest).iter().all(known) {
            continue;
        }
        // A constant factor stays in sight: loops over its multiples need no rest.
        let free = without_factor(dim);
        if free.as_var().is_some() || refused.contains(free) {
            continue;
        }
        let dtype = dim.dtype();
        let var = all.push(VarData { name: format!("d{}", own.len()).into(), dtype });
        own.push((free.clone(), var));
    }
    own
}

fn without_factor(e: &Expr) -> &Expr {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } if b.as_int().is_some() => without_factor(a),
        ExprKind::Binary { op: BinOp::Mul, a, b } if a.as_int().is_some() => without_factor(b),
        _ => e,
    }
}

fn vars(e: &Expr) -> Vec<Var> {
    let mut list = vec![];
    e.visit(&mut |e| list.extend(e.as_var()));
    list
}

fn size(e: &Expr) -> usize {
    let mut nodes = 0;
    e.visit(&mut |_| nodes += 1);
    nodes
}

/// The expression over the kernel's dimensions.
fn replaced(e: &Expr, own: &[(Expr, Var)]) -> Expr {
    let name = |part: &Expr, var: &Var| Expr::new(ExprKind::Var { var: *var, dtype: part.dtype() });
    if let Some((part, var)) = own.iter().find(|(part, _)| part == e) {
        return name(part, var);
    }
    let quotient = own.iter().find_map(|(part, var)| of_quotient(e, part, &name(part, var)));
    quotient.unwrap_or_else(|| e.map_children(&mut |e| replaced(e, own)))
}

/// `(a + c * m) // (m * k)` where `part`, which is named `name`, is `a // m + n`: `(name - n + c) // k`. What
/// strides do one after the other, inference writes as one division.
fn of_quotient(e: &Expr, part: &Expr, name: &Expr) -> Option<Expr> {
    let (a, m, n) = match part.kind() {
        ExprKind::Binary { op: BinOp::Add, a, b } => {
            let (a, m) = division(a)?;
            (a, m, b.as_int()?)
        }
        ExprKind::Binary { op: BinOp::Sub, a, b } => {
            let (a, m) = division(a)?;
            (a, m, b.as_int()?.checked_neg()?)
        }
        _ => {
            let (a, m) = division(part)?;
            (a, m, 0)
        }
    };
    let (b, by) = division(e)?;
    let apart = Analyzer::new().simplify(&(b.clone() - a.clone())).as_int()?;
    let divides = by % m == 0 && apart % m == 0;
    divides.then(|| (name.clone() + (apart / m - n)).floordiv(by / m))
}

/// The dividend and the divisor of a division by a positive constant.
fn division(e: &Expr) -> Option<(&Expr, i64)> {
    match e.kind() {
        ExprKind::Binary { op: BinOp::FloorDiv, a, b } => {
            b.as_int().filter(|m| *m > 0).map(|m| (a, m))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use reflex_tir::DType;

    use super::*;

    #[test]
    fn divisions_of_a_dimension_are_divisions_of_its_name() {
        let mut vars: PrimaryMap<Var, VarData> = PrimaryMap::new();
        let mut var = |name: &str| vars.push(VarData { name: name.into(), dtype: DType::I64 });
        let (n, d) = (var("n"), var("d"));
        let at = |value: i64| move |v: Var| (v == n).then(|| Expr::i64(value));
        for part in [
            (Expr::var(n) + 64).floordiv(128) - 1,
            (Expr::var(n) + 1).floordiv(2),
            Expr::var(n).floordiv(3) + 2,
        ] {
            let own = [(part.clone(), d)];
            for add in [-1, 0, 1, 2, 63, 64, 65, 128, 192] {
                for by in [1, 2, 3, 4, 6, 128, 256] {
                    let e = (Expr::var(n) + add).floordiv(by) + 5;
                    let general = replaced(&e, &own);
                    for value in 0..700 {
                        let before = Analyzer::new().simplify(&e.substitute(&at(value)));
                        let whole = Analyzer::new().simplify(&part.substitute(&at(value)));
                        let named = general.substitute(&|v| (v == d).then(|| whole.clone()));
                        let after = Analyzer::new().simplify(&named.substitute(&at(value)));
                        assert_eq!(before, after, "{e:?} as {general:?} where n is {value}");
                    }
                }
            }
        }
        let e = replaced(&(Expr::var(n) + 1).floordiv(8), &[((Expr::var(n) + 1).floordiv(2), d)]);
        assert_eq!(e, Expr::var(d).floordiv(4));
    }
}
