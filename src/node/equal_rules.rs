//! Which fields equality and hash look at, in which order: those of the table, but for types that TVM
//! compares by a function of their own.

use crate::graph::{Data, Field, Graph, Node, Value};
use crate::table::{self, Equality, Role};

/// A field as equality sees it.
#[derive(Debug)]
pub enum Compared<'a> {
    /// A field of a name, which this node may lack.
    Known(&'static str, Option<&'a Field>),
    /// A field that the table does not have.
    Unknown(&'a str, &'a Field),
}

/// Types with an order of their own; fields that are not listed are not compared.
const OWN: [(&str, &[&str]); 5] = [
    ("ir.GlobalVar", &["name_hint"]),
    ("ir.IRModule", &["functions", "global_var_map_"]),
    ("relax.expr.SeqExpr", &["blocks", "ty", "body"]),
    ("relax.expr.VarBinding", &["value", "var"]),
    ("tirx.PrimFunc", &["params", "ret_type", "attrs", "body"]),
];

/// The demands of equality on a node; none if its type has no structural equality.
pub fn equality(node: &Node) -> Option<Equality> {
    if &*node.key == "ir.GlobalVar" {
        return Some(Equality::Tree);
    }
    match (&node.data, table::find(&node.key)) {
        (_, Some(info)) if info.equality != Equality::None => Some(info.equality),
        // Plain values and containers, and objects that are a name.
        (Data::None | Data::Value(_) | Data::Items(_) | Data::Numbers(_), _) => {
            Some(Equality::Tree)
        }
        (Data::Fields(_), _) => None,
    }
}

/// The fields of a node that are compared, in order.
pub fn compared<'g>(graph: &Graph, node: &'g Node) -> Vec<Compared<'g>> {
    let Data::Fields(fields) = &node.data else { return vec![] };
    let own = OWN.iter().find(|(key, _)| *key == &*node.key);
    if let Some((_, names)) = own {
        // A function may refer to the variable that it is bound to.
        let is_function = |field: &Field| match field {
            Field::Node(id) => &*graph.node(*id).key == "relax.expr.Function",
            Field::Value(_) => false,
        };
        if node.field("value").is_some_and(is_function) {
            let known = |name| Compared::Known(name, node.field(name));
            return names.iter().rev().map(|name| known(name)).collect();
        }
        return names.iter().map(|name| Compared::Known(name, node.field(name))).collect();
    }
    let infos = table::find(&node.key).map_or(&[][..], |info| &info.fields);
    let used = infos.iter().filter(|info| info.role != Role::Ignored);
    let known = used.map(|info| Compared::Known(info.name, node.field(info.name)));
    let is_known = |name: &str| infos.iter().any(|info| info.name == name);
    let unknown = fields.iter().filter(|(name, _)| !is_known(name));
    known.chain(unknown.map(|(name, field)| Compared::Unknown(name, field))).collect()
}

/// True if two values are the same; NaN is.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => {
            a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
        }
        (a, b) => a == b,
    }
}
