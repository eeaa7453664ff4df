//! The table of TVM's node types: fields, and what equality does with them.
//!
//! `table.in` is written by `tests/tvm/node_table.py` from TVM 0.27.0.post1; a test holds it to that.

use std::collections::HashMap;
use std::sync::OnceLock;

/// The demands of structural equality on two nodes of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equality {
    /// The type has no structural equality.
    None,
    /// Their fields are equal.
    Tree,
    /// They are variables that correspond.
    Variable,
    /// Their fields are equal, and what was one node is one node.
    Dag,
    /// Their fields are equal; they hold no variables.
    Constant,
    /// They are the same.
    Unique,
}

/// The part of a field in structural equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It compares it.
    Use,
    /// It ignores it.
    Ignored,
    /// Variables anywhere below it are defined by it.
    DefinesAll,
    /// It is a variable, or a list of variables, that it defines.
    Defines,
}

/// A field of a type.
#[derive(Debug)]
pub struct FieldInfo {
    /// Its name.
    pub name: &'static str,
    /// True if its value stands in the node itself.
    pub inline: bool,
    /// Its part in equality.
    pub role: Role,
}

/// A type of nodes.
#[derive(Debug)]
pub struct TypeInfo {
    /// The demands of equality.
    pub equality: Equality,
    /// The fields, in order.
    pub fields: Vec<FieldInfo>,
}

/// The row of a type.
pub fn find(key: &str) -> Option<&'static TypeInfo> {
    static TABLE: OnceLock<HashMap<&'static str, TypeInfo>> = OnceLock::new();
    TABLE.get_or_init(|| include_str!("table.in").lines().map(row).collect()).get(key)
}

fn row(line: &'static str) -> (&'static str, TypeInfo) {
    let mut words = line.split(' ');
    let (key, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let equality = match kind {
        "tree" => Equality::Tree,
        "var" => Equality::Variable,
        "dag" => Equality::Dag,
        "const" => Equality::Constant,
        "unique" => Equality::Unique,
        _ => Equality::None,
    };
    (key, TypeInfo { equality, fields: words.map(field).collect() })
}

fn field(word: &'static str) -> FieldInfo {
    let (name, marks) = word.split_once(':').unwrap_or((word, ""));
    let role = match marks.trim_start_matches('=') {
        "-" => Role::Ignored,
        "p" => Role::DefinesAll,
        "s" => Role::Defines,
        _ => Role::Use,
    };
    FieldInfo { name, inline: marks.starts_with('='), role }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_what_fields_mean() {
        let call = find("ir.Call").unwrap();
        let names: Vec<&str> = call.fields.iter().map(|field| field.name).collect();
        assert_eq!(names, ["span", "ty", "op", "args", "attrs", "ty_args"]);
        assert_eq!((call.equality, call.fields[0].role), (Equality::Tree, Role::Ignored));
        let loops = find("tirx.For").unwrap();
        assert_eq!(loops.fields[1].role, Role::Defines);
        assert!(loops.fields.iter().any(|field| field.name == "kind" && field.inline));
        assert_eq!(find("relax.expr.Function").unwrap().fields[3].role, Role::DefinesAll);
        assert!(find("mine.Own").is_none());
    }
}
