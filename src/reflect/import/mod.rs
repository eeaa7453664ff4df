//! A module of nodes, by way of its text.
//!
//! The nodes are printed as TVMScript, as TVM prints them, and the text is read as any other: whatever a text
//! may say, nodes may, and nothing is desugared twice. Constants do not go through the text.
//!
//! Nodes are hostile: they may lie anywhere, be shared without end and nested without end. Depth, and the nodes
//! visited in all, are bounded.

mod call;
mod func;
mod kernel;
mod names;
mod prim;
mod reader;
mod types;

use std::collections::{BTreeSet, HashMap, HashSet};

use reflex_graph::{Literal, Module, script};
use reflex_node::graph::{Data, Graph, NodeId};
use reflex_tir::script::{identifier, string};

use self::names::Names;
use self::reader::{Nodes, Read};
use crate::error::ReflectError;
use crate::export::DATA_TYPES;

/// Text that grows while nodes are printed.
struct Writer<'g> {
    nodes: Nodes<'g>,
    out: String,
    indent: usize,
    /// Names in the function that is written.
    names: Names,
    /// Dimensions that signatures mention, which a module declares up front.
    symbols: BTreeSet<String>,
    /// Constants, and their places in the table.
    constants: Vec<Literal>,
    places: HashMap<NodeId, usize>,
    /// True inside a kernel, where integers show their type.
    is_kernel: bool,
    /// Variables that stand for values; other scalar ones are dimensions.
    values: HashSet<NodeId>,
    /// Functions that are the iterations of loops, by their variables.
    iterations: HashMap<NodeId, Option<NodeId>>,
    /// Numbers of references to nodes, without those to variables where they are bound.
    uses: Vec<u32>,
}

pub(crate) fn module(graph: &Graph) -> Result<Module, ReflectError> {
    let mut writer = Writer {
        nodes: Nodes::new(graph),
        out: String::new(),
        indent: 1,
        names: Names::default(),
        symbols: BTreeSet::new(),
        constants: vec![],
        places: HashMap::new(),
        is_kernel: false,
        values: HashSet::new(),
        iterations: HashMap::new(),
        uses: uses(graph),
    };
    writer.module().map_err(ReflectError)?;
    let mut head = String::new();
    for name in &writer.symbols {
        head.push_str(&format!("{name} = TypeVar(\"{name}\")\n"));
    }
    let text = format!("{head}@I.ir_module\nclass Module:\n    pass\n{}", writer.out);
    script::parse_with_constants(&text, "nodes", writer.constants).map_err(|error| {
        let line = text.lines().nth(error.line.saturating_sub(1)).unwrap_or("").trim();
        ReflectError(format!("{} in `{line:.120}`", error.message))
    })
}

fn uses(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0_u32; graph.nodes().len()];
    for node in graph.nodes() {
        let bound = match &*node.key {
            "relax.expr.VarBinding" | "relax.expr.MatchCast" => node.field("var"),
            _ => None,
        };
        node.children(&mut |child| uses[child as usize] = uses[child as usize].saturating_add(1));
        if let Some(reflex_node::graph::Field::Node(var)) = bound {
            uses[*var as usize] -= 1;
        }
    }
    uses
}

impl Writer<'_> {
    fn module(&mut self) -> Read<()> {
        let root = self.nodes.root();
        self.nodes.expect(root, "ir.IRModule")?;
        let attrs = self.nodes.attrs(self.nodes.optional(root, "attrs")?)?;
        for (key, value) in attrs {
            match key.as_str() {
                DATA_TYPES => self.data_types(value)?,
                _ => return Err(format!("the attribute `{key:.64}` of a module")),
            }
        }
        let functions = self.nodes.child(root, "functions")?;
        for (global, function) in self.nodes.entries(functions)? {
            let hint = self.nodes.child_text(global, "name_hint")?;
            let name = identifier(hint);
            match self.nodes.key(function) {
                "relax.expr.Function" => self.function(&name, function)?,
                "tirx.PrimFunc" => self.kernel(&name, function)?,
                key => return Err(format!("the function `{name:.64}` is a {key:.64}")),
            }
        }
        Ok(())
    }

    fn data_types(&mut self, types: NodeId) -> Read<()> {
        for data_type in self.nodes.items(types)? {
            let parts = self.nodes.items(data_type)?;
            let [name, constructors @ ..] = &parts[..] else {
                return Err("a data type without a name".to_owned());
            };
            let mut entries = vec![];
            for pair in constructors.chunks(2) {
                let [constructor, arity] = pair else {
                    return Err("a constructor without fields".to_owned());
                };
                let (name, arity) = (self.nodes.text(*constructor)?, self.nodes.int(*arity)?);
                entries.push(format!("{}: {arity}", string(name)));
            }
            let name = string(self.nodes.text(*name)?);
            self.line(&format!("R.reflex.data_type({name}, {{{}}})", entries.join(", ")));
        }
        Ok(())
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Runs `f` one level of indentation deeper.
    fn indented<T>(&mut self, f: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.indent += 1;
        let result = f(self);
        self.indent -= 1;
        result
    }

    /// Runs `f` for a node, one level of nesting deeper, within the bounds.
    fn deeper<T>(&mut self, id: NodeId, f: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.nodes.enter(id)?;
        let result = f(self);
        self.nodes.leave();
        result
    }

    /// The reference to a constant of the table.
    fn constant(&mut self, id: NodeId) -> Read<String> {
        let value = self.nodes.child(id, "value")?;
        if self.nodes.key(value) == "DataType" {
            return Ok(format!("R.dtype({})", string(self.nodes.text(value)?)));
        }
        self.nodes.expect(value, "ffi.Tensor")?;
        let next = self.constants.len();
        let place = *self.places.entry(value).or_insert(next);
        if place == next {
            let literal = Literal::from_saved(self.nodes.text(value)?);
            let literal =
                literal.ok_or("a constant is damaged, or on another device than the CPU")?;
            self.constants.push(literal);
        }
        Ok(format!("metadata[\"ir.GenericConst\"][{place}]"))
    }

    /// `{"key": value}`, of plain values and lists of them.
    fn dict(&mut self, entries: &[(String, NodeId)]) -> Read<String> {
        let mut texts = vec![];
        for (key, value) in entries {
            texts.push(format!("{}: {}", string(key), self.plain(*value)?));
        }
        Ok(format!("{{{}}}", texts.join(", ")))
    }

    /// A plain value, as attributes have it.
    fn plain(&mut self, id: NodeId) -> Read<String> {
        self.deeper(id, |w| {
            Ok(match (w.nodes.key(id), &w.nodes.node(id).data) {
                ("None", _) => "None".to_owned(),
                ("ffi.String" | "DataType", _) => string(w.nodes.text(id)?),
                ("int" | "bool" | "float", Data::Value(value)) => prim::value(value),
                ("ir.IntImm" | "ir.FloatImm" | "ir.StringImm", _) => w.nodes.immediate(id)?,
                ("ffi.Array" | "ffi.List", Data::Items(items)) => {
                    let items: Vec<String> =
                        items.iter().map(|item| w.plain(*item)).collect::<Read<_>>()?;
                    format!("[{}]", items.join(", "))
                }
                ("relax.expr.ShapeExpr", _) => w.shape(id)?,
                // What a kernel is lowered for; its kind is what is checked.
                ("target.Target", _) => {
                    format!("T.target({})", string(w.nodes.child_text(id, "kind")?))
                }
                (key, _) => return Err(format!("an attribute that is a {key:.64}")),
            })
        })
    }
}
